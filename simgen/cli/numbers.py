"""Numbers on the command line: read, refused and told as those of choices are (simgen.ask)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from simgen.ask.build import BuildChoices
from simgen.ask.run import RunChoices
from simgen.errors import UsageError, printable

if TYPE_CHECKING:
    from collections.abc import Callable

    from simgen.ask.kinds import ValueKind

SECONDS, SEED = RunChoices.timeout.kind, BuildChoices.seed.kind


def number(*names: str, kind: ValueKind, help: str, **more: Any) -> Callable[[Any], Any]:
    """An option of this kind."""

    def read(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
        try:
            return None if value is None else kind.read(value)
        except ValueError as error:
            raise UsageError(f"{param.opts[0]} {printable(str(value))}: {error}") from None

    text = f"{help} [{kind.range}]"
    return click.option(*names, metavar=kind.metavar, callback=read, help=text, **more)
