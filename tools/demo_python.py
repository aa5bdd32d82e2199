# SPDX-License-Identifier: BSD-3-Clause
"""The Python part of the demo: a server and clients exchange files as numpy arrays; then the figures."""
import json
import subprocess
import time

from demo_kit import BUILD, ROOT, demand, expect, first_line, heading, say, start

PYTHON = ROOT / ".venv" / "bin" / "python"
ARRAYS = ROOT / "examples" / "python" / "arrays.py"
CLIENTS = 4
PICTURE = BUILD / "demo-python.svg"
# Seconds, not minutes: the figures are a taste, `python -m wherry.perf` alone measures longer.
PERF = ["--rounds", 1000, "--seconds", 0.1, "--tasks", 20, "--json"]
FETCH_SECONDS = 120


def can(program):
    return PYTHON.exists() and subprocess.run([PYTHON, "-c", program], capture_output=True).returncode == 0


def share_out(files):
    """Files for each client, of about the same number of bytes; empty ones are no arrays."""
    shares, load = [[] for _ in range(CLIENTS)], [0] * CLIENTS
    for path in sorted(files, key=lambda path: (-path.stat().st_size, path)):
        size = path.stat().st_size
        if size > 0:
            least = load.index(min(load))
            shares[least].append(path)
            load[least] += size
    return [share for share in shares if share], sum(load)


def exchange(files):
    shares, total = share_out(files)
    server = start(PYTHON, ARRAYS, "serve", len(shares))
    port = first_line(server)
    begin = time.monotonic()
    clients = [start(PYTHON, ARRAYS, "send", port, *share) for share in shares]
    for number, client in enumerate(clients, 1):
        out, _ = expect(client, 0)
        say(f"client {number}: {out.strip()}")
    out, _ = expect(server, 0)
    seconds = time.monotonic() - begin
    demand(int(out.split()[0]) == total, f"the server has seen {out.split()[0]} of {total} bytes")
    say(f"each array came back as its complement and was compared: 2 x {total / 1e6:.0f} MB in "
        f"{seconds:.1f} s, with the start of {len(shares)} interpreters")


def fetch_matplotlib():
    """Whether it is there, or could be had."""
    if can("import matplotlib"):
        return True
    say("fetching matplotlib from PyPI into .venv, for the picture")
    try:
        done = subprocess.run([PYTHON, "-m", "pip", "install", "--quiet", "matplotlib"],
                              capture_output=True, timeout=FETCH_SECONDS)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def measure():
    picture = fetch_matplotlib()
    process = start(PYTHON, "-m", "wherry.perf", *PERF, *(["--plot", PICTURE] if picture else []))
    out, _ = expect(process, 0)
    rows = {(row["test"], row["metric"], row["size"], row["peer"]): row["median"]
            for row in json.loads(out)}
    print(f"   {'':24}{'8 B latency':>14}{'1 MiB messages':>18}")
    for name, peer in (("wherry, from Python", None), ("wherry's engine, from C", "C engine"),
                       ("asyncio's streams", "asyncio streams")):
        latency = rows.get(("async", "latency", 8, peer))
        bandwidth = rows.get(("async", "bandwidth", 1 << 20, peer))
        if latency and bandwidth:
            print(f"   {name:24}{latency:11.2f} us{bandwidth:13.2f} GB/s")
    say(f"the picture: {PICTURE}" if picture else
        "no picture: matplotlib is not there, and PyPI cannot be reached")


def tour(files):
    heading(f"from Python: a server and {CLIENTS} clients exchange the files as numpy arrays")
    if not can("import wherry, numpy"):
        say("left out: .venv has no wherry or no numpy; `make build` says why")
        return
    exchange(files)
    heading("from Python: half a round trip, and messages in one direction")
    measure()
