# SPDX-License-Identifier: BSD-3-Clause
"""What the parts of the demo share: where things are, processes that are ended, what is shown."""
import os
import pathlib
import subprocess
import threading

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / os.environ.get("BUILD", "build")
WHERRY = BUILD / "wherry"
PATIENCE = 60  # seconds until a process counts as hung


class Failure(Exception):
    """A step that did not hold; the text says what."""


running = []  # what finish_all has to end if a step fails


def start(*command):
    """Start a process that leads to pipes; it is ended when the tour ends."""
    process = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, errors="replace")
    running.append(process)
    return process


def finish(process):
    """Wait for a process; return (exit code, output, errors)."""
    try:
        out, err = process.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        raise Failure(f"{' '.join(process.args[:2])} hung for {PATIENCE} s") from None
    running.remove(process)
    return process.returncode, out, err


def finish_all():
    for process in running:
        process.kill()
        process.wait()


def first_line(process):
    """The first line of output, but not after PATIENCE."""
    timer = threading.Timer(PATIENCE, process.kill)
    timer.start()
    line = process.stdout.readline()
    timer.cancel()
    if not line:
        raise Failure(f"{process.args[0]} did not come up: {process.stderr.read().strip()}")
    return line.strip()


def demand(truth, text):
    if not truth:
        raise Failure(text)


def heading(text):
    print(f"\n== {text}", flush=True)


def say(text):
    print(f"   {text}", flush=True)


def expect(process, code):
    got, out, err = finish(process)
    demand(got == code, f"{' '.join(process.args[:2])} ended with {got}, not {code}: {err.strip()}")
    return out, err
