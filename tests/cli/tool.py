# SPDX-License-Identifier: BSD-3-Clause
"""What the tests of the command share: running it, with a limit on everything.

The tests are run as `python3 usage_test.py`; the environment names the command (WHERRY) and the
library (LIBWHERRY).
"""
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

WHERRY = os.environ.get("WHERRY", "build/wherry")
LIBRARY = os.environ.get("LIBWHERRY", "build/libwherry.so")
LIMIT = 120  # seconds until a process counts as hung


def environment(extra):
    """The caller's environment without settings of its own, which would change what is tested."""
    base = {name: value for name, value in os.environ.items() if not name.startswith("WHERRY_")}
    return {**base, "LC_ALL": "C", **extra}


class Case(unittest.TestCase):
    """A test with a folder of its own, whose processes end with it."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="wherry-test-"))
        self.addCleanup(self.remove_folder)
        self.running = []
        self.addCleanup(self.end_all)

    def remove_folder(self):
        for path in self.folder.rglob("*"):  # folders that forbid writing cannot be emptied
            if path.is_dir() and not path.is_symlink():
                path.chmod(0o700)
        shutil.rmtree(self.folder)

    def end_all(self):
        for process in self.running:
            if process.poll() is None:
                process.kill()
            process.communicate()

    def start(self, *words, **extra):
        process = subprocess.Popen([WHERRY, *map(str, words)], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, errors="replace",
                                   stdin=subprocess.DEVNULL, env=environment(extra))
        self.running.append(process)
        return process

    def finish(self, process, code):
        """Wait for the end, which must be `code`; return (output, errors)."""
        out, err = process.communicate(timeout=LIMIT)
        self.assertEqual(process.returncode, code, f"{process.args}\n{out}\n{err}")
        return out, err

    def run_tool(self, code, *words, **extra):
        return self.finish(self.start(*words, **extra), code)

    def start_receiver(self, *words, **extra):
        """Start `wherry recv` into self.folder/out; return it and its address."""
        process = self.start("recv", self.folder / "out", *words, **extra)
        line = process.stdout.readline()
        self.assertRegex(line, r"^listening at \S+:\d+$")
        return process, line.split()[-1]
