"""What the user names on the command line -> a config and what to do with it.

A problem is

    softmax_fwd               a built-in workload: a layer's sample problem in one pass
    alexnet                   a built-in network, data/NAME.dnnmark
    path/to/model.dnnmark     a config, or a template
    path/to/kernel.toml       kernels of the user's own (simgen.frontend.own_kernel)
    path/to/model.onnx        a model, or a .pt2 program (simgen.frontend.importing)
    path/to/config.json       a language model's config (simgen.frontend.decoder)
    atrex/rms_norm/3          an operator of LLM serving (simgen.frontend.atrex)
    deepbench/gemm/17         a problem of a list (simgen.frontend.deepbench)
    dnnmark/conv              a primitive of DNNMark's paper (simgen.frontend.dnnmark)
    gemm:m=35,n=700,k=2048    an operation of a library (simgen.frontend.operation)
    MIOpenDriver conv -n 8 .. the same as the command line of a driver (simgen.frontend.drivers)

Whatever it is, it becomes a config, passes and settings, and nothing else knows which it was.
"""

from __future__ import annotations

import hashlib
import itertools
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from simgen.ask.build import BuildChoices
from simgen.errors import ConfigError, SimgenError, UsageError, did_you_mean, one_line, printable
from simgen.frontend import atrex, config, decoder, dnnmark, foreign
from simgen.frontend.config import Config, Place
from simgen.frontend.network import sample_section
from simgen.frontend.settings import GENERAL, kind_of
from simgen.ground import resources
from simgen.ground.ir import Pass
from simgen.layers import KIND_OF, LAYERS, Layer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from simgen.frontend.decoder import Serving
    from simgen.frontend.deepbench import Listed
    from simgen.frontend.importing.draft import ModelTensor
    from simgen.frontend.operation import LibraryOperation
    from simgen.frontend.own_kernel import KernelFile

PASSES = BuildChoices.passes
TYPE = BuildChoices.type
SUFFIXES = (".dnnmark", ".dnntemplate")
KERNELS, MODELS = ".toml", (".onnx", ".pt2")  # suffixes of these
LONGEST_NAME = 120  # characters of a workload's
LONGEST_PATH = 255  # characters; longer words name no file


@dataclass(frozen=True)
class Problem:
    name: str  # name of the workload and, by default, of the bundle
    config: Config
    passes: tuple[Pass, ...]
    # settings of `--set`, without those that filled variables
    settings: tuple[tuple[str, str], ...]
    dtype: str | None = None  # element type of what no layer writes; None: as sections say
    notes: tuple[str, ...] = ()  # what is to be said of it
    kernel: KernelFile | None = None  # kernels of the user's own, in place of layers
    # A model's parameters by buffer, with their shapes and where their values are.
    parameters: Mapping[str, ModelTensor] | None = field(default=None, compare=False, repr=False)


# As DNNMark's own programs have them: its convolutions have neither groups nor biases.
DNNMARK_NETWORKS = {"alexnet_dnnmark": "alexnet", "vgg_dnnmark": "vgg16"}
LACKING_IN_DNNMARK = re.compile(r"^\s*(?:bias|group)\s*=.*\n", re.MULTILINE)
DNNMARK_NETWORK = re.compile(r"\A(?:dnnmark_)?test_(alexnet|VGG)\Z")
# A command line that starts gem5, or has its script.
GEM5_LINE = re.compile(r"(?:^|[\s/\"'])(?:apu_se\.py(?![\w.])|gem5\.(?:opt|fast|debug)\s)")


def built_in() -> dict[str, str]:
    """Names of the workloads that need no file -> what they are. Only those that can be built."""
    found = {
        f"{kind}_{direction}": f"[{layer.section}] {_sizes(layer.sample)}"
        for kind, layer in sorted(LAYERS.items())
        for direction in passes_of(layer)
    }
    return found | {name: f"network, {name}.dnnmark" for name in networks()}


def listed() -> dict[str, str]:
    """Those, and the networks as DNNMark's own programs have them."""
    return built_in() | {
        name: f"network, {base}.dnnmark without groups and biases"
        for name, base in DNNMARK_NETWORKS.items()
    }


