"""What is printed while a run goes on."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING

from simgen.bundle import built_here
from simgen.cli.present import PLAIN_INTERVAL, count, launches, many, progress, seconds, size
from simgen.errors import message
from simgen.running.runs import Ended, Listener

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.progress import Progress as RichProgress

    from simgen.bundle.results import Result
    from simgen.bundle.writing import Bundle
    from simgen.ground.ir import Workload
    from simgen.running.time_left import Meter, Pace
    from simgen.targets.base import Progress


@contextlib.contextmanager
def running(what: str, workload: Workload, quiet: bool) -> Iterator[Following | None]:
    """Callbacks for a run of the workload: a bar on a terminal, now and then a line otherwise."""
    if quiet:
        yield None
        return
    if not sys.stderr.isatty():
        yield Following(what, workload)
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    columns = (TextColumn(what), BarColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        yield Following(what, workload, bar)


class Printing(Listener):
    """Prints all that a run tells, unless it is to be quiet."""

    def __init__(self, quiet: bool) -> None:
        self.quiet = quiet

    def tell(self, line: str) -> None:
        if not self.quiet:
            print(line, flush=True)

    def notice(self, line: str) -> None:
        if not self.quiet:
            print(message(line), file=sys.stderr, flush=True)

    def notice_origin(self, bundle: Bundle, *targets: str | None) -> None:
        """Say once that programs of somebody else are executed."""
        own = [each for each in targets if each and each in bundle.targets] or list(bundle.targets)
        if not self.quiet and (line := built_here.warning(bundle, own)):
            self.notice(line)

    @contextlib.contextmanager
    def checking(self) -> Iterator[Callable[[int, int], None] | None]:
        with progress(self.quiet) as kind:
            yield kind("checking data", size)

    @contextlib.contextmanager
    def following(self, name: str, todo: Workload) -> Iterator[Following | None]:
        with running(name, todo, self.quiet) as follow:
            yield follow


class Following:
    """Shows how a run goes on. It has nothing to show before the first launch has ended."""

    def __init__(self, what: str, workload: Workload, bar: RichProgress | None = None) -> None:
        self.what, self.workload, self.bar = what, workload, bar
        self.meter: Meter | None = None
        self.told = 0.0  # when the last line was printed
        self.task = bar.add_task("", total=None) if bar else None

    def tick(self, passed: float) -> None:
        """`passed` seconds since the start, of a target that tells nothing more."""
        self._show(f"{passed:.0f} s", passed)

    def preparing(self, what: str, passed: float) -> None:
        """`what` has taken `passed` seconds; no launch has begun."""
        self._show(f"{what}, {duration(passed)} so far", passed)

    def progress(self, progress: Progress, passed: float) -> None:
        from simgen.running.time_left import Meter

        self.meter = self.meter or Meter(self.workload)
        pace = self.meter.look(progress, passed)
        if self.bar and self.task is not None:
            self.bar.update(self.task, total=pace.total, completed=pace.done)
        self._show(pace_text(pace), passed)

    def _show(self, text: str, passed: float) -> None:
        if self.bar and self.task is not None:
            self.bar.update(self.task, description=text)
        elif passed < self.told:  # the time begins anew when a preparation is over
            self.told = passed
        elif passed - self.told >= PLAIN_INTERVAL:
            self.told = passed
            print(f"{self.what}: {text}", file=sys.stderr, flush=True)


def pace_text(pace: Pace) -> str:
    """ "3 of 8 launches, conv2 fwd, 138 us simulated, 12.3 us/s, 11 s so far, 40 s left"."""
    parts = [f"{pace.done} of {many(pace.total, 'launch', 'launches')}"]
    if pace.step:
        parts.append(f"{pace.step.layer} {pace.step.direction}")
    if pace.simulated_per_second:
        parts.append(f"{seconds(pace.simulated or 0.0)} simulated")
        parts.append(f"{seconds(pace.simulated_per_second)}/s")
    elif pace.instructions_per_second:
        parts.append(f"{count(pace.instructions or 0.0)} instructions")
        parts.append(f"{count(pace.instructions_per_second)}/s")
    parts.append(f"{duration(pace.passed)} so far")
    if pace.left is not None:
        parts.append(f"{duration(pace.left)} left")
    return ", ".join(parts)


def duration(value: float) -> str:
    """3725 seconds -> "1 h 02 min"."""
    minutes, rest = divmod(round(value), 60)
    if not minutes:
        return f"{rest} s"
    if minutes < 60:
        return f"{minutes} min {rest:02} s"
    return f"{minutes // 60} h {minutes % 60:02} min"


def _totals(result: Result) -> None:
    """What all launches of a run by pieces come to, and how much of it was measured."""

    inferred = result.inferred
    taken = result.samples
    if not inferred and not taken:
        return
    errors = result.errors(range(len(result.launches)))
    parts = []
    for name, text in (("seconds", seconds), ("instructions", count)):
        values = [each.get(name) for each in result.launches]
        if None in values:
            continue
        whole = sum(value for value in values if value is not None)
        like = sum(values[at] or 0.0 for at in inferred)
        unit = "" if name == "seconds" else f" {name}"
        half = f" ± {text(errors[name])}" if errors.get(name) else ""
        part = f", of which {text(whole - like)} measured" if inferred else ""
        parts.append(f"{text(whole)}{half}{unit}{part}")
    if parts:
        count_of = len(result.launches)
        said = [f"{count_of - len(inferred)} of {count_of} launches"] if inferred else []
        said += [f"{len(taken)} by samples of their work-groups"] if taken else []
        print(f"in all {'; '.join(parts)}: {', '.join(said)}")


def _at_once(workload: Workload, result: Result) -> None:
    """What a run with several queues took, and its launches one by one."""
    names = ("elapsed_seconds", "seconds")
    elapsed, single = (sum(each.get(name, 0.0) for each in result.launches) for name in names)
    if workload.queues and elapsed:
        count_ = len({turn.queue for turn in workload.queues})
        print(f"in all {seconds(elapsed)} in {count_} queues; launches {seconds(single)} together")


def say_ran(bundle: Bundle, ended: Ended, verbose: bool) -> None:
    """The launches of a run that has ended; verbosely its log too."""
    from simgen.targets.base import log_text

    launches(bundle.workload, [ended.result])
    _totals(ended.result)
    _at_once(bundle.workload, ended.result)
    if verbose:
        print(log_text(ended.folder), end="")
