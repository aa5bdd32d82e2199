#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests of the command with and without UCX: one truth in all that it says, and all else works.

There is none in a build that had no headers of UCX (BUILT_WITH_UCX=0), and with an empty folder to take it from.
"""
import json
import os
import unittest

import tool

BUILT_WITH_UCX = os.environ.get("BUILT_WITH_UCX", "1") == "1"


class WithUcx(tool.Case):
    def setUp(self):
        super().setUp()
        told = json.loads(self.run_tool(0, "info", "--json")[0])
        self.told = told["versions"]
        self.lane = next(lane for lane in told["lanes"] if lane["name"] == "ucx")
        if not self.told["ucx"]:
            self.skipTest("no UCX: " + self.lane["reason"])

    def test_what_is_loaded(self):
        out, _ = self.run_tool(0, "info")
        self.assertIn(f"ucx       {self.told['ucx']} ({self.told['ucx_path']})", out)
        self.assertTrue(os.path.exists(self.told["ucx_path"]))
        self.assertIn(f"UCX {self.told['ucx']} ({self.told['ucx_path']})", self.lane["reason"])

    def test_transports(self):
        told = json.loads(self.run_tool(0, "info", "--json", UCX_TLS="posix")[0])["versions"]
        self.assertRegex(told["ucx_transports"], r"^posix/memory\d*$")
        told = json.loads(self.run_tool(0, "info", "--json", UCX_TLS="tcp")[0])["versions"]
        self.assertRegex(told["ucx_transports"], r"^tcp/\w+(, tcp/\w+)*$")


class WithoutUcx(tool.Case):
    def setUp(self):
        super().setUp()
        self.none = {"WHERRY_UCX_DIR": str(self.folder)}
        self.why = (f"UCX cannot be opened in {self.folder}" if BUILT_WITH_UCX
                    else "this Wherry was built without UCX's headers")

    def test_info(self):
        out, _ = self.run_tool(0, "info", **self.none)
        self.assertRegex(out, r"(?m)^ucx       none$")
        told = json.loads(self.run_tool(0, "info", "--json", **self.none)[0])
        for key in ("ucx", "ucx_path", "ucx_transports"):
            self.assertIsNone(told["versions"][key])
        lane = next(lane for lane in told["lanes"] if lane["name"] == "ucx")
        self.assertFalse(lane["usable"])
        self.assertIn(self.why, lane["reason"])

    def test_doctor(self):
        out, _ = self.run_tool(0, "doctor", **self.none)
        self.assertRegex(out, r"(?m)^note +ucx +lane not used: ")
        self.assertIn(self.why, out)

    def test_only_ucx(self):
        _, err = self.run_tool(1, "info", WHERRY_LANES="ucx", **self.none)
        self.assertIn(f"lanes=ucx leaves no lane that works here: {self.why}", err)

    def test_the_others_serve(self):
        lanes = {"WHERRY_LANES": "stream,ucx", **self.none}
        source = self.folder / "file"
        source.write_bytes(bytes(range(256)) * 1000)
        receiver, address = self.start_receiver(**lanes)
        _, err = self.run_tool(0, "send", source, address, **lanes)
        self.assertIn(f"the ucx lane is not used: {self.why}", err)
        receiver.terminate()
        self.finish(receiver, 0)
        self.assertEqual((self.folder / "out" / "file").read_bytes(), source.read_bytes())


if __name__ == "__main__":
    unittest.main()
