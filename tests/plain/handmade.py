"""Bundles of the cuda target, which needs no compiler, and runs of them made by hand."""

from __future__ import annotations

import csv
import json
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from simgen.bundle import built_here, manifest
from simgen.bundle import writing as bundles
from simgen.frontend import config, network, problem
from simgen.frontend.network import make_layer
from simgen.ground.ir import DType, Pass
from simgen.kernels.build import Builder
from simgen.kernels.cache import Cache
from simgen.targets.cuda import Cuda
from simgen.tensors import data_file
from simgen.workload import lowering

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from simgen.bundle.writing import Bundle
    from simgen.ground.ir import Workload
    from simgen.targets import Target

    Array = NDArray[Any]

PROVENANCE = {"simgen": "0", "config": {}}
BOTH = (Pass.FORWARD, Pass.BACKWARD)


def lowered(
    word: str, *settings: tuple[str, str], passes: Sequence[Pass] | None = None, seed: int = 0
) -> Workload:
    """The workload that `simgen build WORD --set ...` makes."""
    found = problem.find(word, settings, passes)
    resolved = network.resolve(found.config, found.settings)
    return lowering.lower(resolved, found.name, found.passes, seed)


def lowered_text(text: str, passes: Sequence[Pass] = (Pass.FORWARD,), seed: int = 0) -> Workload:
    """The workload of a config."""
    return lowering.lower(network.resolve(config.parse(text, "net.dnnmark")), "net", passes, seed)


def small(word: str = "softmax_fwd", seed: int = 0) -> Workload:
    """A built-in layer, shrunk to 4 x 10."""
    return lowered(word, ("n", "4"), ("c", "10"), ("h", "1"), ("w", "1"), seed=seed)


def build(
    path: Path,
    made_from: Workload,
    *targets: Target,
    provenance: Mapping[str, Any] = PROVENANCE,
    replace_results: bool = False,
) -> Bundle:
    """A bundle for `targets`, by default cuda."""
    builder = Builder(Cache(path.parent / "never-used"))
    chosen = targets or (Cuda(),)
    return _known(
        bundles.write(path, made_from, chosen, builder, provenance, replace_results=replace_results)
    )


def _known(made: Bundle) -> Bundle:
    """The bundle, whose runs say nothing of where it is from; in a cache of the test's own."""
    if "SIMGEN_CACHE_DIR" in os.environ:
        built_here.remember(made, made.targets)
    return made


def computed(made: Bundle) -> dict[str, Array]:
    """What a flawless machine writes: the reference of each step, rounded to float32."""
    tensors = dict(data_file.load(made.path / bundles.DATA, made.workload))
    written: dict[str, Array] = {}
    for step in made.workload.steps:
        layer = make_layer(made.workload.node(step.layer), made.workload.machine)
        read = {port: tensors[name].astype(np.float64) for port, name in step.reads}
        found = layer.reference(read, step.direction)
        for port, name in step.writes:
            written[name] = tensors[name] = found[port].astype(np.float32)
    return written


def run_by_hand(
    made: Bundle,
    change: Callable[[dict[str, Array]], None] = lambda tensors: None,
    spoil: Callable[[Array], Array] = lambda words: words,
    target: str = "cuda",
) -> Path:
    """Leave what a run leaves. `change` edits the tensors, `spoil` the dumped words."""
    planned = made.workload
    tensors = computed(made)
    change(tensors)
    words = np.full((planned.arena_nbytes - planned.outputs_offset) // 4, DType.F32.canary, "<u4")
    for buffer in planned.outputs:
        at = (buffer.offset - planned.outputs_offset) // 4
        words[at : at + buffer.spec.size] = tensors[buffer.name].reshape(-1).view("<u4")
    folder = made.path / bundles.RESULTS / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "outputs.bin").write_bytes(spoil(words).tobytes())
    with (folder / "launches.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["launch", "kernel", "seconds", "seconds_min", "seconds_max", "rounds"])
        for at, launch in enumerate(planned.launches):
            writer.writerow([at, launch.kernel, 1e-6 * (at + 1), 1e-6, 2e-6, 1])
    (folder / "machine.json").write_text(json.dumps({"gpu": "by hand"}))
    (folder / bundles.COMPLETE).write_text(made.digest + "\n")
    return folder


def with_manifest(made: Bundle, **changes: Any) -> Bundle:
    """The bundle with another manifest, as if it had been built so."""
    changed = manifest.sealed({**made.manifest, **changes})
    (made.path / bundles.MANIFEST).write_bytes(manifest.text(changed))
    return _known(replace(made, manifest=changed))


def tree(folder: Path) -> dict[str, bytes]:
    """Every file of a folder with its content."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
