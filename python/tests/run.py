# SPDX-License-Identifier: BSD-3-Clause
"""Run one file of tests: run.py MODULE [--skip WHY].

Exits 77, which means skipped, with the reason when there is nothing to test or all tests of the
file were skipped.
"""
import pathlib
import sys
import unittest

SKIPPED = 77


def main():
    name, *rest = sys.argv[1:]
    if rest:
        print(f"skipped: {rest[1]}")
        return SKIPPED
    sys.path.insert(0, str(pathlib.Path(__file__).parent))
    result = unittest.TextTestRunner(stream=sys.stdout, verbosity=1).run(
        unittest.defaultTestLoader.loadTestsFromName(name))
    if not result.wasSuccessful():
        return 1
    reasons = [why for _, why in result.skipped]
    if result.testsRun == len(reasons):
        print(f"skipped: {reasons[0] if reasons else 'no tests'}")
        return SKIPPED
    return 0


if __name__ == "__main__":
    sys.exit(main())
