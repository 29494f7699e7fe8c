"""How products of tensors with channels last are cut: tiles, work-groups in a unit, and chunks.

Beside what multiplies (tile.py), it counts what a work-group waits for by itself, and that several
in a unit wait at the same time: many of these products take as long as their memory does.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, prod
from typing import TYPE_CHECKING

from simgen.layers.product import fragment, tile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from simgen.ground.machine import Machine

Sides = tuple[int, int, int, int]  # m, n, k, and how many such products

LATENCY = 3000  # cycles of a work-group before it multiplies and around its stores
FULL = 4  # steps that wait in LDS, in all work-groups of a unit, from which on more do not matter
MANY_ROUNDS = 4  # rounds of work-groups from which on their number need not be a whole one
ROUNDS = 1.3  # times longer than one alone, work-groups that others come after
LEAST_STREAMED = 3  # steps that wait in LDS, of work-groups that compute several tiles
MOST_HELD = 4  # work-groups in a unit
# registers of a work-item besides its results; key: uses wgmma
OTHER_REGISTERS = {True: 56, False: 112}
PARTIAL_NBYTES = 16  # storing a partial sum takes as long as storing so many bytes of results
APART_NBYTES = 4  # the same of a result among zeros, and of each of these
MOVED = 1.3  # times longer than it takes by itself, what comes from memory
NARROW = 64  # columns of tiles
SUMS = 8.0  # times longer than its bytes take, a kernel that adds partial sums
SHARES = 16  # numbers of chunks that are compared
MIN_STEPS = 4  # steps of a work-group that shares a sum
TWINS = 2  # phases of columns that one work-group computes, and the results of a work-item, then
MOST_TWIN_RESULTS = 64


@dataclass(frozen=True)
class Circumstances:
    """What is known of a product beside its sides."""

    crowded: bool = True  # whether chunks may be as many as units hold, and not one for each
    moved: int = 0  # bytes that come from memory, however it is cut
    streaming: bool = False  # whether work-groups wait for these together, and not for each other
    narrow: float = 1.0  # times that tiles of NARROW columns are faster than in other products
    filled: int = 1  # results and zeros beside them, for each result


@dataclass(frozen=True)
class TapCut:
    """How a product is cut, and its k or columns for each tap."""

    cut: tile.Cut
    of_tap: int
    streams: int = 0  # work-groups that compute several tiles each; 0: one for each

    @property
    def tile(self) -> tile.Tile:
        return self.cut.tile

    @property
    def lds_nbytes(self) -> int:
        """LDS of a work-group in bytes: tiles that wait to be multiplied, plus results when several
        tiles are streamed, since the next tile is loaded meanwhile.
        """
        return self.tile.lds_nbytes + (_results_nbytes(self.tile) if self.streams else 0)


def _held(
    tiles: tuple[tile.Tile, ...], steps: int, machine: Machine, *, twins: bool
) -> Iterator[tile.Tile]:
    """Each with as many work-groups in a unit as there is room for, and one, and between."""
    best: dict[tuple[int, int], tile.Tile] = {}
    for each in tiles:
        known = best.get((each.rows, each.columns))
        if known is None or known.rate < each.rate:
            best[each.rows, each.columns] = each
    registers = machine.registers * machine.wavefront * machine.simds
    for each in best.values():
        results = each.item_rows * each.item_columns * (TWINS if twins else 1)
        if twins and results > TWINS * MOST_TWIN_RESULTS:
            continue
        for groups in range(1, MOST_HELD + 1):
            room = min(machine.lds_nbytes // groups - fragment.GROUP_NBYTES,
                       machine.asked_lds_nbytes)  # fmt: skip
            of_step = (each.rows + each.columns) * fragment.STAGED_NBYTES + 16
            stages = min(fragment.STAGES, max(2, steps), room // of_step)
            busy = each.block * groups * (results + OTHER_REGISTERS[each.by_warpgroups])
            if stages < 2 or (groups > 1 and busy > registers):
                break
            made = replace(each, stages=stages, at_once=groups)
            if each.by_warpgroups:
                made = replace(made, movers=0) if twins else fragment.with_movers(made, machine)
            yield made


def _results_nbytes(of: tile.Tile) -> int:
    """LDS for 16-bit results in bytes: 8 rows for each warp, with 16 bytes between rows."""
    return of.block // 32 * 8 * (of.columns * 2 + 16)


def _streamed(found: TapCut, tiles: int, machine: Machine) -> TapCut | None:
    """With work-groups that compute several of so many tiles, where wgmma multiplies and there are
    more than a GPU holds: steps of the next tile are on their way while one is stored."""
    of = found.tile
    held = of.at_once * machine.units
    if not of.by_warpgroups or found.cut.splits > 1 or tiles <= held:
        return None
    room = machine.lds_nbytes // of.at_once - fragment.GROUP_NBYTES
    room = min(room, machine.asked_lds_nbytes) - _results_nbytes(of)
    of_step = (of.rows + of.columns) * fragment.STAGED_NBYTES + 16
    stages = min(fragment.STAGES, room // of_step)
    if stages < LEAST_STREAMED:
        return None
    cut = replace(found.cut, tile=replace(of, stages=stages))
    return replace(found, cut=cut, streams=held)


def _cycles(of_tap: TapCut, sides: Sides, machine: Machine, kind: Circumstances) -> float:
    """Estimate of the time. One work-group by itself waits for its first step, multiplies, and
    stores; several in a unit do so meanwhile, and what computes several tiles waits once. Where
    movers bring the steps, there are some to multiply as soon as a tile is stored."""
    m, n, k, batch = sides
    found, of = of_tap.cut, of_tap.tile
    across, down = of.grid(m, n)
    waves = across * down * batch * found.splits / (machine.units * of.at_once)
    each = of.rows * of.columns * ceil(min(found.chunk, k) / of.depth) * of.depth
    multiplied = each / (machine.fmas * of.rate) * max(1.0, FULL / (of.stages * of.at_once))
    nbytes = 2 if kind.filled == 1 else APART_NBYTES * kind.filled
    nbytes = PARTIAL_NBYTES if found.splits > 1 else nbytes
    stored = of.rows * of.columns * nbytes * machine.units / machine.l2_rate
    if of_tap.streams:
        meanwhile = of.at_once > 1 or of.movers
        together = of.at_once * max(multiplied, stored) if meanwhile else multiplied + stored
        return LATENCY + ceil(waves) * together
    waits = MOVED * kind.moved * machine.clock / machine.dram_rate  # for memory, however it is cut
    one = max(LATENCY + multiplied + stored, of.at_once * max(multiplied, stored))
    if kind.streaming:
        fast = kind.narrow if of.by_warpgroups and of.columns == NARROW else 1.0
        one = max(of.at_once * multiplied / fast, waits / max(1.0, waves))
        one += LATENCY + of.at_once * stored
    if waves > 1:
        one *= ROUNDS
    total = max(one * (ceil(waves) if waves < MANY_ROUNDS else waves), waits)
    if found.splits > 1:
        nbytes = (4 * found.splits + 2) * batch * m * n
        total += machine.launch_cycles + SUMS * nbytes / machine.l2_rate
    return total


def best(
    machine: Machine,
    options: list[tuple[tuple[tile.Tile, ...], int]],
    sides: Callable[[int], Sides],
    most: int,
    *,
    kind: Circumstances,
    twins: bool = False,
    streams: bool = False,
) -> TapCut:
    """The fastest combination of tile, work-groups per unit and number of chunks (at most `most`).
    `sides` gives the product's sides for a number of k or columns per tap. `streams`: a work-group
    may compute several tiles.
    """
    made: list[tuple[float, TapCut]] = []
    for tiles, of_tap in options:
        m, n, k, batch = sides(of_tap)
        for each in _held(tiles, ceil(k / tiles[0].depth), machine, twins=twins):
            steps = ceil(k / each.depth)
            groups = prod(each.grid(m, n)) * batch
            full = max(
                1,
                (each.at_once if kind.crowded else 1) * machine.units // groups,
            )
            shares = {1, *(ceil(full * part / SHARES) for part in range(1, SHARES + 1))}
            for wanted in sorted(shares):
                if wanted > min(most, max(1, steps // MIN_STEPS)):
                    break
                chunk = ceil(steps / wanted) * each.depth
                splits = ceil(k / chunk)
                found = TapCut(tile.Cut(each, chunk if splits > 1 else k, splits), of_tap)
                several = _streamed(found, groups, machine) if streams and not twins else None
                both = (one for one in (found, several) if one is not None)
                of_sides = m, n, k, batch
                made += ((_cycles(one, of_sides, machine, kind), one) for one in both)
    return min(made, key=lambda one: one[0])[1]
