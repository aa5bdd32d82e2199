# SPDX-License-Identifier: BSD-3-Clause
"""The Python programs of docs/howto/stencil.md print what the page shows, on 1 and on 3 processes."""
import pathlib
import re
import subprocess
import sys
import unittest

import wherry
from kit import ENV, LIMIT

ROOT = pathlib.Path(__file__).parents[2]
RUN = pathlib.Path(wherry.__file__).resolve().parents[2] / "wherry"
PAGE = (ROOT / "docs" / "howto" / "stencil.md").read_text()


class Stencil(unittest.TestCase):
    def setUp(self):
        try:
            import numpy  # noqa: F401
        except ImportError:
            self.skipTest("numpy is not installed")

    def run_one(self, name, processes):
        program = ROOT / "examples" / "stencil" / name
        done = subprocess.run([RUN, "run", "-n", str(processes), sys.executable, program], env=ENV, text=True,
                              capture_output=True, timeout=LIMIT)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout.splitlines()

    def test_programs(self):
        shown = re.search(r"^\$ wherry run -n 4 python heat1\.py\n(.*?)^```", PAGE, re.M | re.S)[1].splitlines()
        for name in ("heat1.py", "heat2.py"):
            for processes in (1, 3):
                with self.subTest(name, processes=processes):
                    said = self.run_one(name, processes)
                    self.assertEqual(len(said), 11)
                    self.assertEqual([said[0], "...", said[-1]], shown)


if __name__ == "__main__":
    unittest.main()
