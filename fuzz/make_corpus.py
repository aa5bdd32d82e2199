#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Write the seeds of the fuzz targets comm_hello, comm_blob, comm_records, config_env, lane_address,
mpi_messages, rt_balance, rt_channel, rt_chares, rt_coll, rt_control, rt_messages, rt_places, rt_reduce, rt_saved, rt_section, run_frames, run_pmi,
boot_answers.

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
PUT, GET, ATOMIC, MAP, MAPPED, RMA_ANSWER, OFFER, TAKEN = range(16, 24)
ANNOUNCED, SYNC, NAMED, ODD_NUMBER, BY_EIGHT, OF_ELEMENTS = 1, 2, 0x08, 0x10, 0x20, 0x80
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


def record(cls, ep=1, tag=0, arg=0, flags=0, mode=0, payload=b"", seq=0, aux=0, elements=0):
    mode |= OF_ELEMENTS if elements else 0
    out = bytes([0, cls, flags | mode]) + number(ep) + number(tag) + number(arg)
    if cls in (ATOMIC, RMA_ANSWER):
        out += bytes([aux])
    if elements:
        out += struct.pack(">H", elements)
    if not (cls <= CLOSE or PUT <= cls <= ATOMIC) or mode & ODD_NUMBER:
        out += number(seq)
    return out + bytes([len(payload)]) + payload


def announce(cls, send_id, arg, tag=0, more=b"", elements=0):
    return record(cls, tag=tag, arg=arg, flags=ANNOUNCED, elements=elements,
                  payload=struct.pack("<II", send_id, 0) + more)


def access(cls, memory, offset, name, value, flags=0, aux=0):
    return record(cls, tag=memory, arg=offset, flags=flags, aux=aux,
                  payload=struct.pack("<IIQQ", name, 0, value, 0))


def offer(at, size, how=1, offset=0, seq=0):
    """An offer of device memory for the first grant."""
    return record(OFFER, mode=NAMED, arg=offset, seq=seq) + bytes([how]) + number(at) + number(size)


def long(size, ep=1, tag=0, elements=0):
    """A long message in its turn."""
    said = struct.pack(">H", elements) if elements else b""
    return bytes([0x98, ep | (0x20 if elements else 0), tag]) + said + number(size - 1)


def chunk(grant, segment, offset, size):
    return bytes([0x80, grant, segment]) + number(offset) + number(size)


def user(what, which=0, size=100):
    return bytes([0xa0, what, which]) + number(size)


def envelope(sizes, header=b"head", follow=False):
    out = struct.pack("<II", 1 | len(sizes) << 8, len(header))
    for size in sizes:
        out += struct.pack("<QBBHI", size, 1, int(follow), 0, 0)
    return out + header + (b"" if follow else b"".join(b"x" * size for size in sizes))


RECV, RECV_ANY, RECV_OBJECT_ANY, CANCEL, ANSWER, DROP, SEND, SEND_OBJECT, RECV_OBJECT, SEND_AM, \
    DO_FLUSH, DO_ABORT, DO_CLOSE, DO_ACCESS, DO_FENCE = range(15)
