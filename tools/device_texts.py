#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Put the texts of the device's kernels into a C file: the PTX, and their source as one text.

    device_texts.py OUTPUT.c KERNELS.ptx SOURCE.h...

With `source` in place of an output the source alone is printed, as a compiler of CUDA takes it.
"""
import pathlib
import re
import sys


def source(headers):
    """The headers one behind the other; each includes only those before it, and the system's."""
    whole = "".join(pathlib.Path(header).read_text() for header in headers)
    return re.sub(r"^#include .*\n", "", whole, flags=re.M)


def array(name, text):
    # Numbers, since compilers need not take string literals beyond 4095 characters.
    data = text.encode() + b"\0"
    lines = (", ".join(str(byte) for byte in data[at:at + 32]) for at in range(0, len(data), 32))
    return "const char %s[] = {\n%s};\n" % (name, "".join(line + ",\n" for line in lines))


def main(output, ptx, *headers):
    if output == "source":
        print(source((ptx, *headers)), end="")
        return
    pathlib.Path(output).write_text(
        '#include "type/device/program.h"\n\n'
        + array("whi_device_ptx", pathlib.Path(ptx).read_text())
        + array("whi_device_source", source(headers)))


if __name__ == "__main__":
    main(*sys.argv[1:])
