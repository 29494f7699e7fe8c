"""What the help and a shell offer: options of targets, and names that are known without a bundle.

They are known before targets and layers are imported: data/offered.json is made from the code by
tests/golden.py, and a test compares the two. Where an installed package brings a target that is not
in it, all targets are imported and asked.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass, fields
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from dataclasses import Field
    from pathlib import Path

    from simgen.targets.base import RunOption

    Having = dict[str, dict[str, "OfTarget"]]  # name -> target -> its option of that name


@dataclass(frozen=True)
class OfTarget:
    """An option of one target; a flag gives `flag` and has no value."""

    text: str
    default: str = ""
    words: tuple[str, ...] = ()
    metavar: str = "V"
    range: str = ""
    several: bool = False
    flag: bool | None = None


def settings() -> Having:
    """The settings of all targets, which are options of `build`."""
    return _having("settings")


def run_options() -> Having:
    """The run options of all targets, which are options of `run`."""
    return _having("run")


def targets() -> list[str]:
    return list(_targets())


def words(kind: str) -> list[str]:
    """Names of a kind: workloads, algorithms, types, machines, exports."""
    found: list[str] = _table()[kind]
    return found


def problems() -> list[str]:
    """Names of the problems of lists, such as deepbench/gemm/1."""
    ranges = [(part, *each) for part, them in _table()["problems"].items() for each in them]
    return [f"{part}/{n}" for part, first, last in ranges for n in range(first, last + 1)]


def path() -> Path:
    from simgen.ground import resources

    return resources.folder("data") / "offered.json"


@cache
def _table() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path().read_text())
    return found


def _targets() -> Mapping[str, Any]:
    """Name -> the settings and run options of a target."""
    from simgen.ground import plugins

    installed = {name: each.value for name, each in plugins.named("simgen.targets").items()}
    table = _table()
    if "simgen.targets" in sys.modules or installed != table["brought"]:
        return asked()
    return table["targets"]  # type: ignore[no-any-return]


def asked() -> dict[str, Any]:
    """What the targets themselves say."""
    from simgen.targets import TARGETS

    return {
        name: {
            "settings": {each.name: asdict(_setting(each)) for each in fields(target)},
            "run": {name: asdict(_run(each)) for name, each in target.run_options.items()},
        }
        for name, target in TARGETS.items()
    }


def _setting(each: Field[Any]) -> OfTarget:
    flag = not each.default if isinstance(each.default, bool) else None
    words = tuple(each.metadata["choices"])
    return OfTarget(each.metadata["help"], str(each.default), words, flag=flag)


def _run(each: RunOption) -> OfTarget:
    if each.choices:
        return OfTarget(each.told, words=each.choices)
    metavar = "ARG" if each.several else "TEXT" if each.pattern else "N"
    range_ = "" if each.pattern else f" [{each.least} or more]"
    return OfTarget(each.told, metavar=metavar, range=range_, several=each.several)


def _having(kind: str) -> Having:
    found: Having = {}
    for target, options in _targets().items():
        for name, each in options[kind].items():
            made = OfTarget(**{**each, "words": tuple(each["words"])})
            found.setdefault(name, {})[target] = made
    return found
