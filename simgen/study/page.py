"""Metrics by layer and pass, side by side for the targets that have run: tables and a page.

One vocabulary for all targets. A target that does not count something leaves it out.

    seconds                     in which the GPU worked; of a simulator, simulated ones
    cycles                      of the GPU's clock in that time
    instructions                executed, counted once for a wavefront, and their kinds
                                valu_, salu_, lds_instructions, vector_memory_reads, _writes,
                                scalar_memory_reads
    wavefronts, work_groups     that ended
    CACHE_hits, _misses         accesses to l1, l1_scalar, l1_instruction and l2;
    CACHE_mshr_hits             a line that is on its way, where a target tells that from a hit
    dram_reads, dram_writes     transactions, and dram_read_bytes, dram_written_bytes
    cu_cycles, cu_active_cycles cycles of all compute units, and those in which they had work
    wavefront_slot_cycles       active cycles of units times wavefronts that they can hold; in
    wavefront_cycles            these they held one, and stall_*_cycles and ready_cycles are parts
                                of that

and what follows from them (`derived`). Each row has the last verdict of `simgen diff` on its result
as it is now, or tells that there is none: a report compares nothing itself.
"""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from typing import TYPE_CHECKING

from simgen.bundle import result_names as sweep
from simgen.bundle import results, verdict_file
from simgen.compile import render
from simgen.frontend.network import make_layer
from simgen.storage.files import write_atomic
from simgen.study import correlation, figures, sweep_figures

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from simgen.bundle.results import Result
    from simgen.bundle.writing import Bundle
    from simgen.ir import Step, Workload
    from simgen.study.correlation import Correlation

    Parts = Mapping[str, tuple[str, ...]]  # label -> metrics whose sum it shows

INSTRUCTIONS: Parts = {
    "vector ALU": ("valu_instructions",),
    "scalar ALU": ("salu_instructions",),
    "LDS": ("lds_instructions",),
    "vector memory": ("vector_memory_reads", "vector_memory_writes"),
    "scalar memory": ("scalar_memory_reads",),
    "other": ("other_instructions",),  # waits, barriers, ends; what a target does not tell apart
}
STALLS: Parts = {
    "ready": ("ready_cycles",),
    "instruction fetch": ("stall_fetch_cycles",),
    "memory and LDS": ("stall_wait_cycles",),
    "barrier": ("stall_barrier_cycles",),
    "vector register": ("stall_vgpr_cycles",),
    "scalar register": ("stall_sgpr_cycles",),
}
TRANSACTIONS: Parts = {
    "LDS": ("lds_instructions",),
    "L1": ("l1_accesses",),
    "L2": ("l2_accesses",),
    "DRAM": ("dram_reads", "dram_writes"),
}
CACHES = ("l1", "l1_scalar", "l1_instruction", "l2")
RATIOS = {  # rate -> dividend, divisor
    "instructions_per_cycle": ("instructions", "cycles"),
    "cu_utilization": ("cu_active_cycles", "cu_cycles"),
    "occupancy": ("wavefront_cycles", "wavefront_slot_cycles"),
}
SHOWN = 3  # results that a line of doubts names
MOST_PLACES = 256  # in a figure; nobody reads more, and drawing them takes minutes
SHARES = {"cu_utilization", "occupancy", *(f"{cache}_hit_rate" for cache in CACHES)}
FIGURES = (  # title, unit, metrics whose sum is shown
    ("Time of each layer", "seconds", ("seconds",)),
    ("Throughput", "operations / second", ("operations_per_second",)),
    ("Instructions", "wavefront instructions", ("instructions",)),
    ("Instructions per cycle", "of the whole GPU", ("instructions_per_cycle",)),
    ("Compute units with work", "share of cycles", ("cu_utilization",)),
    ("Occupancy", "share of wavefront slots", ("occupancy",)),
    ("L1 hit rate", "hits / accesses", ("l1_hit_rate",)),
    ("L1 scalar hit rate", "hits / accesses", ("l1_scalar_hit_rate",)),
    ("L1 instruction hit rate", "hits / accesses", ("l1_instruction_hit_rate",)),
    ("L2 hit rate", "hits / accesses", ("l2_hit_rate",)),
    ("DRAM traffic", "bytes", ("dram_read_bytes", "dram_written_bytes")),
    ("DRAM throughput", "bytes / second", ("dram_bytes_per_second",)),
)
CORRELATION_TITLES = (
    "quantity", "compared with", "target", "layers", "Pearson r", "error, %", "factor",
    "error after it, %", "",
)  # fmt: skip


