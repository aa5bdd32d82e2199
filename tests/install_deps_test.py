#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests of tools/install-deps.sh: what is there counts, wherever it came from, and no root is no end."""
import os
import pathlib
import subprocess
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parent.parent / "tools" / "install-deps.sh"


class InstallDeps(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="wherry-test-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.put("dpkg-query", "exit 1")  # no package is installed
        self.put("id", "echo 1000")
        self.put("sudo", "exit 1")
        self.put("apt-get", f"touch {self.folder}/called")
        for tool in ("gcc", "cc", "ninja", "python3", "pkg-config", "cython3"):
            self.put(tool, "exit 0")

    def put(self, name, line):
        path = self.folder / name
        path.write_text(f"#!/bin/sh\n{line}\n")
        path.chmod(0o755)

    def run_script(self):
        env = {**os.environ, "PATH": f"{self.folder}:/usr/bin:/bin", "CC": "cc"}
        ended = subprocess.run(["sh", str(SCRIPT), "build"], env=env, capture_output=True, text=True,
                               stdin=subprocess.DEVNULL, timeout=60)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertFalse((self.folder / "called").exists())
        return ended.stderr

    def test_tools_without_packages(self):
        self.put("meson", "echo 1.3.0")
        self.assertEqual(self.run_script(), "")

    def test_something_is_missing(self):
        self.put("meson", "echo 1.3.0")
        self.put("pkg-config", "exit 1")
        err = self.run_script()
        self.assertIn("not root, so going on without: libssl-dev libhwloc-dev libucx-dev", err)
        self.assertNotIn("meson", err)


if __name__ == "__main__":
    unittest.main()
