"""The layers of a network as operations of libraries, where these have them."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from simgen.errors import UsageError
from simgen.frontend.config import Place
from simgen.frontend.drivers import table
from simgen.frontend.operation import (
    TYPES,
    AllReduceOperation,
    Cell,
    ConvOperation,
    FilterMode,
    GemmOperation,
    LibraryOperation,
    RnnOperation,
    SparseOperation,
)
from simgen.layers.all_reduce import AllReduce
from simgen.layers.conv.convolution import ConvMode, Convolution
from simgen.layers.product.fully_connected import FullyConnected
from simgen.layers.product.gemm import Gemm
from simgen.layers.recurrent.recurrent import Recurrent
from simgen.layers.sparse.sparse_gemm import SparseGemm

# Keys of extents and types, which operations have in their own words, and of what they leave out.
ELSEWHERE = (
    *("m", "n", "k", "batch", "type", "num_output", "axis", "bias", "hidden_size", "propagation"),
    *("sparsity", "nonzeros"),
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simgen.frontend.network import Network, Placed
    from simgen.ground.ir import Node, Pass, TensorSpec
    from simgen.layers.base import Layer


def lines(network: Network, passes: Sequence[Pass], form: str) -> tuple[list[str], dict[str, str]]:
    """The lines of all layers in one of `table.FORMS`, in order; what has none, with the reason.

    Raises:
        UsageError: no layer has a line in this form.
    """
    found: list[str] = []
    without: dict[str, str] = {}
    for placed in network.layers:
        try:
            made = operations(placed, passes)
            key = unsaid(placed.layer, made[0]) if made else ""
            if made and not key:
                found += [line for each in made for line in table.lines(form, each)]
            else:
                section = f"[{placed.layer.section}]"
                without[placed.node.name] = f"{section} with {key}" if key else section
        except UsageError as error:
            without[placed.node.name] = str(error).partition(": ")[2].partition(";")[0]
    if not found:
        why = next(iter(without.values()))
        raise UsageError(f"--as {form}: no layer here has such a line ({why}); choose another form")
    return found, without


def operations(placed: Placed, passes: Sequence[Pass]) -> list[LibraryOperation]:
    """What a layer does in these passes, as operations of a library; none where that has none.

    Of a fully connected layer, they are its products, without the bias.
    """
    directions = tuple(part for each in passes for part in placed.layer.steps(each))
    return of_layer(placed.layer, placed.node, placed.output, directions)


def of_layer(
    layer: Layer, node: Node, output: TensorSpec, directions: tuple[Pass, ...]
) -> list[LibraryOperation]:
    """The same of a layer that stands for a node, in passes of its own; `output` is its y."""
    dtype = str((node.inputs or (output,))[0].dtype)
    if isinstance(layer, Gemm) and not node.inputs:  # its result may be of another type
        dtype = str(layer.type)
    if not directions or dtype not in TYPES:
        return []
    if type(layer) is Gemm and directions == layer.steps(layer.passes[0]):
        return [_gemm(layer, node, output, dtype)]
    if type(layer) is FullyConnected:
        products = [layer.product(node.inputs[0], each) for each in directions]
        return [
            GemmOperation(p.n, p.m, p.k, p.b_transposed, p.a_transposed, type=dtype)
            for p in products  # by rows
        ]
    if type(layer) is Convolution and layer.mode is not ConvMode.TRANSPOSE:
        return [_conv(layer, node, directions, dtype)]
    if type(layer) is Recurrent and not layer.reverse:
        return [_rnn(layer, node, directions, dtype)]
    if type(layer) is SparseGemm:
        plan = layer.plan(node.inputs)
        stored = plan.nonzeros / (plan.m * plan.k)
        sparsity = 1 - stored if layer.nonzeros else layer.sparsity
        return [SparseOperation(plan.m, plan.n, plan.k, sparsity, plan.side, type=dtype)]
    if type(layer) is AllReduce:
        ranks, *extents = node.inputs[0].shape
        return [AllReduceOperation(prod(extents), ranks, layer.route, dtype)]
    return []


def unsaid(layer: Layer, made: LibraryOperation) -> str:
    """The first key of a layer that its operation does not say, with its value; "" if it says all.

    Hints are ways to the same result. Of a fully connected layer, products leave the bias out.
    """
    entries = [] if type(layer) is FullyConnected else made.section(Place("", 0)).entries
    keys = layer.config_keys()
    given = [(each.key, each.value, each.where) for each in entries if each.key in keys]
    alike = type(layer).from_config(given, layer.machine)
    for each in type(layer).keyed_fields():
        key, value = each.metadata["keys"][0], getattr(layer, each.name)
        if not (each.metadata["hint"] or key in ELSEWHERE) and value != getattr(alike, each.name):
            return f"{key}={str(value).lower()}"
    first, *others = layer.types or (None,)
    for at, dtype in enumerate(others):
        if dtype is not (first.product if first and at else first):
            return f"inputs of {', '.join(map(str, layer.types))}"
    return ""


def _gemm(layer: Gemm, node: Node, output: TensorSpec, dtype: str) -> GemmOperation:
    *batch, n, m = output.shape  # by columns
    k = node.inputs[0].shape[-2 if layer.transa else -1] if node.inputs else layer.k
    ta, tb = layer.transb, layer.transa
    return GemmOperation(m, n, k, ta, tb, prod(batch), layer.alpha, layer.beta, dtype)


def _conv(
    layer: Convolution, node: Node, directions: tuple[Pass, ...], dtype: str
) -> ConvOperation:
    n, c, h, w = node.inputs[0].shape
    turned = layer.mode is ConvMode.CONVOLUTION
    return ConvOperation(
        n=n,
        c=c,
        h=h,
        w=w,
        k=layer.num_output,
        r=layer.kernel_h,
        s=layer.kernel_w,
        pad_h=layer.pad_h,
        pad_w=layer.pad_w,
        stride_h=layer.stride_h,
        stride_w=layer.stride_w,
        dilation_h=layer.dilation_h,
        dilation_w=layer.dilation_w,
        group=layer.group,
        mode=FilterMode.CONV if turned else FilterMode.CROSS,
        bias=layer.bias,
        layout=layer.layout,
        filter_layout=layer.filter_layout,
        passes=tuple(each for each in ConvOperation.PASSES if each in directions),
        type=dtype,
    )


def _rnn(layer: Recurrent, node: Node, directions: tuple[Pass, ...], dtype: str) -> RnnOperation:
    unrolled = layer.unrolled(node.inputs[0])
    return RnnOperation(
        cell=next(each for each in Cell if each.of_layer is layer.cell),
        hidden=unrolled.hidden,
        batch=unrolled.batch,
        steps=unrolled.steps,
        features=0 if unrolled.features == unrolled.hidden else unrolled.features,
        input=layer.input_mode,
        bias=layer.bias,
        passes=tuple(each for each in RnnOperation.PASSES if each in directions),
        type=dtype,
    )
