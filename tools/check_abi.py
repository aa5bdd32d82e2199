#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compare the binary interface that the public headers give with the one that is recorded.

    check_abi.py            say what differs; exit code 1 when something does, 77 without abidw
    check_abi.py --write    record what is there

src/libwherry.abi is the record: signatures, sizes, offsets and values, one per line.  It is made from
the headers alone (tools/check_api.py sees that the library exports what they declare), by ${CC:-gcc}
and libabigail's abidw (Debian: abigail-tools), so nothing has to be built, and no path or compiler of
a machine is in it.  gcc and clang give the same text.
"""
import argparse
import difflib
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

import check_api

ROOT = check_api.ROOT
RECORD = ROOT / "src" / "libwherry.abi"
SKIPPED = 77
HEAD = """\
# The binary interface of libwherry.so.0.2, from include/wherry: written by tools/check_abi.py --write.
# What changes here is a line in CHANGELOG.md, too.
"""
OURS = re.compile(r"wh_|WH_")
KEYWORDS = {"class-decl": "struct", "union-decl": "union", "enum-decl": "enum"}
ORDER = ("signed", "unsigned", "short", "long", "char", "int")  # of the words of C's integers


def compiler():
    return [*shlex.split(os.environ.get("CC", "gcc")), f"-I{ROOT / 'include'}", "-std=gnu11"]


def program():
    """C that mentions all types and functions: a variable stands for each function's signature."""
    lines = [f"#include <wherry/{header.name}>" for header in check_api.HEADERS]
    lines += [f"__typeof__(&{name}) abi_{name};" for name in sorted(check_api.declared())]
    return "\n".join(lines) + "\n"


def constants(text):
    """Macros that stand for one value."""
    said = subprocess.run([*compiler(), "-dM", "-E", "-x", "c", "-"], check=True, input=text,
                          text=True, stdout=subprocess.PIPE).stdout
    found = re.findall(r"^#define (WH_\w+) (.+)$", said, flags=re.M)
    return [f"#define {name} {value}" for name, value in found
            if not name.startswith("WH_VERSION_") and not value.startswith("__attribute__")]


def described(text):
    """abidw's description of the program."""
    with tempfile.TemporaryDirectory() as folder:
        made = pathlib.Path(folder, "abi.so")
        subprocess.run([*compiler(), "-O0", "-g", "-fno-eliminate-unused-debug-types", "-shared",
                        "-fPIC", "-x", "c", "-o", made, "-"], check=True, input=text, text=True)
        said = subprocess.run(["abidw", "--load-all-types", "--no-show-locs", made], check=True,
                              stdout=subprocess.PIPE).stdout
    return xml.etree.ElementTree.fromstring(said)


