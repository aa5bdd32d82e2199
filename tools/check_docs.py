#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Check that the documentation says what the code says.

  tables    the generated tables (status codes, configuration) are those of the code's lists
  snippets  each C block stands under a comment "from FILE" and occurs in that file
  names     each wh_..., WH_... and WHERRY_... exists
  variables docs/reference/configuration.md names each variable that the MPI library reads
  classes   docs/wire.md lists each message class with its number
  messages  docs/reference/log.md lists each error and warning of the log once, and no others; pages name no others
  links     each relative link leads to a file, and to a heading in it if it names one

--write puts the tables in.
"""
import argparse
import pathlib
import re
import sys

import mpi_table as mpi_functions

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
TABLE = r"(<!-- table: {} -->\n).*?(<!-- end of table -->)"
STRING = r'"((?:[^"\\]|\\.)*)"'
MESSAGE_ID = r"([EW]-[A-Z]+-\d+)"
OTHER_NAMES = {"WHERRY_LANE"}  # the tutorial's misspelled setting


def read(name):
    return (ROOT / name).read_text()


def rows_of(name, macro, *columns):
    """The rows of an X-list, as tuples of its columns."""
    text = read(name).split(macro, 1)[1].replace("\\\n", " ")
    table = re.sub(r'"\s+"', "", text.split("\n\n")[0])  # one string of those that C joins
    rows = re.findall(r"\bX\(" + r",\s*".join(columns) + r"\)", table)
    if len(rows) != len(re.findall(r"\bX\(\w", table)):
        sys.exit(f"check_docs: a row of {macro} in {name} cannot be read")
    return rows


def status_table():
    rows = rows_of("include/wherry/status.h", "#define WH_STATUS_LIST", r"(\w+)", r"(-?\d+)", STRING)
    lines = ["| code | number | text |", "|---|---|---|"]
    return lines + [f"| `WH_{name}` | {number} | {text} |" for name, number, text in rows]


def allowed(kind, low, high):
    """The column of a setting's values, from its type and bounds."""
    if kind in ("CHOICE", "LIST"):
        return " ".join(f"`{word}`" for word in low.split("|"))
    kinds = {"SIZE": "size", "UINT": "number", "MS": "time", "BOOL": "`yes` `no`", "STRING": "text",
             "SECRET": "text, never shown"}
    bounds = [f"from {low}"] * bool(low) + [f"to {high}"] * bool(high)
    return " ".join([kinds[kind] + ("," if bounds else ""), *bounds]).strip()


def configuration_table():
    rows = rows_of("src/base/config_table.h", "#define WHI_CONFIG_TABLE", r"(\w+)", STRING, r"(\w+)",
                   STRING, STRING, STRING, STRING)
    lines = ["| key | variable | default | values | meaning |", "|---|---|---|---|---|"]
    return lines + [f"| `{key}` | `{env}` | {f'`{default}`' if default else ''} "
                    f"| {allowed(kind, low, high)} | {doc} |"
                    for key, env, kind, default, low, high, doc in rows]


def mpi_table():
    """The functions of MPI by subject: those that are there, and stubs."""
    functions, subjects = mpi_functions.read(ROOT / "src/mpi/table.txt")
    lines = ["| subject | there | not yet there |", "|---|---|---|"]
    for subject, title in subjects.items():
        cells = {True: [], False: []}
        for function in functions:
            if function.subject == subject:
                cells[function.module != "none"].append(f"`MPI_{function.name}{'(_c)' if function.large else ''}`")
        lines.append(f"| {title} | {' '.join(cells[True])} | {' '.join(cells[False])} |")
    return lines


TABLES = {
    "mpi": ("docs/reference/mpi.md", mpi_table),
    "status": ("docs/reference/status.md", status_table),
    "configuration": ("docs/reference/configuration.md", configuration_table),
}


def check_tables(write):
    for name, (page, make) in TABLES.items():
        pattern, old = re.compile(TABLE.format(name), re.S), read(page)
        if not pattern.search(old):
            yield f"{page}: there is no place for the table '{name}'"
            continue
        new = pattern.sub(lambda m: m[1] + "\n".join(make()) + "\n" + m[2], old)
        if write:
            (ROOT / page).write_text(new)
        elif new != old:
            yield f"{page}: the table is not the code's; run tools/check_docs.py --write"


def squeeze(text):
    return " ".join(text.split())


