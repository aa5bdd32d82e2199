# SPDX-License-Identifier: BSD-3-Clause
"""Other libraries, measured in the same run: UCXX and mpi4py in virtual environments of their own, and
Wherry's engine without Python, by the command ``wherry perf``.

A peer's processes are started anew for each repetition, so that none of them spins while another is
measured.
"""
import dataclasses
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import venv
from typing import Any, Dict, List, Optional, Sequence, Set, Tuple

import wherry
from wherry.perf.figures import SMALL, Row, hear

HERE = pathlib.Path(__file__).parent
ENGINE = "C engine"
C_BELLS = "eventfd in C"
PATIENCE = 300  # seconds until a peer counts as hung
Cores = Tuple[int, int]  # of the asking and the answering process; -1: any


@dataclasses.dataclass(frozen=True)
class Kind:
    packages: Tuple[str, ...]
    size: str  # of what is installed, for who must wait for it


KINDS: Dict[str, Kind] = {
    "mpi4py": Kind(("mpi4py", "mpich"), "about 85 MB"),
    "ucxx": Kind(("ucxx-cu13",), "about 350 MB, with much of CUDA"),
}


class Unavailable(Exception):
    """A peer that cannot be measured here; the text says why."""


def default_folder() -> pathlib.Path:
    cache = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(cache, "wherry", "peers")


def plain_environment() -> Dict[str, str]:
    """For interpreters of other environments: nothing of ours."""
    return {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}


class Beside:
    """What can be measured beside Wherry: on which cores, how often, with which sizes.

    allowed: the cores that this process might use before it was pinned, which its children inherit.
    """

    def __init__(self, cores: Cores, allowed: Set[int], rounds: int, sizes: Sequence[int],
                 folder: pathlib.Path) -> None:
        self.cores, self.allowed, self.rounds, self.sizes = cores, allowed, rounds, sizes
        self.folder = folder

    def start(self, command: Sequence[Any]) -> "subprocess.Popen[str]":
        def free() -> None:
            os.sched_setaffinity(0, self.allowed)
        return subprocess.Popen(list(map(str, command)), stdin=subprocess.DEVNULL, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=free,
                                env=plain_environment(), start_new_session=True)

    def run(self, command: Sequence[Any]) -> str:
        """What a program prints; Unavailable when it fails or hangs."""
        try:
            process = self.start(command)
        except OSError as error:
            raise Unavailable(str(error)) from None
        try:
            out, err = process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            end(process)
            raise Unavailable(f"{command[0]} hung for {PATIENCE} s") from None
        if process.returncode != 0:
            said = " ".join((err or out).strip().splitlines()[-3:])
            raise Unavailable(f"{command[0]} ended with {process.returncode}: {said}")
        return out

    def rows_of(self, command: Sequence[Any]) -> List[Row]:
        try:
            return hear(self.run(command))
        except ValueError:
            raise Unavailable(f"{command[0]} has not said what it measured") from None

    def install(self, name: str) -> None:
        """Fetches a peer from PyPI, unless it is there."""
        kind, home = KINDS[name], self.folder / name
        if (home / "complete").exists():
            return
        print(f"installing {' and '.join(kind.packages)} from PyPI into {home}: {kind.size}",
              file=sys.stderr)
        try:
            venv.create(home, with_pip=True, clear=True)
            subprocess.run([home / "bin" / "python", "-m", "pip", "install", "--quiet",
                            *kind.packages], check=True, env=plain_environment())
        except (OSError, subprocess.CalledProcessError) as error:
            raise Unavailable(f"{name} cannot be installed: {error}") from None
        (home / "complete").touch()

    def mpi4py(self) -> List[Row]:
        home = self.folder / "mpi4py" / "bin"
        return self.rows_of([home / "mpiexec", "-n", 2, home / "python", HERE / "peer_mpi4py.py",
                             *self.cores, self.rounds, *self.sizes])

    def ucxx(self) -> List[Row]:
        python, program = self.folder / "ucxx" / "bin" / "python", HERE / "peer_ucxx.py"
        server = self.start([python, program, "serve", self.cores[1]])
        try:
            assert server.stdout is not None and server.stderr is not None
            port = server.stdout.readline().strip()
            if not port:
                raise Unavailable(f"UCXX does not start: {server.stderr.read().strip()[-300:]}")
            return self.rows_of([python, program, port, self.cores[0], self.rounds, *self.sizes])
        finally:
            end(server)

    def perf(self, command: str, *words: Any) -> List[Dict[str, Any]]:
        """The rows of one repetition of the command ``wherry perf tag``."""
        pin = ["--pin", ",".join(map(str, self.cores))] if min(self.cores) >= 0 else []
        return list(json.loads(self.run([command, "perf", "tag", "--lane", "shm", "--json", "--reps",
                                         1, "--time", 0.1, *pin, *words])))

    def engine(self, command: str) -> List[Row]:
        """The engine stands beside both ways of using it from Python."""
        rows = self.perf(command, "--metric", "latency,bandwidth,rate", "--sizes",
                         ",".join(map(str, self.sizes)))
        return [Row(test, row["metric"], row["size"], row["median"], row["p99"], row["min"], ENGINE,
                    row["lane"], row["mode"])
                for row in rows if row["metric"] != "rate" or row["size"] <= SMALL
                for test in ("async", "blocking")]

    def bells(self, command: str) -> List[Row]:
        """The engine and bare eventfds, both in C and both asleep between messages."""
        row, = self.perf(command, "--mode", "wait", "--raw", "--metric", "latency", "--sizes", 8)
        return [Row("asleep", "latency", 8, row["median"], row["p99"], row["min"], ENGINE,
                    row["lane"], row["mode"]),
                Row("asleep", "latency", 8, row["raw"], peer=C_BELLS)]


def end(process: "subprocess.Popen[str]") -> None:
    """Kills a program that we started, and what it started."""
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def find_command() -> Optional[str]:
    """The command `wherry`: that of the folder which this package was built in, or in the PATH."""
    built = pathlib.Path(wherry.__file__).parents[2] / "wherry"
    return str(built) if built.is_file() else shutil.which("wherry")
