"""A Slurm cluster of this machine alone, for `pytest -m slurm`; needs slurm-wlm, munge and root.

Its configuration, keys, sockets and logs are in one directory; nothing in /etc is read or written.
"""

import contextlib
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import time

PROGRAMS = ("slurmctld", "slurmd", "munged", "sbatch", "srun")

# Requeued jobs begin when their credentials have expired: here after seconds, by default after two
# minutes. One core may hold two jobs, as on a laptop of two cores eight of them are to run.
CONFIGURATION = """
ClusterName=one
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=5
SlurmUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=sched_interval=2,bf_interval=2
ReturnToService=2
SlurmdParameters=config_overrides
MpiDefault=none
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
KillWait=60
NodeName={host} NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs={cpus} State=UNKNOWN
NodeName={host}-b NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs={cpus} State=UNKNOWN
PartitionName=main Nodes={host},{host}-b Default=YES MaxTime=INFINITE OverTimeLimit=0 State=UP
"""


def missing() -> str | None:
    """Why no cluster can be started here, or None."""
    absent = [name for name in PROGRAMS if shutil.which(name) is None]
    if absent:
        return f"{', '.join(absent)} not found: apt-get install slurm-wlm munge"
    return None if os.geteuid() == 0 else "slurmd needs root"


def _ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for free in sockets:
            free.bind(("127.0.0.1", 0))
        return [free.getsockname()[1] for free in sockets]


@contextlib.contextmanager
def cluster(folder: pathlib.Path, cpus: int = 8):
    """Two nodes of so many CPUs each; sets $SLURM_CONF while they run."""
    host = socket.gethostname().partition(".")[0]
    folder.mkdir(parents=True)
    folder.chmod(0o755)
    (folder / "state").mkdir()
    key = folder / "munge.key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o600)
    configuration = folder / "slurm.conf"
    configuration.write_text(
        CONFIGURATION.format(host=host, folder=folder, cpus=cpus, ports=_ports(3))
    )
    munged = ["--force", f"--key-file={key}", f"--socket={folder / 'munge.socket'}"]
    munged += [f"--{name}-file={folder / f'munged.{name}'}" for name in ("log", "pid", "seed")]
    os.environ["SLURM_CONF"] = str(configuration)
    try:
        subprocess.run(["munged", *munged], check=True)
        subprocess.run(["slurmctld", "-f", configuration], check=True)
        for name in (host, f"{host}-b"):
            subprocess.run(["slurmd", "-f", configuration, "-N", name], check=True)
        deadline = time.monotonic() + 60
        while queue("sinfo", "-h", "-o", "%T").split() != ["idle"]:
            if time.monotonic() > deadline:
                raise RuntimeError(f"the nodes do not become idle; see {folder}/*.log")
            time.sleep(0.5)
        yield
    finally:
        for path in (*folder.glob("slurmd-*.pid"), *folder.glob("*.pid")):
            with contextlib.suppress(ProcessLookupError, ValueError, FileNotFoundError):
                os.kill(int(path.read_text()), signal.SIGTERM)
        del os.environ["SLURM_CONF"]


def queue(*command: str) -> str:
    """What a command of Slurm prints."""
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
