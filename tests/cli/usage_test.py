#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests of what the command says: help, complaints, exit codes, info, doctor."""
import json
import re
import subprocess
import unittest

import tool

COMMANDS = ["info", "doctor", "perf", "send", "recv", "run"]

WRONG = [  # arguments, and what the complaint must name
    (["fly"], "'fly'"),
    (["--fly"], "'--fly'"),
    (["info", "--fly"], "'--fly'"),
    (["info", "extra"], "'extra'"),
    (["info", "--json=1"], "--json takes no value"),
    (["doctor", "a:1", "b:2"], "one HOST:PORT"),
    (["perf", "--sizes"], "--sizes needs a value"),
    (["perf", "--sizes", "8,x"], "'x' is not a size"),
    (["perf", "--sizes", ","], "--sizes needs one"),
    (["perf", "--metric", "speed"], "'speed' is not a metric"),
    (["perf", "--lane", "pigeon"], "not 'pigeon'"),
    (["perf", "--mode", "sleepy"], "not 'sleepy'"),
    (["perf", "--reps", "0"], "--reps"),
    (["perf", "--time", "fast"], "not 'fast'"),
    (["perf", "--pin", "x"], "--pin"),
    (["perf", "--model", "entry,pigeon"], "not 'pigeon'"),
    (["perf", "--model", "entry", "--raw"], "--model takes --sizes"),
    (["perf", "am", "--model", "entry"], "--model takes --sizes"),
    (["perf", "--model", "engine,entry", "--memory", "sim"], "--memory sim goes with --model engine, buffer, channel"),
    (["perf", "--model", "engine", "--memory", "sim,host"], "one kind of --memory"),
    (["perf", "--model", "chares", "--count", "0"], "--count"),
    (["perf", "--count", "10"], "--count goes with --model"),
    (["perf", "--listen", "99999"], "--listen takes a port"),
    (["perf", "--connect", "nowhere"], "HOST:PORT"),
    (["perf", "--listen", "1", "--connect", "a:1"], "exclude each other"),
    (["perf", "mail"], "'mail' is not a test"),
    (["perf", "tag", "tag", "tag", "tag"], "each test once"),
    (["perf", "post", "tag"], "measured alone"),
    (["perf", "post", "--lane", "shm"], "post takes --metric"),
    (["perf", "post", "--metric", "bidir"], "a latency and a rate"),
    (["send", "localhost:1"], "at least one path"),
    (["send", "file", "nowhere"], "not HOST:PORT"),
    (["send", "a", "b/a", "h:1"], "would both be called a"),
    (["send", "a", "h:1", "--secret", "x", "--secret-file", "y"], "exclude each other"),
    (["recv"], "one directory"),
    (["recv", "a", "b"], "one directory"),
    (["recv", "d", "--port", "x"], "not 'x'"),
    (["recv", "d", "--count", "0"], "--count"),
    (["recv", "d", "--once", "--count", "2"], "--count"),
    (["recv", "d", "--timeout", "soon"], "not 'soon'"),
    (["recv", "d", "--lane", "tcp"], "not 'tcp'"),
    (["recv", "d", "--secret", ""], "--secret is empty"),
    (["recv", "d", "--secret-file", "/nosuch"], "cannot be read: No such file"),
    (["recv", "d", "--secret-file", "/dev/null/x"], "'/dev/null/x' cannot be read"),
    (["send", "a", "h:1", "--secret="], "--secret is empty"),
    (["send", "a", "h:1", "--secret-file", ""], "cannot be read"),
    (["send", "a", "h:1", "--timeout", "-1"], "not '-1'"),
    (["send", "a", "h:1", "--lane", "tcp"], "not 'tcp'"),
    (["send", "a", "h:abc"], "a port is a number"),
    (["send", "a", "h:65536"], "a port is a number"),
    (["send", "a", "fe80::1:5000"], "[fe80::1]:5000"),
    (["doctor", "h"], "not HOST:PORT"),
    (["perf", "--sizes", "9T"], "at most 8G"),
    (["perf", "--pin", "9999,0"], "core 9999 is not"),
    (["perf", "--secret", ""], "--secret is empty"),
    (["perf", "--connect", "h:abc"], "a port is a number"),
    (["perf", "--host", "h"], "--host goes with --listen"),
    (["run"], "needs a program"),
    (["run", "--", ], "needs a program"),
    (["run", "-n", "0", "true"], "not '0'"),
    (["run", "-n", "65537", "true"], "not '65537'"),
    (["run", "-n", "many", "true"], "not 'many'"),
    (["run", "--ppn", "-1", "true"], "not '-1'"),
    (["run", "-n", "5", "--ppn", "2", "--hosts", "a,b", "true"], "raise --ppn"),
    (["run", "--hosts", "a,,b", "true"], "not 'a,,b'"),
    (["run", "--hosts", "", "true"], "--hosts takes names"),
    (["run", "--hosts", "a,-oProxyCommand=x", "true"], "--hosts takes names"),
    (["run", "--bind", "auto", "true"], "not 'auto'"),
    (["run", "--bind", "socket", "true"], "not 'socket'"),
    (["run", "--env", "=x", "true"], "not '=x'"),
    (["run", "--env", "NO_SUCH_VARIABLE", "true"], "there is no such variable"),
    (["run", "--timeout", "0", "true"], "not '0'"),
    (["run", "--kill-after", "soon", "true"], "not 'soon'"),
    (["run", "--rsh", "", "true"], "--rsh takes a program"),
    (["run", "--output", "", "true"], "--output is empty"),
    (["run", "--output", "x", "--prefix", "true"], "exclude each other"),
    (["run", "--fly", "true"], "'--fly'"),
]


