"""An ONNX model as a config: each node becomes layers that compute the same, or is named.

Names of nodes stay as names of layers. Tensors that the model knows are parameters, or computed
here. Dropout and Identity do nothing in inference, and views move nothing. Extents that the model
leaves open are variables of the config, which settings fill.

Source: the operator sets of ONNX, https://onnx.ai/onnx/operators; attributes, their defaults and
shapes are those that the package `onnx` knows.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from simgen.errors import ConfigError, one_line, printable, resembling, shortened
from simgen.frontend.config import MAX_NBYTES, Config, Entry, Place, Section
from simgen.frontend.importing import (
    algebra,
    aten,
    expansion,
    extents,
    flags,
    integers,
    masks,
    model_file,
    patterns,
)
from simgen.frontend.importing import images as images
from simgen.frontend.importing import moving as moving
from simgen.frontend.importing import pointwise as pointwise
from simgen.frontend.importing import products as products
from simgen.frontend.importing import recurrent as recurrent
from simgen.frontend.importing import rows as rows
from simgen.frontend.importing.draft import FLAGS, FLOATS, INTEGERS, Draft, ModelTensor, NodeSite
from simgen.frontend.importing.names import unlike
from simgen.frontend.importing.table import OPERATORS
from simgen.frontend.importing.values import (
    DOMAINS,
    MAX_ELEMENTS,
    Operator,
    Refused,
    Value,
    Values,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    import onnx
    from numpy.typing import NDArray

MOST_NAMES = 8  # nodes that are named with one reason
MALFORMED = (ValueError, TypeError, KeyError, IndexError, AttributeError, ArithmeticError)


@dataclass(frozen=True)
class Imported:
    """What a model becomes."""

    config: Config
    parameters: Mapping[str, ModelTensor]  # by buffer
    outputs: Mapping[str, str]  # output of the model -> buffer
    fixed: tuple[str, ...]  # outputs that no layer computes, since the model knows their values


def read_model(path: Path, settings: Mapping[str, str]) -> Imported:
    """The model in a file; `settings` have values of the extents that it leaves open.

    Raises:
        ConfigError: the file is no model, an extent has no value, or nodes cannot be imported, all
            of which are named.
        MissingError: the package `onnx` is not there.
    """
    model, where = model_file.load(path), one_line(str(path))
    values = Values(model, where, path.parent)
    draft = Draft(values, Counter())
    variables = _inputs(model, draft, where, settings)
    try:
        refused = _translate(model, _needed(model), draft)
    except Refused as error:  # what patterns look at
        raise ConfigError(where, f"a tensor {error}; correct the model") from None
    if refused:
        raise ConfigError(where, _refusal(refused))
    filled = {name: settings[name] for name in variables}
    outputs = {
        each.name: draft.buffer(draft.tensors[each.name])
        for each in model.graph.output
        if each.name in draft.tensors
    }
    parameters = {
        name: replace(each, read=partial(_parameter_values, where, name, each.read))
        for name, each in draft.parameters.items()
    }
    fixed = tuple(each.name for each in model.graph.output if each.name not in outputs)
    return Imported(_config(str(path), draft, filled), parameters, outputs, fixed)


def _parameter_values(where: str, buffer: str, made: Callable[[], NDArray[Any]]) -> NDArray[Any]:
    """The values of a parameter, which nodes of the model may compute when they are wanted.

    Raises:
        ConfigError: there are none.
    """
    try:
        return made()
    except (Refused, *MALFORMED) as error:
        fact = f"the values of {printable(buffer)} cannot be had"
        told = shortened(one_line(str(error)), 150)
        raise ConfigError(where, f"{fact} ({told}); correct the model") from None


def _needed(model: onnx.ModelProto) -> list[onnx.NodeProto]:
    """The nodes that outputs of the model depend on, in order."""
    wanted = {each.name for each in model.graph.output}
    found = []
    for node in reversed(model.graph.node):
        if wanted.intersection(node.output):
            wanted.update(node.input)
            for each in node.attribute:
                graphs = [each.g] if each.HasField("g") else each.graphs
                wanted.update(name for g in graphs for inner in g.node for name in inner.input)
            found.append(node)
    return found[::-1]


# ---- Inputs ----


def _inputs(
    model: onnx.ModelProto, draft: Draft, where: str, settings: Mapping[str, str]
) -> tuple[str, ...]:
    """An [Input] for each input of the model that is none of its tensors; the variables in them."""
    variables: dict[str, str] = {}  # -> the input that has it first
    called: dict[object, str] = {}  # what an extent is by -> its variable
    shapes: dict[str, list[str]] = {}
    for name, value in draft.values.known.items():
        if fact := draft.values.otherwise(name, value):
            raise ConfigError(where, f"tensor {printable(name)} has {fact}; correct the model")
    for each in model.graph.input:
        if each.name in draft.values.known:
            continue
        if not each.type.HasField("tensor_type") or not each.type.tensor_type.HasField("shape"):
            fact = f"input {printable(each.name)} is no tensor with a number of axes"
            raise ConfigError(where, f"{fact}; export the model with it")
        shapes[each.name] = _extents(each, variables, called, where)
    lacking = {name: given for name, given in variables.items() if name not in settings}
    if lacking:
        first = next(iter(lacking.values()))
        noun = "extent" if len(lacking) == 1 else "extents"
        text = "x".join(each.removeprefix("${").removesuffix("}") for each in shapes[first])
        fact = f"no value for the {noun} {', '.join(lacking)} (input {printable(first)}: {text})"
        cure = resembling(lacking, settings) or "give them with --set NAME=VALUE"
        raise ConfigError(where, f"{fact}; {cure}")
    for each in model.graph.input:
        if each.name in shapes:
            _input(each, shapes[each.name], draft, where, settings)
    return tuple(variables)


def _extents(
    given: onnx.ValueInfoProto, variables: dict[str, str], called: dict[object, str], where: str
) -> list[str]:
    """The extents of an input: numbers, or variables."""
    found = []
    for at, dim in enumerate(given.type.tensor_type.shape.dim):
        if dim.HasField("dim_value") and dim.dim_value > 0:
            if dim.dim_value > MAX_ELEMENTS:
                place = f"axis {at} of input {printable(given.name)}"
                fact = f"{place} has {dim.dim_value:,} elements, and a tensor has {MAX_ELEMENTS:,}"
                raise ConfigError(where, f"{fact} at most; export the model with a bound")
            found.append(str(dim.dim_value))
            continue
        own = re.search(r"[A-Za-z]", dim.dim_param)
        key: object = dim.dim_param if own else (given.name, at)
        if key not in called:
            wanted = dim.dim_param if own else f"{given.name}_{at}"
            name = re.sub(r"[^A-Za-z0-9_]+", "_", wanted).strip("_")[:60]
            name = name if re.match(r"[A-Za-z_]", name) else f"_{name}"
            called[key] = unlike(variables, name)
            variables[called[key]] = given.name
        found.append(f"${{{called[key]}}}")
    return found


def _input(
    given: onnx.ValueInfoProto,
    extents: Sequence[str],
    draft: Draft,
    where: str,
    settings: Mapping[str, str],
) -> None:
    shape = []
    for text in extents:
        name = text.removeprefix("${").removesuffix("}")
        value = settings[name] if name != text else text
        if not re.fullmatch(r"[0-9]{1,10}", value) or not 0 < int(value) <= MAX_ELEMENTS:
            fact = f"--set {name}={printable(value)} is no extent"
            raise ConfigError(where, f"{fact}; write a whole number from 1 on")
        shape.append(int(value))
    element = given.type.tensor_type.elem_type
    draft.values.known[given.name] = Value(tuple(shape), element)
    kind = (FLOATS | INTEGERS | FLAGS).get(element)
    if not kind:
        return  # who reads it is refused, if anybody does
    entries = {"shape": "x".join(extents) or "1"} | ({} if kind == "f32" else {"type": kind})
    draft.tensors[given.name] = draft.add(given.name, "Input", entries)


# ---- Nodes ----


def _translate(
    model: onnx.ModelProto, nodes: Sequence[onnx.NodeProto], draft: Draft
) -> list[tuple[Operator, str]]:
    """Adds the layers of all nodes; those that cannot be imported, with the reason."""
    versions = {each.domain: each.version for each in model.opset_import}
    version = next((versions[each] for each in DOMAINS if each in versions), 0)
    losses = _Losses(draft.values)
    met = []
    for node in nodes:
        plain = _plain(node)
        with losses.watched(plain) as goes_on:
            if goes_on:
                met += _met_in_parts(node, plain, version, draft)
    outputs = [each.name for each in model.graph.output]
    of_integers = integers.recognised(met, draft.values)
    masked = masks.recognised(of_integers, draft.values)
    masked = flags.recognised(masked, draft.values)
    operators = patterns.recognised(masked, draft.values, (*outputs, *losses.read))
    draft.readers = Counter(name for each in operators for name in each.inputs if name)
    draft.readers.update((*outputs, *losses.read))
    draft.codes = rows.codes(operators, draft.values)
    for operator in operators:
        with losses.watched(operator) as goes_on:
            first = next(name for name in operator.outputs if name)
            if goes_on and not draft.values.known[first].is_known:
                _one(operator, draft)
    places = {name: at for at, node in enumerate(nodes) for name in node.output}
    return sorted(losses.refused, key=lambda each: places.get(each[0].outputs[0], 0))


@dataclass
class _Losses:
    """Nodes that cannot be imported, and what is lost with them."""

    known: Values
    refused: list[tuple[Operator, str]] = field(default_factory=list)
    values: set[str] = field(default_factory=set)
    sizes: set[str] = field(default_factory=set)  # values whose sizes would be known
    read: set[str] = field(default_factory=set)  # by nodes that were not met

    @contextmanager
    def watched(self, operator: Operator) -> Iterator[bool]:
        """Whether the node's inputs are there; what is raised meanwhile refuses the node."""
        why = operator.fact.why if isinstance(operator.fact, masks.Refusal) else ""
        goes_on = not why and not self.values.intersection(operator.inputs)
        try:
            yield goes_on
            if why:
                raise Refused(why)
            if not goes_on and not self._would_be(operator):
                raise Refused("no layer computes it")
        except Refused as reason:
            self._lose(operator, str(reason))
        except MALFORMED as error:
            text = shortened(one_line(f"{type(error).__name__}: {error}"), 100)
            self._lose(operator, f"is not as its operator has it ({text})")
        if not goes_on:
            self._lose(operator)

    def _would_be(self, operator: Operator) -> bool:
        """Whether a node is nothing, or may be, but for what stands before it."""
        inputs = {name for name in operator.inputs if name}
        lost = inputs & self.values
        known = all(n in self.known.known and self.known.known[n].is_known for n in inputs - lost)
        if operator.kind in ("Shape", "Size") or (known and lost <= self.sizes):
            self.sizes.update(operator.outputs)
            return True
        parts = (*OPERATORS, *expansion.EXPANSIONS, *algebra.KINDS, *flags.ELEMENTS)
        return operator.kind in parts

    def _lose(self, operator: Operator, reason: str = "") -> None:
        self.refused += [(operator, reason)] if reason else []
        self.values.update(operator.outputs)
        self.read.update(filter(None, operator.inputs))


