# SPDX-License-Identifier: BSD-3-Clause
"""Every Python block of the documentation's pages on Python runs as it stands."""
import pathlib
import re
import unittest

PAGES = sorted((pathlib.Path(__file__).parents[2] / "docs").rglob("python*.md"))


class Snippets(unittest.TestCase):
    def test_there_are_some(self):
        self.assertTrue(PAGES)
        for page in PAGES:
            self.assertIn("```python\n", page.read_text(), page.name)

    def test_run(self):
        try:
            import numpy  # noqa: F401
        except ImportError:
            self.skipTest("numpy is not installed")
        for page in PAGES:
            names = {}
            for number, block in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(),
                                                      re.S), 1):
                with self.subTest(page=page.name, block=number):
                    exec(compile(block, f"{page.name}, block {number}", "exec"), names)


if __name__ == "__main__":
    unittest.main()
