#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests of `wherry perf`: that it measures, and what it prints; how fast is another question."""
import json
import shutil
import signal
import time
import unittest

import tool
from wherry_client import Sender

FIELDS = ["test", "metric", "size", "lane", "mode", "unit", "median", "p99", "min", "raw", "ratio",
          "ucx"]
UNITS = {"latency": "us", "bandwidth": "GB/s", "bidir": "GB/s", "rate": "M/s"}
SHORT = ["--time", "0.02", "--reps", "2"]


class Perf(tool.Case):
    def measure(self, *words):
        out, _ = self.run_tool(0, "perf", "--json", *SHORT, *words)
        rows = json.loads(out)
        for row in rows:
            self.assertEqual(list(row), FIELDS)
            self.assertEqual(row["unit"], UNITS[row["metric"]])
            self.assertGreater(row["median"], 0)
            low, high = sorted((row["p99"], row["min"]))
            if row["metric"] == "latency":
                self.assertTrue(low <= row["median"] <= high, row)
            else:
                self.assertLessEqual(high, row["median"])
        return rows

    def test_all_tests_lanes_and_metrics(self):
        for lane in ("shm", "stream"):
            rows = self.measure("tag", "object", "am", "--lane", lane, "--sizes", "8,64K,1M",
                                "--metric", "latency,bandwidth,bidir,rate")
            self.assertEqual(len(rows), 3 * 3 * 4)
            self.assertEqual({row["lane"] for row in rows}, {lane})
            self.assertEqual({row["raw"] for row in rows}, {None})

    def test_modes(self):
        for mode in ("spin", "wait", "adaptive"):
            rows = self.measure("--mode", mode, "--sizes", "8,64K")
            self.assertEqual({row["mode"] for row in rows}, {mode})
            told = [(row["metric"], row["size"]) for row in rows]
            self.assertEqual(told, [("latency", 8), ("latency", 65536), ("bandwidth", 65536),
                                    ("bidir", 65536), ("rate", 8)])

    def test_raw(self):
        for words in (["--lane", "stream"], ["--lane", "stream", "--mode", "wait"],
                      ["--lane", "shm", "--mode", "wait", "--metric", "latency", "--sizes", "8"]):
            for row in self.measure("--raw", "--sizes", "8,64K", *words):
                self.assertAlmostEqual(row["ratio"], row["median"] / row["raw"], places=3)
                self.assertIsNone(row["ucx"])

    @unittest.skipUnless(shutil.which("ucx_perftest"), "ucx_perftest (ucx-utils) is not installed")
    def test_raw_ucx(self):
        rows = self.measure("--raw", "--lane", "shm", "--sizes", "8,64K")
        for row in rows:
            if row["metric"] == "bidir":
                self.assertIsNone(row["raw"])
                continue
            self.assertRegex(row["ucx"], r"^\d+\.\d+\.\d+$")
            self.assertAlmostEqual(row["ratio"], row["median"] / row["raw"], places=3)

    def test_missing_ucx(self):
        _, err = self.run_tool(1, "perf", "--raw", "--lane", "shm", "--ucx", self.folder)
        self.assertIn("ucx_perftest", err)

    def test_table(self):
        out, _ = self.run_tool(0, "perf", *SHORT, "--sizes", "1K", "--metric", "latency")
        lines = out.splitlines()
        self.assertEqual(len(lines), 3)
        self.assertRegex(lines[1], r"^test +metric +size +lane +mode +unit +median +p99 +min")
        self.assertRegex(lines[2], r"^tag +latency +1K +shm +spin +us +[\d.]+")

    def start_server(self, *words):
        server = self.start("perf", "--listen", "0", "--mode", "wait", *words)
        line = server.stdout.readline()
        self.assertRegex(line, r"^listening on port \d+$")
        return server, f"127.0.0.1:{line.split()[-1]}"

    def connect(self, address, *words):
        return self.start("perf", "--connect", address, "--mode", "wait", "--sizes", "8",
                          "--metric", "latency", *words)

    def test_listens_on_this_host_only(self):
        server, address = self.start_server()
        with open("/proc/net/tcp") as table:
            rows = [line.split()[1] for line in table if line.split()[3] == "0A"]
        port = f":{int(address.split(':')[1]):04X}"
        self.assertIn("0100007F" + port, rows)
        self.assertNotIn("00000000" + port, rows)
        server.terminate()
        self.finish(server, 0)

    def test_secret(self):
        server, address = self.start_server("--secret", "right", "--host", "127.0.0.1", "--once")
        _, err = self.finish(self.connect(address), 1)
        self.assertIn("the listener asks for a secret", err)
        self.assertEqual(err.count("\n"), 1, err)
        self.finish(self.connect(address, "--secret", "right", *SHORT), 0)
        self.finish(server, 0)

    def test_one_session_at_a_time(self):
        server, address = self.start_server()
        first = self.connect(address, "--time", "100")
        err, deadline = "", time.monotonic() + tool.LIMIT
        while "another session is running" not in err:
            self.assertLess(time.monotonic(), deadline, err)
            err = self.connect(address, *SHORT).communicate(timeout=tool.LIMIT)[1]
        first.kill()
        first.wait()
        while "another session is running" in err:  # until the server has noticed
            self.assertLess(time.monotonic(), deadline, err)
            err = self.connect(address, *SHORT).communicate(timeout=tool.LIMIT)[1]
        server.terminate()
        _, err = self.finish(server, 0)
        self.assertRegex(err, "the connecting side has gone|the peer died")

    def test_strangers(self):
        # Who does not speak as a client does neither ends the server nor holds it.
        server, address = self.start_server("--once")
        silent = [Sender(address) for _ in range(20)]
        stranger = Sender(address)
        stranger.send_text(b"run tag latency 8 1")
        self.finish(self.connect(address, *SHORT), 0)
        _, err = self.finish(server, 0)
        self.assertIn("is no `wherry perf`", err)
        for sender in [*silent, stranger]:
            sender.close()

    def test_two_hosts(self):
        server = self.start("perf", "--listen", "0", "--mode", "adaptive")
        port = server.stdout.readline().split()[-1]
        for _ in range(2):  # one session after the other
            rows = self.measure("--connect", f"127.0.0.1:{port}", "--mode", "adaptive", "--lane",
                                "stream", "--raw", "--sizes", "8", "--metric", "latency")
            self.assertGreater(rows[0]["raw"], 0)
        _, err = self.run_tool(1, "perf", "--connect", f"127.0.0.1:{port}", "--mode", "wait")
        self.assertIn("--mode adaptive", err)
        server.send_signal(signal.SIGINT)
        self.finish(server, 0)


if __name__ == "__main__":
    unittest.main()
