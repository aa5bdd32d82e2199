# SPDX-License-Identifier: BSD-3-Clause
"""Makes the wheel wherry-mpi: what Meson installs with the tag `mpi`, beside the package wherry_mpi.

pip calls it (PEP 517).  The library is C behind a C interface, so one wheel is for all versions of Python.  Meson-python, which
makes the wheel wherry, takes one distribution from a tree, and setuptools writes beside the sources; what is left to do is a zip
file with three texts.  Folders of the environment itself, bin and lib, get nothing: the wheels of MPICH and Open MPI have files
of the same names there, and pip overwrites without a word.

`--config-settings=build-dir=FOLDER` keeps what is compiled; FOLDER may be that of the wheel wherry, where most is there already.
"""
import base64
import hashlib
import os
import pathlib
import re
import subprocess
import sysconfig
import tempfile
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
SETUP = ["-Dpython=disabled", "-Dwheel=true", "-Dhwloc=disabled", "-Ddevice_code=disabled", "-Ddebug=false"]
METADATA = """\
Metadata-Version: 2.1
Name: wherry-mpi
Version: {version}
Summary: MPI behind the standard's ABI, on Wherry
License: BSD-3-Clause
Requires-Python: >=3.10
Requires-Dist: wherry~={version}
Requires-Dist: wherry-mpi-names~={version}; extra == "names"
Provides-Extra: names
Classifier: Operating System :: POSIX :: Linux
Classifier: Programming Language :: C
Classifier: Programming Language :: Python :: 3
"""
WHEEL = """\
Wheel-Version: 1.0
Generator: wherry-mpi
Root-Is-Purelib: false
Tag: {tag}
"""


def version():
    """The one place that says it."""
    header = (ROOT / "include" / "wherry" / "version.h").read_text()
    return re.search(r'^#define WH_VERSION_STRING "(.*)"$', header, re.M)[1]


def tag_of_platform():
    return "py3-none-" + re.sub(r"[-.]", "_", sysconfig.get_platform())


def install(build, destination):
    """Compiles what is missing and installs the files of MPI."""
    def run(*command):
        subprocess.run([str(word) for word in command], check=True)
    meson = os.environ.get("MESON", "meson").split()  # as meson-python does, which may have made the folder
    if not (build / "build.ninja").exists():
        run(*meson, "setup", build, ROOT, "--prefix=/", *SETUP)
    run("ninja", "-C", build, "mpi-package")
    run(*meson, "install", "-C", build, "--no-rebuild", "--strip", "--tags=mpi", f"--destdir={destination}")
    found = list(destination.rglob("wherry_mpi"))
    if len(found) != 1:
        raise SystemExit(f"Meson has installed no wherry_mpi into {destination}")
    return found[0]


class Wheel:
    """A wheel that is being written: it keeps the digest of each file for the last one, which lists them."""

    def __init__(self, path, info):
        self.archive, self.info, self.records = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED), info, []

    def add(self, name, data, mode=0o644):
        entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
        entry.external_attr = (0o100000 | mode) << 16
        entry.compress_type = zipfile.ZIP_DEFLATED
        self.archive.writestr(entry, data)
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        self.records.append(f"{name},sha256={digest},{len(data)}\n")

    def close(self):
        self.records.append(f"{self.info}/RECORD,,\n")
        self.archive.writestr(f"{self.info}/RECORD", "".join(self.records))
        self.archive.close()


def write_info(folder, number, tag):
    """The texts that say what the wheel is; returns the folder's name."""
    info = pathlib.Path(folder, f"wherry_mpi-{number}.dist-info")
    info.mkdir()
    (info / "METADATA").write_text(METADATA.format(version=number))
    (info / "WHEEL").write_text(WHEEL.format(tag=tag))
    return info.name


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    """PEP 517: what pip wants to know before it has anything built."""
    return write_info(metadata_directory, version(), tag_of_platform())


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """PEP 517: makes the wheel and returns its name."""
    number, tag = version(), tag_of_platform()
    name = f"wherry_mpi-{number}-{tag}.whl"
    with tempfile.TemporaryDirectory() as folder:
        kept = (config_settings or {}).get("build-dir")
        package = install(pathlib.Path(kept or folder + "/build").resolve(), pathlib.Path(folder, "installed"))
        info = write_info(folder, number, tag)
        wheel = Wheel(os.path.join(wheel_directory, name), info)
        for root, into in ((package, "wherry_mpi"), (HERE / "wherry_mpi", "wherry_mpi"), (pathlib.Path(folder, info), info)):
            for path in sorted(path for path in root.rglob("*") if path.is_file() and path.suffix != ".pyc"):
                mode = 0o755 if path.parent.name == "bin" or ".so." in path.name else 0o644
                wheel.add(f"{into}/{path.relative_to(root)}", path.read_bytes(), mode)
        wheel.close()
    return name
