"""Operators of single elements: activations, sums and products of tensors."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any

from simgen.frontend.importing.broadcasting import fitted, of_two
from simgen.frontend.importing.draft import FLOATS, NodeSite
from simgen.frontend.importing.products import scales
from simgen.frontend.importing.table import operator
from simgen.frontend.importing.values import Refused, Value
from simgen.ground.arrays import np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray


# Operator -> section, the mode of its layer, and key -> the attribute that it is, with its default.
FUNCTIONS: dict[str, tuple[str, str, dict[str, tuple[str, float]]]] = {
    "Relu": ("Activation", "relu", {}),
    "Sigmoid": ("Activation", "sigmoid", {}),
    "Tanh": ("Activation", "tanh", {}),
    "Softplus": ("Activation", "soft_relu", {}),
    "Elu": ("Activation", "elu", {"activation_alpha": ("alpha", 1.0)}),
    "LeakyRelu": ("Piecewise", "leaky_relu", {"slope": ("alpha", 0.01)}),
    "HardSigmoid": (
        "Piecewise",
        "hard_sigmoid",
        {"slope": ("alpha", 0.2), "offset": ("beta", 0.5)},
    ),
    # It has a slope and an offset of its own where exporters wrote its parts.
    "HardSwish": ("Piecewise", "hard_swish", {"slope": ("alpha", 1 / 6), "offset": ("beta", 0.5)}),
    "Swish": ("Piecewise", "swish", {"slope": ("alpha", 1.0)}),
}
MAX_INPUTS = 16  # inputs of [Add] and [Concat]
CEILINGS = (1e-3, 1e6)  # range of [Activation]'s ceiling
MOST_SLOPE = 1e6  # slope limit of [Piecewise]
LARGEST = 3.4028234663852886e38  # largest finite float32


def _activation(site: NodeSite, mode: str, **entries: float) -> None:
    given = {"activation_mode": mode, **entries, **site.zero_point}
    site.give(site.layer("Activation", given, [site.tensor()]))


def _piecewise(site: NodeSite, mode: str, **entries: float) -> None:
    given = {"piecewise_mode": mode, **entries}
    site.give(site.layer("Piecewise", given, [site.tensor()]))


@operator(*FUNCTIONS)
def function(site: NodeSite) -> None:
    section, mode, keys = FUNCTIONS[site.operator.kind]
    entries = {key: float(site.attribute(*attribute)) for key, attribute in keys.items()}
    (_activation if section == "Activation" else _piecewise)(site, mode, **entries)


@operator("Gelu")
def gelu(site: NodeSite) -> None:
    kinds = {"none": "gelu", "tanh": "gelu_tanh"}
    approximate = site.attribute("approximate", "none")
    if approximate not in kinds:
        raise Refused(f"has approximate={approximate}, and there are {' and '.join(kinds)}")
    _activation(site, kinds[approximate])


@operator("Clip")
def clip(site: NodeSite) -> None:
    low, high = _bound(site, "min", 1), _bound(site, "max", 2)
    if low == 0 and high is None:
        _activation(site, "relu")
    elif low == 0 and high is not None and CEILINGS[0] <= high <= CEILINGS[1]:
        _activation(site, "clipped_relu", activation_ceiling=high)
    else:
        ends = {"low": -LARGEST if low is None else low, "high": LARGEST if high is None else high}
        if ends["low"] > ends["high"]:
            raise Refused(f"has a lower bound of {low:g}, above its upper one of {high:g}")
        _piecewise(site, "clip", **ends)


@operator("PRelu")
def prelu(site: NodeSite) -> None:
    slope = site.known(1, "slope")
    if slope.size != 1:
        raise Refused(f"has {slope.size} slopes, and [Piecewise] has one")
    _piecewise(site, "leaky_relu", slope=float(slope.array().reshape(-1)[0]))


def _bound(site: NodeSite, name: str, at: int) -> float | None:
    """A bound of Clip: an attribute of older operator sets, an input of newer; None: no bound."""
    if site.operator.version < 11:
        value = float(site.attribute(name, 0.0))
    elif site.has(at):
        value = float(site.known(at, name).array().reshape(-1)[0])
    else:
        return None
    if value != value:
        raise Refused(f"has no number as {name}")
    most = 3e38 if site.operator.version < 11 else LARGEST  # older ones were rounded
    return None if (value <= -most if name == "min" else value >= most) else value


@operator("Identity", "Dropout")
def identity(site: NodeSite) -> None:
    """Nothing, in inference."""
    site.refuse_other_outputs()
    if site.operator.kind == "Dropout" and site.has(2) and any(site.numbers(2, "training_mode")):
        raise Refused("drops elements, in training mode; export the model for inference")
    is_index = site.value(0).element not in FLOATS and not site.keeps_integers
    site.give(site.indices(0) if is_index else site.tensor())


@operator("Cast")
def cast(site: NodeSite) -> None:
    source, target = site.value(0).element, int(site.attribute("to"))
    if source not in FLOATS:
        if target in FLOATS:
            raise Refused("makes floats of integers")
        site.give(site.indices(0))  # word ids, whatever their width
        return
    if target not in FLOATS:
        raise Refused("makes other numbers of floats")
    x = site.tensor()
    site.give(x if source == target else site.layer("Cast", {"type": FLOATS[target]}, [x]))


# ---- Sums and products ----


@operator("Add", "Sum")
def add(site: NodeSite) -> None:
    count = len(site.operator.inputs)
    if count == 1:
        site.give(site.tensor())
        return
    if count == 2 and _bias(site):
        return
    if count == 2:
        if not any(_line(site, at, lambda number: (1.0, number)) for at in range(2)):
            site.give(of_two(site, "Add", [site.tensor(at) for at in range(2)]))
        return
    tensors = [fitted(site, at, site.result()) for at in range(count)]
    number = 0
    while len(tensors) > MAX_INPUTS:
        number += 1
        tensors = [
            site.layer("Add", {}, tensors[:MAX_INPUTS], f"part{number}"),
            *tensors[MAX_INPUTS:],
        ]
    site.give(site.layer("Add", {}, tensors))


def _bias(site: NodeSite) -> bool:
    """Whether what is added is the bias of the product before it, which has it from now on."""
    for at, other in ((0, 1), (1, 0)):
        value, name = site.value(other), site.operator.input(at)
        tensor = site.draft.tensors.get(name, "")
        layer = site.draft.layers.get(tensor)
        if not value.is_known or layer is None or "bias" in layer.entries:
            continue
        shape, of_filters = site.shape(at), layer.section == "Convolution"
        alone = site.draft.readers[name] == 1 and shape == site.result()
        if not alone or layer.section not in ("Convolution", "FullyConnected"):
            continue
        axis = 1 if of_filters else len(shape) - 1
        aligned = (*(1,) * (len(shape) - len(value.shape)), *value.shape)
        wanted = tuple(extent if at == axis else 1 for at, extent in enumerate(shape))
        if len(aligned) != len(shape) or aligned != wanted:
            continue
        layer.entries["bias"] = "true"
        count = shape[axis]
        site.parameter(tensor, "b", (count,), value.shaped((count,)), value)
        site.give(tensor)
        return True
    return False


@operator("Mul")
def multiply(site: NodeSite) -> None:
    if not any(_line(site, at, lambda number: (number, 0.0)) for at in range(2)):
        site.give(of_two(site, "Multiply", [site.tensor(at) for at in range(2)]))


@operator("Div")
def divide(site: NodeSite) -> None:
    """By what the model knows, a product with its reciprocal."""
    if not site.value(1).is_known:
        site.give(of_two(site, "Divide", [site.tensor(at) for at in range(2)]))
        return
    if not _line(site, 1, lambda number: (1 / number if number else inf, 0.0)):
        _with_other(site, "Multiply", lambda v: (1 / v.astype(np.float64)).astype(v.dtype))


@operator("Sub")
def subtract(site: NodeSite) -> None:
    """Subtract. A constant operand becomes a sum with its opposite."""
    if _line(site, 1, lambda number: (1.0, -number)) or _line(site, 0, lambda n: (-1.0, n)):
        return
    if site.value(1).is_known:
        _with_other(site, "Add", np.negative)
    else:
        site.give(of_two(site, "Subtract", [site.tensor(at) for at in range(2)]))


@operator("Neg")
def negative(site: NodeSite) -> None:
    site.give(_scaled(site, site.tensor(), -1.0, 0.0))


def _line(site: NodeSite, at: int, change: Callable[[float], tuple[float, float]]) -> bool:
    """Whether input `at` is a number that the model knows, so that the result is slope x + offset
    of the other one; `change` has both from the number."""
    value, other = site.value(at), 1 - at
    whole = site.shape(other) == site.result() and not site.value(other).is_known
    if not (whole and value.is_known and value.size == 1 and value.element in FLOATS):
        return False
    slope, offset = change(float(value.array().reshape(-1)[0]))
    if not (abs(slope) <= MOST_SLOPE and abs(offset) <= MOST_SLOPE):
        return False
    site.give(_scaled(site, site.tensor(other), slope, offset))
    return True


def _scaled(site: NodeSite, tensor: str, slope: float, offset: float) -> str:
    """slope x + offset: x itself, the factor of the product of matrices that x is, as of scores of
    attention, part of such a line before it, or one of its own."""
    found, _ = site.draft.behind(tensor)
    layer = site.draft.layers.get(found)
    if (slope, offset) == (1.0, 0.0):
        return tensor
    if layer is not None and layer.section == "Gemm" and offset == 0 and scales(layer, slope):
        return tensor
    if layer is not None and layer.entries.get("piecewise_mode") == "linear" and found == tensor:
        before = [float(layer.entries[name]) for name in ("slope", "offset")]
        made = before[0] * slope, before[1] * slope + offset
        if max(map(abs, made)) <= MOST_SLOPE:
            layer.entries |= {"slope": repr(made[0]), "offset": repr(made[1])}
            return tensor
    entries = {"piecewise_mode": "linear", "slope": slope, "offset": offset}
    return site.layer("Piecewise", entries, [tensor])


def _with_other(
    site: NodeSite, section: str, change: Callable[[NDArray[Any]], NDArray[Any]]
) -> None:
    """With a second tensor that the model knows, the reverse is a sum or product with another."""
    second: Value = site.value(1)
    called = f"{site.operator.node}_{site.operator.input(1)}"
    shape = second.shape or (1,)
    made = site.constant(called, shape, lambda: change(second.array()).reshape(shape), second)
    site.give(of_two(site, section, [site.tensor(), made]))
