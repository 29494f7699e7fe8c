"""The folder of a workflow: Snakefile, workflow.json, and a profile; Snakemake needs no more."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from simgen.bundle import outputs
from simgen.bundle import writing as bundles
from simgen.errors import DamagedError, RefusedError, printable
from simgen.ground import resources
from simgen.ground.storage import schema
from simgen.ground.storage.files import read_regular, write_atomic
from simgen.ground.storage.schema import SchemaError, from_json, to_json
from simgen.running import capacity
from simgen.running.workflow import jobs
from simgen.running.workflow.jobs import MIB, Workflow

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from simgen.running.workflow.executors import Executor

SNAKEFILE, PROFILE = "Snakefile", "profiles/default/config.yaml"
MAX_NBYTES = 2**28
WORKFLOW = "workflow"  # a folder of it
RETRIES = 2  # retries of a job that fails or is killed


def write(folder: Path, workflow: Workflow, executor: Executor, count: int) -> None:
    """Write the folder, or what has changed of it; `count` jobs are under way at a time.

    Raises:
        RefusedError: what is there was made for other bundles.
        DamagedError: its workflow.json is not what was written.
    """
    outputs.folder(folder, WORKFLOW, lambda path: read_workflow(path) is not None)
    _check_before(folder, workflow)
    text = (resources.folder("templates") / "workflow" / SNAKEFILE).read_bytes()
    write_atomic(folder / SNAKEFILE, text)
    told = json.dumps(to_json(workflow), indent=1) + "\n"
    write_atomic(folder / jobs.FILE, told.encode())
    write_atomic(folder / PROFILE, _yaml(profile(executor, count, workflow)).encode())


def read_workflow(folder: Path) -> Workflow | None:
    """The workflow in the folder; None where there is none.

    Raises:
        DamagedError: its file is not what was written.
    """
    path = folder / jobs.FILE
    try:
        found = from_json(Workflow, schema.parse(read_regular(path, MAX_NBYTES)))
        places = [each.path for each in found.bundles.values()]
        results = [(each.bundle, each.result) for each in found.points.values()]
        if any(len(set(each)) < len(each) for each in (places, results)):
            raise SchemaError("a bundle or a result stands in it twice")
        if lacking := {bundle for bundle, _ in results} - found.bundles.keys():
            raise SchemaError(f"no bundle {printable(min(lacking))}")
        return found
    except FileNotFoundError:
        return None
    except (OSError, SchemaError) as error:
        fact = getattr(error, "strerror", None) or error
        raise DamagedError(
            f"{path}: damaged ({fact}); remove it, and what is done is found again"
        ) from None


def _check_before(folder: Path, workflow: Workflow) -> None:
    before = read_workflow(folder)
    if before is None:
        return
    known = {each.path: each.digest for each in before.bundles.values()}
    for home in workflow.bundles.values():
        there = (folder / home.path / bundles.RESULTS).is_dir()
        if home.build and there and known.get(home.path, home.digest) != home.digest:
            raise RefusedError(
                f"{folder}: a sweep of another build, by simgen {before.version} "
                f"({home.path} differs); write this one elsewhere with -o, or remove that folder"
            )


def profile(executor: Executor, count: int, workflow: Workflow) -> dict[str, Any]:
    """Options of snakemake; what a profile of the user's may say is left to that."""
    own: dict[str, Any] = {
        "executor": executor.name,
        "keep-going": True,
        "rerun-incomplete": True,
    }
    if workflow.container:
        own["software-deployment-method"] = "apptainer"
    own |= executor.settings
    if executor.profile:
        return own
    own["retries"] = RETRIES
    if executor.name == "local":
        free = capacity.available_memory()
        own["cores"] = min(count, len(os.sched_getaffinity(0)))
        if free is not None:  # jobs that together need more wait for each other
            most = max([each.memory_mb for each in workflow.points.values()], default=0)
            own["resources"] = [f"mem_mb={max(free // MIB, most)}"]
        return own
    return {**own, "jobs": count, "latency-wait": 60}


def _yaml(values: Mapping[str, Any]) -> str:
    """A line for each; JSON's scalars and lists are YAML's."""
    lines = [f"{name}: {json.dumps(value)}\n" for name, value in values.items()]
    return "# Options of snakemake, as on its command line.\n" + "".join(lines)
