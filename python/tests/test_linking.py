# SPDX-License-Identifier: BSD-3-Clause
"""C code against the package: it is found, and a process that has both has one engine."""
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

import wherry
from kit import run_child

CC = shutil.which("cc")
SOURCE = pathlib.Path(__file__).with_name("linking.c")
SONAME = "libwherry.so.0.2"

# What the interpreter runs: {0} and {1} are `import wherry` and the opening of the library, or the
# reverse.
SHARED = """
import ctypes, os, sys
{0}
{1}
theirs.linking_engine.restype = ctypes.c_void_p
theirs.linking_logged.restype = ctypes.c_char_p
ours = ctypes.CDLL(os.path.join(wherry.get_library_dir(), "libwherry.so.0.2"))
assert theirs.linking_engine() == ctypes.cast(ours.wh_version, ctypes.c_void_p).value
theirs.linking_listen()
os.environ["WHERRY_CREDITS"] = "1"
wherry.Context()
with open("/proc/self/maps") as maps:
    files = {{line.split()[-1] for line in maps if "/libwherry.so" in line}}
print(theirs.linking_logged().decode())
print(*files)
"""
IMPORT = "import wherry"
OPEN = "theirs = ctypes.CDLL(sys.argv[1])"


@unittest.skipUnless(CC, "there is no C compiler")
class Linking(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.rpath = f"-Wl,-rpath,{wherry.get_library_dir()}"

    def compile(self, name, *flags, source=SOURCE, library=True):
        made = self.folder / name
        if library:
            flags = f"-I{wherry.get_include()}", f"-L{wherry.get_library_dir()}", "-lwherry", *flags
        subprocess.run([CC, "-Wall", "-Werror", "-fPIC", "-o", made, source, *flags], check=True,
                       stdin=subprocess.DEVNULL)
        return made

    def run_program(self, made):
        env = {key: value for key, value in os.environ.items() if key != "LD_LIBRARY_PATH"}
        out = subprocess.run([made], check=True, capture_output=True, text=True, env=env).stdout
        self.assertEqual(out, f"{wherry.__version__} 0\n")

    def test_program(self):
        self.run_program(self.compile("program", self.rpath))

    def test_program_by_the_path_of_the_library(self):
        path = os.path.join(wherry.get_library_dir(), "libwherry.so")
        self.run_program(self.compile("program", f"-I{wherry.get_include()}", path, self.rpath,
                                      library=False))

    def test_program_by_pkg_config(self):
        folder = os.path.join(wherry.get_library_dir(), "pkgconfig")
        if not os.path.exists(os.path.join(folder, "wherry.pc")) or not shutil.which("pkg-config"):
            self.skipTest("no wherry.pc in the package, or no pkg-config")

        def say(*what):
            return subprocess.run(["pkg-config", *what, "wherry"], check=True, text=True,
                                  capture_output=True, stdin=subprocess.DEVNULL,
                                  env={**os.environ, "PKG_CONFIG_PATH": folder}).stdout.split()
        self.assertEqual(say("--modversion"), [wherry.__version__])
        rpath, = say("--variable=libdir")
        self.run_program(self.compile("program", *say("--cflags", "--libs"), f"-Wl,-rpath,{rpath}",
                                      library=False))

    def shared(self, made, *order):
        code, out, err = run_child(SHARED.format(*order), made)
        self.assertEqual(code, 0, err)
        said, files = out.splitlines()
        self.assertIn("WHERRY_CREDITS is not known", said)
        self.assertEqual(os.path.realpath(files),
                         os.path.realpath(os.path.join(wherry.get_library_dir(), SONAME)))

    def test_library_that_comes_after(self):
        # Without a path of its own: the loader must take what is there.
        self.shared(self.compile("second.so", "-shared"), IMPORT, OPEN)

    def test_library_that_comes_before(self):
        self.shared(self.compile("first.so", "-shared", self.rpath), OPEN, IMPORT)

    def test_an_engine_of_another_version(self):
        other = self.folder / "other.c"
        other.write_text('const char *wh_version(void) { return "0.999.1"; }\n')
        made = self.compile("other.so", "-shared", source=other, library=False)
        code, _, err = run_child("import wherry", LD_PRELOAD=str(made))
        self.assertNotEqual(code, 0)
        self.assertRegex(err, rf"ImportError: .*built for libwherry {wherry.__version__}, but this "
                              rf"process has loaded version 0\.999\.1 from {made}")


if __name__ == "__main__":
    unittest.main()
