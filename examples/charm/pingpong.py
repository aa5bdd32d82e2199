# SPDX-License-Identifier: BSD-3-Clause
"""How long a call takes, by its size: ``wherry run -n 2 python pingpong.py``."""
import time

from wherry.charm import Chare, Future, charm


class Player(Chare):
    def begin(self, other, data, rounds, end):
        self.other, self.left, self.end = other, rounds, end
        self.began = time.perf_counter()
        other.play(self.thisProxy, data)

    def play(self, back, data):
        back.again(data)

    def again(self, data):
        self.left -= 1
        if self.left:
            self.other.play(self.thisProxy, data)
        else:
            self.end.send(time.perf_counter() - self.began)


async def main(args):
    rounds = int(args[1]) if len(args) > 1 else 1000
    here = Chare(Player, onPE=0)
    there = Chare(Player, onPE=charm.numPes() - 1)
    for size in (8, 1024, 65536):
        end = Future()
        here.begin(there, bytes(size), rounds, end)
        seconds = await end
        print(f"{size:6} bytes: {seconds / rounds / 2 * 1e6:8.1f} us")
    charm.exit()


charm.start(main)
