"""ATen operators as operators of ONNX."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from simgen.frontend.importing.names import unlike

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import onnx

EPSILON = 2.0**-23  # default of rms_norm: float32's epsilon
WHOLE, FLOAT, BOOL = 7, 1, 9  # TensorProto
FLOATS = (1, 10, 11, 16)
TYPES = {4: 6, 5: 7, 6: 10, 7: 1, 8: 11, 12: 9, 13: 16}  # ScalarType -> TensorProto.DataType
ATEN = "torch.ops.aten."
DOMAIN = "torch"  # domain of operators that ONNX does not have
NO_BITS = "is of bits, and layers compute with numbers"
OPEN = "has extents that are open; export it with fixed ones"
EVAL = "export the model behind .eval()"
OPERATORS: dict[str, Callable[[Call], Any]] = {}


class Call:
    """A call of the graph where it is translated, with the nodes that are made so far."""

    def __init__(
        self,
        nodes: list[onnx.NodeProto],
        sizes: Mapping[str, list[int | str]],
        types: Mapping[str, int] = {},
    ) -> None:
        self.nodes, self.sizes, self.types = nodes, dict(sizes), dict(types)
        self.tensors: list[onnx.TensorProto] = []
        self.target, self.output = "", ""
        self.outputs: list[str] = []
        self.arguments: dict[str, Any] = {}
        self.reads: list[str] = []  # tensors among the arguments
        self.taken = set(sizes)  # names

    def read(self, node: Any, outputs: list[str], now: Callable[[str], str]) -> None:
        """A call that gives these; `now` is the value that a tensor is."""
        self.target = str(node["target"]).removeprefix(ATEN)
        self.outputs, self.output = outputs, outputs[0]
        self.reads = [now(name) for each in node["inputs"] for name in tensors_of(each["arg"])]
        self.arguments = {each["name"]: _plain(each["arg"], now) for each in node["inputs"]}

    def fresh(self, wanted: str) -> str:
        """A name that is like this, and that the program has nowhere."""
        found = unlike(self.taken, wanted)
        self.taken.add(found)
        return found

    def like(self, value: str, other: str) -> None:
        """The value has the extents and type of another."""
        self.sizes[value] = self.sizes[other]
        self.types[value] = self.types.get(other, 0)

    def get(self, name: str, usual: Any = None) -> Any:
        found = self.arguments.get(name)
        return usual if found is None else found

    def node(
        self, kind: str, *inputs: str, suffix: str = "", output: str = "", **attributes: Any
    ) -> str:
        """A node; with a suffix, what it gives is a value in between."""
        from onnx import helper

        name = self.fresh(f"{self.output}_{suffix}") if suffix else output or self.output
        self.nodes.append(helper.make_node(kind, list(inputs), [name], name, **attributes))
        return name

    def split(self, x: str, sizes: str, axis: int) -> None:
        from onnx import helper

        made = helper.make_node("Split", [x, sizes], self.outputs, self.output, axis=axis)
        self.nodes.append(made)

    def unknown(self, reason: str, called: str = "") -> None:
        """What the call gives is computed by no layer, for this reason."""
        from onnx import helper

        kind = f"aten.{self.target}"
        made = helper.make_node(
            kind, self.reads, self.outputs, called or self.output, domain=DOMAIN, doc_string=reason
        )
        self.nodes.append(made)

    def tensor(
        self, values: list[int] | list[float], shape: list[int], suffix: str, element: int = 0
    ) -> str:
        """A tensor of the model with these values."""
        from onnx import helper

        element = element or (WHOLE if all(isinstance(each, int) for each in values) else FLOAT)
        name = self.fresh(f"{self.output}_{suffix}")
        self.tensors.append(helper.make_tensor(name, element, shape, values))
        return name

    def operand(self, name: str, like: str = "") -> str:
        """A tensor, or a number as one, of the type of the tensor `like`."""
        found = self.arguments[name]
        if isinstance(found, str):
            return found
        element = self.types.get(like, FLOAT)
        number = float(found) if element in FLOATS else int(found)
        return self.tensor([number], [], name, element)

    def reshape(self, x: str, output: str = "", sizes: Sequence[int | str] = ()) -> str:
        """The elements of a tensor in other extents: those of the output, if none are said."""
        sizes = sizes or self.sizes[output or self.output]
        shape = [each if isinstance(each, int) else -1 for each in sizes]
        if sizes and sizes[0] == self.sizes[x][0] and shape[0] == -1:
            shape[0] = 0
        if shape.count(-1) > 1:
            self.unknown(OPEN)
            return self.output
        return self.node("Reshape", x, self.tensor(shape, [len(shape)], "shape"), output=output)

    def part(self, x: str, axis: int, begin: int, end: int, suffix: str) -> str:
        """Elements in a row along an axis."""
        ends = (self.tensor([n], [1], suffix) for n in (begin, end, axis))
        return self.node("Slice", x, *ends, suffix=suffix)

    def ends(self, whole: int) -> tuple[int, int] | None:
        """The elements of a slice, of so many; None: they are not in a row."""
        if self.get("step", 1) != 1:
            return None
        ends = [int(self.get("start", 0)), int(self.get("end", whole))]
        begin, end = (min(max(n + whole if n < 0 else n, 0), whole) for n in ends)
        return begin, max(begin, end)

    def put(self, x: str, value: str, axis: int, begin: int, end: int) -> None:
        """The result is a tensor with other elements in a row along an axis."""
        whole = int(self.sizes[self.output][axis])
        rows = [self.part(x, axis, 0, begin, "before")] if begin > 0 else []
        rows += [value] if end > begin else []
        rows += [self.part(x, axis, end, whole, "behind")] if end < whole else []
        self.node("Concat", *rows, axis=axis)

    def order(self, rank: int) -> list[int]:
        """The axes of what is permuted, in their new order."""
        found = list(range(rank))
        if self.target.startswith(("t.", "numpy_T")):
            return found[::-1]
        if self.target.startswith("mT"):
            return [*found[:-2], *found[:-3:-1]]
        if self.target.startswith("permute"):
            return [int(each) % rank for each in self.get("dims")]
        one, other = (int(self.get(name, at)) % rank for at, name in enumerate(("dim0", "dim1")))
        found[one], found[other] = found[other], found[one]
        return found

    def constant(self, value: Any) -> None:
        """The result is one number throughout, computed when it is read."""
        from onnx import helper

        shape, element = self.sizes[self.output], self.types.get(self.output, 0)
        if not element or not all(isinstance(each, int) for each in shape):
            self.unknown(OPEN)
            return
        number = float(value) if element in FLOATS else int(value)
        one = helper.make_tensor("value", element, [1], [number])
        extents = self.tensor([int(each) for each in shape], [len(shape)], "shape", WHOLE)
        self.node("ConstantOfShape", extents, value=one)


def outputs_of(node: Any) -> list[str]:
    """The tensors that a call gives."""
    found = [each["as_tensor"]["name"] for each in node["outputs"] if "as_tensor" in each]
    for each in node["outputs"]:
        found += [one["name"] for one in each.get("as_tensors", ())]
    return [str(name) for name in found]


def tensors_of(arg: Any) -> list[str]:
    """Names of the tensors that an argument is."""
    found = [str(arg["as_tensor"]["name"])] if "as_tensor" in arg else []
    found += [str(one["name"]) for one in arg.get("as_tensors", ())]
    maybe = arg.get("as_optional_tensors", ())
    return found + [str(one["as_tensor"]["name"]) for one in maybe if "as_tensor" in one]


def _plain(arg: Any, now: Callable[[str], str]) -> Any:
    """An argument: the name of a tensor, names of several, numbers, or None."""
    ((kind, value),) = arg.items()
    if kind == "as_tensor":
        return now(str(value["name"]))
    if kind == "as_tensors":
        return [now(str(each["name"])) for each in value]
    if kind == "as_float":
        return float(value)  # "-Infinity" is text
    return None if kind == "as_none" else value


def aten(*targets: str) -> Callable[[Callable[[Call], None]], Callable[[Call], None]]:
    def declare(made: Callable[[Call], None]) -> Callable[[Call], None]:
        OPERATORS.update(dict.fromkeys(targets, made))
        return made

    return declare


def _pair(values: Any) -> list[int]:
    return [int(each) for each in (values * 2 if len(values) == 1 else values)]


PLAIN = {"relu": "Relu", "sigmoid": "Sigmoid", "tanh": "Tanh", "hardswish": "HardSwish",
         "neg": "Neg", "sqrt": "Sqrt", "logical_not": "Not",
         "bitwise_not": "Not"}  # fmt: skip
# What is its input, in inference; and what is its elements in other extents.
AS_IT_IS = ("dropout", "contiguous", "detach", "alias", "feature_dropout", "to")
BINARY = {"add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "eq": "Equal", "lt": "Less",
          "le": "LessOrEqual", "gt": "Greater", "ge": "GreaterOrEqual", "logical_and": "And",
          "logical_or": "Or", "bitwise_and": "And", "bitwise_or": "Or", "__and__": "And",
          "__or__": "Or"}  # fmt: skip
BITS = ("bitwise_not", "bitwise_and", "bitwise_or", "__and__", "__or__")  # on bool, these are logic
RESHAPED = ("view", "reshape", "_unsafe_view", "unsqueeze", "squeeze", "flatten", "unflatten")


@aten(*(f"{name}.default" for name in PLAIN))
def _unary(call: Call) -> None:
    name, x = call.target.partition(".")[0], call.reads[0]
    if name in BITS and call.types.get(x) != BOOL:
        call.unknown(NO_BITS)
    else:
        call.node(PLAIN[name], x)


@aten("clone.default", *(f"{name}.default" for name in AS_IT_IS))
def _identity(call: Call) -> None:
    if call.get("train"):
        call.unknown(f"drops elements, in training mode; {EVAL}")
    else:
        call.node("Identity", call.reads[0])


@aten("copy.default")
def _copy(call: Call) -> None:
    x, to = call.get("src"), call.sizes[call.output]
    if call.types.get(x) != call.types.get(call.output):
        x = call.node("Cast", x, suffix="cast", to=call.types[call.output])
    if call.sizes[call.get("src")] == to:
        call.node("Identity", x)
    else:
        _expanded(call, x)


@aten(*(f"{name}.{form}" for name in BINARY for form in ("Tensor", "Scalar", "default")))
def _binary(call: Call) -> None:
    name, x = call.target.partition(".")[0], call.operand("self", call.reads[0])
    if name in BITS and call.types.get(x) != BOOL:
        call.unknown(NO_BITS)
    else:
        call.node(BINARY[name], x, _times(call, call.operand("other", x), x))


def _times(call: Call, y: str, like: str) -> str:
    """A tensor times the call's alpha."""
    alpha, element = call.get("alpha", 1), call.types.get(like, FLOAT)
    if alpha == 1:
        return y
    number = float(alpha) if element in FLOATS else int(alpha)
    return call.node("Mul", y, call.tensor([number], [], "alpha", element), suffix="scaled")