def check_snippets():
    """A line "// ..." or "# ..." in a snippet stands for lines that were left out."""
    for page in PAGES:
        text = page.read_text()
        for match in re.finditer(r"^(<!-- from (\S+) -->\n)?```(?:c|python)\n(.*?)^```", text, re.M | re.S):
            where = f"{page.relative_to(ROOT)}:{text.count(chr(10), 0, match.start(3))}"
            if not match[2]:
                if text.startswith("```c", match.start()):
                    yield f"{where}: a C block that does not say <!-- from FILE -->"
                continue
            source, at = squeeze(read(match[2])), 0
            for part in re.split(r"^\s*(?://|#) \.\.\.\n", match[3], flags=re.M):
                found = source.find(squeeze(part), at)
                if found < 0:
                    yield f"{where}: not in {match[2]}: {part.strip().splitlines()[0]}"
                    break
                at = found + len(squeeze(part))


def names_of(header):
    """All names in a public header, also those that an X-list and ## make."""
    text = header.read_text()
    pasted = {prefix + row for prefix in re.findall(r"\b(WH_\w*)##", text)
              for row in re.findall(r"\bX\((\w+)", text)}
    return set(re.findall(r"\bwh_\w+|\bWH_\w+", text)) | pasted


def check_names():
    known = OTHER_NAMES.union(*(names_of(path) for path in (ROOT / "include/wherry").glob("*.h")))
    known |= set(re.findall(r"\bWHERRY_[A-Z]\w+", read("src/base/config_table.h")))
    # What `mpiexec -vp` says to the MPI library, which is no part of the configuration.
    known |= set(re.findall(r'getenv\("(WHERRY_\w+)"', "".join(path.read_text() for path in (ROOT / "src/mpi").glob("*/*.c"))))
    for page in PAGES:
        for number, line in enumerate(page.read_text().splitlines(), 1):
            for name in re.findall(r"\b(?:wh_\w+|WH_[A-Z]\w*|WHERRY_[A-Z]\w*)(?![\w*])", line):
                if name not in known and not name.endswith("_"):
                    yield f"{page.relative_to(ROOT)}:{number}: there is no {name}"


def check_variables():
    """Those that the MPI library reads stand beside the configuration."""
    page = "docs/reference/configuration.md"
    text = read(page)
    for path in sorted((ROOT / "src/mpi").glob("*/*.c")):
        for name in re.findall(r'getenv\("(WHERRY_MPI_\w+)"', path.read_text()):
            if f"`{name}`" not in text:
                yield f"{page}: no {name}, which {path.relative_to(ROOT)} reads"


def check_classes():
    text = read("docs/wire.md")
    for header in ("src/net/lane.h", "src/link/wire.h"):
        for name, number in re.findall(r"\bWHI_CLASS_(\w+)\s*=\s*(0x\w+)", read(header)):
            if name not in ("UNORDERED", "LANE") and f"| {number} | {name} |" not in text:
                yield f"docs/wire.md: no row | {number} | {name} |"


def logged_ids():
    """The ids of errors and warnings in what is built, without its tests."""
    sources = [path for folder in ("src", "cli", "ucd", "python/wherry") for path in (ROOT / folder).rglob("*")
               if path.suffix in (".c", ".h", ".py", ".pyx", ".pxi") and "test" not in path.stem]
    return set(re.findall(MESSAGE_ID.join('""'), "\n".join(path.read_text() for path in sources)))


def check_messages():
    page, known = "docs/reference/log.md", logged_ids()
    rows = re.findall(rf"^\| `{MESSAGE_ID}` \|", read(page), re.M)
    for name in sorted(known - set(rows)):
        yield f"{page}: no row for {name}"
    for name in sorted(set(rows) - known):
        yield f"{page}: {name} is not logged by anything"
    for name in sorted({name for name in rows if rows.count(name) > 1}):
        yield f"{page}: {name} stands there twice"
    for path in PAGES:
        for name in sorted(set(re.findall(rf"`{MESSAGE_ID}`", path.read_text())) - known):
            yield f"{path.relative_to(ROOT)}: nothing logs {name}"


def anchors(page):
    """The headings of a page as the names that links use."""
    titles = re.findall(r"^#+ (.*)$", page.read_text(), flags=re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def check_links():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
            if re.match(r"[a-z]+:", target):
                continue
            name, _, heading = target.partition("#")
            path = (page.parent / name).resolve() if name else page
            if not path.exists():
                yield f"{page.relative_to(ROOT)}: the link {target} leads nowhere"
            elif heading and heading not in anchors(path):
                yield f"{page.relative_to(ROOT)}: {target}: no such heading"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="put the generated tables in")
    problems = list(check_tables(parser.parse_args().write))
    for check in (check_snippets, check_names, check_variables, check_classes, check_messages, check_links):
        problems += check()
    print("\n".join(problems + [f"docs: {len(PAGES)} pages, {len(problems)} problems"]))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
