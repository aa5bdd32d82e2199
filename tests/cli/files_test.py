#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests of `wherry send` and `wherry recv`: what arrives, and what happens when a side fails."""
import fcntl
import os
import re
import signal
import subprocess
import time
import unittest

import tool


def fill(top):
    """A tree with all that may be odd about files; returns it."""
    top.mkdir()
    (top / "empty").write_bytes(b"")
    (top / "small").write_bytes(b"x")
    (top / "one part").write_bytes(os.urandom(512 << 10))
    (top / "parts").write_bytes(os.urandom((5 << 20) + 123))
    (top / "umlaut \u00e4 \u2603 and\nnewline").write_text("odd")
    (top / b"not utf-8 \xff".decode("utf-8", "surrogateescape")).write_text("odder")
    (top / "-dash").write_text("dash")
    (top / "runs").write_text("#!/bin/sh\n")
    (top / "runs").chmod(0o755)
    (top / "secret").write_text("mine")
    (top / "secret").chmod(0o600)
    deep = top / "a" / "b" / "c"
    deep.mkdir(parents=True)
    (deep / "leaf").write_text("deep")
    (top / "empty dir").mkdir()
    (top / "locked").mkdir()
    (top / "locked" / "inside").write_text("inside")
    (top / "locked").chmod(0o500)
    (deep / "up").symlink_to("../../small")
    (top / "down").symlink_to("a/b")
    os.utime(top / "small", ns=(1, 1_000_000_000_123_456_789))
    return top


def picture(top):
    """All that a copy of the tree must have in common with it."""
    seen = {}
    for path in sorted(top.rglob("*")):
        stat = path.lstat()
        kind = (os.readlink(path) if path.is_symlink() else
                path.read_bytes() if path.is_file() else "directory")
        seen[str(path.relative_to(top))] = (kind, oct(stat.st_mode), stat.st_mtime_ns)
    return seen


