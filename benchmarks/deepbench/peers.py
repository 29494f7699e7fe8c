"""What PyTorch's libraries do of an operation: cuBLAS, cuDNN and cuSPARSE, on the same tensors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import recurrent_peer

from simgen.frontend.network import make_layer
from simgen.ground.ir import Pass

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from simgen.ground.ir import Workload

TYPES = {
    "f64": "float64",
    "f32": "float32",
    "f16": "float16",
    "bf16": "bfloat16",
    "i32": "int32",
    "i8": "int8",
}
NEAR = 0.25  # of a whole number: what is not summed up exactly, and lies nearest to it
SHARE = 2**27  # elements that are compared at a time


@dataclass(frozen=True)
class Peer:
    work: Callable[[], object] | None  # what is timed; None: the library does not do it
    # What the pass writes, in float64, by port; None: its sums are exact for no values, so that
    # results are judged by the layer's own bounds.
    truth: Callable[[], Mapping[str, Any]] | None
    less: Callable[[], object] | None = None  # part of the work that is not of the pass


def dtype(torch: Any, name: str) -> Any:
    return getattr(torch, TYPES[name])


def of(torch: Any, workload: Workload, tensors: Mapping[str, Any]) -> Peer | None:
    """The library's side of a workload of one step; None where there is none."""
    (step,) = workload.steps
    node = workload.node(step.layer)
    if node.kind not in KINDS:
        return None
    ports = {port: tensors[name] for port, name in (*step.reads, *step.writes)}
    return KINDS[node.kind](torch, make_layer(node, workload.machine), step.direction, ports)


def gemm(torch: Any, layer: Any, direction: Pass, t: Mapping[str, Any]) -> Peer | None:
    """cuBLAS adds to c in place: the sum of many rounds stands there, and takes as long. Of 8-bit
    integers PyTorch has the product alone, without c, and of some sizes."""
    if direction is not Pass.FORWARD or t["a"].dim() != 2:
        return None
    a = t["a"].mT if layer.transa else t["a"]
    b = t["b"].mT if layer.transb else t["b"]
    added = "c" in t

    def truth() -> Mapping[str, Any]:
        y = layer.alpha * (a.double() @ b.double())
        return {"y": y + layer.beta * t["c"].double() if added else y}

    if not t["a"].is_floating_point():  # no c there
        return Peer(lambda: torch._int_mm(a, b), truth)
    into = torch.zeros_like(t["y"])

    def work() -> object:
        if added:
            return into.addmm_(a, b, alpha=layer.alpha, beta=layer.beta)
        return torch.mm(a, b, out=into)

    return Peer(work, truth)


def conv(torch: Any, layer: Any, direction: Pass, t: Mapping[str, Any]) -> Peer | None:
    if str(layer.mode) != "cross_correlation" or layer.bias:
        return None
    stride, pad = [layer.stride_h, layer.stride_w], [layer.pad_h, layer.pad_w]
    dilation = [layer.dilation_h, layer.dilation_w]
    gradient = torch.ops.aten.convolution_backward
    of_data = direction is Pass.BACKWARD_DATA
    first, second = {
        Pass.FORWARD: ("x", "w"),
        Pass.BACKWARD_DATA: ("dy", "w"),
        Pass.BACKWARD_WEIGHT: ("dy", "x"),
    }[direction]
    written = {Pass.FORWARD: "y", Pass.BACKWARD_DATA: "dx"}.get(direction, "dw")

    def operation(left: Any, right: Any) -> Any:
        if direction is Pass.FORWARD:
            return torch.conv2d(left, right, None, stride, pad, dilation, layer.group)
        # The tensor whose gradient is computed is given for its shape.
        shaped = torch.empty_like(t[written], dtype=left.dtype)
        x, w = (shaped, right) if of_data else (right, shaped)
        mask = [of_data, not of_data, False]
        made = gradient(left, x, w, None, stride, pad, dilation, False, [0, 0], layer.group, mask)
        return made[0 if of_data else 1]

    def truth() -> Mapping[str, Any]:
        with torch.backends.cudnn.flags(enabled=True, benchmark=False, allow_tf32=False):
            return {written: operation(t[first].double(), t[second].double())}

    whole = not t[first].is_floating_point()  # PyTorch has no such convolution
    return Peer(None if whole else lambda: operation(t[first], t[second]), truth)


def sparse_gemm(torch: Any, layer: Any, direction: Pass, t: Mapping[str, Any]) -> Peer:
    """cuSPARSE, on the same compressed rows."""
    b, shape = t["b"], (len(t["rows"]) - 1, len(t["b"]))

    def matrix(values: Any) -> Any:
        return torch.sparse_csr_tensor(t["rows"], t["columns"], values, shape)

    def truth() -> Mapping[str, Any]:
        return {"y": matrix(t["values"].double()).to_dense() @ b.double()}

    a = matrix(t["values"])  # of the values in their place, now and later
    return Peer(lambda: torch.mm(a, b), truth)


def recurrent(torch: Any, layer: Any, direction: Pass, t: Mapping[str, Any]) -> Peer:
    """cuDNN, which PyTorch lets multiply the input with weights in any case."""
    work, less = None, None
    if not layer.skips:
        work, less = recurrent_peer.library(torch, layer, direction, t)
    return Peer(work, None, less)


KINDS: dict[str, Callable[[Any, Any, Pass, Mapping[str, Any]], Peer | None]] = {
    "gemm": gemm,
    "conv": conv,
    "sparse_gemm": sparse_gemm,
    "recurrent": recurrent,
}


def different(torch: Any, ours: Any, truth: Any, *, exact: bool) -> int:
    """Elements that are not what they must be: `truth` has whole numbers, in float64."""
    wrong = 0
    pairs = (each.reshape(-1).split(SHARE) for each in (ours, truth))
    for mine, whole in zip(*pairs, strict=True):
        if exact or not mine.is_floating_point():
            right = mine == whole.to(mine.dtype)
        else:
            rounded = torch.finfo(mine.dtype).eps / 2
            right = (mine.double() - whole).abs() <= NEAR + rounded * whole.abs()
        wrong += int((~right).sum())
    return wrong
