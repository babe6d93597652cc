"""What the golden files cover, read from the files: no torch here, tests/test_golden_coverage.py uses it too."""

import glob
import gzip
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
TABLES = os.path.join(ROOT, "src", "ops")
sys.path.insert(0, os.path.join(ROOT, "tools"))
import rows  # noqa: E402


def files(end):
    """-> [(room, path)]"""
    return sorted((os.path.basename(p)[: -len(end)], p) for p in glob.glob(os.path.join(HERE, "*" + end)))


def operators(but=None):
    """The operators that have cases, in all rooms but one."""
    found = set()
    for room, path in files(".golden.gz"):
        if room != but:
            with gzip.open(path, "rt") as f:
                found |= {line[3:].strip() for line in f if line.startswith("op ")}
    return found


def exceptions():
    """-> rows of all <room>.except files, as dicts."""
    return [row for _, path in files(".except") for row in rows.read_table(path, "op layouts types reason".split())]


def operators_of_tables():
    loaded = rows.load(TABLES)
    names = []
    for r in loaded["elementwise"]:
        names += [r.name] + ([r.name + "_scalar"] if len(r.args) > 1 and not r.name.endswith("_element") else [])
    names += [r["name"] + end for r in loaded["reduce"] for end in ("", "_dims")]
    return names + [r["name"] for r in rows.read_table(os.path.join(TABLES, "tensor.tab"), "name args kind backward doc".split())]


def without_a_case():
    """Operators of the tables that no golden file has and no exception excuses."""
    have = operators() | {e["op"] for e in exceptions() if e["layouts"] == "*" and e["types"] == "*"}
    return [n for n in operators_of_tables() if n not in have]