class Usage(tool.Case):
    def test_help(self):
        out, err = self.run_tool(0, "--help")
        self.assertEqual(err, "")
        for command in COMMANDS:
            self.assertRegex(out, rf"(?m)^  {command} +\w")
            told, err = self.run_tool(0, command, "--help")
            self.assertEqual(err, "")
            self.assertTrue(told.startswith(f"usage: wherry {command} "), told)
            self.assertEqual(told, self.run_tool(0, "help", command)[0])
            self.assertEqual(told, self.run_tool(0, command, "-h")[0])
            self.assertLessEqual(max(map(len, told.splitlines())), 100)

    def test_version(self):
        self.assertRegex(self.run_tool(0, "--version")[0], r"^wherry \d+\.\d+\.\d+\n$")

    def test_nothing_is_wrong_too(self):
        out, err = self.run_tool(2)
        self.assertEqual(out, "")
        self.assertIn("usage: wherry COMMAND", err)

    def test_wrong_arguments(self):
        for words, names in WRONG:
            with self.subTest(words=words):
                out, err = self.run_tool(2, *words)
                self.assertEqual(out, "")
                self.assertIn(names, err)
                self.assertIn("--help", err)
                self.assertEqual(err.count("\n"), 1, err)

    def program(self, name, text):
        """A program of this name in a folder; the PATH that leads to it."""
        path = self.folder / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
        return f"{path.parent}:/usr/bin:/bin"

    def test_a_command_may_be_another_program(self):
        path = self.program("wherry-fly2-x", '#!/bin/sh\nfor word; do echo "<$word>"; done; exit 7\n')
        out, err = self.run_tool(7, "fly2-x", "--high", "two words", "", PATH=path)
        self.assertEqual((out, err), ("<--high>\n<two words>\n<>\n", ""))
        self.assertEqual(self.run_tool(7, "help", "fly2-x", PATH=path)[0], "<--help>\n")

    def test_what_is_no_other_program(self):
        path = self.program("wherry-Fly", "#!/bin/sh\necho no\n")
        self.program("wherry-..", "#!/bin/sh\necho no\n")
        (self.folder / "bin" / "wherry-plain").write_text("not for running")
        for name in ("Fly", "..", "../bin/wherry-Fly", "", "-fly", "plain", "info2", "x" * 64, "x" * 5000):
            out, err = self.run_tool(2, name, PATH=path)
            self.assertEqual(out, "")
            self.assertEqual(err, f"wherry: there is no command '{name}'; see wherry --help\n")

    def test_a_program_that_cannot_be_started(self):
        path = self.program("wherry-loop", "")
        (self.folder / "bin" / "wherry-loop").unlink()
        (self.folder / "bin" / "wherry-loop").symlink_to("wherry-loop")
        _, err = self.run_tool(1, "loop", PATH=path)
        self.assertIn("wherry-loop cannot be started: Too many levels", err)

    def test_topo_comes_with_the_python_package(self):
        for words in (["topo", "--json"], ["help", "topo"]):
            _, err = self.run_tool(2, *words, PATH=str(self.folder))
            self.assertIn("`pip install .` in the sources", err)
        path = self.program("wherry-topo", "#!/bin/sh\necho topo\n")
        self.assertEqual(self.run_tool(0, "topo", PATH=path), ("topo\n", ""))

    def test_failures(self):
        self.run_tool(1, "send", self.folder / "missing", "127.0.0.1:1")
        _, err = self.run_tool(1, "send", self.folder, "127.0.0.1:1")
        self.assertIn("cannot connect to 127.0.0.1:1", err)
        _, err = self.run_tool(1, "recv", "/proc/version/x")
        self.assertIn("/proc/version/x", err)
        _, err = self.run_tool(1, "perf", "--connect", "127.0.0.1:1")
        self.assertIn("cannot connect", err)
        self.assertEqual(err.count("\n"), 1, err)

    def test_empty_secret_file(self):
        for text in ("", "\n", "\r\nsecond line\n"):
            (self.folder / "key").write_text(text)
            (self.folder / "key").chmod(0o600)
            _, err = self.run_tool(2, "recv", self.folder / "out", "--secret-file",
                                   self.folder / "key")
            self.assertIn("holds no secret", err)
        self.assertFalse((self.folder / "out").exists())

    def test_full_output(self):
        for words in (["info"], ["info", "--json"], ["--version"], ["--help"], ["doctor"]):
            with open("/dev/full", "w") as full:
                ended = subprocess.run([tool.WHERRY, *words], stdout=full, stderr=subprocess.PIPE,
                                       text=True, env=tool.environment({}), timeout=tool.LIMIT)
            self.assertEqual(ended.returncode, 1, words)
            self.assertIn("No space left", ended.stderr)

    def test_why_it_cannot_listen(self):
        receiver, address = self.start_receiver()
        port = address.rsplit(":", 1)[1]
        for words, why in ((["--port", port], "ss -ltnp"),
                           (["--host", "192.0.2.1"], "not an address of this machine"),
                           (["--host", "no.such.host.invalid"], "does not resolve")):
            _, err = self.run_tool(1, "recv", self.folder / "out", *words)
            self.assertIn(why, err)
            self.assertEqual(err.count("\n"), 1, err)
        receiver.terminate()
        self.finish(receiver, 0)


