#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""compared.c: all ranks hear the same of a collective that they do not agree about.  compared_test.py WHERRY PROGRAM"""
import os
import re
import subprocess
import sys
import unittest

WHERRY, PROGRAM = sys.argv[1:3]
NOT_SAME = 40
ERRORS = {  # MPI error class, and what the sentence says
    "kind": (NOT_SAME, "rank 1 has called MPI_Reduce, rank 0 MPI_Bcast"),
    "root": (8, "rank 2 has called MPI_Bcast with root 1, rank 0 with root 0"),
    "op": (10, "rank 1 has called MPI_Allreduce with another operation than rank 0"),
    "bytes": (2, "rank 2 has called MPI_Allgather with 8 bytes, rank 0 with 4"),
    "types": (3, "rank 1 has called MPI_Bcast with elements of other types than rank 0"),
    "first": (NOT_SAME, "rank 0 has called MPI_Bcast, rank 1 MPI_Barrier"),
    "split_dup": (NOT_SAME, "rank 1 has called MPI_Comm_split, rank 0 MPI_Comm_dup"),
    "dup": (NOT_SAME, "rank 1 has called MPI_Comm_dup, rank 0 MPI_Barrier"),
    "split": (NOT_SAME, "rank 1 has called MPI_Comm_split, rank 0 MPI_Barrier"),
    "create": (NOT_SAME, "rank 1 has called MPI_Comm_create, rank 0 MPI_Barrier"),
    "split_type": (NOT_SAME, "rank 1 has called MPI_Comm_split_type, rank 0 MPI_Barrier"),
    "disconnect": (NOT_SAME, "rank 1 has called MPI_Comm_disconnect, rank 0 MPI_Barrier"),
    "window": (NOT_SAME, "rank 1 has called MPI_Win_create, rank 0 MPI_Barrier"),
    "open_one": (NOT_SAME, "rank 1 has called MPI_File_open, rank 0 MPI_Barrier"),
    "graph": (NOT_SAME, "rank 1 has called MPI_Dist_graph_create_adjacent, rank 0 MPI_Barrier"),
    "ibarrier": (NOT_SAME, "rank 1 has called MPI_Ibarrier, rank 0 MPI_Barrier"),
    "idup": (NOT_SAME, "rank 1 has called MPI_Comm_idup, rank 0 MPI_Barrier"),
    "init": (NOT_SAME, "rank 1 has called MPI_Barrier_init, rank 0 MPI_Barrier"),
    "ikind": (NOT_SAME, "rank 1 has called MPI_Iallreduce, rank 0 MPI_Ibarrier"),
    "iroot": (8, "rank 2 has called MPI_Ibcast with root 1, rank 0 with root 0"),
    "idup_kind": (NOT_SAME, "rank 0 has called MPI_Comm_idup, rank 1 MPI_Ibarrier"),
    "second": (NOT_SAME, "rank 1 has called MPI_Ibcast, rank 0 MPI_Ibarrier"),
    "init_root": (8, "rank 2 has called MPI_Bcast_init with root 1, rank 0 with root 0"),
    "dims": (NOT_SAME, "rank 2 has called MPI_Cart_create with other dims than rank 0"),
    "ndims": (NOT_SAME, "rank 2 has called MPI_Cart_create with ndims 2, rank 0 with ndims 1"),
    "edges": (NOT_SAME, "rank 1 has called MPI_Graph_create with other edges than rank 0"),
    "leader": (NOT_SAME, "rank 2 has called MPI_Intercomm_create with local_leader 1, rank 0 with local_leader 0"),
    "fence": (NOT_SAME, "rank 1 has called MPI_Win_fence, rank 0 MPI_Win_free"),
    "file_kind": (NOT_SAME, "rank 1 has called MPI_File_read_all, rank 0 MPI_File_write_all"),
    "ifile": (NOT_SAME, "rank 1 has called MPI_File_iread_all, rank 0 MPI_File_iwrite_all"),
    "file_size": (NOT_SAME, "rank 3 has called MPI_File_set_size with size 101, rank 0 with size 100"),
    "inter": (NOT_SAME, "rank 3 of MPI_COMM_WORLD has called MPI_Comm_dup, rank 0 MPI_Barrier"),
    "iinter": (NOT_SAME, "rank 2 of MPI_COMM_WORLD has called MPI_Comm_idup, rank 0 MPI_Ibarrier"),
}
RETURNED = ("fence", "file_kind", "ifile", "file_size", "inter", "iinter", "open_one")  # their errors end no job