def _plain(node: onnx.NodeProto) -> Operator:
    """The node as far as it is known before its operator is."""
    domain = "" if node.domain in DOMAINS else f"{node.domain}."
    output = next((name for name in node.output if name), "")
    called = node.name or (output if re.search(r"[A-Za-z]", output) else f"{node.op_type}_{output}")
    return Operator(called, f"{domain}{node.op_type}", 0, tuple(node.input), tuple(node.output), {})


def _met_in_parts(
    node: onnx.NodeProto, plain: Operator, version: int, draft: Draft
) -> list[Operator]:
    """The node, or those that it is written in.

    Raises:
        Refused: as `_met`.
    """
    if not expansion.has(plain, version):
        return [_met(node, plain, version, draft)]
    parts = expansion.nodes(node, plain, draft.values)
    return [_met(each, _plain(each), expansion.VERSION, draft) for each in parts]


def _met(node: onnx.NodeProto, plain: Operator, version: int, draft: Draft) -> Operator:
    """The node with the attributes of its operator set, and its outputs' shapes found.

    Raises:
        Refused: there is no such operator, or it has no shapes.
    """
    import onnx
    from onnx import defs, helper

    if plain.kind != node.op_type:
        raise Refused(_of_others(node))
    if not any(node.output):
        raise Refused("gives nothing")
    try:
        schema = defs.get_schema(node.op_type, version)
    except Exception:
        raise Refused(f"operator set {version} has no such operator") from None
    for at, wanted in enumerate(schema.inputs[: schema.min_input]):
        if at >= len(node.input) or not node.input[at]:
            raise Refused(f"has no input {wanted.name}")
    unknown = [name for name in node.input if name and name not in draft.values.known]
    if unknown:
        raise Refused(f"reads {printable(unknown[0])}, which nothing gives before it")
    repeated = [name for name in node.output if name and name in draft.values.known]
    if repeated:
        raise Refused(f"gives {printable(repeated[0])}, which there is already")
    attributes: dict[str, Any] = {}
    for name, each in schema.attributes.items():
        if each.default_value.name:
            attributes[name] = helper.get_attribute_value(each.default_value)
        elif each.required and name not in {given.name for given in node.attribute}:
            raise Refused(f"has no attribute {name}")
    for given in node.attribute:
        expected = schema.attributes.get(given.name)
        if expected is None or int(expected.type) != given.type:  # type: ignore[call-overload]
            raise Refused(f"has an attribute {printable(given.name)} that its operator has not")
        attributes[given.name] = helper.get_attribute_value(given)
    decoded = {k: v.decode(errors="replace") if isinstance(v, bytes) else v
               for k, v in attributes.items() if not isinstance(v, onnx.GraphProto)}  # fmt: skip
    operator = Operator(plain.node, plain.kind, version, plain.inputs, plain.outputs, decoded)
    first = extents.first(operator, draft.values.known)
    draft.values.meet(node, operator, schema, first)
    return operator


