#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests of `wherry send` and `wherry recv` with files that are not as files usually are."""
import os
import pathlib
import signal
import subprocess
import time
import unittest

import tool


class Chain:
    """Directories one in the other, deeper than a path can say: each is opened in the one before."""

    def __init__(self, top, name, depth):
        self.top, self.name, self.depth = top, name, depth

    def walk(self, make):
        """Open them from the top down, and return the descriptor of the last."""
        if make:
            os.mkdir(self.top)
        at = os.open(self.top, os.O_RDONLY)
        for _ in range(self.depth):
            if make:
                os.mkdir(self.name, 0o750, dir_fd=at)
            below = os.open(self.name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=at)
            os.close(at)
            at = below
        return at

    def make(self):
        at = self.walk(True)
        with open(os.open("leaf", os.O_WRONLY | os.O_CREAT, dir_fd=at), "w") as file:
            file.write("deep")
        os.symlink("leaf", "link", dir_fd=at)
        os.utime("leaf", ns=(1, 1_000_000_000_123_456_789), dir_fd=at)
        os.close(at)

    def leaf(self):
        """What lies at the bottom: names, content, time, mode of the directory."""
        at = self.walk(False)
        with open(os.open("leaf", os.O_RDONLY, dir_fd=at)) as file:
            text = file.read()
        seen = (sorted(os.listdir(at)), text, os.stat("leaf", dir_fd=at).st_mtime_ns,
                os.readlink("link", dir_fd=at), oct(os.fstat(at).st_mode))
        os.close(at)
        return seen


