# SPDX-License-Identifier: BSD-3-Clause
"""Try the wheels wherry-mpi and wherry-mpi-names: the part of check_wheel.py that is about MPI.

In the empty environment that has the wheel wherry: what the wheel of MPI holds; a program in C, compiled and started by it; the
extra `names`; mpi4py built from its sources by its mpicc; and the wheel of MPICH installed beside it, whose files and ours stay
as they are.  The last two come from PyPI and are left out, by name, where that cannot be reached.
"""
import os
import shutil
import subprocess
import zipfile

from wheel_kit import NoTools, ROOT, clean, demand, run

MPI4PY = "mpi4py==4.1.2"
SECONDS = 120
LONG = 600  # to compile mpi4py
OWN = {"wherry_mpi/" + name for name in (
    "__init__.py", "__main__.py", "programs.py", "bin/mpicc", "bin/mpicxx", "bin/mpic++", "bin/mpicc_abi", "bin/mpicxx_abi", "bin/mpiexec",
    "bin/mpirun", "include/mpi.h", "lib/libmpi_abi.so", "lib/libmpi_abi.so.0", "lib/libmpi_abi.so.1", "lib/libmpi_vp.a",
    "lib/libwherry_mpix.so", "include/wherry_mpix.h", "lib/pkgconfig/wherry-mpi.pc")}
NAMES = ("mpicc", "mpicxx", "mpic++", "mpicc_abi", "mpicxx_abi", "mpiexec", "mpirun")
RANKS = [f"rank {rank} of 4" for rank in range(4)]
# The largest sum of ranks so far, from each rank to all; the process has one engine though two packages ask for it.
PROGRAM = """
import wherry
from mpi4py import MPI
comm = MPI.COMM_WORLD
total = comm.allreduce(comm.rank)
engines = {line.split()[-1] for line in open("/proc/self/maps") if "/libwherry.so" in line}
assert "Wherry" in MPI.Get_library_version() and len(engines) == 1, (MPI.Get_library_version(), engines)
print("rank", comm.rank, "of", comm.size, "sum", total, flush=True)
"""


def build(folder):
    """Both wheels.  The one of MPI is compiled in the folder of the wheel wherry, where libwherry is already."""
    tools, dist = folder / "tools" / "bin", folder / "dist"
    env = {**clean(), "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"}
    wheel = [tools / "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index", "-w", dist]
    run(*wheel, f"--config-settings=build-dir={folder / 'build'}", ROOT / "python" / "mpi", env=env)
    # From a copy, since setuptools writes beside the sources.
    source = folder / "names-source"
    shutil.rmtree(source, ignore_errors=True)
    shutil.copytree(ROOT / "python" / "mpi" / "names", source)
    run(*wheel, source, env=env)
    found, = dist.glob("wherry_mpi-*.whl")
    names = set(zipfile.ZipFile(found).namelist())
    demand(OWN <= names, f"{found.name} lacks {OWN - names}")
    demand(all(name.startswith(("wherry_mpi/", "wherry_mpi-")) and ".data/" not in name for name in names),
           f"{found.name} brings more than its package: {names}")
    return found


class Place:
    """The environment, as somebody has it who has only it in the PATH."""

    def __init__(self, folder, home):
        self.folder, self.home, self.work = folder, home, home / "work"
        self.env = {**clean("LD_LIBRARY_PATH", "MPI"), "PATH": f"{home / 'bin'}{os.pathsep}/usr/bin{os.pathsep}/bin"}
        self.work.mkdir(exist_ok=True)

    def say(self, *words, limit=SECONDS, **more):
        return run(*words, env={**self.env, **more}, cwd=self.work, timeout=limit)

    def check_ranks(self, *words):
        lines = sorted(self.say(*words).splitlines())
        demand(lines == RANKS, f"{words}: {lines}")


def try_c(place):
    """A program in C, by the module and by the folder that it names; with virtual ranks; and with the former soname."""
    python, hello = place.home / "bin" / "python", ROOT / "tests" / "mpi" / "hello.c"
    place.say(python, "-m", "wherry_mpi", "mpicc", "-Wall", "-Werror", hello, "-o", "hello")
    for start in (["wherry", "mpiexec"], [python, "-m", "wherry_mpi", "mpiexec"]):
        place.check_ranks(*start, "-n", "4", "./hello")
    folder = place.say(python, "-m", "wherry_mpi", "--bin").strip()
    place.say(f"{folder}/mpicc", "-vp", hello, "-o", "many")
    place.check_ranks(f"{folder}/mpiexec", "-n", "2", "-vp", "4", "./many")
    library = place.say(python, "-m", "wherry_mpi", "--lib").strip()
    place.say("cc", hello, f"-I{place.say(python, '-m', 'wherry_mpi', '--include').strip()}", f"{library}/libmpi_abi.so.0",
              f"{library}/libmpi_abi.so.1", f"-Wl,-rpath,{library}", "-Wl,--no-as-needed", "-o", "former")
    place.check_ranks("wherry", "mpiexec", "-n", "4", "./former")
    flags = place.say("pkg-config", "--cflags", "--libs", "wherry-mpi", PKG_CONFIG_PATH=f"{library}/pkgconfig").split()
    place.say("cc", hello, *flags, "-o", "asked")
    place.check_ranks("wherry", "mpiexec", "-n", "4", "./asked")
    print("   mpicc, mpiexec, virtual ranks, libmpi_abi.so.0, pkg-config")


