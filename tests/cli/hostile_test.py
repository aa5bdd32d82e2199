#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests of `wherry recv` against senders that lie.  Each must harm nothing but its own transfer."""
import os
import signal
import unittest

import tool
from wherry_client import DIR, FILE, FIRST, LAST, LEAVE, LINK, Sender, head

PART = 512 << 10


class Hostile(tool.Case):
    def setUp(self):
        super().setUp()
        self.out = self.folder / "out"
        self.receiver, self.address = self.start_receiver("--count", "2")
        self.sender = Sender(self.address)

    def tearDown(self):
        # Whatever the first sender did, the next one is served, and nothing stands outside of out/.
        self.sender.close()
        (self.folder / "honest").write_text("honest")
        self.run_tool(0, "send", self.folder / "honest", self.address)
        _, self.said = self.finish(self.receiver, 1)
        self.assertEqual((self.out / "honest").read_text(), "honest")
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["honest", "out"])
        self.assertEqual([str(path) for path in self.out.rglob(".wherry-*")], [])

    def refused(self, count):
        """The sender ends in order; so many entries must have been refused."""
        answers, last = self.sender.end()
        self.assertEqual(last, "done")
        self.assertEqual(len(answers), count, answers)
        self.assertTrue(all(line.startswith("refused ") for line in answers), answers)

    def cut_off(self):
        """The receiver must have ended the connection."""
        self.assertIsNone(self.sender.end()[1])

    def test_names_that_lead_out(self):
        names = [b"../evil", b"/tmp/wherry-evil", b"a/../../evil", b"..", b".", b"", b"a//b", b"a/",
                 b"./a"]
        for name in names:
            self.sender.send_file(name, b"evil")
        self.sender.send(head(DIR, b"../evil"))
        self.sender.send(head(LEAVE, b".."))
        self.refused(len(names) + 2)

    def test_links_that_lead_out(self):
        self.sender.send(head(DIR, b"d", mode=0o755))
        bad = [b"/etc", b"../..", b"..", b"../out", b"x/../..", b"x/.."]
        for target in bad:
            self.sender.send(head(LINK, b"d/link", target))
        self.refused(len(bad))
        self.assertEqual(list((self.out / "d").iterdir()), [])

    def test_planted_link(self):
        # A link to the parent directory is there already: nothing may be written through it.
        (self.out / "planted").symlink_to("..")
        self.sender.send_file(b"planted/evil", b"evil")
        self.sender.send(head(DIR, b"planted/evil"))
        self.sender.send(head(DIR, b"planted"))
        self.sender.send_file(b"planted/in it", b"evil")  # goes unsaid, with what it lies in
        self.sender.send(head(LEAVE, b"planted", mode=0o777))
        self.refused(3)

    def test_link_in_place_of_a_file(self):
        # The link itself is replaced; what it points to is not touched.
        (self.out / "target").write_text("precious")
        (self.out / "file").symlink_to("target")
        self.sender.send_file(b"file", b"new")
        self.sender.send_file(b"..", b"evil")
        self.refused(1)
        self.assertFalse((self.out / "file").is_symlink())
        self.assertEqual((self.out / "target").read_text(), "precious")

    def test_no_set_user_id(self):
        data = b"x"
        import hashlib
        self.sender.send(head(FILE, b"file", flags=FIRST | LAST, size=1, mode=0o6755,
                              digest=hashlib.sha256(data).digest()), data)
        self.sender.send_file(b"..", b"evil")
        self.refused(1)
        self.assertEqual((self.out / "file").stat().st_mode & 0o7777, 0o755)

    def test_wrong_digest(self):
        self.sender.send_file(b"file", b"data", digest=bytes(32))
        self.refused(1)
        self.assertFalse((self.out / "file").exists())

    def test_incomplete_files(self):
        self.sender.send(head(FILE, b"a", flags=FIRST, size=100), b"x" * 10)
        self.sender.send(head(FILE, b"b", flags=FIRST, size=100), b"x" * 10)
        self.refused(2)

    def test_parts_out_of_order(self):
        self.sender.send(head(FILE, b"a", flags=FIRST, size=100), b"x" * 10)
        self.sender.send(head(FILE, b"a", size=100, offset=20), b"x" * 10)
        self.cut_off()

    def test_parts_of_another_file(self):
        self.sender.send(head(FILE, b"a", flags=FIRST, size=100), b"x" * 10)
        self.sender.send(head(FILE, b"b", size=100, offset=10), b"x" * 10)
        self.cut_off()

    def test_part_beyond_the_end(self):
        self.sender.send(head(FILE, b"a", flags=FIRST | LAST, size=5), b"x" * 10)
        self.cut_off()

    def test_part_too_large(self):
        self.sender.send(head(FILE, b"a", flags=FIRST | LAST, size=PART + 1), b"x" * (PART + 1))
        self.cut_off()

    def test_more_frames_than_one(self):
        self.sender.send(head(FILE, b"a", flags=FIRST | LAST, size=1), b"x", b"y")
        self.cut_off()

    def test_file_without_a_frame(self):
        self.sender.send(head(FILE, b"a", flags=FIRST | LAST))
        self.cut_off()

    def test_garbage(self):
        self.sender.send(b"\xff" * 500)
        self.cut_off()

    def test_short_header(self):
        self.sender.send(b"WHF1")
        self.cut_off()

    def test_header_too_large(self):
        # It is turned down by its announced size, before there is memory for it.
        self.sender.send(b"x" * (40 << 20))
        self.assertEqual(self.sender.answer(), "cut off: it sent more than a part at once")

    def test_lying_lengths(self):
        self.sender.send(head(DIR, b"name")[:-2])
        self.cut_off()

    def test_name_with_a_nul(self):
        self.sender.send(head(DIR, b"a\0b"))
        self.cut_off()

    def test_unknown_kind(self):
        self.sender.send(head(99, b"a"))
        self.cut_off()

    def test_goes_on_after_the_end(self):
        self.assertEqual(self.sender.end(), ([], "done"))
        self.sender.send_file(b"late", b"late")
        self.assertEqual(self.sender.answer(), "cut off: it went on after its end")
        self.assertIsNone(self.sender.answer())

    def test_terminal_escapes(self):
        self.sender.send_file(b"../\x1b[2Jevil", b"evil")
        self.refused(1)
        self.addCleanup(lambda: self.assertNotIn("\x1b", self.said))

    def test_crowd_over_one_connection(self):
        # 3000 transfers that say nothing: they cost little memory and few lines.
        self.sender.send_file(b"..", b"evil")
        before = self.memory()
        eps = self.sender.crowd(3000)
        self.refused(1)
        self.assertLess(self.memory() - before, 40 << 10)
        self.sender.end_crowd(eps)
        self.addCleanup(lambda: self.assertLess(self.said.count("\n"), 300))

    def memory(self):
        with open(f"/proc/{self.receiver.pid}/status") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))


