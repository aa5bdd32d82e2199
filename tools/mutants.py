#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Break one line at a time and see that the named test notices.

    mutants.py [--list FILE] [--timeout SECONDS] [WORD...]     (only mutants whose text has a WORD)
    mutants.py --check      (only look whether each line to break is there, as `make test` does)

tools/mutants.txt says which lines and which tests.  The work happens in a copy of the tree with one
build folder, where a mutant costs one incremental build of what its test needs and nothing else.  A
mutant is killed when its test fails or hangs; it survives when the test passes three times (what a
race needs can fail to happen on a busy machine), and that is a failure here.  An old text that does
not occur exactly once, a mutant that does not compile and a test that fails without any mutant are
failures too, because each of them would hide a survivor.
"""
import argparse
import json
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
MESON = shlex.split(os.environ.get("MESON", "meson"))
FIELDS = ("file", "old", "new", "test")
TRIES = 3


def read_blocks(path):
    """The mutants of the list: blocks of `field: text` lines, parted by empty lines."""
    mutants, block = [], {}
    for number, line in enumerate([*path.read_text().splitlines(), ""], 1):
        if line.startswith("#"):
            continue
        if line.strip():
            field, colon, text = line.partition(":")
            if not colon or field not in FIELDS or field in block:
                sys.exit(f"{path}:{number}: expected one of {', '.join(FIELDS)}, each once")
            block[field] = text.strip()
            block.setdefault("where", f"{path.name}:{number}")
        elif block:
            absent = [field for field in FIELDS if field not in block]
            if absent:
                sys.exit(f"{path}:{number}: the block has no {' and no '.join(absent)}")
            mutants.append(block)
            block = {}
    return mutants


def why_not(path, old):
    """Why the text cannot be replaced in the file, or None."""
    if not path.is_file():
        return "there is no such file"
    found = path.read_text().count(old)
    return None if found == 1 else f"the old text occurs {found} times, not once"


def check(mutants):
    """Say which mutants cannot be made in this tree; return how many."""
    bad = 0
    for mutant in mutants:
        why = why_not(ROOT / mutant["file"], mutant["old"])
        if why:
            print(f"{mutant['where']}: {mutant['file']}: {why}")
            bad += 1
    print(f"mutants: {len(mutants)}, {bad} cannot be made")
    return bad


class Tree:
    """A copy of the project with a build folder, in which one file at a time is changed."""

    def __init__(self, folder, timeout, tests):
        self.root = pathlib.Path(folder) / "tree"
        self.timeout = timeout
        skip = shutil.ignore_patterns("build*", ".git", ".venv", "__pycache__")
        shutil.copytree(ROOT, self.root, ignore=skip, symlinks=True)
        self.run(*MESON, "setup", "build", "-Ddebug=false", check=True)
        self.needs = self.needed_by(tests)
        self.sound = {}  # test: whether it passes without any mutant
        self.limits = {}  # test: seconds, by how long that took

    def run(self, *command, check=False):
        done = subprocess.run(command, cwd=self.root, text=True, errors="replace",
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)
        if check and done.returncode:
            sys.exit(f"{shlex.join(command)} failed in the copy:\n{done.stdout}")
        return done

    def needed_by(self, tests):
        """The files that each of the tests needs, as ninja names them."""
        told = json.loads(self.run(*MESON, "introspect", "build", "--tests", "--targets",
                                   check=True).stdout)
        folder = self.root / "build"
        files = {target["id"]: [os.path.relpath(file, folder) for file in target["filename"]]
                 for target in told["targets"]}
        needs = {}
        for test in told["tests"]:
            if test["name"] in tests:
                needs[test["name"]] = [file for target in test["depends"] for file in files[target]]
        for test in tests:
            if test not in needs:
                sys.exit(f"there is no test named {test}")
        return needs

    def build(self, test, check=False):
        return self.run(*MESON, "compile", "-C", "build", "--ninja-args",
                        ",".join(self.needs[test]), check=check)

    def is_sound(self, test):
        if test not in self.sound:
            self.build(test, check=True)
            begin = time.monotonic()
            self.sound[test] = self.passes(test, 10 * self.timeout)
            self.limits[test] = max(self.timeout, 3 * (time.monotonic() - begin))
        return self.sound[test]

    def passes(self, test, limit):
        """Whether the test passes; meson's own timeout of each test is replaced by this one."""
        command = [*MESON, "test", "-C", "build", "--no-rebuild", test]
        running = subprocess.Popen(command, cwd=self.root, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            return running.wait(limit) == 0
        except subprocess.TimeoutExpired:
            running.terminate()  # on which meson ends the test and what it started
            running.wait()
            return False

    def verdict(self, mutant):
        """What became of the mutant: 'killed', or the reason why it counts as a failure."""
        path = self.root / mutant["file"]
        why = why_not(path, mutant["old"])
        if why:
            return why
        if not self.is_sound(mutant["test"]):
            return "the test fails without any mutant"
        good = path.read_text()
        path.write_text(good.replace(mutant["old"], mutant["new"]))
        try:
            if self.build(mutant["test"]).returncode:
                return "it does not compile"
            survives = all(self.passes(mutant["test"], self.limits[mutant["test"]]) for _ in range(TRIES))
            return "survived" if survives else "killed"
        finally:
            path.write_text(good)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("words", nargs="*", metavar="WORD")
    parser.add_argument("--list", type=pathlib.Path, default=ROOT / "tools/mutants.txt")
    parser.add_argument("--timeout", type=float, default=60, help="seconds for one test; a longer one has three times what it takes without mutants")
    parser.add_argument("--check", action="store_true", help="only look for the old texts")
    args = parser.parse_args()
    mutants = [mutant for mutant in read_blocks(args.list)
               if not args.words or any(word in " ".join(mutant.values()) for word in args.words)]
    if args.check:
        return 1 if check(mutants) else 0
    killed = 0
    with tempfile.TemporaryDirectory(prefix="wherry-mutants-") as folder:
        tree = Tree(folder, args.timeout, {mutant["test"] for mutant in mutants})
        for mutant in mutants:
            verdict = tree.verdict(mutant)
            killed += verdict == "killed"
            print(f"{mutant['where']}: {mutant['file']} ({mutant['test']}): {verdict}", flush=True)
            if verdict != "killed":
                print(f"    - {mutant['old']}\n    + {mutant['new']}", flush=True)
    print(f"\n{killed} passed, {len(mutants) - killed} failed")
    return 0 if mutants and killed == len(mutants) else 1


if __name__ == "__main__":
    sys.exit(main())
