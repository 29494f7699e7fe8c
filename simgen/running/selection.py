"""Running some layers of a workload: which steps these are, and what they read from the others.

A step of the part may read what a step outside of it writes. Such tensors come from a result, of
this or another target, or from the reference: the layers before, in float64, rounded once to the
tensor's type.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from simgen.ask.build import BuildChoices
from simgen.ask.run import RunChoices
from simgen.bundle import run_record
from simgen.bundle import writing as bundles
from simgen.errors import UsageError
from simgen.frontend import network
from simgen.ground.ir import Pass, Workload
from simgen.tensors import data_file, state_file
from simgen.tensors.state_file import Mark
from simgen.workload import reference

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from simgen.bundle.results import Result
    from simgen.bundle.writing import Bundle
    from simgen.running.run_folder import Start

REFERENCE = "reference"


def selected(workload: Workload, layers: str) -> list[int]:
    """Indices of the steps of the layers that a slice names, in all passes.

    Raises:
        UsageError: the slice names a layer that is not there, or two with no way between them;
            or tensors that steps write are gone after a run.
    """
    if reference.reuses_memory(workload):
        raise UsageError(
            f"{RunChoices.layers}: the bundle reuses memory, so what layers read is gone; build it "
            f"without {BuildChoices.reuse_memory}"
        )
    kept = network.selected(layers, _previous(workload))
    return [at for at, step in enumerate(workload.steps) if step.layer in kept]


def _previous(workload: Workload) -> dict[str, tuple[str, ...]]:
    """Layer -> the layers before it in the network, by what its first pass reads.

    In a workload of backward passes alone, a layer reads from those after it.
    """
    forward = workload.steps[0].direction is Pass.FORWARD
    writer: dict[str, str] = {}
    found: dict[str, dict[str, None]] = {}
    for step in workload.steps:
        if step.layer not in found:
            found[step.layer] = {}
            for other in (writer[name] for _, name in step.reads if name in writer):
                after, before = (step.layer, other) if forward else (other, step.layer)
                found[after][before] = None
        writer |= {name: step.layer for _, name in step.writes}
    return {name: tuple(before) for name, before in found.items()}


def writers_before(workload: Workload, steps: Collection[int]) -> list[int]:
    """The steps that are not among `steps`, and write what some of them read."""
    writer = {name: at for at, step in enumerate(workload.steps) for _, name in step.writes}
    read = {writer[name] for at in steps for _, name in workload.steps[at].reads if name in writer}
    return sorted(read - set(steps))


def prepare(start: Start, bundle: Bundle, source: Result | None) -> None:
    """Put the state into the folder of a run that is to begin, with what its steps read.

    `source` is the result that the tensors come from; None: the reference.

    Raises:
        UsageError: `source` does not have what is needed.
    """
    wanted = writers_before(start.whole, start.run.steps)
    names = [name for at in wanted for _, name in start.whole.steps[at].writes]
    give(start, bundle, _of_result(source, names) if source else _reference(bundle, wanted))


def give(
    start: Start, bundle: Bundle, tensors: Mapping[str, NDArray[Any]], filled: Collection[int] = ()
) -> None:
    """Put the state into the folder of a run that is to begin: `tensors` that its steps read, and
    of steps that are `filled` what they will not write."""
    workload = start.whole
    wanted = writers_before(workload, start.run.steps)
    marks = [
        Mark.FILLED
        if at in filled
        else Mark.TO_RUN
        if at in start.run.steps
        else Mark.GIVEN
        if at in wanted
        else Mark.LEFT_OUT
        for at in range(len(workload.steps))
    ]
    identity = bytes.fromhex(bundle.manifest["data"]["id"])
    state_file.write(start.folder / state_file.FILE, workload, identity, marks, tensors)


def _of_result(source: Result, names: Sequence[str]) -> dict[str, NDArray[Any]]:
    part = source.provenance.get("part")
    for name in names:
        output = source.outputs.get(name)
        if output is None or output.untouched == output.values.size:
            ran = f", in which {part['layers']} ran," if part else ""
            raise UsageError(
                f"{RunChoices.inputs} {source.name}: the result{ran} has no {name}; "
                f"name another, or {RunChoices.inputs} {REFERENCE}"
            )
    return {name: source.outputs[name].values for name in names}


def _reference(bundle: Bundle, wanted: Sequence[int]) -> Mapping[str, NDArray[Any]]:
    """What the steps write, in float64 from the inputs on, rounded at the end."""
    found: dict[str, NDArray[Any]] = {}
    for made in references(bundle, wanted):
        found |= made
    return found


def references(bundle: Bundle, wanted: Collection[int]) -> Iterator[dict[str, NDArray[Any]]]:
    """What these steps write, each in its turn, in float64 from the inputs on, then rounded."""
    workload = bundle.workload
    needed, todo = set(wanted), list(wanted)
    while todo:
        before = set(writers_before(workload, [todo.pop()])) - needed
        needed |= before
        todo += before
    names = {name for at in wanted for _, name in workload.steps[at].writes}
    inputs = data_file.load(bundle.path / bundles.DATA, workload)
    for _, made in reference.run(run_record.part(workload, sorted(needed)), inputs):
        kept = {name: values for name, values in made.items() if name in names}
        if kept:
            yield {
                name: values.astype(workload.buffer(name).spec.dtype.array)
                for name, values in kept.items()
            }
