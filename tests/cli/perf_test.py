#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests of `wherry perf`: that it measures, and what it prints; how fast is another question."""
import itertools
import json
import os
import pathlib
import shutil
import signal
import sys
import time
import unittest
import xml.etree.ElementTree

import tool
from wherry_client import Sender

FIELDS = ["test", "metric", "size", "lane", "mode", "unit", "median", "p99", "min", "raw", "ratio",
          "ucx", "peer", "layout", "memory", "device_parts"]
UNITS = {"latency": "us", "bandwidth": "GB/s", "bidir": "GB/s", "rate": "M/s", "memory": "B"}
SHORT = ["--time", "0.02", "--reps", "2"]

# A ucx_perftest, as far as it is known from outside, whose sizes say what is wrong with it.
FAKE_PERFTEST = """#!{python}
import os, socket, subprocess, sys, time
words = dict(zip(sys.argv, sys.argv[1:]))
port = int(words["-p"])
if "-t" not in words:
    server = socket.create_server(("127.0.0.1", port))
    server.accept()[0].recv(1)
    sys.exit()
client = socket.create_connection(("127.0.0.1", port))
size = int(words["-s"])
if size == 16:
    child = subprocess.Popen(["sleep", "1000"])
    with open("{folder}/pids.new", "w") as file:
        print(os.getpid(), child.pid, file=file)
    os.rename("{folder}/pids.new", "{folder}/pids")
    child.wait()
if size == 32:
    print("nothing that has a figure in it")
    sys.exit()
if size == 64:
    sys.exit(3)
if size == 128:
    print("1000,nan,nan,nan,0,0,0,nan")
    sys.exit()
if size == 256:
    os.kill(os.getpid(), 9)
print("1000,2.5,2.5,2.5,1,1,4000000,4000000")
"""


