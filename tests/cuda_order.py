#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A driver whose events tell too early must make the cases about the order of streams fail.

    cuda_order.py CONFORMANCE

Runs them over the test driver with several seeds: as it is, where they must pass, and with
CUTEST_EARLY, where each must fail because of a message's content.
"""
import os
import subprocess
import sys

CASES = ("device_streams", "device_streams_of", "device_tags", "device_layouts")
SEEDS = (1, 2, 3)


def run(conformance, case, seed, early):
    environment = {**os.environ, "CUTEST_DELAY": "300", "CUTEST_SEED": str(seed)}
    if early:
        environment["CUTEST_EARLY"] = "1"
    done = subprocess.run(
        [conformance, "--lane", "shm", "--mode", "adaptive", "--place", "processes", "--memory", "cuda", "--but", "typed", case],
        env=environment, text=True, capture_output=True)
    return done.returncode, done.stdout + done.stderr


def main():
    wrong = []
    for case in CASES:
        for seed in SEEDS:
            status, text = run(sys.argv[1], case, seed, False)
            if status != 0:
                wrong.append(f"{case}, seed {seed}: fails over a driver that keeps the order\n{text}")
            status, text = run(sys.argv[1], case, seed, True)
            if status == 0 or not ("differs from content" in text or "memcmp" in text):
                wrong.append(f"{case}, seed {seed}: no content is wrong over a driver that does not keep it: "
                             f"{status}\n{text}")
    print(*wrong, sep="\n")
    print(f"{len(CASES) * len(SEEDS) * 2} runs, {len(wrong)} not as they should be")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
