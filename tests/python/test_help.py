"""Help: every public name says what it is, and shows an example whose printed result is PyTorch's (python/examples.tab)."""

import ast
import contextlib
import doctest
import importlib.util
import inspect
import os
import pkgutil
import subprocess
import sys
import tempfile
import types
import unittest
import warnings

os.environ["FACULA_SIM"] = "cuda:2"  # the examples of devices need two

import examples
import facula
import facula.nn  # noqa: F401
import facula.nn.functional as F
import facula.nn.utils.parametrizations
import facula.optim.lr_scheduler
import facula.utils.data

NUMPY = importlib.util.find_spec("numpy") is not None
HOME = os.path.dirname(os.path.abspath(facula.__file__))
# All names of all modules have help and an example, but for these: name, or module with all that is in it, and why.
NO_EXAMPLE = {
    "facula.load_ipython_extension": "only a notebook can call it",
    "facula.nn.functional.multi_head_attention_forward": "nn.MultiheadAttention's own, with 24 arguments; the layer has an example",
    "facula.distributions.base": "what the distributions share; their own module names what is public",
    "facula.distributions.continuous": "see facula.distributions",
    "facula.distributions.discrete": "see facula.distributions",
    "facula.nn.modules.layers": "makes the layers; torch.nn has them",
    "facula.nn.modules.others": "makes the layers; torch.nn has them",
    "facula.utils.data.fetch": "inside of DataLoader",
    "facula.utils.data.transport": "inside of DataLoader",
    "facula.utils.data.worker": "inside of DataLoader",
    "facula.utils.tensorboard.events": "the bytes of an events file; SummaryWriter writes it",
    "facula.utils.tensorboard.writer": "see facula.utils.tensorboard",
}


def modules():
    """All modules of the package that can be imported here, and those that hold names of C."""
    yield facula
    for found in pkgutil.walk_packages([HOME], "facula."):
        if "._on_path" in found.name or found.name.endswith(("__main__", "libfacula_sim")):
            continue
        yield importlib.import_module(found.name)


def public():
    """(full name, object) of all functions and classes of the modules whose names have no underscore in front, each object once."""
    seen = set()
    for module in modules():
        if any(part.startswith("_") for part in module.__name__.split(".")) or module.__name__ in NO_EXAMPLE:
            continue
        for name in sorted(getattr(module, "__all__", None) or [n for n in dir(module) if not n.startswith("_")]):
            value = getattr(module, name)
            full = f"{module.__name__}.{name}"
            if callable(value) and own(value) and full not in NO_EXAMPLE and id(value) not in seen:
                seen.add(id(value))
                yield full, value


def own(value):
    """Not something of Python's that a module has imported."""
    home = getattr(value, "__module__", None) or "facula"
    return not isinstance(value, types.ModuleType) and home.startswith(("facula", "torch"))


def docstrings():
    """(where, text) of all docstrings with examples, each once."""
    seen = set()
    for module in modules():
        owners = [module] + [v for _, v in inspect.getmembers(module, inspect.isclass) if own(v)]
        if module is facula:
            owners.append(facula._C._nn)
        for owner in owners:
            for name in [None, *vars(owner)]:
                value = owner if name is None else inspect.getattr_static(owner, name)
                text = value.__doc__ if own(value) else None
                if isinstance(text, str) and ">>> " in text and text not in seen:
                    seen.add(text)
                    yield f"{getattr(owner, '__module__', '')}.{owner.__name__}.{name}", text


class Docstrings(unittest.TestCase):
    def test_every_name_has_help_and_an_example(self):
        names = list(public())
        self.assertGreater(len(names), 1200)
        self.assertEqual([n for n, v in names if ">>> " not in (v.__doc__ or "") or len(v.__doc__.split(">>> ")[0].split()) < 3], [])

    def test_exceptions_are_needed(self):
        """What the list above names is there, and has no example."""
        for full in NO_EXAMPLE:
            if full not in sys.modules:
                module, _, name = full.rpartition(".")
                self.assertNotIn(">>> ", getattr(sys.modules[module], name).__doc__, full)

    def test_methods_of_classes_have_help(self):
        """Also inherited."""
        silent = []
        for full, kind in public():
            for name in vars(kind) if inspect.isclass(kind) else ():
                value = getattr(kind, name)
                if name.startswith("_") or not (callable(value) or isinstance(value, property)):
                    continue
                if not any(getattr(base, name).__doc__ for base in kind.__mro__ if hasattr(base, name)):
                    silent.append(f"{full}.{name}")
        self.assertEqual(silent, [])

    def test_methods_have_help_and_examples(self):
        made = [(n, inspect.getattr_static(facula.Tensor, n)) for n in dir(facula.Tensor) if not n.startswith("_")]
        self.assertEqual([n for n, value in made if ">>> " not in (inspect.getdoc(value) or "")], [])

    def test_signatures_are_seen(self):
        """help() and editors get a signature from the first line."""
        for owner in (facula._C, facula._C._nn, facula.Tensor):
            for name in dir(owner):
                value = getattr(owner, name)
                if not name.startswith("_") and isinstance(value, (types.BuiltinFunctionType, types.MethodDescriptorType)):
                    with self.subTest(name=name):
                        self.assertIn("(", str(inspect.signature(value)))

    def test_examples_print_what_pytorch_prints(self):
        before = os.getcwd()
        found, wrong = 0, []
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            os.chdir(folder)
            try:
                for where, text in docstrings():
                    if "numpy" in text and not NUMPY:
                        continue
                    statements = doctest.DocTestParser().get_examples(text.replace("from torch.", "from facula."))
                    found += len(statements)
                    wrong += [f"{where}:\n{d}" for d in examples.differences(statements, facula)]
            finally:
                os.chdir(before)
        self.assertGreater(found, 1700)
        self.assertFalse(wrong, "\n".join(wrong))


if __name__ == "__main__":
    unittest.main()