LAID, ON_DEVICE = 0x10, 0x20  # the user's memory
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
                        + announce(OBJECT, 5, 44, more=envelope([200, 90], follow=True)) + PROGRESS
                        + user(ANSWER) + chunk(0, 1, 0, 200) + chunk(0, 2, 0, 90) + PROGRESS,
    "laid-out": user(RECV | LAID, size=160) + announce(TAG, 5, 80) + PROGRESS + chunk(0, 0, 0, 33)
                + chunk(0, 0, 33, 47) + PROGRESS,
    "elements": user(RECV | LAID, size=160) + record(TAG, payload=b"w" * 80, elements=0x1234)
                + record(TAG, payload=b"w" * 80, flags=SYNC, arg=7, elements=0x1234) + PROGRESS
                + user(RECV | LAID, size=160) + PROGRESS,
    "elements-announced": user(RECV | LAID, size=160) + announce(TAG, 5, 80, elements=0x1234)
                          + announce(TAG, 6, 80, elements=0x1234) + PROGRESS
                          + user(RECV | LAID, size=160) + PROGRESS,
    "elements-long": user(RECV | LAID, size=30000) + long(15000, elements=0x1234)
                     + long(15000, elements=0x1234) + PROGRESS + user(RECV | LAID, size=30000)
                     + PROGRESS,
    "device": user(RECV | ON_DEVICE, size=300) + announce(TAG, 5, 300) + PROGRESS + chunk(0, 0, 0, 200)
              + chunk(0, 0, 200, 100) + PROGRESS,
    "object-places": user(RECV_OBJECT | LAID | ON_DEVICE, size=400)
                     + announce(OBJECT, 5, 44, more=envelope([200, 90], follow=True)) + PROGRESS
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
    "offered": user(RECV | ON_DEVICE, size=3000) + announce(TAG, 5, 3000) + PROGRESS + offer(0, 2000)
               + PROGRESS + offer(9, 1000, offset=2000) + PROGRESS,
    "offered-refused": user(RECV | ON_DEVICE, size=3000) + announce(TAG, 5, 3000) + PROGRESS
                       + offer(39000, 3000) + offer(0, 3000, how=0x41) + PROGRESS
                       + chunk(0, 0, 0, 3000) + PROGRESS,
    "offers": user(SEND | ON_DEVICE, size=3000) + PROGRESS
              + record(GRANT, mode=NAMED, arg=3000, flags=1) + PROGRESS
              + record(TAKEN, mode=NAMED) + PROGRESS,
    "offers-refused": user(SEND | ON_DEVICE, size=3000) + PROGRESS
                      + record(GRANT, mode=NAMED, arg=3000, flags=1) + PROGRESS
                      + record(TAKEN, mode=NAMED, arg=1) + PROGRESS,
    "offers-unanswered": user(SEND | ON_DEVICE, size=3000) + PROGRESS
                         + record(GRANT, mode=NAMED, arg=3000, flags=1) + PROGRESS + record(ABORT)
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
    "bad-twice": user(RECV_OBJECT | ON_DEVICE, size=200)
                 + announce(OBJECT, 5, 44, more=envelope([200, 90], follow=True)) + PROGRESS + user(ANSWER)
                 + chunk(0, 1, 0, 200) + chunk(0, 2, 0, 90) * 3 + chunk(0, 2, 0, 20) + PROGRESS,
    "bad-object": user(RECV_OBJECT) + record(OBJECT, payload=envelope([5])[:-1]) + PROGRESS,
    "bad-offer": user(RECV | ON_DEVICE, size=3000) + announce(TAG, 5, 3000) + PROGRESS
                 + offer(0, 2000, offset=2000) + PROGRESS,
    "bad-taken": record(TAKEN, mode=NAMED) + PROGRESS,
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

def pieces(*all_of_them):
    """Pieces of a lane's address: (size of the whole, offset, bytes)."""
    return b"".join(struct.pack("<III", len(data), whole, offset) + data
                    for whole, offset, data in all_of_them)


def frame(kind, content=b"", rank=0):
    """What the launcher of jobs and its agents say to each other."""
    return b"wr" + bytes([kind, 0]) + struct.pack("<II", rank, len(content)) + content


def texts(*words):
    return b"".join(word.encode() + b"\0" for word in words)


HELLO = frame(0, b"wherry run 1")
JOB = texts("4", "0", "2", "0", "1", "/", "A=1", "prog", "word")
INIT = b"".join(b"%dcmd=init pmi_version=1 pmi_subversion=1\n" % i for i in range(4))
PMI = {
    "questions": INIT + b"0cmd=get_maxes\n1cmd=get_appnum\n2cmd=get_my_kvsname\n3cmd=get_universe_size\n",
    "store": INIT + b"0cmd=put kvsname=kvs key=a value=1\n1cmd=get kvsname=kvs key=a\n"
             b"2cmd=get kvsname=kvs key=PMI_process_mapping\n2cmd=get kvsname=x key=b\n0cmd=put kvsname=kvs key=a value=2\n",
    "barrier": INIT + b"".join(b"%dcmd=barrier_in\n" % i for i in range(4)) + b"0cmd=finalize\n",
    "in-vain": INIT + b"0cmd=barrier_in\n1cmd=finalize\n1\n",
    "spawn": INIT + b"0mcmd=spawn\n0nprocs=1\n0endcmd\n0cmd=publish_name service=a\n",
    "abort": INIT + b"0cmd=abort exitcode=259\n",
    "nonsense": b"0cmd=fly \x1b[2J\n",
}

