"""The launches of batch normalisation: which tensors each pass has, and which kernel has which.

Where a feature's elements fit into one work-group, a pass is one launch. Else there are three
stages: sums of chunks, what follows from them for each feature, and what follows from that for each
element. With running statistics, a forward pass is the last of these alone.

Narrow elements move by fours. Where a feature's do not lie so, there are three stages in any case:
the last one has four neighbours of the tensor in a work-item, whatever features they are of.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

from simgen.ground.ir import Constants, Kernel, Launch, Pass
from simgen.ground.numerics.rounding import float32, identifier
from simgen.layers import elementwise, reduction
from simgen.layers.base import Lowering
from simgen.layers.norm import written as written
from simgen.layers.reduction import BLOCK, FINALS, View

if TYPE_CHECKING:
    from simgen.ground.dtypes import DType

    Ports = tuple[str, ...]
    Made = tuple[Kernel, Launch]

EACH = 4  # elements of a work-item of the kernels that reduce nothing
RUNNING: Ports = ("running_mean", "running_var")
UPDATED: Ports = ("new_running_mean", "new_running_var")
SAVED: Ports = ("saved_mean", "saved_invstd")


def unbiased(elements: int) -> float:
    """M / (M - 1): what makes the unbiased variance of the mean square. 1 where M = 1."""
    return elements / max(elements - 1, 1)


@dataclass(frozen=True)
class Stages:
    """One pass over one tensor."""

    view: View
    direction: Pass
    factor: float  # update factor of the running statistics, a float32 value
    epsilon: float  # a float32 value
    frozen: bool  # the running statistics are used, and not those of the batch
    kept: bool  # forward leaves its statistics for backward
    element: DType  # element type of x, y and their gradients

    @property
    def forward(self) -> bool:
        return self.direction is Pass.FORWARD

    @property
    def chunks(self) -> int:
        return self.view.tiling().chunks

    @property
    def whole(self) -> bool:
        """Whether a work-group makes all of its features, and the pass is one launch."""
        tiling = self.view.tiling()
        by_fours = tiling.vector == elementwise.VECTOR or not self.element.is_narrow
        return tiling.chunks == 1 and by_fours

    @property
    def reads(self) -> Ports:
        """Ports that are read."""
        if self.forward:
            return ("x", "w", "b", *(RUNNING if self.frozen or self.factor < 1 else ()))
        given = RUNNING if self.frozen else SAVED if self.kept else ()
        return ("x", "dy", "w", *given)

    @property
    def writes(self) -> Ports:
        """Ports that are written."""
        if not self.forward:
            return ("dx", "dw", "db")
        return ("y",) if self.frozen else ("y", *(SAVED if self.kept else ()), *UPDATED)

    @property
    def workspaces(self) -> Ports:
        """Ports between kernels: results of chunks ("part" is in their names), and statistics that
        are not kept. A pass has its own, so that no two passes write one tensor."""
        if self.whole or (self.forward and self.frozen):
            return ()
        sums = () if self.forward else ("part_db", "part_dot")
        if self.frozen or (self.kept and not self.forward):
            return sums
        return (*sums, *self._moments, *(() if self.kept else self._statistics))

    @property
    def _moments(self) -> Ports:
        """The moments of each chunk."""
        again = "" if self.forward else "again_"
        return f"{again}part_mean", f"{again}part_squares"

    @property
    def _statistics(self) -> Ports:
        """Ports of mean and r; of the mean and the variance where statistics are running."""
        if self.frozen:
            return RUNNING
        if self.kept:
            return SAVED
        return ("mean", "invstd") if self.forward else ("again_mean", "again_invstd")

    @property
    def _after_variance(self) -> str:
        """Part of a kernel's name: r = 1 / sqrt(var + epsilon)."""
        return f"_e{identifier(self.epsilon)}"

    def _update(self, statistics: bool, update: bool) -> tuple[str, Constants]:
        """(part of a kernel's name, constants) of what follows from the variance.

        statistics: mean and r are kept. update: the running ones are renewed too.
        """
        name = self._after_variance + (f"_f{identifier(self.factor)}" if update else "")
        scale = self.factor * unbiased(self.view.elements)
        return name, (
            ("with_statistics", int(statistics)),
            ("with_update", int(update)),
            ("with_history", int(update and self.factor < 1)),
            ("epsilon", self.epsilon),
            ("factor", self.factor if update else 0.0),
            ("keep", float32(1.0 - self.factor) if update else 0.0),
            ("unbiased", float32(scale) if update else 0.0),
        )

    @property
    def _given(self) -> tuple[str, Constants]:
        """(part of a kernel's name, constants) of statistics that are given."""
        epsilon = self.epsilon if self.frozen else 0.0
        name = self._after_variance if self.frozen else ""
        return name, (("frozen", int(self.frozen)), ("epsilon", epsilon))

    def lower(self) -> Lowering:
        """Kernels and launches, in order."""
        if self.forward and self.frozen:
            made = [self._apply()]
        elif self.whole:
            made = [self._whole()]
        elif self.forward:
            made = [*self._chunk_moments(), self._apply()]
        else:
            again = not (self.frozen or self.kept)
            made = [*(self._chunk_moments() if again else ()), *self._chunk_sums(), self._apply()]
        return Lowering(tuple(kernel for kernel, _ in made), tuple(launch for _, launch in made))

    def _whole(self) -> Made:
        """A work-group has all elements of its features."""
        source = "running" if self.frozen else "saved" if self.kept else "batch"
        if self.forward:
            name, constants = self._update(statistics=self.kept, update=True)
        else:
            given = self.frozen or self.kept
            name = "" if source == "saved" else self._after_variance
            constants = (
                ("with_given", int(given)),
                ("frozen", int(self.frozen)),
                ("epsilon", 0.0 if source == "saved" else self.epsilon),
            )
        return self._tiles(
            f"bn_{self.direction}_{self.view}_{source}{name}",
            "batch_norm_forward.hip" if self.forward else "batch_norm_backward.hip",
            constants, self.reads, self.writes,
        )  # fmt: skip

    def _chunk_moments(self) -> list[Made]:
        """The statistics of the batch; in a forward pass, they update the running ones too."""
        name, constants = self._update(statistics=True, update=self.forward)
        history = RUNNING if self.forward and self.factor < 1 else ()
        moments = f"bn_moments_{self.view}"
        return [
            self._tiles(moments, "batch_norm_moments.hip", (), ("x",), self._moments),
            self._finish(
                f"bn_{self.direction}_moments_end_{self.view}{name}",
                "batch_norm_moments_end.hip",
                constants,
                (*self._moments, *history),
                (*self._statistics, *(UPDATED if self.forward else ())),
            ),
        ]

    def _chunk_sums(self) -> list[Made]:
        """The gradients of w and b."""
        parts = ("part_db", "part_dot")
        mean, r = self._statistics
        name, constants = self._given
        sums = f"bn_sums_{self.view}"
        return [
            self._tiles(sums, "batch_norm_sums.hip", (), ("x", "dy", mean), parts),
            self._finish(
                f"bn_sums_end_{self.view}{name}", "batch_norm_sums_end.hip", constants,
                (*parts, r), ("dw", "db"),
            ),
        ]  # fmt: skip

    def _apply(self) -> Made:
        """What a feature's statistics, and their gradients, make of its elements."""
        mean, r = self._statistics
        reads: Ports
        template, reads = "batch_norm_apply.hip", ("x", mean, r, "w", "b")
        if not self.forward and self.frozen:
            template, reads = "batch_norm_apply_frozen.hip", ("dy", r, "w")
        elif not self.forward:
            template = "batch_norm_apply_backward.hip"
            reads = ("x", "dy", mean, r, "w", "dw", "db")
        name, constants = self._given
        if template == "batch_norm_apply_backward.hip":
            constants = ()
        name = f"bn_{self.direction}_apply_{self.view}{name}"
        size = self.view.features * self.view.elements
        constants = (
            *constants,
            ("size", size),
            ("inner", self.view.inner),
            ("elements", self.view.elements),
            ("each", EACH),
            *elementwise.element(self.element),
        )
        name += elementwise.suffix(self.element)
        grid = ceil(size / (BLOCK * EACH))
        writes = ("y",) if self.forward else ("dx",)
        return self._made(name, template, grid, constants, reads, writes)

    def _tiles(
        self, name: str, template: str, constants: Constants, reads: Ports, writes: Ports
    ) -> Made:
        """The kernel that has a tile of x, and in a backward pass of dy, in registers."""
        tiling = self.view.tiling()
        constants = (
            *constants,
            ("inner", self.view.inner),
            ("elements", tiling.elements),
            ("lanes", tiling.lanes),
            ("slices", tiling.slices),
            ("vector", tiling.vector),
            ("held", tiling.held),
            ("chunks", tiling.chunks),
            ("last", tiling.last),
            ("finals", FINALS),
            *elementwise.element(self.element),
        )
        name += elementwise.suffix(self.element)
        grid = tiling.groups(self.view.features)
        return self._made(name, template, grid, constants, reads, writes)

    def _finish(
        self, name: str, template: str, constants: Constants, reads: Ports, writes: Ports
    ) -> Made:
        """The kernel that combines what chunks have left."""
        tiling = self.view.tiling()
        ends = reduction.finishing(tiling.chunks)
        constants = (
            *constants,
            ("elements", tiling.elements),
            ("chunks", tiling.chunks),
            ("tile", tiling.tile),
            ("last", tiling.last),
            ("lanes", ends.lanes),
            ("slices", ends.slices),
            ("finals", FINALS),
        )
        grid = ends.groups(self.view.features)
        return self._made(name, template, grid, constants, reads, writes)

    def _made(
        self, name: str, template: str, grid: int, constants: Constants, reads: Ports, writes: Ports
    ) -> Made:
        kernel = Kernel(name, template, BLOCK, (("features", self.view.features), *constants))
        return kernel, Launch(name, (grid, 1, 1), (*reads, *writes))