class Perf(tool.Case):
    def measure(self, *words):
        out, err = self.run_tool(0, "perf", "--json", *SHORT, *words)
        rows = json.loads(out)
        self.left_out = "a figure is left out" in err  # of a program of others, which may hang
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

    def test_post(self):
        rows = self.measure("post")
        self.assertEqual([(row["metric"], row["mode"]) for row in rows],
                         [(metric, mode) for mode in ("spin", "adaptive", "wait")
                          for metric in ("latency", "rate")])
        for row in rows:
            self.assertEqual((row["test"], row["size"], row["lane"]), ("post", 0, "thread"))
            self.assertLess(0, row["min"])
            self.assertLessEqual(row["min"], row["median"])
        rows = self.measure("post", "--metric", "rate", "--mode", "wait", "--pin", "none")
        self.assertEqual([(row["metric"], row["mode"]) for row in rows], [("rate", "wait")])

    def test_model(self):
        for lane in ("shm", "stream"):
            rows = self.measure("--model", "engine,message,entry,buffer,channel", "--lane", lane,
                                "--sizes", "0,8,64K", "--time", "0.01")
            told = [(row["test"], row["size"], row["lane"]) for row in rows]
            self.assertEqual(told, [
                (test, size, where) for size in (0, 8, 65536)
                for test, where in (("am", lane), ("tag", lane), ("message", lane),
                                    ("entry", lane), ("entry", "self"), ("buffer", lane),
                                    ("channel", lane))])
            yards = {(row["test"], row["size"]): row["median"] for row in rows}
            for row in rows:
                self.assertEqual(row["metric"], "latency")
                if row["test"] in ("am", "tag") or row["lane"] == "self":
                    self.assertIsNone(row["raw"])
                    continue
                yard = "tag" if row["test"] == "channel" else "am"
                self.assertEqual(row["raw"], yards[yard, row["size"]])
                self.assert_ratio(row)

    def test_model_in_device_memory(self):
        rows = self.measure("--model", "engine,buffer,channel", "--memory", "sim", "--sizes", "8,64K",
                            "--time", "0.01")
        self.assertEqual([(row["test"], row["size"], row["memory"]) for row in rows],
                         [(test, size, "sim") for size in (8, 65536)
                          for test in ("am", "tag", "buffer", "channel")])

    def test_model_chares(self):
        rows = self.measure("--model", "chares", "--count", "20000", "--mode", "wait")
        self.assertEqual([(row["test"], row["metric"], row["mode"]) for row in rows],
                         [("create", "rate", "wait"), ("bcast", "rate", "wait"),
                          ("chare", "memory", "wait")])
        # What is resident of one: its state, its place, no more than a few hundred bytes.
        self.assertTrue(rows[2]["size"] + 64 < rows[2]["median"] < 1000, rows[2])

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

    def assert_ratio(self, row):
        ratio = row["median"] / row["raw"]
        self.assertLess(abs(row["ratio"] - ratio), 0.001 * max(ratio, 1))

    def test_raw(self):
        for words in (["--lane", "stream"], ["--lane", "stream", "--mode", "wait"],
                      ["--lane", "shm", "--mode", "wait", "--metric", "latency", "--sizes", "8"]):
            for row in self.measure("--raw", "--sizes", "8,64K", *words):
                self.assert_ratio(row)
                self.assertIsNone(row["ucx"])

    @unittest.skipUnless(shutil.which("ucx_perftest"), "ucx_perftest (ucx-utils) is not installed")
    def test_raw_ucx(self):
        rows = self.measure("--raw", "--lane", "shm", "--sizes", "8,64K")
        for row in rows:
            if row["metric"] == "bidir" or (self.left_out and row["raw"] is None):
                self.assertIsNone(row["raw"])
                continue
            self.assertRegex(row["ucx"], r"^\d+\.\d+\.\d+$")
            self.assert_ratio(row)

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
            if self.left_out and row["raw"] is None:
                continue
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

    def test_layouts(self):
        names = ["vector:8:16", "subarray:64:128", "struct", "indexed:64:128", "transposed:8"]
        for lane in ("shm", "stream"):
            rows = self.measure("tag", "object", "am", "put", "get", "--lane", lane, "--sizes",
                                "1K,96K", "--metric", "latency,bidir", "--layout",
                                "vector,subarray,struct,indexed,transposed", "--raw", "--time",
                                "0.002", "--mode", "adaptive")
            told = [(row["metric"], row["layout"], row["size"], row["test"]) for row in rows]
            self.assertEqual(told, [
                (metric, name, size, test) for metric in ("latency", "bidir")
                for name in names for size in (1024, 96 << 10)
                for test in ("tag", "object", "am", *(("put", "get") if metric != "bidir" else ()))])
            for row in rows:
                self.assert_ratio(row)
                self.assertIsNone(row["peer"])

    def test_layouts_and_bytes(self):
        # A size that is no multiple of a layout's blocks is not measured with it.
        rows = self.measure("--lane", "stream", "--sizes", "8,20", "--metric", "rate", "--layout",
                            "dense,vector:4,struct", "--raw")
        self.assertEqual([(row["layout"], row["size"]) for row in rows],
                         [("dense", 8), ("dense", 20), ("vector:4:8", 8), ("vector:4:8", 20)])
        for row in rows:
            self.assert_ratio(row)
        _, err = self.run_tool(1, "perf", "--layout", "struct", "--sizes", "20")
        self.assertRegex(err, "nothing to measure: .*multiples of its blocks")

    def test_memory(self):
        for words in ([], ["--layout", "vector:64:96"]):
            rows = self.measure("tag", "object", "am", "put", "get", "--memory", "sim", "--sizes",
                                "192,6K", "--metric", "latency", "--time", "0.004", *words)
            self.assertEqual(len(rows), 10)
            self.assertEqual({row["memory"] for row in rows}, {"sim"})
        rows = self.measure("tag", "--memory", "host", "--sizes", "8", "--metric", "latency")
        self.assertEqual((rows[0]["memory"], rows[0]["layout"]), ("host", "dense"))

    def test_memory_that_is_not_here(self):
        told = json.loads(self.run_tool(0, "info", "--json")[0])["memory"]
        cuda = next(kind for kind in told if kind["name"] == "cuda")
        if cuda["usable"]:
            self.skipTest("there is cuda memory here")
        _, err = self.run_tool(2, "perf", "--memory", "cuda")
        self.assertIn(f"--memory cuda: there is none here: {cuda['reason']}", err)

    def test_plot_of_layouts(self):
        path = pathlib.Path(self.folder) / "out.svg"
        self.peer("mpich", "echo hello 9.8.7; while read -r word rest; do\n"
                  "[ $word = end ] && exit; echo took 1 2 3 1.5; done\n")
        words = ["tag", "--lane", "shm", "--sizes", "1K,64K", "--raw", "--peers", self.folder,
                 "--plot", path]
        layouts = {"vector:8:16", "struct", "transposed:8"}
        series = {"Wherry tag", "tag, packed by the program", "mpich 9.8.7"}
        for metric, titles in (("bandwidth", 1), ("latency,bandwidth", 2)):
            self.measure(*words, "--metric", metric, "--layout", "vector,struct,transposed")
            drawn = xml.etree.ElementTree.parse(path).getroot()
            texts = [text.text for text in drawn.iter("{http://www.w3.org/2000/svg}text")]
            self.assertLessEqual(layouts | series, set(texts))
            self.assertEqual(texts.count("struct"), titles)
            self.assertEqual(texts.count("bandwidth (GB/s), higher is better"), 3)

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

    def assert_ratio_to_peer(self, peer, own):
        """Each figure has six digits, however slow the machine is."""
        ratio = own["median"] / peer["median"]
        self.assertLess(abs(peer["ratio"] - ratio), 2e-5 * ratio)

    def test_peers(self):
        self.peer("mpich", "echo up; echo hello 9.8.7; while read -r word rest; do\n"
                  "[ $word = end ] && exit; echo took 1 2 3 1.5; done\n")
        rows = self.measure("tag", "get", "--lane", "shm", "--sizes", "8", "--metric",
                            "latency,bidir", "--peers", self.folder)
        self.assertEqual([(row["test"], row["metric"], row["peer"]) for row in rows],
                         [("tag", "latency", None), ("get", "latency", None),
                          ("tag", "latency", "mpich 9.8.7"), ("tag", "bidir", None)])
        self.assertEqual([rows[2][name] for name in ("median", "p99", "min")], [2, 3, 1.5])
        self.assert_ratio_to_peer(rows[2], rows[0])

    def test_peers_with_a_layout(self):
        self.peer("openmpi", f"echo hello 9.8.7; while read -r line; do echo $line >> {self.folder}/said\n"
                  "case $line in end) exit;; esac; echo took 1 2 3 1.5; done\n")
        rows = self.measure("am", "tag", "put", "--lane", "shm", "--sizes", "1K", "--metric",
                            "latency", "--layout", "indexed:8:24", "--peers", self.folder)
        self.assertEqual([(row["test"], row["peer"]) for row in rows],
                         [("am", None), ("tag", None), ("put", None), ("tag", "openmpi 9.8.7")])
        self.assert_ratio_to_peer(rows[3], rows[0])
        said = (self.folder / "said").read_text().splitlines()
        self.assertEqual({line.rpartition(" ")[0] for line in said[:-1]},
                         {"lay indexed:8:24 latency 1024"})

    def test_peers_that_are_not_there(self):
        words = ["perf", *SHORT, "--lane", "shm", "--sizes", "8", "--peers", self.folder]
        _, err = self.run_tool(1, *words)
        self.assertIn("bench/peers/make.py", err)
        self.peer("openmpi", "echo good day\n")
        _, err = self.run_tool(1, *words)
        self.assertIn("does not start two processes", err)
        _, err = self.run_tool(1, "perf", "--lane", "stream", "--peers", self.folder)
        self.assertIn("shared memory", err)

    def left_out(self, *words, code=0):
        """Rows, and what was said of the figures that are missing from them."""
        out, err = self.run_tool(code, "perf", "--json", *SHORT, "--lane", "shm", "--metric",
                                 "latency", "--patience", "0.5", *words)
        lines = [line for line in err.splitlines() if not line.startswith("warning: ")]
        return json.loads(out), lines

    def assert_ended(self):
        """Both processes that the hanging program has written down have ended."""
        for pid in (self.folder / "pids").read_text().split():
            deadline, state = time.monotonic() + tool.LIMIT, "?"
            while state not in "Z":  # one that its new parent has yet to wait for has ended, too
                self.assertLess(time.monotonic(), deadline, f"{pid} goes on")
                try:
                    state = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2][1]
                except OSError:
                    break

    def test_peers_that_fail(self):
        # It is started anew after each failure, until that fails too: the fifth time.
        self.peer("mpich", f"echo >> {self.folder}/starts; [ $(wc -l < {self.folder}/starts) = 5 ]"
                  " && exit\necho hello 9.8.7; while read -r word metric size count; do\n"
                  "case $word$size in end*) exit;; run64) exit 3;;\n"
                  "run128) echo took 1 nan 3 1.5;;\n"
                  f"run16) sleep 1000 & echo $$ $! > {self.folder}/pids; wait;;\n"
                  "run32) while :; do echo noise; done;; *) echo took 1 2 3 1.5;; esac; done\n")
        rows, lines = self.left_out("--sizes", "8,16,32,48,64,128,256,512", "--peers",
                                    self.folder)
        self.assertEqual([(row["size"], row["peer"]) for row in rows],
                         [(8, None), (8, "mpich 9.8.7"), (16, None), (32, None), (48, None),
                          (48, "mpich 9.8.7"), *((size, None) for size in (64, 128, 256, 512))])
        self.assertGreater(rows[1]["ratio"], 0)
        note = "note: latency of %d: a figure is left out: %s"
        home = f"{self.folder}/mpich/bin"
        told = [note % (size, rf"mpich 9.8.7 {why}; to see it: .echo run latency {size} \d+; echo "
                        f"end. .*{home}/mpiexec -n 2 {home}/wherry-peer")
                for size, why in ((16, r"was not done after [\d.]+ s"),
                                  (32, r"was not done after [\d.]+ s"),
                                  (64, "was lost"), (128, "printed no figure that can be"))]
        self.assertEqual(len(lines), 6, lines)
        for line, want in zip(lines[1:], [*told, note % (256, ".* does not start two processes")]):
            self.assertRegex(line, want)  # the first: there is no Open MPI
        self.assert_ended()

    def fake_perftest(self):
        binaries = self.folder / "bin"
        binaries.mkdir()
        for name, text in (("ucx_perftest", FAKE_PERFTEST.format(python=sys.executable,
                                                                 folder=self.folder)),
                           ("ucx_info", "#!/bin/sh\necho 9.8.7\n")):
            (binaries / name).write_text(text)
            (binaries / name).chmod(0o755)

    def test_raw_that_fails(self):
        self.fake_perftest()
        plot = self.folder / "out.svg"
        rows, lines = self.left_out("--raw", "--ucx", self.folder, "--plot", plot, "--sizes",
                                    "8,16,32,64,128,256,512")
        self.assertEqual([(row["size"], row["raw"], row["ucx"]) for row in rows],
                         [(8, 2.5, "9.8.7"),
                          *((size, None, None) for size in (16, 32, 64, 128, 256)),
                          (512, 2.5, "9.8.7")])
        for row in rows:
            self.assertIs(row["ratio"] is None, row["raw"] is None)
        note = (r"note: latency of %d: a figure is left out: ucx_perftest 9.8.7 %s; to see it: env "
                r".* %s/bin/ucx_perftest 127.0.0.1 -p \d+ -t %s -s %d -n \d+ -w \d+ -v$")
        told = ((size, why, test) for size, why in
                ((16, r"was not done after [\d.]+ s"), (32, "printed no figure that can be"),
                 (64, "ended with code 3"), (128, "printed no figure that can be"), (256, "died"))
                for test in ("tag_lat", "ucp_am_lat"))
        for line, (size, why, test) in itertools.zip_longest(lines, told):
            self.assertRegex(line, note % (size, why, self.folder, test, size))
        self.assert_ended()
        marks = [path.get("d") for path in xml.etree.ElementTree.parse(plot).getroot().iter(
            "{http://www.w3.org/2000/svg}path") if path.get("stroke-dasharray")]
        self.assertEqual([mark.count("L") for mark in marks], [1, 0])  # from 8 to 512; the legend

    def test_raw_that_does_not_start(self):
        self.fake_perftest()
        (self.folder / "bin" / "ucx_perftest").write_text("#!/bin/sh\nexit 1\n")
        rows, lines = self.left_out("--raw", "--ucx", self.folder, "--sizes", "8")
        self.assertEqual([row["raw"] for row in rows], [None])
        self.assertEqual(len(lines), 2, lines)
        for line in lines:
            self.assertIn("ucx_perftest 9.8.7 as a server ended at once; to see it: ", line)

    def test_interrupted(self):
        self.fake_perftest()
        perf = self.start("perf", *SHORT, "--lane", "shm", "--sizes", "16", "--raw", "--ucx",
                          self.folder, "--metric", "latency", "--patience", "1000")
        deadline = time.monotonic() + tool.LIMIT
        while not (self.folder / "pids").exists():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)
        perf.send_signal(signal.SIGINT)
        self.finish(perf, -signal.SIGINT)
        self.assert_ended()

    def test_what_does_not_go_together(self):
        for words, why in ((["--memory", "else"], "--memory"), (["wrong"], "put, get, atomic"),
                           (["--peers", ".", "--mode", "wait"], "spin"),
                           (["--layout", "vector:9:8"], "'vector:9:8' is not a layout"),
                           (["atomic", "--layout", "vector"], "atomic"),
                           (["--memory", "managed-by-nobody"], "host, cuda, sim"),
                           (["--memory", "sim,,host"], "not ''"), (["--memory", "sim,else"], "not 'else'"),
                           (["--memory", ",".join(["sim"] * 9)], "more than 8"),
                           (["--raw", "--memory", "host,sim"], "in host memory"),
                           (["--raw", "--memory", "sim"], "in host memory"),
                           (["post", "--layout", "vector"], "post takes")):
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
        while "another session is running" not in err:  # the first may not have begun
            self.assertLess(time.monotonic(), deadline)
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
