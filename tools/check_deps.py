#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Check who includes whom, over the whole tree, against the table below.

Prints `file:line: why` for every violation and exits 1 if there is one.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

# A part sees itself, the public headers, and what stands here.  Within src/net no lane (a folder)
# sees another one.
LOW = ["src/base", "src/mem", "src/type", "src/net"]
ROOMS = ["src/worker", "src/link", "src/message", "src/rma"]
MPI_LOW = ["src/mpi/base", "src/base/test.h"]  # that in tests only
MPI = [*MPI_LOW, "src/mpi/type", "src/mpi/env", "src/mpi/comm", "src/mpi/p2p"]
SEES = {
    "src/base": [],
    "src/mem": ["src/base"],
    "src/type": ["src/base", "src/mem"],
    "src/net": ["src/base", "src/mem"],
    "src/worker": LOW,
    "src/link": [*LOW, "src/worker"],
    "src/message": [*LOW, "src/worker", "src/link"],
    "src/rma": [*LOW, "src/worker", "src/link", "src/message"],
    "src/engine": ROOMS,
    "src/rt": ["src/base"],
    # MPI's floors, each of which sees those below: objects that others have, their communicators, messages, what is made of them.
    "src/mpi/base": ["src/base/test.h"],
    "src/mpi": MPI_LOW,
    "src/mpi/type": MPI_LOW,
    "src/mpi/env": MPI_LOW,
    "src/mpi/comm/group.h": MPI_LOW,
    "src/mpi/comm/comm.h": [*MPI_LOW, "src/mpi/comm/group.h"],
    "src/mpi/comm/context.h": MPI_LOW,
    "src/mpi/p2p": [*MPI_LOW, "src/mpi/type", "src/mpi/comm/comm.h", "src/mpi/comm/context.h",
                    "src/mpi/comm/session.h"],
    "src/mpi/comm": MPI,
    "src/mpi/coll": MPI,
    "src/mpi/topo": MPI,
    "src/mpi/rma": MPI,
    "src/mpi/io": MPI,
    "src/mpi/mpix": [],
    "src/mpi/vp": [*MPI, "src/mpi/mpix"],
    "src/mpi/front": MPI,
    # Start and end, and what concerns objects of several floors.
    "src/mpi/env/begin.c": MPI,
    "src/mpi/env/init.c": MPI,
    "src/mpi/env/raise.c": MPI,
    "src/mpi/env/attributes.c": MPI,
    "src/mpi/env/dump.c": MPI,
    "bench": [],
    "cli": [],
    # `wherry perf` runs the measuring library's scenarios, and what is compared with it its sockets;
    # `wherry info` describes the machine as the reports of measurements do.
    "cli/perf.h": ["cli", "bench"],
    "cli/perf.c": ["cli", "bench"],
    "cli/perf_model.c": ["cli", "bench"],
    "cli/perf_serve.c": ["cli", "bench"],
    "cli/perf_words.c": ["cli", "bench"],
    "cli/plain_files.c": ["cli", "bench"],
    "cli/info.c": ["cli", "bench"],
    "examples": [],
    "fuzz": [*LOW, *ROOMS],  # decoders
    "fuzz/boot_answers.c": ["src/base", "src/rt"],
    "fuzz/rt_balance.c": ["src/base", "src/rt"],
    "fuzz/rt_channel.c": ["src/base", "src/rt"],
    "fuzz/rt_chares.c": ["src/base", "src/rt"],
    "fuzz/rt_coll.c": ["src/base", "src/rt"],
    "fuzz/rt_control.c": ["src/base", "src/rt"],
    "fuzz/rt_messages.c": ["src/base", "src/rt"],
    "fuzz/mpi_messages.c": [*MPI, "src/mpi/rma"],
    "fuzz/run_frames.c": ["fuzz", "cli"],
    "fuzz/run_pmi.c": ["fuzz", "cli"],
    "fuzz/rt_places.c": ["src/base", "src/rt"],
    "fuzz/rt_reduce.c": ["src/base", "src/rt"],
    "fuzz/rt_section.c": ["src/base", "src/rt"],
    "fuzz/rt_saved.c": ["src/base", "src/rt"],
    "include": [],
    "python": [],
    "python/tests": ["src/base/test.h", "python"],
    "tests": ["src/base/test.h"],  # the frame of the unit tests, and nothing else internal
    # The kernels as C, for the test driver.
    "tests/cuda": ["src/type"],
    # It stands where no user can: it joins two workers by a simulated network.
    "tests/kit_loop.c": ["src/base", "src/net", *ROOMS, "tests"],
    # A process of a job, as the runtime's are.
    "tests/boot_all.c": ["src/base", "src/rt"],
    # Scenarios of the engine from inside, and their kits.
    "tests/engine": [*LOW, *ROOMS],
    "ucd": [],
}
LANE = re.compile(r"src/net/\w+/")
INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')


def part_of(path):
    """The row of the table that a file falls under: the longest."""
    return max((row for row in SEES if within(path, row)), key=len, default=path.split("/")[0])


def within(path, folder):
    return path == folder or path.startswith(folder + "/")


def complaint(source, quote, name):
    """Why `source` must not include `name`, or None."""
    part, folder = part_of(source), source.rpartition("/")[0]
    from_src, beside = f"src/{name}", f"{folder}/{name}"
    if re.match(r"uc[pst]/", name):
        return None if folder == "src/net/ucx" else "only src/net/ucx may include UCX"
    if quote == "<" and not (ROOT / from_src).exists():
        return None  # the system's, or ours and public
    if not name.endswith(".h"):
        return "only headers are included"
    if name.startswith("wherry/"):
        return "public headers are included with <>"
    if part == "include":
        return "a public header includes public headers and the system's only"
    if part.startswith("src/") and (ROOT / beside).exists():
        return f'write it from src/: "{beside[4:]}"'

    target = from_src if (ROOT / from_src).exists() else beside
    if LANE.match(source) and LANE.match(target) and not within(target, folder):
        return f"the lanes do not see each other ({target})"
    if any(within(target, seen) for seen in [part, *SEES[part]]):
        return None
    return f"{part} may not include {name}"


def main():
    bad = count = 0
    for part in sorted({row.split("/")[0] for row in SEES}):
        for path in sorted((ROOT / part).rglob("*.[ch]")):
            source = path.relative_to(ROOT).as_posix()
            count += 1
            for number, line in enumerate(path.read_text().splitlines(), 1):
                match = INCLUDE.match(line)
                why = match and complaint(source, *match.groups())
                if why:
                    bad += 1
                    print(f"{source}:{number}: {why}")
    print(f"includes: {count} files, {bad} violations")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
