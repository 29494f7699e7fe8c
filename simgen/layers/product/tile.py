"""How a matrix product is cut into tiles: what kernels that include tile.h have in common.

    C (m, n) = sum over k of A (m, k) B (k, n)

A work-group computes a tile of C, `rows` x `columns`, in steps of `depth` products; each of its
work-items holds `item_rows` x `item_columns` results in registers. Where there are too few tiles to
fill a GPU and k is long, k is cut into chunks (split-K): work-groups leave partial sums, which a
second kernel adds in order.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import ceil, gcd

from simgen.ask.build import BuildChoices
from simgen.ground.machine import Machine, Matrix, NoRoomError
from simgen.layers.base import CHUNKS, Choice

SPLITS = 32  # chunks of k at most
MANY_ROUNDS = 4  # rounds of work-groups from which on their number need not be a whole one
CUT = 1.05  # times longer than estimated, where k is cut: only what gains more is worth it
UNIT_LDS = 65536  # bytes of LDS of a compute unit with matrix instructions
PADDING = 4  # floats after a row of a tile in LDS
WARPGROUP_ROWS = 64  # rows of C in an instruction of a warpgroup
WORDS = (4, 4, 4)  # bytes of an element of A, of B and of C


@dataclass(frozen=True)
class Tile:
    """Extents of a work-group's tile, and of what each work-item holds of it."""

    rows: int
    columns: int
    depth: int  # products in a step, multiple of 4
    item_rows: int  # multiple of 4, where there is no matrix instruction
    item_columns: int  # multiple of 4, but of complex products (complex.h)
    ahead: bool  # whether an item reads the elements of the next k while it multiplies one
    rate: float  # measured fraction of the machine's multiply-add rate, with enough full tiles
    matrix: Matrix | None = None  # the instruction that multiplies (fragment.py), if one does
    nbytes: int = 4  # bytes of a factor's element in LDS
    wavefront: int = 0  # wavefront size of the machines that it is for; 0: any
    twice: bool = False  # whether both halves of a wavefront give an instruction the same factors
    stages: int = 0  # steps that wait in LDS, which a launch asks for (staged.h); 0: two, as below
    at_once: int = 0  # work-groups that a unit shall hold, if not as many as `groups` says
    movers: int = 0  # work-items beside `block`, which move what those multiply (warpgroups.h)
    paired: bool = False  # whether two work-groups, one tile below the other, share columns of B
    # Where steps wait in LDS: cycles of a step of all work-groups that a unit holds, of their end.
    step_cycles: int = 0
    end_cycles: int = 0

    @cached_property
    def block(self) -> int:
        """Work-items of a work-group."""
        return self.rows // self.item_rows * (self.columns // self.item_columns)

    @cached_property
    def groups(self) -> int:
        """Work-groups that a compute unit shall hold at least, a launch bound.

        A large work-group's items get 128 registers, so that there is a second one to run while
        one waits at a barrier. Of the small ones more than two fit in any case.
        """
        if self.at_once:
            return self.at_once
        wanted = (512 if self.block == 256 else 256) // self.block
        return min(wanted, UNIT_LDS // self.lds_nbytes) if self.matrix else wanted

    @cached_property
    def lds_nbytes(self) -> int:
        """LDS of a work-group in bytes, at most: tiles of both factors for 2 or all stages."""
        if self.stages:
            barriers = 16 * self.stages if self.by_warpgroups else 0
            return self.stages * (self.rows + self.columns) * self.nbytes * self.depth + barriers
        if self.matrix:  # there are rows along k
            return 2 * (self.rows + self.columns) * (self.nbytes * self.depth + 4 * PADDING)
        return 2 * 4 * self.depth * (self.rows + self.columns + 2 * PADDING)

    @property
    def busy(self) -> int:
        """Work-items of 8 x 8 results that keep a unit as busy as a work-group does.

        While a work-item of more results waits, it has the more multiply-adds to do.
        """
        return self.block if self.matrix else max(self.block, self.rows * self.columns // 64)

    def resident(self, machine: Machine) -> int:
        """Work-groups that a unit holds, by their registers, wavefronts and LDS; 0: none fits."""
        if self.wavefront not in (0, machine.wavefront):
            return 0
        registers = self.item_rows * self.item_columns + 96  # estimated registers of a work-item
        # Each SIMD unit has its own registers.
        wavefronts = machine.simds * min(machine.wavefronts, machine.registers // registers)
        held = max(self.groups, wavefronts * machine.wavefront // self.block)
        return min(held, self._most(machine))

    def _most(self, machine: Machine) -> int:
        """Work-groups of a unit, by LDS and by places for wavefronts; registers are unknown before
        compiling."""
        if self.lds_nbytes > (
            machine.asked_lds_nbytes if self.stages else machine.group_lds_nbytes
        ):
            return 0
        places = machine.simds * machine.wavefronts * machine.wavefront // self.block
        return min(places, machine.lds_nbytes // self.lds_nbytes)

    @property
    def constants(self) -> tuple[tuple[str, int | str], ...]:
        """What constants/tile.h declares, except for how elements are loaded and stored."""
        return (
            ("tile_m", self.rows),
            ("tile_n", self.columns),
            ("tile_k", self.depth),
            ("item_m", self.item_rows),
            ("item_n", self.item_columns),
            ("launch_groups", self.groups),
            ("movers", self.movers),
            ("ahead", int(self.ahead)),
            ("multiply", self.multiply),
            ("matrix_side", self.matrix.m if self.matrix else 16),
            ("matrix_each", self.each),
        )

    @property
    def each(self) -> int:
        """Elements of a factor that each lane gives to a matrix instruction."""
        lanes = {"mfma": 64, "mma": 32, "wmma": 16 if self.twice else 32}
        return self.matrix.m * self.matrix.k // lanes[self.multiply] if self.matrix else 1

    @property
    def by_warpgroups(self) -> bool:
        """Whether wgmma multiplies, in work-groups of whole warpgroups (warpgroups.h)."""
        return self.matrix is not None and self.matrix.m == WARPGROUP_ROWS

    @property
    def multiply(self) -> str:
        """What multiplies (templates/kernels/fragment.h)."""
        if not self.matrix:
            return "scalars"
        if self.by_warpgroups:  # where lanes hold results as by mma.sync
            return "mma"
        square = "wmma" if self.wavefront == 32 else "mfma"
        return square if self.matrix.m == self.matrix.n else "mma"

    def roundings(self, products: int) -> int:
        """Maximum roundings in a sum of so many products, besides those of chunks (fragment.py)."""
        return 2 * products if self.matrix else products

    @property
    def unordered(self) -> int:
        """Neighbours in k whose order in the sum is not that of k; 1: all have theirs."""
        return self.depth if self.matrix else 1

    def __str__(self) -> str:
        """Part of a kernel's name; tells tiles apart."""
        how = f"i{self.item_rows}" if self.item_rows > 8 else ""
        if self.matrix:
            how = f"_m{self.matrix.m}x{self.matrix.k}"
        if self.by_warpgroups:
            how = "_wg"
        if self.multiply == "wmma":  # which is not MFMA, and differs between machines
            how += f"w{self.each}"
        if self.multiply == "mma":  # parts of warps come in several sizes
            how += f"w{self.block // 32}"
        if self.stages:
            how += f"s{self.stages}" + "p" * self.paired
        return f"{self.rows}x{self.columns}x{self.depth}{how}"

    def grid(self, m: int, n: int) -> tuple[int, int]:
        """Tiles along n and along m; of pairs, those below the last one count."""
        pair = 1 + self.paired
        return ceil(n / self.columns), ceil(m / (pair * self.rows)) * pair


# Rates are fitted to the times of 3,000 tiles with chunks, of 60 products and convolutions, on an
# H200, as what data/machines/h200.json calls fitted: what is chosen takes 3 to 5 % longer than
# the best, on average. Elsewhere the kernels are the same, and the machine says the rest.
#
# Of an NVIDIA GPU, two banks of registers serve three operands: 16 x 8 results leave the compiler
# room to avoid all conflicts, of 8 x 8 one multiply-add in 12 has one (seen in machine code).
TILES = (
    Tile(128, 128, 8, 16, 8, True, 0.975, wavefront=32),
    Tile(128, 128, 8, 8, 8, True, 0.92),
    Tile(64, 128, 16, 8, 8, False, 0.945),
    Tile(64, 128, 8, 8, 8, False, 0.93),
    Tile(128, 64, 8, 8, 8, False, 0.935),
    Tile(64, 64, 16, 8, 4, True, 0.8),
    Tile(32, 128, 8, 8, 8, False, 0.74),
    Tile(64, 32, 16, 4, 4, True, 0.65),
    Tile(32, 64, 16, 4, 4, True, 0.6),
    Tile(32, 32, 16, 4, 4, True, 0.54),
    Tile(64, 16, 16, 4, 4, True, 0.49),
    Tile(16, 64, 16, 4, 4, True, 0.46),
)


# What tiles whose steps wait in LDS take beside their own cycles: fitted, together with these, to
# the times of 2,700 tiles with chunks of 245 random products (benchmarks/native/any_shape.py), on
# an H200. Of products that were not fitted to, the chosen one takes 2.3 % longer than the best.
TOGETHER = 0.845  # power of the share of `at_once` work-groups in the cycles of a step
BETWEEN_LINES = {"lines": 1.0, "sectors": 1.57, "none": 3.35}  # by what rows begin at multiples of
STAGED_L2 = 5.8  # times a machine's l2_rate: bytes of rows in a cycle
STAGED_DRAM = 0.72  # share of the time that memory takes which nothing hides
STAGED_SUM = 1.1, 0.56  # second kernel: times launch_cycles; times l2_rate
STAGED_STORE = 3.0  # times a unit's share of l2_rate: bytes of results in a cycle
SECTOR, LINE = 32, 128  # bytes


def between_lines(row_nbytes: int) -> float:
    """How much longer rows take from L2 than rows that begin where lines do: TMA reads 128 bytes of
    each in a step."""
    starts = "lines" if row_nbytes % LINE == 0 else "none" if row_nbytes % SECTOR else "sectors"
    return BETWEEN_LINES[starts]


@dataclass(frozen=True)
class Cut:
    """A tile, and the chunks of k."""

    tile: Tile
    chunk: int  # k of a work-group; a multiple of tile.depth if there are several
    splits: int  # number of chunks, none of them empty


@lru_cache(maxsize=1024)  # a layer's shapes, parameters and every step ask for the same ones
def best_cut(
    m: int,
    n: int,
    k: int,
    batch: int = 1,
    *,
    machine: Machine,
    tiles: tuple[Tile, ...] = TILES,
    splits: int = SPLITS,
    nbytes: tuple[int, int, int] = WORDS,
    rows: tuple[float, float] = (1.0, 1.0),
) -> Cut:
    """The cut of a product, or of `batch` equal ones, that should take the least time.

    `m`, `n` and `k` are the product's extents; k is cut into `splits` chunks at most. `nbytes` are
    of an element of A, of B and of C, `rows` of A and B, how much longer they take (between_lines).

    Raises:
        NoRoomError: the machine has no room for a work-group of any tile.
    """
    fitting = [tile for tile in tiles if tile.resident(machine)]
    if not fitting:
        least = min(tile.lds_nbytes for tile in tiles)
        raise NoRoomError(
            f"the smallest tile of a product takes {least} bytes of LDS and a place for a "
            f"wavefront, and {machine.label} has {machine.group_lds_nbytes} bytes for a "
            f"work-group; plan for another machine with {BuildChoices.plan_for}"
        )
    most = partial(machine)
    options = [
        option
        for tile in fitting
        for option in _chunks(tile, k, 1 if _enough(tile, m, n, batch, machine) else splits)
        if option.splits == 1 or option.splits * m * n * batch <= most
    ]

    def time(option: Cut) -> tuple[float, int]:
        """Sort key: time waiting for memory; ties go to the least computation."""
        across, down = option.tile.grid(m, n)
        computed = across * option.tile.columns * down * option.tile.rows
        return cycles(option, m, n, k, batch, machine, nbytes, rows), computed

    return min(options, key=time)


def explain_cut(
    m: int,
    n: int,
    k: int,
    batch: int = 1,
    *,
    machine: Machine,
    tiles: tuple[Tile, ...] = TILES,
    splits: int = SPLITS,
    nbytes: tuple[int, int, int] = WORDS,
    rows: tuple[float, float] = (1.0, 1.0),
) -> tuple[Choice, ...]:
    """What `best_cut` chooses, and why."""
    sides = m, n, k, batch
    found = best_cut(*sides, machine=machine, tiles=tiles, splits=splits, nbytes=nbytes, rows=rows)
    whole = best_cut(*sides, machine=machine, tiles=tiles, splits=1, nbytes=nbytes, rows=rows)
    across, down = found.tile.grid(m, n)
    groups = across * down * batch * found.splits
    least = cycles(found, *sides, machine, nbytes, rows)
    size = Choice(
        "tile",
        str(found.tile),
        f"{groups} work-groups on {machine.units} units, about {least:.3g} cycles",
    )
    if found.splits == 1:
        return (size, Choice(CHUNKS, "1", "more would not pay for a second kernel"))
    alone = cycles(whole, *sides, machine, nbytes, rows)
    return (
        size,
        Choice(
            CHUNKS,
            f"{found.splits} of {found.chunk}",
            f"whole, {whole.tile} idles units: {alone:.3g} cycles",
        ),
    )


def partial(machine: Machine) -> int:
    """Partial sums at most: as many as stay in the L2 cache, a power of two."""
    return 1 << (max(1, machine.l2_nbytes // 4).bit_length() - 1)


def _enough(tile: Tile, m: int, n: int, batch: int, machine: Machine) -> bool:
    """Whether the last work-groups, which leave units idle, are few beside all of them."""
    across, down = tile.grid(m, n)
    return across * down * batch >= 4 * machine.units


def _chunks(tile: Tile, k: int, splits: int) -> list[Cut]:
    """One for each number of chunks that can be had without an empty one."""
    steps = ceil(k / tile.depth)
    each = sorted({ceil(steps / wanted) for wanted in range(1, min(splits, steps) + 1)})
    found = [Cut(tile, some * tile.depth, ceil(steps / some)) for some in each]
    return [option if option.splits > 1 else Cut(tile, k, 1) for option in found]


def cycles(
    option: Cut,
    m: int,
    n: int,
    k: int,
    batch: int,
    machine: Machine,
    nbytes: tuple[int, int, int] = WORDS,
    rows: tuple[float, float] = (1.0, 1.0),
) -> float:
    """Estimate of the time."""
    if option.tile.step_cycles:
        return _staged_cycles(option, m, n, k, batch, machine, nbytes, rows)
    left, right, result = nbytes
    # However many units work, matrices come from memory.
    moved = batch * (left * m * k + right * k * n) * machine.clock / machine.dram_rate
    stored = 4 if option.splits > 1 else result
    total = max(_busy(option, m, n, k, batch, machine, stored), moved)
    if option.splits > 1:
        sums = (4 * option.splits + result) * batch * m * n
        total = CUT * total + machine.launch_cycles + sums / machine.l2_rate
    return total


def _staged_cycles(
    option: Cut,
    m: int,
    n: int,
    k: int,
    batch: int,
    machine: Machine,
    nbytes: tuple[int, int, int],
    rows: tuple[float, float],
) -> float:
    """The same of tiles whose steps wait in LDS: what units compute, what they load, what memory
    moves and what is stored hide little of each other, since all of it begins at once."""
    tile, (left, right, result) = option.tile, nbytes
    across, down = tile.grid(m, n)
    groups: int = across * down * option.splits * batch
    of_unit, held = ceil(groups / machine.units), tile.resident(machine)
    steps = ceil(min(option.chunk, k) / tile.depth)
    full, rest = float(of_unit // held), of_unit % held
    if full >= MANY_ROUNDS:
        full, rest = of_unit / held, 0
    total: float = steps * tile.step_cycles * (full + (rest / held) ** TOGETHER)
    total += ceil(of_unit / held) * tile.end_cycles
    # Each of a pair brings half of the columns of both.
    of_step = tile.rows * rows[0] + tile.columns * rows[1] / (1 + tile.paired)
    total += groups * steps * of_step * tile.depth * tile.nbytes / (STAGED_L2 * machine.l2_rate)
    moved = batch * (left * m * k + right * k * n) * machine.clock / machine.dram_rate
    stored = of_unit * tile.rows * tile.columns * (4 if option.splits > 1 else result)
    total += STAGED_DRAM * moved + stored / (STAGED_STORE * machine.l2_rate / machine.units)
    if option.splits > 1:
        launch, rate = STAGED_SUM
        sums = (4 * option.splits + result) * batch * m * n
        total += launch * machine.launch_cycles + sums / (rate * machine.l2_rate)
    return total


def _busy(option: Cut, m: int, n: int, k: int, batch: int, machine: Machine, stored: int) -> float:
    """What the compute unit with the most work-groups has to do, in cycles.

    `stored` are bytes of a result. It runs as many at a time as it holds, and then the rest.
    """
    tile, of_unit = option.tile, machine.l2_rate / machine.units  # bytes in a cycle
    across, down = tile.grid(m, n)
    groups = ceil(across * down * option.splits * batch / machine.units)
    steps = ceil(min(option.chunk, k) / tile.depth) * tile.depth
    resident = tile.resident(machine)
    full, rest = float(groups // resident), groups % resident
    if full >= MANY_ROUNDS:  # they do not end together: others take their places one by one
        full, rest = groups / resident, 0
    total = 0.0
    for together, rounds in ((resident, full), (rest, bool(rest))):
        # Few work-items leave a unit idle while they wait for LDS and memory, or for each other.
        filled = machine.alone + (1 - machine.alone) * together * tile.busy / machine.busy
        rate = tile.rate * (1.0 if tile.movers else min(1.0, filled))
        each = together * tile.rows * tile.columns * steps / (machine.fmas * rate)
        # The more work-groups there are, the better one hides the others' stores.
        stores = together * tile.rows * tile.columns * stored / of_unit
        total += rounds * (each + stores / max(1.0, together / 2))
    return total


def width(extent: int) -> int:
    """Elements of one load from rows of `extent` elements that lie one behind the other."""
    return gcd(extent, 4)
