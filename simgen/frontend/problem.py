"""What the user names on the command line -> a config and what to do with it.

A problem is a built-in workload (`softmax_fwd`: a layer's sample problem in one pass), a built-in
network (`data/NAME.dnnmark`), or a config file.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from simgen import resources
from simgen.errors import UsageError, did_you_mean, printable
from simgen.frontend import config
from simgen.frontend.config import Config
from simgen.frontend.network import sample_section
from simgen.ir import Pass
from simgen.layers import LAYERS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simgen.layers import Layer

SUFFIXES = (".dnnmark", ".dnntemplate")


@dataclass(frozen=True)
class Problem:
    name: str  # of the workload and, unless the user says otherwise, of the bundle
    config: Config
    passes: tuple[Pass, ...]
    settings: tuple[tuple[str, str], ...]  # of `--set`, less those that filled variables


def built_in() -> dict[str, str]:
    """Names of the workloads that need no file -> what they are. Only those that can be built."""
    found = {
        f"{kind}_{direction}": f"[{layer.section}] {_sizes(layer.sample)}"
        for kind, layer in sorted(LAYERS.items())
        for direction in passes_of(layer)
    }
    return found | {name: f"network, {name}.dnnmark" for name in networks()}


def networks() -> list[str]:
    """Names of the networks that come with simgen."""
    return sorted(path.stem for path in resources.folder("data").glob("*.dnnmark"))


def find(
    word: str,
    settings: Sequence[tuple[str, str]],
    passes: Sequence[Pass] | None,
    usual: Sequence[Pass] = (Pass.FORWARD,),
) -> Problem:
    """The problem that `word` names. A setting whose key is a `$VARIABLE` of the file fills it.

    `usual` are the passes of a network where `passes` is None.

    Raises:
        UsageError: no such workload.
        ConfigError: the file cannot be read.
    """
    path = Path(word)
    if path.suffix in SUFFIXES or path.is_file():
        return _from_file(path, settings, passes or usual)
    network = resources.folder("data") / f"{word}.dnnmark"
    if re.fullmatch(r"\w+", word) and network.is_file():
        return _from_file(network, settings, passes or usual)
    kind, direction = _split(word)
    if kind:
        if passes and tuple(passes) != (Pass(direction),):
            raise UsageError(f"--pass: {word} is pass {direction} already; leave --pass out")
        sections = (sample_section(kind),)
        content = Config(f"built-in {kind}", sections, (), config.text_of(sections))
        return Problem(word, content, (Pass(direction),), tuple(settings))
    if (path / "manifest.json").is_file():
        cure = "name what it was built from, or use simgen run, diff or report"
        raise UsageError(f"workload {printable(word)}: a bundle, not a workload; {cure}")
    if word and path.is_dir():
        raise UsageError(f"workload {printable(word)}: a folder; name a workload or a config file")
    known = [*built_in(), *(f"{kind}_fwd" for kind in LAYERS)]
    cure = did_you_mean(word, known, "simgen list")
    raise UsageError(f"workload {printable(word)}: no such workload; {cure}")


def again(
    name: str, text: str, source: str, settings: Sequence[tuple[str, str]], passes: Sequence[Pass]
) -> Problem:
    """The problem of this name whose config has that text (`Config.text`), with other settings.

    Raises:
        ConfigError: the text is no config.
    """
    return _of_config(name, config.parse(text, source, dict(settings)), settings, passes)


def passes_of(layer: type[Layer]) -> tuple[Pass, ...]:
    """What a user may ask of a layer: its passes, and `bwd` where that is several of them."""
    parts = Pass.BACKWARD_WEIGHT in layer.passes and Pass.BACKWARD not in layer.passes
    return (*layer.passes, *((Pass.BACKWARD,) if parts else ()))


def _split(word: str) -> tuple[str, str]:
    """ "conv_bwd_data" is layer "conv" in pass "bwd_data"; ("", "") where it is nothing."""
    for kind in LAYERS:
        for direction in Pass:
            if word == f"{kind}_{direction}" and direction is not Pass.UPDATE:
                return kind, str(direction)
    return "", ""


def _from_file(path: Path, settings: Sequence[tuple[str, str]], passes: Sequence[Pass]) -> Problem:
    name = re.sub(r"[^A-Za-z0-9_-]+", "_", path.stem)
    return _of_config(name, config.read(path, dict(settings)), settings, passes)


def _of_config(
    name: str, content: Config, settings: Sequence[tuple[str, str]], passes: Sequence[Pass]
) -> Problem:
    rest = tuple((key, value) for key, value in settings if key not in content.variables)
    return Problem(name, content, tuple(passes), rest)


def _sizes(sample: object) -> str:
    return " ".join(f"{k}={v}" for k, v in dict(sample).items())  # type: ignore[call-overload]
