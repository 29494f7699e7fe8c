"""From a workload to the first launch, block and instruction that two targets execute unlike."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from simgen.targets import kernargs
from simgen_examine.bisect import instrumented, replay, states
from simgen_examine.bisect.instrumented import END, LANES, SUFFIX, Launched, Moment
from simgen_examine.bisect.replay import DUMP, Replay
from simgen_examine.bisect.states import Planes

if TYPE_CHECKING:
    from pathlib import Path

    from simgen.ground.ir import Workload
    from simgen.isa.legalise.assembly import Instruction
    from simgen_examine.bisect.replay import Memory, Side
    from simgen_examine.bisect.states import Difference, Words

Objects = Mapping[str, bytes]  # linked code objects by kernel
MOST_NBYTES = 1 << 27  # limit of the registers that a run stores


@dataclass(frozen=True)
class Divergence:
    """Where two targets first differ, as far as that was found."""

    launch: int  # in the workload
    tensor: str  # tensor that differs after it
    element: int  # the first word of it that differs
    words: int  # words that differ
    sizes: tuple[int, int]  # values of that word on both sides
    wave: int | None = None  # the wavefront, counted over the grid
    visit: int | None = None  # number of the visit to its block, from the block's first instruction
    number: int | None = None  # index of the instruction in the kernel
    item: Instruction | None = None
    difference: Difference | None = None
    before: Mapping[str, tuple[int, int]] = field(default_factory=dict)  # registers, in that lane
    said: str = ""  # why it is not found any closer


@dataclass
class Search:
    """Two sides with the code objects that each runs."""

    of: Workload
    a: Side
    b: Side
    objects_a: Objects
    objects_b: Objects
    given: Memory  # the workload's inputs
    arch: str
    folder: Path
    ulps: int = 0
    tell: Callable[[str], None] = field(default=lambda _: None)

    def place(self) -> Divergence | None:
        """Where they first differ; None: nowhere.

        Raises:
            RefusedError: a kernel has no room for storing its registers.
            RunError, MissingError: as `replay.run`.
        """
        place = self._launch()
        if place is None:
            return None
        launch = self.of.launches[place.launch]
        self.tell(f"launch {place.launch}, kernel {launch.kernel}: {place.tensor} differs")
        return _Registers(self, self._alone(place.launch)).inside(place)

    def _alone(self, at: int) -> Replay:
        """A launch with what its tensors hold before it; or with all launches before it, where it
        writes over what another has left."""
        before, launch = self.of.launches[:at], self.of.launches[at]
        whole = Replay(self.of, self.of.launches[: at + 1], self.given)
        if not before:
            return whole
        earlier = replay.run(
            Replay(self.of, before, self.given), self.a, self.objects_a, self.folder
        )
        later = replay.run(whole, self.a, self.objects_a, self.folder)
        kept = {name: words for name, words in earlier.items() if name in launch.args}
        if any((later[name] != words).any() for name, words in kept.items()):
            return whole
        return Replay(self.of, (launch,), {**self.given, **kept})

    def _launch(self) -> Divergence | None:
        """The first launch that leaves something else."""
        launches = self.of.launches
        low, high = 0, len(launches)  # the same after `low` launches; unlike after `high`
        last = self._compared(high)
        if last is None:
            return None
        while high - low > 1:
            middle = (low + high) // 2
            if (found := self._compared(middle)) is not None:
                high, last = middle, found
            else:
                low = middle
        return replace(last, launch=high - 1)

    def _compared(self, count: int) -> Divergence | None:
        """The first difference that so many launches leave."""
        replayed = Replay(self.of, self.of.launches[:count], self.given)
        left = self.run_both(replayed, self.objects_a, self.objects_b)
        self.tell(f"{count} of {len(self.of.launches)} launches: compared")
        for name in left[0]:
            a, b = left[0][name], left[1][name]
            apart = np.abs(a.astype(np.int64) - b.astype(np.int64))
            where = np.flatnonzero(apart > self.ulps)
            if len(where):
                at = int(where[0])
                return Divergence(count - 1, name, at, len(where), (int(a[at]), int(b[at])))
        return None

    def run_both(
        self, replayed: Replay, objects_a: Objects, objects_b: Objects
    ) -> tuple[Memory, Memory]:
        """What both leave."""
        return (
            replay.run(replayed, self.a, objects_a, self.folder),
            replay.run(replayed, self.b, objects_b, self.folder),
        )


class _Registers:
    """One launch, whose registers are looked at."""

    def __init__(self, search: Search, alone: Replay) -> None:
        self.search, self.alone = search, alone
        launch = self.launch = alone.launches[-1]
        self.kernel = search.of.kernel(launch.kernel)
        symbol = self.kernel.symbol
        self.codes = (search.objects_a[launch.kernel], search.objects_b[launch.kernel])
        self.blocks = tuple(instrumented.blocks(code, symbol, search.arch) for code in self.codes)
        self.names = Planes(self.blocks[0].names)
        group = self.kernel.extents
        groups = launch.grid[0] * launch.grid[1] * launch.grid[2]
        self.waves = groups * -(-group[0] * group[1] * group[2] // LANES)
        self.window = max(1, min(self.waves, MOST_NBYTES // self.blocks[0].nbytes))

    def inside(self, place: Divergence) -> Divergence:
        """The instruction that a launch's difference comes from."""
        found = self._unlike_wave()
        if found is None:
            return replace(
                place,
                said="registers are the same at the start of each block that was looked at: what "
                "a store left is not what it was given, or wavefronts race",
            )
        wave, visit = found
        place = replace(place, wave=wave, visit=visit)
        self.search.tell(f"wavefront {wave}: the same up to the start of its block {visit}")
        return self._instruction(place, wave, visit)

    def _unlike_wave(self) -> tuple[int, int] | None:
        """A wavefront that differs, and its last visit whose start is the same on both."""
        for first in range(0, self.waves, self.window):
            end = self._stored(Moment(END, first, self.window))
            visits = int(max(self._visits(words) for words in end))
            if (wave := self._wave(end)) is not None:
                return first + wave, self._last_same(first + wave, visits)
            # What has differed on the way may be gone at the end.
            for visit in _spread(visits):
                wave = self._wave(self._stored(Moment(visit, first, self.window)))
                if wave is not None:
                    return first + wave, self._last_same(first + wave, visit)
        return None

    def _visits(self, words: Words) -> int:
        there = states.stored(words, self.names)
        counts = words[:, self.names.places["visits"]]
        return int(counts[there].max()) if there.any() else 0

    def _wave(self, both: tuple[Words, Words]) -> int | None:
        differ = states.unlike(*both, self.names, self.search.ulps)
        for name in ("vcc_lo", "vcc_hi", "scc"):  # carries of addresses, where nobody reads them
            differ[:, self.names.places[name]] = False
        waves = np.flatnonzero(differ.any(axis=(1, 2)))
        return int(waves[0]) if len(waves) else None

    def _last_same(self, wave: int, visits: int) -> int:
        """The last visit of a wavefront that begins alike, if the one after `visits` does not."""
        low, high = 1, visits + 1
        while high - low > 1:
            middle = (low + high) // 2
            alike = self._wave(self._stored(Moment(middle, wave, 1))) is None
            low, high = (middle, high) if alike else (low, middle)
            self.search.tell(f"block {middle}: {'the same' if alike else 'differs'}")
        return low

    def _instruction(self, place: Divergence, wave: int, visit: int) -> Divergence:
        start = self._stored(Moment(visit, wave, 1))
        point = self.names.places["point"]
        lane = int(np.flatnonzero(states.stored(start[0], self.names)[0])[0])
        block = int(start[0][0, point, lane])
        numbers = self.blocks[0].of(block)
        items = [self.blocks[0].items[n] for n in numbers]
        both = self._stored(Moment(visit, wave, 1, block))
        there = min(int(states.stored(words, self.names).any(axis=1).sum()) for words in both)
        a, b = (words[:there] for words in both)
        found = states.first(a, b, self.names, items, self.search.arch, self.search.ulps)
        if found is None:
            return replace(
                place, number=numbers[-1], item=items[-1],
                said="no instruction of the block leaves something else of the same sources: what "
                "follows goes another way, or comes of an address",
            )  # fmt: skip
        at = (found.number, slice(None), found.lanes[0])
        sources = zip(a[at].tolist(), b[at].tolist(), strict=True)
        before = dict(zip(self.names.all, sources, strict=True))
        return replace(
            place, number=numbers[found.number], item=items[found.number], difference=found,
            before=before,
        )  # fmt: skip

    def _stored(self, moment: Moment) -> tuple[Words, Words]:
        """What the registers of wavefronts are on both."""
        slots = moment.waves
        if moment.block is not None:
            slots = len(self.blocks[0].of(moment.block)) + 1
        slots = min(slots, self.waves - moment.first) if moment.block is None else slots
        nbytes = slots * self.blocks[0].nbytes
        storing = replace(self.launch, kernel=self.launch.kernel + SUFFIX)
        replayed = replace(
            self.alone, launches=(*self.alone.launches[:-1], storing), dump_nbytes=nbytes
        )
        launched = self._launched(replayed.workload)
        objects = []
        for of, code, blocks in zip(
            (self.search.objects_a, self.search.objects_b), self.codes, self.blocks, strict=True
        ):
            made = instrumented.storing(code, blocks, launched, moment)
            objects.append({**of, storing.kernel: made})
        left = self.search.run_both(replayed, *objects)
        shaped = [self.names.shaped(memory[DUMP][: nbytes // 4]) for memory in left]
        return shaped[0], shaped[1]

    def _launched(self, planned: Workload) -> Launched:
        area = (0, planned.buffer(self.launch.args[0]).offset + self.launch.places[0][1])
        if planned.is_own:
            one = Replay(self.search.of, (self.launch,), self.alone.given).workload
            (told,) = kernargs.areas(one, {self.launch.kernel: self.codes[0]})
            area = (told.pointers[0][0], area[1])
        distance = planned.buffer(DUMP).offset - area[1]
        return Launched(self.launch.grid, self.kernel.extents, area[0], distance)


def _spread(visits: int, most: int = 8) -> list[int]:
    """Some visits, in order."""
    return sorted({max(1, visits * n // most) for n in range(1, most + 1)})
