"""Figures of a study that need no run: memory and work, counted from the plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simgen.reports.pages import figures
from simgen.reports.pages.series import Curves, Stacked
from simgen.workload import costs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from simgen.reports.studies.drawn import Drawn, DrawnFrom
    from simgen.reports.studies.measuring import PlannedCase


def memory(of: DrawnFrom, made: Drawn) -> None:
    largest = max(of.scope.batches)
    table: dict[str, dict[str, int]] = {}
    for each in of.planned:
        if each.batch == largest and each.factor == 1:
            found = costs.memory(each.workload)
            found.pop("arena")
            table[each.case.name] = found
            for kind, value in found.items():
                made.lines.append(
                    ("plan", "", each.case.name, largest, kind, "memory", "bytes", value)
                )
    series = {
        kind: [float(found[kind]) for found in table.values()]
        for kind in costs.KINDS
        if any(found[kind] for found in table.values())
    }
    svg = figures.Plot(Stacked(list(table), series, "bytes"))
    made.pictures.append((f"batch {largest}, counted from the plan", svg))


def sizes(of: DrawnFrom, made: Drawn) -> None:
    """Bytes of all tensors at each size of the batch; then by those of the first network."""
    batches = sorted({each.batch for each in of.planned if each.factor == 1})
    found: dict[tuple[str, float], int] = {
        (each.case.name, each.batch): _bytes(each) for each in of.planned if each.factor == 1
    }
    _over(of, made, batches, found, "batch")


def extents(of: DrawnFrom, made: Drawn) -> None:
    """The same at each size of images and sentences, with the smallest batch."""
    batch = min(of.scope.batches)
    found = {
        (each.case.name, each.factor): _bytes(each) for each in of.planned if each.batch == batch
    }
    factors = sorted({factor for _, factor in found})
    _over(of, made, factors, found, "times the usual size of images or sentences")


def _bytes(each: PlannedCase) -> int:
    found = costs.memory(each.workload)
    return sum(found[kind] for kind in costs.KINDS)


def _over(
    of: DrawnFrom,
    made: Drawn,
    sizes: Sequence[float],
    found: Mapping[tuple[str, float], int],
    across: str,
) -> None:
    names = list(dict.fromkeys(name for name, _ in found))
    for name, size in found:
        batch = int(size) if across == "batch" else min(of.scope.batches)
        place = "all tensors" if across == "batch" else f"{size:g} {across}"
        value = found[name, size]
        made.lines.append(("plan", "", name, batch, place, "memory", "bytes", value))
    bytes_of = {name: [float(found[name, size]) for size in sizes] for name in names}
    first = bytes_of[names[0]]
    parts = {
        name: [value / base for value, base in zip(values, first, strict=True)]
        for name, values in bytes_of.items()
    }
    what = f"batch {min(of.scope.batches)}, " if across != "batch" else ""
    for caption, series, unit in (
        (f"{what}counted from the plan: the sum of what tensors hold", bytes_of, "bytes"),
        (f"{what}the same, by that of {names[0]}", parts, f"bytes / bytes of {names[0]}"),
    ):
        svg = figures.Plot(Curves([f"{n:g}" for n in sizes], sizes, series, across, unit))
        made.pictures.append((caption, svg))


def work_table(of: DrawnFrom, made: Drawn) -> None:
    largest = max(of.scope.batches)
    head = ("layer", "kind", "pass", "input", "result", "parameters", "operations", "of one image",
            "bytes", "operations/byte")  # fmt: skip
    made.cells.append(head)
    for each in of.planned:
        for work in (
            costs.costs_of(each.workload) if each.batch == largest and each.factor == 1 else ()
        ):
            count = work.count
            operations = count.flops + count.transcendentals
            moved = count.read_bytes + count.written_bytes
            place = f"{work.layer} {work.direction}"
            several = len({planned.case.name for planned in of.planned}) > 1
            place = f"{each.case.name} {place}" if several else place
            first = each.workload.node(work.layer).inputs[0].shape
            shapes = ("x".join(map(str, shape)) for shape in (first, work.output))
            one = operations // largest
            numbers = (f"{work.parameters:,}", f"{operations:,}", f"{one:,}", f"{moved:,}")
            words = (work.layer, work.kind, str(work.direction), *shapes)
            made.cells.append((*words, *numbers, f"{work.intensity:.2f}"))
            quantities = {
                "parameters": ("elements", work.parameters),
                "operations": ("operations", operations),
                "operations of one image": ("operations", one),
                "bytes": ("bytes", moved),
            }
            for quantity, (unit, value) in quantities.items():
                made.lines.append(
                    ("plan", "", each.case.name, largest, place, quantity, unit, value)
                )