# Elements and their places: steps of a table's owner, and what other PEs send.
INSERT, BEGIN_MOVE, END_MOVE, INSTALL, REMOVE, SEND, REJECT_AWAITED, COMPLETE = (*range(3, 10), 11)
MARKER, HOME_MARKER, END, NEW, LEAVE, RELEASE = range(1, 7)


def act(what, index=1, who=0, collection=0):
    return bytes([what, who, 2, index, collection])


def place_key(index, collection=0):
    return struct.pack("<IBi", collection, 1, index)


def stamp(entry=0, via=0, at=0, source=None, flags=0):
    numbers = [(8, entry), (16, via), (32, at)]
    out = bytes([flags | sum(bit for bit, number in numbers if number) | 64 * (source is not None)])
    out += b"".join(struct.pack("<Q", number) for _, number in numbers if number)
    return out + (b"" if source is None else struct.pack("<I", source))


def comes(what, who, content):
    return bytes([what, who, len(content)]) + content


def place_message(index, who, incomplete=0, collection=0, **fields):
    return comes(0, who, place_key(index, collection) + stamp(**fields) + bytes([incomplete]))


def place_control(kind, index, who, number=None, **fields):
    out = bytes([kind]) + place_key(index) + (stamp(**fields) if kind <= END else b"")
    return comes(1, who, out + (b"" if number is None else struct.pack("<Q", number)))


def place_state(index, who, number, via, vacant=0, told=(), flows=()):
    out = place_key(index) + struct.pack("<BQQI", vacant, number, via, len(told))
    out += b"".join(struct.pack("<I", pe) for pe in told) + struct.pack("<I", len(flows))
    return comes(2, who, out + b"".join(struct.pack("<IQ", pe, entry) for pe, entry in flows))


THERE_AND_BACK = (act(INSERT) + act(BEGIN_MOVE, who=2) + place_message(1, 3) + act(END_MOVE) +
                  place_control(NEW, 1, 2, 2) + place_state(1, 2, 3, 1, flows=[(3, 2)]) + act(INSTALL) +
                  place_control(HOME_MARKER, 1, 2, 3, via=2, at=3, source=1) + place_control(END, 1, 2, at=3, source=2))
PLACES = {
    "moves": THERE_AND_BACK,
    "dies": act(INSERT) + act(REMOVE) + place_message(1, 2) + act(SEND, collection=1) + act(INSERT, collection=1),
    "comes": place_state(0, 0, 2, 1) + place_message(0, 0, via=1, at=2, source=3) + act(INSTALL, 0) +
             place_message(0, 2, entry=2, at=2) + place_control(MARKER, 0, 0, 2, via=1, at=2, source=2) +
             place_control(HOME_MARKER, 0, 0, 2, via=1, at=2, source=0) + act(REMOVE, 0) + act(END_MOVE, 0),
    "vacant": act(INSERT) + act(BEGIN_MOVE, who=2) + act(END_MOVE) + place_state(1, 2, 3, 1, vacant=1, flows=[(0, 2)]) +
              place_message(1, 0) + act(INSERT) + place_control(MARKER, 1, 2, 0, entry=2, at=3, source=0),
    "waits": act(INSERT) + place_message(1, 2, 1) + place_message(1, 3) + comes(COMPLETE, 0, b"\0"),
    "gate": act(INSERT) + act(BEGIN_MOVE, who=2) + act(END_MOVE) + place_control(NEW, 1, 2, 2) +
            place_message(1, 3, 1) + place_message(1, 3) + comes(COMPLETE, 0, b"\0"),
    "routes": b"".join(act(SEND, i) + place_control(NEW, i, 3, 2) + act(SEND, i) for i in (0, 2, 4, 6)) +
              place_control(LEAVE, 6, 3, 2) + place_control(NEW, 4, 2, 1),
    "released": place_state(0, 0, 2, 1) + act(INSTALL, 0) + act(BEGIN_MOVE, 0, 3) + act(END_MOVE, 0) +
                place_control(RELEASE, 0, 0, 2) + place_control(RELEASE, 0, 2, 2) + place_control(END, 0, 0, at=2, source=0) +
                act(SEND, 0),
}


