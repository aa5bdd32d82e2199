#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""How MPI jobs end: errors, MPI_Abort, what is left at MPI_Finalize.  Arguments: the launcher, the program `ends`."""
import re
import subprocess
import sys
import unittest

WHERRY, PROGRAM = sys.argv[1:3]


def run(how, ranks=2):
    return subprocess.run([WHERRY, "run", "-n", str(ranks), PROGRAM, how], capture_output=True, text=True, timeout=30)


class Ends(unittest.TestCase):
    def lines(self, result, pattern):
        return [line for line in result.stderr.splitlines() if re.search(pattern, line)]

    def test_well(self):
        for ranks in (1, 2, 3):
            result = run("well", ranks)
            self.assertEqual((result.returncode, result.stderr), (0, ""))

    def test_fatal_error_says_where_and_why(self):
        result = run("fatal")
        self.assertEqual(result.returncode, 6)  # MPI_ERR_RANK
        line, = self.lines(result, "^MPI rank")
        self.assertRegex(line, "^MPI rank 1: MPI_Send on MPI_COMM_WORLD: MPI_ERR_RANK: .*9999")

    def test_abort(self):
        result = run("abort")
        self.assertEqual(result.returncode, 7)
        self.assertIn("before the end", result.stdout)
        self.assertEqual(len(self.lines(result, "^MPI rank 0: MPI_Abort on MPI_COMM_WORLD with error code 7")), 1)

    def test_leaks(self):
        result = run("leaks")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(len(self.lines(result, "^MPI rank 1: MPI_Finalize: 1 message.*tag 23, 4 bytes, from rank 0")), 1, result.stderr)
        self.assertEqual(len(self.lines(result, "^MPI rank 1: MPI_Finalize: 1 receive")), 1, result.stderr)
        self.assertEqual(len(self.lines(result, "^MPI rank 0")), 0, result.stderr)

    def test_leaked_requests(self):
        result = run("requests")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.lines(result, "MPI rank 0"),
                         ["MPI rank 0: MPI_Finalize: 1 request was never completed by a wait, a test or MPI_Request_free"])
        self.assertEqual(self.lines(result, "request"), [
            f"MPI rank {rank}: MPI_Finalize: {text} never completed by a wait, a test or MPI_Request_free"
            for rank, text in ((0, "1 request was"), (1, "6 requests were"))])

    def test_a_dump_says_what_each_rank_waits_for(self):
        result = subprocess.run([WHERRY, "mpiexec", "-n", "2", "-timeout", "2", PROGRAM, "hang"], capture_output=True, text=True, timeout=60)
        self.assertEqual(result.returncode, 124)
        for pattern in (r"MPI rank 0: waits in MPI_Barrier for \d", r"MPI rank 1: waits in MPI_Recv for \d",
                        "a receive from rank 0, tag 7, on MPI_COMM_WORLD", "not received: 4 bytes from rank 0, tag 4"):
            self.assertEqual(len(self.lines(result, pattern)), 1, f"{pattern}: {result.stderr}")
        self.assertEqual(self.lines(result, "^wherry run: rank . waits"), [
            "wherry run: rank 0 waits in MPI_Barrier: on MPI_COMM_WORLD: without rank 1",
            "wherry run: rank 1 waits in MPI_Recv: receive from rank 0, tag 7, on MPI_COMM_WORLD"])

    def test_a_dump_says_who_has_not_come(self):
        result = subprocess.run([WHERRY, "mpiexec", "-n", "3", "-timeout", "2", PROGRAM, "absent"], capture_output=True, text=True, timeout=60)
        self.assertEqual(result.returncode, 124)
        self.assertEqual(len(self.lines(result, "    a collective in shared memory, on MPI_COMM_WORLD: without rank 1$")), 2, result.stderr)
        self.assertEqual(self.lines(result, "^wherry run: ranks? .* waits?"), [
            "wherry run: ranks 0, 2 wait in MPI_Barrier: on MPI_COMM_WORLD: without rank 1",
            "wherry run: rank 1 waits in MPI_Recv: receive from rank 0, tag 7, on MPI_COMM_WORLD"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
