"""A user's own kernels: what a .toml says of them -> a definition, and a network of one layer.

    source = "add.hip"
    inputs = { a = "f32[n]", b = "f32[n] uniform(0, 1)" }
    outputs = { c = "f32[n]" }
    args = ["a", "b", "c", "i32 n"]
    items = "n"
    block = 256
    reference = "a + b"
    parameters = { n = 65536 }

docs/own-kernels.md has all keys. Expressions are of parameters; nothing in the file is executed.
"""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from simgen.ask.build import BuildChoices
from simgen.errors import ConfigError, did_you_mean, one_line, printable
from simgen.frontend import kernel_pieces, narrow_text, own_tensors
from simgen.frontend.config import Config, Entry, Place, Section
from simgen.frontend.kernel_text import Files, OutsideError
from simgen.frontend.network import Network, Placed
from simgen.frontend.own_launches import KEYS as LAUNCH_KEYS
from simgen.frontend.own_launches import SHARED_KEYS, Launches
from simgen.ground.ir import Language, Node, OwnSource, to_json
from simgen.ground.storage.files import NotRegularError, leads_out, open_regular, read_regular
from simgen.layers.own import Definition, OwnKernel, OwnTensor, expression
from simgen.layers.own.expression import ExpressionError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from simgen.ground.machine import Machine

SUFFIX = ".toml"
MAX_NBYTES = 2**19  # size limit of the file, and of all sources together
MAGIC = '{"simgen_kernel": 1, '  # begins the text that a bundle keeps
KEYS = (
    "source", "arch", "defines", "inputs", "outputs", "scratch", "parameters", "reference",
    "tolerance", "flops", "launch", "accumulate", "arithmetic", "contract",
    *LAUNCH_KEYS,
)  # fmt: skip
NARROW = ("f16", "bf16")
COMPUTED = (*NARROW, "f32", "f64")  # types of arithmetic
PYTHON = re.compile(r"([^:\0]+\.py):([A-Za-z_]\w*)")


@dataclass(frozen=True)
class KernelFile:
    """A file that was read, with the parameters that it is built for."""

    name: str
    source: str  # the file's name, for messages
    toml: str
    files: tuple[tuple[str, str], ...]  # sources by name; code objects in base64
    definition: Definition
    python: tuple[str, str] | None = None  # (file, function) of the reference

    @property
    def text(self) -> str:
        """What a bundle keeps, so that it can be built again without these files."""
        kept = {"toml": self.toml, "files": dict(self.files), "python": bool(self.python)}
        return MAGIC + json.dumps(kept)[1:]

    @property
    def config(self) -> Config:
        """In place of the config of other workloads: it tells bundles apart."""
        where = Place(self.source, 1)
        said = json.dumps(to_json(self.definition), sort_keys=True)
        section = Section(OwnKernel.section, (Entry("definition", said, where),), where)
        return Config(self.source, (section,), (), self.text)

    def network(self, machine: Machine) -> Network:
        """A network of one layer, which has all kernels."""
        made = json.dumps(to_json(self.definition))
        node = Node(self.name, OwnKernel.kind, (("definition", made),), ())
        layer = OwnKernel(definition=self.definition, machine=machine)
        placed = Placed(node, layer, (), tuple(layer.outputs(()).items()), self.source)
        return Network("none", (placed,), machine)


def is_one(text: str) -> bool:
    """Whether a bundle was built from such a file, by the text that it keeps."""
    return text.startswith(MAGIC)


def read_kernel_file(path: Path, settings: Sequence[tuple[str, str]]) -> KernelFile:
    """The kernels that the file describes; `settings` are of its parameters.

    Raises:
        ConfigError: the file, or one that it names, cannot be read, or says what cannot be.
    """
    toml = _content(path, path, MAX_NBYTES).decode("utf-8", "surrogateescape")
    if not toml.isprintable() and re.search("[\ud800-\udfff]", toml):
        raise ConfigError(one_line(str(path)), "not UTF-8 text; save it as UTF-8")

    def find(name: str) -> bytes:
        beside = path.parent / name
        if leads_out(beside, path.parent):  # bundles are made to be passed on
            fact = f"outside of the folder of {path.name}; copy it there"
            raise OutsideError(one_line(name), fact)
        return _content(beside, path)

    return _kernel_file(str(path), toml, settings, find)


def changed(text: str, folder: Path) -> str:
    """The first file beside the description that is not what the bundle keeps; "" if none is."""
    try:
        files: dict[str, str] = json.loads(text)["files"]
        kept = Files.kept(files)
        for name in files:
            try:
                same = read_regular(folder / name) == kept(name)
            except OSError:
                same = False
            if not same:
                return name
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return "what it names"
    return ""


