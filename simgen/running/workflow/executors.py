"""Where jobs run: an executor plugin of Snakemake, and what it needs here."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from simgen.ask.run import JobChoices
from simgen.errors import MissingError, UsageError, did_you_mean, one_line, printable

if TYPE_CHECKING:
    from simgen.running.workflow.jobs import Workflow

OPTION = JobChoices.executor
KNOWN = LOCAL, SLURM, KUBERNETES = "local", "slurm", "kubernetes"
INSTALL = "python -m pip install snakemake snakemake-executor-plugin-slurm"
SECONDS = 30.0  # time limit of a query to a cluster
# Without accounting there is no sacct, and squeue forgets a job after MinJobAge.
BY_QUEUE: Mapping[str, Any] = {"slurm-status-command": "squeue", "slurm-no-account": True}
# What pods have in common with this machine: the folder, and not its Python.
ON_A_VOLUME: Mapping[str, Any] = {
    "shared-fs-usage": ["persistence", "input-output", "sources", "storage-local-copies"]
}


@dataclass(frozen=True)
class Executor:
    """One of Snakemake's, which it calls `name`."""

    name: str
    profile: str = ""  # the user's profile for snakemake
    settings: Mapping[str, Any] = field(default_factory=dict)  # options of snakemake

    @property
    def module(self) -> str:
        """What is started with Python's -m, with options of snakemake."""
        return "simgen.running.workflow.kubernetes" if self.name == KUBERNETES else "snakemake"

    @property
    def command(self) -> str:
        """The same, for a shell."""
        return self.module if self.module == "snakemake" else f"python -m {self.module}"


def find(name: str, profile: str = "", *, starts: bool = True) -> Executor:
    """The executor; unless it `starts` nothing, what it needs is looked for.

    Raises:
        UsageError: that is no name.
        MissingError: Snakemake, its plugin or the cluster is not here.
    """
    if not re.fullmatch(r"[a-z][a-z0-9-]{0,60}", name):
        raise UsageError(f"{OPTION} {printable(name)}: not a name; write local, slurm, kubernetes")
    shared = ON_A_VOLUME if name == KUBERNETES else {}
    if not starts:
        return Executor(name, profile, shared)
    if importlib.util.find_spec("snakemake") is None:
        raise MissingError(f"{OPTION} {name}: Snakemake is not installed; {INSTALL}")
    plugin = f"snakemake-executor-plugin-{name}"
    if name != LOCAL and importlib.util.find_spec(plugin.replace("-", "_")) is None:
        near = did_you_mean(name, KNOWN)
        cure = f"pip install {plugin}" if name in KNOWN else f"install {plugin}, or {near}"
        raise MissingError(f"{OPTION} {name}: its plugin is not installed; {cure}")
    return Executor(name, profile, _slurm() if name == SLURM else shared)


def in_pods(executor: Executor, workflow: Workflow) -> tuple[Executor, Workflow]:
    """Both, where jobs are pods: what is in their image runs, and `--container` names that."""
    image = workflow.container.removeprefix("docker://")
    named = {"container-image": image} if image else {}
    return (
        replace(executor, settings={**executor.settings, **named}),
        replace(workflow, simgen="simgen", container=""),
    )


def _slurm() -> dict[str, Any]:
    """What SLURM here makes necessary.

    Raises:
        MissingError: there is none, or its controller does not answer.
    """
    cure = f"start it where jobs can be submitted, or use {OPTION} local"
    if shutil.which("sbatch") is None:
        raise MissingError(f"{OPTION} slurm: there is no sbatch on PATH; {cure}")
    try:
        asked = subprocess.run(
            ["scontrol", "show", "config"],
            capture_output=True, text=True, errors="replace", timeout=SECONDS, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MissingError(f"{OPTION} slurm: scontrol: {one_line(str(error))}; {cure}") from None
    if asked.returncode:
        fact = one_line((asked.stderr.strip().splitlines() or ["no answer"])[-1])
        raise MissingError(f"{OPTION} slurm: the cluster does not answer ({fact}); {cure}")
    storage = re.search(r"^AccountingStorageType\s*=\s*(\S+)", asked.stdout, re.MULTILINE)
    kept = storage is not None and storage[1] not in ("(null)", "accounting_storage/none")
    return {} if kept else dict(BY_QUEUE)
