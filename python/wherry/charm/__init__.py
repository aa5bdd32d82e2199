# SPDX-License-Identifier: BSD-3-Clause
"""Message-driven objects for Python: chares, that call each other's methods over processes and hosts.

A program is started by ``wherry run -n 4 python program.py``, or by itself as one process::

    from wherry.charm import charm, Chare, Group

    class Hello(Chare):
        def greet(self, name):
            return f"hello {name}, from PE {self.thisIndex}"

    async def main(args):
        hello = Group(Hello)
        print(*await hello.greet("world", ret=True), sep="\\n")
        charm.exit()

    charm.start(main)

The names are those of Charm4py where they mean the same: docs/howto/charm.md says what differs.
"""
import wherry.charm as charm
from wherry.charm._balance import BalanceElement, addStrategy
from wherry.charm._chare import Array, ArrayMap, Chare, Group, coro, register, when
from wherry.charm._checkpoint import checkpoint, restart
from wherry.charm._core import Channel, Future, Proxy, RemoteError
from wherry.charm._device import DeviceArray
from wherry.charm._reducer import Reducer
from wherry.charm._run import (
    BalanceStep, awaitCreation, exit, iwait, lastBalance, myPe, numPes, quiescence, readonlies, sleep, start, wait)

__all__ = [
    "Array", "ArrayMap", "BalanceElement", "BalanceStep", "Channel", "Chare", "DeviceArray", "Future", "Group", "Proxy", "Reducer",
    "RemoteError", "addStrategy", "awaitCreation", "charm", "checkpoint", "coro", "exit", "iwait", "lastBalance", "myPe", "numPes", "quiescence", "readonlies",
    "register", "restart", "sleep", "start", "wait", "when",
]
