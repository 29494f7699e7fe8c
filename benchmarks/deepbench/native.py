"""Every problem that builds, natively, with the library's time beside ours.

Processes plan problems and have their kernels compiled; this one takes them as they are ready,
checks each, times it and the library, and keeps a row. It stops when its time is over, and goes on
from the rows that a file has. Problems come in such an order that at any moment it has seen as
large a share of each family, pass and type, small ones and large ones.
"""

from __future__ import annotations

import json
import multiprocessing
import time
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from math import exp, log
from typing import TYPE_CHECKING, Any

import simgen
from simgen.errors import SimgenError
from simgen.frontend import deepbench
from simgen.frontend.operation import FAMILIES, RnnOperation
from simgen.ground.ir import Pass
from simgen.ground.storage.files import write_atomic
from simgen.layers.recurrent.recurrent import InputMode
from simgen.workload import costs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from simgen.frontend.operation import LibraryOperation

KEPT_EVERY = 5.0  # seconds between two writings of the rows
RIGHT = "right"
REFUSED = "refused: "
OF_SEVERAL_GPUS = ("allreduce",)


@dataclass(frozen=True)
class Task:
    """A problem in one pass and type; of those that are there twice, the first one."""

    name: str
    direction: str
    type: str
    family: str
    operation: str
    flops: float
    twins: tuple[str, ...] = ()  # names of the others

    @property
    def key(self) -> str:
        return f"{self.name} {self.direction} {self.type}"

    @property
    def stratum(self) -> tuple[str, str, str]:
        return self.family, self.direction, self.type


@dataclass
class Row:
    """What was found of a task; times are in seconds, None where there is none."""

    task: Task
    machine: str = ""
    flops: float = 0.0  # of what was run
    algorithm: str = ""
    launches: int = 0
    ours: float | None = None
    library: float | None = None
    result: str = ""  # RIGHT, or what is wrong; or why there is none
    told: str = ""  # by the library, where it does not do it

    @property
    def ratio(self) -> float | None:
        """Above 1, ours is the faster one."""
        return self.library / self.ours if (self.library or 0) > 0 and self.ours else None


@dataclass(frozen=True)
class Made:
    """What another process has made of a task: a folder to run it from, or a reason why not."""

    task: Task
    folder: Path
    failed: str = ""
    values: Any = None  # what the machine's `prepare` has returned


# ---- Which, in which order ----


def tasks(families: Iterable[str], types: Iterable[str]) -> list[Task]:
    """Each different problem once, in each pass and type that its sets have, in order of need."""
    found: dict[tuple[Any, str, str], list[Any]] = {}
    for family in families:
        if family not in OF_SEVERAL_GPUS:
            for each in deepbench.problems(family):
                for direction in each.passes:
                    for dtype in each.types:
                        key = (measured(each.operation), str(direction), dtype)
                        found.setdefault(key, []).append(each)
    made = [
        Task(
            first.name,
            direction,
            dtype,
            first.family,
            str(operation),
            operation.flops,
            tuple(each.name for each in more),
        )
        for (operation, direction, dtype), (first, *more) in found.items()
        if dtype in types
    ]
    return stratified(made)


def measured(operation: LibraryOperation) -> LibraryOperation:
    """What is measured for an operation: recurrent layers multiply their inputs too, since PyTorch
    has them do so."""
    if isinstance(operation, RnnOperation):
        return replace(operation, input=InputMode.LINEAR)
    return operation


def stratified(made: Iterable[Task]) -> list[Task]:
    """So that every beginning has the same share of each stratum, spread over its work."""
    strata: dict[tuple[str, str, str], list[Task]] = {}
    for task in sorted(made, key=lambda task: task.flops):
        strata.setdefault(task.stratum, []).append(task)
    placed = []
    for at, members in enumerate(strata.values()):
        for turn, nth in enumerate(halved(len(members))):
            placed.append(((turn + 0.5) / len(members), at, members[nth]))
    return [task for *_, task in sorted(placed, key=lambda each: each[:2])]


def halved(count: int) -> list[int]:
    """0 to count - 1, so that each beginning is spread evenly: by their bits, the lowest first."""
    bits = max(1, (count - 1).bit_length())
    order = (int(f"{at:0{bits}b}"[::-1], 2) for at in range(2**bits))
    return [at for at in order if at < count]


# ---- Rows in a file ----