def again(text: str, source: str, settings: Sequence[tuple[str, str]]) -> KernelFile:
    """The same of the text that a bundle keeps.

    Raises:
        ConfigError: it is damaged, or building it would execute a program that came with it.
    """
    try:
        kept = json.loads(text)
        toml, files, python = kept["toml"], kept["files"], kept["python"]
        if type(toml) is not str or not all(type(v) is str for v in files.values()):
            raise TypeError
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise ConfigError(source, "damaged; build it again from its .toml") from None
    of_triton = any(PurePath(name).suffix == ".py" for name in files)
    if python or of_triton:
        what = "source is of Triton" if of_triton else "reference is a Python file"
        raise ConfigError(
            source, f"its {what}, which a bundle does not execute; build the "
            f"points of the sweep from the .toml, with {BuildChoices.set}"
        )  # fmt: skip
    return _kernel_file(source, toml, settings, Files.kept(files))


def _kernel_file(
    source: str, toml: str, settings: Sequence[tuple[str, str]], find: Any
) -> KernelFile:
    place = one_line(source)
    said = _parsed(place, toml)
    _check_keys(place, said)
    parameters = _parameters(place, said.get("parameters", {}), settings)
    files = Files(find)
    try:
        tensors = own_tensors.parse_tensors(said, parameters)
        launches = Launches(said, parameters, tensors, files).read()
        references, python = _references(said, tensors)
        definition = Definition(
            tensors, launches.kernels, launches.launches, tuple(parameters.items()), references,
            _tolerance(said, python), _flops(said, parameters), _computed(said, "accumulate"),
            _arithmetic(said, tensors, launches),
        )  # fmt: skip
        _check_references(definition)
    except ExpressionError as error:
        raise ConfigError(place, str(error)) from None
    name = re.sub(r"[^A-Za-z0-9_]+", "_", Path(source).stem)[:60]
    name = name if re.match("[A-Za-z_]", name) else f"kernel_{name}"
    made = KernelFile(name, source, toml, tuple(files.found.items()), definition, python)
    if len(made.text) > 2 * MAX_NBYTES or len(json.dumps(to_json(definition))) > 2 * MAX_NBYTES:
        raise ConfigError(place, f"more than {MAX_NBYTES} bytes of sources; bring fewer kernels")
    return made


def _content(path: Path, asking: Path, most: int = MAX_NBYTES) -> bytes:
    place = one_line(str(path))
    try:
        with open_regular(path) as file:
            raw = file.read(most + 1)
    except NotRegularError as error:
        raise ConfigError(place, f"{error.strerror}; name a file in {asking}") from None
    except (OSError, ValueError) as error:
        fact = getattr(error, "strerror", None) or "not a file name"
        raise ConfigError(place, f"cannot be read ({fact}); check the path") from None
    if len(raw) > most:
        raise ConfigError(place, f"larger than {most} bytes; bring a smaller file")
    return raw


def _parsed(place: str, toml: str) -> dict[str, Any]:
    try:
        return tomllib.loads(toml)
    except (ValueError, RecursionError) as error:  # one for numbers of very many digits, too
        fact = one_line(str(error))
        raise ConfigError(place, f"not TOML: {fact}; correct it") from None


def _check_keys(place: str, said: Mapping[str, Any]) -> None:
    for key in said:
        if key not in KEYS:
            raise ConfigError(place, f"unknown key {printable(key)}; {did_you_mean(key, KEYS)}")
    for key in ("source", "outputs"):
        if key not in said:
            raise ConfigError(place, f"no {key}; write it, as `simgen new kernel` does")
    if "launch" in said and any(key in said for key in LAUNCH_KEYS if key not in SHARED_KEYS):
        raise ConfigError(place, "launches in [[launch]] and outside of it; keep one of the two")


def _parameters(
    place: str, given: Any, settings: Sequence[tuple[str, str]]
) -> dict[str, int | float]:
    """The parameters with what the user has set."""
    if not isinstance(given, dict) or not all(type(v) in (int, float, str) for v in given.values()):
        raise ConfigError(place, "parameters is no table of numbers; write { n = 1024 }")
    texts: dict[str, Any] = dict(given)
    for key, value in settings:
        if key not in given:
            raise ConfigError(
                f"{BuildChoices.set} {printable(key)}",
                f"no parameter of {place}; {did_you_mean(key, given)}",
            )
        texts[key] = value
    found: dict[str, int | float] = {}
    for key, value in texts.items():
        if not own_tensors.NAME.fullmatch(key):
            raise ConfigError(place, f"{printable(key)} is not a name; use letters, digits and _")
        try:
            found[key] = expression.number(value, found)
        except ExpressionError as error:
            raise ConfigError(f"{place}: parameter {key}", str(error)) from None
    return found