def run(*words, check="1"):
    env = {**os.environ, "WHERRY_MPI_CHECK": check, "COMPARED_JOB": str(os.getpid())}
    done = subprocess.run([WHERRY, "run", "--timeout", "30", *words], capture_output=True, text=True, env=env)
    # The leak checker says so of a thread that ends while it looks.
    done.stderr = re.sub(r"==\d+==Unable to get registers from thread \d+\.\n", "", done.stderr)
    return done


class Compared(unittest.TestCase):
    def classes(self, ranks, case, **how):
        done = run("-n", str(ranks), PROGRAM, case, **how)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        return sorted(done.stdout.splitlines())

    def test_each_rank_gets_the_error(self):
        for case, (number, _) in ERRORS.items():
            with self.subTest(case=case):
                self.assertEqual(self.classes(4, case), [f"{rank}: {number}" for rank in range(4)])

    def test_both_sides_are_named(self):
        for case, (_, text) in ERRORS.items():
            if case in RETURNED:
                continue
            with self.subTest(case=case):
                done = run("-n", "4", PROGRAM, case, "fatal")
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(text, done.stderr)

    def test_without_comparing(self):
        for case, text in (("split_dup", "has sent (16|64) bytes where this rank expects (64|16): it is in another collective call"),
                           ("first", "has sent .* all ranks must call the same")):
            with self.subTest(case=case):
                done = run("-n", "2" if case == "split_dup" else "4", PROGRAM, case, "fatal", check="0")
                self.assertRegex(done.stderr, text)
                self.assertIn("with WHERRY_MPI_CHECK=1 in the environment both calls are named", done.stderr)

    def test_what_comes_of_another_call(self):
        self.assertEqual(self.classes(2, "split_dup", check="0"), [f"0: {NOT_SAME}", f"1: {NOT_SAME}"])
        self.assertEqual(self.classes(2, "split", check="0"), ["0: 15", f"1: {NOT_SAME}"])

    def test_a_rank_that_does_not_come(self):
        done = run("--timeout", "1", "--dump", "-n", "3", PROGRAM, "absent")
        self.assertEqual(done.returncode, 124)
        self.assertIn("a receive of a collective from rank 1, comparing calls, on", done.stderr)
        self.assertIn("ranks 0, 2 wait in MPI_Barrier", done.stderr)
        self.assertIn("rank 1 waits in MPI_Recv", done.stderr)

    def test_a_rank_that_has_freed_it(self):
        for case, who in (("freed", 1), ("freed_first", 0)):
            with self.subTest(case=case):
                self.assertEqual(self.classes(4, case), [f"{rank}: {0 if rank == who else NOT_SAME}" for rank in range(4)])
                done = run("-n", "4", PROGRAM, case, "fatal")
                self.assertIn(f"rank {who} has called MPI_Comm_free, rank {1 - who} MPI_Barrier", done.stderr)

    def test_the_end(self):
        for ranks in (2, 4):
            done = run("-n", str(ranks), PROGRAM, "end", "fatal")
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("rank 1 has called MPI_Finalize, rank 0 MPI_Barrier", done.stderr)

    def test_calls_that_agree(self):
        for ranks in (1, 3, 4):
            for case in ("right", "ahead", "files", "full", "all_free"):
                with self.subTest(case=case, ranks=ranks):
                    self.assertEqual(self.classes(ranks, case), [f"{rank}: 0" for rank in range(ranks)])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
