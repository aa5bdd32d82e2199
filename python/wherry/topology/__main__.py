# SPDX-License-Identifier: BSD-3-Clause
"""``python -m wherry.topology``, ``wherry-topo`` and, through it, ``wherry topo``."""
import argparse
import sys
from typing import Optional, Sequence

from wherry.topology import as_json, draw, from_machine, from_xml, matrix

FAILED = 1


def main(words: Optional[Sequence[str]] = None) -> int:
    """Prints or draws; the process's exit code, which is 1 with a sentence on standard error."""
    parser = argparse.ArgumentParser(
        prog="wherry topo",
        description="Prints how near the GPUs, network devices and NUMA nodes of a machine are to each other.")
    parser.add_argument("--xml", metavar="FILE", help="of the machine in a file of hwloc's, not of this one")
    parser.add_argument("--svg", metavar="FILE", help="draw it into this file, and print nothing")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of the table")
    options = parser.parse_args(words)
    if options.svg and options.json:
        parser.error("--svg and --json exclude each other")
    try:
        topology = from_xml(options.xml) if options.xml else from_machine()
        if options.svg:
            draw(topology, options.svg)
        else:
            print(as_json(topology) if options.json else matrix(topology), end="\n" if options.json else "")
            sys.stdout.flush()
    except (OSError, ValueError) as error:
        print(f"wherry topo: {error}", file=sys.stderr)
        return FAILED
    return 0


if __name__ == "__main__":
    sys.exit(main())
