"""Attention: of each query, the mean of the values, weighted by how well their keys fit it.

    forward   s[i, j] = scale q[i] . k[j], or cap tanh(that / cap)         + mask[i, j]
              y[i]    = sum of exp(s[i, j] - m) v[j] / l          m = max s[i, j]
              lse[i]  = m + log(l)       l = sum of exp(s[i, j] - m), and exp(sink - m) with sinks
    backward  dv[j] = sum over i of p[i, j] dy[i]                 p = exp(s - lse)
              ds    = p (dy . v[j] - dy . y), times 1 - tanh^2 with a cap
              dq[i] = scale sum over j of ds[i, j] k[j]
              dk[j] = scale sum over i of ds[i, j] q[i]

    q  (N, H, Q, D)    k  (N, G, K, D)    v  (N, G, K, E)    y  (N, H, Q, E)    lse  (N, H, Q)

H / G heads of q share a head of k and v. The sums run over the keys that query i sees, of K, or of
lengths[n]: with causal=true those up to j = i + K - Q, so that the last query sees the last key;
with a window, so many of the last of these. Of a query that sees none, y and lse are 0.

    mask=bias  is added: (N or 1, H or 1, Q, K); -inf hides a key
    mask=keep  the same, where 0 hides a key
    page=P     k and v are pages of a cache, (pages, P, G, D); table (N, columns) int32 has those of
               each sample, and lengths (N) int32 how many tokens are in them

Scores never go to memory: a work-group goes over the keys once, with the maximum and the sums so
far (algorithm 1 of FlashAttention-2). Few queries are as many rows of a tile as heads share keys.
Of 16-bit floats with many queries, NVIDIA's matrix instructions make both products; weights are
rounded to 16 bits for the second one.
With algo=split, work-groups have chunks of the keys, and a second launch joins their sums. The
gradients use no atomics: a launch has tiles of queries for dq, another tiles of keys for dk and dv.

Source: T. Dao, "FlashAttention-2", 2023; Ainslie et al., "GQA", 2023; W. Kwon et al., "Efficient
Memory Management for LLM Serving with PagedAttention", 2023; G. Xiao et al., "Efficient Streaming
Language Models with Attention Sinks", 2023.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from math import ceil, log, sqrt
from typing import TYPE_CHECKING, Any, ClassVar

from simgen.ground.arrays import np
from simgen.ground.ir import (
    Constants,
    Distribution,
    DType,
    Fill,
    Kernel,
    Launch,
    Pass,
    TensorMap,
    TensorSpec,
)
from simgen.ground.machine import NoRoomError
from simgen.ground.numerics import rounding
from simgen.ground.numerics.rounding import (
    EXP2,
    RCP,
    SECOND_ORDER,
    TINY,
    U,
    accumulated,
    float32,
    identifier,
)
from simgen.layers import elementwise
from simgen.layers.base import Choice, Layer, Lowering, Port, key
from simgen.layers.contract import Contract
from simgen.layers.indices import outside
from simgen.layers.product import fragment
from simgen.layers.product.fragment import GROUP_NBYTES, WARPGROUP
from simgen.layers.product.tile import WARPGROUP_ROWS
from simgen.layers.written import Places, Writes, cut_by, writes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from simgen.ground.numerics.rounding import Array
    from simgen.layers.base import Tensors
    from simgen.layers.written import Values

F, B = Pass.FORWARD, Pass.BACKWARD
LARGEST = 2**30  # elements of a tensor: offsets are bytes in 32 bits
ROOM = 47 * 1024  # bytes of LDS: what every machine gives a work-group
FULL = 4  # work-groups of a unit, so that some load while others compute
FAR = 80.0  # an exponent of float32: what is off by more may be anything
PANEL = 64  # elements of a row in LDS, where matrix instructions multiply
TANH = 2.0**-20  # relative error of what bends scores


class MaskKind(StrEnum):
    NONE = "none"
    BIAS = "bias"  # added to scores
    KEEP = "keep"  # 0 hides


class AttentionAlgo(StrEnum):
    AUTO = "auto"
    FLASH = "flash"
    SPLIT = "split"  # keys in chunks, joined by a second launch


@dataclass(frozen=True)
class AttentionTile:
    """How a work-group lies over rows and keys."""

    rows: int
    keys: int
    lanes: int
    slices: int  # work-items of a row
    at_once: int = 0  # work-groups that a unit shall hold, where matrix instructions multiply
    stages: int = 0  # tiles of keys that wait in LDS, where these are wgmma's

    @property
    def block(self) -> int:
        return self.lanes * self.slices

    @property
    def down(self) -> int:
        """Rows of a warp's matrix instructions, in 16."""
        return self.rows // self.lanes // 2

    def asked_nbytes(self, s: Extents) -> int:
        """LDS that launches ask for: tiles of queries, keys and values in panels of 64 columns."""
        wide, other = (128 * ceil(size / PANEL) for size in (s.dim, s.value_dim))
        other = 512 if self.stages and other > 256 else other  # wgmma multiplies 256 values at once
        stages, barriers = max(self.stages, 1), 8 + 32 * self.stages if self.stages else 0
        return self.rows * wide + stages * self.keys * (wide + other) + barriers

    def nbytes(self, s: Extents, direction: Pass) -> int:
        """LDS: of queries, of keys or values, of weights, and for sums over rows; backward of all
        four, weights and their gradients."""
        wide, other = (4 * ceil(size / 4) + 4 for size in (s.dim, s.value_dim))
        if direction is B:
            return 8 * self.rows * (wide + other + self.keys + 4)
        tiles = self.rows * wide + self.keys * max(wide, other)
        return 4 * (tiles + self.rows * (self.keys + 4 + self.slices))