@dataclass
class Rows:
    """The rows so far. What is in the file is whole at any moment."""

    path: Path
    found: dict[str, Row] = field(default_factory=dict)
    written: float = 0.0  # when

    @classmethod
    def at(cls, path: Path) -> Rows:
        """Those of a file, if there is one."""
        made = cls(path)
        try:
            rows = json.loads(path.read_text()) if path.exists() else []
            for each in rows:
                task = Task(**{**each.pop("task"), "twins": tuple(each.pop("twins"))})
                made.found[task.key] = Row(task, **each)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise SystemExit(f"{path}: no rows of this program ({error}); name another") from None
        return made

    def has(self, task: Task) -> bool:
        """Whether there is one that is not to be tried again."""
        row = self.found.get(task.key)
        return row is not None and (row.ours is not None or row.result.startswith(REFUSED))

    def add(self, row: Row) -> None:
        self.found[row.task.key] = row
        if time.monotonic() - self.written > KEPT_EVERY:
            self.write()

    def write(self) -> None:
        """The rows, and their tables beside them."""
        texts = []
        for row in self.found.values():
            made = asdict(row)
            made["twins"] = made["task"].pop("twins")
            texts.append(json.dumps(made))
        write_atomic(self.path, ("[\n" + ",\n".join(texts) + "\n]\n").encode())
        self.written = time.monotonic()


# ---- Doing it ----


def run(
    todo: list[Task],
    rows: Rows,
    machine: Any,
    folder: Path,
    *,
    workers: int,
    minutes: float,
    tell: Callable[[str], None] = print,
) -> None:
    """A row for each task that has none, until all are done or the time is over.

    `machine` has `prepare(task, folder)`, which other processes call, and `measure(made, row)`.
    """
    end = time.monotonic() + 60 * minutes
    lacking = [task for task in todo if not rows.has(task)]
    measuring, begun = 0.0, time.monotonic()
    try:
        for made in _prepared(lacking, partial(_prepare, machine.prepare, folder), workers, end):
            row = Row(made.task, machine.name, made.task.flops, result=made.failed)
            if not made.failed:
                start = time.monotonic()
                machine.measure(made, row)
                measuring += time.monotonic() - start
            if row.result != RIGHT and not row.result.startswith(REFUSED):
                tell(f"{made.task.key}: {row.result}")
            rows.add(row)
    finally:
        rows.write()
    left = sum(not rows.has(task) for task in todo)
    taken = f"{measuring:.0f} of {time.monotonic() - begun:.0f} s measuring"
    over = ", the time is over" if left else ""
    tell(f"{len(todo) - left} of {len(todo)} done{over}; {taken}")


def _prepared(
    todo: list[Task], prepare: Callable[[Task], Made], workers: int, end: float
) -> Iterator[Made]:
    """What the processes have made, as it is ready, until `end`."""
    if workers == 0:
        for task in todo:
            if time.monotonic() > end:
                return
            yield prepare(task)
        return
    with multiprocessing.get_context("spawn").Pool(workers) as pool:  # ends them as it is left
        coming = pool.imap_unordered(prepare, todo)
        for _ in todo:
            try:
                yield coming.next(timeout=end - time.monotonic())
            except multiprocessing.TimeoutError:
                return
            if time.monotonic() > end:
                return


def _prepare(prepare: Callable[[Task, Path], Any], root: Path, task: Task) -> Made:
    folder = root / task.key.replace("/", "_").replace(" ", "_")
    try:
        return Made(task, folder, values=prepare(task, folder))
    except SimgenError as error:
        return Made(task, folder, f"{REFUSED}{str(error).partition(': ')[2]}")
    except (Exception, SystemExit) as error:  # a launcher has said why on stderr
        return Made(task, folder, f"failed: {type(error).__name__} {error}")


def planned(task: Task, **choices: Any) -> simgen.PlannedBuild:
    """The plan of what is measured."""
    if task.family == "rnn":
        choices["set"] = {"input_mode": str(InputMode.LINEAR)}
    passes = None if task.direction == Pass.FORWARD else task.direction
    return simgen.plan(task.name, passes=passes, type=task.type, **choices)


@dataclass(frozen=True)
class OnHost:
    """This CPU in place of a GPU, and problems scaled down: everything but the GPU is tried."""

    scale_to: float
    name = "this CPU"

    def prepare(self, task: Task, folder: Path) -> simgen.BuiltBundle:
        return planned(task, scale_to=self.scale_to).build(folder, "host")

    def measure(self, made: Made, row: Row) -> None:
        bundle = made.values
        start = time.perf_counter()
        result = bundle.run("host", replace=True)
        row.ours, row.launches = time.perf_counter() - start, len(result.launches)
        workload = planned(made.task, scale_to=self.scale_to).workload
        row.flops = sum(each.count.flops for each in costs.costs_of(workload))
        row.result = RIGHT if bundle.diff("host", "reference") else "WRONG"