def _of_others(node: onnx.NodeProto) -> str:
    """Why no layer computes an operator that is none of ONNX's; of ATen's, aten.py says it."""
    told = node.doc_string if node.domain == aten.DOMAIN else ""
    return one_line(shortened(told, 200)) or "an operator of another domain"


def _one(operator: Operator, draft: Draft) -> None:
    """The layers of a node.

    Raises:
        Refused: there are none that compute it.
    """
    if operator.kind not in OPERATORS:
        raise Refused("no layer computes it")
    if not any(draft.readers[name] for name in operator.outputs):
        return
    for name in operator.outputs:
        if name in draft.values.known and 0 in draft.values.known[name].shape:
            raise Refused("gives a tensor without elements")
    OPERATORS[operator.kind](NodeSite(operator, draft))


def _refusal(refused: Sequence[tuple[Operator, str]]) -> str:
    """One line on all nodes that cannot be imported."""
    found: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for operator, reason in refused:
        found[operator.kind, reason].append(operator.node)
    parts = []
    for (kind, reason), names in found.items():
        more = len(names) - MOST_NAMES
        called = ", ".join(one_line(shortened(name, 60)) for name in names[:MOST_NAMES])
        called += f" and {more} more" if more > 0 else ""
        parts.append(f"{one_line(shortened(kind, 60))} ({called}) {reason}")
    noun = "node" if len(refused) == 1 else "nodes"
    listed = "; ".join(parts)
    return f"{len(refused)} {noun} cannot be imported: {listed}; cut the model, or export others"


