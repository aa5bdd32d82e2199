#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""All that concerns GPUs, on a machine that has one: tests, compute-sanitizer, and tables of figures.

    gpu.py BUILD [--driver FOLDER] [--tests REGEX] [--sizes LIST] [--time SECONDS] [--no-sanitizer] [--only-device]

First come the tests over the test driver (tests/cuda), everywhere.  Without a GPU that is all, and it
says so.  With one the same programs run over the real driver, then under compute-sanitizer if that is
installed; then come latency and bandwidth of device memory, direct and through host memory, and of
layouts, beside what the driver's own copies take on this machine.

--driver FOLDER takes the libcuda.so.1 there for the real one: to try this program without a GPU.
--only-device leaves the tests over the test driver out.
"""
import argparse
import ctypes
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

SKIPPED = 77
OVER_CUDA = re.compile(r"^(mem-cuda|mem-device|engine-cuda|engine-device|conformance-cuda|cuda-order|python-cuda|python-streams"
                       r"|cli-cuda|type-device|mpi-device|mpi-buffers-cuda|mpi-beside-cuda|example-jacobi3d-.*-cuda)")
# About drivers that fail, or are not there: only the test driver can be told to.
NOT_REAL = re.compile(r"^(mem-cuda-(none|old|driver|errors|no-ipc)|type-device-(program|special)|cuda-order|cli-cuda)")
SANITIZED = re.compile(r"^(mem-cuda|mem-cuda-stream|engine-cuda|conformance-cuda-(shm|stream))$")
SIZES = "8,64,512,4K,32K,256K,2M,16M,64M"
LAYOUTS = "dense,vector,vector:512:1024,subarray,struct,indexed,transposed"
COPY_BYTES, COPIES = 64 << 20, 20


def tests_of(build):
    """Meson's tests over CUDA: name -> command and environment."""
    told = subprocess.run([*os.environ.get("MESON", "meson").split(), "introspect", "--tests", str(build)], check=True,
                          capture_output=True, text=True).stdout
    return {test["name"]: test for test in json.loads(told)
            if OVER_CUDA.match(test["name"]) and not {"soak", "bench"} & {each.split(":")[-1] for each in test["suite"]}}


def over_test_driver(build, wanted):
    names = [name for name in tests_of(build) if wanted.search(name)]
    print(f"== {len(names)} tests over the test driver", flush=True)
    if not names:  # without names Meson runs all that there are
        print(f"no test of device memory has {wanted.pattern!r} in its name")
        return False
    meson = os.environ.get("MESON", "meson").split()
    return subprocess.run([*meson, "test", "-C", str(build), "--no-rebuild", "--print-errorlogs", *names]).returncode == 0


def real_environment(test, build, driver):
    """A test's environment, without the test driver: what else is in the path of libraries stays."""
    environment = {**os.environ, **test.get("env", {})}
    folders = [each for each in environment.get("LD_LIBRARY_PATH", "").split(":")
               if each and pathlib.Path(each).resolve() != (build / "tests" / "cuda").resolve()]
    if driver:
        folders.insert(0, driver)
    environment["LD_LIBRARY_PATH"] = ":".join(folders)
    return {key: value for key, value in environment.items() if not key.startswith("CUTEST_")}


def run_test(name, build, command, environment, limit_s):
    start = time.monotonic()
    try:
        done = subprocess.run(command, cwd=build, env=environment, capture_output=True, text=True, errors="replace",
                              timeout=limit_s)
        status, text = done.returncode, done.stdout + done.stderr
    except subprocess.TimeoutExpired as error:
        status, text = -1, f"not over within {limit_s} s\n{error.stdout or ''}{error.stderr or ''}"
    word = {0: "ok", SKIPPED: "skipped"}.get(status, "FAILED")
    print(f"  {word:8}{name}, {time.monotonic() - start:.1f} s", flush=True)
    if word == "FAILED":
        print("    " + "\n    ".join(text.splitlines()[-30:]), flush=True)
    return word != "FAILED"


def over_device(build, wanted, driver):
    print("== the same tests over the device", flush=True)
    return all([run_test(name, build, test["cmd"], real_environment(test, build, driver), 4 * test["timeout"])
                for name, test in tests_of(build).items() if wanted.search(name) and not NOT_REAL.match(name)])


def under_sanitizer(build, wanted):
    tool = shutil.which("compute-sanitizer") or shutil.which("compute-sanitizer", path="/usr/local/cuda/bin")
    if not tool:
        print("== compute-sanitizer: not installed (it comes with the CUDA toolkit)")
        return True
    print(f"== under {tool}", flush=True)
    return all([run_test(name, build, [tool, "--error-exitcode", "9", "--target-processes", "all", *test["cmd"]],
                         real_environment(test, build, None), 20 * test["timeout"])
                for name, test in tests_of(build).items() if wanted.search(name) and SANITIZED.match(name)])


def perf(build, environment, arguments):
    done = subprocess.run([build / "wherry", "perf", "tag", "--json", *arguments], env=environment,
                          stdout=subprocess.PIPE, text=True)
    if done.returncode:
        print(f"  wherry perf {' '.join(arguments)}: exit {done.returncode}")
        return []
    return json.loads(done.stdout)


def table(title, columns, rows):
    print(f"== {title}")
    widths = [max(len(str(row[i])) for row in [columns, *rows]) for i in range(len(columns))]
    for row in [columns, *rows]:
        print("  " + "  ".join(str(cell).rjust(width) for cell, width in zip(row, widths)))
    sys.stdout.flush()