@aten("rsub.Scalar", "rsub.Tensor")
def _rsub(call: Call) -> None:
    x = call.get("self")
    call.node("Sub", call.operand("other", x), _times(call, x, x))


@aten("to.dtype", "_to_copy.default")
def _to(call: Call) -> None:
    target = TYPES.get(call.get("dtype", -1))
    if target is None:
        call.unknown("gives a type that is not read")
    else:
        call.node("Cast", call.get("self"), to=target)


# ---- Choices, and numbers that the program knows ----


@aten("where.self", "where.ScalarOther", "where.ScalarSelf")
def _where(call: Call) -> None:
    sides = [call.operand(name, call.output) for name in ("self", "other")]
    call.node("Where", call.get("condition"), *sides)


@aten("zeros_like.default", "ones_like.default", "full_like.default", "zeros.default",
      "ones.default", "full.default", "new_zeros.default", "new_ones.default", "new_full.default",
      "empty.memory_format", "empty_like.default", "new_empty.default",
      "empty_permuted.default")  # fmt: skip
def _full(call: Call) -> None:
    call.constant(call.get("fill_value", int("ones" in call.target)))


@aten("arange.default", "arange.start", "arange.start_step")
def _arange(call: Call) -> None:
    element = call.types.get(call.output, 0)
    ends = [call.get("start", 0), call.get("end"), call.get("step", 1)]
    if element != WHOLE or not all(isinstance(each, int) for each in ends):
        call.unknown("has other ends than whole numbers")
        return
    names = ("start", "end", "step")
    call.node("Range", *(call.tensor([end], [], name) for name, end in zip(names, ends)))


