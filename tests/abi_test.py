#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests of tools/check_abi.py: what it notices, and that its record says nothing else."""
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
MORE = """
enum { WH_TEST_LEFT = 3, WH_TEST_RIGHT };
typedef struct wh_test {
    unsigned low : 3, high : 5;
    union {
        char text[24];
        long number;
    };
    struct {
        void (*fn)(int, ...);
    } inner;
} wh_test;
"""
SAID = """\
enum
    WH_TEST_LEFT = 3
    WH_TEST_RIGHT = 4
struct wh_test: 40 bytes
    0 unsigned low
    0.3 unsigned high
    8 char[24] text
    8 long number
    32 void (*)(int, ...) fn
"""


class Abi(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="wherry-test-")
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        shutil.copytree(ROOT / "include", self.root / "include")
        for name in ("tools/check_abi.py", "tools/check_api.py", "src/libwherry.map"):
            (self.root / name).parent.mkdir(exist_ok=True)
            shutil.copy(ROOT / name, self.root / name)
        self.assertEqual(self.check("--write")[0], 0)

    def check(self, *words):
        ended = subprocess.run([sys.executable, self.root / "tools/check_abi.py", *words],
                               text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT)
        return ended.returncode, ended.stdout

    def change(self, header, old, new):
        path = self.root / "include/wherry" / header
        text = path.read_text()
        self.assertEqual(text.count(old), 1)
        path.write_text(text.replace(old, new))

    def notices(self, *lines):
        code, said = self.check()
        self.assertEqual(code, 1, said)
        for line in lines:
            self.assertIn(line, said)
        self.assertIn("tools/check_abi.py --write, and a line in CHANGELOG.md", said)
        self.assertEqual(self.check("--write")[0], 0)
        self.assertEqual(self.check(), (0, ""))

    def test_no_change(self):
        self.change("version.h", "WH_VERSION_MINOR ", "WH_VERSION_MINOR 1000 + ")
        self.assertEqual(self.check(), (0, ""))

    def test_function(self):
        self.change("context.h", "const char *wh_version(void)", "const char *wh_version(int less)")
        self.notices("-wh_version@", ": const char * (void)", ": const char * (int)")

    def test_version_of_a_symbol(self):
        path = self.root / "src/libwherry.map"
        path.write_text(path.read_text().replace("    wh_version;\n", ""))
        self.notices("+wh_version@(not in the map)")

    def test_constant(self):
        self.change("am.h", "#define WH_AM_HEADER_MAX ", "#define WH_AM_HEADER_MAX 1 + ")
        self.notices("+#define WH_AM_HEADER_MAX 1 + ")

    def test_types(self):
        self.change("version.h", "#endif", MORE + "#endif")
        self.notices(*("+" + line for line in SAID.splitlines()))

    def test_member(self):
        self.change("mem.h", "} wh_mem_info;", "    int more;\n} wh_mem_info;")
        self.notices("+    32 int more", "+struct wh_mem_info: 40 bytes")


if __name__ == "__main__":
    if not shutil.which("abidw"):
        print("skipped: abidw is not installed (Debian: abigail-tools)")
        sys.exit(77)
    unittest.main()
