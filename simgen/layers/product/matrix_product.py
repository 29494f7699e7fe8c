"""A matrix product as kernels: what the layers gemm and fully connected are made of.

    y (m, n) = alpha * sum over k of A(m, k) B(k, n)  [+ beta c(m, n)]  [+ bias(n)]  [epilogue]

A lies in memory as (m, k) or, transposed, as (k, m); B as (k, n) or (n, k); all of them by rows. Of
a batch, matrices lie one behind the other; it has tiles, and neither bias nor epilogue.

Products of many rows and columns are computed in tiles (tile.py). Where one side is short, reading
the other matrix is all of the work, and a kernel of its own reads it once. Either may cut k into
chunks: then the kernel leaves one partial sum for each chunk, and a second kernel adds them in
order. So there are no atomics, and results are the same on every run.

Matrices have types of their own (elements.py). Elements of narrow types are stored by fours; where
rows do not lie so, and no second kernel follows, the result is float32, which another launch rounds
(simgen/layers/conversion.py).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product as choices_of
from math import ceil, inf, prod, sqrt
from typing import TYPE_CHECKING, TypedDict

from simgen.ground.arrays import np
from simgen.ground.dtypes import TOGETHER, DType
from simgen.ground.ir import Constants, Kernel, Launch, Pass, TensorMap, TensorSpec
from simgen.ground.machine import Machine, fitted
from simgen.ground.numerics.rounding import SECOND_ORDER, TINY, U, identifier
from simgen.ground.numerics.spread import Walk, correlated, order, repeats, stages
from simgen.layers.base import CHUNKS, Choice
from simgen.layers.epilogue import NOTHING, Epilogue
from simgen.layers.product import fragment, padding, tile
from simgen.layers.product import written as written
from simgen.layers.product.elements import Elements, constant, name_of

if TYPE_CHECKING:
    from simgen.ground.numerics.rounding import Array
    from simgen.layers.product.padding import CopiedRows

FACTORS = {  # what a pass writes, and the tensors that it multiplies
    Pass.FORWARD: ("y", "x", "w"),
    Pass.BACKWARD_DATA: ("dx", "dy", "w"),
    Pass.BACKWARD_WEIGHT: ("dw", "dy", "x"),
}
BLOCK = 256  # work-items, where there are no tiles
SHORT = 8  # the longest short side
LONG = 2**16  # k from which more chunks are used; with fewer, each would be long
LONG_SPLITS = 256  # chunks of it, at most, where one side is short
LEAST_DEPTH = 64  # minimum k for a kernel of short sides: below, there is nothing to share
# maximum results of a work-item where rows lie along k: each needs BLOCK floats of LDS
RESULTS = 16
GROUPS_OF_UNIT = 2  # work-groups for each compute unit, that fill a GPU
STRIDE = 64  # products between the sums that a bound is made of
PANEL = 2**20  # results that a bound is computed for at a time: they stay in the CPU's cache
UNALIGNED = tuple(each for each in tile.TILES if each.rows * each.columns < 128 * 128)
LARGEST = 2**30  # elements of a matrix: offsets in a tile are bytes in 32 bits
# maximum products in a batch: they times their chunks are the z of a launch
MOST_PRODUCTS = 0xFFFF // tile.SPLITS

Call = tuple[tuple[Kernel, ...], tuple[Launch, ...]]
Sides = tuple[bool, ...]  # one of each factor
NONE: Sides = (False, False)
SIDES = ("left", "right")


class _Costs(TypedDict):
    machine: Machine
    tiles: tuple[tile.Tile, ...]
    nbytes: tuple[int, int, int]
    rows: tuple[float, float]


@dataclass(frozen=True)
class Product:
    """Extents, layout and what is added."""

    m: int
    n: int
    k: int
    a_transposed: bool = False
    b_transposed: bool = False
    alpha: float = 1.0  # a float32 number, as beta
    beta: float = 0.0
    bias: bool = False
    epilogue: Epilogue = NOTHING  # what is done to the results; their columns are its channels
    batch: int = 1  # products
    elements: Elements = Elements()
    # machine that they are planned for
    machine: Machine = field(default_factory=fitted, repr=False)

    def check(self) -> None:
        """Raises:
        ValueError: a matrix is too large for the kernels' offsets, a batch for a launch, or the
            machine too small.
        """
        if self.batch > MOST_PRODUCTS:
            raise ValueError(f"a batch of {self.batch} is larger than {MOST_PRODUCTS}; cut it")
        largest = max(self.m * self.k, self.k * self.n, self.m * self.n)
        if largest > LARGEST:
            raise ValueError(
                f"a matrix of {largest} elements is larger than {LARGEST}; make it smaller"
            )
        _ = self.chunks

    @property
    def short(self) -> bool:
        """Whether one side is so short that it has the kernel for that."""
        least = (
            self.m if self.elements.group else min(self.m, self.n)
        )  # groups are of the long side
        short = self.batch == 1 and least <= SHORT and self.k >= LEAST_DEPTH
        return short and not self._staged_instead(least)

    def _staged_instead(self, least: int) -> bool:
        """Whether matrix instructions read the long side as fast: of 16-bit floats, from tiles that
        wait in LDS. One row is no product of theirs, unless k is so long that chunks are many."""
        if self.elements.mixed or self.elements.left.nbytes != 2 or not self._factors:
            return False
        few = 1 if self.k >= LONG else 2
        staged = fragment.staged(self.machine, self._factors, *self._lying(NONE))
        return bool(staged) and least >= few and self.machine.is_nvidia

    @property
    def chunks(self) -> tuple[int, int]:
        """(length of a chunk of k, number of chunks)."""
        if not self.short:
            found = self._cut
            return found.chunk, found.splits
        groups = ceil(max(self.m, self.n) / self._results_of_a_group)
        least = 1024 if self._along_k else 128  # minimum k worth a work-group
        of_unit = GROUPS_OF_UNIT if self._along_k else 3 * GROUPS_OF_UNIT  # columns: fewer loads
        fill = of_unit * self.machine.units
        most = LONG_SPLITS if self.k >= LONG else tile.SPLITS
        wanted = max(1, min(fill // groups, self.k // least, most))
        chunk = ceil(ceil(self.k / wanted) / 64) * 64
        return (chunk, ceil(self.k / chunk)) if wanted > 1 and chunk < self.k else (self.k, 1)

    @property
    def whole(self) -> bool:
        """Whether all are integers, which nothing rounds."""
        return not self.elements.total.is_float

    @property
    def stores(self) -> bool:
        """Whether the kernels store the result's type; if not, they leave float32."""
        return self.whole or self.chunks[1] > 1 or self._by_fours

    @property
    def _sums_follow(self) -> bool:
        """Whether a second kernel adds partial sums, or stores integers by fours."""
        return self.chunks[1] > 1 or (self.whole and not self._by_fours)

    @property
    def _by_fours(self) -> bool:
        """Whether the first kernel can store the result's type."""
        if not self.elements.result.is_narrow:
            return True
        if not self.short and self._cut.tile.stages and self.elements.result.nbytes == 2:
            return True  # one by one
        by_rows = not self.short or (not self._along_k and (self._few_rows or self.n == 1))
        return by_rows and self.n % TOGETHER == 0

    @property
    def _stored(self) -> DType:
        """The type of what the kernels leave at last."""
        return self.elements.result if self.stores else DType.F32

    @property
    def choices(self) -> tuple[Choice, ...]:
        """What is planned."""
        if not self.short:
            sides = self.m, self.n, self.k, self.batch
            told = tile.explain_cut(*sides, **self._costs(self._sides))
            matrix = fragment.explain_matrix(self.machine, self._factors, self._cut.tile)
            result = {"y": self.copied} if self.copied else {}
            factors = {
                {"left": "a", "right": "b"}[side]: each for side, each in self.padded.items()
            }
            return (*matrix, *padding.explain({**factors, **result}), *told)
        side = "row" if self._few_rows else "column"
        kernel = Choice(
            "kernel", f"few {side}s", "reading the other matrix once is all of the work"
        )
        chunk, splits = self.chunks
        if splits == 1:
            return (kernel,)
        groups = ceil(max(self.m, self.n) / self._results_of_a_group)
        why = f"{groups} work-groups would leave some of {self.machine.units} units idle"
        return (kernel, Choice(CHUNKS, f"{splits} of {chunk}", why))

    @property
    def tiled(self) -> tuple[int, int, int]:
        """Extents of a tile along m, n and k; 0 where there is none, along the short side."""
        if not self.short:
            found = self._cut.tile
            return found.rows, found.columns, found.depth
        each = self._results_of_a_group
        return (0, each, LEAST_DEPTH) if self._few_rows else (each, 0, LEAST_DEPTH)

    def workspaces(self, partial: str = "partial") -> dict[str, TensorSpec]:
        """Port -> its tensor: partial sums, (chunks, m, n) or (chunks, batch, m, n), where k is
        cut, and what has its rows copied."""
        _, splits = self.chunks
        batch = (self.batch,) if self.batch > 1 else ()
        shape = (splits, *batch, self.m, self.n)
        made = {partial: TensorSpec(shape, self.elements.total)} if self._sums_follow else {}
        made |= {_rows(partial, side): each.spec for side, each in self.padded.items()}
        if self.copied:
            whole = replace(self.copied, pitch=self.copied.extent)
            made[_rows(partial, "result")] = whole.spec
        return made

    def lower(
        self,
        prefix: str,
        a: str,
        b: str,
        added: str | None,
        y: str,
        partial: str = "partial",
        scales: tuple[str, ...] = (),
    ) -> Call:
        """Kernels, whose names begin with `prefix`, and launches.

        `a`, `b`, `y`, `added` (c or the bias), `partial` (the workspace) and `scales` (of groups of
        b) are names of ports.
        """
        _, splits = self.chunks
        alone = not self._sums_follow
        target = y if alone else partial
        after = (*((added,) if added else ()), *self.epilogue.ports)
        extra = after if alone else ()
        kernel, grid = (self._short if self.short else self._tiled)(prefix)
        kernels, launches = [kernel], []
        factors = {"left": a, "right": b}
        if self.padded:
            made = {side: _rows(partial, side) for side in self.padded}
            reads = tuple(factors[side] for side in made)
            first, copy = padding.lower(prefix, (*self.padded.values(),), reads, (*made.values(),))
            kernels.insert(0, first)
            launches.append(copy)
            factors |= made
        if self.copied:
            last, copy = padding.lower(prefix, (self.copied,), (_rows(partial, "result"),), (y,))
            target = _rows(partial, "result")
            kernels.append(last)
        launches.append(Launch(kernel.name, grid, (*factors.values(), *scales, *extra, target)))
        if self.copied:
            launches.append(copy)
        if alone:
            return tuple(kernels), tuple(launches)
        second, grid = sum_of(
            self.machine,
            prefix,
            splits,
            self.batch * self.m * self.n,
            self._scales,
            self.n if self.bias else 0,
            Channels(self.epilogue, self.n),
            of=self.elements.total,
            added=self.elements.added,
            result=self.elements.result,
        )
        args = (partial, *after, y)
        return (*kernels, second), (*launches, Launch(second.name, grid, args))

    def bound(self, a: Array, b: Array, y: Array, columns: Array | float = 1.0) -> Array:
        """Bound on the error of each result: of op(A) (m, k), op(B) (k, n) and y in float64.
        `columns` are factors that sums of columns have beside alpha.

        A fused multiply-add that gives the sum s rounds by U |s| at most, and so does an addition:
        all errors of a result are below U times the sum of what |s| was on its way. Higham,
        "Accuracy and Stability of Numerical Algorithms", 2002, section 3.3: running error analysis.
        """
        if self.whole:
            return np.zeros_like(y)
        bound = np.empty_like(y)
        weights = np.abs(b)
        panel = max(1, PANEL // self.n)
        for start in range(0, self.m, panel):
            rows = a[start : start + panel]
            found = self._short_sums(rows, weights) if self.short else self._sums(rows, b, weights)
            bound[start : start + panel] = found
            if self._by_matrix:
                more = fragment.lost(np.abs(rows), weights, self.elements.left, self.machine)
                bound[start : start + panel] += more / U
        # The second order: |s| itself is in error by as much. Then alpha rounds, and adding c or b.
        bound *= np.abs(self.alpha * columns) * (1 + 2 * U) * U / (1 - (self._roundings + 3) * U)
        bound += 2 * U * np.abs(y) + (self._roundings + 4) * TINY
        return bound

    def _sums(self, a: Array, b: Array, weights: Array) -> Array:
        """At least the sum of |s| over all additions, where k goes in order within a chunk.

        After `i` products of a block of k, |s| is at most that at the start of the block plus the
        absolute values of those products. Matrix instructions add in another order within blocks
        of their own, and may round the products (simgen/layers/product/fragment.py).
        """
        mixed = 1 if self.short else self._cut.tile.unordered
        chunk, _ = self.chunks
        counts = np.empty(self.k)  # how many sums of its block a product takes part in
        total: Array = np.zeros((len(a), self.n))
        result = np.zeros_like(total)  # result of the second kernel
        for first in range(0, self.k, chunk):
            last = min(first + chunk, self.k)
            partial = np.zeros_like(total)
            for start in range(first, last, STRIDE):
                end = min(start + STRIDE, last)
                before = np.arange(end - start) // mixed * mixed
                counts[start:end] = end - start - before + int(mixed > 1)
                total += (end - start) * np.abs(partial)
                partial += a[:, start:end] @ b[start:end]
            result += partial
            total += np.abs(result)
        total += (np.abs(a) * counts) @ weights
        return total

    def _short_sums(self, a: Array, weights: Array) -> Array:
        """The same where work-items share a sum: each product takes part in few of them."""
        chunk, splits = self.chunks
        each = ceil(chunk / self._slices) + (tile.width(self.k) if self._along_k else 1)
        shared = 2 * 16 if self._along_k else self._slices
        sums: Array = (np.abs(a) @ weights) * (each + shared + splits)
        return sums

    def spread(
        self, a: Array, b: Array, y: Array, hard: Array, columns: Array | float = 1.0
    ) -> Array:
        """Proxy standard deviation of the error of each result, as `bound` takes them."""
        if self.whole:
            return np.zeros_like(y)
        sigma = np.empty_like(y)
        equal = min(repeats(a), repeats(b.T))
        panel = max(1, PANEL // self.n)
        for start in range(0, self.m, panel):
            part = slice(start, start + panel)
            walk, squares, magnitude = self._walk(a[part], b)
            alpha = np.abs(self.alpha * columns)
            root = walk.root(self._inside, squares) * (alpha * U * SECOND_ORDER)
            # Rounding by alpha, and adding c or b; what is flushed to zero.
            rest = 2 * U * np.abs(y[part]) + (self._roundings + 4) * TINY
            most = hard[part] - rest
            terms = alpha**2 * squares, alpha * magnitude
            sigma[part] = correlated(root, most, self.k, *terms, equal) + rest
            if self._by_matrix:
                dtype, sizes = self.elements.left, (np.abs(a[part]), np.abs(b))
                more = alpha * SECOND_ORDER * fragment.lost(*sizes, dtype, self.machine)
                whole = fragment.biased(dtype, self.machine)
                sigma[part] = hard[part] if whole else np.minimum(sigma[part] + more, hard[part])
        return sigma

    def _walk(self, a: Array, b: Array) -> tuple[Walk, Array, Array]:
        """Sums in order within a chunk, or within each work-item's share of it; of all products
        the sums of squares and of absolute values.

        Where rows lie along k, shares are so many and short that they are taken in stages.
        """
        chunk, _ = self.chunks
        lanes = self._slices if self.short and not self._along_k else 1
        block = chunk if self.short and self._along_k else self._block
        walk = Walk((len(a), self.n))
        squares, magnitude = np.zeros_like(walk.total), np.zeros_like(walk.total)
        for first in range(0, self.k, chunk):
            last = min(first + chunk, self.k)
            for lane in range(first, min(first + lanes, last)):
                for start in range(lane, last, block * lanes):
                    part = slice(start, min(start + block * lanes, last), lanes)
                    left, right = a[:, part], b[part]
                    walk.add(left.shape[1], left @ right)
                    squares += np.square(left) @ np.square(right)
                    magnitude += np.abs(left) @ np.abs(right)
                walk.end()
        return walk, squares, magnitude

    @property
    def _block(self) -> int:
        """Products between sums that are computed: the root of all makes both of one size."""
        whole = 1 if self.short else self._cut.tile.unordered
        return ceil(max(STRIDE, ceil(sqrt(self.k))) / whole) * whole

    @property
    def _roundings(self) -> int:
        """Maximum roundings of a result's sum; matrix instructions may round the products too."""
        return self.k if self.short else self._cut.tile.roundings(self.k)

    @property
    def _inside(self) -> float:
        """Roundings inside a block, in the terms of simgen/ground/numerics/spread.py."""
        chunk, _ = self.chunks
        if not (self.short and self._along_k):
            return order(min(self._block, chunk))
        each = ceil(chunk / self._slices) + tile.width(self.k)
        return stages(each, self._slices // 16, 16)

    @property
    def _scales(self) -> tuple[float, float]:
        return self.alpha, self.beta

    @property
    def _layout(self) -> str:
        """nn, nt, tn or tt, as BLAS says it."""
        return "".join("t" if each else "n" for each in (self.a_transposed, self.b_transposed))

    def _name(self, prefix: str, how: str) -> str:
        chunk, splits = self.chunks
        extents = (*((self.batch,) if self.batch > 1 else ()), self.m, self.n, self.k)
        parts = [prefix, self._layout, "x".join(map(str, extents)), how]
        if self._sums_follow:
            by = (f"by{chunk}",) if splits > 1 else ()
            return "_".join((*parts, *by, *self._leaves.name))
        bias = ("bias",) if self.bias else ()
        after = (*_scales(self._scales), *bias, *self.epilogue.name)
        return "_".join((*parts, *after, *self._leaves.name))

    @property
    def _leaves(self) -> Elements:
        """The first kernel's types: nothing is added to partial sums."""
        if self._sums_follow:
            total = self.elements.total
            return replace(self.elements, added=total, result=total)
        return replace(self.elements, result=self._stored)

    @property
    def _widths(self) -> tuple[int, int]:
        """Elements of a load from A and from B."""
        left = tile.width(self.m if self.a_transposed else self.k)
        return left, tile.width(self.k if self.b_transposed else self.n)

    def _lying(self, sides: Sides) -> tuple[tuple[int, bool], tuple[int, bool]]:
        """For each factor: the extent along which elements are adjacent, and whether it is k. With
        `sides` that are padded, which end with zeros."""
        left = (self.m, False) if self.a_transposed else (self.k, True)
        right = (self.k, True) if self.b_transposed else (self.n, False)
        wider = [each.pitch for each in self._rows_of_factors]
        padded = [
            wide if side else extent for side, wide, (extent, _) in zip(sides, wider, (left, right))
        ]
        return (padded[0], left[1]), (padded[1], right[1])

    @property
    def _rows_of_factors(self) -> tuple[CopiedRows, CopiedRows]:
        (m, n, k), of = (self.m, self.n, self.k), self.elements
        left = (k, m) if self.a_transposed else (m, k)
        right = (n, k) if self.b_transposed else (k, n)
        return (
            padding.padded(self.batch * left[0], left[1], of.left),
            padding.padded(self.batch * right[0], right[1], of.right),
        )

    @property
    def padded(self) -> dict[str, CopiedRows]:
        """Factors that are copied to rows which begin with lines."""
        found = zip(SIDES, self._rows_of_factors, self._sides, strict=True)
        return {name: rows for name, rows, side in found if side}

    @property
    def copied(self) -> CopiedRows | None:
        """Results that are copied from rows which begin at multiples of 16 bytes, if they are."""
        if self.short or self.chunks[1] > 1 or self.elements.result.nbytes != 2:
            return None
        tiles = self._cut.tile
        if not tiles.stages or tiles.item_columns % 8 or self.beta != 0:
            return None
        rows = padding.cut(self.batch * self.m, self.n, self.elements.result)
        return rows if rows.extent != rows.pitch and padding.pays(rows, self.machine) else None

    @cached_property
    def _sides(self) -> Sides:
        """Which factors are padded: what is estimated to take the least time."""
        if self.short or self.elements.mixed or not self.machine.is_nvidia:
            return NONE
        rows = self._rows_of_factors
        worth = [(False, True) if each.pitch != each.extent else (False,) for each in rows]

        def time(sides: Sides) -> float:
            chosen = tuple(each for each, side in zip(rows, sides) if side)
            if chosen and not self._tiles(sides)[0].stages:
                return inf
            costs, extents = self._costs(sides), (self.m, self.n, self.k, self.batch)
            found = tile.best_cut(*extents, **costs)
            machine, nbytes, lines = costs["machine"], costs["nbytes"], costs["rows"]
            taken = tile.cycles(found, *extents, machine, nbytes, lines)
            if not found.tile.stages:
                return taken * padding.BY_WIDTH[min(self._widths)]
            return taken * (tile.CUT if chosen else 1) + padding.cycles(chosen, machine)

        return min(choices_of(*worth), key=time)

    @property
    def _cut(self) -> tile.Cut:
        """Loads of one element need more registers for their places than the largest tile has."""
        sides = self.m, self.n, self.k, self.batch
        return tile.best_cut(*sides, **self._costs(self._sides))

    def _costs(self, sides: Sides) -> _Costs:
        """What its time depends on beside its extents."""
        of = self.elements
        extents = [extent for extent, _ in self._lying(sides)]
        left, right = (tile.between_lines(e * b) for e, b in zip(extents, of.nbytes, strict=False))
        return {
            "machine": self.machine,
            "tiles": self._tiles(sides),
            "nbytes": of.nbytes,
            "rows": (left, right),
        }

    @property
    def _factors(self) -> str:
        """The type of what matrix instructions would multiply."""
        of = self.elements
        if of.mixed:
            return of.left.name if of.left.nbytes == 2 else f"{of.left} and i{of.bits}"
        return fragment.factors_of(of.left, of.right, shifted=any(of.zero_points))

    @property
    def _by_matrix(self) -> bool:
        return not self.short and self._cut.tile.matrix is not None

    @property
    def taken(self) -> DType | None:
        """The type that integers times the scales of groups are rounded to; None: they are not."""
        return self.elements.left if self.elements.group and self._by_matrix else None

    def _tiles(self, sides: Sides) -> tuple[tile.Tile, ...]:
        left, right = self._lying(sides)
        staged = fragment.staged(self.machine, self._factors, left, right)
        if staged and not self.elements.mixed:  # what is copied to LDS stays as it is
            return staged
        if by_matrix := fragment.tiles(self.machine, self._factors):
            return by_matrix
        return tile.TILES if self._simple else UNALIGNED

    @property
    def _simple(self) -> bool:
        """Whether loads leave AMD's compilers the registers for the largest tile, without spills:
        not with a last step of k that is cut apart, but of wide elements that all lie along k."""
        if min(self._widths) == 1:
            return False
        of = self.elements
        along_k = not self.a_transposed and self.b_transposed
        wide = along_k and not any(x.is_float and x.nbytes == 1 for x in (of.left, of.right))
        return self.k % 4 == 0 or wide or self.machine.wavefront == 32

    def _tiled(self, prefix: str) -> tuple[Kernel, tuple[int, int, int]]:
        found, alone = self._cut, not self._sums_follow
        left_width, right_width = self._widths
        if found.tile.stages:
            left_width = right_width = fragment.RUN_NBYTES // found.tile.nbytes
        pitches = {side: each.pitch for side, each in self.padded.items()}
        if self.copied:
            pitches["result"] = self.copied.extent
        constants: Constants = (
            ("m", self.m),
            ("n", self.n),
            ("k", self.k),
            ("alpha", self.alpha if alone else 1.0),
            ("beta", self.beta if alone else 0.0),
            ("with_c", int(self.beta != 0 and alone)),
            ("with_bias", int(self.bias and alone)),
            ("batch", self.batch),
            ("splits", found.splits),
            ("chunk", found.chunk),
            ("left_along", "m" if self.a_transposed else "k"),
            ("left_width", left_width),
            ("right_along", "k" if self.b_transposed else "n"),
            ("right_width", right_width),
            ("store_width", tile.width(pitches.get("result", self.n))),
            ("stages", found.tile.stages),
            ("tensor_maps", int(found.tile.by_warpgroups)),
            ("groups", self._groups),
            ("left_pitch", pitches.get("left", 0)),
            ("right_pitch", pitches.get("right", 0)),
            ("result_pitch", pitches.get("result", 0)),
            ("paired", int(found.tile.paired)),
            *found.tile.constants,
            *(self.epilogue if alone else NOTHING).constants,
            *self._leaves.constants,
        )
        across, down = found.tile.grid(self.m, self.n)
        pair = 1 + found.tile.paired
        grid = (across * pair, down // pair, found.splits * self.batch)
        if self._groups:
            grid = (self._groups, 1, 1)
        rows = "".join(f"_{side}{pitch}" for side, pitch in pitches.items())
        name = self._name(prefix, f"t{found.tile}{rows}")
        asked = found.tile.lds_nbytes if found.tile.stages else 0
        maps = self._maps(found.tile) if found.tile.by_warpgroups else ()
        block, movers = found.tile.block, found.tile.movers
        tiles = prod(found.tile.grid(self.m, self.n)) * self.batch if self._groups else 0
        kernel = Kernel(name, "gemm.hip", block, constants, asked, maps, movers, tiles)
        return kernel, grid

    @property
    def _groups(self) -> int:
        """Work-groups that compute several tiles each: as many as a machine holds, where steps wait
        in LDS. While one stores a tile, those of the next are on their way. 0: one for each."""
        found = self._cut
        across, down = found.tile.grid(self.m, self.n)
        held = found.tile.at_once * self.machine.units
        if found.tile.paired:
            held = max(2, held // 2 * 2)
        several = across * down * self.batch > held and found.splits == 1
        return held if several and found.tile.stages else 0

    def _maps(self, tiles: tile.Tile) -> tuple[TensorMap, ...]:
        """Tensor maps of both factors. A step is one box if the factor is contiguous along k, and
        otherwise one box for each run of elements that a step has of k.
        """
        made = []
        left, right = self._lying(self._sides)
        sides = (left, self.m, tiles.rows), (right, self.n, tiles.columns)
        for argument, ((extent, along_k), other, rows) in enumerate(sides):
            shape = self.batch, (other if along_k else self.k), extent
            if argument and tiles.paired:  # each of the two brings half
                rows //= 2
            box = (rows if along_k else tiles.depth), tiles.depth
            made.append(TensorMap(argument, tiles.nbytes, shape, box))
        return tuple(made)

    # ---- A short side ----

    @property
    def _few_rows(self) -> bool:
        """Whether m is the short side: then w, the matrix that is long, is B; otherwise A."""
        return bool(self.elements.group) or self.m <= self.n

    @property
    def _along_k(self) -> bool:
        """Whether rows of w lie along k, and so its elements if there is one row only."""
        if max(self.m, self.n) == 1:
            return True
        return self.b_transposed if self._few_rows else not self.a_transposed

    @property
    def _slices(self) -> int:
        """Work-items that share a result."""
        if not self._along_k:
            return 4
        return BLOCK if self.k >= 2 * BLOCK * tile.width(self.k) else 64

    @property
    def _rows(self) -> int:
        """Rows of w that a work-item multiplies with the same elements of x."""
        return max(1, min(4, RESULTS // min(self.m, self.n)))

    @property
    def _results_of_a_group(self) -> int:
        """Along the long side."""
        lanes = BLOCK // self._slices
        return lanes * (self._rows if self._along_k else tile.width(max(self.m, self.n)))

    def _short(self, prefix: str) -> tuple[Kernel, tuple[int, int, int]]:
        chunk, splits = self.chunks
        alone = not self._sums_follow
        m, n, k = self.m, self.n, self.k
        # Elements between neighbours along m and k, and along n and k.
        a = (1, m) if self.a_transposed else (k, 1)
        b = (k, 1) if self.b_transposed else (1, n)
        (few, x), (many, w) = ((m, a), (n, b)) if self._few_rows else ((n, b), (m, a))
        w_width = tile.width(k if self._along_k else many)
        together = x[1] == 1 and (few == 1 or x[0] % w_width == 0)
        y = (n, 1) if self._few_rows else (1, n)
        constants: Constants = (
            ("few", few),
            ("many", many),
            ("k", k),
            ("along_k", int(self._along_k)),
            ("x_few", x[0]),
            ("x_k", x[1]),
            ("w_many", w[0]),
            ("w_k", w[1]),
            ("y_few", y[0]),
            ("y_many", y[1]),
            ("rows", self._rows),
            ("slices", self._slices),
            ("x_width", w_width if together else 1),
            ("w_width", w_width),
            ("y_width", w_width if y[1] == 1 else 1),
            ("x_first", int(self._few_rows)),
            ("splits", splits),
            ("chunk", chunk),
            ("alpha", self.alpha if alone else 1.0),
            ("beta", self.beta if alone else 0.0),
            ("with_c", int(self.beta != 0 and alone)),
            ("with_bias", int(self.bias and alone)),
            ("few_columns", int(not self._few_rows)),
            *(self.epilogue if alone else NOTHING).constants,
            *self._leaves.constants,
        )
        kernel = Kernel(self._name(prefix, "skinny"), "gemm_skinny.hip", BLOCK, constants)
        return kernel, (ceil(many / self._results_of_a_group), 1, splits)


@dataclass(frozen=True)
class Channels:
    """An epilogue, and the channel of each element: that of element i is i / inner % count."""

    epilogue: Epilogue = NOTHING
    count: int = 1
    inner: int = 1

    @property
    def constants(self) -> Constants:
        """Constants including the epilogue's; without an epilogue, kernels for other channels are
        equal."""
        count, inner = (1, 1) if self.epilogue == NOTHING else (self.count, self.inner)
        return (*self.epilogue.constants, ("channels", count), ("inner", inner))

    @property
    def name(self) -> tuple[str, ...]:
        """Parts of a kernel's name."""
        if self.epilogue == NOTHING:
            return ()
        return (*self.epilogue.name, f"{self.count}x{self.inner}")


def sum_of(
    machine: Machine,
    prefix: str,
    terms: int,
    size: int,
    scales: tuple[float, float] = (1.0, 0.0),
    bias: int = 0,
    channels: Channels = Channels(),
    *,
    of: DType = DType.F32,
    added: DType = DType.F32,
    result: DType = DType.F32,
) -> tuple[Kernel, tuple[int, int, int]]:
    """The kernel that adds `terms` tensors of `size` elements, which lie one behind the other.

    `scales` are (alpha, beta); a `bias` of so many elements is added to each row of as many. `of`,
    `added` and `result` are element types: of the terms, of c or the bias, and of the sums.
    """
    width = TOGETHER if result.is_narrow else tile.width(size)
    slices = 1
    fill = GROUPS_OF_UNIT * machine.units * BLOCK
    while slices < 16 and terms > 32 * slices and size // width * slices < fill:
        slices *= 4
    alpha, beta = scales
    constants: Constants = (
        ("terms", terms),
        ("size", size),
        ("slices", slices),
        ("width", width),
        ("alpha", alpha),
        ("beta", beta),
        ("with_c", int(beta != 0)),
        ("with_bias", int(bias > 0)),
        ("columns", bias or size),
        *channels.constants,
        *constant("termelement", of),
        *constant("addedelement", added),
        *constant("element", result),
        *constant("total", of.accumulation),
    )
    after = (f"bias{bias}",) if bias else ()
    types = name_of((of, added, result))
    parts = (prefix, f"sum_{terms}x{size}", *_scales(scales), *after, *channels.name, *types)
    kernel = Kernel("_".join(parts), "gemm_sum.hip", BLOCK, constants)
    return kernel, (ceil(size / (width * BLOCK // slices)), 1, 1)


def _rows(partial: str, side: str) -> str:
    """Port of rows of a factor or of results, beside that of partial sums."""
    return f"{partial}_{side}_rows"


def _scales(scales: tuple[float, float]) -> list[str]:
    """Parts of a kernel's name."""
    alpha, beta = scales
    found = [f"a{identifier(alpha)}"] if alpha != 1 else []
    return found + ([f"b{identifier(beta)}"] if beta != 0 else [])