@dataclass(frozen=True)
class Row:
    """What one target measured for one step: sums over the step's launches."""

    bundle: str
    workload: str
    layer: str
    direction: str
    target: str
    operations: int  # that the algorithm needs: flops and transcendentals
    nbytes: int  # that it must move
    metrics: Mapping[str, float]
    verdict: str = verdict_file.UNCHECKED  # of `simgen diff`, against the reference

    @property
    def step(self) -> str:
        return f"{self.layer} {self.direction}"


def rows(
    bundle: Bundle,
    found: Iterable[Result],
    name: str = "",
    verdicts: Mapping[str, Mapping[str, str]] | None = None,
) -> list[Row]:
    """A row for each step and result, in the order of the workload's steps.

    `name` is the bundle's in the report; without one, it is the workload's. `verdicts` are those of
    `simgen diff`, by result and step.
    """
    made = []
    for result in found:
        told = (verdicts or {}).get(result.name, {})
        no_verdict = verdict_file.UNCHECKED
        if results.is_statistics_only(result):
            no_verdict = verdict_file.SILENT
        kernels = results.kernels(result, bundle.workload)
        for at, step in enumerate(bundle.workload.steps):
            launches = [m for (of, _), m in zip(kernels, result.launches, strict=True) if of == at]
            if launches and not any(launches):  # the run was about other layers
                continue
            operations, nbytes = _work(bundle.workload, step)
            made.append(
                Row(
                    name or bundle.workload.name,
                    bundle.workload.name,
                    step.layer,
                    str(step.direction),
                    result.name,
                    operations,
                    nbytes,
                    _total(launches),
                    told.get(f"{step.layer} {step.direction}", no_verdict),
                )
            )
    return made


def doubts(found: Sequence[Row]) -> list[str]:
    """What a reader must know before he believes the numbers: one line for each kind of doubt."""
    lines = []
    for verdict in dict.fromkeys(row.verdict for row in found):
        of = [row for row in found if row.verdict == verdict]
        places = list(dict.fromkeys(f"{row.bundle} on {row.target}" for row in of))
        more = f" and {len(places) - SHOWN} more" if len(places) > SHOWN else ""
        where = ", ".join(places[:SHOWN]) + more
        if verdict != verdict_file.RIGHT:
            lines.append(f"{verdict}: {len(of)} of {len(found)} rows, {where}")
    return lines


def derived(row: Row) -> dict[str, float]:
    """What follows from a row's counts: accesses and hit rates, utilization, rates per second.

    An access to a line that is on its way already (an MSHR hit) fetches nothing and counts as a
    hit, as it does in gem5: only so do two simulators' rates compare.
    """
    found = {}
    for cache in CACHES:
        hits, misses = (row.metrics.get(f"{cache}_{kind}") for kind in ("hits", "misses"))
        if hits is not None and misses is not None:
            accesses = hits + row.metrics.get(f"{cache}_mshr_hits", 0.0) + misses
            found[f"{cache}_accesses"] = accesses
            if accesses:
                found[f"{cache}_hit_rate"] = 1 - misses / accesses
    for name, (over, under) in RATIOS.items():
        if over in row.metrics and row.metrics.get(under):
            found[name] = row.metrics[over] / row.metrics[under]
    return found | _per_second(row)


def _per_second(row: Row) -> dict[str, float]:
    found = {}
    seconds = row.metrics.get("seconds")
    if seconds:
        found["operations_per_second"] = row.operations / seconds
        found["bytes_per_second"] = row.nbytes / seconds
    # gem5 counts the DRAM's traffic over more time than that in which the GPU worked.
    counted = row.metrics.get("simulated_seconds", seconds)
    if counted and "dram_read_bytes" in row.metrics:
        found["dram_bytes_per_second"] = (
            row.metrics["dram_read_bytes"] + row.metrics.get("dram_written_bytes", 0.0)
        ) / counted
    return found


def to_csv(found: Sequence[Row]) -> str:
    """All metrics, one line per row; empty where a target does not count something."""
    metrics = list(dict.fromkeys(n for row in found for n in {**row.metrics, **derived(row)}))
    head = ("bundle", "workload", "layer", "pass", "target", "verdict", "operations", "bytes")
    lines = []
    for row in found:
        values = {**row.metrics, **derived(row)}
        cells = [f"{values[name]:.9g}" if name in values else "" for name in metrics]
        step = (row.bundle, row.workload, row.layer, row.direction, row.target, row.verdict)
        lines.append([*step, row.operations, row.nbytes, *cells])
    return _csv([*head, *metrics], lines)


