"""Softmax and cross-entropy: the loss of a classifier, from its scores and the right classes.

    peak     = max x                                    of each row
    log_sum  = log(sum(exp(x - peak)))
    losses   = log_sum - (x(label) - peak)              0 where the label is ignore_index
    share    = 1 / (number of labels that count)        0 where there is none
    y        = share * sum(losses)
    dx       = dy * share * (exp(x - peak - log_sum) - [class = label])   0 where it does not count

x       scores (logits), (N, C, ...); rows run over the classes, axis 1 or `axis`
labels  the right class of each row, int32, the shape of x without that axis, and without extents
        of 1 behind it: (N,) of (N, C) and of (N, C, 1, 1), (N, L) of (N, C, L)
y       the loss of the batch: the mean of the losses of all rows whose labels count

Labels come from the data file, random or a user's own. dy is 1, times the loss scale, if no other
layer reads y. The first launch is that of softmax with algo "log", without its result.

Source: torch.nn.CrossEntropyLoss; SoftmaxWithLoss of Caffe. If no label counts, PyTorch's loss is
NaN, and this one 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Any, ClassVar

from simgen.ground.arrays import np
from simgen.ground.ir import Distribution, DType, Fill, Kernel, Launch, Pass, TensorSpec
from simgen.ground.numerics import rounding
from simgen.ground.numerics.rounding import SECOND_ORDER, TINY, U, accumulated
from simgen.layers import axes, elementwise
from simgen.layers.base import Lowering, Port, key
from simgen.layers.contract import Contract
from simgen.layers.indices import outside
from simgen.layers.loss import mean
from simgen.layers.loss.mean import ONE, Loss
from simgen.layers.reduction import BLOCK, FINALS
from simgen.layers.softmax import Softmax, SoftmaxAlgo
from simgen.layers.written import Places, Writes, cut_by, dense, writes, writes_all

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from simgen.ground.numerics.rounding import Array
    from simgen.layers.base import Tensors
    from simgen.layers.written import Values

KEPT = ("peak", "log_sum")  # values per row that the backward pass needs


@dataclass(frozen=True)
class CrossEntropy(Loss):
    kind = "cross_entropy"
    section = "CrossEntropy"
    from_data = "labels"
    data_parallel = True
    agreed: ClassVar[tuple[str, ...]] = ("y", "share")
    contract: ClassVar[Contract] = Contract(rounds=True)

    axis: int = key("axis", 1, "axis of the classes: 1, or another; -1 is the last")
    ignore_index: int = key(
        "ignore_index", -100, "label of rows that do not count, such as padding"
    )

    @property
    def rows(self) -> Softmax:
        """The softmax over the same rows."""
        return Softmax(algo=SoftmaxAlgo.LOG, axis=self.axis, machine=self.machine, types=self.types)

    def view(self, shape: tuple[int, ...]) -> tuple[int, int, int]:
        """(outer, classes, inner) of an (N, C, ...) shape."""
        if len(shape) < 2:
            raise ValueError(f"[{self.section}] takes scores (N, C, ...); give x two axes or more")
        axes.behind_batch("axis", self.axis, shape)  # the key has another name in a softmax
        return self.rows.view(shape)

    def labels(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of the labels of an (N, C, ...) shape."""
        self.view(shape)
        at = self.axis % len(shape)
        before, behind = shape[:at], shape[at + 1 :]
        return before if all(extent == 1 for extent in behind) else before + behind

    @property
    def summed(self) -> tuple[str, ...]:  # type: ignore[override]  # of the class in other layers
        return mean.TOTALS if self.gpus > 1 else ()

    def output(self, inputs: tuple[TensorSpec, ...]) -> TensorSpec:
        (x,) = inputs
        self.view(x.shape)
        return ONE

    def work(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[int, int]:
        """Per element max, subtract, exp, add; backward two subtractions, exp, another, multiply.
        Per row two subtractions, a logarithm, an addition; backward the label. At last 1 / count.
        """
        (x,) = inputs
        outer, _, inner = self.view(x.shape)
        rows = outer * inner
        if direction is Pass.FORWARD:
            return 3 * x.size + 3 * rows + 1, x.size + rows + 1
        return 4 * x.size, x.size

    def ports(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[Port, ...]:
        (x,) = inputs
        outer, classes, inner = self.view(x.shape)
        of_rows = TensorSpec(self.labels(x.shape))
        labels = Port(
            "labels",
            TensorSpec(of_rows.shape, DType.I32),
            Fill(Distribution.UNIFORM, 0.0, float(classes)),
        )
        # Around 100, exp overflows float32: what forgets to subtract the maximum gives NaN.
        scores = Port("x", x, Fill(Distribution.NORMAL, 100.0, 2.0))
        if direction is Pass.FORWARD:
            parts = TensorSpec((ceil(outer * inner / BLOCK),))
            kept = (Port(name, of_rows) for name in KEPT)
            results = (Port("losses", of_rows), Port("share", ONE), Port("y", ONE))
            sums = (Port(name, parts, scratch=True) for name in ("sums", "counts"))
            totals = (Port(name, ONE, scratch=True) for name in self.summed)
            return (scores, labels, *kept, *results, *sums, *totals)
        # About what a forward pass leaves of such scores.
        peak = Port("peak", of_rows, Fill(Distribution.UNIFORM, 102.0, 106.0))
        log_sum = Port("log_sum", of_rows, Fill(Distribution.UNIFORM, 0.5, 2.0))
        share = Port("share", ONE, Fill(Distribution.UNIFORM, 0.25, 1.0))
        return (scores, labels, peak, log_sum, share, mean.SEED, Port("dx", x))

    def lower(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Lowering:
        (x,) = inputs
        outer, classes, inner = self.view(x.shape)
        count = outer * inner
        tail = f"{outer}x{classes}x{inner}"
        ignored = f"i{self.ignore_index}".replace("-", "m")
        constants = (
            ("axis", classes),
            ("inner", inner),
            ("ignored", self.ignore_index),
            *elementwise.element(x.dtype),
        )
        suffix = elementwise.suffix(x.dtype)
        if direction is Pass.BACKWARD:
            name = f"{self.kind}_bwd_{tail}_{ignored}{suffix}"
            sizes = (
                ("size", x.size),
                ("vector", elementwise.VECTOR),
                ("with_narrow", int(x.dtype.is_narrow)),
            )
            kernel = Kernel(
                name, "cross_entropy_backward.hip", elementwise.BLOCK, (*constants, *sizes)
            )
            args = ("x", "labels", *KEPT, "share", "dy", "dx")
            return Lowering((kernel,), (Launch(name, elementwise.grid(x.size), args),))
        name = f"{self.kind}_rows_{tail}{suffix}"
        rows, grid = self.rows.kernel(name, x, direction, whole=False)
        each = Kernel(
            f"{self.kind}_{tail}_{ignored}{suffix}",
            "cross_entropy.hip",
            BLOCK,
            (*constants, ("rows", count), ("finals", FINALS)),
        )
        groups = ceil(count / BLOCK)
        launches = (
            Launch(rows.name, grid, ("x", *KEPT)),
            Launch(each.name, (groups, 1, 1), ("x", "labels", *KEPT, "losses", "sums", "counts")),
        )
        if self.gpus > 1:
            parts, at_parts = mean.share_of(self.kind, groups, None, ("sums", "counts"))
            return Lowering((rows, each, *parts), (*launches, *at_parts))
        last, at_last = mean.launch(self.kind, groups, None, ("sums", "counts", "y", "share"))
        return Lowering((rows, each, last), (*launches, at_last))

    def afterwards(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Lowering:
        if direction is Pass.BACKWARD:
            return super().afterwards(inputs, direction)
        return mean.of_totals(self.kind, None)

    def fault(self, given: Mapping[str, NDArray[Any]], inputs: tuple[TensorSpec, ...]) -> str:
        labels = given.get("labels")
        if labels is None:
            return ""
        (x,) = inputs
        _, classes, _ = self.view(x.shape)
        counted = np.where(labels == self.ignore_index, 0, labels)
        found = outside("labels", counted, 0, classes - 1)
        return f"{found}, or {self.ignore_index} for what does not count" if found else ""

    def reference(self, tensors: Tensors, direction: Pass) -> Tensors:
        x = self._rows(tensors["x"])
        known, counted = self._flat(tensors, direction), self._counted(tensors)
        labels = known["labels"].astype(np.int64)
        if direction is Pass.FORWARD:
            peak, log_sum = self._sums(x)
            right = np.take_along_axis(x, np.where(counted, labels, 0)[:, None], 1)[:, 0]
            losses = np.where(counted, log_sum - (right - peak), 0.0)
            share = np.array([1 / counted.sum() if counted.any() else 0.0])
            made = {"peak": peak, "log_sum": log_sum, "losses": losses}
            shape = tensors["labels"].shape
            found = {name: each.reshape(shape) for name, each in made.items()}
            return {**found, "share": share, "y": share * losses.sum()}
        p = np.exp(x - known["peak"][:, None] - known["log_sum"][:, None])
        rows = np.flatnonzero(counted)
        p[rows, labels[rows]] -= 1
        p[~counted] = 0
        return {"dx": self._back(p * tensors["dy"] * tensors["share"], tensors["x"].shape)}

    def tolerance(self, tensors: Tensors, direction: Pass) -> Tensors:
        x = self._rows(tensors["x"])
        known = self._flat(tensors, direction)
        made = self.reference(tensors, direction)
        if direction is Pass.BACKWARD:
            return self._backward_bound(x, known, tensors, made["dx"])
        peak, log_sum = (made[name].reshape(-1) for name in KEPT)
        d = rounding.lifted(x - peak[:, None])
        terms = np.exp(d)
        # Each exponential: the rounded subtraction moves its argument by U |d|. The sum has terms
        # of one sign.
        each = (terms * (rounding.exp(d) + U * np.abs(d))).sum(axis=1) / terms.sum(axis=1)
        depth = self.rows.mapped(tensors["x"].shape, direction).additions
        log_error = float(np.log(2)) * rounding.log2(terms.sum(axis=1)) + 2 * U * log_sum
        sums = (each + depth * U + log_error) * SECOND_ORDER + TINY
        losses = made["losses"].reshape(-1)
        counted = self._counted(tensors)
        right = log_sum - losses  # peak - x(label), but for its sign
        rounded = np.where(counted, sums + U * (np.abs(right) + np.abs(losses)) + TINY, 0.0)
        # The mean: sums of one sign in two steps, the reciprocal, and its product.
        summed = accumulated(mean.GROUP_SUM + mean.additions(ceil(len(losses) / BLOCK)))
        share, y = made["share"], made["y"]
        mean_error = share * (rounded.sum() + summed * np.abs(losses).sum())
        mean_error = mean_error + (rounding.RCP + 2 * U) * np.abs(y) + TINY
        shape = tensors["labels"].shape
        return {
            "peak": np.full(shape, TINY),
            "log_sum": sums.reshape(shape),
            "losses": (rounded * SECOND_ORDER).reshape(shape),
            "share": (rounding.RCP + U) * share + TINY,
            "y": mean_error * SECOND_ORDER,
        }

    def _backward_bound(self, x: Array, known: Tensors, tensors: Tensors, dx: Array) -> Tensors:
        peak, log_sum = known["peak"][:, None], known["log_sum"][:, None]
        d = rounding.lifted(x - peak)
        t = rounding.lifted(d - log_sum)
        p = np.exp(t)
        factor = np.abs(tensors["dy"] * tensors["share"])
        # Two subtractions move the exponent; then 1 is taken from p, and two products are rounded.
        moved = U * (np.abs(d) + np.abs(t)) + rounding.exp(t)
        bound = factor * (p * moved + U * (p + 1) + TINY)
        bound[~self._counted(tensors)] = 0
        back = self._back(bound * SECOND_ORDER, dx.shape)
        return {"dx": back + np.where(back > 0, 2 * U * np.abs(dx) + TINY, 0.0)}

    def _sums(self, x: Array) -> tuple[Array, Array]:
        """Maximum of each row, and the logarithm of the sum of its exponentials by that."""
        # fmax of a NaN and a number is the number
        peak = np.fmax.reduce(x, axis=1, initial=-np.inf)
        return peak, np.log(np.exp(x - peak[:, None]).sum(axis=1))

    def _flat(self, tensors: Tensors, direction: Pass) -> dict[str, Array]:
        """What there is of each row."""
        names = ("labels", *(KEPT if direction is Pass.BACKWARD else ()))
        return {name: tensors[name].reshape(-1) for name in names}

    def _counted(self, tensors: Tensors) -> NDArray[np.bool_]:
        """Which rows count."""
        counted: NDArray[np.bool_] = tensors["labels"].reshape(-1) != self.ignore_index
        return counted

    def _rows(self, x: Array) -> Array:
        """(rows, classes), rows in the order of the labels."""
        _, classes, _ = self.view(x.shape)
        rows: Array = np.moveaxis(x, self.axis, -1).reshape(-1, classes).astype(np.float64)
        return rows

    def _back(self, rows: Array, shape: tuple[int, ...]) -> Array:
        """The inverse of `_rows`."""
        at = self.axis % len(shape)
        moved = (*shape[:at], *shape[at + 1 :], shape[at])
        return np.ascontiguousarray(np.moveaxis(rows.reshape(moved), -1, at))


@writes("cross_entropy")
def _forward(c: Values, block: int) -> list[Writes]:
    groups = Places(ceil(c["rows"] / block))
    sums = [Writes(at, cut_by(groups), items=block) for at in (-1, -2)]
    return [dense(-3, c["rows"], 1, block), *sums]


writes_all("cross_entropy_backward")
