"""ATen operators as operators of ONNX."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import onnx

EPSILON = 2.0**-23  # of rms_norm without one: that of float32
WHOLE, FLOAT, BOOL = 7, 1, 9  # TensorProto
FLOATS = (1, 10, 11, 16)
TYPES = {4: 6, 5: 7, 6: 10, 7: 1, 8: 11, 12: 9, 13: 16}  # ScalarType -> TensorProto.DataType
DOMAIN = "torch"  # of what has no operator of ONNX here
OPERATORS: dict[str, Callable[[Call], None]] = {}


class Call:
    """A call of the graph where it is translated, with the nodes that are made so far."""

    def __init__(
        self,
        nodes: list[onnx.NodeProto],
        sizes: Mapping[str, list[int | str]],
        types: Mapping[str, int] = {},
    ) -> None:
        self.nodes, self.sizes, self.types = nodes, sizes, types
        self.tensors: list[onnx.TensorProto] = []
        self.target, self.output = "", ""
        self.outputs: list[str] = []
        self.arguments: dict[str, Any] = {}

    def read(self, node: Any) -> None:
        self.target = str(node["target"]).removeprefix("torch.ops.aten.")
        self.outputs = given(node)
        self.output = self.outputs[0]
        self.arguments = {each["name"]: _plain(each["arg"]) for each in node["inputs"]}

    def get(self, name: str, usual: Any = None) -> Any:
        found = self.arguments.get(name)
        return usual if found is None else found

    def node(self, kind: str, *inputs: str, output: str = "", **attributes: Any) -> str:
        from onnx import helper

        name = output or self.output
        self.nodes.append(helper.make_node(kind, list(inputs), [name], name, **attributes))
        return name

    def split(self, x: str, sizes: str, axis: int) -> None:
        from onnx import helper

        made = helper.make_node("Split", [x, sizes], self.outputs, self.output, axis=axis)
        self.nodes.append(made)

    def unknown(self) -> None:
        from onnx import helper

        inputs = [each for each in self.arguments.values() if isinstance(each, str)]
        kind = f"aten.{self.target}"
        made = helper.make_node(kind, inputs, self.outputs, self.output, domain=DOMAIN)
        self.nodes.append(made)

    def tensor(
        self, values: list[int] | list[float], shape: list[int], suffix: str, element: int = 0
    ) -> str:
        """A tensor of the model with these values."""
        from onnx import helper

        element = element or (WHOLE if all(isinstance(each, int) for each in values) else FLOAT)
        name = f"{self.output}_{suffix}"
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

    def constant(self, value: Any, shape: Any, element: int) -> None:
        """The result is one number throughout, computed when it is read."""
        from onnx import helper

        number = float(value) if element in FLOATS else int(value)
        one = helper.make_tensor("value", element, [1], [number])
        extents = self.tensor([int(each) for each in shape], [len(shape)], "shape", WHOLE)
        self.node("ConstantOfShape", extents, value=one)


def given(node: Any) -> list[str]:
    """The tensors that a call gives."""
    found = [each["as_tensor"]["name"] for each in node["outputs"] if "as_tensor" in each]
    for each in node["outputs"]:
        found += [one["name"] for one in each.get("as_tensors", ())]
    return [str(name) for name in found]


def _plain(arg: Any) -> Any:
    """An argument: the name of a tensor, names of several, numbers, or None."""
    ((kind, value),) = arg.items()
    if kind == "as_tensor":
        return str(value["name"])
    if kind == "as_tensors":
        return [str(each["name"]) for each in value]
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
SAME = ("dropout", "contiguous", "clone", "detach", "alias", "dropout_", "feature_dropout")
BINARY = {"add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "eq": "Equal", "lt": "Less",
          "le": "LessOrEqual", "gt": "Greater", "ge": "GreaterOrEqual", "logical_and": "And",
          "logical_or": "Or", "bitwise_and": "And", "bitwise_or": "Or", "__and__": "And",
          "__or__": "Or"}  # fmt: skip
BITS = ("bitwise_not", "bitwise_and", "bitwise_or", "__and__", "__or__")  # of bool, logic
VIEWS = ("view", "reshape", "_unsafe_view", "unsqueeze", "squeeze", "flatten", "unflatten")


@aten(*(f"{name}{end}.default" for name in PLAIN for end in ("", "_")))
def _unary(call: Call) -> None:
    name = call.target.partition(".")[0].removesuffix("_")
    x = next(iter(call.arguments.values()))
    if name in BITS and call.types.get(x) != BOOL:
        call.unknown()
    else:
        call.node(PLAIN[name], x)


@aten(*(f"{name}.default" for name in SAME))
def _identity(call: Call) -> None:
    if call.get("train"):
        call.unknown()
    else:
        call.node("Identity", next(iter(call.arguments.values())))


@aten(*(f"{name}{end}.{form}" for name in BINARY for end in ("", "_")
        for form in ("Tensor", "Scalar", "default")))  # fmt: skip
def _binary(call: Call) -> None:
    name, x = call.target.partition(".")[0], call.get("self")
    name = name if name in BINARY else name.removesuffix("_")
    if call.get("alpha", 1) != 1 or (name in BITS and call.types.get(x) != BOOL):
        call.unknown()
        return
    call.node(BINARY[name], x, call.operand("other", x))


@aten("tril.default", "triu.default")
def _triangle(call: Call) -> None:
    at = call.tensor([int(call.get("diagonal", 0))], [], "diagonal")
    call.node("Trilu", call.get("self"), at, upper=int(call.target.startswith("triu")))


@aten("rsub.Scalar")
def _rsub(call: Call) -> None:
    x = call.get("self")
    if call.get("alpha", 1) == 1:
        call.node("Sub", call.operand("other", x), x)
    else:
        call.unknown()


@aten("pow.Tensor_Scalar")
def _pow(call: Call) -> None:
    call.node("Pow", call.get("self"), call.operand("exponent", call.get("self")))


@aten("rsqrt.default")
def _rsqrt(call: Call) -> None:
    root = call.node("Sqrt", call.get("self"), output=f"{call.output}_root")
    call.node("Reciprocal", root)


@aten("to.dtype", "_to_copy.default")
def _to(call: Call) -> None:
    target = TYPES.get(call.get("dtype", -1))
    if target is None:
        call.unknown()
    else:
        call.node("Cast", call.get("self"), to=target)


# ---- Choices, and numbers that the program knows ----


@aten("where.self", "where.ScalarOther", "where.ScalarSelf")
def _where(call: Call) -> None:
    sides = [call.operand(name, call.output) for name in ("self", "other")]
    call.node("Where", call.get("condition"), *sides)


@aten("masked_fill.Scalar", "masked_fill_.Scalar")
def _masked_fill(call: Call) -> None:
    value = call.operand("value", call.output)
    call.node("Where", call.get("mask"), value, call.get("self"))


@aten("zeros_like.default", "ones_like.default", "full_like.default", "zeros.default",
      "ones.default", "full.default")  # fmt: skip
def _full(call: Call) -> None:
    shape, element = call.sizes[call.output], call.types.get(call.output, 0)
    if not element or not all(isinstance(each, int) for each in shape):
        call.unknown()
        return
    usual = int(call.target.startswith("ones"))
    call.constant(call.get("fill_value", usual), shape, element)


@aten("arange.default", "arange.start", "arange.start_step")
def _arange(call: Call) -> None:
    element = call.types.get(call.output, 0)
    ends = [call.get("start", 0), call.get("end"), call.get("step", 1)]
    if element != WHOLE or not all(isinstance(each, int) for each in ends):
        call.unknown()
        return
    names = ("start", "end", "step")
    call.node("Range", *(call.tensor([end], [], name) for name, end in zip(names, ends)))


# ---- Parts ----


@aten("chunk.default", "split.Tensor", "split_with_sizes.default")
def _split(call: Call) -> None:
    axis = int(call.get("dim", 0))
    extents = [call.sizes[name][axis] for name in call.outputs]
    if not all(isinstance(each, int) for each in extents):
        call.unknown()
        return
    sizes = call.tensor([int(each) for each in extents], [len(extents)], "sizes")
    call.split(call.get("self"), sizes, axis)


@aten("select.int")
def _select(call: Call) -> None:
    at = call.tensor([int(call.get("index"))], [], "index")
    call.node("Gather", call.get("self"), at, axis=int(call.get("dim")))


@aten("slice.Tensor")
def _slice(call: Call) -> None:
    numbers = {"start": call.get("start", 0), "end": call.get("end", 2**63 - 1),
               "dim": call.get("dim", 0), "step": call.get("step", 1)}  # fmt: skip
    if not all(isinstance(each, int) for each in numbers.values()):
        call.unknown()
        return
    call.node("Slice", call.get("self"), *(call.tensor([n], [1], k) for k, n in numbers.items()))


@aten("expand.default")
def _expand(call: Call) -> None:
    shape = call.sizes[call.output]
    if all(isinstance(each, int) for each in shape):
        to = call.tensor([int(each) for each in shape], [len(shape)], "extents")
        call.node("Expand", call.get("self"), to)
    else:
        call.unknown()


@aten("scaled_dot_product_attention.default")
def _attention(call: Call) -> None:
    """Of heads: (batch, heads, words, features)."""
    factors = [call.get(name) for name in ("query", "key", "value")]
    if {len(call.sizes[name]) for name in factors} != {4} or call.get("dropout_p", 0.0):
        call.unknown()
        return
    mask, scale = call.get("attn_mask"), call.get("scale")
    more: dict[str, Any] = {} if scale is None else {"scale": float(scale)}
    causal = int(call.get("is_causal", False))
    call.node("Attention", *factors, *([mask] if mask else []), is_causal=causal, **more)


@aten("conv2d.default", "convolution.default")
def _conv(call: Call) -> None:
    if call.get("transposed", False) or isinstance(call.get("padding"), str):
        call.unknown()
        return
    inputs = [call.get(name, "") for name in ("input", "weight", "bias")]
    call.node(
        "Conv", *inputs[: 3 if inputs[2] else 2],
        strides=_pair(call.get("stride", [1])), pads=_pair(call.get("padding", [0])) * 2,
        dilations=_pair(call.get("dilation", [1])), group=int(call.get("groups", 1)),
    )  # fmt: skip


@aten("batch_norm.default", "_native_batch_norm_legit_no_training.default")
def _batch_norm(call: Call) -> None:
    names = ("input", "weight", "bias", "running_mean", "running_var")
    inputs = [call.get(name) for name in names]
    if call.get("training", False) or None in inputs:
        call.unknown()
    else:
        call.node("BatchNormalization", *inputs, epsilon=float(call.get("eps", 1e-5)))


@aten("max_pool2d.default", "avg_pool2d.default")
def _pool(call: Call) -> None:
    kernel = _pair(call.get("kernel_size"))
    attributes: dict[str, Any] = {
        "kernel_shape": kernel, "strides": _pair(call.get("stride") or kernel),
        "pads": _pair(call.get("padding", [0])) * 2, "ceil_mode": int(call.get("ceil_mode", False)),
    }  # fmt: skip
    if call.target.startswith("max"):
        attributes["dilations"] = _pair(call.get("dilation", [1]))
        call.node("MaxPool", call.get("self"), **attributes)
    elif call.get("divisor_override") is not None:
        call.unknown()
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
        call.unknown()


@aten("linear.default", "addmm.default")
def _linear(call: Call) -> None:
    if call.target.startswith("addmm"):
        if call.get("alpha", 1) != 1 or call.get("beta", 1) != 1:
            call.unknown()
            return
        call.node("Gemm", call.get("mat1"), call.get("mat2"), call.get("self"))
        return
    x, w, b = (call.get(name, "") for name in ("input", "weight", "bias"))
    if len(call.sizes[x]) == 2:
        call.node("Gemm", *([x, w, b] if b else [x, w]), transB=1)
        return
    turned = call.node("Transpose", w, output=f"{call.output}_w", perm=[1, 0])
    made = call.node("MatMul", x, turned, output=f"{call.output}_product" if b else "")
    if b:
        call.node("Add", made, b)


@aten("matmul.default", "bmm.default", "mm.default")
def _matmul(call: Call) -> None:
    call.node("MatMul", *list(call.arguments.values())[:2])


@aten(*(f"{name}.{form}" for name in VIEWS
        for form in ("default", "using_ints", "dim", "dims", "int")))  # fmt: skip
def _view(call: Call) -> None:
    x, sizes = next(iter(call.arguments.values())), call.sizes[call.output]
    shape = [each if isinstance(each, int) else -1 for each in sizes]
    if sizes and sizes[0] == call.sizes[x][0] and shape[0] == -1:
        shape[0] = 0
    if shape.count(-1) > 1:
        call.unknown()
    else:
        call.node("Reshape", x, call.tensor(shape, [len(shape)], "shape"))


@aten("softmax.int", "_softmax.default", "log_softmax.int", "_log_softmax.default")
def _softmax(call: Call) -> None:
    kind = "LogSoftmax" if "log" in call.target else "Softmax"
    call.node(kind, call.get("self"), axis=int(call.get("dim")))


@aten("cat.default")
def _cat(call: Call) -> None:
    call.node("Concat", *call.get("tensors"), axis=int(call.get("dim", 0)))


@aten("mean.dim")
def _mean(call: Call) -> None:
    axes = [int(each) for each in call.get("dim") or []]
    attributes: dict[str, Any] = {"axes": axes} if axes else {}
    keeps = int(call.get("keepdim", False))
    call.node("ReduceMean", call.get("self"), keepdims=keeps, **attributes)


@aten("permute.default", "transpose.int", "t.default", "numpy_T.default", "mT.default")
def _permute(call: Call) -> None:
    order = list(range(len(call.sizes[call.get("self")])))
    if call.target.startswith(("t.", "numpy_T")):
        order = order[::-1]
    elif call.target.startswith("mT"):
        order[-2:] = order[:-3:-1]
    elif call.target.startswith("permute"):
        order = [int(each) % len(order) for each in call.get("dims")]
    else:
        one, other = int(call.get("dim0")) % len(order), int(call.get("dim1")) % len(order)
        order[one], order[other] = order[other], order[one]
    call.node("Transpose", call.get("self"), perm=order)


@aten("layer_norm.default")
def _layer_norm(call: Call) -> None:
    w, b = call.get("weight"), call.get("bias")
    if w is None:
        call.unknown()
        return
    axis = -len(call.get("normalized_shape"))
    inputs = [call.get("input"), w, *([b] if b else [])]
    call.node("LayerNormalization", *inputs, axis=axis, epsilon=float(call.get("eps", 1e-5)))


@aten("rms_norm.default")
def _rms_norm(call: Call) -> None:
    """In parts, as operator sets have it before the one with RMSNormalization."""
    x, w, eps = call.get("input"), call.get("weight"), call.get("eps", EPSILON)
    square = call.node("Mul", x, x, output=f"{call.output}_square")
    axes = [-1 - at for at, _ in enumerate(call.get("normalized_shape"))]
    mean = call.node("ReduceMean", square, output=f"{call.output}_mean", axes=axes)
    added = call.tensor([float(eps)], [], "eps")
    total = call.node("Add", mean, added, output=f"{call.output}_total")
    root = call.node("Sqrt", total, output=f"{call.output}_root")
    made = call.node("Div", x, root, output=f"{call.output}_row" if w else "")
    if w:
        call.node("Mul", made, w)


@aten("embedding.default")
def _embedding(call: Call) -> None:
    call.node("Gather", call.get("weight"), call.get("indices"))


@aten("hardtanh.default", "hardtanh_.default", "clamp.default", "relu6.default", "relu6_.default")
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


@aten("leaky_relu.default", "leaky_relu_.default")
def _leaky_relu(call: Call) -> None:
    call.node("LeakyRelu", call.get("self"), alpha=float(call.get("negative_slope", 0.01)))


@aten("gelu.default", "gelu_.default")
def _gelu(call: Call) -> None:
    call.node("Gelu", call.get("self"), approximate=call.get("approximate", "none"))


@aten("silu.default", "silu_.default")
def _silu(call: Call) -> None:
    gate = call.node("Sigmoid", call.get("self"), output=f"{call.output}_gate")
    call.node("Mul", call.get("self"), gate)
