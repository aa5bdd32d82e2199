# SPDX-License-Identifier: BSD-3-Clause
"""A job that begins, hears once of each process, and ends, over charm4py: hello_charm4py.py"""
import kit
from charm4py import Chare, Group, charm


class Hello(Chare):
    def memory(self):
        return kit.proportional_kib()


def main(args):
    kit.tell({"kib": Group(Hello).memory(ret=True).get()})
    charm.exit()


charm.start(main)
