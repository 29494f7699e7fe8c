"""What the examination of a simulator has found; packages beside simgen make these values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from typing import Any

from simgen.errors import MismatchError
from simgen.ground import html, tidy


@dataclass(frozen=True)
class Conformance(tidy.Tidy):
    """What a simulator makes of single instructions. It is true when all is right or, against an
    earlier build, nothing is worse.

    Attributes:
        simulator: its name, version and mode.
        architecture, manual: the instruction set, and what says how it works.
        seconds: of simulation.
        counts: forms by what was found: right, wrong, missing, ends.
        forms: of each form its text, finding, reason, lanes and examples.
        before: whether it was compared with an earlier build.
        worse, better: form -> what it was, and is now.
    """

    simulator: str
    architecture: str
    manual: str
    seconds: float
    counts: Mapping[str, int]
    forms: tuple[Mapping[str, Any], ...] = field(repr=False)
    before: bool = False
    worse: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    better: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    @property
    def summary(self) -> str:
        """What was found, in a line."""
        found = ", ".join(f"{count} {name}" for name, count in self.counts.items())
        return f"{self.simulator}, {self.architecture}: {len(self.forms)} forms: {found}"

    @property
    def failure(self) -> str:
        """What is not right, in a line; empty where all is as it should be."""
        if self.before:
            first = next(iter(self.worse), "")
            return first and (
                f"{self.simulator}: {len(self.worse)} forms of instructions are worse than "
                f"before, the first is {first}"
            )
        wrong, missing, ends = (self.counts[name] for name in ("wrong", "missing", "ends"))
        if not wrong + missing + ends:
            return ""
        return (
            f"{self.simulator}: {wrong} of {len(self.forms)} forms of instructions are wrong, "
            f"{missing} missing, and {ends} end it"
        )

    def __bool__(self) -> bool:
        return not self.failure

    def check(self) -> None:
        """Raise MismatchError unless it is true."""
        if failure := self.failure:
            raise MismatchError(failure)

    def __repr__(self) -> str:
        return f"<Conformance of {self.summary}>"

    def _repr_html_(self) -> str:
        rows = [
            (each["text"], each["finding"], f"{each['wrong']}/{each['lanes']}", each["reason"])
            for each in self.forms
            if each["finding"] != "right"
        ]
        heads = ("instruction", "finding", "lanes", "reason")
        return f"{html.table(heads, rows)}<p>{escape(self.summary)}</p>"

    def columns(self) -> dict[str, list[Any]]:
        """A line for each form: instruction, text, form, finding, reason, lanes, wrong."""
        heads = ("instruction", "text", "form", "finding", "reason", "lanes", "wrong")
        return tidy.columns(heads, self.forms)


@dataclass(frozen=True)
class Bisection:
    """Where two targets, or two builds of a simulator, first differ. It is true when they do not.

    Attributes:
        a, b: what was compared.
        arch: the instruction set.
        runs, seconds: how many runs of both, and how long they took.
        launch, step, kernel: the first launch that leaves something else; None: there is none.
        tensor, element, words: the first word that differs, and how many do.
        wavefront, block, instruction, text: the instruction, as far as that was found.
        said: why it was not found any closer.
        register, lanes, values: what differs behind it, of `a` and of `b`.
        reproducer: lines of assembly.
        lines: all of this for people.
    """

    a: str
    b: str
    arch: str
    runs: int
    seconds: float
    differ: bool
    launch: int | None = None
    step: str = ""
    kernel: str = ""
    tensor: str = ""
    element: int | None = None
    words: int = 0
    wavefront: int | None = None
    block: int | None = None
    instruction: int | None = None
    text: str | None = None
    said: str = ""
    register: str = ""
    lanes: tuple[int, ...] = ()
    values: tuple[str, ...] = ()
    reproducer: tuple[str, ...] = ()
    lines: tuple[str, ...] = field(default=(), repr=False)

    @property
    def failure(self) -> str:
        """Where they differ, in half a line; empty where they do not."""
        if not self.differ:
            return ""
        what = f"{self.text.split()[0]} in " if self.text else ""
        return f"{self.a} and {self.b} differ: {what}kernel {self.kernel}"

    def __bool__(self) -> bool:
        return not self.differ

    def check(self) -> None:
        """Raise MismatchError if they differ."""
        if failure := self.failure:
            raise MismatchError(failure)

    def __repr__(self) -> str:
        return f"<Bisection: {self.failure or f'{self.a} and {self.b} leave the same'}>"

    def _repr_html_(self) -> str:
        return f"<pre>{escape(chr(10).join(self.lines or (repr(self),)))}</pre>"
