"""What people see: tables, progress, sizes. Scripts get JSON instead."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
import shutil
import sys
import textwrap
import time
from typing import TYPE_CHECKING, Any

from simgen.bundle import result_names, verdict_file
from simgen.errors import kernel_name
from simgen.ground.ir import Buffer, DType, OpCount, Role, TensorSpec, Workload
from simgen.ground.metrics import Metric, quantity
from simgen.ground.metrics import seconds as seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray
    from rich.progress import Progress

    from simgen.bundle.results import Result
    from simgen.frontend.inputs import Source
    from simgen.frontend.network import Network
    from simgen.reports.pages.correlation import Correlation
    from simgen.reports.pages.row import Row
    from simgen.verdict.judging import Judgement
    from simgen.verdict.losses import StepLoss
    from simgen.verdict.verdict import Diff, Verdict

    Done = Callable[[int, int], None]  # (what is done, all of it)

PLAIN_INTERVAL = 10.0  # seconds between lines of progress where there is no terminal
MOST_SHOWN = 4  # numbers of a constant
PIPED = 160  # columns of a table where there is neither a terminal nor COLUMNS
NARROWEST = 40  # columns that are believed
OF_BYTES = ("data", "checking data")  # kinds of work that are counted in them
EXACT = "exact"  # in place of a share of a tolerance: there was none
UNBROKEN = 24  # longest word that a narrow terminal does not break: names of kernels are longer


SEGMENT = re.compile(r"[^/]*/|[^/]+")  # where a path is folded
NUMBER = re.compile(r"[-+]?\.?\d")  # begins one


def say(text: str) -> None:
    """A line for people, folded between words where it is longer than the terminal is wide."""
    start = text[: len(text) - len(text.lstrip())]
    more = {"initial_indent": start, "subsequent_indent": start}
    wrapper = textwrap.TextWrapper(
        _room(),
        break_long_words=False,
        break_on_hyphens=False,
        **more,  # type: ignore[arg-type]
    )
    lines = wrapper.wrap(text.lstrip())
    print("\n".join(lines))


def table(
    title: str | None,
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    drop: Sequence[str] = (),
) -> None:
    """A table on stdout, at most as wide as the terminal or COLUMNS; numbers to the right.

    Cells are folded between words. Where that is not enough, empty columns are left out, then those
    of `drop`, the first one first, which are named below the table. Where that is not enough
    either, a row is a card.
    """
    cells = [[str(cell) for cell in row] for row in rows]
    room, kept = _room(), list(range(len(columns)))
    if _least(columns, cells, kept) > room:
        kept = [at for at in kept if at == 0 or any(row[at] for row in cells)]
    full = kept
    for name in drop:
        if _least(columns, cells, kept) <= room:
            break
        kept = [at for at in kept if columns[at] != name]
    if title:
        say(title)
    shown = [[row[at] for at in kept] for row in cells]
    heads = [columns[at] for at in kept]
    if _least(columns, cells, kept) > room:
        _cards(heads, shown, room)
    else:
        _grid(heads, shown, room)
    if len(kept) < len(full):
        left = ", ".join(" ".join(columns[at].split()) for at in full if at not in kept)
        say(f"left out, as the terminal is narrow: {left}")


def _room() -> int:
    """Columns of the terminal, or what COLUMNS says; where neither is there, PIPED."""
    if sys.stdout.isatty():
        return max(shutil.get_terminal_size().columns, NARROWEST)
    given = os.environ.get("COLUMNS", "")
    return max(int(given), NARROWEST) if re.fullmatch(r"[0-9]{1,5}", given) else PIPED


def _numbers(column: Sequence[str]) -> bool:
    """Whether all cells that are not empty are numbers."""
    return all(NUMBER.match(each) or each in ("-", "inf", "-inf", EXACT) for each in column if each)


def _width(head: str, column: Sequence[str]) -> int:
    """The least width of a column: numbers are not broken, nor words of up to UNBROKEN letters."""
    parts = [each for word in " ".join(column).split() for each in SEGMENT.findall(word)]
    words = [*head.split(), *(column if _numbers(column) else parts)]
    return min(max(map(len, words), default=0), UNBROKEN)


def _least(columns: Sequence[str], cells: Sequence[Sequence[str]], kept: Sequence[int]) -> int:
    """The least width of a table of the columns `kept`."""
    return 1 + sum(_width(columns[at], [row[at] for row in cells]) + 3 for at in kept)


def _widths(heads: Sequence[str], columns: Sequence[Sequence[str]], room: int) -> list[int]:
    """A width for each column: the least, and more where it is wanted, as far as there is room."""
    wanted = [
        max(map(len, [*head.split("\n"), *column]))
        for head, column in zip(heads, columns, strict=True)
    ]
    widths = [
        min(_width(head, column), most)
        for head, column, most in zip(heads, columns, wanted, strict=True)
    ]
    spare = room - 1 - sum(widths) - 3 * len(widths)
    while spare > 0 and widths != wanted:
        at = min(
            (at for at in range(len(widths)) if widths[at] < wanted[at]), key=lambda i: widths[i]
        )
        widths[at] += 1
        spare -= 1
    return widths


def _grid(heads: Sequence[str], cells: Sequence[Sequence[str]], room: int) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    made = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    columns = [[row[at] for row in cells] for at in range(len(heads))]
    widths = _widths(heads, columns, room)
    for name, column, width in zip(heads, columns, widths, strict=True):
        right = any(column) and _numbers(column)
        made.add_column(name, justify="right" if right else "left", overflow="fold", width=width)
    for row in cells:
        made.add_row(
            *(Text(_folded(cell, width), style=STYLES.get(cell, ""))
              for cell, width in zip(row, widths, strict=True))
        )  # fmt: skip
    console = _console()
    console.width = room - 1  # rich ends lines with a column of padding
    if console.is_terminal:
        console.print(made, soft_wrap=True)
        return
    with console.capture() as captured:
        console.print(made, soft_wrap=True)
    print("\n".join(line.rstrip() for line in captured.get().splitlines()))  # no padding


def _folded(text: str, width: int) -> str:
    """The text; in it, a path that is longer is folded behind a slash."""

    def folded(path: re.Match[str]) -> str:
        lines = [""]
        for part in SEGMENT.findall(path[0]):
            if lines[-1] and len(lines[-1] + part) > width:
                lines.append("")
            lines[-1] += part
        return "\n".join(lines)

    return re.sub(rf"(?=\S*/)\S{{{width + 1},}}", folded, text)


def _cards(heads: Sequence[str], cells: Sequence[Sequence[str]], room: int) -> None:
    """Each row below its first cell, a line or more for each other one."""
    names = [" ".join(head.split()) for head in heads]
    width = max(map(len, names), default=0)
    for row in cells:
        print()
        title = " ".join((names[0], row[0])) if row and NUMBER.match(row[0]) else "".join(row[:1])
        print("\n".join(textwrap.wrap(title, room)))
        for name, cell in zip(names[1:], row[1:], strict=True):
            start = f"  {name:<{width}}  "
            left = max(room - len(start), 10)
            parts = _folded(cell, left).split("\n")
            lines = [line for part in parts for line in textwrap.wrap(part, left)] or [""]
            print(start + f"\n{' ' * len(start)}".join(lines) if cell else start.rstrip())
    print()


# Columns of `diff` that a narrow terminal has no room for, the first one first.
DROPPED = ("elements", "all errors /\nrounding", "error /\nlargest value", "error /\ntolerance")
STYLES = {
    "same": "green",
    "DIFFERENT": "bold red",
    "proved nothing": "yellow",
    "ok": "green",
    "missing": "yellow",
}


SAID = {"same": "", "different": " is different", "proved nothing": " proved nothing"}


def _console() -> Any:
    from rich.console import Console

    return Console(width=_room(), highlight=False)


def size(nbytes: float) -> str:
    """1536 -> "1.5 KiB"."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if round(nbytes, 1) < 1024 or unit == "GiB":
            break
        nbytes /= 1024
    return f"{nbytes:.0f} {unit}" if unit == "B" else f"{nbytes:.1f} {unit}"


