"""A sweep as a TOML file says it: workloads, settings of builds, targets, options of runs."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Annotated, Any

from simgen.errors import ConfigError, UsageError, did_you_mean, one_line, shortened
from simgen.ground.storage.files import read_regular
from simgen.ground.storage.schema import SchemaError, Sized, Within, from_json
from simgen.workload.pieces import Warm

if TYPE_CHECKING:
    from pathlib import Path

MAX_NBYTES = 2**20
Word = Annotated[str, Sized(1, 1000)]
Scalar = bool | int | float | str


@dataclass(frozen=True)
class SweepSpec:
    """What the file holds. Lists in `build` and `run` are swept, all combinations of them."""

    workloads: Annotated[tuple[Word, ...], Sized(1, 1000)]
    targets: Annotated[tuple[Word, ...], Sized(1, 100)]
    build: Mapping[str, Any] = field(default_factory=dict)  # options of `simgen build`, config keys
    run: Mapping[str, Any] = field(default_factory=dict)  # options of targets; a table for one
    pieces: Annotated[str, Sized(0, 40)] = ""  # representatives or all; empty: runs are whole
    layers: Annotated[tuple[Word, ...], Sized(0, 1000)] = ()  # parts of networks, by pieces
    warm: Warm = Warm.PREVIOUS
    jobs: Annotated[int, Within(1, 100_000)] = 8  # jobs at a time
    diff: bool = True  # judge each result


PIECES = ("representatives", "all")


def read_spec(path: Path) -> SweepSpec:
    """The file.

    Raises:
        ConfigError: it is not there, or says something that is not known.
    """
    try:
        told = tomllib.loads(read_regular(path, MAX_NBYTES).decode())
    except OSError as error:
        raise ConfigError(path, f"{error.strerror}; write a sweep as docs/sweeps.md does") from None
    except (
        ValueError,
        RecursionError,
    ) as error:  # no text, no TOML, a number of thousands of digits
        raise ConfigError(
            path, f"not TOML ({shortened(one_line(str(error)), 200)}); mend it"
        ) from None
    known = [each.name for each in fields(SweepSpec)]
    for name in told:
        if name not in known:
            raise ConfigError(path, f"{name!r} is unknown; {did_you_mean(name, known)}")
    for name in ("workloads", "targets"):
        if name not in told:
            raise ConfigError(path, f"it names no {name}; add {name} = [...]")
    try:
        spec = from_json(SweepSpec, told)
    except SchemaError as error:
        raise ConfigError(path, f"{error}; mend it") from None
    if spec.pieces and spec.pieces not in PIECES:
        raise ConfigError(path, f"pieces = {spec.pieces!r}; {did_you_mean(spec.pieces, PIECES)}")
    if spec.layers and not spec.pieces:
        raise ConfigError(path, 'layers run by pieces; add pieces = "representatives" or "all"')
    return spec


def axis(name: str, value: Any) -> list[Scalar]:
    """The values of a setting: itself, or those of a list, each once.

    Raises:
        UsageError: it is neither.
    """
    values = value if isinstance(value, list) else [value]
    if not values or not all(isinstance(each, bool | int | float | str) for each in values):
        raise UsageError(f"{name}: not a value, nor a list of some; write {name} = [1, 2]")
    return list(dict.fromkeys(values))


def text(value: Scalar) -> str:
    """A value as on the command line."""
    return str(value).lower() if isinstance(value, bool) else str(value)