# ---- Parts ----


@aten("chunk.default", "split.Tensor", "split_with_sizes.default")
def _split(call: Call) -> None:
    axis = int(call.get("dim", 0))
    extents = [call.sizes[name][axis] for name in call.outputs]
    if not all(isinstance(each, int) for each in extents):
        call.unknown(OPEN)
        return
    sizes = call.tensor([int(each) for each in extents], [len(extents)], "sizes")
    call.split(call.get("self"), sizes, axis)


@aten("select.int", "unbind.int")
def _select(call: Call) -> None:
    for at, output in enumerate(call.outputs):
        index = call.tensor([int(call.get("index", at))], [], "index")
        call.node("Gather", call.get("self"), index, output=output, axis=int(call.get("dim", 0)))


@aten("narrow.default")
def _narrow(call: Call) -> None:
    x, axis = call.get("self"), int(call.get("dim"))
    begin, length = call.get("start"), call.get("length")
    whole = call.sizes[x][axis]
    if not all(isinstance(each, int) for each in (begin, length, whole)):
        call.unknown(OPEN)
        return
    begin %= int(whole)
    ends = (call.tensor([n], [1], "end") for n in (begin, begin + length, axis))
    call.node("Slice", x, *ends)


@aten("slice_scatter.default", "select_scatter.default")
def _scatter(call: Call) -> None:
    """What a program that was decomposed has in place of a write."""
    x, value, axis = call.get("self"), call.get("src"), int(call.get("dim", 0))
    extents = call.sizes[x]
    whole = extents[axis]
    if not isinstance(whole, int):
        call.unknown(OPEN)
        return
    ends = call.ends(whole)
    if call.target.startswith("select"):
        at = int(call.get("index")) % whole
        ends = at, at + 1
        axis %= len(extents)
        one = [1 if n == axis else each for n, each in enumerate(extents)]
        value = call.reshape(value, call.fresh(f"{call.output}_row"), one)
    if ends is None:
        call.unknown("writes elements that are not in a row")
    else:
        call.put(x, value, axis, *ends)