def count(value: float) -> str:
    """1234567 -> "1.23M"."""
    text = quantity(value, "", "KMGT").replace(" ", "")
    return text if text[-1].isalpha() else f"{value:.0f}"


def tensor(spec: TensorSpec) -> str:
    """Its shape, and its type where that is not the usual one."""
    return _typed(shape(spec.shape), spec.dtype)


def _typed(text: str, dtype: DType) -> str:
    return text if dtype == DType.F32 else f"{text} {dtype}"


def shape(extents: Sequence[int]) -> str:
    return "x".join(str(extent) for extent in extents)


@contextlib.contextmanager
def progress(quiet: bool) -> Iterator[Callable[[str, Callable[[int], str]], Done | None]]:
    """Makes a callback (done, total) for each kind of work, from its name and how to write counts.

    A bar for each on a terminal, otherwise now and then a line.
    """
    if quiet:
        yield lambda what, text: None
    elif sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        shown = TextColumn("{task.fields[shown]}")
        columns = (TextColumn("{task.description}"), BarColumn(), shown, TimeRemainingColumn())
        with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
            yield functools.partial(_bar, bars)
    else:
        yield _lines


@contextlib.contextmanager
def stages(quiet: bool) -> Iterator[Callable[[str, int, int], None] | None]:
    """A callback (what, done, total) that shows each kind of work; None where it is to be quiet."""
    with progress(quiet) as kind:
        shown: dict[str, Done | None] = {}

        def tell(what: str, done: int, total: int) -> None:
            if what not in shown:
                shown[what] = kind(what, size if what in OF_BYTES else str)
            if show := shown[what]:
                show(done, total)

        yield None if quiet else tell


