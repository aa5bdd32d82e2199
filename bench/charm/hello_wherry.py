# SPDX-License-Identifier: BSD-3-Clause
"""A job that begins, hears once of each process, and ends, over wherry.charm: hello_wherry.py"""
import kit

from wherry.charm import Chare, Group, charm


class Hello(Chare):
    def memory(self):
        return kit.proportional_kib()


async def main(args):
    kit.tell({"kib": await Group(Hello).memory(ret=True)})
    charm.exit()


charm.start(main)