def correlations(found: Sequence[Row]) -> list[Correlation]:
    """Every two targets, over the layers and passes that both measured in the same bundle."""
    return correlation.of(_points(found))


def write(folder: Path, found: Sequence[Row]) -> Path:
    """`report.html`, which needs no other file, `metrics.csv` and `correlation.csv`.

    Returns the page's path. Numbers are the same in all of them.
    """
    table = to_csv(found)
    write_atomic(folder / "metrics.csv", table.encode())
    compared = correlations(found)
    lines = [each.cells for each in compared]
    write_atomic(folder / "correlation.csv", _csv(correlation.COLUMNS, lines).encode())
    metrics = list(csv.reader(io.StringIO(table)))
    page = render.page(
        "report.html.j2",
        head=metrics[0],
        rows=metrics[1:],
        doubts=doubts(found),
        figures=_figures(found),
        compared=[correlation_cells(each) for each in compared],
        compared_head=CORRELATION_TITLES,
    )
    path = folder / "report.html"
    write_atomic(path, page.encode())
    return path


def correlation_cells(each: Correlation) -> tuple[str, ...]:
    """For people, by CORRELATION_TITLES."""
    formats = ((each.pearson, ".3f"), (each.error, ".1f"), (each.scale, ".3g"))
    shown = ["" if n is None else f"{n:{how}}" for n, how in (*formats, (each.scaled_error, ".1f"))]
    quantity = each.quantity.replace("_", " ")
    return (quantity, each.reference, each.target, str(each.layers), *shown, each.note)


