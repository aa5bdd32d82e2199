# SPDX-License-Identifier: BSD-3-Clause
"""What the programs that try wheels share."""
import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent


class Failure(Exception):
    """What did not hold."""


class NoTools(Exception):
    """There is nothing to build with."""


def demand(truth, text):
    if not truth:
        raise Failure(text)


def run(*command, failure=Failure, **how):
    done = subprocess.run([str(word) for word in command], text=True, capture_output=True,
                          stdin=subprocess.DEVNULL, **how)
    if done.returncode != 0:
        tail = "\n".join((done.stdout + done.stderr).strip().splitlines()[-15:])
        raise failure(f"{' '.join(map(str, command[:6]))} ...\n{tail}")
    return done.stdout


def clean(*more):
    """The environment, without what leads to another package than the one that is tried."""
    return {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "WHERRY", *more))}
