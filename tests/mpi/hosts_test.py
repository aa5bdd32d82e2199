#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Collectives of ranks on several hosts, and of more than share memory on one.  hosts_test.py WHERRY HOSTS COLLECTIVES: the programs."""
import os
import pathlib
import subprocess
import sys
import unittest

FAR = pathlib.Path(__file__).resolve().parent / "far.sh"
PATIENCE = 100


def can_mount():
    command = [FAR, "other", "true"]
    return subprocess.run(command, capture_output=True, check=False, timeout=PATIENCE).returncode == 0


def job(*words, **environment):
    done = subprocess.run([WHERRY, "run", *map(str, words)], capture_output=True, text=True, timeout=PATIENCE,
                          env={**os.environ, **environment})
    return done.returncode, done.stdout, done.stderr


@unittest.skipUnless(can_mount(), "no right to mount here")
class Hosts(unittest.TestCase):
    def far(self, hosts, ppn, *words, **environment):
        return job("--rsh", FAR, "--hosts", ",".join(hosts), "--ppn", ppn, *words, **environment)

    def test_they_are_several(self):
        self.assertEqual(self.far("ab", 2, HOSTS, 2), (0, "", ""))

    def test_collectives(self):
        for hosts, ppn in (("ab", 1), ("ab", 2), ("ab", 3), ("abc", 2)):
            with self.subTest(hosts=hosts, ppn=ppn):
                self.assertEqual(self.far(hosts, ppn, COLLECTIVES), (0, "", ""))

    def test_ranks_in_another_order(self):
        for hosts, ppn in (("ab", 3), ("abc", 2)):
            with self.subTest(hosts=hosts, ppn=ppn):
                self.assertEqual(self.far(hosts, ppn, COLLECTIVES, "mixed"), (0, "", ""))

    def test_a_barrier_waits_for_all(self):
        for late in range(4):
            with self.subTest(late=late):
                self.assertEqual(self.far("ab", 2, HOSTS, "late", late), (0, "", ""))

    def test_a_lost_rank_ends_it_everywhere(self):
        for lost in range(6):
            with self.subTest(lost=lost):
                code, out, _ = self.far("ab", 3, "--no-cleanup", "--timeout", "30s", HOSTS, "lost", lost)
                self.assertNotEqual(code, 0)
                self.assertEqual(out.splitlines(), ["it ends"] * 5)

    def test_communicators_leave_shared_memory_to_others(self):
        small = {"FAR_SHM": "8m"}
        self.assertEqual(self.far("a", 2, HOSTS, "many", 30, **small), (0, "", ""))
        self.assertEqual(self.far("ab", 2, HOSTS, "many", 30, **small), (0, "", ""))

    def test_one_rank_does_not_come(self):
        code, _, err = self.far("ab", 2, "--timeout", "3s", "--dump", HOSTS, "absent", 3)
        self.assertNotEqual(code, 0)
        self.assertIn("MPI rank 2: waits in MPI_Barrier", err)
        self.assertRegex(err, "on MPI_COMM_WORLD: without rank 3\n")
        self.assertRegex(err, "a receive of a collective from rank [02], tag [0-9]+, on MPI_COMM_WORLD\n")


class Many(unittest.TestCase):
    def test_more_than_share_memory(self):
        self.assertEqual(job("-n", 34, HOSTS, 34), (0, "", ""))
        self.assertEqual(job("-n", 33, COLLECTIVES, "brief"), (0, "", ""))  # groups of 17 and 16


if __name__ == "__main__":
    WHERRY, HOSTS, COLLECTIVES = sys.argv[1:]
    unittest.main(argv=sys.argv[:1])
