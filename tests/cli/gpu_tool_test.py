#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests of tools/gpu.py: with the test driver in the place of a real one, with one that fails, and without any.

    gpu_tool_test.py TOOL BUILD
"""
import contextlib
import importlib.util
import io
import os
import re
import subprocess
import sys
import unittest
from unittest import mock

TOOL, BUILD = sys.argv[1:3]
FIGURE = r"\d\S*"


class Gpu(unittest.TestCase):
    def run_tool(self, *arguments, **environment):
        done = subprocess.run([sys.executable, TOOL, BUILD, "--only-device", "--time", "0.01", *arguments],
                              env={**os.environ, **environment}, capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    def over(self, *arguments, **environment):
        return self.run_tool("--driver", os.environ["CUDA_DRIVER"], *arguments, **environment)

    def test_with_a_device(self):
        status, text = self.over("--no-sanitizer", "--tests", "^mem-cuda(-stream|-old)?$", "--sizes", "8,4K",
                                 "--layout-size", "3K")
        self.assertEqual(status, 0, text)
        self.assertRegex(text, r"ok +mem-cuda, .*\n.*ok +mem-cuda-stream, ")
        self.assertNotIn("mem-cuda-old", text)
        self.assertRegex(text, rf"within the device +{FIGURE}\n +to the host +{FIGURE}\n +from the host +{FIGURE}\n")
        for size in "8", "4K":
            self.assertRegex(text, rf"\n +{size}(  +{FIGURE}){{4}}\n")
        for layout in "dense", "vector:512:1024", "transposed:8":
            self.assertRegex(text, rf"\n +{layout}(  +{FIGURE}){{3}}\n")
        self.assertIn("all is good", text)

    def test_figures_that_cannot_be_had(self):
        status, text = self.over("--no-sanitizer", "--tests", "^mem-cuda$", "--sizes", "no", "--layout-size", "3K")
        self.assertEqual(status, 1, text)
        self.assertIn("something has FAILED", text)

    def test_no_test_of_that_name(self):
        # Meson runs all tests when it is given no name: it must not be asked.
        spec = importlib.util.spec_from_file_location("gpu", TOOL)
        tool = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(tool)
        with mock.patch.object(tool.subprocess, "run") as run, contextlib.redirect_stdout(io.StringIO()) as told:
            run.return_value.stdout, run.return_value.returncode = "[]", 0
            self.assertFalse(tool.over_test_driver(BUILD, re.compile("^nothing$")))
        self.assertEqual(run.call_count, 1)  # the list of tests
        self.assertIn("no test of device memory has '^nothing$' in its name", told.getvalue())

    def test_without_one(self):
        # There may be one where this runs.
        status, text = self.run_tool("--tests", "^nothing$", "--no-sanitizer", "--sizes", "8", "--layout-size", "3K")
        self.assertEqual(status, 0, text)
        self.assertRegex(text, "No GPU here: .*the rest needs a device|all is good")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