def section(self, parent, *members):
    """The list that a PE is sent, with indices of as many numbers as the first member has."""
    dims = len(members[0]) - 1 if members else 1
    return (bytes([dims - 1, self]) + struct.pack("<qQ", parent, len(members)) +
            b"".join(struct.pack(f"<{dims + 1}i", *member) for member in members))


SECTIONS = {
    "own": section(2, -1, (7, 0), (3, 2), (7, 0), (-1, 4)),
    "part": section(3, 2, (1, 3), (4, 3), (2, 4), (9, 0)),
    "two-dims": section(1, 0, (1, 2, 1), (1, 3, 1), (0, 0, 2)),
    "six-dims": section(0, 4, (1, 2, 3, 4, 5, 6, 0)),
    "not-sorted": section(3, 2, (4, 3), (1, 3)),
    "twice": section(3, 2, (1, 3), (1, 3)),
    "not-first": section(3, 2, (1, 4)),
    "no-such-pe": section(3, 2, (1, 3), (1, 5)),
    "none": section(3, 2),
    "short": section(3, 2, (1, 3))[:-1],
}

# What a launcher answers to a process that puts a value of one text, and gets one.
JOINED = (b"cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n"
          b"cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=%d\ncmd=my_kvsname kvsname=kvs\n")
PUT_DONE = b"cmd=put_result rc=0\ncmd=barrier_out\n"
VALUE = b"cmd=get_result rc=0 value=%s\n"
LEFT = b"cmd=finalize_ack\n"
BOOT = {
    "value": JOINED % 1024 + PUT_DONE + VALUE % b"3:0aff61" + LEFT,
    "parts": JOINED % 64 + PUT_DONE + VALUE % (b"40:" + b"0a" * 30) + VALUE % (b"0b" * 10) + LEFT,
    "none": JOINED % 1024 + PUT_DONE + b"cmd=get_result rc=-1\n" + LEFT,
    "too-long": JOINED % 1024 + PUT_DONE + VALUE % b"601:00" + LEFT,
    "more": JOINED % 1024 + PUT_DONE + VALUE % b"1:0aff" + LEFT,
    "stops": JOINED % 1024 + PUT_DONE + VALUE % b"2:0a" + VALUE % b"",
    "endless": JOINED % 1024 + b"cmd=put_result " + b"x" * 5000,
    "long-name": JOINED.replace(b"kvsname=kvs\n", b"kvsname=" + b"k" * 257 + b"\n") % 1024,
    "longest-name": JOINED.replace(b"kvsname=kvs\n", b"kvsname=" + b"k" * 256 + b"\n") % 4096 + PUT_DONE + LEFT,
    "short-limits": JOINED % 63, "refuses": JOINED.replace(b"rc=0", b"rc=-1") % 1024,
    "put-fails": JOINED % 1024 + b"cmd=put_result rc=-1\n" + b"cmd=get_result rc=0\n" + LEFT,
}


def said(source, *content):
    """Control from a PE: EXIT or QUIET, what, and the rest of its record."""
    content = bytes(content)
    return bytes([source, len(content)]) + content


def exits(source, what, status=0):
    return said(source, 0, what, 0, 0, status, 0, 0, 0)


def quiet(source, what, wave=0, made=0, consumed=0):
    return said(source, 1, what, 0, 0, 0, 0, 0, 0, *struct.pack("<QQQ", wave, made, consumed))


ASK, STOP, STOPPED, GO = range(4)  # of an end
QUIET_ASK, WAVE, ANSWER, QUIET = range(4)

# Collectives of member 1 of 3: the kind, then each message that comes, its length first.
def came(*messages):
    return b"".join(bytes([len(message)]) + message for message in messages)


def reason(status, pe, size=8):
    return struct.pack("<iI", status, pe).ljust(size, b"\0")


def wishes(*ids):
    return b"".join(struct.pack("<iiIII", 1, 0, number, 900, 90000) for number in ids)


