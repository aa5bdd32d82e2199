#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests of what the command says of CUDA: what the driver gives, or why it gives nothing.

CUDA_DRIVER is the folder of the test driver's libcuda.so.1, CUDA_OLD_DRIVER that of one which lacks nearly all.
"""
import json
import os
import pathlib
import tempfile
import unittest
import xml.etree.ElementTree

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

    def devices(self, **environment):
        return json.loads(self.run_tool(0, "info", "--json", LD_LIBRARY_PATH=os.environ["CUDA_DRIVER"],
                                        **environment)[0])["cuda"]["devices"]

    def test_what_devices_can(self):
        one, two = self.devices()
        self.assertEqual((one["name"], one["capability_major"], one["capability_minor"], one["memory"]),
                         ("Test Device 0", 8, 0, 16 << 30))
        self.assertEqual((two["capability_minor"], one["reaches"], two["reaches"]), (1, [1], [0]))
        self.assertTrue(one["virtual_memory"] and one["memory_pools"] and one["managed_memory"])
        text = self.run_tool(0, "info", LD_LIBRARY_PATH=os.environ["CUDA_DRIVER"])[0]
        self.assertRegex(text, r"    device 1  Test Device 1, compute capability 8.1, 16.* virtual memory, memory pools, "
                               r"managed memory; reaches 0\n")
        self.assertRegex(text, r"    nvrtc     (none|libnvrtc\.so\S* \(\d+\.\d+\))\n")
        poor = self.devices(CUTEST_ATTRIBUTES="0", CUTEST_DEVICES="1")[0]
        self.assertFalse(poor["virtual_memory"] or poor["memory_pools"] or poor["managed_memory"])
        self.assertEqual(poor["reaches"], [])
        # What a driver fails to say is not there.
        failing, _ = self.devices(CUTEST_FAIL="cuDeviceGetAttribute=1")
        self.assertFalse(failing["capability_major"] or failing["memory_pools"])
        self.assertFalse(self.devices(CUTEST_FAIL="cuMemAlloc_v2=2")[0]["ipc"])
        self.assertEqual(self.devices(CUTEST_DEVICES="0"), [])

    def test_what_to_do(self):
        def doctor(**environment):
            return self.run_tool(0, "doctor", LD_LIBRARY_PATH=os.environ["CUDA_DRIVER"], **environment)[0]

        text = doctor()
        self.assertRegex(text, r"(?m)^ok    cuda peers +2 of 2 pairs")
        self.assertRegex(text, r"(?m)^(ok  |note)  cuda 0 +Test Device 0, compute capability 8.0, 16")
        self.assertRegex(text, r"(?m)^(ok    nvrtc .* at run time: lib|note  nvrtc +no library.*\n.*pip install)")
        text = doctor(CUTEST_ATTRIBUTES="0", CUTEST_DEVICES="4")
        self.assertRegex(text, r"(?m)^note  cuda 0 .*; not .*virtual memory, memory pools, managed memory\n +-> ")
        self.assertRegex(text, r"(?m)^note  cuda peers +4 of 12 .*\n +-> `nvidia-smi topo -p2p r`")
        self.assertNotIn("cuda peers", doctor(CUTEST_DEVICES="1"))
        self.assertNotIn("nvrtc", doctor(CUTEST_DEVICES="0"))

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

    def test_perf_of_several(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "out.svg")
            rows = json.loads(self.run_tool(
                0, "perf", "--memory", "cuda,cuda-staged,managed,host", "--sizes", "1K,64K", "--metric",
                "latency,bandwidth", "--time", "0.004", "--reps", "2", "--layout", "dense,vector:512:1024", "--json",
                "--mode", "adaptive", "--plot", str(path), LD_LIBRARY_PATH=os.environ["CUDA_DRIVER"])[0])
            names = ["cuda", "cuda-staged", "managed", "host"]
            self.assertEqual([row["memory"] for row in rows], [name for name in names for _ in range(8)])
            texts = [text.text for text in xml.etree.ElementTree.parse(path).getroot().iter(
                "{http://www.w3.org/2000/svg}text")]
            for line in "Wherry tag", "Wherry tag, cuda", "Wherry tag, cuda-staged", "Wherry tag, managed":
                self.assertEqual(texts.count(line), 1, line)

    def test_which_way_it_goes(self):
        """Only what is not staged goes in one copy, and small messages in none."""
        rows = json.loads(self.run_tool(
            0, "perf", "tag", "--memory", "cuda,cuda-staged,host", "--sizes", "8,64K", "--metric", "latency", "--time",
            "0.004", "--reps", "2", "--json", "--mode", "adaptive", LD_LIBRARY_PATH=os.environ["CUDA_DRIVER"])[0])
        self.assertEqual([(row["memory"], row["size"], row["device_parts"] > 0) for row in rows], [
            (memory, size, memory == "cuda" and size > 8)
            for memory in ("cuda", "cuda-staged", "host") for size in (8, 65536)])

    def test_models(self):
        for memory in ("cuda", "cuda-staged"):
            rows = json.loads(self.run_tool(
                0, "perf", "--model", "buffer,channel", "--memory", memory, "--sizes", "8,64K", "--time", "0.004",
                "--reps", "2", "--json", "--mode", "adaptive", LD_LIBRARY_PATH=os.environ["CUDA_DRIVER"])[0])
            self.assertEqual([(row["test"], row["size"], row["memory"]) for row in rows],
                             [(test, size, memory) for size in (8, 65536) for test in ("buffer", "channel")])

    def test_managed_memory_that_cannot_be_had(self):
        _, err = self.run_tool(1, "perf", "--memory", "managed", "--sizes", "8", "--metric", "latency", "--time", "0.004",
                               LD_LIBRARY_PATH=os.environ["CUDA_DRIVER"], CUTEST_FAIL="cuMemAllocManaged=2")
        self.assertIn("memory for two", err)
        _, err = self.run_tool(1, "perf", "--model", "buffer", "--memory", "managed", "--sizes", "8",
                               LD_LIBRARY_PATH=os.environ["CUDA_DRIVER"], CUTEST_FAIL="cuMemAllocManaged=2")
        self.assertIn("memory for two", err)

    def test_old(self):
        usable, told = self.told(LD_LIBRARY_PATH=os.environ["CUDA_OLD_DRIVER"])
        self.assertFalse(usable)
        self.assertIn("has no cuInit", told)


if __name__ == "__main__":
    unittest.main()
