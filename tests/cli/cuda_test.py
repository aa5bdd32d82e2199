#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests of what the command says of CUDA: what the driver gives, or why it gives nothing.

CUDA_DRIVER is the folder of the test driver's libcuda.so.1, CUDA_OLD_DRIVER that of one which lacks nearly all.
"""
import json
import os
import unittest

import tool


class Cuda(tool.Case):
    def told(self, **environment):
        """What info says of CUDA: usable, and the reason; text and doctor must say the same."""
        told = json.loads(self.run_tool(0, "info", "--json", **environment)[0])
        kind = next(kind for kind in told["memory"] if kind["name"] == "cuda")
        word = "yes" if kind["usable"] else "no"
        self.assertIn(f"  cuda     {word:4} {kind['reason']}\n", self.run_tool(0, "info", **environment)[0])
        grade = "ok  " if kind["usable"] else "note"
        self.assertRegex(self.run_tool(0, "doctor", **environment)[0], rf"(?m)^{grade}  cuda .*memory of GPUs: ")
        return kind["usable"], kind["reason"]

    def over(self, **environment):
        return self.told(LD_LIBRARY_PATH=os.environ["CUDA_DRIVER"], **environment)

    def test_devices(self):
        self.assertEqual(self.over(), (
            True, "driver of CUDA 12.4, 2 devices: Test Device 0, Test Device 1"))
        self.assertEqual(self.over(CUTEST_DEVICES="1"), (
            True, "driver of CUDA 12.4, 1 device: Test Device 0"))

    def test_none_that_works(self):
        for environment, reason in (
                ({"CUTEST_DEVICES": "0"}, "nvidia-smi"),
                ({"CUTEST_VERSION": "10020"}, "CUDA 10.2 is too old: 11.0 is needed"),
                ({"CUTEST_FAIL": "cuInit=803"}, "cuInit failed with .*803.*kernel's module")):
            usable, told = self.over(**environment)
            self.assertFalse(usable)
            self.assertRegex(told, reason)

    def test_perf(self):
        rows = json.loads(self.run_tool(
            0, "perf", "tag", "object", "am", "put", "get", "--memory", "cuda", "--layout", "dense,vector",
            "--sizes", "1K,64K", "--metric", "latency", "--time", "0.004", "--reps", "2", "--json",
            "--mode", "adaptive", LD_LIBRARY_PATH=os.environ["CUDA_DRIVER"])[0])
        self.assertEqual(len(rows), 20)
        self.assertEqual({row["memory"] for row in rows}, {"cuda"})

    def test_old(self):
        usable, told = self.told(LD_LIBRARY_PATH=os.environ["CUDA_OLD_DRIVER"])
        self.assertFalse(usable)
        self.assertIn("has no cuInit", told)


if __name__ == "__main__":
    unittest.main()
