# SPDX-License-Identifier: BSD-3-Clause
"""Every PE says hello: ``wherry run -n 4 python hello.py``."""
from wherry.charm import Chare, Group, charm


class Hello(Chare):
    def greet(self, name):
        return f"hello {name}, from PE {self.thisIndex} of {charm.numPes()}"


async def main(args):
    hello = Group(Hello)
    for line in await hello.greet("world", ret=True):
        print(line)
    charm.exit()


charm.start(main)
