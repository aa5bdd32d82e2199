#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests of `wherry run`: jobs here and through stand-ins for a remote shell, and how they end."""
import ctypes
import os
import pathlib
import platform
import re
import resource
import signal
import struct
import subprocess
import sys
import time
import unittest

import tool
import launch
from launch import HERE, SOON, WHERRY, parent_of, pids_with, wait_for

BOOT_ALL = os.path.abspath(os.environ.get("BOOT_ALL", "build/tests/boot-all"))
INIT = r"""printf 'cmd=init pmi_version=1 pmi_subversion=1\n' >&$PMI_FD; read answer <&$PMI_FD; """


def platform_sigaction():
    return {"x86_64": 13, "aarch64": 134}[platform.machine()]


class Run(launch.Case):
    # ---- What processes are told.

    def test_ranks_and_sizes(self):
        for kind in HERE:
            out, err = self.job(0, "-n", "5", *kind, "sh", "-c",
                                "echo $PMI_RANK $PMI_SIZE $MPI_LOCALRANKID $MPI_LOCALNRANKS")
            local = ["0 5 0 3", "1 5 1 3", "2 5 2 3", "3 5 0 2", "4 5 1 2"] if kind else [
                f"{i} 5 {i} 5" for i in range(5)]
            self.assertEqual((sorted(out.splitlines()), err), (local, ""))

    def test_memory_of_all(self):
        for kind in HERE:
            out, _ = self.job(0, "-n", "3", *kind, "sh", "-c", 'test -w "$MPI_LOCALMEMORY" && stat -L -c %i "$MPI_LOCALMEMORY" || echo none')
            self.assertEqual(len(set(out.splitlines())), 1, out)
            self.assertEqual("none" in out, bool(kind), out)

    def test_how_many(self):
        for words, count in (([], 1), (["--ppn", "3"], 3), (["--hosts", "a,b"], 2),
                             (["--hosts", "a,b", "--ppn", "2"], 4), (["--hosts", "a,b", "-n", "1"], 1),
                             (["-np", "2"], 2)):
            self.assertEqual(self.job(0, *words, "echo", "x")[0], "x\n" * count)

    def test_environment(self):
        show = 'echo "$ONE|$TWO|$THREE|$WHERRY_LOG|$PMI_PORT|$PMIX_RANK"'
        for kind in HERE:
            out, _ = self.job(0, *kind, "-n", "2", "--env", "ONE=a b=c", "--env=TWO", "--env", "THREE=",
                              "sh", "-c", show, TWO="two", WHERRY_LOG="warn")
            self.assertEqual(out, "a b=c|two||warn||\n" * 2)

    def test_words_and_folder(self):
        inner = self.folder / "a b"
        inner.mkdir()
        for kind in HERE:
            process = subprocess.run(
                [WHERRY, "run", "--rsh", self.rsh, *kind, "-n", "1", "sh", "-c",
                 'pwd; for w; do echo "<$w>"; done', "x", "two words", "", "'\"$HOME\\", "-n", "--"],
                cwd=inner, capture_output=True, text=True, timeout=tool.LIMIT, check=True)
            self.assertEqual(process.stdout,
                             f"{inner}\n<two words>\n<>\n<'\"$HOME\\>\n<-n>\n<-->\n")

    def test_a_folder_that_is_not_there(self):
        gone = self.folder / "gone"
        script = f'mkdir "{gone}"; cd "{gone}"; rmdir "{gone}"; exec "{WHERRY}" run true'
        done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, timeout=tool.LIMIT)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("No such file or directory", done.stderr)

    def test_signals_are_as_usual(self):
        # Some that was ignored by whoever started the launcher, of the C library's own, too.
        ignore = ctypes.create_string_buffer(struct.pack("=4Q", 1, 0, 0, 0))
        for number in (signal.SIGUSR1, 32):
            ctypes.CDLL(None).syscall(platform_sigaction(), number, ignore, None, 8)
        self.addCleanup(signal.signal, signal.SIGUSR1, signal.SIG_DFL)
        out, _ = self.job(0, "grep", "^Sig[BI]", "/proc/self/status")
        masks = dict(line.split(":\t") for line in out.splitlines())
        self.assertEqual((int(masks["SigBlk"], 16), int(masks["SigIgn"], 16)), (0, 0))

    def test_no_other_descriptors(self):
        out, _ = self.job(0, "-n", "2", "sh", "-c",
                          "for i in $(seq 0 99); do test -e /proc/$$/fd/$i && printf '%s ' $i; done; echo $PMI_FD")
        self.assertEqual(out, "0 1 2 3 3\n" * 2)

    def test_bound(self):
        free = len(os.sched_getaffinity(0))
        show = "import os; print(sorted(os.sched_getaffinity(0)))"
        counts = {}
        for bind in ("none", "core", "numa"):
            out, _ = self.job(0, "-n", "2", "--bind", bind, sys.executable, "-c", show)
            counts[bind] = [len(eval(line)) for line in out.splitlines()]
        self.assertEqual(counts["none"], [free] * 2)
        self.assertEqual(len(counts["numa"]), 2)
        self.assertTrue(all(0 < count <= max(1, free) for count in counts["core"]))
        if free >= 2:
            self.assertLessEqual(max(counts["core"]), free)
            self.assertLessEqual(sum(counts["core"]), free)
        out, _ = self.job(0, "-n", str(free + 1), sys.executable, "-c", show)
        self.assertEqual({len(eval(line)) for line in out.splitlines()}, {free})

    # ---- The exchange.

    def test_exchange(self):
        for kind in HERE:
            out, err = self.job(0, "-n", "5", *kind, BOOT_ALL)
            self.assertEqual((out, err), ("5 processes, started by PMI-1\n", ""))
        self.assertEqual(self.job(0, "-n", "3", BOOT_ALL, "60000")[0][:11], "3 processes")

    def test_64_processes(self):
        begin = time.monotonic()
        out, _ = self.job(0, "-n", "64", BOOT_ALL)
        print(f"64 processes: started, 4096 values exchanged and gone in {time.monotonic() - begin:.3f} s")
        self.assertEqual(out, "64 processes, started by PMI-1\n")

    def test_hosts_are_told(self):
        get = (INIT + r"printf 'cmd=get_my_kvsname\n' >&$PMI_FD; read answer <&$PMI_FD; "
               r"printf 'cmd=get %s key=PMI_process_mapping\n' ${answer#* } >&$PMI_FD; "
               r"read answer <&$PMI_FD; echo $answer; printf 'cmd=finalize\n' >&$PMI_FD; read answer <&$PMI_FD")
        out, _ = self.job(0, "-n", "3", "--hosts", "a,b", "sh", "-c", get)
        self.assertEqual(out, "cmd=get_result rc=0 msg=success value=(vector,(0,1,2),(1,1,1))\n" * 3)

    def test_nonsense_ends_the_job(self):
        for say in ("hello", "cmd=get_maxes", "cmd=init\\0pmi_version=1", "x" * 20000):
            _, err = self.job(1, "-n", "3", "sh", "-c",
                              f"test $PMI_RANK != 1 || printf '{say}\\n' >&$PMI_FD; sleep 60")
            self.assertRegex(err, r"^wherry run: rank 1 .*PMI")
            self.assertEqual(err.count("\n"), 1, err)

    def test_flood_of_requests(self):
        flood = INIT + r"yes cmd=get_maxes >&$PMI_FD"
        _, err = self.job(124, "-n", "2", "--timeout", "1s", "sh", "-c", flood)
        self.assertEqual(err.count("was still there"), 2)

    def test_abort(self):
        _, err = self.job(5, "-n", "3", "sh", "-c",
                          INIT + r"test $PMI_RANK != 2 || printf 'cmd=abort exitcode=5\n' >&$PMI_FD; sleep 60")
        self.assertRegex(err, r"^wherry run: rank 2 \(pid \d+ on \S+\) has ended the job with status 5\n$")

    def test_gone_without_good_bye(self):
        _, err = self.job(1, "-n", "3", "sh", "-c", INIT + "test $PMI_RANK = 1 || sleep 60")
        self.assertRegex(err, r"^wherry run: rank 1 .* without having left the job \(MPI_Finalize; of other programs, PMI finalize\)\n$")

    def test_waiting_in_vain(self):
        _, err = self.job(1, "-n", "3", "sh", "-c",
                          r"test $PMI_RANK = 1 && exit; " + INIT +
                          r"printf 'cmd=barrier_in\n' >&$PMI_FD; read answer <&$PMI_FD; sleep 60")
        self.assertRegex(err, r"^wherry run: \d processes wait in a barrier for rank 1, which has ended\n$")

    # ---- Output and input.

    def test_prefix(self):
        out, err = self.job(0, "-n", "2", "--prefix", "sh", "-c",
                            r"printf 'a\nb\n\nend'; printf 'oh\nno' >&2")
        for text, lines in ((out, ["a", "b", "", "end"]), (err, ["oh", "no"])):
            for rank in "01":
                mine = [line[4:] for line in text.splitlines() if line.startswith(f"[{rank}] ")]
                self.assertEqual(mine, lines)
            self.assertEqual(len(text.splitlines()), 2 * len(lines))

    def test_files(self):
        prefix = self.folder / "out"
        out, err = self.job(0, "-n", "3", "--output", prefix, "sh", "-c",
                            "printf \"$PMI_RANK\\0\"; echo oh >&2")
        self.assertEqual((out, err), ("", ""))
        self.assertEqual([(prefix.parent / f"out.{i}.out").read_bytes() for i in range(3)],
                         [b"0\0", b"1\0", b"2\0"])
        self.assertEqual((prefix.parent / "out.2.err").read_text(), "oh\n")
        _, err = self.job(1, "--output", "/nosuch/out", "true")
        self.assertIn("/nosuch/out cannot be made: No such file", err)
        _, err = self.job(1, "--output", "/dev/null/x", "true")
        self.assertIn("cannot be made", err)

    def test_a_million_lines(self):
        line = "0123456789 the same line again and again 0123456789"
        script = f'yes "$PMI_RANK {line}" | head -n 250000'
        process = self.launch("-n", "4", "--hosts", "a,b", "sh", "-c", script)
        time.sleep(0.5)  # nobody reads for a while
        counts = {}
        for got in process.stdout:
            counts[got] = counts.get(got, 0) + 1
        self.finish(process, 0)
        expected = {f"{i} {line}\n": 250000 for i in range(4)}
        self.assertTrue(counts == expected, [got for got in counts if got not in expected][:5])

    def test_output_that_nobody_reads(self):
        process = self.launch("-n", "3", "sh", "-c", "test $PMI_RANK = 2 || exec yes; sleep 0.5; exit 3")
        # The failure is seen, and all processes end, though output waits.
        self.assertTrue(wait_for(lambda: pids_with(self.mark)))
        self.assertTrue(wait_for(lambda: not pids_with(self.mark)), "processes are left")
        self.assertIn("rank 2", self.finish(process, 3)[1])

    def test_memory_is_bounded(self):
        process = self.launch("-n", "4", "--kill-after", "200ms", "yes", "x" * 4000)
        time.sleep(1.5)
        status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
        self.assertLess(int(re.search(r"VmRSS:\s+(\d+)", status)[1]), 64 << 10)  # KiB
        process.send_signal(signal.SIGTERM)
        process.stdout.read()
        self.finish(process, 143)

    def test_standard_output_that_was_closed(self):
        process = self.launch("-n", "2", "yes")
        self.assertEqual(process.stdout.readline(), "y\n")
        process.stdout.close()
        self.assertIn("could not be written: Broken pipe", process.stderr.read())
        self.assertEqual(process.wait(tool.LIMIT), 1)
        self.check_nothing_left()

    def test_streams_that_processes_close(self):
        out, _ = self.job(0, "-n", "2", "sh", "-c", "exec >&- 2>&- <&-; sleep 0.3")
        self.assertEqual(out, "")

    def test_one_process_prints_as_it_likes(self):
        process = self.launch("sh", "-c", "printf 'name? '; read name; echo $name", stdin=subprocess.PIPE)
        self.assertEqual(process.stdout.read(6), "name? ")
        process.stdin.write("you\n")
        process.stdin.flush()
        self.assertEqual(self.finish(process, 0)[0], "you\n")

    def test_input(self):
        for kind in HERE:
            text = "".join(f"line {i}\n" for i in range(200000))
            process = self.launch("-n", "3", *kind, "cat", stdin=subprocess.PIPE)
            out, err = process.communicate(text, timeout=tool.LIMIT)
            self.assertEqual((process.returncode, err), (0, ""))
            self.assertTrue(out == text, f"{len(out)} bytes of {len(text)}")

    def test_input_that_nobody_reads(self):
        process = self.launch("-n", "2", "sh", "-c", "exec <&-; sleep 0.3", stdin=subprocess.PIPE)
        try:
            process.communicate("x" * 3000000, timeout=tool.LIMIT)
        except BrokenPipeError:
            pass
        self.assertEqual(process.returncode, 0)

    def test_no_standard_descriptors(self):
        done = subprocess.run(["sh", "-c", f'exec "{WHERRY}" run -n 2 cat <&- >&-'],
                              timeout=tool.LIMIT, capture_output=True)
        self.assertEqual((done.returncode, done.stderr), (0, b""))

    # ---- The end.

    def test_a_program_that_cannot_be_started(self):
        for kind in HERE:
            out, err = self.job(127, "-n", "4", *kind, "/nosuch/prog")
            self.assertEqual((out, err),
                             ("", "wherry run: /nosuch/prog cannot be started: No such file or directory\n"))
        _, err = self.job(127, "/etc/passwd")
        self.assertEqual(err, "wherry run: /etc/passwd cannot be started: Permission denied\n")

    def test_few_files(self):
        """With all limits the job runs, or a sentence says what it takes."""
        ask = INIT + r"printf 'cmd=finalize\n' >&$PMI_FD; read answer <&$PMI_FD; echo $answer"

        def limited(limit, *words, fds=()):
            done = subprocess.run([WHERRY, "run", "--timeout", "20s", *words, "sh", "-c", ask], timeout=tool.LIMIT, capture_output=True, text=True,
                                  stdin=subprocess.DEVNULL, pass_fds=fds,
                                  preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit)))
            return done.returncode, done.stdout, done.stderr
        self.assertEqual(limited(4), (1, "", "wherry run: it cannot begin: the limit of open files is 4 (ulimit -n), and 1 host takes 8\n"))
        trace = ["--trace", str(self.folder / "trace")]
        own = os.open("/dev/null", os.O_RDONLY)
        self.addCleanup(os.close, own)
        for count, *words in ([1], [2], [2, *trace], [30], [30, *trace]):
            with self.subTest(count=count, words=words):
                words = ["-n", str(count), *words]
                says = r"sh cannot be started: the limit of open files is (\d+) on \S+ \(ulimit -n\), and to start \d+ processes there takes at least (\d+)\n"
                code, _, err = limited(12, *words)
                self.assertEqual(code, 127)
                takes = int(re.search(says, err)[2])
                code, _, err = limited(takes - 1, *words)
                self.assertEqual((code, re.search(says, err).groups()), (127, (str(takes - 1), str(takes))))
                self.assertEqual(limited(takes, *words), (0, "cmd=finalize_ack\n" * count, ""))
                if count == 2:  # one that was open before is one too many
                    code, _, err = limited(takes, *words, fds=[own])
                    self.assertEqual((code, re.search(says, err).groups()), (127, (str(takes), str(takes))))

    def test_few_processes(self):
        done = subprocess.run(["setpriv", "--reuid", "54321", "--clear-groups", "prlimit", "--nproc=3:3", WHERRY, "run", "-n", "9", "true"],
                              timeout=tool.LIMIT, capture_output=True, text=True, cwd="/", stdin=subprocess.DEVNULL)
        if "setpriv:" in done.stderr or "denied" in done.stderr:
            self.skipTest("another user cannot be had, or not run this: " + done.stderr)
        self.assertEqual((done.returncode, done.stderr),
                         (127, "wherry run: true cannot be started: Resource temporarily unavailable (ulimit -u)\n"))

    def test_without_proc(self):
        libraries = os.path.dirname(os.path.realpath(WHERRY))  # the loader finds them by /proc otherwise
        done = subprocess.run(["unshare", "-m", "sh", "-c", f"mount -t tmpfs none /proc && exec {WHERRY} run -n 2 true"],
                              timeout=tool.LIMIT, capture_output=True, text=True, stdin=subprocess.DEVNULL,
                              env={**os.environ, "LD_LIBRARY_PATH": libraries})
        if "unshare:" in done.stderr or "mount:" in done.stderr or "libraries" in done.stderr:
            self.skipTest("it cannot be taken away here: " + done.stderr)
        self.assertEqual((done.returncode, done.stderr), (1, "wherry run: it cannot begin: /proc is not mounted\n"))

    def test_failures(self):
        """{kill, stop, exit 3, segmentation fault} x {rank 0, another} x {here, by --rsh}"""
        ends = {"kill": (137, r"was killed by signal 9 \(Killed\)"),
                "exit": (3, r"exited with status 3"),
                "segv": (139, r"was killed by signal 11 \(Segmentation fault\)"),
                "stop": (0, r"was stopped by signal 19 \(Stopped \(signal\)\); SIGCONT lets it go on")}
        for kind in HERE:
            for rank in (0, 2):
                for how, (code, says) in ends.items():
                    with self.subTest(kind=kind, rank=rank, how=how):
                        self.fail_one(kind, rank, how, code, says)

    def fail_one(self, kind, rank, how, code, says):
        for path in self.folder.glob("pid.*"):
            path.unlink()
        script = ("trap 'exit 3' USR1; sleep 60 & echo $$ > pid.$PMI_RANK; "
                  "until test -e go; do sleep 0.05; done")
        (self.folder / "go").unlink(missing_ok=True)
        process = self.launch("-n", "3", *kind, "sh", "-c", script)
        pid = self.ranks(3)[rank]
        begin = time.monotonic()
        number = {"kill": signal.SIGKILL, "exit": signal.SIGUSR1, "segv": signal.SIGSEGV,
                  "stop": signal.SIGSTOP}[how]
        os.kill(pid, number)
        if how == "stop":
            line = process.stderr.readline()
            os.kill(pid, signal.SIGCONT)
            (self.folder / "go").touch()
            err = line + self.finish(process, code)[1]
        else:
            err = self.finish(process, code)[1]
        took = time.monotonic() - begin
        host = r"\S+" if not kind else "nodeA" if rank < 2 else "nodeB"
        self.assertRegex(err, rf"^wherry run: rank {rank} \(pid {pid} on {host}\) {says}\n$")
        self.assertLess(took, SOON)
        self.check_nothing_left()

    def test_processes_that_ignore_sigterm(self):
        script = ("trap '' TERM INT; echo $$ > pid.$PMI_RANK; test $PMI_RANK = 1 && sleep 0.3 && exit 3; "
                  "(trap '' TERM; sleep 60) & while :; do sleep 60; done")
        begin = time.monotonic()
        self.job(3, "-n", "3", "--kill-after", "700ms", "sh", "-c", script)
        self.assertGreater(time.monotonic() - begin, 0.9)
        self.assertLess(time.monotonic() - begin, 0.9 + SOON)

    def test_others_go_on(self):
        out, err = self.job(3, "-n", "4", "--no-cleanup", "sh", "-c", 'test $PMI_RANK = 1 && exit 3; sleep 0.5; echo $PMI_RANK '
                            '$WHERRYRUN_NO_CLEANUP; test $PMI_RANK = 2 && exit 4; test $PMI_RANK = 3 && kill -KILL $$; exit 0')
        self.assertEqual(sorted(out.splitlines()), ["0 yes", "2 yes", "3 yes"])
        for what in ("rank 1 .* exited with status 3", "rank 2 .* exited with status 4", "rank 3 .* was killed by signal 9"):
            self.assertRegex(err, what)
        self.check_nothing_left()

    def test_what_is_left_in_the_background(self):
        for script in ("sleep 60 & exit 0", "setsid sleep 60 & exit 0", "setsid sh -c 'sleep 60 & sleep 61' & exit 0",
                       "setsid sh -c 'trap \"\" TERM; sleep 60' & sleep 0.2; exit 4"):
            code = 4 if "exit 4" in script else 0
            self.job(code, "-n", "2", "--kill-after", "300ms", "sh", "-c", script)

    def test_children_from_before(self):
        """A shell that becomes `wherry run` keeps its own, also when what an agent has left is killed."""
        for job, code in (("sleep 60 & exit 0", 0), ("sleep 60 & kill -KILL $PPID; sleep 60", 1)):
            script = f'(sleep 1.5; echo alive) & exec "{WHERRY}" run --env {self.mark} sh -c "$0"'
            done = subprocess.run(["sh", "-c", script, job], capture_output=True, text=True, timeout=tool.LIMIT)
            self.assertEqual((done.returncode, done.stdout), (code, "alive\n"), done.stderr)
            self.check_nothing_left()

    def test_launcher_is_killed(self):
        for kind in HERE:
            for path in self.folder.glob("pid.*"):
                path.unlink()
            process = self.launch("-n", "3", *kind, "sh", "-c",
                                  "trap '' TERM HUP; setsid sleep 60 & echo $$ > pid.$PMI_RANK; sleep 60")
            agents = {parent_of(pid) for pid in self.ranks(3).values()}
            process.kill()
            process.wait()
            self.assertTrue(wait_for(lambda: not pids_with(self.mark)), "processes are left")
            self.assertTrue(wait_for(lambda: not any(os.path.exists(f"/proc/{a}/cwd") for a in agents)))

    def test_agent_is_killed(self):
        for kind in HERE:
            for path in self.folder.glob("pid.*"):
                path.unlink()
            process = self.launch("-n", "4", *kind, "sh", "-c",
                                  "sleep 60 & echo $$ > pid.$PMI_RANK; sleep 60")
            os.kill(parent_of(self.ranks(4)[0]), signal.SIGKILL)
            _, err = self.finish(process, 1)
            self.assertRegex(err, r"^(Killed\n)?wherry run: the agent on \S+ was lost, and its processes with it: "
                                  r"it (was killed by signal 9 \(Killed\)|exited with status 137)\n$")
            self.check_nothing_left()

    def test_agent_is_killed_and_nobody_sees_it(self):
        process = self.launch("-n", "2", "sh", "-c", "echo $$ > pid.$PMI_RANK; exec sleep 60")
        agent = parent_of(self.ranks(2)[0])
        process.send_signal(signal.SIGSTOP)
        os.kill(agent, signal.SIGKILL)
        self.assertTrue(wait_for(lambda: not pids_with(self.mark)), "processes are left")
        process.send_signal(signal.SIGCONT)
        # The launcher may have been stopped before it had read that the agent is there.
        self.assertRegex(self.finish(process, 1)[1], r"the agent on \S+ (was lost|did not start)")

    def test_agent_that_does_not_answer(self):
        process = self.launch("-n", "2", "--timeout", "1s", "--kill-after", "100ms", "sh", "-c",
                              "echo $$ > pid.$PMI_RANK; exec sleep 60")
        agent = parent_of(self.ranks(2)[0])
        os.kill(agent, signal.SIGSTOP)
        _, err = self.finish(process, 124)
        self.assertIn("does not answer", err)
        self.check_nothing_left()

    def test_timeout(self):
        for kind in HERE:
            for seconds in ("0.5", "4", "30"):  # on a busy machine rank 1 takes longer to end
                _, err = self.job(124, "-n", "3", *kind, "--timeout", f"{seconds}s", "sh", "-c",
                                  "test $PMI_RANK = 1 || sleep 60")
                if "rank 1" not in err:
                    break
            self.assertRegex(err, rf"^(wherry run: rank [02] \(pid \d+ on \S+\) was still there after {seconds} s\n){{2}}"
                                  r"wherry run: with --dump programs of Wherry print at the timeout what they wait for\n$")

    def test_signals_are_passed_on(self):
        for kind in HERE:
            process = self.launch("-n", "3", *kind, "sh", "-c",
                                  "trap 'echo got; kill $!; exit 0' USR1; sleep 60 & echo up; wait")
            for _ in range(3):
                self.assertEqual(process.stdout.readline(), "up\n")
            process.send_signal(signal.SIGUSR1)
            self.assertEqual(self.finish(process, 0)[0], "got\n" * 3)

    def test_a_signal_to_the_group(self):
        """As `timeout -s USR1` sends it: the agent, or what reaches it, is in the launcher's group."""
        for number in ("USR1", "USR2"):
            for kind in HERE:
                process = self.launch("-n", "3", *kind, "sh", "-c",
                                      f"trap 'echo got; kill $!; exit 0' {number}; sleep 60 & echo up; wait", start_new_session=True)
                for _ in range(3):
                    self.assertEqual(process.stdout.readline(), "up\n")
                os.killpg(process.pid, getattr(signal, "SIG" + number))
                self.assertEqual(self.finish(process, 0)[0], "got\n" * 3)

    def test_ctrl_c(self):
        script = "trap 'echo asked' INT; echo up; while :; do sleep 0.05; done"
        process = self.launch("-n", "2", "sh", "-c", script)
        for expected in ("up\n", "asked\n"):
            for _ in range(2):
                self.assertEqual(process.stdout.readline(), expected)
            process.send_signal(signal.SIGINT)  # the second kills
        self.finish(process, 130)
        self.check_nothing_left()
        process = self.launch("-n", "2", "sh", "-c", "echo up; exec sleep 60")
        process.stdout.readline()
        process.stdout.readline()
        time.sleep(0.3)  # until both are `sleep`
        process.send_signal(signal.SIGINT)
        self.assertEqual(self.finish(process, 130)[1], "")

    def test_sigterm(self):
        process = self.launch("-n", "2", "sh", "-c", "trap 'echo asked; exit 9' TERM; echo up; sleep 60 & wait")
        process.stdout.readline()
        process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        out, err = self.finish(process, 143)
        self.assertEqual((out, err), ("asked\n" * 2, "wherry run: ended by signal 15 (Terminated)\n"))
        self.check_nothing_left()

    def test_sigterm_to_the_group(self):
        """As `timeout` sends it, to the command and to its group: that is one request to end, and there is time for it."""
        script = "trap 'sleep 0.5; echo ended; exit 0' TERM; echo up; sleep 60 & wait"
        for kind in HERE:
            process = self.launch("-n", "2", *kind, "--kill-after", "20s", "sh", "-c", script, start_new_session=True)
            for _ in range(2):
                self.assertEqual(process.stdout.readline(), "up\n")
            process.send_signal(signal.SIGTERM)
            os.killpg(process.pid, signal.SIGTERM)
            self.assertEqual(self.finish(process, 143)[0], "ended\n" * 2)

    def test_ctrl_z(self):
        process = self.launch("-n", "2", "sh", "-c", "echo $$ > pid.$PMI_RANK; until test -e go; do sleep 0.05; done")

        def state(pid):
            return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        pids = [process.pid, *self.ranks(2).values()]
        process.send_signal(signal.SIGTSTP)
        self.assertTrue(wait_for(lambda: all(state(pid) == "T" for pid in pids)))
        process.send_signal(signal.SIGCONT)
        (self.folder / "go").touch()
        self.assertEqual(self.finish(process, 0), ("", ""))

    # ---- Other hosts.

    def test_what_is_no_agent(self):
        half = str(self.folder / "half")
        pathlib.Path(half).write_text("#!/bin/sh\nprintf wr\n")
        os.chmod(half, 0o755)
        for rsh, says in (("echo Last login:", r"what came from [ab] is not from an agent .*\('Last login: [ab] "),
                          (half, r"the agent on [ab] did not start \(see --rsh\): it exited with status 0"),
                          ("false", r"the agent on [ab] did not start \(see --rsh\): it exited with status 1")):
            process = self.start("run", "--hosts", "a,b", "--rsh", rsh, "true")
            self.assertRegex(self.finish(process, 1)[1], rf"^wherry run: {says}.*\n$")
        _, err = self.run_tool(127, "run", "--hosts", "a,b", "--rsh", "/nosuch/rsh", "true")
        self.assertEqual(err, "wherry run: /nosuch/rsh cannot be started: No such file or directory\n")

    def test_agents_refuse_what_is_no_launcher(self):
        for said in (b"hello\n", b"wr\1\0\0\0\0\0\5\0\0\0hello", b"wr\5\0\0\0\0\0\1\0\0\0x", b"wr\4\0" + b"\0" * 8):
            done = subprocess.run([WHERRY, "run-agent"], input=said, capture_output=True, timeout=tool.LIMIT)
            self.assertEqual(done.returncode, 1)
            self.assertEqual(done.stdout, b"wr\0\0\0\0\0\0\x0c\0\0\0wherry run 1" if done.stdout else b"")
            self.assertIn(b"is not from `wherry run`", done.stderr)
        self.assertIn("started by `wherry run`", self.run_tool(2, "run-agent", "x")[1])

    def test_this_host_needs_no_shell(self):
        out, _ = self.job(0, "--hosts", f"localhost,{os.uname().nodename}", "--env", "A=1", "echo", "x")
        self.assertEqual(out, "x\nx\n")

    def test_network_namespaces_as_hosts(self):
        names = [self.namespace() for _ in range(4)]
        command = ["run", "--rsh", "ip netns exec", "--hosts", ",".join(names), "--ppn", "2"]
        out, err = self.run_tool(0, *command, BOOT_ALL)
        self.assertEqual((out, err), ("8 processes, started by PMI-1\n", ""))
        out, _ = self.run_tool(0, *command, "readlink", "/proc/self/ns/net")
        self.assertEqual(len(set(out.splitlines())), 4)


if __name__ == "__main__":
    unittest.main()
