#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""More messages under way than a receiver has announced to it: what waits says why, whenever mpiexec is asked.  unreceived_test.py WHERRY PROGRAM"""
import os
import signal
import subprocess
import sys
import time
import unittest

MESSAGES = 10000  # of these, some 4,000 have room in the credit, and WHERRY_ANNOUNCE_MAX are announced


class Unreceived(unittest.TestCase):
    def job(self, *words, **env):
        return subprocess.run([WHERRY, "run", "-n", "2", *words], capture_output=True, text=True, timeout=60, env={**os.environ, **env})

    def test_a_collective_behind_them(self):
        done = self.job(PROGRAM, str(MESSAGES))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        done = self.job("--timeout", "1", "--dump", PROGRAM, str(MESSAGES), WHERRY_ANNOUNCE_MAX="1000")
        self.assertEqual(done.returncode, 124)
        self.assertIn("the peer has as many messages to receive as its WHERRY_ANNOUNCE_MAX allows", done.stderr)
        self.assertIn("ranks 0-1 wait in MPI_Wait", done.stderr)

    def test_more_than_the_engine_announces_to_others(self):
        for bytes_ in (0, 20000):  # what is kept, and what stays with its sender
            done = self.job("--timeout", "50", PROGRAM, "70000", str(bytes_))
            self.assertEqual((done.returncode, done.stderr), (0, ""))

    def asked(self, ask):
        words = [WHERRY, "mpiexec", "-n", "2", PROGRAM, str(MESSAGES)]
        with subprocess.Popen(words, stderr=subprocess.PIPE, text=True, start_new_session=True,
                              env={**os.environ, "WHERRY_ANNOUNCE_MAX": "1000"}) as job:
            try:
                time.sleep(1)
                ask(job.pid)
                for line in job.stderr:
                    if line.startswith("wherry run: ") and " wait in " in line:
                        break
                self.assertIn("ranks 0-1 wait in MPI_Wait", line)
                self.assertIsNone(job.poll())
            finally:
                job.terminate()
                job.stderr.read()

    def test_a_signal_to_mpiexec(self):
        self.asked(lambda pid: os.kill(pid, signal.SIGUSR1))

    def test_a_signal_to_the_group(self):
        """As `timeout -s USR1 1 mpiexec ..` sends it, to the launcher and then to its agent, too: they are told of once."""
        def ask(pid):
            os.kill(pid, signal.SIGUSR1)
            time.sleep(0.05)
            os.killpg(pid, signal.SIGUSR1)
        self.asked(ask)


if __name__ == "__main__":
    WHERRY, PROGRAM = sys.argv[1:3]
    del sys.argv[1:3]
    unittest.main(verbosity=2)
