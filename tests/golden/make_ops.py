#!/usr/bin/env python3
"""Makes <room>.golden.gz: for the operators of a room, results and derivatives as PyTorch (2.13, float64) computes them.

Run by hand, with a Python that has torch, when an operator is added or its meaning changes:  make_ops.py [ROOM ...]
ROOM is a file <room>_cases.py here, "ops" unless given. README.md tells how a room of its own is added."""

import gzip
import importlib
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "..", "tools")]
import cases  # noqa: E402
import coverage  # noqa: E402
import rows  # noqa: E402

HEAD = "# Made by tests/golden/make_ops.py {room} with PyTorch; tests/golden/README.md tells the format.\n"


def make(room, tables):
    cases.begin()
    importlib.import_module(room + "_cases").make(tables)
    cases.sweep()
    text = HEAD.format(room=room) + "\n".join(line for lines in cases.lines.values() for line in lines) + "\n"
    path = os.path.join(HERE, room + ".golden.gz")
    with gzip.GzipFile(path, "wb", 9, mtime=0) as f:
        f.write(text.encode())
    size = f"{len(text)} bytes, {os.path.getsize(path)} packed"
    print(f"{room}: {sum(cases.seen.values())} cases of {len(cases.seen)} operators, {size}")


def main():
    for room in sys.argv[1:] or ["ops"]:
        make(room, rows.load(coverage.TABLES))
    missing = coverage.without_a_case()
    if missing:
        sys.exit("operators without a case: " + ", ".join(missing))


if __name__ == "__main__":
    main()