def size_text(size):
    for bits, letter in (30, "G"), (20, "M"), (10, "K"):
        if size >> bits and size % (1 << bits) == 0:
            return f"{size >> bits}{letter}"
    return str(size)


def transfers(build, environment, sizes, arguments):
    """Direct against staged, in one table."""
    found = {(row["size"], row["metric"], row["memory"]): row["median"]
             for row in perf(build, environment, ["--memory", "cuda,cuda-staged", "--sizes", sizes, "--metric",
                                                  "latency,bandwidth", *arguments])}
    rows = []
    for size in sorted({size for size, _, _ in found}):
        figures = [found.get((size, metric, memory)) for metric in ("latency", "bandwidth")
                   for memory in ("cuda", "cuda-staged")]
        rows.append([size_text(size), *(f"{each:.3g}" if each is not None else "-" for each in figures)])
    table("device memory between two processes: as it goes by itself, and through host memory (staged)",
          ["size", "latency us", "staged", "GB/s", "staged"], rows)
    return bool(rows)


class Copies:
    """The driver's own copies, timed on this machine."""

    def __init__(self, driver):
        self.cuda = ctypes.CDLL(f"{driver}/libcuda.so.1" if driver else "libcuda.so.1")
        context = ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self.call("cuCtxPushCurrent_v2", context)
        self.stream = ctypes.c_void_p()
        self.call("cuStreamCreate", ctypes.byref(self.stream), 1)
        self.device = [ctypes.c_ulonglong() for _ in range(2)]
        for each in self.device:
            self.call("cuMemAlloc_v2", ctypes.byref(each), ctypes.c_size_t(COPY_BYTES))
        pinned = ctypes.c_void_p()
        self.call("cuMemHostAlloc", ctypes.byref(pinned), ctypes.c_size_t(COPY_BYTES), 1)
        self.host = ctypes.c_ulonglong(pinned.value)

    def call(self, entry, *arguments):
        result = getattr(self.cuda, entry)(*arguments)
        if result:
            sys.exit(f"gpu.py: {entry} failed with {result}")

    def rate(self, to, source):
        """10^9 bytes a second, the best of some."""
        best = 0
        for _ in range(COPIES):
            start = time.perf_counter()
            self.call("cuMemcpyAsync", to, source, ctypes.c_size_t(COPY_BYTES), self.stream)
            self.call("cuStreamSynchronize", self.stream)
            best = max(best, COPY_BYTES / (time.perf_counter() - start) / 1e9)
        return best

    def rates(self):
        one, two = self.device
        return {"within the device": self.rate(one, two), "to the host": self.rate(self.host, one),
                "from the host": self.rate(one, self.host)}


def layouts(build, environment, size, copies, arguments):
    """The bandwidth of messages with a layout, beside dense ones and the device's own copies."""
    rows = perf(build, environment, ["--memory", "cuda", "--sizes", size, "--metric", "bandwidth", "--layout", LAYOUTS, *arguments])
    dense = next((row["median"] for row in rows if row["layout"] == "dense"), None)
    within = copies["within the device"]
    table(f"messages of {size} with a layout at both ends: GB/s, and parts of a dense one and of a copy on the device",
          ["layout", "GB/s", "of dense", "of copy"],
          [[row["layout"], f"{row['median']:.3f}", f"{row['median'] / dense:.2f}" if dense else "-",
            f"{row['median'] / within:.3f}"] for row in rows])
    return bool(rows)


def cuda_of(build, environment):
    told = json.loads(subprocess.run([build / "wherry", "info", "--json"], env=environment, check=True,
                                     capture_output=True, text=True).stdout)
    return next(kind for kind in told["memory"] if kind["name"] == "cuda")


def main():
    parser = argparse.ArgumentParser(prog="gpu.py", description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--driver", metavar="FOLDER")
    parser.add_argument("--tests", type=re.compile, default=re.compile(""), metavar="REGEX")
    parser.add_argument("--sizes", default=SIZES)
    parser.add_argument("--layout-size", default="4M")
    parser.add_argument("--time", default="0.5", help="seconds for each figure")
    parser.add_argument("--no-sanitizer", action="store_true")
    parser.add_argument("--only-device", action="store_true")
    options = parser.parse_args()
    build = options.build.resolve()

    good = options.only_device or over_test_driver(build, options.tests)
    environment = real_environment({}, build, options.driver)
    cuda = cuda_of(build, environment)
    if not cuda["usable"]:
        print(f"No GPU here: {cuda['reason']}.  What runs over the test driver has run; the rest needs a device.")
        return not good
    print(f"GPU: {cuda['reason']}")
    good &= over_device(build, options.tests, options.driver)
    if not options.no_sanitizer:
        good &= under_sanitizer(build, options.tests)
    copies = Copies(options.driver).rates()
    table(f"copies of {COPY_BYTES >> 20} MiB by the driver", ["copy", "GB/s"],
          [[name, f"{rate:.1f}"] for name, rate in copies.items()])
    how = ["--time", options.time]
    good &= transfers(build, environment, options.sizes, how)
    good &= layouts(build, environment, options.layout_size, copies, how)
    print("all is good" if good else "something has FAILED, see above")
    return not good


if __name__ == "__main__":
    sys.exit(main())