BLOCK = bytes(range(40))
COLLECTIVES = {
    "good": b"\0" + came(b"x", b"x") + b"\1" + came(BLOCK) + b"\4" + came(BLOCK, BLOCK) + b"\11" + came(BLOCK, BLOCK),
    "segments": b"\x81" + came(*[BLOCK[:14]] * 3) + b"\x87" + came(BLOCK, BLOCK) + b"\x8a" + came(BLOCK, BLOCK),
    "reasons": b"".join(bytes([kind]) + came(reason(-7, 2), reason(-4, 0)) for kind in range(12)),
    "eight": b"\2" + came(reason(-7, 2)) + b"\2" + came(reason(-7, 2, 9)) + b"\2" + came(reason(-99, 2, 9)),
    "lost": b"".join(bytes([kind, 0xff, 0xff]) for kind in range(12)),
    "lengths": b"\0" + came(b"", b"xx") + b"\5" + came(BLOCK[:39]) + b"\3" + came(BLOCK * 3, BLOCK),
    "split": b"\x0b" + came(wishes(5), wishes(6)) + b"\x0b" + came(wishes(4096), wishes(6)) + b"\x0b" + came(wishes(5)),
}

ELEMENT = struct.pack("<IBi", 9, 1, 3)
CHARES = {  # the first byte: the PE that it comes from
    "call": b"\2\1" + ELEMENT + b"\0" + struct.pack("<HB", 4, 0),
    "call-all": b"\2\1" + ELEMENT + b"\0" + struct.pack("<HBqHQI", 4, 15, -5, 3, 8, 6),
    "state": b"\1\3" + ELEMENT + struct.pack("<BQIIQQQBQB", 0, 77, 40, 1, 3, 5, 2, 1, 6, 0),
    "state-balanced": b"\1\3" + ELEMENT + struct.pack("<BQIIQQQBQB", 0, 77, 40, 1, 3, 5, 2, 1, 6, 1) +
                      struct.pack("<BBQQdd", 1, 1, 4, 12345, -1, 0.5),
    "create": b"\0\4" + struct.pack("<IBBBQQQHiii", 15, 3, 3, 1, 77, 0, 0, 0, 2, 3, 4),
    "create-balanced": b"\0\4" + struct.pack("<IBBBQQQHi", 15, 3, 1, 0, 77, 0, 99, 2, 8),
    "balance": b"\0\15" + struct.pack("<BIQ", 1, 15, 3),
    "element": b"\0\5" + ELEMENT + struct.pack("<Q", 0),
    "broadcast": b"\0\6" + struct.pack("<IQIBHq", 15, 3, 2, 0, 1, 7),
    "future": b"\0\7" + struct.pack("<Qq", 3, 0),
    "arrived": b"\0\12" + struct.pack("<IQQ", 15, 3, 4),
    "reduce": b"\0\13" + struct.pack("<BIQQQ", 0, 15, 0, 7, 3),
    "section": b"\0\14" + struct.pack("<BIQHq", 1, 15, 1 << 32 | 1, 2, -4),
    "proxy": struct.pack("<I6iI", 15, 1, 2, 0, 0, 0, 0, 2),
    "callback": struct.pack("<II", 1, 4) + struct.pack("<I6iI", 15, 1, 2, 0, 0, 0, 0, 2) +
                struct.pack("<qQiiIIQ", 5, 0, 0, 0, 0, 0, 0),
}

# Parts of reductions: a callback (a function), then the parts, then their values.
NOTHING, OP, CONCAT, SET, CUSTOM = range(5)
INT32 = 9  # wh_type_id
SUM = 2


def padded(value):
    return value + bytes(-len(value) % 16)


def partial(*parts):
    callback = struct.pack("<IIIiiiiiiIqQiiIIQ", 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5, 77, 1, 0, 0, 0, 0)
    out = callback + struct.pack("<QQ", len(parts), 0)
    for reducer, op, kind, function, value in parts:
        out += struct.pack("<IIQQQ", reducer, op, kind, function, len(value))
    return out + b"".join(padded(value) for *_, value in parts)


def item(index, value):
    return struct.pack("<IiiiiiiIQQ", 3, index, 0, 0, 0, 0, 0, 1, len(value), 0) + padded(value)


REDUCTIONS = {
    "barrier": partial(),
    "sum": partial((OP, SUM, INT32, 0, struct.pack("<ii", 1, 2))),
    "set": partial((SET, 0, 0, 0, item(2, b"two") + item(1, b""))),
    "tuple": partial((OP, SUM, INT32, 0, bytes(4)), (NOTHING, 0, 0, 0, b""), (CONCAT, 0, 0, 0, b"abc"),
                     (CUSTOM, 0, 0, 3, b"12345678")),
    "unknown": partial((CUSTOM, 0, 0, 2, b"12345678")),
    "items": item(1, b"x" * 16) + item(2, b"") + item(3, b"yyy"),
    "cut": item(1, b"x" * 40)[:60],
    "broken-set": partial((SET, 0, 0, 0, item(2, b"two")[:-1])),
}

