"""Metrics by layer and pass, side by side for the targets that have run: a table and a page.

One vocabulary for all targets: `seconds`, `instructions` (executed by wavefronts) and their kinds
`*_instructions`, `vector_memory_reads` and so on, `l1_hits`, `l1_misses`, `l2_hits`, `l2_misses`,
`dram_read_bytes`, `dram_written_bytes`. A target that does not count something leaves it out.
"""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from typing import TYPE_CHECKING

from simgen import render
from simgen.files import write_atomic
from simgen.network import make_layer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from matplotlib.axes import Axes

    from simgen.bundle import Bundle
    from simgen.ir import Step, Workload
    from simgen.results import Result

KINDS = {  # parts of a stacked bar: instruction kinds, by label
    "vector ALU": ("valu_instructions",),
    "scalar ALU": ("salu_instructions",),
    "LDS": ("lds_instructions",),
    "vector memory": ("vector_memory_reads", "vector_memory_writes"),
    "scalar memory": ("scalar_memory_reads",),
}
CACHES = ("l1", "l2")
DOTS_PER_INCH = 96


@dataclass(frozen=True)
class Row:
    """What one target measured for one step: sums over the step's launches."""

    workload: str
    layer: str
    direction: str
    target: str
    operations: int  # that the algorithm needs: flops and transcendentals
    nbytes: int  # that it must move
    metrics: Mapping[str, float]

    @property
    def step(self) -> str:
        return f"{self.layer} {self.direction}"

    @property
    def source(self) -> str:
        return f"{self.workload}, {self.target}"


def rows(bundle: Bundle, found: Iterable[Result]) -> list[Row]:
    """A row for each step and result, in the order of the workload's steps."""
    made = []
    for result in found:
        at = 0
        for step in bundle.workload.steps:
            launches = result.launches[at : at + len(step.launches)]
            at += len(step.launches)
            operations, nbytes = _work(bundle.workload, step)
            made.append(
                Row(
                    bundle.workload.name,
                    step.layer,
                    str(step.direction),
                    result.name,
                    operations,
                    nbytes,
                    _total(launches),
                )
            )
    return made


def derived(row: Row) -> dict[str, float]:
    """Rates that follow from a row's counts: hit rates, operations and bytes per second."""
    found = {}
    for cache in CACHES:
        hits, misses = (row.metrics.get(f"{cache}_{kind}") for kind in ("hits", "misses"))
        if hits is not None and misses is not None and hits + misses > 0:
            found[f"{cache}_hit_rate"] = hits / (hits + misses)
    seconds = row.metrics.get("seconds")
    if seconds:
        found["operations_per_second"] = row.operations / seconds
        found["bytes_per_second"] = row.nbytes / seconds
    return found


def to_csv(found: Sequence[Row]) -> str:
    """All metrics, one line per row; empty where a target does not count something."""
    metrics = list(dict.fromkeys(n for row in found for n in {**row.metrics, **derived(row)}))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["workload", "layer", "pass", "target", "operations", "bytes", *metrics])
    for row in found:
        values = {**row.metrics, **derived(row)}
        cells = [f"{values[name]:.9g}" if name in values else "" for name in metrics]
        head = (row.workload, row.layer, row.direction, row.target, row.operations, row.nbytes)
        writer.writerow([*head, *cells])
    return text.getvalue()


def write(folder: Path, found: Sequence[Row]) -> Path:
    """`report.html`, which needs no other file, and `metrics.csv`; returns the page's path."""
    write_atomic(folder / "metrics.csv", to_csv(found).encode())
    lines = list(csv.reader(io.StringIO(to_csv(found))))
    page = render.page("report.html.j2", head=lines[0], rows=lines[1:], figures=_figures(found))
    path = folder / "report.html"
    write_atomic(path, page.encode())
    return path


def _work(workload: Workload, step: Step) -> tuple[int, int]:
    node = workload.node(step.layer)
    work = make_layer(node).count(node.inputs, step.direction)
    return work.flops + work.transcendentals, work.read_bytes + work.written_bytes


def _total(launches: Sequence[Mapping[str, float]]) -> dict[str, float]:
    names = dict.fromkeys(name for launch in launches for name in launch)
    return {name: sum(launch.get(name, 0.0) for launch in launches) for name in names}


def _figures(found: Sequence[Row]) -> list[tuple[str, str]]:
    """(title, SVG) of each figure that has something to show."""
    sources = list(dict.fromkeys(row.source for row in found))
    drawn: list[tuple[str, str]] = []

    def add(title: str, unit: str, value: Callable[[Row], float | None]) -> None:
        if any(value(row) is not None for row in found):
            drawn.append((title, _bars(found, sources, unit, value)))

    add("Time of each layer", "seconds", lambda row: row.metrics.get("seconds"))
    add("Instructions", "wavefront instructions", lambda row: row.metrics.get("instructions"))
    for source in sources:
        mine = [row for row in found if row.source == source]
        if any("valu_instructions" in row.metrics for row in mine):
            drawn.append((f"Instruction mix: {source}", _mix(mine)))
    add("L1 hit rate", "hits / accesses", lambda row: derived(row).get("l1_hit_rate"))
    add("L2 hit rate", "hits / accesses", lambda row: derived(row).get("l2_hit_rate"))
    add("DRAM traffic", "bytes", _dram)
    add("Throughput", "operations / second", lambda row: derived(row).get("operations_per_second"))
    return drawn


def _dram(row: Row) -> float | None:
    if "dram_read_bytes" not in row.metrics:
        return None
    return row.metrics["dram_read_bytes"] + row.metrics.get("dram_written_bytes", 0.0)


def _bars(
    found: Sequence[Row], sources: Sequence[str], unit: str, value: Callable[[Row], float | None]
) -> str:
    """A group of bars for each step, one bar for each source."""
    steps = list(dict.fromkeys(row.step for row in found))
    shown = [s for s in sources if any(value(r) is not None for r in found if r.source == s)]
    width = 0.8 / len(shown)

    def draw(axes: Axes) -> None:
        for nth, source in enumerate(shown):
            heights = {r.step: value(r) or 0.0 for r in found if r.source == source}
            places = [at + (nth - (len(shown) - 1) / 2) * width for at in range(len(steps))]
            axes.bar(places, [heights.get(step, 0.0) for step in steps], width, label=source)
        axes.set_ylabel(unit)

    return _svg(steps, draw)


def _mix(mine: Sequence[Row]) -> str:
    steps = [row.step for row in mine]

    def draw(axes: Axes) -> None:
        base = [0.0] * len(mine)
        for label, names in KINDS.items():
            heights = [sum(row.metrics.get(name, 0.0) for name in names) for row in mine]
            axes.bar(range(len(steps)), heights, 0.6, bottom=base, label=label)
            base = [a + b for a, b in zip(base, heights)]
        axes.set_ylabel("wavefront instructions")

    return _svg(steps, draw)


def _svg(steps: Sequence[str], draw: Callable[[Axes], None]) -> str:
    """One figure as SVG text; the same bytes for the same numbers."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context({"svg.hashsalt": "simgen", "svg.fonttype": "none"}):
        figure = Figure(figsize=(max(5.0, 1.6 + 1.1 * len(steps)), 3.6), dpi=DOTS_PER_INCH)
        axes = figure.subplots()
        draw(axes)
        axes.set_xticks(range(len(steps)), steps, rotation=30 if len(steps) > 4 else 0)
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_ylim(bottom=0)
        axes.legend(frameon=False, fontsize="small")
        figure.tight_layout()
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None})
    svg = text.getvalue()
    return svg[svg.index("<svg") :]
