# SPDX-License-Identifier: BSD-3-Clause
"""A client without asyncio, for echo_server.py: `blocking_client.py PORT [HOST]`."""
import sys
import time

import wherry

host = sys.argv[2] if len(sys.argv) > 2 else "127.0.0.1"
with wherry.connect(host, int(sys.argv[1])).result(timeout=10) as ep:
    buf = bytearray(8)
    start = time.perf_counter()
    for i in range(1000):
        ep.send(i.to_bytes(8, "little")).result()
        ep.recv(buf).result(timeout=10)
        assert int.from_bytes(buf, "little") == i
    micros = (time.perf_counter() - start) / 1000 * 1e6
    print(f"{ep.peer} answers in {micros:.1f} us over {ep.lanes}")
    try:
        ep.recv(buf).result(timeout=0.1)
    except wherry.TimedOutError as error:
        print(error)
