#!/usr/bin/env python3
"""Writes python_facts.json.gz, PyTorch's answers to the lines of python_facts.py: run it with a Python that has torch 2.13."""

import gzip
import json
import os
import sys

import torch

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import python_facts  # noqa: E402


def main():
    answers = {name: [python_facts.answer(line, torch) for line in lines] for name, lines in python_facts.CASES.items()}
    text = json.dumps(
        {"torch": torch.__version__, "answers": {n: dict(zip(python_facts.CASES[n], a)) for n, a in answers.items()}}, indent=0
    )
    with open(os.path.join(HERE, "python_facts.json.gz"), "wb") as f:
        f.write(gzip.compress(text.encode(), 9, mtime=0))
    print(sum(len(a) for a in answers.values()), "answers")


if __name__ == "__main__":
    main()
