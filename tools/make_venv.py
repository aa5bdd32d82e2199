#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Make the virtual environment .venv, in which `import wherry` is what was built.

    tools/make_venv.py [--venv FOLDER] BUILD

Nothing is installed into it: a path file names BUILD/python, so that it is never stale.  The system's
packages are seen, and numpy, which the examples use, comes from PyPI where the system has none.
When all is in place nothing happens; what cannot be made is said, and is no failure of the build.
Other scripts make their environments with `with_packages`.
"""
import argparse
import pathlib
import subprocess
import sys
import sysconfig
import venv

ROOT = pathlib.Path(__file__).resolve().parent.parent
PATH_FILE = "wherry-build.pth"  # also tells that the environment is ours


def says(python, program):
    """What a program of one line prints; None when it fails or cannot start."""
    if not python.exists():
        return None
    done = subprocess.run([python, "-c", program], capture_output=True, text=True,
                          stdin=subprocess.DEVNULL)
    return done.stdout.strip() if done.returncode == 0 else None


def install(python, packages, **how):
    """Installs packages from PyPI.  `how`: as subprocess.run takes it; CalledProcessError where it fails."""
    subprocess.run([python, "-m", "pip", "install", "--quiet", *packages], check=True, **how)


def with_packages(home, packages, base=sys.executable, **how):
    """An environment of its own, made anew with packages from PyPI: its Python.  `how`: as for `install`."""
    subprocess.run([base, "-m", "venv", "--clear", home], check=True, **how)
    python = home / "bin" / "python"
    install(python, packages, **how)
    return python


def imports_built(python, package):
    said = says(python, "import os, wherry; print(os.path.realpath(wherry.__file__))")
    return said is not None and pathlib.Path(said).parent == package


def make(home):
    print(f"make_venv: making {home} with {sys.executable}")
    try:
        # What was made by an interpreter that is gone is made anew.
        venv.create(home, system_site_packages=True, with_pip=True, clear=True)
    except subprocess.CalledProcessError:
        print("make_venv: without pip, because ensurepip is missing (Debian: python3-venv)")
        venv.create(home, system_site_packages=True, clear=True)


def fill(home, package):
    """Has the environment import the package that was built; whether it does, or may not."""
    python = home / "bin" / "python"
    if imports_built(python, package):
        return True
    if says(python, "import sys; print(sys.version)") != sys.version:
        if home.exists() and not list(home.glob(f"lib/python*/site-packages/{PATH_FILE}")):
            print(f"make_venv: {home} is of another Python and somebody else's: left as it is")
            return True
        make(home)
    site = says(python, "import sysconfig; print(sysconfig.get_path('platlib'))")
    pathlib.Path(site, PATH_FILE).write_text(f"{package.parent}\n")
    return imports_built(python, package)


def main():
    parser = argparse.ArgumentParser(prog="tools/make_venv.py")
    parser.add_argument("--venv", type=pathlib.Path, default=ROOT / ".venv")
    parser.add_argument("build", type=pathlib.Path)
    options = parser.parse_args()
    home, package = options.venv.absolute(), (options.build / "python" / "wherry").resolve()
    if not (package / f"_core{sysconfig.get_config_var('EXT_SUFFIX')}").exists():
        print(f"make_venv: no {home}, because the Python package was not built for {sys.executable}")
        return
    try:
        if not fill(home, package):
            print(f"make_venv: {home} does not import {package}")
        elif says(home / "bin" / "python", "import numpy") is None:
            print(f"make_venv: installing numpy from PyPI into {home}")
            install(home / "bin" / "python", ["numpy"])
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"make_venv: {error}")


if __name__ == "__main__":
    main()
