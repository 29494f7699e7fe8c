"""Where jobs run: an executor plugin of Snakemake, and what it needs here."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
from collections.abc import Mapping  # noqa: TC003 - of a dataclass
from dataclasses import dataclass, field
from typing import Any

from simgen.errors import MissingError, UsageError, did_you_mean, one_line, printable

KNOWN = LOCAL, SLURM, _ = "local", "slurm", "kubernetes"
EXTRA = "pip install 'gpu-simgen[cluster]'"
SECONDS = 30.0  # that a look at a cluster may take
# Without accounting there is no sacct, and squeue forgets a job after MinJobAge.
BY_QUEUE: Mapping[str, Any] = {"slurm-status-command": "squeue", "slurm-no-account": True}


@dataclass(frozen=True)
class Executor:
    """One of Snakemake's, which it calls `name`."""

    name: str
    profile: str = ""  # of the user's, for snakemake
    settings: Mapping[str, Any] = field(default_factory=dict)  # options of snakemake


def find(name: str, profile: str = "", *, starts: bool = True) -> Executor:
    """The executor; unless it `starts` nothing, what it needs is looked for.

    Raises:
        UsageError: that is no name.
        MissingError: Snakemake, its plugin or the cluster is not here.
    """
    if not re.fullmatch(r"[a-z][a-z0-9-]{0,60}", name):
        raise UsageError(
            f"--executor {printable(name)}: not a name; write local, slurm, kubernetes"
        )
    if not starts:
        return Executor(name, profile)
    if importlib.util.find_spec("snakemake") is None:
        raise MissingError(f"--executor {name}: Snakemake is not installed; {EXTRA}")
    plugin = f"snakemake-executor-plugin-{name}"
    if name != LOCAL and importlib.util.find_spec(plugin.replace("-", "_")) is None:
        near = did_you_mean(name, KNOWN)
        cure = f"pip install {plugin}" if name in KNOWN else f"install {plugin}, or {near}"
        raise MissingError(f"--executor {name}: its plugin is not installed; {cure}")
    return Executor(name, profile, _slurm() if name == SLURM else {})


def _slurm() -> dict[str, Any]:
    """What SLURM here makes necessary.

    Raises:
        MissingError: there is none, or its controller does not answer.
    """
    cure = "start it where jobs can be submitted, or use --executor local"
    if shutil.which("sbatch") is None:
        raise MissingError(f"--executor slurm: there is no sbatch on PATH; {cure}")
    try:
        asked = subprocess.run(
            ["scontrol", "show", "config"],
            capture_output=True, text=True, errors="replace", timeout=SECONDS, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MissingError(f"--executor slurm: scontrol: {one_line(str(error))}; {cure}") from None
    if asked.returncode:
        fact = one_line((asked.stderr.strip().splitlines() or ["no answer"])[-1])
        raise MissingError(f"--executor slurm: the cluster does not answer ({fact}); {cure}")
    storage = re.search(r"^AccountingStorageType\s*=\s*(\S+)", asked.stdout, re.MULTILINE)
    kept = storage is not None and storage[1] not in ("(null)", "accounting_storage/none")
    return {} if kept else dict(BY_QUEUE)
