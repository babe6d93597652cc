"""Schedules, optimizers' state dicts and loaders answer as PyTorch does: tests/golden/python_api.py, number for number."""
import gzip
import json
import os
import sys
import unittest

import facula
import facula.optim.lr_scheduler  # noqa: F401
import facula.utils.data  # noqa: F401

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden")
sys.path.insert(0, GOLDEN)
import python_api  # noqa: E402

with gzip.open(os.path.join(GOLDEN, "python.json.gz")) as f:
    ANSWERS = json.load(f)["answers"]


def difference(theirs, ours, path=""):
    """The first place where two answers differ, or None."""
    if type(theirs) is not type(ours) and not {type(theirs), type(ours)} <= {int, float}:
        return f"{path}: PyTorch {theirs!r}, Facula {ours!r}"
    if isinstance(theirs, dict):
        if list(theirs) != list(ours):
            return f"{path}: keys {list(theirs)}, Facula {list(ours)}"
        pairs = [(key, theirs[key], ours[key]) for key in theirs]
    elif isinstance(theirs, list):
        if len(theirs) != len(ours):
            return f"{path}: PyTorch {theirs!r}, Facula {ours!r}"
        pairs = [(i, *both) for i, both in enumerate(zip(theirs, ours))]
    else:
        # an error's text begins as PyTorch's and may go on with what mends it
        longer = isinstance(theirs, str) and (theirs == "" or (" " in theirs and ours.startswith(theirs + ". ")))
        return None if theirs == ours or longer else f"{path}: PyTorch {theirs!r}, Facula {ours!r}"
    for key, a, b in pairs:
        found = difference(a, b, f"{path}[{key!r}]")
        if found:
            return found
    return None


class Golden(unittest.TestCase):
    maxDiff = None

    def test_all_cases_have_answers(self):
        self.assertEqual(sorted(ANSWERS), sorted(python_api.CASES))


def _test(name):
    def test(self):
        self.assertIsNone(difference(ANSWERS[name], python_api.answer(python_api.CASES[name], facula)))
    return test


for _name in python_api.CASES:
    setattr(Golden, "test_" + _name, _test(_name))

if __name__ == "__main__":
    unittest.main()
