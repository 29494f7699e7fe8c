"""ATen operators as operators of ONNX."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import onnx

EPSILON = 2.0**-23  # of rms_norm without one: that of float32
DOMAIN = "torch"  # of what has no operator of ONNX here
OPERATORS: dict[str, Callable[[Call], None]] = {}


class Call:
    """A call of the graph where it is translated, with the nodes that are made so far."""

    def __init__(self, nodes: list[onnx.NodeProto], sizes: Mapping[str, list[int | str]]) -> None:
        self.nodes, self.sizes = nodes, sizes
        self.tensors: list[onnx.TensorProto] = []
        self.target, self.output = "", ""
        self.arguments: dict[str, Any] = {}

    def read(self, node: Any) -> None:
        self.target = str(node["target"]).removeprefix("torch.ops.aten.")
        outputs = (each["as_tensor"]["name"] for each in node["outputs"] if "as_tensor" in each)
        self.output = str(next(outputs))
        self.arguments = {each["name"]: _plain(each["arg"]) for each in node["inputs"]}

    def get(self, name: str, usual: Any = None) -> Any:
        found = self.arguments.get(name)
        return usual if found is None else found

    def node(self, kind: str, *inputs: str, output: str = "", **attributes: Any) -> str:
        from onnx import helper

        name = output or self.output
        self.nodes.append(helper.make_node(kind, list(inputs), [name], name, **attributes))
        return name

    def unknown(self) -> None:
        inputs = [each for each in self.arguments.values() if isinstance(each, str)]
        self.node(f"aten.{self.target}", *inputs, domain=DOMAIN)

    def tensor(self, values: list[int] | list[float], shape: list[int], suffix: str) -> str:
        """A tensor of the model with these values."""
        from onnx import helper

        element = 7 if all(isinstance(each, int) for each in values) else 1
        name = f"{self.output}_{suffix}"
        self.tensors.append(helper.make_tensor(name, element, shape, values))
        return name

    def operand(self, name: str) -> str:
        """A tensor, or a number as one."""
        found = self.arguments[name]
        return found if isinstance(found, str) else self.tensor([float(found)], [], name)


def _plain(arg: Any) -> Any:
    """An argument: the name of a tensor, names of several, numbers, or None."""
    ((kind, value),) = arg.items()
    if kind == "as_tensor":
        return str(value["name"])
    if kind == "as_tensors":
        return [str(each["name"]) for each in value]
    return None if kind == "as_none" else value


def aten(*targets: str) -> Callable[[Callable[[Call], None]], Callable[[Call], None]]:
    def declare(made: Callable[[Call], None]) -> Callable[[Call], None]:
        OPERATORS.update(dict.fromkeys(targets, made))
        return made

    return declare


def _pair(values: Any) -> list[int]:
    return [int(each) for each in (values * 2 if len(values) == 1 else values)]


PLAIN = {"relu": "Relu", "sigmoid": "Sigmoid", "tanh": "Tanh", "hardswish": "HardSwish"}
SAME = ("dropout", "contiguous", "clone", "detach", "alias", "dropout_", "feature_dropout")
BINARY = {"add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div"}
VIEWS = ("view", "reshape", "_unsafe_view", "unsqueeze", "squeeze", "flatten")


@aten(*(f"{name}{end}.default" for name in PLAIN for end in ("", "_")))
def _unary(call: Call) -> None:
    name = call.target.partition(".")[0].removesuffix("_")
    call.node(PLAIN[name], next(iter(call.arguments.values())))


@aten(*(f"{name}.default" for name in SAME))
def _identity(call: Call) -> None:
    if call.get("train"):
        call.unknown()
    else:
        call.node("Identity", next(iter(call.arguments.values())))


@aten(*(f"{name}{end}.Tensor" for name in BINARY for end in ("", "_")))
def _binary(call: Call) -> None:
    if call.get("alpha", 1) != 1:
        call.unknown()
        return
    name = call.target.partition(".")[0].removesuffix("_")
    call.node(BINARY[name], call.operand("self"), call.operand("other"))


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


@aten(*(f"{name}.{form}" for name in VIEWS for form in ("default", "using_ints", "dim", "dims")))
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


@aten("permute.default", "transpose.int")
def _permute(call: Call) -> None:
    order = list(range(len(call.sizes[call.get("self")])))
    if call.target.startswith("permute"):
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
