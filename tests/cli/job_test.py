#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests of jobs of the runtime: processes with processing elements (PEs) under `wherry run`, and how they end."""
import json
import os
import pathlib
import re
import signal
import subprocess
import threading
import time
import unittest
import uuid

import launch
import tool
from launch import HERE, pids_with, wait_for

RT_JOB = os.path.abspath(os.environ.get("RT_JOB", "build/tests/rt-job"))
END = launch.SOON  # seconds from a failure to the end of the job
SHAPES = [(1, 1), (1, 4), (2, 1), (2, 2), (3, 2), (7, 1), (5, 3), (16, 1)]  # processes, PEs in each


def hears_usr1(pid):
    """Whether it is a process of the job with a handler of the signal, which would kill it without one."""
    try:
        if pathlib.Path(f"/proc/{pid}/comm").read_text() != "rt-job\n":
            return False
        caught = re.search(r"SigCgt:\s*(\w+)", pathlib.Path(f"/proc/{pid}/status").read_text())[1]
    except OSError:
        return False
    return bool(int(caught, 16) >> (signal.SIGUSR1 - 1) & 1)


class Job(launch.Case):
    def test_sizes(self):
        for size, pes in SHAPES:
            out, err = self.job(0, "-n", str(size), RT_JOB, WHERRY_PES=str(pes))
            self.assertRegex(out, rf"^{size} processes, {size * pes} PEs, started by PMI-1, [0-9.]+ s\n$")
            self.assertEqual(err, "")

    def test_64_processes(self):
        out, err = self.job(0, "-n", "64", RT_JOB, "--rounds", "2")
        self.assertRegex(out, r"^64 processes, 64 PEs, ")
        # So many on a busy machine may take longer for a handshake than one address is given, and begin it again.
        self.assertEqual([line for line in err.splitlines() if "W-HND-01" not in line], [])

    def test_hosts(self):
        for pes in ("1", "2"):
            out, err = self.job(0, "-n", "4", *HERE[1], "--env", f"WHERRY_PES={pes}", RT_JOB)
            self.assertRegex(out, r"^4 processes, ")
            self.assertEqual(err, "")

    def test_forked_children(self):
        """A child of a process cannot end its parent's part in the job."""
        out, err = self.job(0, "-n", "3", RT_JOB, "--fork", "1", WHERRY_PES="2")
        self.assertRegex(out, r"^3 processes, 6 PEs, ")
        self.assertEqual(err, "")

    def test_alone(self):
        self.assertRegex(self.run_alone("--rounds", "5")[0], r"^1 processes, 3 PEs, started by none")

    def run_alone(self, *words, code=0):
        process = subprocess.Popen([RT_JOB, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   env=tool.environment({"WHERRY_PES": "3", "WHERRY_EXIT_TIMEOUT": "500ms"}))
        self.running.append(process)
        return self.finish(process, code)

    def test_status(self):
        for who in ("0", "5"):
            _, err = self.job(7, "-n", "3", RT_JOB, "--status", "7", "--rounds", "1000000", "--exit", who, WHERRY_PES="2")
            self.assertRegex(err, r"^wherry run: the job ends with status 7: rank \d \(pid \d+ on \S+\) is the first")

    def test_failures(self):
        """{kill, exit 3, segmentation fault} x {rank 0, another} x {1, 2 PEs} x {here, by --rsh}"""
        ends = {"kill": (137, r"was killed by signal 9 \(Killed\)"),
                "exit": (3, r"exited with status 3"),
                "segv": (139, r"was killed by signal 11 \(Segmentation fault\)")}
        for kind in HERE:
            for pes in (1, 2):
                for rank in (0, 2):
                    for how, (code, says) in ends.items():
                        with self.subTest(kind=kind, pes=pes, rank=rank, how=how):
                            begin = time.monotonic()
                            _, err = self.job(code, "-n", "3", *kind, "--env", f"WHERRY_PES={pes}", RT_JOB,
                                              "--die", str((rank + 1) * pes - 1), how)
                            self.assertLess(time.monotonic() - begin, END)
                            self.assertRegex(err, rf"^wherry run: rank {rank} \(pid \d+ on \S+\) {says}\n$")

    def test_last_words(self):
        """A job ends with a status of its own: nobody loses what is printed behind its end, but the time for that is bounded."""
        for seconds, says in (("0.7", "late\n"), ("60", "")):
            begin = time.monotonic()
            out, err = self.job(5, "-n", "3", "--kill-after", "2s", "sh", "-c", f"{RT_JOB} --status 5; s=$?; "
                                f"if [ $PMI_RANK = 0 ]; then sleep {seconds}; echo late; fi; exit $s")
            self.assertLess(time.monotonic() - begin, END + 4)
            self.assertTrue(out.endswith(says) and ("late" in out) == bool(says), out)
            self.assertRegex(err, r"^wherry run: the job ends with status 5: rank [12] \(pid")

    def test_stopped(self):
        for kind in HERE:
            for rank in (0, 2):
                with self.subTest(kind=kind, rank=rank):
                    process = self.launch("-n", "3", *kind, RT_JOB, "--die", str(rank), "stop")
                    line = process.stderr.readline()
                    found = re.match(rf"wherry run: rank {rank} \(pid (\d+) on \S+\) was stopped by signal 19 ", line)
                    self.assertTrue(found, line)
                    time.sleep(0.7)  # it is waited for
                    self.assertIsNone(process.poll())
                    os.kill(int(found[1]), signal.SIGKILL)
                    begin = time.monotonic()
                    _, err = self.finish(process, 137)
                    self.assertLess(time.monotonic() - begin, END)
                    self.assertRegex(err, rf"^wherry run: rank {rank} \(pid {found[1]} on \S+\) was killed by signal 9 ")
                    self.check_nothing_left()

    def test_launcher_is_killed(self):
        for kind in HERE:
            process = self.launch("-n", "3", *kind, RT_JOB, "--die", "1", "hang")
            self.assertTrue(wait_for(lambda: len(pids_with(self.mark)) >= 3))
            time.sleep(0.2)
            process.kill()
            process.wait()
            self.assertTrue(wait_for(lambda: not pids_with(self.mark), END), "processes are left")

    def test_a_hang(self):
        _, err = self.job(124, "-n", "3", "--timeout", "700ms", RT_JOB, "--die", "1", "hang")
        self.assertEqual(len(re.findall(r"rank \d \(pid \d+ on \S+\) was still there after 0.7 s", err)), 3)

    def dump_at_the_timeout(self, kind):
        """What a job says at its timeout, which is longer the longer its processes take to begin."""
        for seconds in ("0.7", "4", "30"):
            _, err = self.job(124, "-n", "3", *kind, "--dump", "--timeout", f"{seconds}s", RT_JOB, "--die", "1", "hang")
            if err.count("\n  nothing to do, ") == 2:
                break
        return seconds, err

    def test_dump_at_the_timeout(self):
        """Who is not stuck says what it waits for; programs without a handler of the signal have not failed by it."""
        for kind in HERE:
            seconds, err = self.dump_at_the_timeout(kind)
            for pe in (0, 2):
                self.assertRegex(err, rf"(?m)^PE {pe} of 3\n  messages to handle: 0\n  threads that wait: 0, ")
                self.assertRegex(err, r"(?m)^  PE 1: data to it (open|connecting), from it (open|none); control to it none")
            self.assertEqual(err.count("\n  nothing to do, "), 2)  # a message to PE 1 may still wait for a connection
            self.assertNotIn("PE 1 of 3", err)
            self.assertEqual(err.count(f"was still there after {seconds} s"), 3)
            self.assertNotIn("was killed", err)
        begin = time.monotonic()
        _, err = self.job(124, "-n", "2", "--dump", "--timeout", "300ms", "sleep", "60")
        self.assertLess(time.monotonic() - begin, 0.8 + END)
        self.assertEqual(err.count("\n"), 2, err)

    def test_dump_by_a_signal(self):
        process = self.launch("-n", "3", "--dump", RT_JOB, "--die", "1", "hang")
        self.assertTrue(wait_for(lambda: sum(map(hears_usr1, pids_with(self.mark))) == 3))
        stop = threading.Event()
        self.addCleanup(stop.set)

        def ask():  # again and again: a process that has no PE yet says nothing
            while not stop.wait(0.5):
                process.send_signal(signal.SIGUSR1)
        threading.Thread(target=ask, daemon=True).start()
        found = set()
        while len(found) < 2:
            line = process.stderr.readline()
            self.assertTrue(line, "the job has ended")
            found |= set(re.findall(r"^PE \d of 3$", line))
        stop.set()
        self.assertEqual(found, {"PE 0 of 3", "PE 2 of 3"})
        self.assertIsNone(process.poll())
        process.send_signal(signal.SIGTERM)
        self.finish(process, 143)
        self.check_nothing_left()

    def test_an_end_while_one_hangs(self):
        """The end of the job has a deadline, whoever asks for it, and whoever does not hear it."""
        for asks, hangs in (("0", "5"), ("5", "0"), ("4", "5"), ("5", "4")):
            with self.subTest(asks=asks, hangs=hangs):
                begin = time.monotonic()
                _, err = self.job(6, "-n", "3", RT_JOB, "--status", "6", "--exit", asks, "--die", hangs, "hang",
                                  WHERRY_PES="2", WHERRY_EXIT_TIMEOUT="500ms")
                self.assertGreater(time.monotonic() - begin, 0.5)
                self.assertLess(time.monotonic() - begin, 0.5 + END)
                self.assertRegex(err, rf"PE \d.* in 500 ms \(exit_timeout\)")
                self.assertRegex(err, r"wherry run: rank \d \(pid \d+ on \S+\) has ended the job with status 6\n")

    def test_alone_an_end_while_one_hangs(self):
        for asks, hangs in (("0", "1"), ("1", "0")):
            _, err = self.run_alone("--status", "6", "--exit", asks, "--die", hangs, "hang", code=6)
            self.assertIn("a handler of this process does not return", err)

    def test_numbers_of_pes_that_differ(self):
        _, err = self.job(1, "-n", "2", "sh", "-c", f"WHERRY_PES=$((PMI_RANK + 1)) exec {RT_JOB}")
        self.assertIn("E-RT-04: the process of PE 0 has 1 processing elements, this one 2", err)
        _, err = self.job(1, "-n", "2", RT_JOB, WHERRY_PES="0")
        self.assertIn("WHERRY_PES", err)



class Hosts(launch.Case):
    """Four hosts: network namespaces on one bridge, each with a boot id of its own, so that nothing but TCP leads from one to another."""

    def setUp(self):
        super().setUp()
        hub, names = self.namespace(), []
        self.ip("-n", hub, "link", "add", "hub", "type", "bridge")
        self.ip("-n", hub, "link", "set", "hub", "up")
        for i in range(4):
            name = self.namespace()
            self.ip("-n", name, "link", "set", "lo", "up")
            self.ip("-n", name, "link", "add", "cable", "type", "veth", "peer", "name", f"socket{i}", "netns", hub)
            self.ip("-n", hub, "link", "set", f"socket{i}", "master", "hub", "up")
            self.ip("-n", name, "addr", "add", f"10.96.0.{i + 1}/24", "dev", "cable")
            self.ip("-n", name, "link", "set", "cable", "up")
            (self.folder / name).write_text(f"{uuid.uuid4()}\n")
            names.append(name)
        boot_id = "/proc/sys/kernel/random/boot_id"
        self.rsh.write_text("#!/bin/sh\nhost=$1\nshift\n"
                            f'exec ip netns exec $host sh -c "mount --bind {self.folder}/$host {boot_id} && $*"\n')
        self.hosts = ["--hosts", ",".join(names), "--ppn", "2"]

    def test_a_job(self):
        for pes in (1, 2):
            out, err = self.job(0, *self.hosts, "--env", f"WHERRY_PES={pes}", RT_JOB)
            self.assertRegex(out, rf"^8 processes, {8 * pes} PEs, started by PMI-1, ")
            self.assertEqual(err, "")

    def test_a_killed_process(self):
        begin = time.monotonic()
        _, err = self.job(137, *self.hosts, RT_JOB, "--die", "5", "kill")
        self.assertLess(time.monotonic() - begin, END)
        self.assertRegex(err, r"^wherry run: rank 5 \(pid \d+ on wherry-\S+\) was killed by signal 9 \(Killed\)\n$")

    def test_a_timeline(self):
        self.job(0, *self.hosts, "--trace", "t.json", RT_JOB)
        self.assertEqual(len({event["pid"] for event in json.loads((self.folder / "t.json").read_text())}), 8)


if __name__ == "__main__":
    unittest.main()