@dataclass(frozen=True)
class Extents:
    """Extents of a problem."""

    samples: int
    heads: int
    groups: int  # heads of keys and values
    queries: int
    keys: int
    dim: int
    value_dim: int

    @property
    def rows(self) -> int:
        """Queries of the heads that share keys."""
        return self.heads // self.groups * self.queries

    @property
    def scores(self) -> tuple[int, int, int, int]:
        return self.samples, self.heads, self.queries, self.keys

    def __str__(self) -> str:
        heads = f"{self.samples}x{self.heads}x{self.groups}"
        return f"{heads}x{self.queries}x{self.keys}x{self.dim}x{self.value_dim}"


# Elements of a key and of a value at most, and the tile for matrix instructions: a warp has 32
# rows, as many results as registers hold, or 16 of a large head or of few rows.
MATRIX_TILES = (
    (64, 64, AttentionTile(128, 128, 32, 4, 2)),
    (192, 128, AttentionTile(128, 64, 32, 4, 2)),
    (256, 256, AttentionTile(128, 64, 64, 4, 1)),
)
# The same of wgmma: a warpgroup has 64 rows.
WARPGROUP_TILES = (
    (192, 128, AttentionTile(128, 128, 64, 4, 1, 2)),
    (256, 256, AttentionTile(128, 64, 64, 4, 1, 2)),
)
FEW_ROWS = AttentionTile(64, 64, 32, 4, 1)
ONE_WARP = AttentionTile(16, 64, 8, 4, 1)  # a decode step: heads that share keys