def _bar(bars: Progress, what: str, text: Callable[[int], str]) -> Done:
    task = bars.add_task(what, visible=False, total=None, shown="")

    def show(done: int, total: int) -> None:
        shown = f"{text(done)} of {text(total)}"
        bars.update(task, completed=done, total=total, shown=shown, visible=True)

    return show


def _lines(what: str, text: Callable[[int], str]) -> Done:
    last = time.monotonic()

    def show(done: int, total: int) -> None:
        nonlocal last
        if time.monotonic() - last >= PLAIN_INTERVAL:
            last = time.monotonic()
            print(f"{what}: {text(done)} of {text(total)}", file=sys.stderr, flush=True)

    return show


def network(net: Network, *, settings: bool) -> None:
    """The layers: what each reads, the shape of what it writes, and settings off their defaults."""
    rows = []
    for placed in net.layers:
        data = ", ".join(tensor(x) for x in placed.node.inputs)
        row = [
            placed.node.name,
            placed.layer.section,
            ", ".join(map(_source, placed.sources)) or data,
        ]
        row.append(tensor(placed.output))
        if settings:
            kind = type(placed.layer)
            changed = [
                f"{key}={value}"
                for key, value in placed.node.parameters
                if kind.from_config([(key, value, "")]) != kind()
            ]
            row.append(" ".join(changed))
        rows.append(row)
    heads = ("layer", "section", "input", "output", *(["settings"] if settings else []))
    table(None, heads, rows)


def _source(source: Source) -> str:
    """As a config names it: the tensor is said where it is not a layer's only one."""
    return source.layer if source.tensor == "y" else str(source)