def try_names(place, pip, dist):
    """The names are there with the extra only."""
    there = [name for name in NAMES if (place.home / "bin" / name).exists()]
    demand(not there, f"without the extra there are {there}")
    run(*pip, "install", "--quiet", "--no-index", "--find-links", dist, "wherry-mpi[names]")
    place.say("mpicc", ROOT / "tests" / "mpi" / "hello.c", "-o", "named")
    place.check_ranks("mpiexec", "-n", "4", "./named")
    done = subprocess.run(["mpiexec", "-n", "2", "sh", "-c", "exit 3"], env=place.env, capture_output=True, timeout=SECONDS)
    demand(done.returncode == 3, f"mpiexec: status {done.returncode} in place of 3")
    run(*pip, "uninstall", "--quiet", "-y", "wherry-mpi-names")
    print("   wherry-mpi[names]: mpicc, mpiexec in the environment's bin")


def try_mpi4py(place, pip):
    """mpi4py, compiled the first time; what it was compiled for is in the wheel, which lies where nothing else looks for one."""
    kept = place.folder / "mpi4py"
    if not list(kept.glob("mpi4py-*.whl")):
        mpicc = place.say(place.home / "bin" / "python", "-m", "wherry_mpi", "--bin").strip() + "/mpicc"
        run(*pip, "wheel", "--quiet", "--no-cache-dir", "--no-deps", "--no-binary", "mpi4py", "-w", kept, MPI4PY, failure=NoTools,
            env={**place.env, "MPI4PY_BUILD_MPICC": mpicc, "CFLAGS": "-O0"}, timeout=LONG)
    run(*pip, "install", "--quiet", "--no-index", *kept.glob("mpi4py-*.whl"))
    (place.work / "x.py").write_text(PROGRAM)
    lines = sorted(place.say("wherry", "mpiexec", "-n", "4", "python", "x.py").splitlines())
    demand(lines == [f"{each} sum 6" for each in RANKS], f"mpi4py: {lines}")
    print(f"   {MPI4PY}, built by mpicc: four ranks")


def files_of(place, package):
    """The files that pip has installed for a package, with what is in them."""
    script = ("import sys; from importlib.metadata import files\n"
              "print(*[each.locate() for each in files(sys.argv[1]) if '__pycache__' not in str(each)], sep='\\n')")
    names = place.say(place.home / "bin" / "python", "-c", script, package).splitlines()
    return {os.path.realpath(name): open(name, "rb").read() for name in names}


def try_beside(place, pip):
    """With the wheel of MPICH in the same environment, in both orders of installation."""
    ours = files_of(place, "wherry-mpi")
    run(*pip, "install", "--quiet", "--no-deps", "mpich", failure=NoTools)
    theirs = files_of(place, "mpich")
    demand(not ours.keys() & theirs.keys(), f"both have {ours.keys() & theirs.keys()}")
    demand(files_of(place, "wherry-mpi") == ours, "the wheel of MPICH has changed files of ours")
    wheel, = (place.folder / "dist").glob("wherry_mpi-*.whl")
    run(*pip, "install", "--quiet", "--no-index", "--no-deps", "--force-reinstall", wheel)
    demand(files_of(place, "mpich") == theirs, "the wheel of MPI has changed files of MPICH's")
    place.check_ranks("wherry", "mpiexec", "-n", "4", "./hello")
    place.check_ranks("mpiexec", "-n", "4", "./hello")  # MPICH's launcher, our library
    lines = place.say("wherry", "mpiexec", "-n", "4", "python", "x.py").splitlines() if (place.work / "x.py").exists() else RANKS
    demand(len(lines) == 4, f"mpi4py beside MPICH: {lines}")
    run(*pip, "uninstall", "--quiet", "-y", "mpich")
    print("   beside the wheel of MPICH, nothing is overwritten; its mpiexec starts our ranks")


def check(folder, home, pip):
    """All of it, in the environment `home`, whose packages `pip` installs; what is built and fetched is kept in `folder`."""
    wheel = build(folder)
    run(*pip, "install", "--quiet", "--no-index", wheel)
    print(f"   {wheel.name}, {wheel.stat().st_size / 1e6:.1f} MB")
    place = Place(folder, home)
    try_c(place)
    try_names(place, pip, folder / "dist")
    for attempt in (try_mpi4py, try_beside):
        try:
            attempt(place, pip)
        except NoTools as error:
            print(f"   left out, {attempt.__name__}: {str(error).splitlines()[-1]}")