@aten("slice.Tensor")
def _slice(call: Call) -> None:
    numbers = {"start": call.get("start", 0), "end": call.get("end", 2**63 - 1),
               "dim": call.get("dim", 0), "step": call.get("step", 1)}  # fmt: skip
    if not all(isinstance(each, int) for each in numbers.values()):
        call.unknown(OPEN)
        return
    call.node("Slice", call.get("self"), *(call.tensor([n], [1], k) for k, n in numbers.items()))


def _expanded(call: Call, x: str) -> None:
    shape = call.sizes[call.output]
    if all(isinstance(each, int) for each in shape):
        to = call.tensor([int(each) for each in shape], [len(shape)], "extents")
        call.node("Expand", x, to)
    else:
        call.unknown(OPEN)


@aten("scaled_dot_product_attention.default")
def _attention(call: Call) -> None:
    """Attention of heads: (batch, heads, words, features)."""
    factors = [call.get(name) for name in ("query", "key", "value")]
    if {len(call.sizes[name]) for name in factors} != {4}:
        call.unknown("has factors of other than four axes; give them heads")
        return
    if call.get("dropout_p", 0.0):
        call.unknown(f"drops weights, in training mode; {EVAL}")
        return
    mask, scale = call.get("attn_mask"), call.get("scale")
    more: dict[str, Any] = {} if scale is None else {"scale": float(scale)}
    causal = int(call.get("is_causal", False))
    call.node("Attention", *factors, *([mask] if mask else []), is_causal=causal, **more)


@aten("conv2d.default", "convolution.default")
def _conv(call: Call) -> None:
    if call.get("transposed", False):
        call.unknown("is a transposed convolution; export the model as ONNX")
        return
    inputs = [call.get(name, "") for name in ("input", "weight", "bias")]
    call.node(
        "Conv", *inputs[: 3 if inputs[2] else 2],
        strides=_pair(call.get("stride", [1])), pads=_pair(call.get("padding", [0])) * 2,
        dilations=_pair(call.get("dilation", [1])), group=int(call.get("groups", 1)),
    )  # fmt: skip


