"""Topologies for SCALE-Sim: its systolic arrays do the products of a network.

A folder of two files, in the two forms that it reads, each with the layout (`-l`) that version 3
wants beside it, in the order of the axes:

    gemm.csv   every product, convolutions too (`-i gemm`): rows of the result, its columns, the sum
    conv.csv   forward convolutions (`-i conv`) of one image, padding counted in its extents

The whole batch is in gemm.csv. conv.csv lacks what SCALE-Sim's convolutions have no columns for:
dilation, two different strides, and groups, unless there is one for each channel; a name with "DP"
in it is a depthwise layer there, and no other one has that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from simgen.errors import UsageError
from simgen.frontend.operation import ConvOperation
from simgen.ground.ir import Pass, Step
from simgen.ground.storage.files import atomic_folder
from simgen.reports.exports import base, operators
from simgen.reports.exports.operators import title

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from simgen.reports.exports.base import Exported

GEMM = ("Layer", "M", "N", "K")
CONV = (
    "Layer name", "IFMAP Height", "IFMAP Width", "Filter Height", "Filter Width", "Channels",
    "Num Filter", "Strides",
)  # fmt: skip
DEPTHWISE = "DP"
FACTORS = ("IFMAP Height", "IFMAP Width", "Filter Height", "Filter Width", "Channel", "Num Filter")
IMAGE = ("IFMAP Height", "IFMAP Width", "Channel")
FILTER = ("Num Filter", "Channel", "Filter Height", "Filter Width")
LAYOUT = (
    "Layer name",
    *(f"{each} Intraline Factor" for each in FACTORS),
    *(f"{each} {kind}line Order" for kind in ("Intra", "Inter") for each in IMAGE),
    *(f"{each} {kind}line Order" for kind in ("Intra", "Inter") for each in FILTER),
)
ORDER = (3, 4, 5, 0, 1, 2, 4, 5, 6, 7, 0, 1, 2, 3)  # lines first, then what is in one


class ScaleSimTopology(base.Export):
    """A folder."""

    name: ClassVar[str] = "scale-sim"
    what: ClassVar[str] = "topologies of products and convolutions, for SCALE-Sim"
    reads_results: ClassVar[bool] = False

    def write(self, sources: Sequence[Exported], path: Path) -> list[str]:
        (source,) = sources
        workload = source.bundle.workload
        gemms: list[tuple[object, ...]] = []
        convolutions: list[tuple[object, ...]] = []
        without: list[str] = []
        passed_over: list[str] = []
        for step in workload.steps:
            found = operators.operation(workload, step)
            product = operators.product(found)
            if product is None:
                without.append(title(step))
                continue
            names = _names(step, product.count)
            gemms += [(name, product.m, product.n, product.k) for name in names]
            if isinstance(found, ConvOperation) and step.direction is Pass.FORWARD:
                line = _convolution(step, found)
                convolutions += [line] if line else []
                passed_over += [] if line else [title(step)]
        if not gemms:
            raise UsageError(
                f"{source.bundle.path}: no layer is a product or a convolution, and {self.option} "
                "is about these; choose another format"
            )
        with atomic_folder(path, new=True) as folder:
            for name, heads, rows in (("gemm", GEMM, gemms), ("conv", CONV, convolutions)):
                if rows:
                    (folder / f"{name}.csv").write_text(_csv(heads, rows))
                    layouts = [_layout(row) for row in rows]
                    (folder / f"{name}-layout.csv").write_text(_csv(LAYOUT, layouts))
        lines = [f"{path / 'gemm.csv'}: {len(gemms)} products"]
        if convolutions:
            lines.append(f"{path / 'conv.csv'}: {len(convolutions)} convolutions of one image")
        for what, names in (("no product", without), ("in gemm.csv only", passed_over)):
            if names:
                lines.append(f"{what}: {', '.join(names)}")
        return lines


def _names(step: Step, count: int) -> list[str]:
    """A name for each of the products of a step."""
    name = _plain(f"{step.layer}_{step.direction}")
    return [name] if count == 1 else [f"{name}_{at}" for at in range(count)]


def _plain(name: str) -> str:
    """A name that its reader takes for no depthwise layer's."""
    return name.replace(DEPTHWISE, DEPTHWISE.lower())


def _convolution(step: Step, of: ConvOperation) -> tuple[object, ...] | None:
    """The line of a convolution; None where the form has none for it."""
    depthwise = of.group == of.c == of.k
    if (of.dilation_h, of.dilation_w) != (1, 1) or of.stride_h != of.stride_w:
        return None
    if of.group > 1 and not depthwise:
        return None
    p, q = of.extents  # rows and columns that no filter meets are left out: it rounds up
    height = (p - 1) * of.stride_h + of.r
    width = (q - 1) * of.stride_w + of.s
    name = _plain(step.layer) + (f"_{DEPTHWISE}_" if depthwise else "")
    filters = 1 if depthwise else of.k
    return (name, height, width, of.r, of.s, of.c, filters, of.stride_h)


def _layout(row: Sequence[object]) -> tuple[object, ...]:
    """A layer's layout, an element a line; its reader counts depthwise channels here."""
    channels = row[CONV.index("Channels")] if DEPTHWISE in str(row[0]) else 1
    return (row[0], 1, 1, 1, 1, channels, 1, *ORDER)


def _csv(heads: Sequence[str], lines: Sequence[Sequence[object]]) -> str:
    """CSV text with a comma behind each line, whose last field its reader drops."""
    return "".join(f"{', '.join(str(each) for each in line)},\n" for line in (heads, *lines))
