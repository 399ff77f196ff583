"""A real Slurm of one node on this machine, from Debian's slurm-wlm and munge, for as long as a test needs it."""

import os
import shutil
import socket
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path

PROGRAMS = ("slurmctld", "slurmd", "sbatch", "squeue", "scontrol", "munged")
CONFIGURATION = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmdPort={node}
AuthType=auth/munge
AuthInfo=cred_expire=5
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
SlurmUser=root
ReturnToService=2
MpiDefault=none
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
KillWait=3
SchedulerParameters=sched_interval=2,bf_interval=2
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory=1000 State=UNKNOWN
PartitionName=main Nodes={host} Default=YES MaxTime=INFINITE State=UP PreemptMode=requeue DefMemPerCPU=100
"""


def missing():
    """Why there can be no Slurm here, or None."""
    lacking = [name for name in PROGRAMS if not shutil.which(name)]
    if lacking:
        return f"{', '.join(lacking)}: not installed; Debian: apt-get install slurm-wlm munge"
    return None if os.getuid() == 0 else "only root can start Slurm's daemons"


def _port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@contextmanager
def cluster(folder):
    """Yield while a cluster of one node runs with its files in `folder`; $SLURM_CONF names it.  Raises OSError where it does not start."""
    folder = Path(folder)
    for name in ("state", "spool"):
        (folder / name).mkdir(parents=True)
    host = socket.gethostname().split(".")[0]
    configuration = folder / "slurm.conf"
    configuration.write_text(CONFIGURATION.format(host=host, controller=_port(), node=_port(), folder=folder, cpus=os.cpu_count()))
    environment, before = {**os.environ, "SLURM_CONF": str(configuration)}, os.environ.get("SLURM_CONF")
    if subprocess.run(["munge", "-n"], capture_output=True).returncode:
        Path("/run/munge").mkdir(exist_ok=True)
        shutil.chown("/run/munge", "munge")
        subprocess.run(["runuser", "-u", "munge", "--", shutil.which("munged")], capture_output=True)
    silent = dict(stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    daemons = [subprocess.Popen([name, "-D", "-f", str(configuration)], env=environment, **silent) for name in ("slurmctld", "slurmd")]
    try:
        for _ in range(120):
            state = subprocess.run(["sinfo", "-h", "-o", "%t"], env=environment, capture_output=True, text=True).stdout
            if "idle" in state:
                break
            time.sleep(0.5)
        else:
            raise OSError(f"Slurm did not start: {(folder / 'slurmctld.log').read_text()[-500:]}")
        os.environ["SLURM_CONF"] = str(configuration)
        yield
    finally:
        subprocess.run(["scancel", "--user=root"], env=environment, capture_output=True)
        time.sleep(1)
        os.environ.pop("SLURM_CONF", None)
        if before is not None:
            os.environ["SLURM_CONF"] = before
        for daemon in reversed(daemons):
            daemon.terminate()
        for daemon in daemons:
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
