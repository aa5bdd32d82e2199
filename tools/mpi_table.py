#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Read src/mpi/table.txt, the functions of MPI, and write what the build makes from it.

    mpi_table.py TABLE mpi.h ABI_PART... > mpi.h
    mpi_table.py TABLE bodies.h > bodies.h
    mpi_table.py TABLE map > libmpi_abi.map
    mpi_table.py TABLE fronts SUBJECT > front_SUBJECT.c
"""
import dataclasses
import pathlib
import re
import sys

import mpi_fronts
from mpi_kinds import KINDS, OBJECTS, declare

ROW = re.compile(r"(?:(\w+) )?(\w+)\((.*)\) (\w+)((?: _c| any| compared)*)$")
ARGUMENT = re.compile(r"(\w+) (\w+)(?:\[(\w+)\])?(?:@(\w+))?$")


@dataclasses.dataclass
class Argument:
    kind: str
    name: str
    length: str = None  # of an array
    where: str = None  # it is significant: root, leaf, member, given; or all ranks give it alike: same


@dataclasses.dataclass
class Function:
    name: str  # without MPI_
    result: str
    arguments: list
    module: str
    large: bool  # it has a twin for large counts
    any_time: bool
    compared: bool
    subject: str  # a key of Table.subjects

    @property
    def body(self):
        return f"mpi_{self.name.lower()}"

    @property
    def forms(self):
        """The names of its forms, without MPI_, and whether it is the one for large counts."""
        return [(self.name, False)] + ([(f"{self.name}_c", True)] if self.large else [])

    def prototype(self, name, large):
        arguments = [declare(c_type(a.kind, large), a.name) for a in self.arguments]
        return f"{self.result}{'' if self.result.endswith('*') else ' '}{name}({', '.join(arguments) or 'void'})"

    def body_prototype(self):
        # Without names: bodies call their arguments as they like.
        arguments = [declare(KINDS[a.kind][2] or KINDS[a.kind][0], "").rstrip() for a in self.arguments]
        return f"int {self.body}({', '.join(arguments) or 'void'})"


def c_type(kind, large):
    return large and KINDS[kind][1] or KINDS[kind][0]


def read_argument(text, where):
    if text == "...":
        return Argument("...", "")
    match = ARGUMENT.match(text)
    if not match or match.group(1) not in KINDS:
        sys.exit(f"{where}: no argument: {text}")
    return Argument(*match.groups())


def read(path):
    """The rows of the table, and its subjects: key to title."""
    functions, subjects, subject = [], {}, None
    for number, line in enumerate(pathlib.Path(path).read_text().splitlines(), 1):
        where = f"{path}:{number}"
        if not line or line.startswith("#"):
            continue
        heading = re.match(r"\[(\w+)\] (.+)", line)
        if heading:
            subject = heading.group(1)
            subjects[subject] = heading.group(2)
            continue
        row = ROW.match(line)
        if not row:
            sys.exit(f"{where}: no row: {line}")
        result, name, arguments, module, flags = row.groups()
        listed = [read_argument(text, where) for text in arguments.split(", ")] if arguments else []
        functions.append(Function(name, result or "int", listed, module, *(flag in flags.split() for flag in ("_c", "any", "compared")), subject))
    return functions, subjects


def write_mpi_h(functions, subjects, parts):
    """mpi.h: what is written by hand, and the prototypes."""
    print("// SPDX-License-Identifier: BSD-3-Clause\n//\n"
          "// MPI 5.0, with the standard's ABI 1.0.  Made from src/mpi/abi and src/mpi/table.txt of Wherry.\n"
          "#ifndef WHERRY_MPI_H\n#define WHERRY_MPI_H\n")
    texts = [pathlib.Path(part).read_text().split("\n\n", 1) for part in parts]
    print("#include <stdint.h>\n\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n")
    for _, text in texts:
        print(text.replace("#include <stdint.h>\n\n", ""))
    for prefix in ("MPI_", "PMPI_"):
        for subject, title in subjects.items():
            print(f"// {title}.")
            for function in functions:
                if function.subject == subject:
                    for name, large in function.forms:
                        print(function.prototype(prefix + name, large) + ";")
            print()
    print("#ifdef __cplusplus\n}\n#endif\n#endif")


def write_bodies_h(functions):
    print("// SPDX-License-Identifier: BSD-3-Clause\n//\n"
          "// The bodies of the functions of MPI, made from src/mpi/table.txt: what the fronts call once all arguments are checked.\n"
          "#ifndef WHM_BODIES_H\n#define WHM_BODIES_H\n\n#include <mpi.h>\n")
    for _, struct, *_ in OBJECTS.values():
        print(f"typedef struct {struct} {struct};")
    print()
    for function in functions:
        if function.module not in ("special", "made"):
            print(function.body_prototype() + ";")
    print("\n#endif")


def write_map(functions):
    """The version script: what is exported.  The symbols carry no version, as the ABI knows none."""
    names = [name for function in functions for name, _ in function.forms]
    print("{\nglobal:")
    for name in names:
        print(f"    MPI_{name}; PMPI_{name};")
    print("local: *;\n};")


def main():
    functions, subjects = read(sys.argv[1])
    what = sys.argv[2]
    if what == "mpi.h":
        write_mpi_h(functions, subjects, sys.argv[3:])
    elif what == "bodies.h":
        write_bodies_h(functions)
    elif what == "map":
        write_map(functions)
    elif what == "fronts":
        mpi_fronts.write(functions, sys.argv[3])
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