def work(workload: Workload) -> None:
    """A line for each layer and pass, their sum, and the memory of all tensors."""
    from simgen.workload import costs as works

    found = works.costs_of(workload)
    held = works.memory(workload)
    rows = []
    for each, before in zip(found, (None, *found)):
        first = before is None or before.layer != each.layer
        made = (each.tensor_bytes, each.workspace_bytes)
        cells = _work_cells(each.count, each.parameters, *made)
        rows.append((each.layer if first else "", each.direction, shape(each.output), *cells))
    tensors = sum(each.tensor_bytes for each in found)
    sums = _work_cells(works.total(found), held["parameters"] // 4, tensors, held["workspaces"])
    rows.append(("all", "", "", *sums))
    heads = ("layer", "pass", "output", "ops", "bytes", "ops/byte", "parameters")
    table(None, (*heads, "tensors", "workspace"), rows)
    parts = [f"{what} {size(n)}" for what, n in held.items() if n]
    say(f"memory: {', '.join(parts[:-1])}; {parts[-1]}")


def inputs(
    workload: Workload, *, parameters: bool, constants: Mapping[str, NDArray[Any]] = {}
) -> None:
    """The tensors that come from data.h5, with what fills them; `parameters` too.

    `constants` are what a model fixes, each said with its value, or its digest.
    """
    from simgen.workload import costs as works

    kinds = works.kinds_of_tensors(workload)
    rows = [
        (each.name, "constant" if each.name in constants else kinds[each.name].removesuffix("s"),
         tensor(each.spec), size(each.spec.nbytes),
         constant(constants[each.name]) if each.name in constants else _filling(each))
        for each in workload.buffers
        if each.role is Role.INPUT
        and (parameters or each.name in constants or kinds[each.name] != "parameters")
    ]  # fmt: skip
    if rows:
        table(None, ("tensor", "is", "shape", "bytes", "values"), rows)


def constant(values: NDArray[Any]) -> str:
    """ "0.125", a few numbers, "0 throughout", or the digest of more."""
    few = values.reshape(-1)[: MOST_SHOWN + 1].tolist()
    if len(few) <= MOST_SHOWN:
        return " ".join(f"{each:.9g}" for each in few)
    if (values == few[0]).all():
        return f"{few[0]:.9g} throughout"
    return f"sha256 {hashlib.sha256(values.tobytes()).hexdigest()[:16]}"


def _filling(buffer: Buffer) -> str:
    """ "normal, mean 0, deviation 1"; what a user gave is said to be so."""
    fill = buffer.fill
    if buffer.values is not None or fill is None:
        return "given"
    a, b = f"{fill.a:g}", f"{fill.b:g}"
    words = {
        "uniform": f"uniform in [{a}, {b})",
        "normal": f"normal, mean {a}, deviation {b}",
        "whole": f"whole numbers to {a}",
        "zipf": f"whole numbers below {a}" + (f", by Zipf's law, exponent {b}" if fill.b else ""),
    }
    return words.get(fill.distribution, str(fill.distribution))


def _work_cells(work: OpCount, parameters: int, tensors: int, workspace: int) -> tuple[str, ...]:
    operations = work.flops + work.transcendentals
    moved = work.read_bytes + work.written_bytes
    return (
        count(operations),
        size(moved),
        f"{operations / moved:.2f}" if moved else "",
        count(parameters) if parameters else "",
        size(tensors),
        size(workspace) if workspace else "",
    )


def difference(report: Diff, details: bool) -> None:
    """One pair: a line per tensor; the worst points and the histogram of what failed."""
    from simgen.verdict.verdict import beyond_rounding  # brings NumPy, which a build does not need

    rows = []
    for verdict in report.verdicts:
        compared = verdict.comparison
        exact = verdict.exact and not compared.outside
        cells = (
            verdict.layer,
            verdict.direction,
            _typed(verdict.tensor, compared.dtype),
            compared.elements,
            _relative(compared.max_error, compared.max_reference),
            EXACT if exact else _share(compared.max_ratio),
            "" if exact else _share(beyond_rounding(compared)),
            *([compared.max_ulps] if details else []),
            "DIFFERENT" if verdict.outcome == "different" else verdict.outcome,
        )
        rows.append(cells)
    heads = [
        "layer",
        "pass",
        "tensor",
        "elements",
        "error /\nlargest value",
        "error /\ntolerance",
        "all errors /\nrounding",
        *(["most ULPs\napart"] if details else []),
        "verdict",
    ]
    table(f"{report.a} against {report.b}", heads, rows, DROPPED)
    bitwise = sum(verdict.exact for verdict in report.verdicts)
    if bitwise:
        say(f"{bitwise} of {many(len(rows), 'tensor')} compared bit for bit")
    for verdict in report.verdicts:
        if verdict.reasons:
            say(f"  {verdict.tensor}{SAID[verdict.outcome]}: {'; '.join(verdict.reasons)}")
    for note in report.notes:
        say(note)
    first = report.first_diverging
    if first:
        say(f"first diverging layer: {first.layer} ({first.direction})")
    for verdict in report.verdicts:
        # What is wrong only by the reference is shown where it is compared with that.
        if details or (verdict is first and not verdict.comparison.passed):
            _details(report, verdict)


def by_settings(names: Sequence[str]) -> tuple[list[str], dict[str, list[str]]]:
    """Heads and cells that tell results apart: their target, and what was swept."""
    short = result_names.shortened(names)
    given = {name: result_names.options_of(short[name]) for name in names}
    heads = dict.fromkeys(option for each in given.values() for option in each)
    cells = {
        name: [
            ", ".join((result_names.target_of(name), *result_names.words_of(short[name]))),
            *(given[name].get(option, "") for option in heads),
        ]
        for name in names
    }
    return ["result", *heads], cells


def differences(reports: Sequence[Diff]) -> None:
    """A row for each result, with the tensor that is farthest from the reference; all of what
    differs."""
    from simgen.verdict.verdict import REFERENCE

    judged = [report for report in reports if report.b == REFERENCE]
    heads, cells = by_settings([report.a for report in judged])
    rows = []
    for report in judged:
        found = [verdict.outcome for verdict in report.verdicts]
        ratios = [v.comparison.max_ratio or 0.0 for v in report.verdicts if not v.exact]
        worst = max(report.verdicts, key=lambda v: (not v.exact, v.comparison.max_ratio or 0.0))
        verdict = "same" if set(found) == {"same"} else verdict_file.counted(found)
        apart = (worst.tensor, _share(max(ratios))) if ratios else ("", EXACT)
        rows.append((*cells[report.a], verdict, *apart))
    table(None, (*heads, "verdict", "worst tensor", "error /\ntolerance"), rows)
    pairs = [report for report in reports if report.b != REFERENCE]
    if same := sum(report.passed for report in pairs):
        print(f"with each other: {same} of {many(len(pairs), 'pair')} the same")
    for report in reports:
        if not report.passed:
            difference(report, details=False)


def _relative(error: float, largest: float) -> str:
    """The error of a tensor as a part of its largest value; by itself where all values are 0."""
    return f"{error / largest if largest else error:.2g}"


def _share(ratio: float | None) -> str:
    """A share of a limit: 0.0345 -> "3.45%", 12 -> "12 x"; empty if unknown."""
    if ratio is None:
        return ""
    if ratio > 1:
        return f"{ratio:.3g} x" if ratio < float("inf") else "inf"
    return f"{100 * ratio:.2f}%"


def losses(found: Sequence[StepLoss]) -> None:
    """The loss of each training step, in the reference and in each result."""
    if not found:
        return
    names = list(dict.fromkeys(name for each in found for name in each.results))
    several = len({each.tensor.partition(".")[0] for each in found}) > 1
    rows = [
        (
            each.step,
            *([each.tensor] if several else []),
            f"{each.reference:.6f}",
            *(f"{each.results[name]:.6f}" if name in each.results else "" for name in names),
        )
        for each in found
    ]
    heads = ("step", *(["tensor"] if several else []), "reference", *names)
    table("loss of each training step", heads, rows)


def reached(
    judged: Judgement, loss: float | None, accuracy: float | None, price: float | None
) -> None:
    """The first step of each result that reaches a loss, and an accuracy; its time and its cost."""
    from simgen.verdict.losses import reached as first_step

    gpus = {each.name: int(each.provenance.get("gpus", 1)) for each in judged.results}
    goals = {}
    if loss is not None:
        goals[f"loss {loss:g}"] = first_step(judged.losses, loss=loss)
    if accuracy is not None:
        goals[f"accuracy {accuracy:g} %"] = first_step(judged.losses, accuracy=accuracy / 100)
    rows = []
    for goal, steps in goals.items():
        for name, step in steps.items():
            if step is None:
                rows.append((goal, name, "none of these", "", "", "", ""))
                continue
            took = step.seconds.get(name)
            cost = f"{price * gpus[name] * took / 3600:.3g}" if price and took else ""
            right = f"{step.accuracies[name]:.1%}" if name in step.accuracies else ""
            time, least = seconds(took) if took else "", f"{step.results[name]:.6f}"
            rows.append((goal, name, str(step.step), time, least, right, cost))
    if rows:
        heads = ("goal", "result", "step", "time", "loss", "accuracy", "cost")
        table("first step that reaches a goal", heads, rows)


def _details(report: Diff, verdict: Verdict) -> None:
    from simgen.verdict.verdict import ulp_classes

    compared = verdict.comparison
    if compared.worst:
        rows = [
            (
                "[" + ", ".join(str(i) for i in point.index) + "]",
                _number(point.a),
                _number(point.b),
                f"{point.error:.3g}",
                f"{point.bound:.3g}",
            )
            for point in compared.worst
        ]
        table(
            f"worst points of {verdict.tensor}",
            ("index", report.a, report.b, "error", "tolerance"),
            rows,
        )
    pairs = [(name, n) for name, n in zip(ulp_classes(), compared.ulps) if n]
    table(f"ULPs apart, {verdict.tensor}", ("ULPs", "elements"), pairs)


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.9g}"