def _references(
    said: Mapping[str, Any], tensors: Sequence[OwnTensor]
) -> tuple[tuple[tuple[str, str], ...], tuple[str, str] | None]:
    """The expressions of the outputs, or the function that computes them."""
    outputs = [each.name for each in tensors if each.output]
    given = said.get("reference")
    if isinstance(given, str):
        if named := PYTHON.fullmatch(given):
            return (), (named[1], named[2])
        if len(outputs) > 1:
            raise ExpressionError(
                f"reference is one expression for {len(outputs)} outputs; write "
                f'reference = {{ {outputs[0]} = "...", {outputs[1]} = "..." }}'
            )
        given = {outputs[0]: given}
    if not isinstance(given, dict) or not all(isinstance(v, str) for v in given.values()):
        raise ExpressionError(
            "no reference; write an expression of NumPy, or 'FILE.py:FUNCTION', which is executed"
        )
    for name in outputs:
        if name not in given:
            raise ExpressionError(f"no reference for the output {name}; write one")
    return tuple(given.items()), None


def _tolerance(said: Mapping[str, Any], python: object) -> float | None:
    given = said.get("tolerance")
    if given is None and python:
        raise ExpressionError(
            "no tolerance, which nobody can derive from a Python file; write the share of the "
            "largest value that a result may be off, as tolerance = 1e-5, or 0"
        )
    if given is not None and (type(given) not in (int, float) or not 0 <= given < 1):
        raise ExpressionError(
            "tolerance is no number from 0 to below 1; write one, or leave it out"
        )
    return None if given is None else float(given)


def _computed(said: Mapping[str, Any], key: str) -> str:
    """The type that the file says something is computed in; "": it says none."""
    given = said.get(key, "")
    if key in said and given not in COMPUTED:
        raise ExpressionError(f"{key} is {printable(str(given))}; write {_or(COMPUTED)}")
    return str(given)


def _arithmetic(said: Mapping[str, Any], tensors: Sequence[OwnTensor], launches: Launches) -> str:
    """The narrow type that results are rounded to on the way: as the file says, or as the kernels'
    texts and workspaces show; "": none."""
    summed = _computed(said, "accumulate")
    if given := _computed(said, "arithmetic") or (summed if summed in NARROW else ""):
        return given if given in NARROW else ""
    for kind in reversed(NARROW):
        named = [each for each in tensors if each.spec.dtype.name == kind]
        between = [
            each for each in named
            if not each.fill and sum(each.name in launch.args for launch in launches.launches) > 1
        ]  # fmt: skip
        if named and (between or any(_rounds(each.source, kind) for each in launches.kernels)):
            return kind
    return ""


def _rounds(source: OwnSource | None, kind: str) -> bool:
    """Whether a source rounds to the type on the way; assembly and the like do not show it."""
    if source is None or source.language not in (Language.HIP, Language.OPENCL):
        return True
    return narrow_text.rounds(kernel_pieces.plain(source.text), source.entry, kind)


def _or(words: Sequence[str]) -> str:
    return f"{', '.join(words[:-1])} or {words[-1]}"


def _flops(said: Mapping[str, Any], parameters: Mapping[str, int | float]) -> int:
    found = int(expression.number(said.get("flops", 0), parameters))
    if not 0 <= found < 2**63:
        raise ExpressionError(f"flops is {found:.4g}, none of 0 to 2**63; correct it")
    return found


def _check_references(made: Definition) -> None:
    """Names that expressions use; their values are known once there is data."""
    known = {name for name, _ in made.parameters}
    known |= {each.name for each in made.tensors if each.fill}
    for name, text in made.references:
        for used in sorted(expression.names(text) - known - expression.PLAIN):
            if any(used == each.name for each in made.outputs):
                raise ExpressionError(
                    f"reference of {name}: {used} is an output, which holds nothing before the "
                    'kernels run; give it values, such as "f32[n] normal(0, 1)"'
                )
            raise ExpressionError(
                f"reference of {name}: no tensor or parameter {printable(used)}; "
                f"{did_you_mean(used, known)}"
            )
        known.add(name)