# Of load balancing: all loads, moves, what PEs have heard of others.
def loads(pe, *elements):
    return struct.pack("<II", pe, len(elements)) + b"".join(struct.pack("<dB", *e) for e in elements)


BALANCE = {
    "loads": loads(3, (1, 0), (2, 0), (9, 1)) + loads(0, (5, 0)) + loads(6),
    "crowded": loads(1, *[(i % 5, 0) for i in range(12)]) + loads(2),
    "twice": loads(3, (1, 0)) + loads(3, (1, 0)),
    "no-number": loads(2, (float("nan"), 0)),
    "moves": struct.pack("<IIIIII", 3, 2, 0, 1, 2, 6) + struct.pack("<IIII", 5, 1, 0, 0),
    "gossip": struct.pack("<IdId", 4, 0.5, 2, 0),
}

# Of checkpoints; the hash at the end is put right by the fuzzer.
def saved(what, content):
    return b"WHERRYCP" + struct.pack("<II", 1, what) + content + bytes(8)


ARRAY = b"\4" + struct.pack("<IBBBQQQHii", 1 << 20, 3, 2, 0, 77, 0, 0, 0, 4, 4)
SAVED_ELEMENT = struct.pack("<IBiiBQ", 1 << 20, 2, 1, 3, 1, 5) + b"bytes"
SAVED = {
    "index": saved(1, struct.pack("<QIIII", 3, 4, 2, 1, 0) + struct.pack("<QI", 16, len(ARRAY)) + ARRAY +
                   struct.pack("<8Q", *range(8))),
    "empty-index": saved(1, struct.pack("<QIIII", 1, 1, 1, 0, 0) + struct.pack("<QQ", 40, 7)),
    "data": saved(2, struct.pack("<IIQ", 1, 0, 3) + SAVED_ELEMENT + SAVED_ELEMENT),
    "empty-data": saved(2, struct.pack("<IIQ", 1, 0, 3)),
}

# What a rank of MPI gets: receives (type, elements, source, tag; 4 is any), then what comes for them.
def mpi_receive(kind=0, count=8, source=1, tag=1):
    return bytes([0, kind, count, source, tag])


def mpi_arrival(step, head, payload=b"", away=0):
    return bytes([step, away]) + head + bytes([len(payload)]) + payload


def mpi_message(payload=b"", source=1, tag=1, context=4, dest=0, number=0, origin=1, away=0):
    return mpi_arrival(2, struct.pack("<IiiiII", context, source, tag, dest, number, origin), payload, away)


def mpi_access(kind, payload=b"", disp=0, count=1, op=2, named=0x209, flat=b"", behind=0, win=1, origin=1):
    head = struct.pack("<BBBBIiiIIQQqq", kind, op, 0, behind, win, 0, origin, named, len(flat), 3, 0, disp, count)
    # A head with a type behind it has a length of its own.
    start = bytes([4, 1, len(head) + len(flat)]) if flat else bytes([4, 0])
    return start + head + flat + bytes([len(payload)]) + payload


MPI_MESSAGES = {
    "posted": mpi_receive() + mpi_message(b"12345678") + mpi_receive(2, 1) + mpi_message(b"123456789012"),
    "unexpected": mpi_message(b"1234") + mpi_message(b"12", tag=2, away=2) + mpi_receive(count=2) + mpi_receive(source=4, tag=4),
    "away": mpi_receive(1, 2) + mpi_message(b"12345678", away=2) + mpi_receive(1, 1) + mpi_message(b"12345678", away=2),
    "synchronous": bytes([1, 0]) + mpi_arrival(3, struct.pack("<II", 0, 1)) + mpi_receive() + mpi_message(b"1", number=7),
    "nowhere": mpi_message(b"1", dest=9) + mpi_message(b"1", origin=77) + mpi_message(b"1", source=-1) + bytes([2, 1, 3]) + b"abc",
    "accesses": mpi_access(0, b"1234") + mpi_access(1, b"1234") + mpi_access(2) + mpi_access(3, b"1234", disp=3)
    + mpi_access(4, b"12345678"),
    "outside": mpi_access(0, b"1234", disp=64) + mpi_access(2, count=65) + mpi_access(1, b"1", win=2) + mpi_access(8, origin=9),
    "address": mpi_access(0, b"1234", named=1 << 24) + mpi_access(0, count=0),
    "turns": mpi_access(8) + mpi_access(9) + mpi_access(10) + mpi_arrival(5, struct.pack("<iiQ", 0, 0, 1)),
}

