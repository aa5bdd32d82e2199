# SPDX-License-Identifier: BSD-3-Clause
"""``python -m wherry.perf``: what messages cost from Python, between two processes of this machine.

`figures` holds what all parts share; `serve` is the other process; `ours` and `plain` measure Wherry,
and what stands beside it in the standard library; `peers` fetches and starts other libraries, whose
programs are the `peer_` files; `plot` draws, and `__main__` puts it together.
"""
