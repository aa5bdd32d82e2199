#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""tools/device_code.py over an nvcc of ours: what it is asked for, and what is built where it fails."""
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
TOOL = ROOT / "tools/device_code.py"

# Its code is what it was asked for.
NVCC = """#!/bin/sh
test "$1" = --list-gpu-code && printf 'sm_120\\nsm_52\\nsm_80\\nsm_70\\n' && exit
for word; do test "$before" = -o && out=$word; before=$word; done
echo "$@" > "$out"
"""
FAILS = """#!/bin/sh
test "$1" = --list-gpu-code && echo sm_80 && exit
for word; do test "$before" = -o && echo half > "$word"; before=$word; done
echo this host compiler is not supported >&2; exit 1
"""
OLD = "#!/bin/sh\necho sm_52\n"


def check(good, *what):
    if not good:
        sys.exit(" ".join(map(str, what)))


def run(folder, nvcc, *options):
    """Exit status, what it said, the code and the C file (None: not written)."""
    code, output = folder / "code.fatbin", folder / "code.c"
    output.unlink(missing_ok=True)
    if nvcc:
        program = folder / "nvcc"
        program.write_text(nvcc)
        program.chmod(0o755)
        options = ("--nvcc", program, *options)
    done = subprocess.run([sys.executable, TOOL, output, code, *options, ROOT / "src/type/device/args.h"],
                          capture_output=True, text=True)
    return (done.returncode, done.stderr, code.read_text(),
            output.read_text() if output.exists() else None)


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        status, said, code, text = run(folder, None)
        check(status == 0 and not said and not code and "whi_device_code" in text, "no nvcc:", said)

        status, said, code, text = run(folder, NVCC, "--required")
        asked = [word for word in code.split() if word.startswith("-gencode=")]
        wanted = [f"-gencode=arch=compute_{n},code=sm_{n}" for n in (70, 80, 120)]
        check(status == 0 and asked == wanted, "nvcc was asked for", asked, said)
        check(str(folder.resolve() / "code.fatbin") in text, "not embedded:", text)

        for nvcc, why in (FAILS, "host compiler is not supported"), (OLD, "no architecture from 70"):
            status, said, code, text = run(folder, nvcc)
            check(status == 0 and why in said and not code and text, "auto:", status, said)
            status, said, code, text = run(folder, nvcc, "--required")
            check(status != 0 and why in said and not text, "required:", status, said)


if __name__ == "__main__":
    main()
