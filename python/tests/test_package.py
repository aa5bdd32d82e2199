# SPDX-License-Identifier: BSD-3-Clause
"""What is installed, and where UCX comes from."""
import ctypes
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import wherry
from kit import ENV, run_child

HERE = pathlib.Path(__file__).parents[2]
UCX = "import wherry; print(wherry.info()['lanes']['ucx'][1])"
BUILT_WITH_UCX = "headers" not in wherry.info()["lanes"]["ucx"][1]


class Info(unittest.TestCase):
    def test_of_a_context(self):
        found = wherry.info(wherry.Context(lanes="stream", credit="1M"))
        self.assertEqual(found["version"], wherry.__version__)
        self.assertTrue(found["lanes"]["stream"][0])
        self.assertFalse(found["lanes"]["shm"][0])
        self.assertEqual(found["settings"]["credit"], ("1M", "option"))
        self.assertNotIn("eager_max", found["settings"])

    def test_of_the_environment(self):
        code, out, err = run_child("import wherry; print(wherry.info()['settings'])",
                                   WHERRY_SPIN_US="7")
        self.assertEqual((code, out), (0, "{'spin_us': ('7', 'environment')}\n"), err)


@unittest.skipUnless(BUILT_WITH_UCX, "built without the headers of UCX")
class UcxPackage(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.package = pathlib.Path(folder.name, "libucx")
        (self.package / "lib").mkdir(parents=True)
        (self.package / "__init__.py").write_text("raise Exception('who imports this?')")
        self.library = self.package / "lib" / "libucp.so.0"
        self.env = {"PYTHONPATH": os.pathsep.join([folder.name, ENV["PYTHONPATH"]])}

    def ucx(self, program=UCX, **env):
        code, out, err = run_child(program, **{**self.env, **env})
        self.assertEqual(code, 0, err)
        return out.strip()

    def test_package_goes_before_the_system(self):
        try:
            ctypes.CDLL("libucp.so.0")
        except OSError:
            self.skipTest("the system has no UCX")
        path = subprocess.run(["sh", "-c", "ldconfig -p || /sbin/ldconfig -p"], text=True,
                              capture_output=True).stdout
        path = [line.split()[-1] for line in path.splitlines() if "libucp.so.0 " in line][0]
        self.library.symlink_to(path)
        self.assertIn(str(self.library), self.ucx())
        self.assertNotIn(str(self.library), self.ucx(WHERRY_UCX_DIR=""))
        self.assertNotIn(str(self.library), self.ucx(UCX.replace(
            "info()", "info(wherry.Context(ucx_dir=''))")))

    def test_package_without_a_library_is_none(self):
        self.assertNotIn(str(self.package), self.ucx())

    def test_library_that_cannot_be_opened(self):
        self.library.touch()
        self.assertIn(f"UCX cannot be opened in {self.package}", self.ucx())
        self.assertIn("NoLaneError", self.ucx(
            "import wherry\ntry:\n wherry.Context(lanes='ucx')\n"
            "except wherry.Error as error:\n print(repr(error))"))


class Reasons(unittest.TestCase):
    """What cannot be made says why; as the log does, which nobody may have looked at."""

    def refused(self, error, text, **options):
        with self.assertRaisesRegex(error, text) as caught:
            wherry.Context(**options)
        return caught.exception

    def test_settings(self):
        self.refused(wherry.InvalidError, "no setting \"credt\".  Did you mean credit", credt=1)
        self.refused(wherry.InvalidError, "credit is \"lots\"; it must be a size", credit="lots")
        self.refused(wherry.InvalidError, "secret_file /none cannot be read", secret_file="/none")

    def test_variables(self):
        program = "import wherry\ntry: wherry.Context()\nexcept wherry.Error as e: print(e)\n"
        for name, out, err in (
                ("WHERRY_CREDIT", "Context: WHERRY_CREDIT is \"debug\"; it must be a size", ""),
                ("WHERRY_LOG", "", "WHERRY_LOG is not known.  Did you mean WHERRY_LOG_LEVEL?")):
            code, said, logged = run_child(program, **{name: "debug"})
            self.assertEqual(code, 0, logged)
            self.assertIn(out, said)
            self.assertIn(err, logged)
            self.assertEqual(bool(out), bool(said))

    def test_lanes(self):
        # In a process that has no UCX yet: it keeps the first.
        code, out, err = run_child("""
import wherry
try:
    wherry.Context(lanes="ucx", ucx_dir="/no/such/folder")
except wherry.NoLaneError as error:
    print(error)
""")
        self.assertEqual(code, 0, err)
        self.assertRegex(out, "^Context: lanes=ucx leaves no lane that works here: .+")
        if BUILT_WITH_UCX:
            self.assertIn("UCX cannot be opened in /no/such/folder", out)


class Environment(unittest.TestCase):
    def test_made_once(self):
        build = pathlib.Path(wherry.__file__).parents[2]
        with tempfile.TemporaryDirectory() as folder:
            home = pathlib.Path(folder, "venv")
            env = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}

            def run(*command):
                return subprocess.run(command, check=True, capture_output=True, text=True,
                                      env=env).stdout
            make = sys.executable, HERE / "tools" / "make_venv.py", "--venv", home, build
            self.assertIn(f"making {home}", run(*make))
            said = run(home / "bin" / "python", "-c", "import wherry; print(wherry.__file__)")
            self.assertEqual(said.strip(), wherry.__file__)
            self.assertEqual(run(*make), "")


if __name__ == "__main__":
    unittest.main()