@aten("batch_norm.default", "_native_batch_norm_legit_no_training.default")
def _batch_norm(call: Call) -> None:
    means = [call.get(name) for name in ("running_mean", "running_var")]
    if call.get("training", False) or None in means:
        call.unknown(f"normalises by the batch, in training mode; {EVAL}")
        return
    x = call.get("input")
    w, b = (_or(call, name, usual, [int(call.sizes[x][1])], x)
            for name, usual in (("weight", 1.0), ("bias", 0.0)))  # fmt: skip
    call.node("BatchNormalization", x, w, b, *means, epsilon=float(call.get("eps", 1e-5)))


def _or(call: Call, name: str, usual: float, shape: list[int], like: str) -> str:
    """A parameter, or this number where there is none."""
    found = call.get(name)
    return found or call.tensor([usual] * prod(shape), shape, name, call.types.get(like, FLOAT))


@aten("max_pool2d.default", "max_pool2d_with_indices.default", "avg_pool2d.default")
def _pool(call: Call) -> None:
    kernel = _pair(call.get("kernel_size"))
    attributes: dict[str, Any] = {
        "kernel_shape": kernel, "strides": _pair(call.get("stride") or kernel),
        "pads": _pair(call.get("padding", [0])) * 2, "ceil_mode": int(call.get("ceil_mode", False)),
    }  # fmt: skip
    if call.target.startswith("max"):
        attributes["dilations"] = _pair(call.get("dilation", [1]))
        call.node("MaxPool", call.get("self"), **attributes)
        return
    divisor = call.get("divisor_override")
    if divisor is not None and attributes["ceil_mode"]:
        call.unknown("has divisor_override beside ceil_mode; leave one of them out")
    elif divisor is not None:  # whole windows: means count the padding
        x = call.get("self")
        mean = call.node("AveragePool", x, suffix="mean", count_include_pad=1, **attributes)
        factor = float(prod(kernel)) / float(divisor)
        call.node("Mul", mean, call.tensor([factor], [], "factor", call.types.get(x, FLOAT)))
    else:
        counts = int(call.get("count_include_pad", True))
        call.node("AveragePool", call.get("self"), count_include_pad=counts, **attributes)