def networks() -> dict[str, str]:
    """Names of the networks that come with simgen -> the first sentence of their files."""
    files = sorted(resources.folder("data").glob("*.dnnmark"))
    return {path.stem: _first_sentence(path.read_text("utf-8")) for path in files}


def _first_sentence(text: str) -> str:
    """First sentence of the comment at the top of a config."""
    lines = itertools.takewhile(lambda line: line.startswith("#"), text.splitlines())
    return re.split(r"\.(?:\s+(?=[A-Z0-9])|\s*$)", " ".join(line.strip("# ") for line in lines))[0]


def find(
    word: str,
    settings: Sequence[tuple[str, str]],
    passes: Sequence[Pass] | None,
    usual: Sequence[Pass] = (Pass.FORWARD,),
    dtype: str | None = None,
    serving: Serving = decoder.USUAL,
) -> Problem:
    """The problem that `word` names. A setting whose key is a `$VARIABLE` of the file fills it.

    `usual` are the passes of a network where `passes` is None; `dtype` is the element type that the
    user asks for.

    Raises:
        UsageError: no such workload, or it is not to be had in these passes or this type.
        ConfigError: the file cannot be read, or the word is no problem string or line of a driver.
        UnsupportedError: simgen has no layer that does it.
    """
    path = Path(word)
    if decoder.is_one(path):
        content, element, notes = decoder.read(path, serving, dtype)
        made = _of_config(_stem(path), content, settings, passes or usual)
        return replace(made, dtype=element, notes=notes)
    if serving.given:
        fact = f"workload {printable(word)}: no config.json of a language model"
        cure = f"leave {serving.given} out"
        if serving.given == str(BuildChoices.batch):
            cure += f"; did you mean '{BuildChoices.set} n=N'?"
        raise UsageError(f"{serving.given}: {fact}; {cure}")
    broken, settings = settings, _on_their_lines(settings)
    if asked := dnnmark.line(word):
        made = _from_file(Path(asked.config), settings, passes or asked.passes)
        return replace(made, dtype=dtype, notes=(*made.notes, *asked.notes))
    if path.suffix == KERNELS:
        from simgen.frontend import own_kernel

        return _of_kernel(own_kernel.read_kernel_file(path, settings), settings)
    if path.suffix in MODELS:
        return replace(_from_model(path, settings, passes or usual), dtype=dtype)
    if path.suffix in SUFFIXES or (len(word) <= LONGEST_PATH and path.is_file()):
        return replace(_from_file(path, broken, passes or usual), dtype=dtype)
    network = resources.folder("data") / f"{word}.dnnmark"
    if re.fullmatch(r"\w+", word) and network.is_file():
        return replace(_from_file(network, settings, passes or usual), dtype=dtype)
    program = DNNMARK_NETWORK.fullmatch(word)
    if base := DNNMARK_NETWORKS.get(f"{program[1].lower()}_dnnmark" if program else word):
        text = (resources.folder("data") / f"{base}.dnnmark").read_text("utf-8")
        content = config.parse(LACKING_IN_DNNMARK.sub("", text), word, dict(settings))
        return replace(_of_config(word, content, settings, passes or usual), dtype=dtype)
    if primitive := dnnmark.size(word):
        content = config.built_in(primitive, sample_section(primitive, dnnmark.SIZES[primitive]))
        name = f"dnnmark_{primitive}"
        return Problem(name, content, tuple(passes or usual), tuple(settings), dtype)
    if operator := atrex.find(word):
        content = config.built_in(operator.name, operator.section())
        name = re.sub(r"\W+", "_", operator.name)
        return Problem(
            name, content, tuple(passes or usual), tuple(settings), dtype or operator.type
        )
    kind, direction = _split(dnnmark.PROGRAM.sub(r"\2_\1", word))
    if kind:
        if passes and tuple(passes) != (Pass(direction),):
            raise UsageError(f"{PASSES}: {word} is pass {direction} already; leave {PASSES} out")
        content = config.built_in(kind, sample_section(kind))
        return Problem(word, content, (Pass(direction),), tuple(settings), dtype)
    if found := _from_library(word, settings, passes, dtype):
        return found
    if GEM5_LINE.search(word):
        raise UsageError(
            f"workload {printable(word)}: a command line of gem5; simgen show LINE says which "
            "commands of simgen do the same"
        )
    made_here = Path(f"{word}{SUFFIXES[0]}")  # as `simgen new network -o mix.dnnmark` leaves it
    if 0 < len(word) <= LONGEST_PATH and "\0" not in word and made_here.is_file():
        return replace(_from_file(made_here, broken, passes or usual), dtype=dtype)
    if (path / "manifest.json").is_file():
        cure = "name what it was built from, or use simgen run, diff or report"
        raise UsageError(f"workload {printable(word)}: a bundle, not a workload; {cure}")
    if word and path.is_dir():
        raise UsageError(f"workload {printable(word)}: a folder; name a workload or a config file")
    from simgen.frontend import deepbench

    known = [*listed(), *(f"{kind}_fwd" for kind in LAYERS), *deepbench.samples()]
    known += [f"{atrex.ROOT}/{family}/0" for family in atrex.OPERATORS]
    known += [*(f"{dnnmark.ROOT}/{kind}" for kind in dnnmark.SIZES), *dnnmark.programs()]
    cure = did_you_mean(word, known, "simgen list")
    raise UsageError(f"workload {printable(word)}: no such workload; {cure}")


