"""Extents by arithmetic of our own, and what a node says twice, compared.

A rule has a node's attributes and the shapes of what it reads; it gives the shape of the first
output, or None where ONNX's shape inference is right. Windows are counted as runtimes do it: with
`ceil_mode`, none begins in the padding behind, which ONNX says from operator set 22 on.

Source: ConvAttributes, PoolAttributes and ConvTransposeAttributes of ONNX Runtime; the operators'
pages of ONNX.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

from simgen.frontend.importing.values import SMALL, Operator, Refused, Value, called

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Shape = tuple[int, ...]
    Rule = Callable[["Reading"], Shape | None]

RULES: dict[str, Rule] = {}
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
STATES = {"LSTM": 3, "GRU": 0, "RNN": 0}  # weights of peepholes
MODES = ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER")


@dataclass(frozen=True)
class Reading:
    """A node, and what it reads."""

    operator: Operator
    known: Mapping[str, Value]

    def shape(self, at: int) -> Shape | None:
        """None: there is no such input."""
        name = self.operator.input(at)
        return self.known[name].shape if name else None

    def given(self, at: int) -> Shape:
        found = self.shape(at)
        if found is None:
            raise Refused(f"has no input {at}")
        return found

    def attribute(self, name: str, usual: Any = None) -> Any:
        return self.operator.attributes.get(name, usual)

    def must_be(self, what: str, at: int, *wanted: int) -> None:
        """Raises Refused if an input has another shape."""
        found = self.shape(at)
        if found is not None and found != wanted:
            raise Refused(f"has {what} of {called(found)}, where {called(wanted)} fits the rest")

    def must_spread(self, what: str, at: int, wanted: Shape) -> None:
        """Raises Refused if an input cannot be broadcast to a shape."""
        found = self.shape(at)
        if found is None:
            return
        rank = len(wanted)
        plain = (*(1,) * (rank - len(found)), *found)
        if len(plain) != rank or any(a not in (1, b) for a, b in zip(plain, wanted, strict=True)):
            raise Refused(f"has {what} of {called(found)}, which is none for {called(wanted)}")


def rule(*kinds: str) -> Callable[[Rule], Rule]:
    def declare(made: Rule) -> Rule:
        RULES.update(dict.fromkeys(kinds, made))
        return made

    return declare


def first(operator: Operator, known: Mapping[str, Value]) -> Shape | None:
    """The shape of the first output; None: that of ONNX's inference.

    Raises:
        Refused: the node contradicts itself, or what it reads.
    """
    made = RULES.get(operator.kind)
    return made(Reading(operator, known)) if made else None


# ---- Windows ----


@dataclass(frozen=True)
class Along:
    """Windows along an axis."""

    extent: int
    kernel: int = 1
    stride: int = 1
    dilation: int = 1
    before: int = 0  # padding
    behind: int = 0

    @property
    def reach(self) -> int:
        return (self.kernel - 1) * self.dilation + 1

    def count(self, *, ceil: bool = False) -> int:
        room = self.extent + self.before + self.behind - self.reach
        count = room // self.stride + 1
        begins = count * self.stride < self.extent + self.before
        return count + (ceil and room % self.stride > 0 and begins)


def _numbers(attributes: Mapping[str, Any], name: str, axes: int, usual: int) -> list[int]:
    given = attributes.get(name)
    found = [int(each) for each in given] if given else [usual] * axes
    if len(found) != axes:
        raise Refused(f"has {len(found)} {name} for {axes} axes")
    return found


def _split(total: int, *, more_before: bool) -> tuple[int, int]:
    fewer = total // 2
    return (total - fewer, fewer) if more_before else (fewer, total - fewer)


def windows(
    attributes: Mapping[str, Any], extents: Sequence[int], kernel: Sequence[int]
) -> list[Along]:
    """The windows of a convolution or pooling, along each axis.

    Raises:
        Refused: they are none, or the attributes contradict each other.
    """
    axes = len(extents)
    if len(kernel) != axes:
        raise Refused(f"has a kernel of {len(kernel)} axes for {axes}")
    mode = attributes.get("auto_pad") or "NOTSET"
    if mode not in MODES:
        raise Refused(f"its auto_pad is {mode!r}")
    strides, dilations = (_numbers(attributes, n, axes, 1) for n in ("strides", "dilations"))
    pads = _numbers(attributes, "pads", 2 * axes, 0)
    if min((*kernel, *strides, *dilations), default=1) < 1:
        raise Refused("has a kernel, stride or dilation below 1")
    if min(pads, default=0) < 0:
        raise Refused(f"its pads are {pads}")
    found = []
    for at, extent in enumerate(extents):
        plain = Along(extent, kernel[at], strides[at], dilations[at])
        before, behind = pads[at], pads[axes + at]
        if mode.startswith("SAME"):
            total = max(0, (-(-extent // plain.stride) - 1) * plain.stride + plain.reach - extent)
            before, behind = _split(total, more_before=mode == "SAME_LOWER")
        elif mode == "VALID":
            before = behind = 0
        if attributes.get("pads") and (before, behind) != (pads[at], pads[axes + at]):
            fact = f"has auto_pad {mode}, which pads {before} and {behind} along axis {2 + at}"
            raise Refused(f"{fact}, and pads {pads[at]} and {pads[axes + at]}")
        found.append(Along(extent, plain.kernel, plain.stride, plain.dilation, before, behind))
    return found


@dataclass(frozen=True)
class Unfolded:
    """Along an axis of a transposed convolution: of what all products make, what it gives."""

    whole: int
    before: int  # elements cut off before
    extent: int


def spreads(
    attributes: Mapping[str, Any], extents: Sequence[int], kernel: Sequence[int]
) -> list[Unfolded]:
    """What a transposed convolution gives along each axis.

    Raises:
        Refused: as `windows`.
    """
    axes = len(extents)
    mode = attributes.get("auto_pad") or "NOTSET"
    same = mode.startswith("SAME")
    asked = attributes.get("output_shape")
    free = {"auto_pad": "NOTSET", "pads": None}  # pads follow from the extents that are asked for
    plain = windows({**attributes, **(free if same or asked else {})}, extents, kernel)
    given = _numbers(attributes, "pads", 2 * axes, 0)
    more = _numbers(attributes, "output_padding", axes, 0)
    wanted = _numbers(attributes, "output_shape", axes, 0)
    found = []
    for at, each in enumerate(plain):
        if not 0 <= more[at] < max(each.stride, each.dilation):
            raise Refused(f"has output_padding {more[at]}, which is no less than its stride")
        whole = (each.extent - 1) * each.stride + each.reach
        before, extent = each.before, whole + more[at] - each.before - each.behind
        if same or asked:
            extent = wanted[at] if asked else each.extent * each.stride
            total = max(0, whole + more[at] - extent)
            before, behind = _split(total, more_before=mode != "SAME_UPPER")
            if attributes.get("pads") and (before, behind) != (given[at], given[axes + at]):
                fact = f"asks for {extent} elements along axis {2 + at}"
                raise Refused(f"{fact}, and pads {given[at]} and {given[axes + at]}")
        found.append(Unfolded(whole, before, extent))
    return found


def _kernel(node: Reading, filters: Shape) -> Shape:
    given = node.attribute("kernel_shape")
    kernel = filters[2:]
    if given and tuple(given) != kernel:
        fact = f"has filters of {called(kernel)}"
        raise Refused(f"{fact}, and its kernel_shape is {called(given)}")
    return kernel


def _pads_once(node: Reading) -> None:
    """A convolution has one of these, whatever the other says."""
    mode = node.attribute("auto_pad", "NOTSET")
    if mode != "NOTSET" and node.attribute("pads"):
        raise Refused(f"has pads beside auto_pad {mode}")


def _groups(node: Reading, channels: int, divided: Mapping[str, int], each: int) -> int:
    group = int(node.attribute("group", 1))
    for what, count in divided.items():
        if group < 1 or count % group:
            raise Refused(f"has {group} groups for {count} {what}")
    if each != channels:
        raise Refused(f"has filters for {each} channels, in {group} groups, and {channels} of them")
    return group


@rule("Conv", "QLinearConv", "ConvInteger")
def _conv(node: Reading) -> Shape:
    of_integers = node.operator.kind == "QLinearConv"
    x = node.given(0)
    w = node.given(3 if of_integers else 1)
    if len(w) != len(x) or len(x) < 3:
        raise Refused(f"has filters of {len(w)} axes for an input of {len(x)}")
    kernel, group = _kernel(node, w), int(node.attribute("group", 1))
    _pads_once(node)
    _groups(node, x[1], {"filters": w[0], "channels": x[1]}, w[1] * group)
    if node.operator.kind != "ConvInteger":
        node.must_be("a bias", 8 if of_integers else 2, w[0])
    counts = [each.count() for each in windows(node.operator.attributes, x[2:], kernel)]
    return (x[0], w[0], *_some(counts))


def _some(counts: Sequence[int]) -> Sequence[int]:
    if min(counts) < 1:
        raise Refused("has a window that is larger than what it is over")
    return counts


@rule("ConvTranspose")
def _conv_transpose(node: Reading) -> Shape:
    x, w = node.given(0), node.given(1)
    if len(w) != len(x) or len(x) < 3:
        raise Refused(f"has filters of {len(w)} axes for an input of {len(x)}")
    kernel = _kernel(node, w)
    _pads_once(node)
    group = _groups(node, x[1], {"channels": w[0]}, w[0])
    node.must_be("a bias", 2, w[1] * group)
    found = spreads(node.operator.attributes, x[2:], kernel)
    return (x[0], w[1] * group, *_some([each.extent for each in found]))


@rule("MaxPool", "AveragePool", "LpPool")
def _pool(node: Reading) -> Shape:
    x, kernel = node.given(0), node.attribute("kernel_shape") or ()
    found = windows(node.operator.attributes, x[2:], kernel)
    for each in found:
        if max(each.before, each.behind) >= each.kernel:
            pads = f"{each.before} and {each.behind}"
            raise Refused(f"pads {pads} for a window of {each.kernel}, some of which see nothing")
    ceil = bool(node.attribute("ceil_mode", 0))
    return (*x[:2], *_some([each.count(ceil=ceil) for each in found]))


# ---- Parameters ----


@rule("BatchNormalization")
def _batch_norm(node: Reading) -> None:
    x = node.given(0)
    if len(x) > 1 and node.attribute("spatial", 1):
        for at, what in enumerate(("a scale", "a bias", "a mean", "a variance"), 1):
            node.must_be(what, at, x[1])


@rule("InstanceNormalization")
def _instance_norm(node: Reading) -> None:
    for at, what in ((1, "a scale"), (2, "a bias")):
        node.must_be(what, at, node.given(0)[1])


@rule("LayerNormalization", "RMSNormalization")
def _layer_norm(node: Reading) -> None:
    x, axis = node.given(0), int(node.attribute("axis", -1))
    if not -len(x) <= axis < len(x):
        raise Refused(f"its axis is {axis}, of {len(x)}")
    for at, what in ((1, "a scale"), (2, "a bias")):
        node.must_spread(what, at, x[axis % len(x) :])


@rule("PRelu")
def _prelu(node: Reading) -> None:
    node.must_spread("slopes", 1, node.given(0))


@rule("Clip")
def _clip(node: Reading) -> None:
    for at, what in ((1, "a lower bound"), (2, "an upper bound")):
        if node.shape(at) != (1,):  # which runtimes take too
            node.must_be(what, at)


@rule("LRN")
def _lrn(node: Reading) -> None:
    size = int(node.attribute("size", 0))
    if size < 1 or size % 2 == 0:
        raise Refused(f"its size is {size}, and a window has a middle")


@rule("Gemm")
def _gemm(node: Reading) -> Shape:
    a, b = node.given(0), node.given(1)
    if (len(a), len(b)) != (2, 2):
        raise Refused("multiplies others than matrices")
    a = a[::-1] if node.attribute("transA", 0) else a
    b = b[::-1] if node.attribute("transB", 0) else b
    if a[1] != b[0]:
        raise Refused(f"multiplies {called(a)} by {called(b)}")
    node.must_spread("a bias", 2, (a[0], b[1]))
    return a[0], b[1]


@rule("LSTM", "GRU", "RNN")
def _recurrent(node: Reading) -> None:
    x = node.given(0)
    if len(x) != 3:
        raise Refused(f"has an input of {len(x)} axes, and takes 3")
    kind = node.operator.kind
    _steps, batch, features = x if not node.attribute("layout", 0) else (x[1], x[0], x[2])
    hidden = int(node.attribute("hidden_size") or node.given(2)[-1])
    both, rows = 1 + (node.attribute("direction") == "bidirectional"), GATES[kind] * hidden
    node.must_be("weights", 1, both, rows, features)
    node.must_be("recurrent weights", 2, both, rows, hidden)
    node.must_be("biases", 3, both, 2 * rows)
    node.must_be("lengths", 4, batch)
    state = (both, batch, hidden) if not node.attribute("layout", 0) else (batch, both, hidden)
    node.must_be("a first state", 5, *state)
    if STATES[kind]:
        node.must_be("a first cell", 6, *state)
        node.must_be("peepholes", 7, both, STATES[kind] * hidden)


@rule("Attention")
def _attention(node: Reading) -> None:
    q, k, v = (node.given(at) for at in range(3))
    if not {len(q), len(k), len(v)} <= {3, 4}:
        raise Refused("has factors of other axes; give it 3, or 4 each")
    if len({q[0], k[0], v[0]}) > 1:
        raise Refused(f"has {q[0]}, {k[0]} and {v[0]} samples of its factors")
    heads = []
    for name, each in (("q_num_heads", q), ("kv_num_heads", k), ("kv_num_heads", v)):
        count = each[1] if len(each) == 4 else int(node.attribute(name, 0))
        if count < 1 or (len(each) == 3 and each[2] % count):
            raise Refused(f"has {count} {name} for {each[-1]} features")
        heads.append(count)
    if heads[1] != heads[2] or heads[0] % heads[1]:
        raise Refused(f"has {heads[0]}, {heads[1]} and {heads[2]} heads of its factors")
    wide = [each[-1] // (1 if len(each) == 4 else n) for each, n in zip((q, k), heads)]
    if wide[0] != wide[1] or k[-2] != v[-2]:
        fact = f"has queries of {wide[0]} features and keys of {wide[1]}"
        raise Refused(f"{fact}, {k[-2]} keys and {v[-2]} values")


# ---- Places ----


@rule("Reshape")
def _reshape(node: Reading) -> None:
    x, to = node.given(0), node.known[node.operator.input(1)] if node.operator.input(1) else None
    if to is None or not to.is_known:
        return
    wanted, keeps = [int(each) for each in to.array().reshape(-1)], not node.attribute("allowzero")
    for at, extent in enumerate(wanted):
        if extent == 0 and keeps and at < len(x):
            wanted[at] = x[at]
    sized = prod(each for each in wanted if each != -1)
    fits = sized and not prod(x) % sized if -1 in wanted else sized == prod(x)
    if not fits:
        raise Refused(f"makes {called(wanted)} of {called(x)}")


@rule("Split")
def _split_sizes(node: Reading) -> None:
    count, given = len(node.operator.outputs), node.attribute("num_outputs")
    if given and given != count:
        raise Refused(f"has num_outputs {given}, and {count} of them")


@rule("Transpose")
def _transpose(node: Reading) -> None:
    rank, perm = len(node.given(0)), node.attribute("perm")
    if perm and sorted(perm) != list(range(rank)):
        raise Refused(f"its perm is {list(perm)}, of {rank} axes")


@rule("Gather", "GatherElements")
def _gather(node: Reading) -> None:
    table, rows = node.given(0), node.known[node.operator.input(1)]
    axis = int(node.attribute("axis", 0))
    if not -len(table) <= axis < len(table):
        raise Refused(f"its axis is {axis}, of {len(table)}")
    if rows.is_known and 0 < rows.size <= SMALL:
        found = rows.array()
        lowest, highest, count = int(found.min()), int(found.max()), table[axis]
        if lowest < -count or highest >= count:
            raise Refused(f"takes element {highest if highest >= count else lowest} of {count}")


@rule("DepthToSpace", "SpaceToDepth")
def _blocks(node: Reading) -> None:
    x, side = node.given(0), int(node.attribute("blocksize", 0))
    if len(x) != 4 or side < 1:
        raise Refused(f"has blocks of {side}, and an input of {len(x)} axes")
    deep = node.operator.kind == "DepthToSpace"
    if x[1] % side**2 if deep else x[2] % side or x[3] % side:
        raise Refused(f"has blocks of {side}, which {called(x)} is not cut into")


@rule("Slice", "Pad")
def _of_axes(node: Reading) -> None:
    """Axes are said once each."""
    name = node.operator.input(3)
    asked = node.attribute("axes")
    if name and node.known[name].is_known:
        asked = node.known[name].array().reshape(-1)
    rank = len(node.given(0))
    axes = [int(each) % rank for each in asked if -rank <= each < rank] if asked is not None else []
    if asked is not None and (len(set(axes)) != len(axes) or len(axes) != len(asked)):
        raise Refused(f"has the axes {[int(each) for each in asked]}, of {rank}")
