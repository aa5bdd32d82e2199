# SPDX-License-Identifier: BSD-3-Clause
"""Run one file of tests: run.py [--skip WHY] [--ucx OURS,PEERS] MODULE.

With --ucx all goes over the ucx lane, and UCX comes from these two folders: of this process, and of those
that it talks to.  An empty one means the system's.  Exits 77, which means skipped, with the reason
when there is nothing to test or all tests of the file were skipped.
"""
import argparse
import os
import pathlib
import sys
import unittest

SKIPPED = 77


def use_ucx(pair):
    """Why it cannot be; None: it can."""
    ours, theirs = pair.split(",")
    os.environ.update(WHERRY_LANES="ucx", WHERRY_UCX_DIR=ours, PEER_UCX_DIR=theirs)
    # Over shared memory UCX does not survive all that a killed peer can do to it: docs/design/ucx.md.
    os.environ.setdefault("UCX_TLS", "tcp")
    import wherry
    try:
        wherry.Context()
    except wherry.NoLaneError as error:
        return str(error)
    return None


def main():
    parser = argparse.ArgumentParser(prog="run.py")
    parser.add_argument("--skip")
    parser.add_argument("--ucx")
    parser.add_argument("module")
    options = parser.parse_args()
    why = options.skip or (use_ucx(options.ucx) if options.ucx else None)
    if why:
        print(f"skipped: {why}")
        return SKIPPED
    sys.path.insert(0, str(pathlib.Path(__file__).parent))
    # With the name of each test before it begins: the last one is where a time limit has ended it.
    result = unittest.TextTestRunner(stream=sys.stdout, verbosity=2).run(
        unittest.defaultTestLoader.loadTestsFromName(options.module))
    if not result.wasSuccessful():
        return 1
    reasons = [why for _, why in result.skipped]
    if result.testsRun == len(reasons):
        print(f"skipped: {reasons[0] if reasons else 'no tests'}")
        return SKIPPED
    return 0


if __name__ == "__main__":
    sys.exit(main())
