#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests of `wherry perf`: that it measures, and what it prints; how fast is another question."""
import json
import os
import pathlib
import shutil
import signal
import time
import unittest
import xml.etree.ElementTree

import tool
from wherry_client import Sender

FIELDS = ["test", "metric", "size", "lane", "mode", "unit", "median", "p99", "min", "raw", "ratio",
          "ucx", "peer"]
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
            ratio = row["median"] / row["raw"]
            self.assertLess(abs(row["ratio"] - ratio), 0.001 * max(ratio, 1))

    @unittest.skipUnless(shutil.which("ucx_perftest"), "ucx_perftest (ucx-utils) is not installed")
    def test_raw_access(self):
        rows = self.measure("put", "get", "atomic", "--raw", "--lane", "shm", "--sizes", "8,64K",
                            "--metric", "bandwidth,rate", "--time", "0.002")
        told = [(row["test"], row["metric"], row["size"], row["peer"]) for row in rows]
        self.assertEqual(told, [
            ("put", "bandwidth", 8, None), ("get", "bandwidth", 8, None),
            ("put", "bandwidth", 65536, None), ("get", "bandwidth", 65536, None),
            ("put", "bandwidth", 65536, "memcpy"), ("get", "bandwidth", 65536, "memcpy"),
            ("put", "rate", 8, None), ("get", "rate", 8, None), ("atomic", "rate", 8, None),
            ("put", "rate", 65536, None), ("get", "rate", 65536, None)])
        for row in rows:
            self.assertIs(row["raw"] is None, row["peer"] is not None)
            self.assertGreater(row["ratio"], 0)

    def test_access(self):
        for words in (["--lane", "shm"], ["--lane", "stream"], ["--memory", "user"],
                      ["--mode", "wait"]):
            rows = self.measure("put", "get", "atomic", "--sizes", "4,8,64K", *words)
            told = [(row["test"], row["metric"], row["size"]) for row in rows]
            self.assertEqual(told, [
                *((test, "latency", size) for size in (4, 8) for test in ("put", "get", "atomic")),
                ("put", "latency", 65536), ("get", "latency", 65536),
                ("put", "bandwidth", 65536), ("get", "bandwidth", 65536),
                *((test, "rate", size) for size in (4, 8) for test in ("put", "get", "atomic"))])

    def test_plot(self):
        path = pathlib.Path(self.folder) / "out.svg"
        self.measure("tag", "put", "--sizes", "8,64K", "--plot", path)
        drawn = xml.etree.ElementTree.parse(path).getroot()
        texts = {text.text for text in drawn.iter("{http://www.w3.org/2000/svg}text")}
        self.assertLessEqual({"Wherry tag", "Wherry tag, both ways", "Wherry put", "size (bytes)",
                              "latency (us), lower is better", "32K"}, texts)
        self.run_tool(1, "perf", *SHORT, "--sizes", "8", "--plot", "/nowhere/out.svg")

    def peer(self, name, text):
        """A peer whose launcher is a script that ends where a real one would start two ranks."""
        folder = pathlib.Path(self.folder) / name / "bin"
        folder.mkdir(parents=True)
        for program in ("mpiexec", "wherry-peer"):
            (folder / program).write_text("#!/bin/sh\n" + text)
            os.chmod(folder / program, 0o755)

    def test_peers(self):
        self.peer("mpich", "echo up; echo hello 9.8.7; while read -r word rest; do\n"
                  "[ $word = end ] && exit; echo took 1 2 3 1.5; done\n")
        rows = self.measure("tag", "get", "--lane", "shm", "--sizes", "8", "--metric",
                            "latency,bidir", "--peers", self.folder)
        self.assertEqual([(row["test"], row["metric"], row["peer"]) for row in rows],
                         [("tag", "latency", None), ("get", "latency", None),
                          ("tag", "latency", "mpich 9.8.7"), ("tag", "bidir", None)])
        self.assertEqual([rows[2][name] for name in ("median", "p99", "min")], [2, 3, 1.5])
        self.assertAlmostEqual(rows[2]["ratio"], rows[0]["median"] / 2, places=3)

    def test_peers_that_fail(self):
        words = ["perf", *SHORT, "--lane", "shm", "--sizes", "8", "--peers", self.folder]
        _, err = self.run_tool(1, *words)
        self.assertIn("bench/peers/make.py", err)
        self.peer("openmpi", "echo hello 5.0.0; read -r word\n")
        _, err = self.run_tool(1, *words)
        self.assertIn("openmpi 5.0.0 was lost", err)
        _, err = self.run_tool(1, "perf", "--lane", "stream", "--peers", self.folder)
        self.assertIn("shared memory", err)

    def test_what_does_not_go_together(self):
        for words, why in ((["--memory", "else"], "--memory"), (["wrong"], "put, get, atomic"),
                           (["--peers", ".", "--mode", "wait"], "spin")):
            _, err = self.run_tool(2, "perf", *words)
            self.assertIn(why, err)
        _, err = self.run_tool(1, "perf", "atomic", "--sizes", "64K")
        self.assertIn("nothing to measure", err)

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
            if first.poll() is not None:  # it came second
                first = self.connect(address, "--time", "100")
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
