#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Run a server and its clients, which must all end well.

    run_pair.py CLIENTS CLIENT SERVER [ARGUMENT...]

The server prints "listening on port N"; CLIENTS processes are then started with 127.0.0.1:N.
"""
import subprocess
import sys

TIMEOUT_S = 50


def main():
    count, client, server = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
    processes = [subprocess.Popen(server, stdout=subprocess.PIPE, text=True)]
    try:
        line = processes[0].stdout.readline()
        if not line.startswith("listening on port "):
            print(f"the server says {line!r}")
            return 1
        address = f"127.0.0.1:{int(line.split()[-1])}"
        processes += [subprocess.Popen([client, address], stdout=subprocess.PIPE, text=True)
                      for _ in range(count)]
        said = [process.communicate(timeout=TIMEOUT_S)[0] for process in processes]
    except subprocess.TimeoutExpired as error:
        print(f"no end after {TIMEOUT_S} s: {error.cmd}")
        return 1
    finally:
        for process in processes:
            process.kill()
            process.wait()
    print(line + "\n".join(said))
    failed = [process.args[0] for process in processes if process.returncode != 0]
    print("\n".join(f"failed: {name}" for name in failed))
    return 1 if failed or not all(said) else 0


if __name__ == "__main__":
    sys.exit(main())
