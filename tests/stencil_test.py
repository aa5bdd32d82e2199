#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Try what docs/howto/stencil.md says, as it stands there: stencil_test.py WHERRY LIBRARY CC...

Its programs are built from the page's own blocks, print what the page says they print, and go on from a checkpoint on
another number of processes. Each mistake of its last table is made in one of them, and what the table quotes is printed.
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "howto" / "stencil.md").read_text()
WHOLE = ["heat.h", "heat1.c", "heat2.c", "heat.py", "heat1.py", "heat2.py"]  # the page has all of them
CLASS = 'must("class", wh_class_register(pe, &piece_class));'
HANG = ["--timeout", "5s", "--dump"]

# The words that begin a row of the table, the program, what is changed in it, the options of wherry run.
MISTAKES = [
    ("a class is registered on PE 0", "heat1", {CLASS: "if (wh_pe_number(pe) == 0)" + CLASS}, []),
    ("a function of a callback", "heat1",
     {'must("hottest", wh_function_register(pe, "hottest", on_hottest, NULL));': ""}, []),
    ("a class is registered twice", "heat1", {CLASS: 2 * CLASS}, []),
    ("the last piece", "heat1", {"neighbour >= PIECES": "neighbour > PIECES"}, []),
    ("a wrong number of an entry", "heat1", {"rod, piece_begin_entry": "rod, 7"}, []),
    ("an options struct", "heat1", {"WH_SEND_OPTS(.ref = p->step)": "&(wh_send_opts){.ref = p->step}"}, []),
    ("`wh_chare_when` is forgotten", "heat1",
     {'must("when", wh_chare_when(self, piece_take_edge_entry, p->step));': ""}, HANG),
    ("pieces contribute", "heat1", {"p->step % EVERY == 0": "p->step % EVERY == 0 && self->proxy.index[0]"}, []),
    ("nobody calls `wh_pe_exit`", "heat1", {"wh_pe_exit(pe, difference": "(void)(pe && difference"}, HANG),
    ("an entry that is not threaded", "heat2", {"WH_ENTRY_THREADED": "0"}, []),
    ("`.pack` and `.unpack`", "heat3", {".pack = pack,": "", ".unpack = unpack": ""}, []),
    ("`pack` returns", "heat3", {"return sizeof(piece);": "return to ? 8 : sizeof(piece);"}, []),
    ("a name of a strategy", "heat3", {'"greedy"': '"gredy"'}, []),
    ("`.balance` is left out", "heat3", {'.balance = "greedy",': ""}, []),
]


def squeeze(text):
    return " ".join(text.split())


def blocks(name):
    return re.findall(rf"^<!-- from examples/stencil/{re.escape(name)} -->\n```\w+\n(.*?)^```", PAGE, re.M | re.S)


def sources():
    """The programs: those of the page from its blocks, which must be all of the file but for its head."""
    found = {}
    for name in WHOLE:
        text, page = (ROOT / "examples" / "stencil" / name).read_text(), "\n".join(blocks(name))
        assert page and squeeze(text).endswith(squeeze(page)), f"the page lacks a part of {name}"
        head = squeeze(text)[:-len(squeeze(page))]
        assert "#include" not in head and "import" not in head, f"the page lacks the beginning of {name}: {head}"
        found[name] = page
    found["heat3.c"] = (ROOT / "examples" / "stencil" / "heat3.c").read_text()
    return found


class Tried:
    def __init__(self, wherry, library, compiler, folder):
        self.wherry, self.library, self.compiler, self.folder = wherry, library, compiler, folder
        self.sources = sources()

    def build(self, name, changes, place):
        """Builds a program with changes in it; they must be to something that is there."""
        texts = [self.sources["heat.h"], self.sources[name + ".c"]]
        for old, new in changes.items():
            assert any(old in text for text in texts), (name, old)
            texts = [text.replace(old, new) for text in texts]
        place.mkdir()
        (place / "heat.h").write_text(texts[0])
        (place / f"{name}.c").write_text(texts[1])
        subprocess.run([*self.compiler, "-O1", "-w", "-o", place / name, place / f"{name}.c", "-I", ROOT / "include",
                        "-L", self.library, "-lwherry", f"-Wl,-rpath,{self.library}", "-lm"], check=True)
        return place / name

    def run(self, processes, words, program, *args):
        env = {key: value for key, value in os.environ.items() if not key.startswith("WHERRY_")}
        return subprocess.run([self.wherry, "run", "-n", str(processes), *words, program, *args], env=env, text=True,
                              cwd=program.parent, capture_output=True, timeout=240)

    def outputs(self):
        """What the page shows behind each `$ wherry run ... ./heatN`."""
        for block in re.findall(r"^```\n(\$.*?)^```", PAGE, re.M | re.S):
            for processes, name, args, shown in re.findall(
                    r"^\$ wherry run -n (\d+) \./(heat\d)(.*)\n((?:[^$].*\n)*)", block, re.M):
                yield int(processes), name, args.split(), [line for line in shown.splitlines() if line != "..."]

    def programs(self):
        built = {name: self.build(name, {}, self.folder / name) for name in ("heat1", "heat2", "heat3")}
        count = 0
        for processes, name, args, shown in self.outputs():
            done = self.run(processes, [], built[name], *args)
            assert (done.returncode, done.stderr) == (0, ""), (name, done.returncode, done.stderr)
            printed = done.stdout.splitlines()
            if name == "heat3":  # loads are measured
                printed, shown = ([line.split("; ")[0] for line in lines] for lines in (printed, shown))
            assert shown and printed[0] == shown[0] and printed[-1] == shown[-1], (name, args, printed)
            assert not set(shown) - set(printed), (name, set(shown) - set(printed))
            count += 1
        assert count == 4, count
        self.timeline(built["heat3"])
        print(f"{count} runs print what the page shows")

    def timeline(self, program):
        done = self.run(2, ["--trace", self.folder / "t.json"], program, "saved2")
        assert done.returncode == 0, done.stderr
        names = {event.get("name") for event in json.loads((self.folder / "t.json").read_text())}
        assert {"piece.take_edge", "piece.rest", "idle"} <= names, names

    def mistakes(self):
        rows = [line for line in PAGE.split("| mistake |")[1].splitlines()[2:] if line.startswith("| ")]
        for number, (begin, name, changes, words) in enumerate(MISTAKES):
            row, = (row for row in rows if row.startswith("| " + begin))
            done = self.run(2, words, self.build(name, changes, self.folder / f"mistake{number}"), "saved")
            said = done.stdout + done.stderr
            quoted = re.findall(r"`(.*?)`", row.split(" | ")[1])
            assert done.returncode != 0, (begin, said)
            for text in quoted:
                if not text.startswith("wherry run"):
                    assert text.rstrip("0") in said, (begin, text, said[-3000:])
            print(f"{begin}: {quoted}")


def main():
    wherry, library, *compiler = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        tried = Tried(os.path.abspath(wherry), os.path.abspath(library), compiler, pathlib.Path(folder).resolve())
        tried.programs()
        tried.mistakes()


if __name__ == "__main__":
    main()
