# SPDX-License-Identifier: BSD-3-Clause
"""A map over tasks of very different length, whose workers steal from each other: ``wherry run -n 4 python steal.py 400``."""
import random

from wherry.charm import Chare, Future, Group, charm


def primes_below(n):
    """The task: what it takes grows with n, so the last tasks are the long ones."""
    return sum(all(k % d for d in range(2, int(k ** 0.5) + 1)) for k in range(2, n))


class Worker(Chare):
    def __init__(self):
        self.tasks = []  # a thief may come before the tasks do

    def start(self, tasks, end):
        self.tasks, self.end, self.results = tasks, end, {}
        self.step()

    def step(self):
        if self.tasks:
            task = self.tasks.pop()
            self.results[task] = primes_below(task)
            self.thisProxy[self.thisIndex].step()  # a message, so that a thief's comes in between
        else:
            self.thisProxy[self.thisIndex].steal()

    async def steal(self):
        victims = [pe for pe in range(charm.numPes()) if pe != self.thisIndex]
        random.shuffle(victims)
        for victim in victims:
            self.tasks = await self.thisProxy[victim].give_half(ret=True)
            if self.tasks:
                self.step()
                return
        self.end.send(self.results)  # tasks make no tasks: who finds none anywhere is done

    def give_half(self):
        half = (len(self.tasks) + 1) // 2
        given, self.tasks = self.tasks[:half], self.tasks[half:]
        return given


async def main(args):
    count, pes = int(args[1]) if len(args) > 1 else 200, charm.numPes()
    tasks = [10 * i for i in range(count)]
    workers, end = Group(Worker), Future(pes)
    for pe in range(pes):
        workers[pe].start(tasks[count * pe // pes:count * (pe + 1) // pes], end)
    results = {}
    shares = await end
    for share in shares if pes > 1 else [shares]:
        results.update(share)
    assert results == {task: primes_below(task) for task in tasks}
    print(f"{len(results)} tasks on {pes} PEs")
    charm.exit()


charm.start(main)
