# SPDX-License-Identifier: BSD-3-Clause
"""A sender that breaks the rules: objects of the file transfer, made byte by byte.

It calls the library through ctypes, so that a test can say what no `wherry send` would.
"""
import ctypes
import hashlib
import struct

import tool

MAGIC = 0x31464857
FILE, DIR, LEAVE, LINK, END = range(1, 6)
FIRST, LAST = 1, 2
OBJECT_TAG, ANSWER_TAG = 1, 2
ANY = 2**64 - 1
PENDING = 1


class Frame(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("size", ctypes.c_size_t), ("mem", ctypes.c_int),
                ("device", ctypes.c_int)]


class Result(ctypes.Structure):
    _fields_ = [("status", ctypes.c_int), ("size", ctypes.c_uint64), ("tag", ctypes.c_uint64),
                ("source", ctypes.c_void_p), ("object", ctypes.c_void_p),
                ("reserved", ctypes.c_uint64 * 3)]


def head(kind, name=b"", target=b"", flags=0, size=0, offset=0, digest=bytes(32), mode=0o644,
         magic=MAGIC):
    return struct.pack("<IBBHHHIQQq32s", magic, kind, flags, len(name), len(target), mode, 0, size,
                       offset, 0, digest) + name + target


class Sender:
    """A connection to a receiver.  Statuses are returned as numbers: 0 is good."""

    def __init__(self, address):
        self.lib = ctypes.CDLL(tool.LIBRARY)
        self.address = address.encode()
        self.context, self.worker, self.ep = (ctypes.c_void_p() for _ in range(3))
        assert self.lib.wh_context_create(None, ctypes.byref(self.context)) == 0
        assert self.lib.wh_worker_create(self.context, None, ctypes.byref(self.worker)) == 0
        status = self.lib.wh_endpoint_connect_wait(self.worker, address.encode(), None,
                                                   ctypes.byref(self.ep))
        assert status == 0, status

    def send(self, header, *frames):
        rows = (Frame * max(1, len(frames)))()
        keep = [ctypes.create_string_buffer(bytes(frame), len(frame) or 1) for frame in frames]
        for row, buffer, frame in zip(rows, keep, frames):
            row.data, row.size = ctypes.addressof(buffer), len(frame)
        return self.lib.wh_object_send_wait(self.ep, header, ctypes.c_size_t(len(header)), rows,
                                            ctypes.c_size_t(len(frames)),
                                            ctypes.c_size_t(ctypes.sizeof(Frame)),
                                            ctypes.c_uint64(OBJECT_TAG), 5000)

    def post(self, header):
        """Send without waiting; what it needs lives as long as the process."""
        kept = ctypes.create_string_buffer(header, len(header))
        self.kept = [*getattr(self, "kept", []), kept]
        status = self.lib.wh_object_send(self.ep, kept, ctypes.c_size_t(len(header)), None,
                                         ctypes.c_size_t(0), ctypes.c_uint64(OBJECT_TAG), None,
                                         None)
        assert status in (0, PENDING), status

    def send_text(self, text):
        """Say a line as the two ends of `wherry perf` do."""
        return self.lib.wh_tag_send_wait(self.ep, text, ctypes.c_size_t(len(text)),
                                         ctypes.c_uint64(2), 5000)

    def send_file(self, name, data, digest=None):
        digest = digest or hashlib.sha256(data).digest()
        return self.send(head(FILE, name, flags=FIRST | LAST, size=len(data), digest=digest), data)

    def answer(self):
        """The next line from the receiver, or None when it has cut the connection."""
        buffer, result = ctypes.create_string_buffer(9000), Result()
        status = self.lib.wh_tag_recv_wait(self.ep, buffer, ctypes.c_size_t(8999),
                                           ctypes.c_uint64(ANSWER_TAG), ctypes.c_uint64(ANY), 5000,
                                           ctypes.byref(result))
        return buffer.raw[:result.size].decode() if status == 0 else None

    def end(self):
        """Say END; return the answers up to "done" (without its numbers), or, with None, those
        before the connection was cut, of which the last must say why."""
        self.send(head(END))
        answers = []
        while (line := self.answer()) is not None and not line.startswith("done "):
            answers.append(line)
        if line is None:
            assert answers and answers.pop().startswith("cut off: "), answers
        return answers, line and "done"

    def crowd(self, count):
        """Open more endpoints over the same connection."""
        eps = [ctypes.c_void_p() for _ in range(count)]
        for ep in eps:
            assert self.lib.wh_endpoint_connect(self.worker, self.address, None,
                                                ctypes.byref(ep)) == 0
        while any(self.lib.wh_endpoint_status(ep) == PENDING for ep in eps):
            self.lib.wh_worker_progress(self.worker)
        return eps

    def end_crowd(self, eps):
        for ep in eps:
            self.lib.wh_endpoint_abort(ep)

    def close(self):
        self.lib.wh_endpoint_close_wait(self.ep, 2000)
        self.lib.wh_worker_destroy(self.worker)
        self.lib.wh_context_destroy(self.context)
