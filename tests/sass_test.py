#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Look at the machine code of the device's kernels for all architectures that a compiler here knows.

    sass_test.py BUILD

Compilers are nvcc, where it is in the PATH (what the build has compiled by it is not compiled again), and the NVRTC that
makes kernels.ptx, from PyPI; cuobjdump comes from the PATH or from PyPI.  No kernel may spill registers, and those of 16-byte words must load and store them whole.
Exit 77 where there is no compiler.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import device_texts  # noqa: E402
import make_ptx  # noqa: E402

OF_NVRTC = (70, 75, 80, 86, 89, 90)  # of 12.1
DISASSEMBLER = ("nvidia-cuda-cuobjdump", "nvidia-cuda-nvdisasm")

# A subarray of three loops, as special.c would ask for it.
SPECIAL = """#define WHI_CONST_LOOPS 2
#define WHI_CONST_NARROW 1
#define WHI_CONST_UNPACK 0
#define WHI_CONST_SIZES {5184ull,272ull,}
#define WHI_CONST_STRIDES {9216ll,384ll,}
"""


def programs():
    """Name and text: the general kernels, and two special ones."""
    source = device_texts.source(make_ptx.SOURCE)
    yield "general", source
    yield "special move", SPECIAL + source + "\nWHI_DEFINE_MOVE(16, whi_word16)\n"
    yield "special transpose", (SPECIAL.replace("272ull", "16ull") + source
                                + "\nWHI_DEFINE_TRANSPOSE(16, whi_word16)\n")


def chosen(architectures):
    """Name, text and architecture: the general kernels for all, the special ones for the ends."""
    for name, text in programs():
        for architecture in architectures:
            if name == "general" or architecture in (architectures[0], architectures[-1]):
                yield name, text, architecture


def by_nvcc(folder, build):
    """(what, architecture, file of code) for each architecture."""
    nvcc = shutil.which("nvcc")
    if not nvcc:
        print("nvcc: not in the PATH")
        return
    known = subprocess.run([nvcc, "--list-gpu-arch"], capture_output=True, text=True).stdout
    architectures = sorted({int(number) for number in re.findall(r"compute_(\d+)", known)})
    built = pathlib.Path(build) / "src" / "type" / "device_code.fatbin"
    is_built = built.exists() and built.stat().st_size > 0
    print("nvcc:", *architectures, *["(general: as built)"] * is_built)
    for name, text, architecture in chosen(architectures):
        if name == "general" and is_built:
            yield name, architecture, built
            continue
        source = folder / "kernels.cu"
        source.write_text(text)
        code = folder / f"nvcc-{architecture}-{name.replace(' ', '-')}.cubin"
        done = subprocess.run([nvcc, f"-arch=sm_{architecture}", "-cubin", "-o", code, source],
                              capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"nvcc does not compile {name} for sm_{architecture}:\n{done.stderr}")
        yield name, architecture, code


def by_nvrtc(folder, build):
    try:
        nvrtc = make_ptx.Nvrtc(make_ptx.fetch(build))
    except OSError as error:
        print("NVRTC:", error)
        return
    print("NVRTC:", *OF_NVRTC)
    for name, text, architecture in chosen(OF_NVRTC):
        code = folder / f"nvrtc-{architecture}-{name.replace(' ', '-')}.cubin"
        code.write_bytes(nvrtc.compile(text, f"--gpu-architecture=sm_{architecture}",
                                       result="CUBIN"))
        yield name, architecture, code


def disassembler(build):
    """The path of cuobjdump, or None; nvdisasm, which it calls, is in the PATH afterwards."""
    found = shutil.which("cuobjdump")
    if found and shutil.which("nvdisasm"):
        return found
    try:
        home = make_ptx.fetch_wheels(build, "cuobjdump-wheel", *DISASSEMBLER)
    except OSError as error:
        print("cuobjdump:", error)
        return None
    for name in ("nvdisasm", "cuobjdump"):
        found = next(path for path in home.rglob(name) if path.is_file())
        found.chmod(0o755)
        os.environ["PATH"] = f"{found.parent}:{os.environ['PATH']}"
    return str(found)


def functions_of(cuobjdump, code, architecture):
    """Names and texts in turn; none: this release cannot read the code of that one."""
    of = [f"-arch=sm_{architecture}"] if code.suffix == ".fatbin" else []  # a file of many
    said = subprocess.run([cuobjdump, "-sass", *of, code], capture_output=True, text=True)
    return re.split(r"Function : (\w+)", said.stdout)[1:] if said.returncode == 0 else []


def complaints(functions):
    """What is wrong with the machine code of kernels."""
    for name, text in zip(functions[::2], functions[1::2]):
        if re.search(r"\b(LDL|STL)\b", text):
            yield f"{name} spills registers"
        wide = (re.search(r"\bLDG?\.E\.128\b|\bLDG?\.128\b", text)
                and re.search(r"\bSTG?\.E\.128\b|\bSTG?\.128\b", text))
        if name.endswith("_16") and not wide:
            yield f"{name} has no load and store of 16 bytes"


def main():
    build, bad, count = sys.argv[1], [], 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        made = [*by_nvcc(folder, build), *by_nvrtc(folder, build)]
        if not made:
            print("skipped: neither nvcc nor NVRTC can be had")
            return 77
        cuobjdump = disassembler(build)
        for what, architecture, code in made if cuobjdump else []:
            functions = functions_of(cuobjdump, code, architecture)
            if not functions:
                print(f"cuobjdump does not read {code.name} of sm_{architecture}")
            bad += [f"{what}, sm_{architecture}: {text}" for text in complaints(functions)]
            count += functions != []
        if cuobjdump and not count:
            bad.append("cuobjdump reads none of them")
    print(*bad, sep="\n", end="\n" if bad else "")
    print(f"{len(made)} programs compiled, the machine code of {count} looked at: "
          f"{len(bad)} complaints")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
