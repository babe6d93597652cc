#!/usr/bin/env python3
"""Runs the tests of the Python package: PYTHONPATH=build/release/python python3 tests/python [NAME ...]

NAME: test_loader, test_loader.Workers, test_loader.Workers.test_order ... Ends with "N passed, N failed, N skipped".
"""
import os
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))


def main():
    sys.path[0] = HERE
    sys.dont_write_bytecode = True
    loader = unittest.TestLoader()
    suite = loader.loadTestsFromNames(sys.argv[1:]) if sys.argv[1:] else loader.discover(HERE)
    result = unittest.TextTestRunner(verbosity=2 if sys.argv[1:] else 1).run(suite)
    failed = len(result.failures) + len(result.errors) + len(result.unexpectedSuccesses)
    for test, why in result.skipped:
        print(f"skipped {test}: {why}")
    print(f"{result.testsRun - failed - len(result.skipped)} passed, {failed} failed, {len(result.skipped)} skipped")
    return 1 if failed or not result.testsRun else 0


if __name__ == "__main__":
    sys.exit(main())
