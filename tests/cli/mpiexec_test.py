#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""`wherry mpiexec`: what people type for MPI's other launchers, and several programs in one job."""
import unittest

import tool


class Mpiexec(tool.Case):
    def job(self, *words, code=0, **extra):
        return self.run_tool(code, "mpiexec", *words, **extra)

    def lines(self, *words, code=0, **extra):
        return sorted(self.job(*words, code=code, **extra)[0].splitlines())

    def test_counts(self):
        for words in (["-n", "3"], ["-np", "3"], ["--np", "3"], ["--n=3"], ["-c", "3"]):
            with self.subTest(words):
                self.assertEqual(self.lines(*words, "sh", "-c", "echo $PMI_RANK $PMI_SIZE"), ["0 3", "1 3", "2 3"])

    def test_variables(self):
        show = ["sh", "-c", 'echo "$A,$B,$C,$D"']
        self.assertEqual(self.lines("-genv", "A", "1", "-x", "B=2", "-env", "C", "3", "-genvlist", "D,NOT_HERE", *show, D="4"), ["1,2,3,4"])
        self.assertEqual(self.lines("-x", "NOT_HERE", "-envlist", "D,NOT_HERE", *show, D="4"), [",,,4"])

    def test_binding(self):
        for known in ("core", "none", "socket", "user:0,1"):
            self.job("-bind-to", known, "true")
        self.assertIn("-bind-to takes core, numa or none, not 'cores'", self.job("-bind-to", "cores", "true", code=2)[1])

    def test_folder(self):
        self.assertEqual(self.lines("-wdir", str(self.folder), "pwd"), [str(self.folder.resolve())])
        self.assertIn("-wdir /not/there", self.job("-wdir", "/not/there", "pwd", code=1)[1])

    def test_hosts(self):
        hosts = self.folder / "hosts"
        hosts.write_text("# two slots\nlocalhost slots=2\n\n")
        for words in (["-f", str(hosts)], ["--hostfile", str(hosts)], ["-H", "localhost:2"], ["-hosts", "localhost", "-ppn", "2"]):
            with self.subTest(words):
                self.assertEqual(self.lines(*words, "sh", "-c", "echo $PMI_RANK $PMI_SIZE"), ["0 2", "1 2"])
        self.assertIn("every host gets as many", self.job("-host", "a:2,b:3", "true", code=2)[1])
        self.assertIn("cannot read", self.job("-f", "/not/there", "true", code=1)[1])
        hosts.write_text("# nobody\n")
        self.assertIn("no host", self.job("-f", str(hosts), "true", code=2)[1])

    def test_output(self):
        self.assertEqual(self.lines("-n", "2", "-prepend-rank", "echo", "hi"), ["[0] hi", "[1] hi"])
        self.job("-n", "2", "-output-filename", str(self.folder / "run"), "echo", "hi")
        self.assertEqual((self.folder / "run.1.out").read_text(), "hi\n")

    def test_what_says_nothing_here_is_passed_over(self):
        self.assertEqual(self.lines("--allow-run-as-root", "--oversubscribe", "--mca", "btl", "self", "--map-by", "core", "--bind-to",
                                    "none", "-launcher", "ssh", "-genvall", "-iface", "eth0", "-verbose", "-n", "1", "echo", "-n", "--mca"), ["--mca"])

    def test_time(self):
        _, errors = self.job("-n", "2", "--timeout", "1", "sleep", "60", code=124)
        self.assertIn("rank 1", errors)

    def test_a_process_of_virtual_ranks_is_named_with_them(self):
        for process, ranks, name in ((0, 7, "ranks 0-1"), (2, 7, "ranks 4-5"), (3, 7, "rank 6"), (2, 6, "rank 4")):
            with self.subTest(process=process, ranks=ranks):
                _, errors = self.job("-n", "4", "-vp", str(ranks), "sh", "-c", f"test $PMI_RANK = {process} && exit 3; sleep 60", code=3)
                self.assertRegex(errors, rf"process {process} \({name}, pid \d+ on \S+\) exited with status 3")

    def test_a_stack_that_was_too_small(self):
        hint = "WHERRY_MPI_STACK=KIB"
        for words, number, told in ((["-vp", "2"], "SEGV", True), (["-vp", "2"], "KILL", False), ([], "SEGV", False)):
            with self.subTest(words=words, number=number):
                _, errors = self.job(*words, "sh", "-c", f"kill -{number} $$", code=139 if number == "SEGV" else 137)
                self.assertEqual(hint in errors, told)

    def test_others_go_on(self):
        out, _ = self.job("-disable-auto-cleanup", "-n", "2", "sh", "-c", "test $PMI_RANK = 0 && exit 3; sleep 0.3; echo here", code=3)
        self.assertEqual(out, "here\n")

    def test_several_programs(self):
        show = 'echo $PMI_RANK $PMI_SIZE $WHERRYRUN_APPNUM "$A,$B" $(pwd)'
        self.assertEqual(self.lines("-genv", "A", "1", "-n", "2", "-env", "B", "2", "-wdir", "/", "sh", "-c", show, ":",
                                    "-wdir", "/usr", "sh", "-c", show),
                         ["0 3 0 1,2 /", "1 3 0 1,2 /", "2 3 1 1, /usr"])
        ask = ('echo cmd=init pmi_version=1 pmi_subversion=1 >&$PMI_FD; read -r all <&$PMI_FD; echo cmd=get_appnum >&$PMI_FD; read -r all <&$PMI_FD;'
               'echo cmd=finalize >&$PMI_FD; read -r last <&$PMI_FD; echo $all')
        self.assertEqual(self.lines("-n", "2", "sh", "-c", ask, ":", "sh", "-c", ask), 2 * ["cmd=appnum appnum=0"] + ["cmd=appnum appnum=1"])
        _, errors = self.job("-n", "1", "true", ":", "-n", "2", "sh", "-c", "test $PMI_RANK = 1 || exit 9", code=9)
        self.assertIn("rank 2", errors)
        _, errors = self.job("true", ":", "/not/there", code=127)
        self.assertIn("cannot start /not/there", errors)

    def test_the_first_failure_is_the_exit_code(self):
        self.assertIn("rank 1", self.job("-n", "3", "sh", "-c", "test $PMI_RANK = 1 && exit 5; sleep 60", code=5)[1])
        self.job("-n", "2", "sh", "-c", "kill -9 $$", code=137)

    def test_wrong_words(self):
        for words, says in (([], "needs a program"), (["-n"], "-n needs a value"), (["-genv", "A"], "-genv needs a value"),
                            (["-n", "x", "true"], "not 'x'"), (["-n", "0", "true"], "not '0'"), (["--fly", "true"], "'--fly'"),
                            (["-l=1", "true"], "no value"), (["-genv=A", "true"], "two words"), (["true", ":"], "behind the colon"),
                            ([":", "true"], "each side"), (["-timeout", "soon", "true"], "'soon'")):
            with self.subTest(words):
                self.assertIn(says, self.job(*words, code=2)[1])
        self.assertIn("started by", self.run_tool(2, "run-part", "1")[1])
        self.assertIn("started by", self.run_tool(2, "run-part", "1", "", "5", "A=1", PMI_RANK="0")[1])

    def test_help_and_version(self):
        self.assertIn("-genv NAME VALUE", self.job("--help")[0])
        self.assertIn("Wherry", self.job("--version")[0])


if __name__ == "__main__":
    unittest.main()
