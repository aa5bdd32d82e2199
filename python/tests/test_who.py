# SPDX-License-Identifier: BSD-3-Clause
"""Who is at the other end: addresses, connect data, and whether the peer has gone."""
import os
import socket
import threading
import unittest

import wherry
from kit import HOST, LIMIT, Child, LoopCase, in_thread

SERVER = """
import asyncio, sys, wherry
async def main():
    async with await wherry.listen(None, "127.0.0.1", data=b"from the server") as listener:
        print(listener.port, flush=True)
        ep = await listener.accept()
        print(ep.peer_data.decode(), *ep.remote_address, ep.peer_info.pid, flush=True)
        await ep.recv(bytearray(1))
        await ep.close()
asyncio.run(main())
"""


class Who(LoopCase):
    async def test_both_ends(self):
        a, b = wherry.worker(), wherry.Worker()
        async with await b.listen(None, HOST, data=b"hello") as listener:
            self.assertEqual(listener.addresses, [(HOST, listener.port)])
            ours = await a.connect(HOST, listener.port, data=bytearray(b"who"))
            theirs = await listener.accept()
            self.assertEqual(ours.remote_address, (HOST, listener.port))
        self.assertEqual((ours.peer_data, theirs.peer_data), (b"hello", b"who"))
        self.assertEqual(ours.local_address, theirs.remote_address)
        self.assertEqual(ours.remote_address, theirs.local_address)
        info = ours.peer_info
        self.assertIsInstance(info, wherry.PeerInfo)
        self.assertEqual(info.uuid, b.uuid)
        self.assertEqual(theirs.peer_info.uuid, a.uuid)
        self.assertEqual((info.same_host, info.uid, info.pid), (True, os.geteuid(), os.getpid()))
        self.assertEqual(info.host, socket.gethostname())
        self.assertEqual(info.remote, ours.remote_address)
        self.assertFalse(ours.lost or theirs.lost)
        await ours.close()
        self.assertFalse(ours.lost)  # the peer has not closed
        with self.assertRaises(wherry.ClosedError):
            await theirs.recv(bytearray(1))
        self.assertTrue(theirs.lost)
        self.assertEqual((theirs.peer_info.uuid, theirs.peer_data), (a.uuid, b"who"))
        await theirs.close()
        # What was known stays known.
        self.assertTrue(theirs.lost)
        self.assertEqual((theirs.remote_address, ours.peer_data), (ours.local_address, b"hello"))
        b.close()

    async def test_by_address(self):
        accepted = []
        with wherry.Worker(accept=accepted.append, data=b"worker") as b:
            async with await wherry.connect(address=b.address, data=b"x" * 1024) as ours:
                self.assertEqual(ours.peer_data, b"worker")
                self.assertEqual(accepted[0].peer_data, b"x" * 1024)
                if "shm" in ours.lanes:
                    self.assertRegex(ours.remote_address, "^wherry-[0-9a-f]{32}$")
                    self.assertEqual(ours.local_address, "")
                    self.assertTrue(ours.peer_info.vouched)
                accepted.pop().abort()

    async def test_nothing_is_known_before(self):
        async with await wherry.listen(None, HOST) as listener:
            op = wherry.connect(HOST, listener.port)
            ours, theirs = await op, await listener.accept()
            self.assertEqual((ours.peer_data, theirs.peer_data), (b"", b""))
            await ours.close()
            await theirs.close()
        with self.assertRaises(wherry.RefusedError):
            await wherry.connect(HOST, free_port())

    async def test_another_process(self):
        with Child(SERVER) as child:
            port = int(child.line())
            async with await wherry.connect(HOST, port, data=b"client") as ep:
                self.assertEqual(ep.peer_data, b"from the server")
                data, host, port, pid = child.line().split()
                self.assertEqual((data, host, int(pid)), ("client", HOST, os.getpid()))
                self.assertEqual(ep.local_address, (HOST, int(port)))
                self.assertEqual(ep.peer_info.pid, child.process.pid)
                # Another thread sees that it has gone.
                seen = threading.Event()

                def ask():
                    while not ep.lost:
                        pass
                    seen.set()
                thread = threading.Thread(target=ask, daemon=True)
                thread.start()
                child.process.kill()
                with self.assertRaises(wherry.PeerError):
                    await ep.recv(bytearray(1))
                thread.join(LIMIT)
                self.assertTrue(seen.is_set() and ep.lost)
                ep.abort()

    async def test_other_threads(self):
        async with await wherry.listen(None, HOST, data=b"d") as listener:
            ours = await wherry.connect(HOST, listener.port)
            theirs = await listener.accept()
            self.assertEqual(in_thread(lambda: (ours.lost, ours.peer_data, ours.peer_info.pid)),
                             (False, b"d", os.getpid()))
            with self.assertRaises(wherry.ThreadError):
                in_thread(lambda: listener.addresses)
            theirs.abort()
            with self.assertRaises(wherry.PeerError):
                await ours.recv(bytearray(1))
            self.assertTrue(in_thread(lambda: ours.lost))
            ours.abort()

    async def test_ipv6(self):
        try:
            listener = await wherry.listen(None, "::1")
        except wherry.AddressError:
            self.skipTest("no IPv6")
        async with listener:
            async with await wherry.connect("::1", listener.port) as ours:
                self.assertEqual(ours.remote_address, ("::1", listener.port))
                await (await listener.accept()).close()

    async def test_what_cannot_be_given(self):
        for data, error in ((b"x" * 1025, ValueError), ("text", TypeError), (5, TypeError)):
            with self.assertRaises(error):
                await wherry.connect(HOST, 1, data=data)
            with self.assertRaises(error):
                await wherry.listen(None, HOST, data=data)
            with self.assertRaises(error):
                wherry.Worker(data=data)


def free_port():
    """A port that nobody listens at."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return probe.getsockname()[1]


if __name__ == "__main__":
    unittest.main()