class Files(tool.Case):
    def setUp(self):
        super().setUp()
        self.out = self.folder / "out"

    def temporaries(self):
        return [str(path) for path in self.out.rglob(".wherry-*")]

    def test_tree_arrives(self):
        tree = fill(self.folder / "tree")
        for lane in ("shm", "stream"):
            receiver, address = self.start_receiver("--once", "--lane", lane)
            out, err = self.run_tool(0, "send", tree, address, "--lane", lane)
            self.assertEqual(err, "")
            self.assertRegex(out, rf"^sent 11 files, 5\.50 MiB in .* over {lane}")
            out, err = self.finish(receiver, 0)
            self.assertEqual(err, "")
            self.assertIn("received 11 files", out)
            self.assertEqual(picture(tree), picture(self.out / "tree"))
            self.assertEqual(self.temporaries(), [])
            self.remove_tree(self.out)

    def remove_tree(self, top):
        for path in top.rglob("locked"):
            path.chmod(0o700)
        top.rename(self.folder / f"old{time.monotonic_ns()}")

    def test_several_paths_and_replacing(self):
        for name in ("one", "two"):
            (self.folder / name).write_text(name)
        self.out.mkdir()
        (self.out / "one").write_text("old and longer")
        receiver, address = self.start_receiver("--once")
        self.run_tool(0, "send", self.folder / "one", self.folder / "two", address, "--quiet")
        self.finish(receiver, 0)
        self.assertEqual((self.out / "one").read_text(), "one")
        self.assertEqual((self.out / "two").read_text(), "two")

    def test_left_out(self):
        tree = self.folder / "tree"
        tree.mkdir()
        (tree / "absolute").symlink_to("/etc/passwd")
        (tree / "outside").symlink_to("../elsewhere")
        os.mkfifo(tree / "fifo")
        (tree / "file").write_text("x")
        receiver, address = self.start_receiver("--once")
        _, err = self.run_tool(0, "send", tree, address)
        for name in ("absolute", "outside", "fifo"):
            self.assertIn(f"left out {tree / name}", err)
        self.finish(receiver, 0)
        self.assertEqual(os.listdir(self.out / "tree"), ["file"])

    def test_many_senders_at_once(self):
        senders = 12
        trees = []
        for i in range(senders):
            tree = self.folder / f"tree{i}"
            tree.mkdir()
            for j in range(20):
                (tree / f"{j}").write_bytes(os.urandom(j * 9973))
            trees.append(tree)
        receiver, address = self.start_receiver("--count", senders)
        running = [self.start("send", tree, address) for tree in trees]
        for sender in running:
            self.finish(sender, 0)
        self.finish(receiver, 0)
        for tree in trees:
            self.assertEqual(picture(tree), picture(self.out / tree.name))

    def test_secrets(self):
        (self.folder / "file").write_text("x")
        key = self.folder / "key"
        key.write_text("open sesame")
        key.chmod(0o600)
        receiver, address = self.start_receiver("--once", "--secret", "open sesame", "--host",
                                                "127.0.0.1")
        for words in ([], ["--secret", "wrong"]):
            _, err = self.run_tool(1, "send", self.folder / "file", address, *words)
            self.assertIn("secret", err)
        self.assertFalse((self.out / "file").exists())
        self.run_tool(0, "send", self.folder / "file", address, "--secret-file", key)
        self.finish(receiver, 0)
        self.assertEqual((self.out / "file").read_text(), "x")

    def start_long(self, address, *words):
        """A sender that would take many seconds, when its file has begun to arrive."""
        with open(self.folder / "long", "wb") as file:
            file.truncate(64 << 30)
        sender = self.start("send", self.folder / "long", address, *words)
        deadline = time.monotonic() + tool.LIMIT
        while not any(os.stat(path).st_size > 1 << 20 for path in self.temporaries()):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.005)
        return sender

    def test_secret_file_comes_before_the_environment(self):
        (self.folder / "file").write_text("x")
        key = self.folder / "key"
        key.write_text("right")
        key.chmod(0o600)
        receiver, address = self.start_receiver("--once", "--host", "127.0.0.1", "--secret-file",
                                                key, WHERRY_SECRET="other")
        self.run_tool(1, "send", self.folder / "file", address, "--secret", "other")
        self.run_tool(0, "send", self.folder / "file", address, "--secret", "right")
        self.finish(receiver, 0)

    def test_link_to_its_own_folder(self):
        tree = self.folder / "tree"
        tree.mkdir()
        (tree / "self").symlink_to(".")
        (tree / "slash").symlink_to("below/")
        (tree / "below").mkdir()
        receiver, address = self.start_receiver("--once")
        _, err = self.run_tool(0, "send", tree, address)
        self.assertEqual(err, "")
        self.finish(receiver, 0)
        self.assertEqual(picture(tree), picture(self.out / "tree"))

    def test_all_refused(self):
        # Where the tree should go stands a link: one complaint, and no claim to have sent anything.
        tree = self.folder / "tree"
        tree.mkdir()
        for i in range(300):
            (tree / f"{i}").write_text("x")
        self.out.mkdir()
        (self.out / "tree").symlink_to(self.folder)
        receiver, address = self.start_receiver("--once")
        out, err = self.run_tool(1, "send", tree, address)
        self.assertRegex(out, r"^sent 0 of 300 files, 0 B .*; 1 refused\n$")
        self.assertEqual(err.count("\n"), 1, err)
        _, err = self.finish(receiver, 1)
        self.assertEqual(err.count("\n"), 1, err)

    def test_refusals_are_folded(self):
        tree = self.folder / "tree"
        tree.mkdir()
        for i in range(30):
            (tree / f"{i}").write_text("x")
            (self.out / "tree" / f"{i}").mkdir(parents=True)
        receiver, address = self.start_receiver("--once")
        out, err = self.run_tool(1, "send", tree, address)
        self.assertRegex(out, r"^sent 0 of 30 files, .*; 30 refused\n$")
        _, told = self.finish(receiver, 1)
        for lines in (err.splitlines(), told.splitlines()):
            self.assertEqual(len(lines), 11)
            self.assertIn("and 20 more: Is a directory", lines[-1])

    def test_rest_of_a_refused_file_is_not_sent(self):
        # A digest that comes right at the end of 64 GiB would take minutes.
        with open(self.folder / "large", "wb") as file:
            file.truncate(64 << 30)
        (self.folder / "small").write_text("x")
        self.out.mkdir()
        receiver, address = self.start_receiver("--once")
        limit = ["prlimit", f"--pid={receiver.pid}", f"--fsize={4 << 20}"]
        subprocess.run(limit, check=True)
        out, err = self.run_tool(1, "send", self.folder / "large", self.folder / "small", address)
        self.assertIn("refused large: File too large", err)
        self.assertRegex(out, r"^sent 1 of 2 files, 1 B ")
        self.finish(receiver, 1)

    def test_silent_receiver(self):
        receiver, address = self.start_receiver()
        sender = self.start_long(address, "--timeout", "1s", "--lane", "stream")
        receiver.send_signal(signal.SIGSTOP)
        _, err = self.finish(sender, 1)
        self.assertIn("taken nothing", err)

    def test_silent_sender(self):
        receiver, address = self.start_receiver("--once", "--timeout", "1s")
        sender = self.start_long(address)
        sender.send_signal(signal.SIGSTOP)
        _, err = self.finish(receiver, 1)
        self.assertIn("it said nothing for 1 s", err)
        sender.send_signal(signal.SIGCONT)
        _, err = self.finish(sender, 1)
        self.assertIn("ended it after 0 of 1 files: it said nothing for 1 s", err)

    def test_what_a_killed_receiver_leaves(self):
        receiver, address = self.start_receiver()
        sender = self.start_long(address)
        receiver.kill()
        receiver.wait()
        self.finish(sender, 1)
        left = self.temporaries()
        self.assertEqual(len(left), 1)
        # Not to be touched: another form of name, a link, a folder, what somebody has locked.
        dead = receiver.pid
        for name in (f".wherry-{dead}-0.part2", f".wherry-0{dead}-0.part"):
            (self.out / name).write_text("mine")
        locked = open(self.out / f".wherry-{dead}-6.part", "w")
        self.addCleanup(locked.close)
        fcntl.flock(locked, fcntl.LOCK_EX)
        (self.out / f".wherry-{dead}-7.part").symlink_to("nowhere")
        (self.out / f".wherry-{dead}-8.part").mkdir()
        (self.out / f".wherry-{dead}-8.part" / f".wherry-{dead}-9.part").write_text("below")
        receiver, _ = self.start_receiver()
        receiver.send_signal(signal.SIGINT)
        _, err = self.finish(receiver, 0)
        self.assertIn("removed 2 part files", err)
        self.assertEqual(len(self.temporaries()), 5)

    def test_killed_sender(self):
        tree = fill(self.folder / "tree")
        for lane in ("shm", "stream"):
            receiver, address = self.start_receiver("--count", "2", "--lane", lane)
            doomed = self.start_long(address, "--lane", lane)
            doomed.kill()
            self.run_tool(0, "send", tree, address, "--lane", lane)
            _, err = self.finish(receiver, 1)
            self.assertRegex(err, r"lost \S+ \(\S+\) after 0 files, in long at [\d.]+ MiB of "
                                  r"64.0 GiB \(removed\): ")
            self.assertEqual(self.temporaries(), [])
            self.assertEqual(picture(tree), picture(self.out / "tree"))
            self.remove_tree(self.out)

    def test_killed_receiver(self):
        for lane in ("shm", "stream"):
            receiver, address = self.start_receiver("--lane", lane)
            sender = self.start_long(address, "--lane", lane)
            receiver.kill()
            _, err = self.finish(sender, 1)
            self.assertRegex(err, rf"lost the receiver at {address} after 0 of 1 files: \w")
            self.remove_tree(self.out)

    def test_interrupted_sender(self):
        receiver, address = self.start_receiver("--once")
        sender = self.start_long(address)
        sender.send_signal(signal.SIGINT)
        _, err = self.finish(sender, 130)
        self.assertIn("interrupted after 0 of 1 files", err)
        _, err = self.finish(receiver, 1)
        self.assertIn("lost", err)
        self.assertEqual(self.temporaries(), [])

    def test_interrupted_receiver(self):
        receiver, address = self.start_receiver()
        sender = self.start_long(address)
        receiver.send_signal(signal.SIGTERM)
        _, err = self.finish(receiver, 130)
        self.assertIn("interrupted", err)
        self.assertEqual(self.temporaries(), [])
        _, err = self.finish(sender, 1)
        self.assertIn("the receiver was interrupted", err)

    def test_idle_receiver_ends_well(self):
        receiver, _ = self.start_receiver()
        receiver.send_signal(signal.SIGINT)
        self.assertEqual(self.finish(receiver, 0)[1], "")

    def test_refused_but_not_lost(self):
        # A directory stands where a file should go: that entry is refused, the next one is not.
        tree = self.folder / "tree"
        tree.mkdir()
        (tree / "blocked").write_text("x")
        (tree / "free").write_text("y")
        (self.out / "tree" / "blocked").mkdir(parents=True)
        receiver, address = self.start_receiver("--once")
        _, err = self.run_tool(1, "send", tree, address)
        self.assertRegex(err, r"refused tree/blocked: \w")
        out, err = self.finish(receiver, 1)
        self.assertIn("; 1 refused", out)
        self.assertIn("refused tree/blocked", err)
        self.assertEqual((self.out / "tree" / "free").read_text(), "y")
        self.assertEqual(self.temporaries(), [])

    def test_unreadable(self):
        tree = self.folder / "tree"
        tree.mkdir()
        (tree / "a").write_text("x")
        receiver, address = self.start_receiver("--once")
        _, err = self.run_tool(1, "send", tree, self.folder / "missing", address)
        self.assertRegex(err, re.escape(f"cannot send {self.folder / 'missing'}: No such file"))
        self.finish(receiver, 0)
        self.assertEqual((self.out / "tree" / "a").read_text(), "x")


if __name__ == "__main__":
    unittest.main()