@aten("adaptive_avg_pool2d.default")
def _adaptive(call: Call) -> None:
    """Windows that all have one size."""
    before, wanted = call.sizes[call.get("self")][-2:], _pair(call.get("output_size"))
    if wanted == [1, 1]:
        call.node("GlobalAveragePool", call.get("self"))
    elif all(isinstance(b, int) and b % w == 0 for b, w in zip(before, wanted, strict=True)):
        each = [int(b) // w for b, w in zip(before, wanted, strict=True)]
        call.node("AveragePool", call.get("self"), kernel_shape=each, strides=each)
    else:
        call.unknown("has windows of several sizes; give it an output that divides its input")


@aten("linear.default", "addmm.default")
def _linear(call: Call) -> None:
    if call.target.startswith("addmm"):
        factors: dict[str, Any] = {name: float(call.get(name, 1)) for name in ("alpha", "beta")}
        call.node("Gemm", call.get("mat1"), call.get("mat2"), call.get("self"), **factors)
        return
    x, w, b = (call.get(name, "") for name in ("input", "weight", "bias"))
    if len(call.sizes[x]) == 2:
        call.node("Gemm", *([x, w, b] if b else [x, w]), transB=1)
        return
    turned = call.node("Transpose", w, suffix="w", perm=[1, 0])
    made = call.node("MatMul", x, turned, suffix="product" if b else "")
    if b:
        call.node("Add", made, b)


@aten("mean.dim")
def _mean(call: Call) -> None:
    axes = [int(each) for each in call.get("dim") or []]
    attributes: dict[str, Any] = {"axes": axes} if axes else {}
    keeps = int(call.get("keepdim", False))
    call.node("ReduceMean", call.get("self"), keepdims=keeps, **attributes)


@aten("layer_norm.default", "native_layer_norm.default")
def _layer_norm(call: Call) -> None:
    x, b, row = call.get("input"), call.get("bias"), [int(n) for n in call.get("normalized_shape")]
    inputs = [x, _or(call, "weight", 1.0, row, x), *([b] if b else [])]
    call.node("LayerNormalization", *inputs, axis=-len(row), epsilon=float(call.get("eps", 1e-5)))


@aten("rms_norm.default")
def _rms_norm(call: Call) -> None:
    """In parts, as operator sets have it before the one with RMSNormalization."""
    x, w, eps = call.get("input"), call.get("weight"), call.get("eps", EPSILON)
    square = call.node("Mul", x, x, suffix="square")
    axes = [-1 - at for at, _ in enumerate(call.get("normalized_shape"))]
    mean = call.node("ReduceMean", square, suffix="mean", axes=axes)
    added = call.tensor([float(eps)], [], "eps")
    total = call.node("Add", mean, added, suffix="total")
    root = call.node("Sqrt", total, suffix="root")
    made = call.node("Div", x, root, suffix="row" if w else "")
    if w:
        call.node("Mul", made, w)


@aten("hardtanh.default", "clamp.default", "relu6.default")
def _clip(call: Call) -> None:
    low, high = call.get("min_val", call.get("min")), call.get("max_val", call.get("max"))
    if "hardtanh" in call.target:
        low, high = (-1.0 if low is None else low), (1.0 if high is None else high)
    if "relu6" in call.target:
        low, high = 0.0, 6.0
    ends = [
        "" if each is None else call.tensor([float(each)], [], name)
        for name, each in (("low", low), ("high", high))
    ]
    call.node("Clip", call.get("self"), *ends)


@aten("silu.default")
def _silu(call: Call) -> None:
    gate = call.node("Sigmoid", call.get("self"), suffix="gate")
    call.node("Mul", call.get("self"), gate)


_ROWS: dict[str, Callable[[Call], Any]] = {
    "fill.Scalar zero.default": lambda call: call.constant(call.get("value", 0)),
    "fill.Tensor": lambda call: _expanded(call, call.get("value")),
    "expand.default": lambda call: _expanded(call, call.get("self")),
    "scalar_tensor.default": lambda call: call.constant(call.get("s")),
    "tril.default triu.default": lambda call: call.node(
        "Trilu", call.get("self"), call.tensor([int(call.get("diagonal", 0))], [], "diagonal"),
        upper=int(call.target.startswith("triu"))),
    "pow.Tensor_Scalar": lambda call: call.node(
        "Pow", call.get("self"), call.operand("exponent", call.get("self"))),
    "rsqrt.default": lambda call: call.node(
        "Reciprocal", call.node("Sqrt", call.get("self"), suffix="root")),
    "masked_fill.Scalar": lambda call: call.node(
        "Where", call.get("mask"), call.operand("value", call.output), call.get("self")),
    "isnan.default": lambda call: call.node("IsNaN", call.get("self")),
    "nan_to_num.default": lambda call: call.node(
        "Where", call.node("IsNaN", call.get("self"), suffix="lost"),
        call.tensor([float(call.get("nan", 0))], [], "nan"), call.get("self")),
    "matmul.default bmm.default mm.default": lambda call: call.node(
        "MatMul", *list(call.arguments.values())[:2]),
    "softmax.int _softmax.default log_softmax.int _log_softmax.default": lambda call: call.node(
        "LogSoftmax" if "log" in call.target else "Softmax", call.get("self"),
        axis=int(call.get("dim"))),
    "cat.default": lambda call: call.node(
        "Concat", *call.get("tensors"), axis=int(call.get("dim", 0))),
    "permute.default transpose.int t.default numpy_T.default mT.default": lambda call: call.node(
        "Transpose", call.get("self"), perm=call.order(len(call.sizes[call.get("self")]))),
    "embedding.default": lambda call: call.node("Gather", call.get("weight"), call.get("indices")),
    "leaky_relu.default": lambda call: call.node(
        "LeakyRelu", call.get("self"), alpha=float(call.get("negative_slope", 0.01))),
    "gelu.default": lambda call: call.node(
        "Gelu", call.get("self"), approximate=call.get("approximate", "none")),
    " ".join(f"{name}.{form}" for name in RESHAPED
             for form in ("default", "using_ints", "dim", "dims", "int")):
        lambda call: call.reshape(call.reads[0]),
}  # fmt: skip
for _names, _made in _ROWS.items():
    OPERATORS |= dict.fromkeys(_names.split(), _made)