def again(
    name: str,
    text: str,
    source: str,
    settings: Sequence[tuple[str, str]],
    passes: Sequence[Pass],
    dtype: str | None,
) -> Problem:
    """The problem of this name whose config has that text (`Config.text`), with other settings.

    Raises:
        ConfigError: the text is no config.
    """
    from simgen.frontend import own_kernel

    if own_kernel.is_one(text):
        plain = _on_their_lines(settings)
        return _of_kernel(own_kernel.again(text, source, plain), plain)
    content = config.parse(text, source, dict(settings))
    return replace(_of_config(name, content, settings, passes), dtype=dtype)


def passes_of(layer: type[Layer]) -> tuple[Pass, ...]:
    """What a user may ask of a layer: its passes, and `bwd` where that is several of them."""
    parts = Pass.BACKWARD_WEIGHT in layer.passes and Pass.BACKWARD not in layer.passes
    return (*layer.passes, *((Pass.BACKWARD,) if parts else ()))


def is_known(word: str) -> bool:
    """Whether `word` names a workload."""
    try:
        find(word, (), None)
    except SimgenError:
        return False
    return True


def _split(word: str) -> tuple[str, str]:
    """ "conv_bwd_data" is layer "conv" in pass "bwd_data"; ("", "") where it is nothing."""
    for kind in LAYERS:
        for direction in Pass:
            if word == f"{kind}_{direction}" and direction is not Pass.UPDATE:
                return kind, str(direction)
    return "", ""


def _from_file(path: Path, settings: Sequence[tuple[str, str]], passes: Sequence[Pass]) -> Problem:
    what = foreign.foreign_format(path, (GENERAL, *KIND_OF))
    if what:
        raise ConfigError(one_line(str(path)), what)
    return _of_config(_stem(path), config.read_config(path, dict(settings)), settings, passes)


def _from_model(path: Path, settings: Sequence[tuple[str, str]], passes: Sequence[Pass]) -> Problem:
    from simgen.frontend.importing import onnx_model

    found = onnx_model.read_model(path, dict(settings))
    _check_keys(found.config)
    made = _of_config(_stem(path), found.config, settings, passes)
    outputs = (f"{name} is {tensor}" for name, tensor in found.outputs.items())
    notes = [f"outputs of the model: {', '.join(outputs)}"]
    if found.fixed:
        notes.append(f"outputs that the model fixes, with no layer: {', '.join(found.fixed)}")
    return replace(made, parameters=found.parameters, notes=tuple(notes))


def _check_keys(content: Config) -> None:
    """Raises ConfigError if layers do not take what a model says of them, with all of it."""
    facts = []
    for section in content.sections:
        layer = LAYERS[kind_of(section)]
        common = layer.common_keys()
        try:
            layer.from_config(
                (e.key, e.value, e.where) for e in section.entries if e.key not in common
            )
        except ConfigError as error:
            facts.append(str(error).removeprefix(f"{one_line(content.source)}: "))
    if facts:
        raise ConfigError(one_line(content.source), "; ".join(facts))


