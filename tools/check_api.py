#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Check that four lists of the public functions are one list.

  declared    WH_API functions in include/wherry/*.h
  mapped      global symbols of src/libwherry.map
  exported    dynamic symbols of the built library (--library)
  documented  `wh_name` in docs/reference/*.md; strict as soon as the folder has a page

that wherry.h includes every public header, and that each compiles alone as C11 and as C++17.  --write-map rewrites the map from
the headers, which is how a new function gets in.
"""
import argparse
import os
import pathlib
import re
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
MAP = ROOT / "src/libwherry.map"
HEADERS = sorted((ROOT / "include/wherry").glob("*.h"))


def declared():
    """Public function -> the header that declares it."""
    found = {}
    for header in HEADERS:
        text = re.sub(r"/\*.*?\*/|//[^\n]*", "", header.read_text(), flags=re.S)
        text = re.sub(r"^\s*#(?:.*\\\n)*.*$", "", text, flags=re.M)
        for name in re.findall(r"\bWH_API\b[^;{]*?\b(wh_\w+)\s*\(", text):
            found[name] = header.name
    return found


def mapped():
    text = re.sub(r"/\*.*?\*/", "", MAP.read_text(), flags=re.S)
    return set(re.findall(r"\b(wh_\w+);", text))


def exported(library):
    text = subprocess.run(["nm", "-D", "--defined-only", library], check=True, text=True,
                          stdout=subprocess.PIPE).stdout
    symbols = {line.split()[-1].split("@")[0] for line in text.splitlines()}
    return {name for name in symbols if not name.startswith("WHERRY_")}


def version_clash(library):
    """How the library's soname and its symbols' version disagree: a program must not load another's."""
    node = re.search(r"^WHERRY_([\d.]+) {", MAP.read_text(), flags=re.M).group(1)
    text = subprocess.run(["readelf", "--dynamic", "--wide", library], check=True, text=True,
                          stdout=subprocess.PIPE, env=dict(os.environ, LC_ALL="C")).stdout
    soname = re.search(r"soname: \[(.*)\]", text).group(1)
    if soname == f"libwherry.so.{node}":
        return []
    return [f"the soname is {soname}, the symbols' version {node}: change both together"]


def documented():
    """Names in back quotes, alone or with their arguments, in the reference."""
    names = set()
    for page in (ROOT / "docs/reference").glob("*.md"):
        text = page.read_text()
        names |= set(re.findall(r"`(wh_\w+)(?:\([^`]*\))?`", text))
        for block in re.findall(r"^```c\n(.*?)^```", text, flags=re.M | re.S):
            names |= set(re.findall(r"\b(wh_\w+)\s*\(", block))
    return names


def write_map():
    """Replace the names of the map's (single, newest) version node by those declared."""
    names = "".join(f"    {name};\n" for name in sorted(declared()))
    head, _, rest = MAP.read_text().partition("global:\n")
    MAP.write_text(head + "global:\n" + names + rest[rest.index("local:"):])
    print(f"{MAP.relative_to(ROOT)}: {len(declared())} functions")


def compare(title, have, want, where):
    """Print what differs between two sets of names; return how many do."""
    for name in sorted(want - have):
        print(f"{title}: {name} is missing ({where[name]})")
    for name in sorted(have - want):
        print(f"{title}: {name} is there but not declared with WH_API in include/wherry")
    return len(have ^ want)


def left_out():
    """Public headers that wherry.h does not include, itself or through another."""
    includes = {header.name: set(re.findall(r"#include <wherry/(\w+\.h)>", header.read_text()))
                for header in HEADERS}
    reached, todo = set(), ["wherry.h"]
    while todo:
        name = todo.pop()
        if name not in reached:
            reached.add(name)
            todo.extend(includes.get(name, ()))
    return sorted(set(includes) - reached)


def compile_alone(header):
    """Compile one header by itself, with the strictest flags, as both languages."""
    text = f"#include <wherry/{header.name}>\nextern int not_empty;\n"  # as C wants it
    bad = 0
    for language, standard, compiler in (("c", "c11", "CC"), ("c++", "c++17", "CXX")):
        command = shlex.split(os.environ.get(compiler, "gcc"))
        command += ["-x", language, f"-std={standard}", "-Wall", "-Wextra", "-Wpedantic", "-Werror",
                    f"-I{ROOT / 'include'}", "-fsyntax-only", "-"]
        run = subprocess.run(command, input=text, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if run.returncode:
            bad += 1
            print(f"wherry/{header.name} does not compile alone as {standard}:\n{run.stdout}")
    return bad


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", default=str(ROOT / "build/libwherry.so"))
    parser.add_argument("--no-reference", action="store_true", help="leave the documentation out")
    parser.add_argument("--write-map", action="store_true", help="write src/libwherry.map and stop")
    args = parser.parse_args()
    if args.write_map:
        return write_map()

    functions = declared()
    want = set(functions)
    bad = compare("map", mapped(), want, functions)
    bad += compare("library", exported(args.library), want, functions)
    if not args.no_reference:
        missing = sorted(want - documented())
        if any((ROOT / "docs/reference").glob("*.md")):
            bad += len(missing)
            for name in missing:
                print(f"reference: {name} ({functions[name]}) is not in docs/reference")
        else:
            print(f"reference: there is no page yet, {len(missing)} functions wait for one")
    for sentence in version_clash(args.library):
        bad += 1
        print(f"library: {sentence}")
    for name in left_out():
        bad += 1
        print(f"wherry/{name} is not included by wherry/wherry.h")
    bad += sum(compile_alone(header) for header in HEADERS)
    print(f"api: {len(want)} functions in {len(HEADERS)} headers, {bad} problems")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
