"""Every name that PyTorch has about devices (tests/golden/names.txt) is here with PyTorch's parameters, or says why it is not."""

import importlib
import inspect
import os
import sys
import unittest
import warnings

import facula as torch
from facula import _missing

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden")
sys.path.insert(0, GOLDEN)
import make_names  # noqa: E402

# Names whose parameters are others, on purpose.
DIFFERS = {"xpu.MemPool", "xpu.MemPool.snapshot", "xpu.XPUGraph.capture_begin", "xpu.graph", "xpu.graphs.graph", "xpu.graphs.XPUGraph.capture_begin",
           "xpu.memory.MemPool", "xpu.memory.MemPool.snapshot"}  # those of cuda's, for every kind of device


def find(path):
    """What a name below torch means, by attributes and imports; LookupError if it is not there."""
    thing = torch
    done = torch.__name__
    for part in path.split("."):
        done += "." + part
        try:
            thing = getattr(thing, part)
        except AttributeError:
            try:
                thing = importlib.import_module(done)
            except ImportError:
                raise LookupError(path) from None
    return thing


def rows():
    """(name, kind, parameters) of the golden file."""
    with open(os.path.join(GOLDEN, "names.txt"), encoding="utf-8") as f:
        for line in f:
            yield [part.strip() for part in line.split("|", 2)]


def is_bound(name):
    """Whether the first parameter of a method is the object that it is asked of."""
    owner, _, last = name.rpartition(".")
    return not isinstance(inspect.getattr_static(find(owner), last), (staticmethod, classmethod))


class Names(unittest.TestCase):
    def setUp(self):
        catch = warnings.catch_warnings()
        catch.__enter__()
        self.addCleanup(catch.__exit__, None, None, None)
        warnings.simplefilter("ignore")

    def test_each_is_there_or_says_why_not(self):
        silent, found = [], 0
        for name, _, _ in rows():
            try:
                find(name)
                found += 1
            except LookupError:
                if not _missing.status(name):
                    silent.append(name)
        self.assertEqual(silent, [])
        self.assertGreater(found, 500)

    def test_parameters_are_torchs(self):
        wrong, seen = [], 0
        for name, kind, theirs in rows():
            if kind not in ("function", "class", "method") or theirs == "?":
                continue
            try:
                thing = find(name)
            except LookupError:
                continue
            ours = make_names.parameters(thing, kind == "method" and is_bound(name))
            seen += 1
            if (ours != theirs) != (name in DIFFERS):
                wrong.append(f"{name}{theirs}: here {ours}")
        self.assertEqual(wrong, [], "\n".join(wrong))
        self.assertGreater(seen, 350)

    def test_the_error_of_what_is_not_there(self):
        for name in _missing.absent():
            owner, _, last = name.rpartition(".")
            with self.subTest(name=name):
                try:
                    find(name)
                    continue  # it came since: then nobody asks the table
                except LookupError:
                    pass
                try:
                    module = find(owner) if owner else torch
                except LookupError:
                    continue  # the part above it is not there, and says so
                if inspect.ismodule(module):
                    with self.assertRaises(AttributeError) as caught:
                        getattr(module, last)
                    self.assertIn(_missing.status(name), str(caught.exception))

    def test_modules_of_devices_can_be_imported(self):
        for name, kind, _ in rows():
            if kind == "module" and not _missing.status(name):
                with self.subTest(name=name):
                    self.assertTrue(inspect.ismodule(importlib.import_module(f"{torch.__name__}.{name}")))


if __name__ == "__main__":
    unittest.main()
