"""Figures of a study that need no run: memory and work, counted from the plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simgen.reports.pages import figures
from simgen.workload import costs

if TYPE_CHECKING:
    from simgen.reports.studies.drawn import Drawn, DrawnFrom


def memory(of: DrawnFrom, made: Drawn) -> None:
    largest = max(of.scope.batches)
    table: dict[str, dict[str, int]] = {}
    for each in of.planned:
        if each.batch == largest:
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
    svg = figures.stacked(list(table), series, "bytes")
    made.pictures.append((f"batch {largest}, counted from the plan", svg))


def sizes(of: DrawnFrom, made: Drawn) -> None:
    batches = sorted({each.batch for each in of.planned})
    series: dict[str, list[float | None]] = {}
    for each in of.planned:
        value = costs.memory(each.workload)["arena"]
        series.setdefault(each.case.name, [None] * len(batches))[batches.index(each.batch)] = value
        made.lines.append(
            ("plan", "", each.case.name, each.batch, "all tensors", "memory", "bytes", value)
        )
    svg = figures.lines([str(n) for n in batches], batches, series, "batch", "bytes")
    made.pictures.append(("counted from the plan, with what aligns tensors", svg))


def work_table(of: DrawnFrom, made: Drawn) -> None:
    largest = max(of.scope.batches)
    head = ("layer", "kind", "pass", "input", "result", "parameters", "operations", "of one image",
            "bytes", "operations/byte")  # fmt: skip
    made.cells.append(head)
    for each in of.planned:
        for work in costs.costs_of(each.workload) if each.batch == largest else ():
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