class Dying(tool.Case):
    ROUNDS = 3

    def send_and_die(self, address):
        dying = os.fork()
        if not dying:
            try:
                sender = Sender(address)
                for i in range(50):
                    sender.send(head(DIR, b"d%d" % i, mode=0o755))
            finally:
                os.kill(os.getpid(), signal.SIGKILL)
        os.waitpid(dying, 0)

    def test_entries_and_death(self):
        # What it has sent lies with the receiver, whole, when it dies: no close, no abort.
        lanes = ("stream", "shm")
        receiver, address = self.start_receiver("--count", str(len(lanes) * self.ROUNDS + 1))
        for lane in lanes:
            os.environ["WHERRY_LANES"] = lane
            self.addCleanup(os.environ.pop, "WHERRY_LANES", None)
            for _ in range(self.ROUNDS):
                self.send_and_die(address)
        os.environ.pop("WHERRY_LANES")
        (self.folder / "honest").write_text("honest")
        self.run_tool(0, "send", self.folder / "honest", address)
        self.finish(receiver, 1)
        self.assertEqual((self.folder / "out" / "honest").read_text(), "honest")


class Silent(tool.Case):
    def test_says_nothing(self):
        # Who says nothing is dropped, and is not the sender that --once waits for.
        receiver, address = self.start_receiver("--once", "--timeout", "500ms")
        sender = Sender(address)
        self.assertEqual(sender.answer(), "cut off: it said nothing for 0.5 s")
        sender.close()
        (self.folder / "honest").write_text("honest")
        self.run_tool(0, "send", self.folder / "honest", address)
        _, err = self.finish(receiver, 0)
        self.assertIn("which sent nothing: it said nothing for 0.5 s", err)


if __name__ == "__main__":
    unittest.main()
