"""What programs see of tensors is what PyTorch shows: printed forms, types, errors, devices (tests/golden/python_facts.py)."""

import gzip
import json
import os
import re
import sys
import unittest

import facula

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden")
sys.path.insert(0, GOLDEN)
import python_facts  # noqa: E402

with gzip.open(os.path.join(GOLDEN, "python_facts.json.gz")) as f:
    ANSWERS = json.load(f)["answers"]


def agree(theirs, ours):
    """The same value; or the same class of error, whose text begins with PyTorch's first sentence. The same warnings.

    The kernels that PyTorch names in '"abs_cpu" not implemented for' are its own.
    """
    theirs, ours = ([a, re.sub(r'^"\w+" not', "It is not", b).replace("'facula'", "'torch'"), c] for a, b, c in (theirs, ours))
    if theirs[0] != ours[0] or len(theirs[2]) != len(ours[2]):
        return False
    same_text = ours[1] == theirs[1] if theirs[0] == "value" else ours[1].startswith(theirs[1])
    return same_text and all(b.startswith(a) for a, b in zip(theirs[2], ours[2]))


class Facts(unittest.TestCase):
    maxDiff = None

    def check(self, name):
        wrong = []
        for line in python_facts.CASES[name]:
            theirs, ours = ANSWERS[name][line], python_facts.answer(line, facula)
            if agree(theirs, ours) == (line in python_facts.DIFFERS):
                wrong.append(f"{line}\n  PyTorch {theirs}\n  Facula  {ours}")
        self.assertFalse(wrong, f"{len(wrong)} answers are not as expected:\n" + "\n".join(wrong))

    def test_all_lines_have_answers(self):
        lines = {name: sorted(set(lines)) for name, lines in python_facts.CASES.items()}
        self.assertEqual(lines, {name: sorted(answers) for name, answers in ANSWERS.items()})

    def test_exceptions_are_lines(self):
        lines = {line for lines in python_facts.CASES.values() for line in lines}
        self.assertFalse(set(python_facts.DIFFERS) - lines)


for _name in python_facts.CASES:
    setattr(Facts, "test_" + _name, lambda self, name=_name: self.check(name))

if __name__ == "__main__":
    unittest.main()
