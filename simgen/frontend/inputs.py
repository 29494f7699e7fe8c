"""The tensors that a layer reads: their shapes and element types, from its section and the layers
before it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from simgen.errors import ConfigError, printable
from simgen.ground.dtypes import WORD
from simgen.ground.ir import DType, TensorSpec
from simgen.layers.base import EXTENTS, MAX_INT, MAX_RANK, SHAPE, check_range, parse_value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simgen.frontend.config import Entry, Section
    from simgen.layers import Layer


@dataclass(frozen=True)
class Source:
    """A tensor that a layer gives to others. As text, `str`, it is the name of its buffer."""

    layer: str
    tensor: str  # port; "" where the config names the layer alone, until its outputs are known

    def __str__(self) -> str:
        return f"{self.layer}.{self.tensor}"

    @property
    def gradient(self) -> str:
        """Name of the buffer of its gradient."""
        return f"{self.layer}.d{self.tensor}"


def layer_inputs(
    name: str,
    section: Section,
    layer: Layer,
    given: Sequence[tuple[Source, TensorSpec]],
    usual: Entry | None,
) -> tuple[TensorSpec, ...]:
    if given:
        for entry in section.entries:
            if entry.key in layer.input_keys:
                fact = f"{entry.key} is {printable(entry.value)}, but layer {name!r} has its inputs"
                raise ConfigError(entry.where, f"{fact} from previous_layer; leave one out")
    elif not layer.takes_input:
        _dtype(name, section, layer, None, usual)
        return ()
    for before, each in given:
        if layer.rank not in (None, len(each.shape)):
            raise ConfigError(
                section.where,
                f"layer {name!r} takes a tensor (N, C, H, W), but {before.layer!r} gives one of "
                f"{_times(each.shape)}; take another previous_layer",
            )
    # Inputs that it does not take have a type too: the layer refuses them.
    types = [
        _index_type(name, section, port, source, each)
        if port in layer.indices
        else _dtype(name, section, layer, each, usual)
        for port, (source, each) in zip((*layer.takes, *layer.input_names), given)
    ]
    if given:
        checked = layer.takes_input
        return tuple(
            _input(name, section, each, dtype) if checked else each
            for (_, each), dtype in zip(given, types, strict=True)
        )
    indices = any(port in layer.indices for port in layer.takes[:1])
    dtype = DType.I32 if indices else _dtype(name, section, layer, None, usual)
    return layer.workload_inputs(_input(name, section, None, dtype, layer.rank))


def _index_type(name: str, section: Section, port: str, source: Source, given: TensorSpec) -> DType:
    """Raises:
    ConfigError: what the layer is given in place of indices is something else.
    """
    if given.dtype != DType.I32:
        fact = f"layer {name!r}: {port} are indices of type i32, and {source} is {given.dtype}"
        raise ConfigError(section.where, f"{fact}; name an [Input] that has type=i32")
    return DType.I32


def _dtype(
    name: str, section: Section, layer: Layer, given: TensorSpec | None, usual: Entry | None
) -> DType:
    """The type of an input's elements: the previous layer's, or what the section or --type says.

    Raises:
        ConfigError: no such type, another one than the previous layer has, or the layer lacks it.
    """
    found = given.dtype if given else DType.F32
    said = section.get(layer.type_key) or (None if given else usual)
    where = said.where if said else section.where
    asked = parse_value(DType, said.key, said.value, said.where) if said else found
    narrow = layer.any_float and asked.is_float and asked.nbytes <= WORD
    if asked != DType.F32 and not narrow and asked not in layer.integers:
        takes = "floating-point types up to 32 bits" if layer.any_float else "type f32 alone"
        takes += "".join(f", {each}" for each in layer.integers)
        fact = f"layer {name!r}: [{section.name}] has {takes}, and its input is {asked}"
        cure = layer.type_cure
        if given and not said:
            cure = "insert [Cast] with type=f32 before it"
            if not asked.is_float:
                cure = "insert [Cast] with type=f32 and its x_scale before it"
                cure += ", or give the layer before scales" if DType.I8 in layer.integers else ""
            if asked == DType.I32:
                cure = f"of words, let [Embedding] stand before it; of sums, {cure}"
        raise ConfigError(where, f"{fact}; {cure}")
    if given and asked != found:
        raise ConfigError(
            where,
            f"{layer.type_key} is {asked}, but the previous layer's output is {found}; leave it "
            f"out, or insert [Cast] with type={asked} before layer {name!r}",
        )
    return asked


def _input(
    name: str,
    section: Section,
    given: TensorSpec | None,
    dtype: DType,
    rank: int | None = None,
) -> TensorSpec:
    """The input as the section says it, and as the previous layer does where that says nothing."""
    entry = section.get(SHAPE)
    extents = next((e for e in section.entries if e.key in EXTENTS), None)
    if entry and extents:
        fact = f"{extents.key} is given beside shape, which says all extents"
        raise ConfigError(extents.where, f"{fact}; leave one of them out")
    if entry:
        shape = _shape(entry)
        if rank not in (None, len(shape)):
            fact = f"shape is {printable(entry.value)}, but layer {name!r} takes (N, C, H, W)"
            raise ConfigError(entry.where, f"{fact}; write four extents, such as 1x3x224x224")
    elif given and len(given.shape) != len(EXTENTS):
        if extents:
            fact = f"{extents.key} is one of (N, C, H, W), but layer {name!r} gets a tensor of"
            raise ConfigError(extents.where, f"{fact} {_times(given.shape)}; leave it out")
        shape = given.shape
    else:
        shape = _extents(name, section, given)
    if given and shape != given.shape:
        assert entry is not None
        raise ConfigError(
            entry.where,
            f"shape is {printable(entry.value)}, but the previous layer's output has "
            f"{_times(given.shape)}; leave it out",
        )
    x = TensorSpec(shape, dtype)
    check_size(name, section, x, "input")
    return x


def _shape(entry: Entry) -> tuple[int, ...]:
    """Extents with x between them."""
    words = entry.value.split("x")
    if not all(word.isascii() and word.isdigit() for word in words):
        fact = f"{entry.key} is {printable(entry.value)}"
        raise ConfigError(entry.where, f"{fact}; write extents with x between them, as 16x128x768")
    if len(words) > MAX_RANK:
        fact = f"{entry.key} is {printable(entry.value)}, which has {len(words)} axes"
        raise ConfigError(entry.where, f"{fact}; write {MAX_RANK} at most")
    where = entry.where
    return tuple(check_range("an extent of shape", int(word), 1, None, where) for word in words)


def _extents(name: str, section: Section, given: TensorSpec | None) -> tuple[int, ...]:
    """The input's (N, C, H, W): from the section, and from the previous layer where that has 0.

    A first layer without h or w has 1 there, as DNNMark's fully connected sample leaves them out.
    """
    shape: list[int] = []
    for axis, key in enumerate(EXTENTS):
        entry = section.get(key)
        value = 0
        if entry is not None:
            value = parse_value(int, key, entry.value, entry.where)
            check_range(key, value, 0, None, entry.where)
        if given is not None:
            if value not in (0, given.shape[axis]):
                assert entry is not None
                raise ConfigError(
                    entry.where,
                    f"{key} is {value}, but the previous layer's output has {given.shape[axis]}; "
                    "leave it out",
                )
            value = given.shape[axis]
        elif value == 0 and key in ("h", "w") and entry is None:
            value = 1
        elif value == 0:
            raise ConfigError(
                entry.where if entry else section.where,
                f"layer {name!r} has no {key}; give it, or a previous_layer to take it from",
            )
        shape.append(value)
    return tuple(shape)


def _times(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))


def check_size(name: str, section: Section, spec: TensorSpec, what: str) -> None:
    if spec.size > MAX_INT:
        smaller = "shape" if section.get(SHAPE) else "n, c, h or w"
        raise ConfigError(
            section.where,
            f"the {what} of layer {name!r} has {_times(spec.shape)} elements, more than {MAX_INT}; "
            f"make {smaller} smaller",
        )