def many(n: int, one: str, more: str = "") -> str:
    return f"{n} {one if n == 1 else more or one + 's'}"


def machine(workload: Workload, why: str = "") -> None:
    """The machine that kernels are planned for."""
    from simgen.ground.machine import descriptions

    of = workload.machine
    told = descriptions().get(of.name)
    title = f", {told.title}" if told else ""
    reason = f"; {why}" if why else ""
    say(f"planned for {of.label}{title}: {many(of.units, 'compute unit')}{reason}")


def planned(workload: Workload, why: str) -> None:
    """The machine that kernels are planned for, and what was chosen for it."""
    from simgen.workload import costs

    machine(workload, why)
    rows = [
        (choice.layer if at == 0 else "", choice.direction if at == 0 else "", each.what,
         each.chosen, each.why)
        for choice in costs.choices(workload)
        for at, each in enumerate(choice.choices)
    ]  # fmt: skip
    if rows:
        table(None, ("layer", "pass", "", "chosen", "because"), rows)


def queues(workload: Workload) -> None:
    """Print what each of several queues runs, and what it waits for."""
    if not workload.queues:
        return
    steps = [f"{step.layer} {step.direction}" for step in workload.steps]
    rows = [
        (turn.queue, step, ", ".join(steps[at] for at in turn.after))
        for step, turn in zip(steps, workload.queues, strict=True)
    ]
    rows.sort(key=lambda row: row[0])
    shown = [("" if before == row[:1] else row[0], *row[1:])
             for before, row in zip([(), *(each[:1] for each in rows)], rows)]  # fmt: skip
    table(None, ("queue", "layer and pass", "waits for, of other queues"), shown)


