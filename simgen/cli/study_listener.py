"""What `simgen study` prints while it runs."""

from __future__ import annotations

import contextlib
import sys
import time
from typing import TYPE_CHECKING

from simgen.cli import present
from simgen.cli.following import Printing, duration, say_ran
from simgen.reports.studies.measuring import StudyListener

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from simgen.bundle.planning import Told
    from simgen.bundle.writing import Bundle
    from simgen.running.runs import Ended


class PrintingStudy(Printing, StudyListener):
    """Prints a line for each run, and how it goes on."""

    def __init__(self, quiet: bool, verbose: bool) -> None:
        Printing.__init__(self, quiet)
        StudyListener.__init__(self)
        self.verbose = verbose
        self.begun = time.monotonic()

    def plans(self, points: int) -> None:
        self.tell(f"study: {present.many(points, 'run')}")

    def begins_point(self, nth: int, count: int, title: str) -> None:
        passed = time.monotonic() - self.begun
        left = f", about {duration(passed / (nth - 1) * (count - nth + 1))} left" if nth > 1 else ""
        self.tell(f"{nth} of {count}: {title}{left}")

    @contextlib.contextmanager
    def building(self, path: Path) -> Iterator[Told | None]:
        with present.stages(self.quiet) as tell:
            yield tell

    def ended(self, bundle: Bundle, ended: Ended) -> None:
        if self.verbose and not self.quiet:
            say_ran(bundle, ended, verbose=False)

    def failed_point(self, title: str, why: str) -> None:
        print(f"failed: {title}: {why}", file=sys.stderr, flush=True)
