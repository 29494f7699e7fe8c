"""Targets of several GPUs: their setting and option, and what a share brings into a bundle."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from simgen.errors import DamagedError, printable
from simgen.ground.ir import to_json
from simgen.targets import machine_file
from simgen.targets.base import File, RunOption, setting
from simgen.workload import sharding

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from simgen.workload.sharding import Sharding

FACT = "gpus"  # in machine.json
OPTION = {
    "gpus": RunOption(
        "SIMGEN_GPUS", "number of GPUs that share the batch [default: as built]", least=1
    )
}


def gpus_setting() -> Any:
    """The setting `gpus`."""
    return setting(1, f"number of GPUs that share the batch, 1 to {sharding.MAX_GPUS}")


def folder(options: Mapping[str, str | int], built: int) -> str | None:
    """Where the shares of a run are in the target's folder; None of one GPU.

    Raises:
        UsageError: there may not be so many GPUs.
    """
    gpus = int(options.get("gpus", built))
    sharding.check(gpus)
    return f"gpus-{gpus}" if gpus > 1 else None


def files(split: Sharding, sources: Mapping[str, str]) -> dict[str, File]:
    """`shards.json`, which the target's program reads, and texts of kernels."""
    table = json.dumps(to_json(split), indent=1) + "\n"
    texts = {f"src/{name}.hip": File(source.encode()) for name, source in sources.items()}
    return {"shards.json": File(table.encode()), **texts}


def counted(results: Path, usual: int | None = None) -> int:
    """How many GPUs ran, by machine.json; `usual`: as many as where it does not say so.

    Raises:
        DamagedError: it does not say so.
    """
    count = machine_file.read_facts(results).get(FACT, usual)
    if type(count) is not int or not 1 <= count <= sharding.MAX_GPUS:
        fact = f"{FACT} is {printable(str(count))}"
        raise DamagedError(f"{results / machine_file.FILE}: {fact}; run it again")
    return count
