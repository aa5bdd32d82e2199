#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""away.c for each of its calls: away_test.py WHERRY PROGRAM."""
import subprocess
import sys
import tempfile
import unittest

WHERRY, PROGRAM = sys.argv[1:3]
CALLS = ("barrier", "bcast", "gather", "many", "small", "two", "large", "synchronous", "started", "window")


class Away(unittest.TestCase):
    def test_calls(self):
        for call in CALLS:
            for ranks in (2, 4, 7):
                with self.subTest(call=call, ranks=ranks), tempfile.TemporaryDirectory() as folder:
                    done = subprocess.run([WHERRY, "run", "-n", str(ranks), PROGRAM, call, folder], capture_output=True, text=True)
                    self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
