"""What a run by pieces leaves: `pieces/STEP.h5` for each, a results file with the tensors that the
steps of the piece read and wrote, and the log of its process beside it.

Put together they are one result. A step's inputs are those that it had in its piece: what another
piece left of the same tensor may differ by roundings.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from simgen.ground import metrics

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from simgen.bundle.run_record import Run
    from simgen.ground.ir import Workload
    from simgen.workload.pieces import Piece
    from simgen.workload.samples import Sample

FOLDER = "pieces"
Given = dict[tuple[int, str], Any]  # (step, buffer) -> what the step read there


class PieceTensor(Protocol):
    """An output, as simgen.bundle.results has it."""

    @property
    def values(self) -> NDArray[Any]: ...


T = TypeVar("T", bound=PieceTensor)
T_co = TypeVar("T_co", bound=PieceTensor, covariant=True)


class PieceResult(Protocol[T_co]):
    """The result of a piece."""

    @property
    def outputs(self) -> Mapping[str, T_co]: ...
    @property
    def launches(self) -> Sequence[Mapping[str, float]]: ...


@dataclass(frozen=True)
class Together(Generic[T]):
    """The results of all pieces."""

    outputs: dict[str, T]  # what measured steps wrote
    given: Given
    launches: tuple[Mapping[str, float], ...]  # metrics of the whole workload's launches


def path(folder: Path, piece: Piece) -> Path:
    """The file of a piece in the folder of a result."""
    return folder / FOLDER / f"{piece.steps[0]}.h5"


def tensors(workload: Workload, piece: Piece) -> list[str]:
    """Names of the outputs of the workload that the piece has to do with."""
    outputs = {buffer.name for buffer in workload.outputs}
    steps = [workload.steps[at] for at in piece.all]
    used = (name for step in steps for _, name in (*step.reads, *step.writes))
    return [name for name in dict.fromkeys(used) if name in outputs]


def samples(
    workload: Workload, run: Run, parts: Sequence[Mapping[int, Sample]]
) -> tuple[Sample, ...]:
    """The samples of launches that count, of the results of all pieces; of those that are inferred
    too, with the figures of those that ran."""
    found: dict[int, Sample] = {}
    firsts = workload.first_launches
    for piece, part in zip(run.pieces, parts, strict=True):
        for at in piece.steps:
            places = range(firsts[at], firsts[at] + len(workload.steps[at].launches))
            found |= {place: part[place] for place in places if place in part}
    like = {place: found[ran] for place, ran in run.inferred if ran in found}
    found |= {place: replace(sample, launch=place) for place, sample in like.items()}
    return tuple(found[at] for at in sorted(found))


def together(workload: Workload, run: Run, parts: Sequence[PieceResult[T]]) -> Together[T]:
    """One result of those of the run's pieces, in their order.

    Raises:
        KeyError: a piece lacks a tensor.
    """
    outputs: dict[str, T] = {}
    given: Given = {}
    launches: list[Mapping[str, float]] = [{}] * len(workload.launches)
    firsts = workload.first_launches
    written = {buffer.name for buffer in workload.outputs}
    for piece, part in zip(run.pieces, parts, strict=True):
        for at in piece.steps:
            step = workload.steps[at]
            outputs |= {name: part.outputs[name] for _, name in step.writes}
            read = dict.fromkeys(name for _, name in step.reads if name in written)
            given |= {(at, name): part.outputs[name].values for name in read}
            for place in range(firsts[at], firsts[at] + len(step.launches)):
                launches[place] = part.launches[place]
    for place, like in run.inferred:
        # It took nobody's time.
        found = launches[like].items()
        launches[place] = {name: value for name, value in found if name not in metrics.OF_HOST}
    return Together(outputs, given, tuple(launches))