# ---- Tables ----


def geometric_mean(values: Iterable[float]) -> float:
    """0 of nothing."""
    logs = [log(value) for value in values]
    return exp(sum(logs) / len(logs)) if logs else 0.0


def summary(todo: list[Task], rows: Rows) -> list[str]:
    """A line for each family, pass and type."""
    lines = [
        "| family | pass | type | measured | right | TFLOP/s | library | library / ours | least "
        "| largest | 1 or more |",
        f"|{'---|' * 11}",
    ]
    strata: dict[tuple[str, str, str], list[Task]] = {}
    for task in sorted(todo, key=lambda task: task.stratum):
        strata.setdefault(task.stratum, []).append(task)
    for stratum, members in strata.items():
        found = [rows.found[task.key] for task in members if task.key in rows.found]
        timed = [row for row in found if row.ours]
        right = sum(row.result == RIGHT for row in timed)
        both = [row for row in timed if row.ratio]
        rates = geometric_mean(row.flops / row.ours / 1e12 for row in both or timed)
        theirs = geometric_mean(row.flops / row.library / 1e12 for row in both)
        cells = [*stratum, f"{len(timed)} of {len(members)}", right, f"{rates:.3g}", *[""] * 5]
        if both:
            ratios = [row.ratio for row in both]
            means = (geometric_mean(ratios), min(ratios), max(ratios))
            cells[-5:] = [f"{theirs:.3g}", *(f"{each:.2f}" for each in means)]
            cells.append(sum(ratio >= 1 for ratio in ratios))
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return lines


def by_algorithm(rows: Rows) -> list[str]:
    """The same ratios, by the algorithm that was chosen."""
    groups: dict[tuple[str, ...], list[float]] = {}
    for row in rows.found.values():
        if row.ratio and row.algorithm:
            groups.setdefault((*row.task.stratum, row.algorithm), []).append(row.ratio)
    lines = ["| family | pass | type | algorithm | problems | library / ours |", f"|{'---|' * 6}"]
    for key, ratios in sorted(groups.items()):
        lines.append(f"| {' | '.join(key)} | {len(ratios)} | {geometric_mean(ratios):.2f} |")
    return lines


def details(rows: Rows) -> list[str]:
    """As DeepBench's own tables: a line for each problem, milliseconds and TFLOP/s."""
    heads = (
        "problem", "operation", "pass", "type", "ms", "TFLOP/s", "library ms", "library TFLOP/s",
        "library / ours", "result",
    )  # fmt: skip
    lines = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    families = list(FAMILIES)

    def place(row: Row) -> tuple[Any, ...]:
        number = int(row.task.name.rpartition("/")[2])
        return families.index(row.task.family), number, row.task.direction, row.task.type

    for row in sorted(rows.found.values(), key=place):
        task = row.task
        if row.result.startswith(REFUSED):
            continue
        times = [*_times(row.ours, row.flops), *_times(row.library, row.flops)]
        ratio = f"{row.ratio:.2f}" if row.ratio else ""
        cells = (task.name, task.operation, task.direction, task.type, *times, ratio, row.result)
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def refusals(rows: Rows) -> list[str]:
    """A line for each reason."""
    reasons: dict[tuple[str, str, str], int] = {}
    for row in rows.found.values():
        if row.result.startswith(REFUSED):
            key = (row.task.family, row.task.type, row.result)
            reasons[key] = reasons.get(key, 0) + 1
    return [f"- {count} of {family}, {of}, {told}" for (family, of, told), count in reasons.items()]


def _times(seconds: float | None, flops: float) -> tuple[str, str]:
    if seconds is None or seconds <= 0:
        return "", ""
    return f"{seconds * 1e3:.4g}", f"{flops / seconds / 1e12:.3g}"


def page(todo: list[Task], rows: Rows, head: list[str]) -> str:
    """All tables."""
    wrong = [row for row in rows.found.values() if row.ours and row.result != RIGHT]
    failed = [row for row in rows.found.values() if not rows.has(row.task)]
    twins = sum(len(task.twins) for task in todo)
    machines = sorted({row.machine for row in rows.found.values()})
    return "\n".join(
        [
            *head,
            "",
            f"Machine: {', '.join(machines)}. {len(todo)} different problems, passes and types; "
            f"{twins} more are there twice. {len(wrong)} of what was timed is wrong, "
            f"{len(failed)} failed. What is measured, and how results are checked, on_gpu.py says.",
            "",
            *summary(todo, rows),
            "",
            *by_algorithm(rows),
            "",
            *refusals(rows),
            "",
            *details(rows),
            "",
        ]
    )