@dataclass(frozen=True)
class Attention(Layer):
    kind = "attention"
    section = "Attention"
    contract: ClassVar[Contract] = Contract(rounds=True, cancels=True)
    passes: ClassVar[tuple[Pass, ...]] = (F, B)
    input_names: ClassVar[tuple[str, ...]] = ("q", "k", "v", "mask", "lengths", "table")
    indices: ClassVar[tuple[str, ...]] = ("lengths", "table")
    lengths: ClassVar[tuple[str, ...]] = ("lengths",)
    parameters: ClassVar[tuple[str, ...]] = ("sinks",)
    rank: ClassVar[int | None] = 4
    any_float = True
    algorithms: ClassVar[tuple[str, ...]] = (AttentionAlgo.FLASH, AttentionAlgo.SPLIT)
    axis_names: ClassVar[tuple[str, ...]] = ("batch", "heads", "queries", "size")
    sample: ClassVar[Mapping[str, str]] = {"shape": "2x8x128x64", "kv_heads": "2", "causal": "true"}

    kv_heads: int = key("kv_heads", 0, "heads of keys and values; 0: as many as of queries", 0)
    keys: int = key("keys", 0, "keys, if no layer provides them; 0: as many as queries", 0)
    value_size: int = key("value_size", 0, "elements of a value; 0: as many as of a key", 0)
    causal: bool = key(
        "causal", False, "a query sees no later keys; the last one sees the last key"
    )
    window: int = key("window", -1, "keys that a query sees with causal=true; -1: all", -1)
    scale: float = key("scale", 0.0, "factor of scores; 0: 1 / sqrt(elements of a key)", 0.0, 1e6)
    softcap: float = key("softcap", 0.0, "what scores are bent below; 0: nothing", 0.0, 1e6)
    mask: MaskKind = key("mask", MaskKind.NONE, "a fourth input: added, or 0 where a key is hidden")
    sinks: bool = key("sinks", False, "for each head, a learned score that takes part in the sum")
    with_lengths: bool = key("lengths", False, "an input says how many keys each sample has")
    page: int = key("page", 0, "tokens of a page of the cache; 0: it has no pages", 0)
    algo: AttentionAlgo = key(
        "algo",
        AttentionAlgo.AUTO,
        "one pass over the keys, or chunks of them side by side",
        hint=True,
    )

    # ---- Shapes ----

    @property
    def takes(self) -> tuple[str, ...]:
        has = {"mask": self._masks, "lengths": self.with_lengths, "table": self.page > 0}
        return tuple(name for name in self.input_names if has.get(name, True))

    def workload_inputs(self, x: TensorSpec) -> tuple[TensorSpec, ...]:
        n, heads, queries, dim = x.shape
        groups, keys = self.kv_heads or heads, self.keys or queries
        sizes = (dim, self.value_size or dim)
        columns = ceil(keys / self.page) if self.page else 0
        of_cache = (n * columns, self.page, groups) if self.page else (n, groups, keys)
        found = {
            "q": x,
            "k": TensorSpec((*of_cache, sizes[0]), x.dtype),
            "v": TensorSpec((*of_cache, sizes[1]), x.dtype),
            "mask": TensorSpec((n, 1, queries, columns * self.page or keys), x.dtype),
            "lengths": TensorSpec((n,), DType.I32),
            "table": TensorSpec((n, columns), DType.I32),
        }
        return tuple(found[name] for name in self.takes)

    def shape(self, inputs: tuple[TensorSpec, ...]) -> Extents:
        """Extents of all tensors.

        Raises:
            ValueError: they do not fit each other, or the keys of the config.
        """
        if len(inputs) != len(self.takes):
            names = ", ".join(self.takes)
            fact = f"it has {len(inputs)} inputs, and its keys want {names}"
            raise ValueError(f"{fact}; name as many in previous_layer")
        given = dict(zip(self.takes, inputs))
        q, k, v = (given[name] for name in "qkv")
        told = {name: " x ".join(map(str, spec.shape)) for name, spec in given.items()}
        for name, spec in (("q", q), ("k", k), ("v", v)):
            if len(spec.shape) != 4:
                fact = f"{name} is {told[name]}; give it samples, heads, tokens and size"
                raise ValueError(f"{fact}: 2x8x128x64")
        n, heads, queries, dim = q.shape
        if self.page:
            columns = given["table"].shape[-1]
            groups, keys = k.shape[2], columns * self.page
            wanted = (k.shape[0], self.page, groups, dim)
        else:
            groups, keys = k.shape[1], k.shape[2]
            wanted = (n, groups, keys, dim)
        if k.shape != wanted:
            right = " x ".join(map(str, wanted))
            raise ValueError(f"k is {told['k']}, but q is {told['q']}; give k {right}")
        if v.shape[:3] != wanted[:3]:
            right = " x ".join(map(str, (*wanted[:3], v.shape[3])))
            raise ValueError(f"v is {told['v']}, but k is {told['k']}; give v {right}")
        if heads % groups:
            fact = f"{heads} heads of queries are no multiple of {groups} of keys"
            raise ValueError(f"{fact}; take {_near(heads, groups)} heads of keys")
        extents: dict[str, tuple[tuple[int, ...], ...]] = {
            "lengths": ((n,),),
            "table": ((n, keys // max(self.page, 1)),),
        }
        masks = {(a, b, queries, keys) for a in (1, n) for b in (1, heads)}
        extents["mask"] = tuple(sorted(masks, reverse=True))
        for name, spec in list(given.items())[3:]:
            if spec.shape not in extents[name]:
                right = " x ".join(map(str, extents[name][0]))
                raise ValueError(f"{name} is {told[name]}; give it {right}")
        if k.dtype != v.dtype or (self._masks and given["mask"].dtype != q.dtype):
            fact = "k and v, or q and mask, have different element types"
            raise ValueError(f"{fact}; insert [Cast] before one")
        return Extents(n, heads, groups, queries, keys, dim, v.shape[3])

    def _check(self, s: Extents, inputs: tuple[TensorSpec, ...]) -> None:
        if self.window == 0:
            raise ValueError(
                "window is 0: no query sees a key; write 1 or more, or -1 for all keys"
            )
        if self.window > 0 and not self.causal:
            raise ValueError(
                "a window ends with a query's own key; add causal=true, or leave it out"
            )
        if self.page and not self.with_lengths:
            raise ValueError("pages of a cache are filled to some length; add lengths=true")
        if self.causal and not self.with_lengths and s.keys < s.queries:
            fact = f"of {s.queries} queries, the first see none of {s.keys} keys"
            raise ValueError(f"{fact}; give it as many keys, or causal=false")
        if self._masks and self.page:
            raise ValueError("keys of pages have no mask; leave mask or page out")
        if (
            max(
                x.size for x in (*inputs, TensorSpec((s.heads * s.samples, s.queries, s.value_dim)))
            )
            > LARGEST
        ):
            raise ValueError(f"a tensor has more than {LARGEST} elements; cut the batch")

    def output(self, inputs: tuple[TensorSpec, ...]) -> TensorSpec:
        s = self.shape(inputs)
        self._check(s, inputs)
        self.tile(s)
        return TensorSpec((s.samples, s.heads, s.queries, s.value_dim), inputs[0].dtype)

    def by_sample(self, inputs: tuple[TensorSpec, ...]) -> bool:
        """Not where samples share pages, or a mask."""
        shared = self._masks and inputs[3].shape[0] != inputs[0].shape[0]
        return not self.page and not shared

    def fault(self, given: Mapping[str, NDArray[Any]], inputs: tuple[TensorSpec, ...]) -> str:
        s = self.shape(inputs)
        pages = inputs[1].shape[0]
        return outside("lengths", given.get("lengths"), 0, s.keys) or outside(
            "table", given.get("table"), 0, pages - 1
        )

    # ---- Tensors and work ----

    def _scale(self, s: Extents) -> float:
        return float32(self.scale) or float32(1 / sqrt(s.dim))

    @property
    def forward_only(self) -> str:
        """Pages belong to several samples, and masks and sinks to several heads."""
        if self.page:
            return "with pages"
        return "with sinks" if self.sinks else "with a mask" if self._masks else ""

    @property
    def _masks(self) -> bool:
        return self.mask is not MaskKind.NONE

    @property
    def _cap(self) -> float:
        return float32(self.softcap)

    def _seen_scores(self, s: Extents) -> int:
        """Scores of a whole problem that are needed: as lengths, all."""
        if not self.causal:
            return s.samples * s.heads * s.queries * s.keys
        before = s.keys - s.queries
        window = self.window if self.window > 0 else s.keys
        seen = sum(min(max(i + before + 1, 0), window) for i in range(s.queries))
        return s.samples * s.heads * seen

    def work(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[int, int]:
        """Two products of two operations for each score that is seen and each element of a head,
        an exponential for each; backward, five products."""
        s = self.shape(inputs)
        scores = self._seen_scores(s)
        rows = s.samples * s.heads * s.queries
        if direction is B:
            products = scores * 2 * (3 * s.dim + 2 * s.value_dim)
            bends = 2 * scores if self._cap else 0
            return products + 4 * scores + 2 * rows * s.value_dim, scores + bends
        flops = scores * (2 * (s.dim + s.value_dim) + 3) + rows * s.value_dim
        return flops, scores * (2 if self._cap else 1) + 2 * rows

    def ports(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[Port, ...]:
        s, y = self.shape(inputs), self.output(inputs)
        # Keys and queries give scores of about 1; values are such that sums do not cancel.
        normal, some = Fill(Distribution.NORMAL, 0.0, 1.0), Fill(Distribution.NORMAL, 1.0, 0.5)
        fills = {
            **dict.fromkeys(("q", "k", "dy"), normal),
            **dict.fromkeys("vy", some),
            "mask": normal,
            "lengths": Fill(Distribution.UNIFORM, float(-(-s.keys // 2)), s.keys + 1.0),
            "table": Fill(Distribution.UNIFORM, 0.0, float(inputs[1].shape[0])),
            "sinks": normal,
            "lse": Fill(Distribution.UNIFORM, log(s.keys), log(s.keys) + 1.0),
        }
        if self.mask is MaskKind.KEEP:
            fills["mask"] = Fill(Distribution.NORMAL, 0.5, 1.0, low=0.0)
        specs = dict(zip(self.takes, inputs))
        lse = TensorSpec(y.shape[:3])
        if direction is B:
            specs |= {"dy": y, "y": y, "lse": lse}
            made = [Port(f"d{name}", spec) for name, spec in zip("qkv", inputs)]
            made.append(Port("totals", lse, scratch=True))
        else:
            specs |= {"sinks": TensorSpec((s.heads,))} if self.sinks else {}
            made = [Port("y", y), Port("lse", lse)]
            chunks = self.chunks(s)
            if chunks > 1:
                kept = {"peaks": lse.shape, "sums": lse.shape, "parts": y.shape}
                shapes = {name: (chunks, *extents) for name, extents in kept.items()}
                made += [Port(n, TensorSpec(each), scratch=True) for n, each in shapes.items()]
        return (*(Port(name, spec, fills[name]) for name, spec in specs.items()), *made)

    def moves(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[str, ...]:
        """None where rows do not lie by fours."""
        s = self.shape(inputs)
        names = tuple(port.name for port in self.ports(inputs, direction))
        return () if s.dim % 4 or s.value_dim % 4 else names

    # ---- Launches ----

    def tile(self, s: Extents, direction: Pass = F) -> AttentionTile:
        """The largest that has room in LDS.

        Raises:
            NoRoomError: none has.
        """
        if direction is F and (found := self._matrix_tile(s)):
            return found
        rows = s.rows
        of_two, of_four = 2 * ceil(rows / 2), 4 * ceil(rows / 4)
        few = (
            AttentionTile(rows, 64, 1, 64),
            AttentionTile(of_two, 32, 2, 32),
            AttentionTile(of_four, 16, 4, 16),
        )
        many = (
            AttentionTile(64, 32, 16, 16),
            AttentionTile(32, 32, 16, 16),
            AttentionTile(16, 16, 16, 16),
        )
        tiles: tuple[AttentionTile, ...] = (
            many[1:] if direction is B else few if rows <= 8 else many
        )
        for each in (*tiles, AttentionTile(8, 8, 8, 8)):
            if each.nbytes(s, direction) <= ROOM and each.rows < 2 * max(rows, 16):
                return each
        fact = f"heads of {max(s.dim, s.value_dim)} elements have no room in LDS"
        raise NoRoomError(f"{fact}; take fewer, or more heads")

    def _matrix_tile(self, s: Extents) -> AttentionTile | None:
        """Tile for mma.sync, for 16-bit floats in runs of 16 bytes and more than a few rows."""
        q, *others = self.types[:3] or (DType.F32,)
        apart = q.nbytes != 2 or any(each != q for each in others)
        if apart or s.dim % 8 or s.value_dim % 8 or not self.machine.is_nvidia:
            return None
        if not fragment.tiles(self.machine, q.name):
            return None
        # Maps move whole tiles, what lies behind the length of a sample too.
        whole = not self.page and not self.with_lengths and s.rows > FEW_ROWS.rows
        wide = any(each.m == WARPGROUP_ROWS for each in self.machine.matrix)
        tiles = (WARPGROUP_TILES if whole and wide else ()) + MATRIX_TILES
        room = self.machine.asked_lds_nbytes
        for most, most_of_value, found in tiles:
            if s.rows <= FEW_ROWS.rows:
                found = replace(FEW_ROWS, at_once=found.at_once)
            if s.rows <= ONE_WARP.rows:  # which waits for memory: others multiply meanwhile
                each = ONE_WARP.asked_nbytes(s) + GROUP_NBYTES
                found = replace(ONE_WARP, at_once=max(1, min(4, self.machine.lds_nbytes // each)))
            fits = s.dim <= most and s.value_dim <= most_of_value
            if fits and found.asked_nbytes(s) <= room:
                return found
        return None

    def chunks(self, s: Extents) -> int:
        """How many chunks of keys there are."""
        t = self.tile(s)
        tiles = ceil(s.keys / t.keys)
        if self.algo is AttentionAlgo.FLASH:
            return 1
        groups = s.samples * s.groups * ceil(s.rows / t.rows)
        held = (t.at_once or FULL) * self.machine.units
        few = held // 2 + 1 if t.rows == ONE_WARP.rows and t.at_once else self.machine.units
        wanted = held // groups if groups < few else 1
        least = 2 if self.algo is AttentionAlgo.SPLIT else 1
        return ceil(tiles / ceil(tiles / min(tiles, max(least, wanted))))

    def choices(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[Choice, ...]:
        s = self.shape(inputs)
        t, chunks = self.tile(s), self.chunks(s)
        why = "of matrix instructions" if t.at_once else "the largest with room in LDS"
        made = Choice("tile", f"{t.rows} queries x {t.keys} keys", why)
        if chunks == 1:
            return (made,)
        return (made, Choice("chunks of the keys", str(chunks), "there are fewer tiles than units"))

    def lower(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Lowering:
        s, moved = self.shape(inputs), self.moves(inputs, direction)
        of_q, of_k = (each.dtype if moved else DType.F32 for each in inputs[:2])
        t, chunks = self.tile(s, direction), self.chunks(s) if direction is F else 1
        mask = dict(zip(self.takes, inputs)).get("mask", TensorSpec((1, 1, 1, 1)))
        one, several = (mask.shape[at] == 1 for at in (0, 1))
        plane = mask.shape[2] * mask.shape[3]
        constants: Constants = (
            ("heads", s.samples * s.groups),
            ("kv_heads", s.groups),
            ("rows", s.rows),
            ("queries", s.queries),
            ("keys", s.keys),
            ("dim", s.dim),
            ("value_dim", s.value_dim),
            ("tile_rows", t.rows),
            ("tile_keys", t.keys),
            ("slices", t.slices),
            ("chunk", ceil(ceil(s.keys / t.keys) / chunks) * t.keys),
            ("scale", self._scale(s)),
            ("cap", self._cap),
            ("causal", int(self.causal)),
            ("window", max(self.window, 0)),
            ("page", self.page),
            ("with_lengths", int(self.with_lengths)),
            ("with_table", int(self.page > 0)),
            ("with_mask", int(self._masks)),
            ("with_sinks", int(self.sinks)),
            ("with_parts", int(chunks > 1)),
            ("keeps", int(self.mask is MaskKind.KEEP)),
            ("mask_sample", 0 if one else mask.shape[1] * plane),
            ("mask_head", 0 if several else plane),
            *elementwise.element(of_q),
            *((("cached", of_k.c),) if of_k.is_narrow else ()),
        )
        name = f"attention_{direction}_{s}{self._suffix(s, of_q, of_k, mask)}"
        if direction is B:
            return self._backward(s, t, name, constants)
        name += f"_of{chunks}" if chunks > 1 else ""
        kernel = Kernel(name, "attention.hip", t.block, constants)
        if t.at_once:
            asked, wide = t.asked_nbytes(s), f"{name}_m{t.rows}x{t.keys}w{t.block // 32}"
            wide += f"s{t.stages}" if t.stages else ""
            maps, movers = self._maps(s, t, inputs), WARPGROUP if t.stages else 0
            constants = (
                *constants,
                ("down", t.down),
                ("launch_groups", t.at_once),
                ("tensor_maps", int(t.stages > 0)),
                ("stages", max(t.stages, 2)),
                ("movers", movers),
            )
            kernel = Kernel(wide, "attention_matrix.hip", t.block, constants, asked, maps, movers)
        sinks = ("sinks",) if self.sinks else ()
        order = ("q", "k", "v", "lengths", "table", "mask")
        args = (*(name for name in order if name in self.takes), *sinks)
        across, heads = ceil(s.rows / t.rows), s.samples * s.groups
        grid = (heads, across, chunks) if t.at_once else (across, heads, chunks)
        if chunks == 1:
            return Lowering((kernel,), (Launch(kernel.name, grid, (*args, "lse", "y")),))
        kept = ("peaks", "sums", "parts")
        first = Launch(kernel.name, grid, (*args, *kept))
        rows, fours = s.samples * s.heads * s.queries, ceil(s.value_dim / 4)
        own = (
            ("rows", rows),
            ("fours", fours),
            ("value_dim", s.value_dim),
            ("chunks", chunks),
            *elementwise.element(of_q),
        )
        joined = f"attention_join_{chunks}x{rows}x{s.value_dim}{elementwise.suffix(of_q)}"
        join = Kernel(joined, "attention_join.hip", elementwise.BLOCK, own)
        last = Launch(joined, (ceil(rows * fours / join.block), 1, 1), (*kept, "lse", "y"))
        return Lowering((kernel, join), (first, last))

    def _maps(
        self, s: Extents, t: AttentionTile, inputs: tuple[TensorSpec, ...]
    ) -> tuple[TensorMap, ...]:
        """Tensor maps of q, k and v, in boxes of 64 elements of a tile's rows."""
        heads, nbytes = s.samples * s.groups, self.dtype.nbytes
        sides = (s.rows, s.dim, t.rows), (s.keys, s.dim, t.keys), (s.keys, s.value_dim, t.keys)
        return tuple(
            TensorMap(at, nbytes, (heads, extent, size), (tile, PANEL))
            for at, (extent, size, tile) in enumerate(sides)
            if t.stages
        )

    def _backward(self, s: Extents, t: AttentionTile, name: str, constants: Constants) -> Lowering:
        kernels = [Kernel(f"{name}_{d}", f"attention_{d}.hip", t.block, constants)
                   for d in ("dq", "dkv")]  # fmt: skip
        given = ("q", "k", "v", *(("lengths",) if self.with_lengths else ()), "dy")
        args = ((*given, "y", "lse", "totals", "dq"), (*given, "lse", "totals", "dk", "dv"))
        launches = [
            Launch(kernel.name, (ceil(extent / t.rows), s.samples * s.groups, 1), each)
            for kernel, extent, each in zip(kernels, (s.rows, s.keys), args, strict=True)
        ]
        return Lowering(tuple(kernels), tuple(launches))

    def _suffix(self, s: Extents, of_q: DType, of_k: DType, mask: TensorSpec) -> str:
        """What tells kernels of one shape apart by their names."""
        parts = [f"_s{identifier(self._scale(s))}"]
        parts += [f"_cap{identifier(self._cap)}"] if self._cap else []
        parts += ["_causal"] if self.causal else []
        parts += [f"_w{self.window}"] if self.window > 0 else []
        parts += ["_lengths"] if self.with_lengths else []
        parts += [f"_p{self.page}"] if self.page else []
        parts += [f"_{self.mask}{mask.shape[0]}x{mask.shape[1]}"] if self._masks else []
        parts += ["_sinks"] if self.sinks else []
        parts += [elementwise.suffix(of_q)]
        parts += [f"_of_{of_k}"] if of_k != of_q else []
        return "".join(parts)

    # ---- Reference ----

    def _gathered(self, tensors: Tensors, name: str) -> Array:
        """Keys or values of each sample, (N, G, K, size)."""
        given = tensors[name]
        if not self.page:
            return given
        table = tensors["table"].astype(np.int64)
        pages = given[table].reshape(len(table), -1, *given.shape[2:])
        made: Array = np.swapaxes(pages, 1, 2)
        return made

    def _extents(self, tensors: Tensors) -> Extents:
        q, k, v = tensors["q"], self._gathered(tensors, "k"), tensors["v"]
        (n, heads, queries, dim), (_, groups, keys, _) = q.shape, k.shape
        return Extents(n, heads, groups, queries, keys, dim, v.shape[3])

    def _seen(self, tensors: Tensors, s: Extents) -> NDArray[np.bool_]:
        """Whether each query sees each key: (N, 1 or H, Q, K)."""
        lengths = tensors["lengths"] if self.with_lengths else np.full(s.samples, s.keys)
        have = lengths.reshape(-1, 1, 1, 1).astype(np.int64)
        at = np.arange(s.keys)
        seen = at < have
        if self.causal:
            own = np.arange(s.queries)[:, np.newaxis] + have - s.queries
            seen = seen & (at <= own)
            if self.window > 0:
                seen = seen & (at > own - self.window)
        if self.mask is MaskKind.KEEP:
            seen = seen & (tensors["mask"] != 0)
        made: NDArray[np.bool_] = np.broadcast_to(seen, (*seen.shape[:2], s.queries, s.keys))
        return made

    def _scores(self, tensors: Tensors, s: Extents) -> Array:
        """Scores, (N, H, Q, K); of keys that are not seen -inf."""
        k = np.repeat(self._gathered(tensors, "k"), s.heads // s.groups, axis=1)
        made: Array = tensors["q"] @ np.swapaxes(k, 2, 3) * self._scale(s)
        if self._cap:
            made = self._cap * np.tanh(made / self._cap)
        if self.mask is MaskKind.BIAS:
            made = made + tensors["mask"]
        return np.where(self._seen(tensors, s), made, -np.inf)

    def _values(self, tensors: Tensors, s: Extents) -> Array:
        return np.repeat(self._gathered(tensors, "v"), s.heads // s.groups, axis=1)

    def _weights(
        self, tensors: Tensors, s: Extents, scores: Array
    ) -> tuple[Array, NDArray[np.bool_], Array]:
        """(weights of the values, whether a query sees anything, lse)."""
        sinks = tensors["sinks"].reshape(-1, 1) if self.sinks else np.full((1, 1), -np.inf)
        peak = np.maximum(scores.max(axis=3), sinks)
        peak = np.where(np.isinf(peak), 0.0, peak)
        exponentials = np.exp(scores - peak[..., np.newaxis])
        total = exponentials.sum(axis=3) + np.exp(sinks - peak)
        some = np.where(total > 0, total, 1.0)
        weights: Array = exponentials / some[..., np.newaxis]
        return weights, total > 0, np.where(total > 0, peak + np.log(some), 0.0)

    def _shared(self, x: Array, s: Extents) -> Array:
        """Sums over the heads that share one of keys: (N, H, ...) to (N, G, ...)."""
        made: Array = x.reshape(s.samples, s.groups, -1, *x.shape[2:]).sum(axis=2)
        return made

    def _slopes(self, tensors: Tensors, s: Extents) -> tuple[Array, Array, Array]:
        """(weights by the lse that is given, what is multiplied with them, its factor by a cap)."""
        weights: Array = np.exp(self._scores(tensors, s) - tensors["lse"][..., np.newaxis])
        total = (tensors["dy"] * tensors["y"]).sum(axis=3, keepdims=True)
        inner: Array = tensors["dy"] @ np.swapaxes(self._values(tensors, s), 2, 3) - total
        factor: Array = np.ones(weights.shape)
        if self._cap:
            k = np.repeat(tensors["k"], s.heads // s.groups, axis=1)
            products = tensors["q"] @ np.swapaxes(k, 2, 3) * self._scale(s)
            factor = 1 - np.tanh(products / self._cap) ** 2
        return weights, inner, factor

    def _gradients(
        self, tensors: Tensors, s: Extents, weights: Array, slopes: Array, scale: float
    ) -> dict[str, Array]:
        """What weights and slopes of scores come to."""
        q, dy = tensors["q"], tensors["dy"]
        k = np.repeat(tensors["k"], s.heads // s.groups, axis=1)
        return {
            "dq": scale * (slopes @ k),
            "dk": self._shared(scale * (np.swapaxes(slopes, 2, 3) @ q), s),
            "dv": self._shared(np.swapaxes(weights, 2, 3) @ dy, s),
        }

    def reference(self, tensors: Tensors, direction: Pass) -> Tensors:
        s = self._extents(tensors)
        if direction is B:
            weights, inner, factor = self._slopes(tensors, s)
            slopes = weights * inner * factor
            return self._gradients(tensors, s, weights, slopes, self._scale(s))
        weights, _, lse = self._weights(tensors, s, self._scores(tensors, s))
        return {"y": weights @ self._values(tensors, s), "lse": lse}

    # ---- Bounds ----

    def _score_error(
        self, tensors: Tensors, s: Extents, scores: Array, direction: Pass = F
    ) -> Array:
        """A score is off by its sum of products, and the constants and roundings behind it. A cap
        only shrinks what is before it."""
        k = np.repeat(np.abs(self._gathered(tensors, "k")), s.heads // s.groups, axis=1)
        q, scale = np.abs(tensors["q"]), abs(self._scale(s))
        terms: Array = q @ np.swapaxes(k, 2, 3) * scale
        error = accumulated(4 * ceil(s.dim / 4)) * terms
        if self.tile(s, direction).at_once:  # two roundings for each product (fragment.py)
            error = accumulated(2 * 16 * ceil(s.dim / 16)) * terms
        finite = np.where(np.isinf(scores), 0.0, np.abs(scores))
        if self._cap:
            bent = (TANH + 4 * U) * np.minimum(terms, self._cap)
            error = np.minimum(error + bent, 2 * self._cap)
        if self.mask is MaskKind.BIAS:
            hidden = np.isinf(tensors["mask"])
            error = error + 4 * U * (terms + np.where(hidden, 0.0, np.abs(tensors["mask"])))
        return error + 4 * U * finite

    def _shrunk(self, scores: Array, error: Array, s: Extents) -> Array:
        """How often the kernel multiplies what it has of a key, at most: where a later tile of the
        same chunk has a larger score, or may have; and where chunks are joined."""
        t, chunks = self.tile(s), self.chunks(s)
        tiles = ceil(ceil(s.keys / t.keys) / chunks)
        padded = chunks * tiles * t.keys - s.keys
        space = ((0, 0), (0, 0), (0, 0), (0, padded))
        cut = (*scores.shape[:3], chunks, tiles, t.keys)
        high = np.pad(scores + 2 * error, space, constant_values=-np.inf).reshape(cut).max(axis=5)
        low = np.pad(scores - 2 * error, space, constant_values=-np.inf).reshape(cut).max(axis=5)
        before = np.maximum.accumulate(low, axis=4)
        grows = np.zeros(high.shape)
        grows[..., 1:] = (high[..., 1:] >= before[..., :-1]) & (high[..., 1:] > -np.inf)
        later = np.cumsum(grows[..., ::-1], axis=4)[..., ::-1] - grows
        made = np.repeat(later + (chunks > 1), t.keys, axis=4).reshape(*scores.shape[:3], -1)
        return made[..., : s.keys]

    def tolerance(self, tensors: Tensors, direction: Pass) -> Tensors:
        """Weight w of key j is off by a factor 1 + e[j]: by the error of its score, by that of its
        exponential, and those of what it is multiplied with later. The same weights are in
        both sums, so that y is off by the sum of p[j] e[j] (v[j] - y), p the weights that sum to 1,
        and never by more than the values differ. Then the roundings of both sums, each in as many
        parts as there are tiles, and of the quotient."""
        s = self._extents(tensors)
        if direction is B:
            return self._backward_bound(tensors, s)
        scores, values = self._scores(tensors, s), self._values(tensors, s)
        error = self._score_error(tensors, s, scores)
        weights, sees, lse = self._weights(tensors, s, scores)
        y: Array = weights @ values
        t, chunks = self.tile(s), self.chunks(s)
        tiles = ceil(ceil(s.keys / t.keys) / chunks)
        seen = weights > 0
        below = np.where(seen, lse[..., np.newaxis] - np.where(seen, scores, 0.0), 0.0)
        shrunk = self._shrunk(scores, error, s)
        raw = error + rounding.exp(below) + 2 * U * np.abs(lse[..., np.newaxis])
        raw = np.where(seen, raw + shrunk * (EXP2 + 2 * U), 0.0)
        each = np.expm1(np.minimum(raw, FAR))
        off = (weights * each).sum(axis=3)
        near = off < 0.5
        # sums over keys of weights * each * |v - y|, without a tensor of all three extents
        apart = np.zeros_like(y)
        for e in range(s.value_dim):
            distance = np.abs(values[..., np.newaxis, :, e] - y[..., e, np.newaxis])
            first_order = (weights * each * distance).sum(axis=3) / np.maximum(1 - off, 0.5)
            apart[..., e] = np.where(near, first_order, np.where(seen, distance, 0.0).max(axis=3))
        magnitude: Array = weights @ np.abs(values)
        of_sum = accumulated(4 * ceil(t.keys / 4) + 2 * tiles + 2 * chunks)
        if t.at_once:  # a sum goes on over tiles, of weights that are rounded
            of_sum = accumulated(tiles * (2 * t.keys + 1) + 2 * chunks)
            place, least = 2.0 ** -(self.dtype.mantissa + 1), 2.0**self.dtype.least_exponent
            of_sum += place
            apart = apart + place * least * np.abs(values).sum(axis=2, keepdims=True)
        of_total = accumulated(t.keys // t.slices + 2 * tiles + t.slices + 2 * chunks)
        made = apart + of_sum * magnitude + (of_total + RCP + 2 * U) * np.abs(y)
        small = TINY * (1 + s.keys * (1 + np.abs(values).max(axis=2, keepdims=True)))
        bound = np.where(sees[..., np.newaxis], (made + small) * SECOND_ORDER, 0.0)
        longest = np.log(2) * rounding.log2(np.array(s.keys + 2.0))
        logs = (
            np.where(near, off / np.maximum(1 - off, 0.5), raw.max(axis=3))
            + of_total
            + longest
            + 4 * U * np.abs(lse)
        )
        return {"y": bound, "lse": np.where(sees, logs * SECOND_ORDER, 0.0)}

    def _backward_bound(self, tensors: Tensors, s: Extents) -> Tensors:
        """A weight is off by a factor as forward, with the lse that is given. Its slope is off by
        that, by two sums of products of dy, and with a cap by 1 - t^2, of a t that the error of the
        score moves. Then the sums over keys or rows: a tile by itself, and tile by tile."""
        t = self.tile(s, B)
        scores = self._scores(tensors, s)
        error = self._score_error(tensors, s, scores, B)
        weights, inner, factor = self._slopes(tensors, s)
        lse = np.abs(tensors["lse"][..., np.newaxis])
        finite = np.where(np.isinf(scores), 0.0, np.abs(scores))
        each = np.expm1(
            np.minimum(error + rounding.exp(finite + lse) + 2 * U * (finite + lse), FAR)
        )
        dy, values = np.abs(tensors["dy"]), np.abs(self._values(tensors, s))
        total = (dy * np.abs(tensors["y"])).sum(axis=3, keepdims=True)
        off = accumulated(4 * ceil(s.value_dim / 4)) * (dy @ np.swapaxes(values, 2, 3) + total)
        off = off + 2 * U * np.abs(inner)
        bent = 0.0 * factor
        if self._cap:
            tanh = np.sqrt(np.maximum(1 - factor, 0.0))
            moved = TANH * tanh + error / self._cap
            bent = 2 * tanh * moved + moved**2 + 2 * U
        slopes = weights * np.abs(inner) * factor
        of_slopes = slopes * (each + 3 * U) + weights * (off * factor + np.abs(inner) * bent)
        positive = {name: np.abs(value) for name, value in tensors.items()}
        scale = abs(self._scale(s))
        moved_by = self._gradients(positive, s, weights * each, of_slopes, scale)
        magnitude = self._gradients(positive, s, weights, slopes, scale)
        rows, keys = (2 * ceil(extent / t.rows) + t.rows + 3 for extent in (s.rows, s.keys))
        depths = {"dq": keys, "dk": rows, "dv": rows}
        return {
            name: (moved_by[name] + accumulated(depth) * magnitude[name]) * (1 + 2.0**-8)
            + TINY * depth * (1 + magnitude[name])
            for name, depth in depths.items()
        }


def _near(heads: int, groups: int) -> str:
    """Divisors of a number around another."""
    fits = [each for each in range(1, heads + 1) if heads % each == 0]
    below, above = [e for e in fits if e < groups], [e for e in fits if e > groups]
    return " or ".join(map(str, (*below[-1:], *above[:1])))


@writes("attention")
def _attention(c: Values, block: int) -> list[Writes]:
    return _of_tiles(c, by_heads=False)


@writes("attention_matrix")
def _by_matrix(c: Values, block: int) -> list[Writes]:
    return _of_tiles(c, by_heads=True)


def _of_tiles(c: Values, *, by_heads: bool) -> list[Writes]:
    """Tiles of rows beside each other; or `by_heads`, and tiles the last one first."""
    rows, heads = c["rows"], c["heads"]

    def of_rows(argument: int, length: int) -> Writes:
        by_tile = cut_by(Places(rows, length, c["tile_rows"], backward=by_heads))
        by_head = cut_by(Places(heads, rows * length))
        x, y = (by_head, by_tile) if by_heads else (by_tile, by_head)
        chunks = Places(ceil(c["keys"] / c["chunk"]), heads * rows * length)
        inside = (Places(length),) if length > 1 else ()
        return Writes(argument, x, y, cut_by(chunks), inside)

    made = [of_rows(-1, c["value_dim"]), of_rows(-2, 1)]
    return [*made, of_rows(-3, 1)] if c["with_parts"] else made


@writes("attention_dq")
def _of_queries(c: Values, block: int) -> list[Writes]:
    rows, heads, size = c["rows"], Places(c["heads"], c["rows"] * c["dim"]), c["dim"]
    by_row, of_heads = Places(rows, 1, c["tile_rows"]), Places(c["heads"], rows)
    by_tile = cut_by(Places(rows, size, c["tile_rows"]))
    dq = Writes(-1, by_tile, cut_by(heads), inside=(Places(size),))
    return [dq, Writes(-2, cut_by(by_row), cut_by(of_heads))]


@writes("attention_dkv")
def _of_keys(c: Values, block: int) -> list[Writes]:
    made = []
    for argument, size in ((-1, c["value_dim"]), (-2, c["dim"])):
        by_tile = cut_by(Places(c["keys"], size, c["tile_keys"]))
        by_head = cut_by(Places(c["heads"], c["keys"] * size))
        made.append(Writes(argument, by_tile, by_head, inside=(Places(size),)))
    return made


@writes("attention_join")
def _joined(c: Values, block: int) -> list[Writes]:
    fours, size, rows = Places(c["value_dim"], 1, 4), c["value_dim"], c["rows"]
    first = Places(1, empty=c["fours"] - 1)  # one work-item of a row has its sum
    y = Writes(-1, cut_by(Places(rows, size), fours, group=block))
    return [y, Writes(-2, cut_by(Places(rows), first, group=block))]