class Info(tool.Case):
    def test_text(self):
        out, _ = self.run_tool(0, "info")
        for word in ("wherry", "ucx", "host", "lanes", "memory", "settings", "at their defaults"):
            self.assertIn(word, out)
        out, _ = self.run_tool(0, "info", WHERRY_SPIN_US="77", WHERRY_SECRET="hush")
        self.assertIn("spin_us = 77 (environment)", out)
        self.assertNotIn("hush", out)

    def test_json(self):
        out, _ = self.run_tool(0, "info", "--json", WHERRY_SPIN_US="77", WHERRY_SECRET="hush")
        told = json.loads(out)
        self.assertEqual(set(told), {"versions", "host", "lanes", "memory_kinds", "memory", "cuda", "config"})
        self.assertEqual(set(told["versions"]),
                         {"wherry", "headers", "ucx", "ucx_path", "ucx_transports"})
        self.assertGreaterEqual(told["host"]["usable_cores"], 1)
        self.assertLessEqual({"shm", "stream"}, {lane["name"] for lane in told["lanes"]})
        self.assertIn("host", told["memory_kinds"])
        self.assertEqual([kind["name"] for kind in told["memory"]], ["host", "cuda", "sim"])
        for kind in told["memory"]:
            self.assertEqual(kind["usable"], kind["name"] in told["memory_kinds"])
            self.assertTrue(kind["reason"])
        config = {row["key"]: row for row in told["config"]}
        self.assertEqual(config["spin_us"]["value"], "77")
        self.assertEqual(config["spin_us"]["source"], "environment")
        self.assertNotIn("hush", out)

    def test_config_documents_all(self):
        rows = json.loads(self.run_tool(0, "info", "--json")[0])["config"]
        out, _ = self.run_tool(0, "info", "--config")
        for row in rows:
            self.assertRegex(out, rf"(?m)^{row['key']} = ")
            self.assertIn(row["env"] + ";", out)
            self.assertIn(row["doc"], out)

    def test_under_a_limit_of_file_size(self):
        done = subprocess.run(["prlimit", "--fsize=8192", tool.WHERRY, "info"], env=tool.environment({}), capture_output=True, text=True, timeout=tool.LIMIT)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertRegex(done.stdout, r"shm +no +a ring is more than this process may have in a file \(ulimit -f\)")
        limited = ["prlimit", "--fsize=0", tool.WHERRY, "doctor"]
        doctor = subprocess.run(limited, env=tool.environment({}), capture_output=True, text=True, timeout=tool.LIMIT)
        self.assertEqual(doctor.returncode, 1, doctor.stderr)
        self.assertIn("no sealed shared memory: File too large", doctor.stdout)

    def test_invalid_setting(self):
        _, err = self.run_tool(1, "info", WHERRY_LANES="pigeon")
        self.assertIn("pigeon", err)
        self.assertEqual(err.count("\n"), 1, err)


