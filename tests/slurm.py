# SPDX-License-Identifier: BSD-3-Clause
"""A Slurm of one node for a test: munged, slurmctld and slurmd in a folder of their own, reached over loopback only.

Nothing of the machine's own Slurm is used but its programs.  What the daemons keep, their key and their configuration are
below the folder, which only this user can read; SLURM_CONF leads srun there.
"""
import atexit
import ctypes
import os
import pathlib
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time

UP = 30  # seconds until a node counts as one that does not come up
PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None)

# No plugins that need cgroups, which containers lack.  A task that does not end when asked to is killed after a second, not
# after 30.
CONFIG = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
SlurmctldPort={ctld_port}
SlurmdPort={slurmd_port}
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
SlurmdSpoolDir={folder}/spool
TmpFS={folder}/tmp
StateSaveLocation={folder}/state
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
ReturnToService=2
KillWait=1
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} State=UNKNOWN
PartitionName=test Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:64
"""


class Failed(Exception):
    """It cannot be started here; the text says why."""


def program(name):
    """Daemons lie where the PATH of most users does not lead."""
    return shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin:/usr/local/sbin")


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def start():
    """Start it, until the end of this process; return the environment that leads to it."""
    missing = [name for name in ("munged", "slurmctld", "slurmd", "srun", "sinfo") if not program(name)]
    if missing:
        raise Failed(f"there is no {missing[0]} (Debian: slurmctld, slurmd, slurm-client, munge)")
    folder = pathlib.Path(tempfile.mkdtemp(prefix="wherry-slurm-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for name in ("spool", "state", "tmp"):
        (folder / name).mkdir()
    config = configure(folder)
    environment = {**os.environ, "SLURM_CONF": str(config)}
    start_munge(folder)
    for name in ("slurmctld", "slurmd"):
        start_daemon(environment, name, "-D")
    wait_until_up(folder, environment)
    return {"SLURM_CONF": str(config)}


def configure(folder):
    ctld_port, slurmd_port = free_ports(2)
    config = folder / "slurm.conf"
    config.write_text(CONFIG.format(
        folder=folder, host=socket.gethostname().partition(".")[0], user=pwd.getpwuid(os.getuid()).pw_name,
        ctld_port=ctld_port, slurmd_port=slurmd_port, cpus=os.cpu_count()))
    (folder / "cgroup.conf").write_text("CgroupAutomount=no\n")
    return config


def start_munge(folder):
    """Who knows the key may start programs here; so it is a new one.  (--force: the folder is not for everybody.)"""
    key = folder / "munge.key"
    key.touch(mode=0o600)
    key.write_bytes(os.urandom(128))
    start_daemon(os.environ, "munged", "--foreground", "--force", f"--key-file={key}",
                 *(f"--{what}={folder}/munge.{what.partition('-')[0]}" for what in
                   ("socket", "pid-file", "log-file", "seed-file")))


def start_daemon(environment, name, *words):
    daemon = subprocess.Popen([program(name), *words], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, env=environment, start_new_session=True, preexec_fn=end_with_parent)
    atexit.register(end, daemon)


def end_with_parent():
    """A test that is killed, as for its time, runs nothing at its exit."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def end(daemon):
    daemon.terminate()
    try:
        daemon.wait(10)
    except subprocess.TimeoutExpired:
        daemon.kill()
        daemon.wait()


def wait_until_up(folder, environment):
    until = time.monotonic() + UP
    state = "unknown"
    while time.monotonic() < until:
        asked = subprocess.run([program("sinfo"), "--noheader", "--format=%T"], capture_output=True, text=True,
                               env=environment)
        state = asked.stdout.strip() or asked.stderr.strip()
        if state == "idle":
            return
        time.sleep(0.1)
    logs = "".join(f"{path.name}: {path.read_text(errors='replace')[-1000:]}\n" for path in folder.glob("*.log"))
    raise Failed(f"a Slurm of one node does not come up here in {UP} s, it is {state}\n{logs}")
