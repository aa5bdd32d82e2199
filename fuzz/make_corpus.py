#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Write the seeds of the fuzz targets comm_hello, comm_blob, comm_records and config_env.

    make_corpus.py [FOLDER]     (default: fuzz/corpus)

A seed is a small input that shows the fuzzer what a good one looks like.  Inputs that once broke
something are put beside them by hand, and so are those named found-..., by which a fuzzer reached
code that no seed reaches; neither is ever written here.
"""
import pathlib
import struct
import sys

TAG, OBJECT, AM, WITHDRAW, FLUSH, CLOSE, GRANT, ACK = range(8)
CREDIT, ABORT, FLUSH_ACK, CLOSE_ACK, OPEN, ACCEPT, REFUSE, BYE = range(8, 16)
PUT, GET, ATOMIC, MAP, MAPPED, RMA_ANSWER = range(16, 22)
ANNOUNCED, SYNC, NAMED, ODD_NUMBER, BY_EIGHT = 1, 2, 0x08, 0x10, 0x20
OPENED = bytes([2])  # the first byte of a program: endpoints 1 and 3 are there
OPENS_TOO = bytes([6])  # and the victim is opening 2, with connect data
PROGRESS = bytes([0xff])


def hello(step=1, version=(1, 1), text=b""):
    """A record of the handshake, as docs/wire.md has it."""
    out = b"WHERRY\r\n" + struct.pack("<BBHHH", step, 0, 512, *version)
    out += struct.pack("<IQIi", 0, 0, 3, 0)
    out += bytes(range(16)) + bytes(range(16, 32)) + bytes(32) + bytes(16)
    out += struct.pack("<IIIIIQ", 4711, 1000, 8192, 1 << 20, 0, 1)
    out += b"wherry-00".ljust(48, b"\0") + b"node7".ljust(64, b"\0") + text.ljust(160, b"\0")
    return out.ljust(480, b"\0") + bytes(32)


def blob(addresses):
    out = b"WHB1" + bytes(range(16)) + bytes(16) + b"wherry-00".ljust(48, b"\0")
    out += struct.pack("<QB", 1, len(addresses))
    for family, port in addresses:
        out += struct.pack("<BH", family, port) + bytes([127, 0, 0, 1]).ljust(16, b"\0")
    return out


def number(value):
    return bytes([value]) if value < 0xf0 else b"\xf8" + struct.pack(">Q", value)


def record(cls, ep=1, tag=0, arg=0, flags=0, mode=0, payload=b"", seq=0, aux=0):
    out = bytes([0, cls, flags | mode]) + number(ep) + number(tag) + number(arg)
    if cls in (ATOMIC, RMA_ANSWER):
        out += bytes([aux])
    if not (cls <= CLOSE or PUT <= cls <= ATOMIC) or mode & ODD_NUMBER:
        out += number(seq)
    return out + bytes([len(payload)]) + payload


def announce(cls, send_id, arg, tag=0, more=b""):
    return record(cls, tag=tag, arg=arg, flags=ANNOUNCED,
                  payload=struct.pack("<II", send_id, 0) + more)


def access(cls, memory, offset, name, value, flags=0, aux=0):
    return record(cls, tag=memory, arg=offset, flags=flags, aux=aux,
                  payload=struct.pack("<IIQQ", name, 0, value, 0))


def long(size, ep=1, tag=0):
    """A long message in its turn."""
    return bytes([0x98, ep, tag]) + number(size - 1)


def chunk(grant, segment, offset, size):
    return bytes([0x80, grant, segment]) + number(offset) + number(size)


def user(what, which=0, size=100):
    return bytes([0xa0, what, which]) + number(size)


def envelope(sizes, header=b"head", follow=False):
    out = struct.pack("<HHIQ", 1, 0, len(sizes), len(header))
    for size in sizes:
        out += struct.pack("<QBBHI", size, 1, int(follow), 0, 0)
    return out + header + (b"" if follow else b"".join(b"x" * size for size in sizes))


RECV, RECV_ANY, RECV_OBJECT_ANY, CANCEL, ANSWER, DROP, SEND, SEND_OBJECT, RECV_OBJECT, SEND_AM, \
    DO_FLUSH, DO_ABORT, DO_CLOSE, DO_ACCESS, DO_FENCE = range(15)
HOST, READABLE, DEVICE, LARGE_HOST = range(0x20, 0x24)  # registered memory
ADD8 = 4 << 3

PROGRAMS = {
    "tag": user(RECV) + record(TAG, payload=b"hello") + PROGRESS,
    "tag-kept": record(TAG, payload=b"hello") + PROGRESS + user(RECV_ANY),
    "tag-sync": record(TAG, arg=7, flags=SYNC, payload=b"hello") + PROGRESS + user(RECV),
    "announced": user(RECV) + announce(TAG, 5, 100) + PROGRESS + chunk(0, 0, 0, 100) + PROGRESS,
    "long": user(RECV) + long(100) + PROGRESS,
    "long-kept": long(30000) + PROGRESS + user(RECV) + PROGRESS,
    "long-credit": long(35000) + long(35000) + PROGRESS,
    "long-cut": user(RECV_ANY) + long(30000, ep=3) + long(200) + record(ABORT) + PROGRESS,
    "announced-any": user(RECV_ANY) + announce(TAG, 5, 100) + PROGRESS + chunk(0, 0, 0, 50)
                     + PROGRESS + record(WITHDRAW, tag=5) + PROGRESS,
    "withdrawn": announce(TAG, 5, 100) + PROGRESS + record(WITHDRAW, tag=5) + user(RECV),
    "object": user(RECV_OBJECT) + record(OBJECT, payload=envelope([5, 0, 3])) + PROGRESS,
    "object-announced": user(RECV_OBJECT_ANY)
                        + announce(OBJECT, 5, 52, more=envelope([200, 90], follow=True)) + PROGRESS
                        + user(ANSWER) + chunk(0, 1, 0, 200) + chunk(0, 2, 0, 90) + PROGRESS,
    "object-head": user(RECV_OBJECT) + announce(OBJECT, 5, 52) + PROGRESS + chunk(0, 0, 0, 52)
                   + PROGRESS,
    "am": record(AM, tag=2, payload=b"hhdata") + PROGRESS,
    "am-kept": record(AM, mode=4 << 0, tag=2, payload=b"hhdata") + PROGRESS + user(DROP),
    "am-announced": announce(AM, 5, 100, tag=2, more=b"hh") + PROGRESS,
    "send": user(SEND, size=20) + PROGRESS,
    "send-large": user(SEND, size=30000) + PROGRESS + record(GRANT, mode=NAMED, arg=100) + PROGRESS,
    "send-sync": user(SEND | 0x40, size=20) + PROGRESS + record(ACK, mode=NAMED) + PROGRESS,
    "send-object": user(SEND_OBJECT, size=30000) + PROGRESS + record(GRANT, mode=NAMED) + PROGRESS,
    "send-am": user(SEND_AM, size=3000) + PROGRESS + record(ACK, mode=NAMED) + PROGRESS,
    "flush": user(DO_FLUSH) + PROGRESS + record(FLUSH_ACK, mode=NAMED) + PROGRESS,
    "flushed": record(FLUSH, tag=3) + PROGRESS,
    "close": user(DO_CLOSE) + PROGRESS + record(CLOSE_ACK) + PROGRESS,
    "closed": user(RECV) + record(CLOSE) + PROGRESS + user(SEND) + user(DO_CLOSE) + PROGRESS,
    "both-close": user(DO_CLOSE) + record(CLOSE) + record(CLOSE_ACK) + PROGRESS,
    "abort": user(SEND, size=30000) + record(ABORT) + PROGRESS,
    "aborted": user(RECV) + user(DO_ABORT) + record(TAG, payload=b"late") + PROGRESS,
    "cancel": user(RECV) + user(CANCEL) + record(TAG, payload=b"x") + PROGRESS,
    "cancel-granted": user(RECV) + announce(TAG, 5, 100) + PROGRESS + user(CANCEL)
                      + chunk(0, 0, 0, 100) + PROGRESS,
    "credit": record(CREDIT, arg=100) + PROGRESS,
    "open": record(OPEN, ep=5, arg=200, seq=5) + record(TAG, ep=5) + PROGRESS,
    "open-data": record(OPEN, ep=5, arg=200, seq=5, payload=b"data" * 9) + record(TAG, ep=5)
                 + PROGRESS,
    "open-refused": record(OPEN, ep=5, arg=200, seq=5, payload=b"no") + record(TAG, ep=5)
                    + PROGRESS,
    "open-aborted": record(OPEN, ep=5, arg=200, seq=5, payload=b"abort") + PROGRESS,
    "open-closed": record(OPEN, ep=5, arg=200, seq=5, payload=b"close") + PROGRESS,
    "put": record(PUT, tag=HOST, arg=50, payload=b"p" * 50) + record(FLUSH, tag=3) + PROGRESS,
    "put-device": record(PUT, tag=DEVICE, payload=b"p" * 50) + PROGRESS,
    "put-large": access(PUT, LARGE_HOST, 5, 7, 100, ANNOUNCED) + PROGRESS + chunk(0, 0, 0, 60)
                 + chunk(0, 0, 60, 40) + PROGRESS,
    "put-withdrawn": access(PUT, LARGE_HOST, 5, 7, 100, ANNOUNCED) + PROGRESS
                     + record(WITHDRAW, tag=7) + chunk(0, 0, 0, 60) + PROGRESS,
    "put-refused": record(PUT, tag=READABLE, payload=b"p") + record(PUT, tag=HOST, arg=99, payload=b"pp")
                   + record(PUT, tag=9) + access(PUT, READABLE, 0, 7, 9, ANNOUNCED) + PROGRESS,
    "get": access(GET, READABLE, 3, 1 << 22, 20000) + access(GET, DEVICE, 3, 8, 9) + PROGRESS,
    "get-refused": access(GET, HOST, 99, 5, 2) + access(GET, 9, 0, 6, 1) + PROGRESS,
    "atomic": access(ATOMIC, HOST, 8, 3, 1, aux=ADD8) + access(ATOMIC, HOST, 8, 0, 1, aux=2 << 3 | 5)
              + PROGRESS,
    "atomic-refused": access(ATOMIC, HOST, 3, 3, 1, aux=ADD8)
                      + access(ATOMIC, DEVICE, 0, 0, 1, aux=ADD8) + PROGRESS,
    "map": record(MAP, tag=HOST) + PROGRESS,
    "put-to-peer": user(DO_ACCESS, 0x40, 30000) + PROGRESS + record(GRANT, mode=NAMED, arg=30000)
                   + PROGRESS + record(RMA_ANSWER, mode=NAMED, aux=1) + PROGRESS,
    "put-fails": user(DO_ACCESS, 0x40, 30000) + PROGRESS
                 + record(RMA_ANSWER, mode=NAMED, arg=2**64 - 1, aux=2) + PROGRESS,
    "get-from-peer": user(DO_ACCESS, 0x41, 300) + PROGRESS + chunk(0, 0, 0, 300) + PROGRESS,
    "get-fails": user(DO_ACCESS, 0x41, 300) + PROGRESS
                 + record(RMA_ANSWER, mode=NAMED, arg=2**64 - 1, aux=3) + PROGRESS,
    "add-to-peer": user(DO_ACCESS, 0x42) + PROGRESS + record(RMA_ANSWER, mode=NAMED, arg=9)
                   + PROGRESS,
    "fence": user(DO_ACCESS, 0x40, 30000) + user(DO_FENCE) + user(DO_ACCESS, 0x43) + user(SEND, size=9)
             + user(DO_FLUSH) + PROGRESS + record(RMA_ANSWER, mode=NAMED, arg=2**64 - 1, aux=2)
             + PROGRESS,
    "late-error": user(DO_ACCESS, 0x43) + user(DO_FLUSH) + PROGRESS
                  + record(FLUSH_ACK, mode=NAMED, arg=2**64 - 1) + PROGRESS,
    "bye": record(BYE) + record(TAG) + PROGRESS,
}

BROKEN = {
    "bad-sequence": record(TAG, mode=ODD_NUMBER, seq=5) + PROGRESS,
    "bad-endpoint": record(TAG, ep=7) + PROGRESS,
    "bad-accept": record(ACCEPT, ep=2) + record(REFUSE, ep=2, payload=b"no") + PROGRESS,
    "bad-access": record(GET, tag=HOST, payload=b"short") + PROGRESS,
    "bad-word": access(ATOMIC, HOST, 0, 3, 1, aux=3 << 3) + PROGRESS,
    "bad-put": access(PUT, HOST, 0, 0, 9, ANNOUNCED) + PROGRESS,
    "bad-mapped": record(MAPPED, tag=HOST) + PROGRESS,
    "bad-answer": user(DO_ACCESS, 0x40, 30000) + PROGRESS + record(RMA_ANSWER, mode=NAMED, aux=1)
                  + PROGRESS,
    "bad-chunk": user(RECV) + announce(TAG, 5, 100) + PROGRESS + chunk(0, 0, 90, 20) + PROGRESS,
    "bad-object": user(RECV_OBJECT) + record(OBJECT, payload=envelope([5])[:-1]) + PROGRESS,
    "bad-follow": user(RECV_OBJECT) + record(OBJECT, payload=envelope([5], follow=True)) + PROGRESS,
}

# Of an endpoint that the victim opens.
ANSWERS = {
    "accept": record(ACCEPT, ep=2, arg=200, seq=5) + record(TAG, ep=2) + PROGRESS,
    "accept-data": record(ACCEPT, ep=2, arg=200, seq=5, payload=b"data") + record(TAG, ep=2)
                   + PROGRESS,
    "accept-twice": record(ACCEPT, ep=2, payload=b"one") + record(ACCEPT, ep=2, payload=b"two")
                    + PROGRESS,
    "accept-much": record(ACCEPT, ep=2, mode=BY_EIGHT)[:-1] + bytes([129]) + b"x" * 1032 + PROGRESS,
    "accept-most": record(ACCEPT, ep=2, mode=BY_EIGHT)[:-1] + bytes([128]) + b"x" * 1024 + PROGRESS,
    "refuse": record(REFUSE, ep=2, arg=5, payload=b"no") + PROGRESS,
}

SEEDS = {
    "comm_hello": {"hello": hello(), "answer": hello(2), "reject": hello(6, text=b"no \x1b[2J"),
                   "next-version": hello(1, (2, 9)), "short": hello()[:100]},
    "comm_blob": {"none": blob([]), "two": blob([(4, 80), (6, 443)]), "port-zero": blob([(4, 0)]),
                  "family": blob([(9, 80)]), "text": b"[::1]:4711", "name": b"node7:1"},
    "comm_records": {**{name: OPENED + program for name, program in PROGRAMS.items()},
                     **{name: OPENED + program for name, program in BROKEN.items()},
                     **{name: OPENS_TOO + program for name, program in ANSWERS.items()},
                     "reordered": bytes([3]) + PROGRAMS["tag"] + PROGRAMS["object"]},
    "config_env": {"good": b"WHERRY_EAGER_MAX=16K\nWHERRY_LANES=shm,stream\nWHERRY_GRACE=3s\n",
                   "bad": b"WHERRY_EAGER_MAX=lots\nWHERRY_NO_SUCH=1\nWHERRY_LANES=,\n",
                   "options": b"eager_max=8K\nprogress=spin\nlanes=auto\nsecret=x\nring_size=\n"},
}


def main():
    root = pathlib.Path(__file__).resolve().parent / "corpus"
    root = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else root
    for target, seeds in SEEDS.items():
        (root / target).mkdir(parents=True, exist_ok=True)
        for name, content in seeds.items():
            (root / target / name).write_bytes(content)


if __name__ == "__main__":
    main()
