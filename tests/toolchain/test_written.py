"""What kernels are declared to write is what they write: declarations against the host target.

The plain contract holds launches against declarations; here, a part of each launch's grid is run,
after the launches before it, and what is no longer canary must be what those work-groups declare.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from covering import covering
from launch_geometry import of_geometry
from layer_bundles import Problem, make, plan
from layer_variants import accepts, inputs_of, lowered, shapes_of, variants

from simgen.ground.ir import Pass, Role
from simgen.layers.written import written
from simgen.layers.written_elements import elements
from simgen.targets.host import Host
from simgen.workload import lowering as workloads

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from simgen.ground.ir import Launch, Workload
    from simgen.kernels.build import Builder

pytestmark = pytest.mark.skipif(
    bool(Host().needs.missing()), reason="this machine cannot run the host target"
)

DIRECTIONS = (Pass.FORWARD, Pass.BACKWARD, Pass.BACKWARD_WEIGHT, Pass.BACKWARD_DATA)
SHAPES = ((5, 13, 1, 1), (2, 4099, 1, 1), (2, 3, 5, 7), (3, 37, 11, 11), (301, 6, 1, 1))


def chosen(direction: Pass) -> dict[str, tuple[Problem, int]]:
    """What covers the choices of geometry in one pass: problems, each with one of its launches."""
    found, kernels = {}, {}
    for kind in lowered():
        for number, variant in enumerate(variants(kind)):
            for shape in shapes_of(kind, SHAPES):
                if direction in variant.layer.able and accepts(variant.layer, shape):
                    lowering = variant.layer.lower(inputs_of(variant.layer, shape), direction)
                    known = {kernel.name: kernel for kernel in lowering.kernels}
                    for turn, launch in enumerate(lowering.launches):
                        name = f"{kind}{number}_{'x'.join(map(str, shape))}_{turn}"
                        found[name] = Problem(variant, shape), turn
                        kernels[name] = [of_geometry(known[launch.kernel])]
    return {name: found[name] for name in covering(kernels, pairs=False, sizes=False)}


def half(launch: Launch) -> Launch:
    x, y, z = (-(-extent // 2) for extent in launch.grid)
    return replace(launch, grid=(x, y, z))


def cut_short(whole: Workload, turns: Mapping[str, int]) -> Workload:
    """Of each layer half of the launch of its turn, and none after; workspaces are outputs too."""
    steps = []
    for step in whole.steps:
        before, last = step.launches[: turns[step.layer]], step.launches[turns[step.layer]]
        steps.append(replace(step, launches=(*before, half(last))))
    run = {launch.kernel for step in steps for launch in step.launches}
    buffers = [
        replace(each, role=Role.OUTPUT) if each.role is Role.SCRATCH else each
        for each in whole.buffers
    ]
    placed, nbytes, start = workloads.arena(buffers)
    return replace(
        whole,
        kernels=tuple(kernel for kernel in whole.kernels if kernel.name in run),
        steps=tuple(steps),
        buffers=placed,
        arena_nbytes=nbytes,
        outputs_offset=start,
    )


def outputs(path: Path, workload: Workload) -> dict[str, NDArray[np.bool_]]:
    """Buffer -> which of its elements are no canary."""
    raw = (path / "results" / "host" / "outputs.bin").read_bytes()
    start = workload.outputs_offset
    found = {}
    for each in workload.outputs:
        word = f"<u{each.spec.dtype.nbytes}"
        canary = np.array([workload.canary], "<u4").view(word)
        values = np.frombuffer(raw, word, each.spec.size, each.offset - start)
        differs = values != np.resize(canary, values.shape)
        if each.spec.dtype.nbytes == 1:  # a byte is the canary's by chance, four of them are not
            whole = np.resize(differs, (-(-differs.size // 4), 4)).any(axis=1)
            differs = np.repeat(whole, 4)[: differs.size]
        found[each.name] = differs
    return found


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_half_of_a_grid_writes_what_is_declared(
    tmp_path: Path, builder: Builder, direction: Pass
) -> None:
    found = chosen(direction)
    whole = plan({name: problem for name, (problem, _) in found.items()}, direction)
    short = cut_short(whole, {name: turn for name, (_, turn) in found.items()})
    made = make(tmp_path, short, builder, optimise=False)
    done = made.run()
    assert (done.returncode, done.stderr) == (0, "")
    left = outputs(made.bundle.path, short)
    wrong = [each for step in short.steps for each in different(short, step.launches, left)]
    assert not wrong, "\n".join(wrong)


def different(
    workload: Workload, launches: tuple[Launch, ...], left: dict[str, NDArray[np.bool_]]
) -> list[str]:
    """Buffers that the last launch alone writes, where it left something else."""
    *before, last = launches
    kernel = workload.kernel(last.kernel)
    declared: dict[str, set[int]] = {}
    for each in written(kernel):
        buffer, offset = last.places[each.argument]
        own = declared.setdefault(buffer, set())
        first = offset // workload.buffer(buffer).spec.dtype.nbytes
        own |= set((first + elements(each, last.grid)).tolist())
    known = {arg for launch in before for arg in launch.args}
    return [
        f"{kernel.name} {last.grid}: {len(found)} elements of {buffer}, and {len(own)} declared"
        for buffer, own in declared.items()
        if buffer not in known
        for found in [set(np.flatnonzero(left[buffer]).tolist())]
        if found != own
    ]
