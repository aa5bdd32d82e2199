# SPDX-License-Identifier: BSD-3-Clause
"""What the tests of `wherry run` share: starting jobs here and through a stand-in for a remote shell,
and seeing that nothing of them is left."""
import os
import pathlib
import signal
import subprocess
import time
import uuid

import tool

WHERRY = os.path.abspath(tool.WHERRY)
HERE = [[], ["--hosts", "nodeA,nodeB"]]  # kinds of launch; the second by the stand-in
SOON = 40  # seconds for what takes a moment on an idle machine; what would go on without the launcher takes 60


def pids_with(mark):
    """Processes in whose environment the mark is."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark.encode() in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:
            pass
    return found


def parent_of(pid):
    return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def wait_for(what, seconds=SOON):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if what():
            return True
        time.sleep(0.02)
    return bool(what())


class Case(tool.Case):
    """A test that starts jobs."""

    def setUp(self):
        super().setUp()
        self.mark = f"RUN_TEST_MARK={uuid.uuid4().hex}"
        self.addCleanup(self.kill_left)
        self.rsh = self.folder / "rsh"  # as ssh does: words become a line of a shell
        self.rsh.write_text('#!/bin/sh\nshift\nexec sh -c "$*"\n')
        self.rsh.chmod(0o755)

    def ip(self, *words):
        """Call the command `ip`; where it is not there, or may not do this, the test is skipped."""
        try:
            done = subprocess.run(["ip", *words], capture_output=True, text=True, timeout=tool.LIMIT)
        except FileNotFoundError:
            self.skipTest("there is no program ip")
        if done.returncode:
            self.skipTest("no network namespaces here: " + done.stderr)

    def namespace(self):
        """The name of a network namespace, for the time of the test."""
        name = f"wherry-{uuid.uuid4().hex[:8]}"
        self.ip("netns", "add", name)
        self.addCleanup(subprocess.run, ["ip", "netns", "delete", name], check=False)
        return name

    def kill_left(self):
        for pid in pids_with(self.mark):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def launch(self, *words, stdin=subprocess.DEVNULL, start_new_session=False, **extra):
        words = [*words]
        if "--hosts" in words:
            words = ["--rsh", str(self.rsh), *words]
        process = subprocess.Popen(
            [WHERRY, "run", "--env", self.mark, *words], stdin=stdin, stdout=subprocess.PIPE, start_new_session=start_new_session,
            stderr=subprocess.PIPE, text=True, errors="replace", cwd=self.folder,
            env=tool.environment({"PMI_PORT": "nowhere:1", "PMIX_RANK": "7", **extra}))
        self.running.append(process)
        return process

    def check_nothing_left(self):
        self.assertEqual(pids_with(self.mark), [])

    def job(self, code, *words, **extra):
        """Run a job to its end; return (output, errors)."""
        result = self.finish(self.launch(*words, **extra), code)
        self.check_nothing_left()
        return result

    def ranks(self, count):
        """The processes of a job that write their ids into files, once all are there: {rank: pid}."""
        def there():
            return [p for p in self.folder.glob("pid.*") if p.read_text().endswith("\n")]
        self.assertTrue(wait_for(lambda: len(there()) == count), "the processes have not begun")
        return {int(path.suffix[1:]): int(path.read_text()) for path in there()}