class Doctor(tool.Case):
    def test_this_host(self):
        out, _ = self.run_tool(0, "doctor")
        for where in ("shm", "stream", "memfd", "RLIMIT_NOFILE", "environment", "ports"):
            self.assertRegex(out, rf"(?m)^(ok  |note)  {where} ")
        self.assertRegex(out, r"\n0 problems, (1 note|\d+ notes)\n$")

    def test_few_descriptors(self):
        told = subprocess.run(["prlimit", "--nofile=8", tool.WHERRY, "doctor"],
                              env=tool.environment({}), capture_output=True, text=True,
                              timeout=tool.LIMIT)
        self.assertEqual(told.returncode, 1)
        self.assertRegex(told.stdout, r"BAD +(ports|worker) .*\n.*-> ulimit -n")
        self.assertRegex(told.stdout, r"\n1 problem, ")

    def test_unknown_variable(self):
        out, _ = self.run_tool(1, "doctor", WHERRY_LANE="shm")
        self.assertRegex(out, r"BAD +environment +WHERRY_LANE is not a setting")

    def test_nobody_there(self):
        out, _ = self.run_tool(1, "doctor", "127.0.0.1:1")
        self.assertRegex(out, r"BAD +peer +cannot connect to 127.0.0.1:1")
        self.assertIn("-> nothing listens there", out)

    def test_peer(self):
        receiver, address = self.start_receiver("--once")
        out, _ = self.run_tool(0, "doctor", address)
        self.assertRegex(out, r"ok +peer +connected to \S+.* over shm")
        self.assertRegex(out, r"ok +round trip +[\d.]+ us")
        out, _ = self.run_tool(0, "doctor", address, WHERRY_LANES="stream")
        self.assertRegex(out, r"ok +peer .* over stream")
        # A look in is no sender: the receiver still waits for one.
        (self.folder / "file").write_text("x")
        self.run_tool(0, "send", self.folder / "file", address)
        _, err = self.finish(receiver, 0)
        self.assertEqual(err, "")

    def test_wrong_secret(self):
        _, address = self.start_receiver("--host", "127.0.0.1", "--secret", "right")
        out, _ = self.run_tool(1, "doctor", address, WHERRY_SECRET="wrong")
        self.assertRegex(out, re.compile(r"BAD +peer.*secret", re.S))
        self.assertIn("WHERRY_SECRET", out)


if __name__ == "__main__":
    unittest.main()
