"""What a command takes where its line does not say it: from the environment, else from a file.

The file is $SIMGEN_CONFIG, or simgen/config.toml in the user's folder of configurations:

    target = "mgpusim"
    mode = "timing"

Only commands read it; the Python API and run.sh do not. What does not fit the target that is built
or run, such as an `arch` that it lacks, is left out: it is a default, and nobody asked for it.
"""

from __future__ import annotations

import os
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simgen.cli import offered
from simgen.errors import UsageError, did_you_mean, one_line, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from simgen.ask.run import RunCommand
    from simgen.bundle.folder import Bundle

FILE = "SIMGEN_CONFIG"
MOST_NBYTES = 1 << 16
USUAL_TARGETS = ("gem5-se", "host")


@dataclass(frozen=True)
class Default:
    """A default that users may have, and the words that it may be; None: any."""

    variable: str
    text: str
    known: Callable[[], Iterable[str]] | None


def _words(options: Mapping[str, Mapping[str, offered.OfTarget]], name: str) -> list[str]:
    return [word for each in options.get(name, {}).values() for word in each.words]


DEFAULTS = {
    "target": Default("SIMGEN_TARGET", "targets of build, run and quick, separated by commas",
                      offered.targets),
    "arch": Default("SIMGEN_ARCH", "architecture of targets that have it",
                    lambda: _words(offered.settings(), "arch")),
    "mode": Default("SIMGEN_MODE", "mode of simulators that have several",
                    lambda: _words(offered.run_options(), "mode")),
    "executor": Default("SIMGEN_EXECUTOR", "executor of workflows: local, slurm, ...",
                        None),
}  # fmt: skip


def path() -> Path:
    """The file."""
    if named := os.environ.get(FILE):
        return Path(named)
    home = os.environ.get("XDG_CONFIG_HOME", "")
    return (Path(home) if home.startswith("/") else Path.home() / ".config") / "simgen/config.toml"


def of_file() -> dict[str, str]:
    """The defaults that the file has.

    Raises:
        UsageError: it cannot be read, or has an unknown key or value.
    """
    from simgen.ground.storage.files import read_regular

    place = one_line(str(path()))
    try:
        found = tomllib.loads(read_regular(path(), MOST_NBYTES).decode())
    except FileNotFoundError:
        return {}
    except OSError as error:
        fact = f"cannot be read ({error.strerror})"
        raise UsageError(f"{place}: {fact}; mend it, or set {FILE} to another") from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{place}: not TOML ({one_line(str(error))}); mend it") from None
    return {key: checked(f"{place}: ", key, value) for key, value in found.items()}


def checked(place: str, key: str, value: object) -> str:
    """The value of a default.

    Raises:
        UsageError: there is no such key, or the value is none of its.
    """
    if key not in DEFAULTS:
        raise UsageError(f"{place}{printable(key)}: unknown; {did_you_mean(key, DEFAULTS)}")
    if not isinstance(value, str) or not value.isprintable() or not value.strip():
        raise UsageError(f'{place}{key}: not a text; write {key} = "..."')
    if known := DEFAULTS[key].known:
        for word in value.split(",") if key == "target" else [value]:
            if word.strip() not in (names := list(known())):
                fact = f"{key} {printable(word)}: unknown"
                raise UsageError(f"{place}{fact}; {did_you_mean(word, names)}")
    return value


def found(*keys: str) -> dict[str, tuple[str, str]]:
    """Key -> value and where it is from, in the order of precedence.

    Raises:
        UsageError: one of them is no value of its key, or the file is not whole.
    """
    of_user, place = of_file(), str(path())
    made = {}
    for key in keys or DEFAULTS:
        variable = DEFAULTS[key].variable
        if text := os.environ.get(variable):
            made[key] = (checked(f"{variable}: ", key, text), variable)
        elif key in of_user:
            made[key] = (of_user[key], place)
    return made


def value(key: str) -> str | None:
    return found(key).get(key, (None, ""))[0]


def write(given: Mapping[str, str]) -> None:
    """Change the file; an empty value removes a key.

    Raises:
        UsageError: an unknown key or value.
        OSError: it cannot be written.
    """
    from simgen.ground.storage.files import write_atomic

    kept = of_file()
    for key, text in given.items():
        kept.pop(key, None)
        if text or key not in DEFAULTS:
            kept[key] = checked("", key, text)
    path().parent.mkdir(parents=True, exist_ok=True)
    lines = [f'{key} = "{_escaped(kept[key])}"\n' for key in DEFAULTS if key in kept]
    write_atomic(path(), "".join(lines).encode())


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def of_build(given: dict[str, Any]) -> None:
    """Put the defaults of a build in the place of what is not given."""
    had = found("target", "arch")
    if not given.get("targets") and "target" in had:
        given["targets"] = (had["target"][0],)
    chosen = [name.strip() for each in given.get("targets") or () for name in each.split(",")]
    having = offered.settings().get("arch", {})
    mine = [having[name].words for name in chosen or USUAL_TARGETS if name in having]
    if given.get("arch") is None and "arch" in had and mine:
        arch = had["arch"][0]
        given["arch"] = arch if all(arch in words for words in mine) else None


def of_run(wanted: RunCommand, bundle: Bundle) -> RunCommand:
    """What is asked for, with the defaults of a run of this bundle."""
    had = found("target")
    target = wanted.target
    if target is None and "target" in had and not wanted.resume:
        names = [name.strip() for name in had["target"][0].split(",")]
        target = next((name for name in names if name in bundle.targets), None)
    having = offered.run_options().get("mode", {})
    may = [
        having[name].words for name in ([target] if target else bundle.targets) if name in having
    ]
    # A variable of that name reaches run.sh by itself.
    mode = None if DEFAULTS["mode"].variable in os.environ else of_file().get("mode")
    options = wanted.options
    if mode and "mode" not in options and may and all(mode in words for words in may):
        options = {**options, "mode": mode}
    return replace(wanted, target=target, options=options)
