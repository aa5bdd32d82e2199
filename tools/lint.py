#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Run the static checks and close with one line: N passed, N failed, N skipped.

    lint.py BUILD_CLANG [CHECK...]     (format, spdx, includes, circles, api, abi, plain, tidy; all without a name)

BUILD_CLANG is a configured folder made by clang; its compile database drives clang-tidy.  build-plain beside it
was built without UCX and whatever else is optional (`make lint` does both).
"""
import concurrent.futures
import json
import os
import pathlib
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = pathlib.Path(sys.argv[1]).resolve()


def run(*command):
    """Run a command; return (worked, what it said)."""
    try:
        done = subprocess.run([str(word) for word in command], cwd=ROOT, text=True,
                              errors="replace", stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    except FileNotFoundError as error:
        return False, str(error)
    return done.returncode == 0, done.stdout


def sources():
    """All C files that git knows or would take (without git: that are not in a build folder)."""
    worked, said = run("git", "ls-files", "-co", "--exclude-standard", "*.c", "*.h")
    if worked:
        files = [ROOT / name for name in said.splitlines()]
    else:
        files = [path for path in ROOT.rglob("*.[ch]")
                 if not path.relative_to(ROOT).parts[0].startswith(("build", "."))]
    return sorted(path for path in files if path.exists())


def check_format():
    """Name the files that clang-format would change, and the command that does it."""
    worked, said = run("clang-format", "--dry-run", "-Werror", *sources())
    bad = sorted({line.split(":")[0] for line in said.splitlines() if ": error: " in line})
    bad = [os.path.relpath(path, ROOT) for path in bad]
    return worked, f"clang-format -i {' '.join(bad)}" if bad else said


def check_spdx():
    want = "// SPDX-License-Identifier: BSD-3-Clause"
    bad = [path for path in sources() if path.read_text().split("\n", 1)[0] != want]
    return not bad, "".join(f"{path.relative_to(ROOT)}:1: begin with {want}\n" for path in bad)


def check_includes():
    return run(sys.executable, "tools/check_deps.py")


def check_circles():
    return run(sys.executable, "tools/check_circles.py", BUILD)


def check_api():
    return run(sys.executable, "tools/check_api.py", "--library", BUILD / "libwherry.so")


def check_abi():
    worked, said = run(sys.executable, "tools/check_abi.py")
    return (None if said.startswith("skipped: ") else worked), said


def check_plain():
    """A build without the headers of UCX works, and says what it lacks."""
    return run(*shlex.split(os.environ.get("MESON", "meson")), "test", "-C", ROOT / "build-plain",
               "--no-rebuild", "--print-errorlogs", "cli-ucx", "cli-usage", "conformance-shm-adaptive",
               "conformance-stream-adaptive")


def check_tidy():
    """One clang-tidy per file, as many at once as there are processors."""
    database = json.loads((BUILD / "compile_commands.json").read_text())
    # What the build writes (the Python module) is not ours to correct.
    # Tests are left to the compilers and sanitizers: following their checks takes the analyzer most of
    # its time and finds only what they provoke on purpose.
    left_out = {ROOT / "tests", BUILD}
    files = sorted({path for row in database
                    if not (path := (pathlib.Path(row["directory"]) / row["file"]).resolve())
                    .stem.endswith(("_test", "_tests")) and left_out.isdisjoint(path.parents)})

    # The analyzer follows the paths of a function up to 225,000 steps by default; the last two thirds take half of all the time.
    less = [f"--extra-arg={word}" for word in ("-Xclang", "-analyzer-config", "-Xclang", "max-nodes=75000")]

    def tidy(path):
        return run("clang-tidy", "--quiet", "-p", BUILD, *less, path)

    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        results = list(pool.map(tidy, files))
    # Without a complaint clang-tidy still counts the warnings of system headers: not shown.
    return all(worked for worked, _ in results), "".join(said for ok, said in results if not ok)


def main():
    checks = {name[6:]: check for name, check in globals().items() if name.startswith("check_")}
    wanted = sys.argv[2:] or list(checks)
    results = []
    for name in wanted:
        worked, said = checks[name]()  # None: it could not be tried
        results.append(worked)
        if not worked:
            print(said.rstrip())
        print(f"lint {name}: {'ok' if worked else 'skipped' if worked is None else 'FAILED'}",
              flush=True)
    failed, skipped = results.count(False), results.count(None)
    print(f"\n{len(wanted) - failed - skipped} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
