"""Where jobs run: an executor plugin of Snakemake, and what it needs here."""

from __future__ import annotations

import importlib
import importlib.util
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from simgen.ask.run import JobChoices
from simgen.errors import MissingError, UsageError, did_you_mean, one_line, printable

OPTION = JobChoices.executor
UNSHARED = ("kubernetes",)  # executors whose plugins want files in an object store
KNOWN = LOCAL, SLURM = "local", "slurm"
INSTALL = "python -m pip install snakemake snakemake-executor-plugin-slurm"
SECONDS = 30.0  # time limit of a query to a cluster
# Without accounting there is no sacct, and squeue forgets a job after MinJobAge.
BY_QUEUE: Mapping[str, Any] = {"slurm-status-command": "squeue", "slurm-no-account": True}


@dataclass(frozen=True)
class Executor:
    """One of Snakemake's, which it calls `name`."""

    name: str
    profile: str = ""  # the user's profile for snakemake
    settings: Mapping[str, Any] = field(default_factory=dict)  # options of snakemake


def find(name: str, profile: str = "", *, starts: bool = True) -> Executor:
    """The executor; unless it `starts` nothing, what it needs is looked for.

    Raises:
        UsageError: that is no name.
        MissingError: Snakemake, its plugin or the cluster is not here.
    """
    if not re.fullmatch(r"[a-z][a-z0-9-]{0,60}", name):
        raise UsageError(f"{OPTION} {printable(name)}: not a name; write local or slurm")
    if not starts:
        return Executor(name, profile)
    if importlib.util.find_spec("snakemake") is None:
        raise MissingError(f"{OPTION} {name}: Snakemake is not installed; {INSTALL}")
    plugin = f"snakemake-executor-plugin-{name}"
    if name in UNSHARED or (name not in KNOWN and _shares_nothing(plugin)):
        cure = "use local, slurm, or another plugin whose jobs share folders"
        raise UsageError(f"{OPTION} {name}: its jobs do not see this folder; {cure}")
    if name != LOCAL and importlib.util.find_spec(plugin.replace("-", "_")) is None:
        near = did_you_mean(name, KNOWN)
        cure = f"pip install {plugin}" if name in KNOWN else f"install {plugin}, or {near}"
        raise MissingError(f"{OPTION} {name}: its plugin is not installed; {cure}")
    return Executor(name, profile, _slurm() if name == SLURM else {})


def _shares_nothing(plugin: str) -> bool:
    """Whether jobs of a plugin, if it is here, get their files from an object store alone."""
    try:
        if importlib.util.find_spec(plugin.replace("-", "_")) is None:
            return False
        module = importlib.import_module(plugin.replace("-", "_"))
    except Exception as error:  # whatever its own code raises
        fact = one_line(f"{type(error).__name__}: {error}")
        raise MissingError(f"{plugin}: cannot be loaded ({fact}); mend or reinstall it") from None
    common = getattr(module, "common_settings", None)
    return bool(getattr(common, "implies_no_shared_fs", False))


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