def _stem(path: Path) -> str:
    return _short(re.sub(r"[^A-Za-z0-9_-]+", "_", path.stem))


def _short(name: str) -> str:
    """A name that a folder can have, with letters to spare; other words have another one."""
    if len(name) <= LONGEST_NAME:
        return name
    return f"{name[: LONGEST_NAME - 9]}_{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def _of_kernel(found: KernelFile, settings: Sequence[tuple[str, str]]) -> Problem:
    passes = (Pass.FORWARD,)
    return Problem(found.name, found.config, passes, tuple(settings), kernel=found)


def _of_config(
    name: str, content: Config, settings: Sequence[tuple[str, str]], passes: Sequence[Pass]
) -> Problem:
    rest = [each for each in settings if each[0] not in content.variables]
    return Problem(name, content, tuple(passes), _on_their_lines(rest))


def _on_their_lines(settings: Sequence[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Settings without the line breaks around their values, which only templates have a use for."""
    return tuple((key, value.strip()) for key, value in settings)


def _from_library(
    word: str,
    settings: Sequence[tuple[str, str]],
    passes: Sequence[Pass] | None,
    dtype: str | None,
) -> Problem | None:
    """The problem of a list, or of an operation or a driver's line; None: the word is none."""
    from simgen.frontend import deepbench, operation
    from simgen.frontend.drivers import table

    problem = deepbench.find(word)
    line = None if problem else table.parse_line(word)
    found = problem.operation if problem else line or operation.parse_operation(word)
    if not found:
        return None
    typed = bool(line) or bool(re.search(r"[:,]\s*type\s*=", word))
    made = _from_operation(found, problem, settings, passes, dtype, typed=typed)
    return replace(made, notes=table.notes(word, made.notes)) if line else made


def _from_operation(
    found: LibraryOperation,
    listed: Listed | None,
    settings: Sequence[tuple[str, str]],
    passes: Sequence[Pass] | None,
    dtype: str | None,
    *,
    typed: bool,
) -> Problem:
    """The layer that does an operation, by itself; `typed`, if its words say the type.

    Raises:
        UsageError: the list has it in other passes or types, or it says another type itself.
        UnsupportedError: simgen has no such layer.
    """
    name = listed.name if listed else str(found)
    directions = tuple(passes or found.direction)
    if listed:
        _check_listed(listed, directions, dtype)
    elif dtype not in (None, found.type) and typed:
        raise UsageError(f"{TYPE}: the workload says type={found.type} already; leave {TYPE} out")
    section = found.section(Place(name, 0))
    if directions != found.direction or (listed and directions != (Pass.FORWARD,)):
        name = f"{name}_{'_'.join(directions)}"
    name = _short(re.sub(r"[^A-Za-z0-9_-]+", "_", name.replace("=", "")))
    content = config.built_in(name, section)
    notes = (*((str(listed),) if listed else ()), *found.notes)
    return Problem(name, content, directions, tuple(settings), dtype or found.type, notes)


def _check_listed(listed: Listed, passes: Sequence[Pass], dtype: str | None) -> None:
    """Raises UsageError if the problem is not in its list in these passes or this type."""
    cure = f"take one of them, or write the problem as {listed.operation}"
    both = {Pass.BACKWARD: (Pass.BACKWARD_DATA, Pass.BACKWARD_WEIGHT)}
    for each in passes:
        if not set(both.get(each, (each,))) <= set(listed.passes):
            fact = f"{listed.name} is of the {listed.set} set, which has {', '.join(listed.passes)}"
            raise UsageError(f"{PASSES} {each}: {fact}; {cure}")
    if dtype is not None and dtype not in listed.types:
        fact = f"{listed.name} is of the {listed.set} set, which has {', '.join(listed.types)}"
        raise UsageError(f"{TYPE} {printable(dtype)}: {fact}; {cure}")


def _sizes(sample: object) -> str:
    return " ".join(f"{k}={v}" for k, v in dict(sample).items())  # type: ignore[call-overload]