def _csv(head: Sequence[str], lines: Iterable[Sequence[object]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(head)
    writer.writerows(lines)
    return text.getvalue()


def _points(found: Sequence[Row]) -> dict[str, dict[tuple[str, str], dict[str, float]]]:
    """Target -> (bundle, step) -> metrics, for the correlation."""
    points: dict[str, dict[tuple[str, str], dict[str, float]]] = {}
    for row in found:
        at = points.setdefault(row.target, {})
        at[(row.bundle, row.step)] = {**row.metrics, **derived(row)}
    return points


def _work(workload: Workload, step: Step) -> tuple[int, int]:
    node = workload.node(step.layer)
    work = make_layer(node, workload.machine).count(node.inputs, step.direction)
    return work.flops + work.transcendentals, work.read_bytes + work.written_bytes


def _total(launches: Sequence[Mapping[str, float]]) -> dict[str, float]:
    names = dict.fromkeys(name for launch in launches for name in launch)
    return {name: sum(launch.get(name, 0.0) for launch in launches) for name in names}


def _values(row: Row) -> dict[str, float]:
    """All metrics of a row, and in `other_instructions` those that are of no kind."""
    values = {**row.metrics, **derived(row)}
    kinds = [name for names in INSTRUCTIONS.values() for name in names]
    if "instructions" in values and "valu_instructions" in values:
        known = sum(values.get(name, 0.0) for name in kinds)
        values["other_instructions"] = max(0.0, values["instructions"] - known)
    return values


def _figures(found: Sequence[Row]) -> list[tuple[str, str]]:
    """(title, SVG) of each figure that has something to show."""
    table: dict[str, dict[str, dict[str, float]]] = {}  # series -> place -> metrics
    for (place, series), row in zip(_labels(found), found, strict=True):
        table.setdefault(series, {})[place] = _values(row)
    places = list(dict.fromkeys(place for at in table.values() for place in at))
    drawn = []
    for title, unit, names in FIGURES:
        lines = {label: _sums(at, places, names) for label, at in table.items()}
        lines = {k: v for k, v in lines.items() if any(value is not None for value in v)}
        if lines:
            whole = 1.0 if SHARES.issuperset(names) else None
            said, shown, lines = _readable(title, places, lines)
            drawn.append((said, figures.grouped(shown, lines, unit, whole)))
    for series, at in table.items():
        if not sweep.options_of(series):  # of a sweep, that would be as many figures as points
            drawn += _of_one(series, at)
    for bundle in dict.fromkeys(row.bundle for row in found):
        rows_of = [row for row in found if row.bundle == bundle]
        drawn += _swept(bundle if len(rows_of) < len(found) else "", rows_of)
    return drawn + _scatters(found)


def _swept(bundle: str, found: Sequence[Row]) -> list[tuple[str, str]]:
    """Figures of the sweeps of one bundle; it has a name where there are several."""
    measured: dict[str, dict[str, Mapping[str, float]]] = {}
    for row in found:
        measured.setdefault(row.target, {})[row.step] = row.metrics
    drawn = sweep_figures.drawn(measured, STALLS)
    return [(f"{title}, {bundle}" if bundle else title, figure) for title, figure in drawn]


def _of_one(series: str, at: Mapping[str, Mapping[str, float]]) -> list[tuple[str, str]]:
    """Figures of what one target has in parts."""
    drawn = []
    places = list(at)

    def parts(wanted: Parts) -> dict[str, list[float | None]]:
        return {label: _sums(at, places, names) for label, names in wanted.items()}

    if any("valu_instructions" in metrics for metrics in at.values()):
        title, shown, kinds = _readable(f"Instruction mix: {series}", places, parts(INSTRUCTIONS))
        drawn.append((title, figures.stacked(shown, _shares(kinds), "share of instructions")))
    if any("wavefront_cycles" in metrics for metrics in at.values()):
        title = f"What wavefronts wait for: {series}"
        title, shown, waits = _readable(title, places, parts(STALLS))
        drawn.append((title, figures.stacked(shown, _shares(waits), "share of wavefronts' cycles")))
    if any("l1_accesses" in metrics for metrics in at.values()):
        title = f"Memory transactions: {series}"
        title, shown, levels = _readable(title, places, parts(TRANSACTIONS))
        drawn.append((title, figures.grouped(shown, levels, "transactions")))
    return drawn


def _readable(
    title: str, places: list[str], series: Mapping[str, list[float | None]]
) -> tuple[str, list[str], dict[str, list[float | None]]]:
    """A figure's title, places and values, of no more places than `MOST_PLACES`: the largest."""
    if len(places) <= MOST_PLACES:
        return title, places, dict(series)
    weights = [max(value or 0.0 for value in values) for values in zip(*series.values())]
    ranked = sorted(range(len(places)), key=weights.__getitem__, reverse=True)
    kept = sorted(ranked[:MOST_PLACES])
    chosen = {label: [values[at] for at in kept] for label, values in series.items()}
    title = f"{title}, the largest {MOST_PLACES} of {len(places)}"
    return title, [places[at] for at in kept], chosen


def _shares(parts: Mapping[str, Sequence[float | None]]) -> dict[str, list[float | None]]:
    """The parts of each place divided by their sum: small layers are as readable as large ones."""
    sums = [sum(value or 0.0 for value in place) for place in zip(*parts.values())]
    return {
        label: [(value or 0.0) / total if total else None for value, total in zip(values, sums)]
        for label, values in parts.items()
    }


def _scatters(found: Sequence[Row]) -> list[tuple[str, str]]:
    """Times of every two targets against each other, where the correlation has enough of them."""
    points = _points(found)
    drawn = []
    for a, b in correlation.pairs(list(points)):
        both = correlation.common(points[a], points[b], "seconds")
        both = [(x, y) for x, y in both if x > 0 and y > 0]
        if len(both) >= correlation.LEAST:
            dots = figures.against(both, f"seconds, {a}", f"seconds, {b}")
            drawn.append((f"Time on {b} against {a}", dots))
    return drawn


def _sums(
    at: Mapping[str, Mapping[str, float]], places: Sequence[str], names: Sequence[str]
) -> list[float | None]:
    """For each place the sum of the metrics that it has; None where it has none of them."""
    sums: list[float | None] = []
    for place in places:
        had = [at[place][name] for name in names if name in at.get(place, {})]
        sums.append(sum(had) if had else None)
    return sums


def _labels(found: Sequence[Row]) -> list[tuple[str, str]]:
    """(place, series) of each row: layers side by side, targets as series.

    Several bundles of one workload (a sweep) are series too; several workloads are places.
    """
    steps: dict[str, set[str]] = {}
    bundles: dict[str, set[str]] = {}
    for row in found:
        steps.setdefault(row.workload, set()).add(row.step)
        bundles.setdefault(row.workload, set()).add(row.bundle)
    sweep = any(len(names) > 1 for names in bundles.values())
    labels = []
    for row in found:
        place = row.step
        if len(steps) > 1:
            place = row.workload if len(steps[row.workload]) == 1 else f"{row.workload} {place}"
        labels.append((place, f"{row.bundle}, {row.target}" if sweep else row.target))
    return labels