def dispatches(workload: Workload) -> None:
    """The launches, with grid, block and arguments."""
    rows = [
        (
            step.layer,
            step.direction,
            kernel_name(launch.kernel),
            shape(launch.grid),
            workload.kernel(launch.kernel).block,
            " ".join(f"{name}+{more}" if more else name for name, more in launch.places),
        )
        for step in workload.steps
        for launch in step.launches
    ]
    heads = ("layer", "pass", "kernel", "work-groups", "work-items", "arguments")
    table(None, heads, rows)


def launches(workload: Workload, found: Sequence[Result]) -> None:
    """Seconds of each launch in each result that has them; with two results, their ratio, but none
    with this computer's CPU, which is not the machine of any other."""
    from simgen.reports.pages.correlation import HOST

    found = [result for result in found if any("seconds" in each for each in result.launches)]
    for result in (each for each in found if each.is_statistics_only):
        _own_launches(workload, result)
    found = [result for result in found if not result.is_statistics_only]
    if not found:  # an emulator counts no time
        return
    rows = []
    divided = len(found) == 2 and HOST not in {each.provenance.get("target") for each in found}
    inferred = {result.name: result.inferred for result in found}
    samples = {result.name: result.samples for result in found}
    order = [(step, launch) for step in workload.steps for launch in step.launches]
    for at, (step, launch) in enumerate(order):
        times = [result.launches[at].get("seconds") for result in found]
        if not any(result.launches[at] for result in found):  # the runs were about other layers
            continue
        cells = ["" if t is None else seconds(t) for t in times]
        for cell, result in enumerate(found):
            if at in (taken := samples[result.name]):
                cells[cell] += f" ± {seconds(taken[at].errors.get('seconds', 0.0))}"
            if at in (like := inferred[result.name]):
                cells[cell] += f", as {like[at]}"
        if divided:
            a, b = times
            cells.append(f"{a / b:.3g}" if a is not None and b else "")
        rows.append((at, step.layer, step.direction, kernel_name(launch.kernel), *cells))
    heads = ["launch", "layer", "pass", "kernel", *(result.name for result in found)]
    if divided:
        heads.append("ratio")
    table(None, heads, rows)


