# SPDX-License-Identifier: BSD-3-Clause
"""The stubs leave nothing out, and mypy --strict finds nothing in what uses them."""
import ast
import pathlib
import subprocess
import unittest
import venv

import wherry
from wherry import _core

HERE = pathlib.Path(__file__).parents[2]
PACKAGE = HERE / "python" / "wherry"
CLASSES = [wherry.Context, wherry.Endpoint, wherry.Listener, wherry.RegisteredMemory,
           wherry.RemoteMemory, wherry.Request, wherry.Worker, wherry.Frame, wherry.Message,
           wherry.DeviceMemory, _core.Type, _core.Cursor, _core.Accumulator, _core.View]
# Attributes that are stored, which the class's own docstring names.
FIELDS = {"context", "endpoint", "loop", "worker"}


def public_members(cls):
    """Those of the class and its bases, without stored attributes."""
    return {name for each in cls.__mro__[:-1] for name in vars(each)
            if not name.startswith("_")} - FIELDS


def inherited(cls, name):
    return next(vars(each)[name] for each in cls.__mro__ if name in vars(each))


def environment_of_mypy():
    """The interpreter of an environment with mypy and numpy, made below the build folder the first time; None: no network."""
    home = pathlib.Path(wherry.__file__).resolve().parents[2] / "mypy-env"
    python = home / "bin" / "python"
    if not python.exists():
        venv.create(home, with_pip=True)
    tried = [[python, "-c", "import mypy, numpy"],
             [python, "-m", "pip", "install", "--quiet", "mypy", "numpy"]]
    good = any(subprocess.run(command, capture_output=True).returncode == 0 for command in tried)
    return python if good else None


class Stubs(unittest.TestCase):
    def test_all_public_members_are_there(self):
        tree = ast.parse((PACKAGE / "_core.pyi").read_text())
        members = {node.name: {part.name for part in node.body if isinstance(part, ast.FunctionDef)}
                   | {part.target.id for part in node.body if isinstance(part, ast.AnnAssign)}
                   for node in tree.body if isinstance(node, ast.ClassDef)}
        for cls in CLASSES:
            public = public_members(cls)
            # What only `await` calls is no part of the interface.
            if cls is wherry.Request:
                public -= {"throw", "close"}
            told = {name for each in cls.__mro__ for name in members.get(each.__name__, ())
                    if not name.startswith("_")}
            self.assertEqual(public ^ told - FIELDS, set(), cls)

    def test_all_public_members_say_what_they_are(self):
        for cls in CLASSES:
            self.assertTrue(cls.__doc__, cls)
            for name in public_members(cls):
                self.assertTrue(inherited(cls, name).__doc__, (cls, name))
        for name in wherry.__all__:
            if name != "ALL":
                self.assertTrue(getattr(wherry, name).__doc__, name)

    def test_mypy(self):
        python = environment_of_mypy()
        if not python:
            self.skipTest("mypy cannot be had from PyPI")
        checked = [PACKAGE, HERE / "python" / "tests" / "typed.py",
                   *sorted((HERE / "examples" / "python").glob("*.py"))]
        for path in checked:
            done = subprocess.run([python, "-m", "mypy", "--config-file", HERE / "pyproject.toml",
                                   "--strict", path],
                                  cwd=HERE / "python", capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
