"""The steps of a workload as the operators that other tools know: products and convolutions.

A convolution is the product that its GEMM-based algorithm does (K. Chellapilla, S. Puri, P. Simard,
"High performance convolutional neural networks for document processing", IWFHR 2006), of each
group: with N images of P x Q results, K filters and C R S taps

    fwd         (N P Q) x K      over C R S
    bwd_data    (N P Q) x C R S  over K
    bwd_weight  K x C R S        over N P Q
"""

from __future__ import annotations

from dataclasses import dataclass

from simgen.frontend import exporting
from simgen.frontend.network import make_layer
from simgen.frontend.operation import ConvOperation, GemmOperation, LibraryOperation
from simgen.ground.ir import Pass, Step, Workload


@dataclass(frozen=True)
class MatrixProduct:
    """`count` products of (m, k) by (k, n); m are rows of activations in a forward pass."""

    m: int
    n: int
    k: int
    count: int
    type: str  # type of the factors


def operation(workload: Workload, step: Step) -> LibraryOperation | None:
    """What a step does, as the operation of a library; None where no library has it."""
    node = workload.node(step.layer)
    layer = make_layer(node, workload.machine)
    found = exporting.of_layer(layer, node, layer.output(node.inputs), (step.direction,))
    return found[0] if len(found) == 1 else None


def product(found: LibraryOperation | None) -> MatrixProduct | None:
    """The product that an operation is; None of other operations."""
    if isinstance(found, GemmOperation):  # by columns: its result is the transposed one
        return MatrixProduct(found.n, found.m, found.k, found.batch, found.type)
    if isinstance(found, ConvOperation):
        p, q = found.extents
        pixels, filters = found.n * p * q, found.k // found.group
        taps = found.c // found.group * found.r * found.s
        extents = {
            Pass.FORWARD: (pixels, filters, taps),
            Pass.BACKWARD_DATA: (pixels, taps, filters),
            Pass.BACKWARD_WEIGHT: (filters, taps, pixels),
        }[found.passes[0]]
        return MatrixProduct(*extents, found.group, found.type)
    return None


def unsaid(workload: Workload, step: Step, found: LibraryOperation) -> str:
    """What the operation of a step does not say of it, as "key=value"; "" if it says all."""
    return exporting.unsaid(make_layer(workload.node(step.layer), workload.machine), found)


def title(step: Step) -> str:
    return f"{step.layer} {step.direction}"
