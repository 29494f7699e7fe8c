"""Which matrix instructions kernels of products have, and the tiles of those that use them.

A matrix instruction of a wavefront multiplies m x k by k x n elements. `Machine.matrix` says which
ones a machine has; here stands which of them the templates have, and where they pay.

AMD's MFMA (templates/kernels/mfma.h), how they add up the products of one result, by Xie et al.,
"MMA-Sim: Bit-Accurate Reference Model of Tensor Cores and Matrix Cores", 2025 (arXiv 2511.10909):

    f32                        fused multiply-adds one after the other, in order of k
    f16, bf16 on CDNA1, CDNA2  products are exact; 4 of them (2, of gfx908's bf16) are added in
                               pairs, then to the sum, each rounded to nearest; CDNA2 takes
                               subnormal numbers for zeros
    f16, bf16 on CDNA3         8 products are cut off at 2^-24 of the largest of them, and added;
                               that is cut off at 2^-31, and the sum so far at 2^-24, of the larger
                               of both, downwards; and what they add up to is rounded to nearest
    f8 on CDNA3                so are the even ones and the odd ones of 16 products; their two sums
                               are cut off at 2^-24 of the larger one, downwards, and go on as above
    i8                         exact, in 32 bits

What is largest, the exponents say: there a subnormal factor counts as the least normal one. Of
CDNA4 nothing was published; it is taken to add up as CDNA3 does.

Nor was anything of RDNA's WMMA (templates/kernels/wmma.h): it is taken to add up as one of these.

NVIDIA's mma.sync (templates/kernels/mma.h), by the same and by Khattak and Mikaitis, "Accurate
Models of NVIDIA Tensor Cores", 2025 (arXiv 2512.07004), from sm_80 on:

    f16, bf16                  products are exact; 8 of them (16 on Hopper) and the sum are cut off
                               at 2^-24 (2^-25) of the largest of them, or less, and added; that
                               is cut off to float32; wgmma adds as mma.sync does on Hopper
    f8                         so are 16 or 32 products and the sum, at 2^-13 of the largest, and
                               the result has 13 bits of a fraction, by mma.sync on Ada and by
                               wgmma; Hopper's mma.sync has the 2^-25 of other types

So few bits are lost of a long sum over and over (DeepSeek-V3, arXiv 2412.19437, 3.3.2): kernels
have 8-bit floats added up from zero, 32 of k by mma.sync and a step of 128 by wgmma, and add
these sums in float32. F8_LOST is what one of them may lose.

gem5 adds products one after the other, in order of k, and rounds each product before
(Inst_VOP3P_MAI__V_MFMA in src/arch/amdgpu/vega/insts/instructions.hh). What all of these have in
common is what bounds are made of: in a block of `depth` products, whose order does not matter, no
more than two roundings for each, none larger than U times the sum of absolute values so far. (Of
mma.sync, 9 addends lose less than U of the largest each, and the result 2 U: 11 U for 8 products.)
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from simgen.ask.build import BuildChoices
from simgen.ground.arrays import np
from simgen.ground.dtypes import FLUSHED, DType
from simgen.ground.machine import AUTO, MODELS, NO, TF32, YES, NoRoomError
from simgen.ground.numerics.rounding import U
from simgen.layers.base import Choice
from simgen.layers.product.tile import WARPGROUP_ROWS, Tile

if TYPE_CHECKING:
    from simgen.ground.machine import Machine, Matrix, ProductRounding
    from simgen.ground.numerics.rounding import Array

LANES = 64  # lanes of an AMD wavefront
RUN_NBYTES = 16  # bytes of a factor that a lane reads at once
LDS_RATE = 128  # bytes that a unit reads from LDS in a cycle
L1_RATE = 64  # the same of its L1 cache
CUT_OFF = 20  # times at most that something is cut off for a sum of 8 or 16 products, on CDNA3

# (element type of the factors, m and n, k) of AMD's instructions that templates have.
MFMA = frozenset(
    (
        ("f32", 16, 4), ("f32", 32, 2),
        ("f16", 16, 16), ("f16", 32, 8), ("f16", 16, 32), ("f16", 32, 16),
        ("bf16", 16, 16), ("bf16", 32, 8), ("bf16", 16, 32), ("bf16", 32, 16),
        ("bf16", 16, 8), ("bf16", 32, 4),
        ("f8e4m3fnuz", 16, 32), ("f8e4m3fnuz", 32, 16), ("f8e5m2fnuz", 16, 32),
        ("f8e5m2fnuz", 32, 16), ("f8e4m3fn", 16, 32), ("f8e4m3fn", 32, 16), ("f8e5m2", 16, 32),
        ("f8e5m2", 32, 16),
        ("i8", 16, 16), ("i8", 32, 8), ("i8", 16, 32), ("i8", 32, 16), ("i8", 16, 64),
        ("i8", 32, 32),
    )
)  # fmt: skip
# (element type of the factors, m, n and k) of NVIDIA's.
MMA = frozenset((("f16", 16, 8, 16), ("bf16", 16, 8, 16)))
# The same of those that multiply only what waits in LDS, and lies along k.
MMA_ALONG_K = frozenset(
    (("i8", 16, 8, 32), ("tf32", 16, 8, 8), ("f8e4m3fn", 16, 8, 32), ("f8e5m2", 16, 8, 32))
)
F8 = frozenset(("f8e4m3fn", "f8e5m2"))
# Error of a wgmma step (four instructions in sequence), relative to the sum of absolute values.
# Each instruction truncates 32 products, the running sum and the result, at 2^-13 at most. Two
# mma.sync instructions with 16 products each lose less.
F8_LOST = (1 + 34 * 2.0**-13) ** 4 - 1
F8_COLUMNS = 128  # columns of an instruction of wgmma, at most
F8_REGISTERS = 50  # registers besides those of a step's sums and of a tile's sums
TF32_PLACE = 2.0**-10  # lowest bit of a TF32 factor; instructions truncate the lower bits
# The same of RDNA's, from gfx11 on.
WMMA = frozenset((name, 16, 16, 16) for name in ("f16", "bf16", "i8"))
RDNA = ("gfx11", "gfx12")
# Multiply-adds of a unit in a cycle, for one of float32 without dual issue, of gfx11 and of gfx12:
# V_WMMA in AMD's RDNA3 and RDNA4 Instruction Set Architecture.
WMMA_SPEEDUP = {True: 4.0, False: 8.0}
MOST_RESULTS = 64  # results of a lane: its 256 registers also hold both factors
# Rows and columns of tiles that gfx11's lanes, which hold each factor twice, have no registers for
# in every type and layout.
SPILLING = {(64, 128), (128, 64), (32, 64)}
# Multiply-adds of a unit in a cycle, for one of its vector units for float32, by bits of a factor:
# AMD CDNA 2 white paper, 2021, table 1.
SPEEDUP = {32: 2.0, 16: 8.0, 8: 8.0}

# (rows, columns) of a tile, and of each wavefront's part of it.
TILES = (
    (128, 128, 64, 64), (64, 128, 32, 64), (128, 64, 64, 32), (64, 64, 32, 32), (32, 64, 16, 32),
    (64, 32, 32, 16), (32, 64, 32, 32), (64, 32, 32, 32), (32, 32, 32, 32), (32, 32, 16, 16),
    (16, 64, 16, 16), (64, 16, 16, 16), (16, 16, 16, 16),
)  # fmt: skip

# mma.sync tiles: rows, columns, instructions per step, rows and columns of a warp's part, and the
# rate relative to a unit's float32 multiply-adds, measured on an H200.
MMA_TILES = (
    (128, 128, 2, 64, 64, 3.5), (64, 128, 2, 32, 64, 1.9), (128, 64, 2, 64, 32, 1.9),
    (64, 64, 4, 32, 32, 2.0), (64, 32, 4, 32, 16, 1.5), (32, 64, 4, 16, 32, 1.5),
    (32, 32, 4, 16, 16, 1.0), (64, 16, 4, 16, 16, 0.8), (16, 64, 4, 16, 16, 0.8),
)  # fmt: skip

# The same of those whose steps wait in LDS (templates/kernels/staged.h): rows and columns of a tile
# and of each warp's part, work-groups that a unit shall hold, the rate, and cycles of a step and of
# the end of a tile (tile.py).
STAGED_TILES = (
    (128, 256, 64, 64, 1, 8.4, 2383, 3439), (256, 128, 64, 64, 1, 8.2, 2287, 4218),
    (128, 128, 64, 64, 2, 7.5, 2085, 3892), (64, 128, 32, 64, 2, 6.0, 1541, 1612),
    (128, 64, 64, 32, 2, 5.9, 1413, 1444), (64, 64, 32, 32, 3, 3.2, 1277, 628),
    (32, 128, 32, 32, 2, 2.1, 781, 1499), (128, 32, 32, 32, 2, 2.1, 851, 850),
    (16, 128, 16, 32, 2, 1.5, 998, 546), (128, 16, 32, 16, 2, 1.5, 1082, 885),
    (16, 64, 16, 16, 2, 1.3, 537, 259), (64, 16, 16, 16, 2, 1.3, 472, 681),
)  # fmt: skip
# The same of wgmma (warpgroups.h), which has 64 rows for each warpgroup. Of one in a unit, more
# steps wait: that pays where there are few work-groups.
WARPGROUP_TILES = (
    (128, 256, 1, 11.6, 811, 3669), (256, 128, 1, 9.8, 904, 3609), (128, 128, 1, 9.4, 497, 2197),
    (128, 128, 2, 9.1, 1052, 2321), (64, 128, 1, 6.6, 285, 1529), (64, 128, 2, 6.2, 654, 1579),
    (128, 64, 1, 5.9, 331, 1238), (128, 64, 2, 5.0, 755, 1324), (64, 64, 3, 3.1, 808, 897),
)  # fmt: skip
# The same of pairs of work-groups.
PAIRED_TILES = (
    (128, 256, 1, 11.6, 774, 4771), (128, 128, 1, 9.4, 441, 2838), (64, 128, 1, 6.6, 309, 1634),
    (64, 128, 2, 6.2, 692, 1858),
)  # fmt: skip
# Cycles of a step and of a tile's end of 8-bit floats, where they differ: by rows, columns,
# work-groups of a unit and whether these are in pairs, with wgmma and with mma.sync.
F8_WARPGROUP_CYCLES = {
    (128, 256, 1, False): (903, 3880), (128, 256, 1, True): (1036, 3046),
    (128, 128, 1, False): (481, 2703), (128, 128, 1, True): (534, 2410),
    (64, 128, 1, False): (362, 1736), (64, 128, 1, True): (417, 1599),
    (64, 128, 2, False): (746, 1584), (64, 128, 2, True): (853, 1415),
    (128, 64, 1, False): (364, 1384), (128, 64, 2, False): (696, 1373),
    (64, 64, 3, False): (886, 998),
}  # fmt: skip
F8_STAGED_CYCLES = {
    (128, 256): (9280, 1556), (256, 128): (7655, 3043), (128, 128): (8127, 755),
    (64, 128): (4350, 561), (128, 64): (3701, 3234), (64, 64): (2551, 1159),
    (32, 128): (1728, 1414), (128, 32): (1669, 2015), (16, 128): (887, 1038),
    (128, 16): (825, 3350), (16, 64): (715, 104), (64, 16): (845, 101),
}  # fmt: skip
WARPGROUP = 128  # work-items
# The tiles that are faster where a warpgroup of its own moves their factors, and how much their
# rates change then, which no longer depend on how many work-items a unit has (tile.py).
MOVERS_GAIN = {(128, 128): 0.95, (64, 128): 1.25, (128, 64): 1.09, (64, 64): 1.2}
F8_MOVERS_GAIN = {(128, 256): 1.1, (128, 128): 1.3, (64, 128): 1.1, (128, 64): 1.45}
MOVERS_REGISTERS = 32  # registers of each work-item at a launch, besides its results
RATED_NBYTES = 2  # bytes of the factors that the rates were measured with
RATED_FMAS = 128  # float32 multiply-adds of a unit of the machine that they were measured on
STAGES = 8  # steps in LDS at most: they hide what memory takes
STAGED_NBYTES = 128  # bytes of a factor's row in a step
GROUP_NBYTES = 1024  # LDS bytes that CUDA reserves for each work-group


def instructions(machine: Machine, factors: str = "f32") -> tuple[Matrix, ...]:
    """Matrix instructions of the machine that kernels use, for factors of an element type."""
    of_type = [each for each in machine.matrix if each.factors == factors]
    if machine.is_nvidia:
        return tuple(each for each in of_type if (factors, each.m, each.n, each.k) in MMA)
    if machine.arch.startswith(RDNA):
        return tuple(each for each in of_type if (factors, each.m, each.n, each.k) in WMMA)
    if not machine.arch.startswith("gfx9"):
        return ()
    known = [each for each in of_type if each.m == each.n and (factors, each.m, each.k) in MFMA]
    deepest = {each.m: max(e.k for e in known if e.m == each.m) for each in known}
    return tuple(each for each in known if each.k == deepest[each.m])


def factors_of(left: DType, right: DType, *, shifted: bool = False) -> str:
    """The element type of both factors; or both, or that with zero points that are not 0: for these
    there are no matrix instructions."""
    if shifted:
        return f"{left} with zero points"
    return left.name if left == right else f"{left} and {right}"


def tiles(machine: Machine, factors: str = "f32") -> tuple[Tile, ...]:
    """The tiles of products of such factors by matrix instructions; none: they are not to be used.

    Raises:
        NoRoomError: they are asked for, and there are none.
    """
    if machine.use_matrix == NO or (machine.use_matrix != YES and factors == "f32"):
        return ()
    found = instructions(machine, factors)
    if _is_requested(machine) and not found:
        if factors in F8 and machine.is_nvidia and _has(machine, factors):
            return ()  # there are some of what lies along k: other passes have scalars
        if _along_k(machine, factors):
            raise NoRoomError(
                f"{BuildChoices.matrix} yes: {machine.name} multiplies {factors} where both "
                "factors lie along k and their rows are multiples of 16 bytes; of [Gemm] set "
                f"transb=true, or choose {BuildChoices.matrix} auto"
            )
        named = {each.factors for each in machine.matrix}
        having = sorted(e for e in named if instructions(machine, e) or _along_k(machine, e))
        types = f"; it has some for {', '.join(having)}" if having else ""
        raise NoRoomError(
            f"{BuildChoices.matrix} yes: {machine.name} has no matrix "
            f"instruction for {factors} that kernels "
            f"use{types}; choose another type or machine, or {BuildChoices.matrix} auto"
        )
    if machine.is_nvidia:
        return _mma_tiles(found)
    return _wmma_tiles(found, machine.arch) if machine.wavefront == 32 else _tiles(found)


@lru_cache(maxsize=64)
def _tiles(found: tuple[Matrix, ...]) -> tuple[Tile, ...]:
    made = []
    for each in found:
        nbytes = DType.table[each.factors].nbytes
        for rows, columns, down, across in TILES:
            if down % each.m or across % each.n:
                continue
            # For each k, what a wavefront reads of LDS, and a work-group of memory, beside what it
            # multiplies: one after the other, since few wavefronts hide little of each other.
            read = LANES * nbytes / LDS_RATE * (down + across) / (down * across)
            loaded = LANES * nbytes / L1_RATE * (rows + columns) / (rows * columns)
            rate = 1 / (1 / SPEEDUP[8 * nbytes] + read + loaded)
            tile = Tile(
                rows,
                columns,
                RUN_NBYTES // nbytes * (LANES // each.m),
                down // each.m,
                across * each.n // LANES,
                False,
                rate,
                each,
                nbytes,
            )
            # If the LDS of a large work-group leaves no room for a second one, work-items get more
            # than the 256 registers that gem5's GPUs have for each.
            if tile.block < 256 or tile.groups > 1:
                made.append(tile)
    return tuple(made)


@lru_cache(maxsize=64)
def _wmma_tiles(found: tuple[Matrix, ...], arch: str) -> tuple[Tile, ...]:
    """WMMA tiles. Wavefronts have parts as with MFMA; each lane has twice the results."""
    made, older = [], arch.startswith("gfx11")
    for each in found:
        nbytes = DType.table[each.factors].nbytes
        for rows, columns, down, across in TILES:
            if older and (rows, columns) in SPILLING:
                continue
            items = down // each.m, across * each.n // (LANES // 2)
            read = LANES * nbytes / LDS_RATE * (down + across) / (down * across)
            loaded = LANES * nbytes / L1_RATE * (rows + columns) / (rows * columns)
            rate = 1 / (1 / WMMA_SPEEDUP[older] + read + loaded)
            depth = RUN_NBYTES // nbytes * 4
            tile = Tile(rows, columns, depth, *items, False, rate, each, nbytes, LANES // 2, older)
            if tile.block >= LANES and tile.item_rows * tile.item_columns <= MOST_RESULTS:
                made.append(tile)
    return tuple(made)


def staged(
    machine: Machine, factors: str, left: tuple[int, bool], right: tuple[int, bool]
) -> tuple[Tile, ...]:
    """Members of `tiles` whose steps are staged in LDS, as far as the machine has room.

    They move runs of 16 bytes. `left` and `right` are of each factor the extent along which its
    elements lie side by side, and whether that is k.
    """
    if not machine.is_nvidia or machine.use_matrix == NO:
        return ()
    found = instructions(machine, factors)
    run = RUN_NBYTES // DType.table[factors].nbytes if " " not in factors else 1
    if factors == DType.F32.name and machine.use_matrix == TF32:
        factors = TF32
    if factors in F8 and not _is_requested(machine):  # they lose bits
        return ()
    if left[1] and right[1]:
        found += _along_k(machine, factors)
    if not found:
        return ()
    if left[0] % run or right[0] % run:
        return ()
    made = _staged_tiles(found, machine)
    made = (*_warpgroup_tiles(factors, machine), *made)
    return tuple(
        each
        for each in made
        if (left[1] or each.rows % each.depth == 0) and (right[1] or each.columns % each.depth == 0)
    )


@lru_cache(maxsize=64)
def _staged_tiles(found: tuple[Matrix, ...], machine: Machine) -> tuple[Tile, ...]:
    made = []
    for each in found:
        nbytes = _nbytes(each.factors)
        scale = RATED_FMAS / machine.fmas * RATED_NBYTES / nbytes
        for rows, columns, down, across, groups, rate, step, end in STAGED_TILES:
            room = min(machine.lds_nbytes // groups - GROUP_NBYTES, machine.asked_lds_nbytes)
            stages = min(STAGES, room // ((rows + columns) * STAGED_NBYTES))
            if stages < 2:
                continue
            items = down // 8, across // 4
            depth = STAGED_NBYTES // nbytes
            tile = Tile(rows, columns, depth, *items, False, rate * scale, each, nbytes)
            cycles = F8_STAGED_CYCLES[rows, columns] if each.factors in F8 else (step, end)
            tile = replace(tile, step_cycles=cycles[0], end_cycles=cycles[1])
            made.append(replace(tile, stages=stages, at_once=groups))
    return tuple(made)


@lru_cache(maxsize=64)
def _warpgroup_tiles(factors: str, machine: Machine) -> tuple[Tile, ...]:
    made = []
    nbytes = _nbytes(factors)
    found = {(each.n, each.k): each for each in machine.matrix if _of_warpgroups(each, factors)}
    shapes = [(*shape, False) for shape in WARPGROUP_TILES]
    shapes += [(*shape, True) for shape in PAIRED_TILES]
    for rows, columns, groups, rate, step, end, paired in shapes:
        each = found.get((multiplied_at_once(columns, factors), 32 // nbytes))
        if factors in F8 and _f8_registers(columns) > _registers(machine, groups * 2 * rows):
            continue
        room = min(machine.lds_nbytes // groups - GROUP_NBYTES, machine.asked_lds_nbytes)
        stages = min(STAGES, room // ((rows + columns) * STAGED_NBYTES + 16))
        if each and stages >= 2:
            depth = STAGED_NBYTES // nbytes
            rate *= RATED_NBYTES / nbytes
            tile = Tile(rows, columns, depth, 2, columns // 4, False, rate, each, nbytes)
            cycles = step, end
            if factors in F8:
                cycles = F8_WARPGROUP_CYCLES.get((rows, columns, groups, paired), cycles)
            tile = replace(tile, stages=stages, at_once=groups, paired=paired)
            tile = replace(tile, step_cycles=cycles[0], end_cycles=cycles[1])
            tile = with_movers(tile, machine)
            if tile.movers or not paired:
                made.append(tile)
    return tuple(made)


def multiplied_at_once(columns: int, factors: str) -> int:
    """Columns of a tile that one wgmma instruction multiplies."""
    return min(columns, F8_COLUMNS) if factors in F8 else columns


def with_movers(found: Tile, machine: Machine) -> Tile:
    """With a warpgroup that moves what the others multiply, where that pays and registers are left:
    so many are launched with as of the smallest share, and movers leave theirs to the others."""
    assert found.matrix
    gains = F8_MOVERS_GAIN if found.matrix.factors in F8 else MOVERS_GAIN
    gain = gains.get((found.rows, found.columns), 1.0 if found.paired else 0.0)
    launched = machine.registers * machine.wavefront * machine.simds // found.at_once
    launched //= found.block + WARPGROUP
    held = found.item_rows * found.item_columns
    rate = found.rate / gain if found.movers else found.rate
    if not gain or launched < held + MOVERS_REGISTERS:
        return replace(found, movers=0, rate=rate)
    return replace(found, movers=WARPGROUP, rate=rate * gain)


def _f8_registers(columns: int) -> int:
    """Registers of a work-item, which holds every 128th result of 64 rows of so many columns."""
    return (columns + min(columns, F8_COLUMNS)) // 2 + F8_REGISTERS


def _registers(machine: Machine, items: int) -> int:
    """Maximum registers of each work-item, with so many work-items in a unit."""
    all_of_unit = machine.simds * machine.wavefront * machine.registers
    return min(machine.item_registers, all_of_unit // items)


def _nbytes(factors: str) -> int:
    """Size of an element in LDS, in bytes."""
    return DType.table[DType.F32.name if factors == TF32 else factors].nbytes


def _of_warpgroups(each: Matrix, factors: str) -> bool:
    return each.m == WARPGROUP_ROWS and each.factors == factors


@lru_cache(maxsize=64)
def _mma_tiles(found: tuple[Matrix, ...]) -> tuple[Tile, ...]:
    """mma.sync tiles: 16 x 16 results take two instructions, and a lane holds 2 x 4."""
    made = []
    for each in found:
        nbytes = DType.table[each.factors].nbytes
        for rows, columns, deep, down, across, rate in MMA_TILES:
            depth = deep * 32 // nbytes
            items = down // 8, across // 4
            made.append(Tile(rows, columns, depth, *items, False, rate, each, nbytes))
    return tuple(made)


def keeps_factors(machine: Machine, *factors: Array, dtype: DType = DType.F32) -> bool:
    """Whether matrix instructions multiply factors as they are: tf32 has all bits of float32 ones.
    Of 8-bit floats they lose bits of sums."""
    if _loses_bits(dtype, machine):
        return False
    if machine.use_matrix != TF32:
        return True
    cut = (2 * np.frexp(each)[0] / TF32_PLACE for each in factors)  # 11 bits before the point
    return all(bool((each == np.rint(each)).all()) for each in cut)


def explain_matrix(
    machine: Machine, factors: str = "f32", tile: Tile | None = None
) -> tuple[Choice, ...]:
    """Whether matrix instructions multiply, and why; nothing where the machine has none. `tile` is
    what is chosen, where tiles may be `staged`."""
    flag = BuildChoices.matrix.flag
    if machine.use_matrix == TF32 and factors == DType.F32.name:
        if tile is not None and tile.matrix:
            return (Choice("matrix cores", "yes", f"{flag} tf32: factors are cut off to 11 bits"),)
        why = "runs of 16 bytes along k, in both" if tile is not None else "matrix products alone"
        return (Choice("matrix cores", "no", f"tf32 is for {why}"),)
    if tile is not None and tile.matrix and not instructions(machine, factors):
        return (Choice("matrix cores", "yes", f"{machine.name} has them for {factors} along k"),)
    if not instructions(machine, factors):
        return ()
    if tiles(machine, factors):
        has = f"{machine.name} has them for {factors}"
        return (Choice("matrix cores", "yes", f"{flag} yes" if _is_requested(machine) else has),)
    auto = f"{factors} is multiplied and added up as on machines without, unless {flag} yes"
    return (Choice("matrix cores", "no", auto if machine.use_matrix == AUTO else f"{flag} no"),)


def lost(a: Array, b: Array, dtype: DType, machine: Machine) -> Array | float:
    """What matrix instructions of a machine may change each sum of |a| |b| by, beside roundings of
    float32: |a| is (m, k), |b| (k, n), of elements of a type."""
    found: Array | float = 0.0
    least = 2.0**dtype.least_exponent
    if _loses_bits(dtype, machine):
        return F8_LOST * (_counted(a, least) @ _counted(b, least))
    if biased(dtype, machine):
        counted_a, counted_b = _counted(a, least), _counted(b, least)
        if counted_a is not a or counted_b is not b:
            found = found + CUT_OFF * U * (counted_a @ counted_b - a @ b)
    if machine.arch == "gfx90a" and dtype.is_narrow and not machine.name.startswith(MODELS):
        small_a, small_b = np.where(a < least, a, 0.0), np.where(b < least, b, 0.0)
        if small_a.any() or small_b.any():  # which CDNA2 takes for zeros
            found = found + small_a @ b + a @ small_b
    if dtype == DType.F32 and machine.use_matrix == TF32:
        found = found + (2 * TF32_PLACE + TF32_PLACE**2) * (a @ b)
    for each in machine.rounds_products:
        if each.factors == dtype.name:
            found = found + _rounded_products(a, b, dtype, each)
    return found


def _counted(a: Array, least: float) -> Array:
    """What exponents say of absolute values: no less than the least normal number, or zero."""
    small = (a > 0) & (a < least)
    return np.where(small, least, a) if small.any() else a


def _rounded_products(a: Array, b: Array, dtype: DType, by: ProductRounding) -> Array:
    """The same where each product is rounded to the type of the factors, as gem5 does: convertMXFP
    of src/arch/amdgpu/common/dtype.

    24.0 rounds up where the first bit that is dropped is set, ties too: half a place at most.
    Below the least normal number, that bit is not seen where it is the implicit one: a place of
    that number at most.

    24.1 and 25.0 round by three bits and a sticky one: ties go to the even number below, so that an
    odd one loses one place more: 1.5 places at most. Numbers below the least normal one have the
    places of that, and what is up to an eighth of a place above a tie may be taken for one. In 25.1
    ties go down: half a place at most; below the least normal number 0.625 of f16, 1 of bf16.

    In all, where a shift of 32 bits and more would be needed, below 2^-31 of the least normal
    number, x86 shifts by the rest modulo 32, and leaves anything that is subnormal. What is too
    large for the type gets a smaller exponent: then the sum is anything. Subnormal factors of
    bf16, whose exponents are those of float32, are off by what they are.
    """
    least, place = 2.0**dtype.least_exponent, 2.0**-dtype.mantissa
    found: Array = place * (by.relative * (a @ b) + by.absolute * a.shape[1] * least)
    if least <= FLUSHED:
        found += np.where(a < least, a, 0.0) @ b + 2 * (a @ np.where(b < least, b, 0.0))
    if least > FLUSHED:  # else the type's exponents are those of float32
        lowest = [float(np.min(t, initial=np.inf, where=t > 0)) for t in (a, b)]
        if lowest[0] * lowest[1] < least * 2.0**-30:
            found += a.shape[1] * least
        largest = np.outer(a.max(axis=1), b.max(axis=0))
        found = np.where(largest >= dtype.largest, np.inf, found)
    return found


def lost_of(terms: int, a: Array, b: Array, dtype: DType, machine: Machine) -> tuple[float, float]:
    """The same of sums of so many products of any two elements, of which absolute values are given:
    what it is relative to the sum of the products' absolute values, and what beside that."""
    relative = absolute = 0.0
    largest, least = (float(t.max(initial=0.0)) for t in (a, b)), 2.0**dtype.least_exponent
    most, other = largest
    if _loses_bits(dtype, machine):
        return F8_LOST, F8_LOST * terms * least * (most + other + least)
    if biased(dtype, machine):
        some = [bool(((t > 0) & (t < least)).any()) for t in (a, b)]
        absolute += CUT_OFF * U * terms * least * (some[0] * other + some[1] * most)
    if machine.arch == "gfx90a" and dtype.is_narrow and not machine.name.startswith(MODELS):
        some = [bool(((t > 0) & (t < least)).any()) for t in (a, b)]
        absolute += terms * least * (some[0] * other + some[1] * most)
    for each in machine.rounds_products:
        if each.factors != dtype.name:
            continue
        place = 2.0**-dtype.mantissa
        relative += each.relative * place
        absolute += each.absolute * place * terms * least
        if least > FLUSHED:
            absolute += terms * least  # where a product may be so small that it becomes anything
            absolute += np.inf if most * other >= dtype.largest else 0.0
        else:
            some = [bool(((t > 0) & (t < least)).any()) for t in (a, b)]
            absolute += terms * least * (some[0] * other + 2 * some[1] * most)
    return relative, absolute


def biased(dtype: DType, machine: Machine) -> bool:
    """Whether sums are cut off downwards: those of narrow floats on CDNA3 and CDNA4, and those of
    factors of which lower bits are cut off."""
    if (dtype == DType.F32 and machine.use_matrix == TF32) or _loses_bits(dtype, machine):
        return True
    arch, model = machine.arch, machine.name.startswith(MODELS)
    return dtype.is_narrow and dtype.is_float and arch in ("gfx942", "gfx950") and not model


def _loses_bits(dtype: DType, machine: Machine) -> bool:
    """Whether the machine's matrix instructions have fewer bits for sums than float32 has."""
    return dtype.name in F8 and machine.is_nvidia and _is_requested(machine)


def _along_k(machine: Machine, factors: str) -> tuple[Matrix, ...]:
    """Matrix instructions of an NVIDIA GPU that need factors contiguous along k."""
    of_type = (each for each in machine.matrix if each.factors == factors)
    return tuple(each for each in of_type if (factors, each.m, each.n, each.k) in MMA_ALONG_K)


def _has(machine: Machine, factors: str) -> bool:
    return any(each.factors == factors for each in machine.matrix)


def _is_requested(machine: Machine) -> bool:
    return machine.use_matrix == YES
