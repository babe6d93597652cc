#!/usr/bin/env python3
"""The golden files hold a case of every operator of the tables in every layout and element type, or a refusal by PyTorch; what
they lack stands in a <room>.except file with its reason. An exception that a case has made needless fails too.

    test_golden_coverage.py [op ...]      prints the table: a line for each type, a letter for each layout that has a case"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "golden"))
import coverage  # noqa: E402


def gaps(op, cells):
    """The open cells of an operator in few words: types that lack the same layouts together."""
    by_layouts = {}
    for t in coverage.TYPES:
        lacking = "".join(layout for layout in coverage.LAYOUTS if (op, layout, t) not in cells)
        if lacking:
            by_layouts.setdefault(lacking, []).append(t)
    return "; ".join(f"{layouts} of {' '.join(types)}" for layouts, types in by_layouts.items())


def show(ops, cells):
    for op in ops:
        print(op)
        for t in coverage.TYPES:
            print(f"  {t:9}", "".join(layout if (op, layout, t) in cells else "." for layout in coverage.LAYOUTS))


def check_exceptions(values, known):
    """-> what is wrong with the exceptions, cells that they excuse"""
    wrong, excused = [], set()
    for e in coverage.exceptions():
        for op in e.ops:
            excused |= e.cells(op)
            having = sorted({f"{layout} of {t}" for _, layout, t in e.cells(op) & values})
            if op not in known:
                wrong.append(f"{e.at}: no operator {op!r} in the tables")
            elif having:
                wrong.append(f"{e.at}: {op} needs no exception for {', '.join(having)}: there are cases")
    return wrong, excused


def main():
    values, refused, _ = coverage.read()
    covered = values | refused
    known = coverage.operators_of_tables()
    if sys.argv[1:]:
        return show(sys.argv[1:], covered)
    wrong, excused = check_exceptions(values, known)
    open_cells = {op: gaps(op, covered | excused) for op in known}
    lacking = [op for op in known if open_cells[op]]
    for op in lacking:
        print(f"FAILED {op}: no golden case in {open_cells[op]} (README.md in tests/golden tells the letters and how to add one)")
    print("".join(f"FAILED {w}\n" for w in wrong), end="")
    cells = len(known) * len(coverage.LAYOUTS) * len(coverage.TYPES)
    print(f"{len(known)} operators, {cells} cells: {len(values)} have values, {len(refused)} are refused, "
          f"{len(excused)} are excused")
    print(f"{len(known) - len(lacking)} passed, {len(lacking) + len(wrong)} failed, 0 skipped")
    sys.exit(bool(lacking or wrong))


if __name__ == "__main__":
    main()