# ---- The config ----


def _config(source: str, draft: Draft, variables: Mapping[str, str]) -> Config:
    """The layers as a config.

    Raises:
        ConfigError: there are none, or more than a config can have.
    """
    read = {each.partition(".")[0] for layer in draft.layers.values() for each in layer.sources}
    sections, lines = [], []
    for name, layer in draft.layers.items():
        where = Place(f"{source}: {shortened(layer.node, 80)}" if layer.node else source, 0)
        if layer.section == "Input" and name not in read:
            continue
        entries = {"name": name}
        entries |= {"previous_layer": ",".join(layer.sources)} if layer.sources else {}
        entries |= layer.entries
        made = tuple(Entry(k, _filled(v, variables), where) for k, v in entries.items())
        sections.append(Section(layer.section, made, where))
        lines += [f"[{layer.section}]", *(f"{key}={value}" for key, value in entries.items()), ""]
    if not any(section.name not in ("Input", "Reshape") for section in sections):
        raise ConfigError(one_line(source), "nothing in this model is computed by a layer")
    text = "\n".join(lines)
    if len(text) > MAX_NBYTES:
        raise ConfigError(one_line(source), f"its network is a config of {len(text)} bytes; cut it")
    return Config(source, tuple(sections), tuple(variables), text)


def _filled(text: str, variables: Mapping[str, str]) -> str:
    return re.sub(r"\$\{(\w+)\}", lambda found: variables[found[1]], text)