class Types:
    """Names of types, and the lines that define ours."""

    def __init__(self, corpus):
        self.by_id = {node.get("id"): node for node in corpus.iter() if node.get("id")}

    def name(self, id):
        node = self.by_id[id]
        return getattr(self, node.tag.replace("-", "_"))(node)

    def type_decl(self, node):
        words = node.get("name").split()
        if not set(words) <= set(ORDER):
            return " ".join(words)
        # `long unsigned int` and `unsigned long` are one type.
        words = [word for word in words if word != "int" or len(words) == 1]
        return " ".join(sorted(words, key=ORDER.index))

    def typedef_decl(self, node):
        # abidw keeps one of several functions whose types differ in such names only: no help here.
        return self.name(node.get("type-id"))

    def class_decl(self, node):
        name = node.get("name")
        return name if OURS.match(name) else f"{KEYWORDS[node.tag]} {name}"

    union_decl = enum_decl = class_decl

    def array_type_def(self, node):
        return self.name(node.get("type-id")) + "".join(f"[{part.get('length')}]" for part in node)

    def qualified_type_def(self, node):
        words = " ".join(word for word in ("const", "volatile", "restrict") if node.get(word))
        name = self.name(node.get("type-id"))
        return f"{name}{words}" if name.endswith("*") else f"{words} {name}"

    def pointer_type_def(self, node):
        name = self.name(node.get("type-id"))
        if self.by_id[node.get("type-id")].tag == "function-type":
            return name.replace(" (", " (*)(", 1)
        return f"{name}*" if name.endswith("*") else f"{name} *"

    def function_type(self, node):
        said = [self.name(part.get("type-id")) if part.get("type-id") else "..."
                for part in node.iterfind("parameter")]
        return f"{self.name(node.find('return').get('type-id'))} ({', '.join(said) or 'void'})"

    def definition(self, node):
        """The lines of a type; none when it is not ours, or opaque."""
        name = node.get("name", "")
        if not (OURS.match(name) or node.tag == "enum-decl" and node.get("is-anonymous")):
            return []
        if node.tag == "typedef-decl":
            target = self.name(node.get("type-id"))
            return [] if target == name else [f"typedef {name}: {target}"]
        if node.tag == "enum-decl":
            return ["enum" if node.get("is-anonymous") else f"enum {name}",
                    *(f"    {part.get('name')} = {part.get('value')}"
                      for part in node.iterfind("enumerator"))]
        if node.tag not in ("class-decl", "union-decl") or node.get("is-declaration-only"):
            return []
        size = int(node.get("size-in-bits")) // 8
        return [f"{KEYWORDS[node.tag]} {name}: {size} bytes", *self.members(node, 0)]

    def members(self, node, base):
        """Offset, type and name of each; what has no name is opened."""
        for part in node.iterfind("data-member"):
            bits, variable = base + int(part.get("layout-offset-in-bits", 0)), part.find("var-decl")
            inner = self.by_id[variable.get("type-id")]
            if inner.get("is-anonymous") and inner.tag != "enum-decl":
                yield from self.members(inner, bits)
                continue
            at = f"{bits // 8}.{bits % 8}" if bits % 8 else f"{bits // 8}"
            yield f"    {at} {self.name(variable.get('type-id'))} {variable.get('name')}"


def versions():
    """Function -> the version that its symbol bears."""
    nodes = re.findall(r"^([\w.]+) \{(.*?)^\}", check_api.MAP.read_text(), flags=re.M | re.S)
    return {name: version for version, body in nodes for name in re.findall(r"\b(wh_\w+);", body)}


def interface():
    text = program()
    corpus = described(text)
    types = Types(corpus)
    version = versions()
    blocks = {"\n".join(types.definition(node)) for node in types.by_id.values()} - {""}
    for variable in corpus.iter("var-decl"):
        if variable.get("name").startswith("abi_wh_"):
            name, said = variable.get("name")[4:], types.name(variable.get("type-id"))
            said = said.replace("(*)", "", 1)  # of the function, not of a pointer to it
            blocks.add(f"{name}@{version.get(name, '(not in the map)')}: {said}")
    return HEAD + "".join(f"{block}\n" for block in sorted(blocks) + sorted(constants(text)))


def main():
    parser = argparse.ArgumentParser(prog="tools/check_abi.py")
    parser.add_argument("--write", action="store_true", help="write src/libwherry.abi and stop")
    options = parser.parse_args()
    if not shutil.which("abidw"):
        print("skipped: abidw is not installed (Debian: abigail-tools)")
        return 1 if options.write else SKIPPED
    found = interface()
    if options.write:
        RECORD.write_text(found)
        print(f"{RECORD.relative_to(ROOT)}: {found.count(chr(10))} lines")
        return 0
    known = RECORD.read_text()
    if found == known:
        return 0
    print(*difflib.unified_diff(known.splitlines(), found.splitlines(), "src/libwherry.abi",
                                "include/wherry", n=1, lineterm=""), sep="\n")
    print("abi: the public headers give another binary interface than src/libwherry.abi says.  If that\n"
          "is meant: tools/check_abi.py --write, and a line in CHANGELOG.md that tells users.")
    return 1


if __name__ == "__main__":
    sys.exit(main())
