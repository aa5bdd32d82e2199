#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Run distributed's own tests over Wherry, beside the same tests over its TCP.

    tools/dask_own_tests.py PYTHON TESTS comms [--scheme ucx] [ARGUMENT OF PYTEST]...
    tools/dask_own_tests.py PYTHON TESTS client worker scheduler [ARGUMENT OF PYTEST]...

PYTHON has wherry, distributed, pytest, pytest-timeout and pytest-rerunfailures.  TESTS is the folder `distributed` of
the sources, or of Debian's package, which has the tests, too: those on PyPI do not.

`comms` runs the checks of any comm with each tcp:// in their text replaced by the scheme; of the rest named, Wherry
is registered as tcp, in the processes that they start, too.  Every test that ends otherwise than over TCP is
listed.  Exit code 1 when there is one.
"""
import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml

# What distributed's own conftest.py does that its tests need; the sources have it outside of the folder.
CONFTEST = """
import pytest
import distributed.utils_test
from distributed.utils_test import *

distributed.utils_test.certs_dir = "TESTS"  # which an installed package lacks

def pytest_collection_modifyitems(items):
    for item in items:
        if "slow" in item.keywords or "avoid_ci" in item.keywords or "gpu" in item.keywords:
            item.add_marker(pytest.mark.skip(reason="slow"))
"""

# In each Python process of a run over Wherry.  Their tests expect no preloads but their own.
REPLACE_TCP = """
import dask, wherry.dask
from distributed.comm import registry
registry.backends["tcp"] = wherry.dask.WherryBackend("tcp")
for who in ("scheduler", "worker", "nanny"):
    dask.config.set({f"distributed.{who}.preload": [], f"distributed.{who}.preload-argv": []})
"""

# The names of distributed.comm.tcp that the checks of any comm make things of.
AS_TCP = """
from functools import partial
from wherry.dask._comm import WherryBackend, WherryComm as TCP, WherryConnector, WherryListener
PREFIX = "SCHEME://"
TCPListener = partial(WherryListener, PREFIX)

class TCPConnector(WherryConnector):
    def __init__(self):
        super().__init__(PREFIX)

class TCPBackend(WherryBackend):
    _connector_class = TCPConnector
    def __init__(self):
        super().__init__("SCHEME")
    def get_connector(self):
        return self._connector_class()

TLSBackend = TCPBackend
"""


def outcomes(python, folder, names, extra, **variables):
    """What became of each test: its name -> "passed", "skipped" or the first line of what went wrong."""
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **variables}
    report = folder / "report.xml"
    report.unlink(missing_ok=True)
    subprocess.run([python, "-W", "ignore", "-m", "pytest", "-q", "--tb=line", "-p", "no:cacheprovider",
                    "-p", "no:asyncio", "--timeout=60", "--timeout-method=signal", f"--junitxml={report}",
                    *extra, *names], cwd=folder, env=env, stdin=subprocess.DEVNULL)
    found = {}
    for case in xml.parse(report).iter("testcase"):
        bad = [case.find(kind) for kind in ("failure", "error") if case.find(kind) is not None]
        found[f"{case.get('classname')}::{case.get('name')}"] = (
            (bad[0].get("message") or "?").splitlines()[0] if bad
            else "skipped" if case.find("skipped") is not None else "passed")
    return found


def count(name, found):
    passed, skipped = (list(found.values()).count(word) for word in ("passed", "skipped"))
    print(f"{name}: {passed} passed, {len(found) - passed - skipped} failed, {skipped} skipped", flush=True)


def compare(tcp, ours, name):
    count("tcp", tcp)
    count(name, ours)
    different = [test for test in sorted(ours) if "passed" in (tcp.get(test), ours[test])
                 and tcp.get(test) != ours[test]]
    for test in different:
        print(f"  {test}\n    tcp: {tcp.get(test, 'not there')}\n    {name}: {ours[test]}")
    return bool(different)


def comms(python, tests, folder, scheme, extra):
    text = (tests / "comm" / "tests" / "test_comms.py").read_text()
    (folder / "test_comms.py").write_text(text)
    extra = ["-k", "not tls and not inproc and not ucx and not asyncio and not uds and not entrypoint", *extra]
    tcp = outcomes(python, folder, ["test_comms.py"], extra)
    (folder / "as_tcp.py").write_text(AS_TCP.replace("SCHEME", scheme))
    text = text.replace("tcp://", scheme + "://").replace("import distributed.comm.tcp as tcp", "import as_tcp as tcp")
    (folder / "test_comms.py").write_text(text.replace('backends, "tcp"', f'backends, "{scheme}"'))
    return compare(tcp, outcomes(python, folder, ["test_comms.py"], extra), scheme)


def files(python, tests, folder, names, extra):
    shutil.copytree(tests / "tests", folder / "tests", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "tcp").mkdir()
    (folder / "tcp" / "sitecustomize.py").write_text(REPLACE_TCP)
    path = os.pathsep.join([str(folder / "tcp"), os.environ.get("PYTHONPATH", "")])
    different = False
    for name in names:
        tcp = outcomes(python, folder, [f"tests/test_{name}.py"], extra)
        ours = outcomes(python, folder, [f"tests/test_{name}.py"], extra, PYTHONPATH=path)
        different |= compare(tcp, ours, f"wherry, {name}")
    return different


def main():
    parser = argparse.ArgumentParser(prog="tools/dask_own_tests.py", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("python", type=lambda path: os.path.abspath(path))
    parser.add_argument("tests", type=pathlib.Path)
    parser.add_argument("name", nargs="+", help="comms, or of test_NAME.py")
    parser.add_argument("--scheme", default="wherry")
    how, extra = parser.parse_known_args()
    with tempfile.TemporaryDirectory(prefix="dask-own-") as folder:
        folder = pathlib.Path(folder)
        (folder / "conftest.py").write_text(CONFTEST.replace("TESTS", str(how.tests.resolve() / "tests")))
        if how.name == ["comms"]:
            return comms(how.python, how.tests, folder, how.scheme, extra)
        return files(how.python, how.tests, folder, how.name, extra)


if __name__ == "__main__":
    sys.exit(main())