class Odd(tool.Case):
    def setUp(self):
        super().setUp()
        self.out = self.folder / "out"

    def chain(self, name, depth):
        chain = Chain(self.folder / "tree", name, depth)
        # Not all that removes folders can remove these.
        self.addCleanup(subprocess.run, ["rm", "-rf", self.folder / "tree", self.out / "tree"])
        chain.make()
        return chain

    def check_chain(self, name, depth):
        chain = self.chain(name, depth)
        receiver, address = self.start_receiver("--once")
        self.run_tool(0, "send", chain.top, address)
        self.finish(receiver, 0)
        self.assertEqual(Chain(self.out / "tree", name, depth).leaf(), chain.leaf())

    def test_deep(self):
        self.check_chain("d", 2500)

    def test_long_names(self):
        self.check_chain("n" * 250, 100)

    def test_too_long_to_send(self):
        chain = self.chain("n" * 250, 140)
        (chain.top / "other").write_text("x")
        receiver, address = self.start_receiver("--once")
        _, err = self.run_tool(1, "send", chain.top, address)
        self.assertIn("a name in it is too long", err)
        self.finish(receiver, 0)
        self.assertEqual((self.out / "tree" / "other").read_text(), "x")

    def test_refusal_of_a_long_name(self):
        # What says which file was refused must come whole, or the rest of it is sent in vain.
        chain = self.chain("n" * 250, 100)
        there = Chain(self.out / "tree", chain.name, chain.depth)
        self.out.mkdir()
        at = there.walk(True)
        os.mkdir("leaf", dir_fd=at)
        os.close(at)
        receiver, address = self.start_receiver("--once")
        _, err = self.run_tool(1, "send", chain.top, address)
        self.assertIn("/leaf: Is a directory", err)
        self.finish(receiver, 1)

    def test_part_of_an_earlier_life(self):
        # In a container the next receiver may well have the process number of the last one.
        self.out.mkdir()
        script = "; ".join(f': > "$0/.wherry-$$-{i}.part"' for i in range(3))
        receiver = subprocess.Popen(
            ["sh", "-c", script + f'; ln -s x "$0/.wherry-$$-3.part"; exec {tool.WHERRY} recv "$0"'
             ' --once', self.out], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=tool.environment({}))
        self.running.append(receiver)
        address = receiver.stdout.readline().split()[-1]
        tree = self.folder / "tree"
        tree.mkdir()
        for i in range(8):
            (tree / f"{i}").write_text(f"{i}")
        (tree / "link").symlink_to("0")
        self.run_tool(0, "send", tree, address)
        _, err = self.finish(receiver, 0)
        self.assertIn("removed 3 part files", err)
        self.assertEqual(sorted(os.listdir(self.out / "tree")), sorted(os.listdir(tree)))
        left = [path.name for path in self.out.glob(".wherry-*")]
        self.assertEqual(left, [f".wherry-{receiver.pid}-3.part"])

    def test_name_that_somebody_else_has(self):
        # Two receivers of one process number, in two containers, share a folder: the other's file
        # is locked.
        self.out.mkdir()
        script = ('p="$0/.wherry-$$-0.part"; : > "$p"; exec 9< "$p"; flock 9;'
                  f' ln -s x "$0/.wherry-$$-1.part"; exec {tool.WHERRY} recv "$0" --once')
        receiver = subprocess.Popen(["sh", "-c", script, self.out], stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE, text=True, env=tool.environment({}))
        self.running.append(receiver)
        address = receiver.stdout.readline().split()[-1]
        (self.folder / "file").write_text("x")
        (self.folder / "tree").mkdir()
        (self.folder / "tree" / "link").symlink_to("x")
        self.run_tool(0, "send", self.folder / "file", self.folder / "tree", address)
        self.assertEqual(self.finish(receiver, 0)[1], "")
        self.assertEqual((self.out / "file").read_text(), "x")
        self.assertEqual(len(list(self.out.glob(".wherry-*"))), 2)

    def test_part_deep_down(self):
        chain = self.chain("d", 100)
        self.out.mkdir()
        os.rename(chain.top, self.out / "tree")
        path = self.out / "tree" / "/".join(["d"] * 100) / ".wherry-999999-0.part"
        path.write_text("left")
        receiver, address = self.start_receiver("--once")
        (self.folder / "file").write_text("x")
        self.run_tool(0, "send", self.folder / "file", address)
        self.assertIn("removed 1 part file", self.finish(receiver, 0)[1])
        self.assertFalse(path.exists())

    def test_refusal_of_a_name_with_a_colon(self):
        # "d: e: why" speaks of "d: e", not of "d".
        (self.folder / "d: e").mkdir()
        (self.folder / "x").write_bytes(os.urandom(20 << 20))  # the refusal comes meanwhile
        (self.folder / "d").mkdir()
        for i in range(300):
            (self.folder / "d" / f"{i}").write_text("x")
        self.out.mkdir()
        (self.out / "d: e").symlink_to(self.folder)
        receiver, address = self.start_receiver("--once")
        words = [self.folder / name for name in ("d: e", "x", "d")]
        out, err = self.run_tool(1, "send", *words, address)
        self.assertRegex(out, r"^sent 301 files, .*; 1 refused\n$")
        self.assertEqual(err.count("\n"), 1, err)
        self.finish(receiver, 1)
        self.assertEqual(len(os.listdir(self.out / "d")), 300)

    def test_refusal_while_another_file_is_sent(self):
        # "d: e" is refused at its end, when all of it has been hashed.
        (self.folder / "d: e").write_bytes(os.urandom(4 << 20))
        (self.folder / "d").write_bytes(os.urandom(40 << 20))
        (self.out / "d: e").mkdir(parents=True)
        receiver, address = self.start_receiver("--once")
        out, _ = self.run_tool(1, "send", self.folder / "d: e", self.folder / "d", address)
        self.assertRegex(out, r"^sent 1 of 2 files, .*; 1 refused\n$")
        self.finish(receiver, 1)

    def send_system_file(self, path):
        receiver, address = self.start_receiver("--once")
        self.run_tool(0, "send", path, address)
        self.finish(receiver, 0)
        return (self.out / pathlib.Path(path).name).read_bytes()

    def test_files_that_say_they_are_empty(self):
        for path in ("/proc/version", "/proc/cpuinfo", "/proc/kallsyms"):
            with open(path, "rb") as file:
                first, rest = file.readline(), file.read()
            sent = self.send_system_file(path)
            self.assertTrue(sent.startswith(first))
            self.assertGreater(len(sent), (len(first) + len(rest)) // 2)  # figures change
        self.assertGreater(len(sent), 512 << 10)

    def test_file_that_says_it_is_longer(self):
        path = "/sys/kernel/mm/transparent_hugepage/enabled"
        if not os.path.exists(path) or os.stat(path).st_size < 1000:
            self.skipTest(f"no {path}")
        with open(path, "rb") as file:
            self.assertEqual(self.send_system_file(path), file.read())

    def test_file_that_cannot_be_read(self):
        # Reading it is an error, or nothing: never an empty file with exit code 0.
        (self.folder / "file").write_text("x")
        receiver, address = self.start_receiver("--once")
        _, err = self.run_tool(1, "send", "/proc/self/mem", self.folder / "file", address)
        self.assertRegex(err, r"cannot send /proc/self/mem: \w")
        self.finish(receiver, 0)
        self.assertEqual(os.listdir(self.out), ["file"])

    def test_gone_meanwhile(self):
        # It was there when the files were counted, but not when its turn came.
        with open(self.folder / "a long file", "wb") as file:
            file.truncate(64 << 30)
        (self.folder / "last").write_text("x")
        receiver, address = self.start_receiver("--once")
        sender = self.start("send", self.folder / "a long file", self.folder / "last", address)
        deadline = time.monotonic() + tool.LIMIT
        while not list(self.out.glob(".wherry-*")):
            self.assertLess(time.monotonic(), deadline)
        receiver.send_signal(signal.SIGSTOP)
        (self.folder / "last").unlink()
        # What is so long is refused now.
        subprocess.run(["prlimit", f"--pid={receiver.pid}", f"--fsize={1 << 20}"], check=True)
        receiver.send_signal(signal.SIGCONT)
        out, err = self.finish(sender, 1)
        self.assertIn(f"cannot send {self.folder / 'last'}: No such file", err)
        self.assertRegex(out, "^sent 0 of 2 files")
        self.finish(receiver, 1)

    def test_what_is_no_file(self):
        os.mkfifo(self.folder / "fifo")
        (self.folder / "file").write_text("x")
        for odd in (self.folder / "fifo", "/dev/null"):
            _, err = self.run_tool(1, "send", odd, "127.0.0.1:1")
            self.assertRegex(err, rf"cannot send {odd}: it is a ")
            receiver, address = self.start_receiver("--once")
            _, err = self.run_tool(1, "send", odd, self.folder / "file", address)
            self.assertRegex(err, rf"cannot send {odd}: it is a ")
            self.finish(receiver, 0)
            self.assertEqual(os.listdir(self.out), ["file"])


if __name__ == "__main__":
    unittest.main()
