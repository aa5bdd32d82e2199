# SPDX-License-Identifier: BSD-3-Clause
"""The stubs: mypy --strict finds nothing in the package and its examples, and they leave nothing out."""
import ast
import pathlib
import subprocess
import sys
import unittest

import wherry
from wherry import _core

HERE = pathlib.Path(__file__).parents[2]
PACKAGE = HERE / "python" / "wherry"


class Stubs(unittest.TestCase):
    def test_all_public_members_are_there(self):
        tree = ast.parse((PACKAGE / "_core.pyi").read_text())
        members = {node.name: {part.name for part in node.body if isinstance(part, ast.FunctionDef)}
                   | {part.target.id for part in node.body if isinstance(part, ast.AnnAssign)}
                   for node in tree.body if isinstance(node, ast.ClassDef)}
        for cls in (wherry.Context, wherry.Endpoint, wherry.Listener, wherry.Request,
                    wherry.Worker, _core.Type):
            public = {name for name in vars(cls) if not name.startswith("_")}
            # What only `await` calls is no part of the interface.
            self.assertEqual(public - members[cls.__name__] - {"throw", "close"}, set(), cls)

    def test_mypy(self):
        try:
            import mypy  # noqa: F401
        except ImportError:
            self.skipTest("mypy is not installed")
        checked = [PACKAGE, *sorted((HERE / "examples" / "python").glob("*.py"))]
        for path in checked:
            done = subprocess.run([sys.executable, "-m", "mypy", "--strict", path],
                                  cwd=HERE / "python", capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