def _own_launches(workload: Workload, result: Result) -> None:
    """Seconds of each launch of a result with other kernels than the workload's."""

    rows = []
    ran = zip(result.kernels(workload), result.launches, strict=True)
    for at, ((step, kernel), metrics) in enumerate(ran):
        of = workload.steps[step]
        time = seconds(metrics["seconds"]) if "seconds" in metrics else ""
        rows.append((at, of.layer, of.direction, kernel_name(kernel), time))
    table(None, ("launch", "layer", "pass", "kernel", result.name), rows)


def report(found: Sequence[Row]) -> None:
    """A line for each layer and target, with what architects ask for first."""
    from simgen.ground.metrics import METRICS
    from simgen.reports.pages.page import derived

    held = [{**row.metrics, **derived(row)} for row in found]
    shown = [
        m for m in METRICS.values() if m.column and any(_metric(m, v.get(m.name)) for v in held)
    ]
    machines = list(dict.fromkeys(row.planned_for for row in found))
    typed = any(row.type != str(DType.F32) for row in found)
    swept = _swept(found)
    rows = []
    for row, values in zip(found, held, strict=True):
        cells = (_metric(metric, values.get(metric.name)) for metric in shown)
        plan = [row.planned_for] if len(machines) > 1 else []
        types = [row.type] if typed else []
        step = (
            row.bundle,
            *(row.setting(name) for name in swept),
            *plan,
            row.layer,
            row.pass_,
            *types,
            row.result,
            row.verdict,
        )
        rows.append((*step, *cells))
    heads = ["bundle", "layer", "pass", "target", "verdict", *(metric.column for metric in shown)]
    if typed:
        heads.insert(3, "type")
    if len(machines) > 1:
        heads.insert(1, "planned for")
    heads[1:1] = swept
    ranked = [metric.column for metric in reversed(shown)]
    # What is asked for first stays longest: the time.
    ranked.sort(key=lambda column: column == METRICS["seconds"].column)
    table(None, heads, rows, (*ranked[:-1], "planned for", "type"))
    if len(machines) == 1:
        say(f"planned for {machines[0]}")


def _swept(found: Sequence[Row]) -> list[str]:
    """Settings of a build that the names of bundles tell."""
    return list(dict.fromkeys(k for row in found for k in result_names.options_of(row.bundle)))


def results(found: Sequence[Row]) -> None:
    """A line for each result: its verdict, its time and what took most of it."""
    from simgen.reports.pages.limits import limit_of

    runs: dict[tuple[str, str], list[Row]] = {}
    for row in found:
        runs.setdefault((row.bundle, row.result), []).append(row)
    heads, named = by_settings(list(dict.fromkeys(row.result for row in found)))
    swept = [name for name in _swept(found) if name not in heads]
    bundles = len({bundle for bundle, _ in runs}) > 1
    rows = []
    for (bundle, target), of in runs.items():
        took = sum(row.metrics.get("seconds", 0.0) for row in of)
        slow = max(of, key=lambda row: row.metrics.get("seconds", 0.0))
        cells = (
            *([bundle] if bundles else []),
            *(of[0].setting(name) for name in swept),
            *named[target],
            "right"
            if {row.verdict for row in of} == {verdict_file.RIGHT}
            else verdict_file.counted([row.verdict for row in of]),
            seconds(took) if took else "",
            count(sum(row.operations for row in of) / took) if took else "",
            f"{slow.step} {slow.metrics['seconds'] / took:.0%}" if took else "",
            str(limit_of(slow) or ""),
        )
        rows.append(cells)
    shown = [*swept, *heads, "verdict", "time", "operations/s", "slowest", "limited by"]
    table(
        None,
        ["bundle", *shown] if bundles else shown,
        rows,
        ("operations/s", "limited by", "slowest"),
    )


def _metric(metric: Metric, value: float | None) -> str:
    """A metric's value, for people; empty where there is none, and where a time is 0."""
    from simgen.ground.metrics import Kind

    if value is None or (metric.kind is Kind.TIME and not value):
        return ""
    if metric.kind is Kind.SHARE:
        return f"{value:.1%}"
    return seconds(value) if metric.kind is Kind.TIME else count(value)


def correlations(found: Sequence[Correlation]) -> None:
    """A line for each quantity that two targets both have, over their common layers."""
    from simgen.reports.pages.page import CORRELATION_TITLES, correlation_cells

    if found:
        table("agreement", CORRELATION_TITLES, [correlation_cells(each) for each in found])
