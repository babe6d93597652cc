#!/usr/bin/env python3
"""Fills in the results of python/examples.tab: run it with a Python that has torch 2.13.

It also runs the examples (>>> ...) that stand in docstrings of python/facula and says which of them PyTorch answers otherwise; then
it ends with 1.

    python3 tests/golden/make_examples.py          # all rows anew
"""

import ast
import doctest
import os
import sys
import warnings

import torch
import torch.nn.functional

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
sys.path.insert(0, os.path.join(ROOT, "tests", "python"))
import examples  # noqa: E402

OWN = ("io.py", "tensorboard", "_load_limit")  # what PyTorch has not got, or not without another package
TABLE = os.path.join(ROOT, "python", "examples.tab")


def fill():
    out = []
    for line in open(TABLE, encoding="utf-8"):
        cells = [c.strip() for c in line.rstrip("\n").split(" | ")]
        if line.strip() and not line.startswith("#"):
            name, code = cells[0], cells[1].rstrip(" |")
            out.append(f"{name} | {code} | {examples.run(code, torch)}".rstrip() + "\n")
        else:
            out.append(line)
    with open(TABLE, "w", encoding="utf-8") as f:
        f.writelines(out)
    print(sum(" | " in line and not line.startswith("#") for line in out), "examples")


def docstrings():
    for folder, _, files in os.walk(os.path.join(ROOT, "python", "facula")):
        for name in sorted(files):
            path = os.path.join(folder, name)
            if not name.endswith(".py"):
                continue
            for node in ast.walk(ast.parse(open(path, encoding="utf-8").read())):
                if isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.Module)) and ">>> " in (ast.get_docstring(node) or ""):
                    yield f"{os.path.relpath(path, ROOT)}:{getattr(node, 'name', '')}", ast.get_docstring(node)


def main():
    warnings.simplefilter("ignore")
    fill()
    wrong = 0
    for name, text in docstrings():
        if any(own in name for own in OWN):
            continue
        for found in examples.differences(doctest.DocTestParser().get_examples(text), torch):
            print(f"{name}: {found}")
            wrong += 1
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
