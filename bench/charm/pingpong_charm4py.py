# SPDX-License-Identifier: BSD-3-Clause
"""Half round trips of numpy arrays between two processes, over charm4py: pingpong_charm4py.py CORES SECONDS SIZE..."""
import kit
import numpy
from charm4py import Channel, Chare, Future, Group, charm, coro


class Player(Chare):
    def __init__(self, cores):
        kit.pin(cores, charm.myPe())
        self.leads = charm.myPe() == 0
        self.other = self.thisProxy[1 - charm.myPe()]
        self.channel = Channel(self, remote=self.other)

    def begin(self, data, rounds, end):
        self.rounds, self.end, self.stamps = rounds, end, [kit.clock()]
        self.other.play(data)

    def play(self, data):
        if self.leads:
            self.stamps.append(kit.clock())
            if len(self.stamps) > self.rounds:
                self.end.send(kit.half_round(self.stamps))
                return
        self.other.play(data)

    @coro
    def exchange(self, data, rounds, end):
        channel, stamps = self.channel, [kit.clock()]
        for _ in range(rounds):
            if self.leads:
                channel.send(data)
                channel.recv()
                stamps.append(kit.clock())
            else:
                channel.send(channel.recv())
        if self.leads:
            end.send(kit.half_round(stamps))


def measure(begin, data, seconds):
    """The median of half a round in us."""
    took, rounds = 0, kit.FIRST_ROUNDS
    while took < seconds:
        end = Future()
        begin(data, rounds, end)
        took, half = end.get()
        rounds *= 2
    return half


def main(args):
    cores, seconds, found = args[1], float(args[2]), {"entry": {}, "channel": {}}
    players = Group(Player, args=[cores])
    for size in args[3:]:
        data = numpy.zeros(int(size), numpy.uint8)
        found["entry"][size] = measure(players[0].begin, data, seconds)
        found["channel"][size] = measure(players.exchange, data, seconds)
    kit.tell(found)
    charm.exit()


charm.start(main)
