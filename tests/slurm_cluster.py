"""A SLURM of one node in a folder of its own: munged, slurmctld and slurmd, without a database.

Its programs run in a mount namespace of their own, in which /etc/slurm is the cluster's: steps of
jobs look there, whatever SLURM_CONF says.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import time

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scontrol", "scancel", "unshare")
SECONDS = 60.0  # for anything to happen
CONF = """\
ClusterName=simgen
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
AuthType=auth/munge
AuthInfo=socket={home}/munge.socket
CredType=cred/munge
SlurmUser=root
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
ReturnToService=2
MinJobAge=600
SchedulerParameters=sched_min_interval=0,sched_interval=1
SlurmctldPidFile={home}/slurmctld.pid
SlurmdPidFile={home}/slurmd.pid
SlurmdSpoolDir={home}/spool
StateSaveLocation={home}/state
SlurmctldLogFile={home}/slurmctld.log
SlurmdLogFile={home}/slurmd.log
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory=8000 State=UNKNOWN
PartitionName=main Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""


def lacks():
    """Why this machine cannot have one; empty if it can."""
    missing = [name for name in PROGRAMS if shutil.which(name, path=PATH) is None]
    if missing:
        return f"there is no {', '.join(missing)} (Debian: slurm-wlm, munge)"
    if os.geteuid() != 0:
        return "munged, slurmctld and slurmd of a test run as root"
    if subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode:
        return "no mount namespace can be made here"
    return "" if os.path.isdir("/etc/slurm") else "there is no /etc/slurm to stand in for"


PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"


def free_ports(count):
    with contextlib.ExitStack() as held:
        made = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in made:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in made]


class SlurmCluster:
    """A context: the cluster, while it runs."""

    def __init__(self, home):
        self.home = home
        self.node = socket.gethostname()
        self.started = []

    def __enter__(self):
        for name in ("etc", "state", "spool"):
            (self.home / name).mkdir(parents=True)
        key = self.home / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        cpus = len(os.sched_getaffinity(0))
        given = {"host": self.node, "home": self.home, "ports": free_ports(2), "cpus": cpus}
        self.conf = self.home / "etc/slurm.conf"
        self.conf.write_text(CONF.format(**given))
        self._start(
            "munged", "--force", "--foreground", f"--key-file={key}",
            *(f"--{each}-file={self.home}/munge.{each}" for each in ("pid", "log", "seed")),
            f"--socket={self.home}/munge.socket",
        )  # fmt: skip
        self._wait(lambda: (self.home / "munge.socket").exists())
        script = 'mount --bind "$0" /etc/slurm && slurmctld -D & mount --bind "$0" /etc/slurm'
        self._start("unshare", "-m", "sh", "-c", f"{script} && exec slurmd -D", self.home / "etc")
        self._wait(lambda: self.said("sinfo", "-h", "-o", "%T") == "idle")
        return self

    def __exit__(self, *_):
        for process in reversed(self.started):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, 15)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, 9)
                process.wait()

    @property
    def environment(self):
        return {**os.environ, "PATH": PATH, "SLURM_CONF": str(self.conf)}

    def said(self, *words):
        """What one of its programs prints; nothing where it fails."""
        return subprocess.run(
            words, env=self.environment, capture_output=True, text=True, check=False
        ).stdout.strip()

    def jobs(self):
        """Those that have not ended: (number, state, why it waits) each."""
        lines = self.said("squeue", "-h", "-o", "%i|%T|%r", "-t", "PD,R").splitlines()
        return [tuple(line.split("|")) for line in lines]

    def wait_for_job(self, state):
        """One in this state, once there is one."""
        return self._wait(lambda: next((job for job in self.jobs() if job[1] == state), None))

    @contextlib.contextmanager
    def hiding(self, folder):
        """Its node does not see what is in the folder meanwhile."""
        inside = ["nsenter", "-m", "-t", (self.home / "slurmd.pid").read_text().strip()]
        subprocess.run([*inside, "mount", "-t", "tmpfs", "none", folder], check=True)
        try:
            yield
        finally:
            subprocess.run([*inside, "umount", folder], check=True)

    def _start(self, *words):
        log = (self.home / "printed.log").open("a")
        process = subprocess.Popen(
            list(map(str, words)), env=self.environment, stdout=log, stderr=log,
            stdin=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        log.close()
        self.started.append(process)

    def _wait(self, look):
        end = time.monotonic() + SECONDS
        while not (found := look()):
            logs = "\n".join(each.read_text()[-2000:] for each in self.home.glob("*.log"))
            assert time.monotonic() < end, f"nothing happened: {logs}"
            time.sleep(0.2)
        return found
