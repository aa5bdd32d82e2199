#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Run `meson test` in a build folder and close with one line: N passed, N failed, N skipped.

    test_summary.py BUILD [arguments of meson test]

The numbers are those of Meson's own log.  The output of every failed test ends with its last lines
and the command that repeats it.  Exits 1 when a test failed or when none ran.
"""
import json
import os
import pathlib
import shlex
import subprocess
import sys

PASSED = {"OK", "EXPECTEDFAIL"}
SKIPPED = {"SKIP"}
TAIL = 40


def show_failure(test):
    print(f"\n---- {test['name']}: {test['result']}, exit {test['returncode']}, "
          f"{test['duration']:.1f} s")
    for stream in ("stdout", "stderr"):
        lines = (test.get(stream) or "").splitlines()
        if len(lines) > TAIL:
            print(f"[{len(lines) - TAIL} more lines of {stream} in the log]")
        print(*lines[-TAIL:], sep="\n")
    print("again: " + shlex.join(test["command"]))


def main():
    build, arguments = pathlib.Path(sys.argv[1]), sys.argv[2:]
    for old in (build / "meson-logs").glob("testlog*.json"):
        old.unlink()  # so that a run which dies early is not judged by the one before
    meson = shlex.split(os.environ.get("MESON", "meson"))
    # Many tests wait for most of their time: one more at a time than there are processors.
    os.environ.setdefault("MESON_TESTTHREADS", str(len(os.sched_getaffinity(0)) + 1))
    status = subprocess.run([*meson, "test", "-C", str(build), *arguments]).returncode

    tests = []
    for log in (build / "meson-logs").glob("testlog*.json"):
        tests += [json.loads(line) for line in log.read_text().splitlines()]
    passed = sum(test["result"] in PASSED for test in tests)
    skipped = sum(test["result"] in SKIPPED for test in tests)
    failed = [test for test in tests if test["result"] not in PASSED | SKIPPED]

    for test in tests:
        if test["result"] in SKIPPED:
            lines = (test.get("stdout") or "").splitlines()
            why = [line.strip() for line in lines if "skip" in line.lower()]
            print(": ".join(["skipped", test["name"], *why[-1:]]))
    for test in failed:
        show_failure(test)
    if not tests:
        print(f"no test ran (meson test exited {status})")
    print(f"\n{passed} passed, {len(failed)} failed, {skipped} skipped")
    return 1 if failed or status or not tests else 0


if __name__ == "__main__":
    sys.exit(main())
