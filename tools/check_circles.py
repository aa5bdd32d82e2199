#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Check who calls whom, measured from the object files of a build: check_circles.py BUILD [--all]

Files that call each other in a circle can only be read together: no circle has more than MOST files,
none crosses folders of src, and no folder has more than FOLDER_MOST C files.  --all prints every
circle, also those that are allowed.
"""
import collections
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
MOST = 8
FOLDER_MOST = 40


def symbols(objects):
    """What each source defines, and what it uses: {symbol: source}, {source: {symbol}}."""
    defines, uses = {}, {}
    for path in objects:
        source = path.name.removesuffix(".c.o").replace("_", "/", 1)  # src_link_acceptor.c.o
        uses[source] = set()
        listing = subprocess.run(["nm", str(path)], capture_output=True, text=True, check=True).stdout
        for line in listing.splitlines():
            kind, symbol = line.split()[-2:]
            if kind == "U":
                uses[source].add(symbol)
            elif kind in "TDBRWVC":
                defines.setdefault(symbol, source)
    return defines, uses


def circles(graph):
    """Strongly connected components of more than one node (R. Tarjan, 1972), without recursion."""
    order, low, stack, found = {}, {}, [], []
    for root in sorted(graph):
        if root in order:
            continue
        path = [(root, iter(sorted(graph[root])))]
        order[root] = low[root] = len(order)
        stack.append(root)
        while path:
            node, rest = path[-1]
            other = next(rest, None)
            if other is None:
                path.pop()
                if path:
                    low[path[-1][0]] = min(low[path[-1][0]], low[node])
                if low[node] == order[node]:
                    at = stack.index(node)
                    if len(stack) - at > 1:
                        found.append(sorted(stack[at:]))
                    del stack[at:]
            elif other not in order:
                order[other] = low[other] = len(order)
                stack.append(other)
                path.append((other, iter(sorted(graph[other]))))
            elif other in stack:
                low[node] = min(low[node], order[other])
    return sorted(found, key=len, reverse=True)


def room_of(source, rooms):
    """The folder of src that an object's name begins with: src/net_shm_ring is of net/shm."""
    name = source.removeprefix("src/")
    return max((room for room in rooms if name.startswith(room.replace("/", "_") + "_")), key=len)


# Files of src/mpi on another floor than their folder: communicators as such, below messages; the comparison of calls, which the end of MPI needs, too; what
# begins and ends all parts.
MPI_FLOORS = {**dict.fromkeys(("comm/comm", "comm/group", "comm/context", "comm/topology", "comm/hints"), "communicators"),
              "comm/compare": "comparison", **dict.fromkeys(("env/begin", "env/init"), "begin")}


def mpi_room(source, folders):
    """The floor of the MPI library that a file of src/mpi stands on."""
    del folders
    return "mpi/" + MPI_FLOORS.get(source, source.partition("/")[0])


def measure(objects, room, folders):
    """Circles of files, and what is wrong with them or with the calls between rooms."""
    defines, uses = symbols(objects)
    graph = {name: {defines[s] for s in used if defines.get(s, name) != name}
             for name, used in uses.items()}
    found, bad = circles(graph), []
    for files in found:
        rooms = {room(name, folders) for name in files}
        line = f"{len(files)} files call each other in a circle: {' '.join(files)}"
        if len(files) > MOST:
            bad.append(line)
        elif len(rooms) > 1:
            bad.append(f"across {', '.join(sorted(rooms))}: {line}")
        elif "--all" in sys.argv:
            print(line)
    edges = {(room(a, folders), room(b, folders)) for a in graph for b in graph[a]}
    bad += [f"src/{a} and src/{b} call each other" for a, b in sorted(edges)
            if a < b and (b, a) in edges]
    return found, bad


def objects_of(folder, source):
    """The objects in a folder of a build whose sources are there: those of renamed ones stay until it is cleaned."""
    known = {path.relative_to(source).as_posix().replace("/", "_") + ".o" for path in (ROOT / "src").rglob("*.c")
             if path.is_relative_to(source)}
    found = [path for path in sorted(folder.glob("*.c.o")) if path.name in known]
    if not found:
        sys.exit(f"{folder} holds no objects of the library: build it first")
    return found


def main():
    build = pathlib.Path(sys.argv[1])
    folders = collections.Counter(path.parent.relative_to(ROOT / "src").as_posix()
                                  for path in (ROOT / "src").rglob("*.c")
                                  if not path.stem.endswith("_test"))
    bad = [f"src/{folder} has {count} C files, more than {FOLDER_MOST}: part it"
           for folder, count in sorted(folders.items()) if count > FOLDER_MOST]
    engine = objects_of(build / "libwherry_internal.a.p", ROOT)
    mpi = objects_of(build / "src/mpi/libmpi_internal.a.p", ROOT / "src/mpi")
    found, wrong = measure(engine, room_of, folders)
    found_mpi, wrong_mpi = measure(mpi, mpi_room, folders)
    found, bad = found + found_mpi, bad + wrong + wrong_mpi
    print(*bad, sep="\n", end="\n" if bad else "")
    print(f"circles: {len(engine) + len(mpi)} files, {len(found)} circles, the largest of "
          f"{max(map(len, found), default=0)}, {len(bad)} violations")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
