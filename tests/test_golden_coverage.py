#!/usr/bin/env python3
"""Every operator of the tables has cases in one of the golden files, or an exception with its reason."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "golden"))
import coverage  # noqa: E402


def main():
    missing = coverage.without_a_case()
    for name in missing:
        print(f"FAILED {name}: no golden file has a case of it: tests/golden/README.md tells how to add one")
    unknown = [e for e in coverage.exceptions() if e["op"] not in coverage.operators_of_tables()]
    for e in unknown:
        print(f"FAILED {e['at']}: no operator {e['op']!r} in the tables")
    print(f"{len(coverage.operators_of_tables()) - len(missing)} passed, {len(missing) + len(unknown)} failed, 0 skipped")
    sys.exit(bool(missing or unknown))


if __name__ == "__main__":
    main()