SEEDS = {
    "rt_balance": BALANCE,
    "rt_saved": SAVED,
    "rt_channel": {"opening": bytes(range(32)) + struct.pack("<IIII", 1, 5, 64, 0),
                   "window": bytes(32) + struct.pack("<IIII", 1, 5, 0, 0),
                   "number": bytes(32) + struct.pack("<IIII", 1, 1 << 28, 1, 0),
                   "credit": struct.pack("<BBBBIQ", 3, 1, 0, 0, 9, 64),
                   "stop": struct.pack("<BBBBIQ", 3, 2, 1, 0, 9, 0),
                   "gone": struct.pack("<BBBBIQ", 3, 4, 0, 0, 9, 1)},
    "rt_reduce": REDUCTIONS,
    "rt_section": SECTIONS,
    "rt_chares": CHARES,
    "rt_coll": COLLECTIVES,
    "rt_places": PLACES,
    # The first byte: twice that PE.
    "rt_control": {"end": bytes([0]) + exits(9, ASK, 3) + b"".join(exits(i, STOPPED) for i in range(1, 5)),
                   "stop-and-go": bytes([1]) + exits(0, STOP, 3) + exits(0, GO),
                   "go-first": bytes([1]) + exits(0, GO),
                   "liars": bytes([1]) + exits(3, STOP) + exits(9, STOPPED) + exits(0, 7) + said(1, 200) + said(5),
                   "waves": bytes([0]) + b"".join(quiet(i, ANSWER, wave) for wave in (1, 2) for i in range(1, 5)),
                   "wave": bytes([1]) + quiet(0, WAVE, 1) + quiet(0, QUIET, 0, 1),
                   "odd": bytes([1]) + quiet(0, ANSWER, 1) + quiet(11, ANSWER, 9) + said(0, 1, 1)},
    "rt_messages": {"envelope": struct.pack("<HHi", 7, 4, -1) + b"head" + bytes(4),
                    "long-head": struct.pack("<HHi", 7, 512, 0) + bytes(520),
                    "too-long": struct.pack("<HHi", 7, 513, 0) + bytes(536),
                    "greeting": b"WWHR" + struct.pack("<HHI", 1, 1, 5) + bytes(range(16)),
                    "next-version": b"WWHR" + struct.pack("<HHI", 2, 1, 5) + bytes(range(20)),
                    "use": b"WWHR" + struct.pack("<HHI", 1, 2, 5) + bytes(16)},
    "run_frames": {"up": HELLO + frame(2, b"\1\2\0\0") + frame(6, b"hello\n", 1) + frame(11, bytes(4), 1) + frame(13),
                   "job": frame(1, JOB) + frame(5, b"input") + frame(10, bytes(4)),
                   "job-short": frame(1, JOB[:-1]), "long": frame(6, b"x")[:8] + b"\xff" * 4,
                   "login": b"Last login: today\n", "version": frame(0, b"wherry run 2")},
    "run_pmi": PMI,
    "boot_answers": BOOT,
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
    "mpi_messages": MPI_MESSAGES,
    "lane_address": {"one": pieces((4, 0, b"here")),
                     "two": pieces((1500, 0, b"a" * 1024), (1500, 1024, b"b" * 476)),
                     "gap": pieces((8, 0, b"he"), (8, 3, b"re")),
                     "twice": pieces((8, 0, b"he"), (8, 0, b"he")),
                     "grows": pieces((4, 0, b"he"), (400, 2, b"re")),
                     "beyond": pieces((4, 0, b"there")),
                     "nothing": pieces((0, 0, b"")),
                     "endless": pieces((1 << 16 | 1, 0, b"here"))},
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
