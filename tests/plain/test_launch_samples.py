"""Samples of a launch's work-groups: which run, what follows from them, and what is not judged."""

from __future__ import annotations

import heapq
import subprocess
import sys
from collections import OrderedDict
from dataclasses import replace
from itertools import chain
from math import gamma, pi, prod, sqrt
from random import Random

import numpy as np
import pytest
from census import census
from command_line import fails
from handmade import lowered, lowered_text

import simgen
from simgen.bundle import sampled
from simgen.errors import DamagedError
from simgen.ground.ir import Pass
from simgen.layers.written import Places, Writes, cut_by, partial_sums
from simgen.layers.written_elements import elements, of_groups
from simgen.running import sampling
from simgen.targets.mgpusim import sampling as timing_samples
from simgen.tensors import state_file
from simgen.verdict.compare import Comparison, proves_nothing
from simgen.workload import cached, samples
from simgen.workload.pieces import Piece
from simgen.workload.samples import Extrapolated, Sample


@census("wave", [1, 3, 16])
@census("groups", [20, 97, 1000, 1601, 20000])
@census("rate", [0.01, 0.05, 0.3])
def test_a_sample_lacks_whole_waves_and_has_both_ends(groups, wave, rate):
    found = samples.ranges(groups, wave, rate)
    if found is None:
        assert rate * groups / wave < 20  # too few waves
        return
    sample = Sample(0, wave, found)
    assert sample.fits((groups, 1, 1))
    assert found[0][0] == 0
    assert sum(found[-1]) == groups
    assert sample.groups <= max(rate * groups + 5 * wave, 7 * wave)
    assert list(sample.numbers()) == sorted(set(sample.numbers()))
    assert not replace(sample, wave=wave + 1).fits((groups, 1, 1))
    assert not sample.fits((groups + wave, 1, 1))


def starts(durations, wave, numbers):
    """When the groups with these numbers begin on `wave` places, and when the last one ends."""
    free = [0.0] * wave
    begins = []
    for number in numbers:
        begins.append(heapq.heappop(free))
        heapq.heappush(free, begins[-1] + durations[number])
    return begins, max(free)


def figure(durations, wave, rate=0.05):
    """(time of all groups, the estimate from a sample of them)."""
    count = len(durations)
    sample = Sample(0, wave, samples.ranges(count, wave, rate))
    begins, end = starts(durations, wave, sample.numbers())
    spans = np.array([durations[at] for at in sample.numbers()])
    variation = float(spans.std(ddof=1) / spans.mean())
    found = sample.figure(count, [*begins[::wave], end], variation)
    return starts(durations, wave, range(count))[1], found


@pytest.mark.parametrize("groups", [96, 97, 100, 1007])
def test_equal_groups_take_exactly_what_is_extrapolated(groups):
    truth, found = figure([2.0] * groups, 4)
    assert found.value == pytest.approx(truth)
    assert found.half == pytest.approx(0)


def test_the_interval_holds_the_time_as_often_as_it_says():
    random = Random(1)
    held = 0
    for _ in range(200):
        durations = [random.lognormvariate(0, 0.2) for _ in range(random.randint(300, 900))]
        truth, found = figure(durations, 8)
        held += abs(found.value - truth) <= found.half
        assert found.value == pytest.approx(truth, rel=0.25)
    assert held >= 180  # of 200; of 190 expected, fewer with a probability of 2e-3


def test_a_launch_that_becomes_slower_is_inside_of_its_interval():
    truth, found = figure([1 + at / 2000 for at in range(2000)], 8, rate=0.1)
    assert abs(found.value - truth) <= found.half


@pytest.mark.parametrize("period", [2, 3, 10, 24, 25, 48, 100])
def test_a_launch_that_repeats_itself_is_met_in_all_phases(period):
    """Places at equal distances, of 25 waves here, would meet one."""
    wave = 8
    durations = [1.0 + (at // wave % period < max(1, period // 3)) for at in range(1000 * wave)]
    truth, found = figure(durations, wave, rate=0.162)
    assert len(samples.ranges(1000 * wave, wave, 0.162)) == 42
    assert found.value == pytest.approx(truth, rel=0.1)
    assert abs(found.value - truth) <= found.half


def test_what_follows_a_gap_does_not_count():
    """The groups of the first wave there take longer, which shows in the second one."""
    wave = 4
    count = 400 * wave
    sample = Sample(0, wave, samples.ranges(count, wave, 0.1))
    cold = {first for first, _ in sample.ranges[1:-1]}
    slow = {first + at for first in cold for at in range(wave)}
    usual = [2.0, 2.5, 3.0, 3.5, *[2.0] * (count - wave)]  # so that they do not begin together
    durations = [3.0 if at in slow else each for at, each in enumerate(usual)]
    begins, end = starts(durations, wave, sample.numbers())
    found = sample.figure(count, [*begins[::wave], end], 0.0)
    assert found.value == pytest.approx(starts(usual, wave, range(count))[1], rel=2e-3)


def test_counts_of_groups_at_borders_are_exact():
    grid = (7, 6, 3)

    def count(number):
        x, y, z = number % 7, number // 7 % 6, number // 42
        return 100.0 + 10 * (x == 6) - 20 * (y == 0) + 3 * (z == 2)

    whole = list(range(prod(grid)))
    chosen = whole[:56] + whole[70:]
    found = samples.of_groups(grid, chosen, [count(at) for at in chosen])
    assert (found.value, found.half) == (pytest.approx(sum(map(count, whole))), 0.0)


@pytest.mark.parametrize("freedom", [1, 2, 3, 10, 30])
def test_quantiles_are_those_of_student(freedom):
    x = np.linspace(0, samples.student(freedom), 20001)
    scale = gamma((freedom + 1) / 2) / (sqrt(freedom * pi) * gamma(freedom / 2))
    density = scale * (1 + x**2 / freedom) ** (-(freedom + 1) / 2)
    inside = 2 * float(np.sum((density[1:] + density[:-1]) / 2 * np.diff(x)))
    assert inside == pytest.approx(samples.CONFIDENCE, abs=1e-4)


def test_the_deviation_of_times_is_relative():
    assert timing_samples._variation([2.0, 4.0, 9.0]) == pytest.approx(sqrt(13) / 5)
    assert timing_samples._variation([1.0, 2.0]) == pytest.approx(sqrt(0.5) / 1.5)
    assert timing_samples._variation([3.0]) == timing_samples._variation([0.0, 0.0]) == 0.0


def test_more_lines_than_there_are_make_the_interval_wide():
    found = {
        "seconds": Extrapolated(4.0, 0.1),
        "dram_reads": Extrapolated(400.0, 1.0),
        "dram_read_bytes": Extrapolated(25600.0, 64.0),
        "dram_read_cycles": Extrapolated(8000.0, 20.0),
        "l1_instruction_misses": Extrapolated(10.0, 0.0),
    }
    few = dict(found)
    timing_samples._bound(few, 400.0)
    assert few == found
    timing_samples._bound(found, 90.0)
    assert found["dram_reads"] == Extrapolated(100.0, 300.0)
    assert found["dram_read_bytes"] == Extrapolated(6400.0, 19200.0)
    assert found["dram_read_cycles"] == Extrapolated(2000.0, 6000.0)  # 20 for each read, as before
    assert found["seconds"] == Extrapolated(4.0, 3.0)


GROUP = {"instructions": 40.0, "wavefronts": 2.0}  # of each work-group


def tables(folder, workload, sample, units=1.0, reads=3.0, shift=0):
    """What the simulator leaves of a sample of equal groups that take 2 us, `wave` at a time."""
    numbers = list(sample.numbers())
    begins, end = starts(dict.fromkeys(numbers, 2e-6), sample.wave, numbers)
    at = [*range(0, len(numbers), sample.wave), len(numbers)]
    times = [*begins[:: sample.wave], end]
    with (folder / timing_samples.WAVES).open("w") as file:
        file.write("launch,groups,seconds,dram_reads,dram_read_bytes,dram_read_cycles,"
                   "cu_active_cycles,cu_cycles\n")  # fmt: skip
        for count, time in zip(at, times, strict=True):
            cycles = time * 1e9 * units
            file.write(f"{sample.launch},{count},{time},{reads * count},{64 * reads * count},"
                       f"{50 * reads * count},{0.75 * cycles},{cycles}\n")  # fmt: skip
    with (folder / timing_samples.GROUPS).open("w") as file:
        file.write("launch,group,begin,end,instructions,wavefronts\n")
        for number, begin in zip(numbers, begins, strict=True):
            told = ",".join(map(str, GROUP.values()))
            file.write(f"{sample.launch},{number + shift},{begin},{begin + 2e-6},{told}\n")
    return end


def extrapolated(folder, workload, sample, hardware="{}", **more):
    """(metrics of the whole launch, the sample with its errors); the row was clocked at 1.5 GHz."""
    (folder / "machine.json").write_text(f'{{"hardware": "{hardware}"}}')
    end = tables(folder, workload, sample, **more)
    rows = [{} for _ in workload.launches]
    rows[sample.launch] = {"seconds": end, "cycles": 1.5e9 * end, "instructions": 1.0}
    (done,) = timing_samples.extrapolate(folder, workload, [sample], rows)
    return rows[sample.launch], done, end


def widest(workload):
    """The launch with most work-groups."""
    return max(range(len(workload.launches)), key=lambda at: prod(workload.launches[at].grid))


def test_a_sample_of_equal_groups_gives_the_whole_launch(tmp_path):
    workload = network()
    launch = widest(workload)
    count = prod(workload.launches[launch].grid)
    wave = 2
    sample = sample_of(workload, launch, wave, 0.3)
    found, done, _ = extrapolated(tmp_path, workload, sample, reads=1e-3)
    time = 2e-6 * -(-count // wave)
    wanted = {
        "seconds": time, "cycles": 1.5e9 * time, "work_groups": count, "dram_reads": 1e-3 * count,
        "dram_read_bytes": 0.064 * count, "dram_read_cycles": 0.05 * count,
        "cu_cycles": 1e9 * time,
        "cu_active_cycles": 0.75e9 * time,
        **{name: each * count for name, each in GROUP.items()},
    }  # fmt: skip
    assert found == pytest.approx(wanted)
    assert done.errors.keys() == wanted.keys()
    assert done.errors == pytest.approx(dict.fromkeys(wanted, 0.0), abs=1e-9)


@pytest.mark.parametrize("hardware", ["", "tcc_size=1"])
def test_lines_that_are_read_twice_are_doubted_where_l2_holds_them(tmp_path, hardware):
    """Not where L2 is of another size than was planned for."""
    workload = network()
    launch = widest(workload)
    sample = sample_of(workload, launch, 2, 0.3)
    lines = timing_samples._lines(workload, launch)
    names = set(workload.launches[launch].args)
    assert lines == sum(-(-workload.buffer(name).spec.held // 64) for name in names)
    assert 64 * lines <= workload.machine.l2_nbytes
    found, done, _ = extrapolated(tmp_path, workload, sample, hardware, reads=1e4)
    count = prod(workload.launches[launch].grid)
    if hardware:
        assert found["dram_reads"] == pytest.approx(1e4 * count)
        assert done.errors["seconds"] == pytest.approx(0, abs=1e-9)
    else:
        assert found["dram_reads"] == lines
        assert found["dram_read_bytes"] == 64 * lines
        assert found["dram_read_cycles"] == pytest.approx(50 * lines)  # the latency stays
        assert done.errors["seconds"] == pytest.approx(
            found["seconds"] * (1 - lines / (1e4 * count))
        )
        assert done.errors["cycles"] == pytest.approx(1.5e9 * done.errors["seconds"])


def test_a_part_of_the_machine_takes_as_long_as_all_of_it(tmp_path):
    workload = network()
    launch = widest(workload)
    grid = workload.launches[launch].grid
    ranges, count = samples.of_part(grid, 2)
    assert 1 < count < prod(grid)
    sample = Sample(launch, count, ranges, 2, ((0, 64),), ((0, 4096),))
    found, done, end = extrapolated(tmp_path, workload, sample, reads=1e-3)
    groups = prod(grid)
    wanted = {
        "seconds": end, "cycles": 1.5e9 * end, "work_groups": groups, "dram_reads": 1e-3 * groups,
        "dram_read_bytes": 0.064 * groups, "dram_read_cycles": 0.05 * groups,
        "cu_cycles": 2e9 * end,  # they pass in the other half, too
        "cu_active_cycles": 0.75e9 * end * groups / count,
        **{name: each * groups for name, each in GROUP.items()},
    }  # fmt: skip
    assert found == pytest.approx(wanted)
    assert (done.warm, done.pages) == ((), ())
    assert done.errors == pytest.approx({
        name: timing_samples.PART_ERROR * wanted[name] for name in ("seconds", "cycles")
    })  # fmt: skip
    found, _, _ = extrapolated(tmp_path, workload, sample, reads=1e4)
    lines = timing_samples._lines(workload, launch)
    assert (found["dram_reads"], found["dram_read_bytes"]) == (lines, 64 * lines)
    assert found["dram_read_cycles"] == pytest.approx(50 * lines)


@pytest.mark.parametrize("part", [1, 2])
def test_tables_of_other_groups_are_damaged(tmp_path, part):
    workload = network()
    launch = widest(workload)
    sample = sample_of(workload, launch, 2, 0.3)
    if part > 1:
        ranges, count = samples.of_part(workload.launches[launch].grid, part)
        sample = Sample(launch, count, ranges, part)
    with pytest.raises(DamagedError, match="not the work-groups of the sample"):
        extrapolated(tmp_path, workload, sample, shift=1)


def test_launches_that_make_indices_are_whole():
    """Those that follow them too, and those of a step that carries a state from one to the next."""

    def able(text):
        workload = lowered_text(text, (Pass.FORWARD, Pass.BACKWARD))
        found = dict(sampling.candidates(workload, range(len(workload.steps))))
        assert all(workload.launches[at] is launch for at, launch in found.items())
        return [launch.kernel.split("_")[:2] for launch in found.values()], len(workload.launches)

    # The ids come with the data; the launch that sorts them makes indices.
    embedding = "[Embedding]\nshape=2x3\nvocabulary=6\nfeatures=4\n"
    assert able(embedding) == ([["embedding", "fwd"]], 3)
    # Of the passes of a recurrent layer, that of the weights, a product, carries nothing.
    assert able("[Recurrent]\nshape=3x2x4\nhidden_size=4\n") == (4 * [["recurrent", "bwd"]], 12)
    assert able("[Gemm]\nm=4\nn=4\nk=4\n")[0] != []


# ---- On a part of the machine ----


@census("part", [2, 4, 8, 64])
@census(
    "grid",
    [(1, 1, 1), (7, 1, 1), (784, 1, 1), (98, 8, 1), (7, 4, 16), (7, 6, 1), (49, 1, 6), (2, 8, 29)],
)
def test_a_part_is_a_block_of_about_its_size(grid, part):
    ranges, count = samples.of_part(grid, part)
    sample = Sample(0, count, ranges, part)
    numbers = list(sample.numbers())
    assert numbers == sorted(set(numbers))
    assert len(numbers) == count
    assert numbers[-1] < prod(grid)
    places = [(at % grid[0], at // grid[0] % grid[1], at // (grid[0] * grid[1])) for at in numbers]
    sides = [len(set(along)) for along in zip(*places, strict=True)]
    assert prod(sides) == count
    assert prod(grid) / part / 2 <= count <= max(1, 1.5 * prod(grid) / part)
    assert sample.fits(grid)
    assert not replace(sample, wave=count + 1).fits(grid)
    assert not replace(sample, ranges=((0, prod(grid) + 1),)).fits(grid)


def test_a_part_reads_an_eighth_of_the_weights():
    assert samples.of_part((98, 8, 1), 8) == (((4 * 98, 98),), 98)
    ranges, count = samples.of_part((7, 4, 16), 8)  # a fourth of the rows, half of the sum
    assert count == 56
    assert {first // 7 % 4 for first, _ in ranges} == {2}
    assert [first // 28 for first, _ in ranges] == list(range(8, 16))


@pytest.mark.parametrize("nbytes", [1 << 10, 60 << 10, 1 << 30])
def test_a_cache_holds_what_was_touched_last(nbytes):
    """Against a cache that is simulated, word by word."""
    workload = simgen.plan("lenet5", set={"n": 1}).workload
    held = OrderedDict()
    for launch, places in zip(
        workload.launches, cached.cached_places(workload, nbytes), strict=True
    ):
        own = [workload.buffer(name) for name in dict.fromkeys(launch.args)]
        words = [range(each.offset, each.offset + each.spec.held, 4) for each in own]
        there = {word for word in chain(*words) if word in held}
        assert there == set(chain(*(range(at, at + size, 4) for at, size in places)))
        for word in chain(*words):
            held[word] = None
            held.move_to_end(word)
            if len(held) > nbytes // 4:
                held.popitem(last=False)
    assert there or nbytes < 60 << 10


# ---- Elements ----

DECLARED = (
    Writes(
        2, cut_by(Places(10, 1, 4)), cut_by(Places(5, 10, 2)), cut_by(partial_sums(100, 32, 50))
    ),
    Writes(0, x=cut_by(Places(3, 10), Places(10, 1, 4), group=2), offset=7),
    Writes(0, x=cut_by(Places(9, 2)) + cut_by(Places(4, 100)), inside=(Places(2),), first=3),
)


@pytest.mark.parametrize("each", DECLARED)
def test_work_groups_write_together_what_the_launch_writes(each):
    x, y, z = each.grid
    grid = (x + each.first, y, z)
    found = [of_groups(each, grid, [number]) for number in range(prod(grid))]
    assert sorted(np.concatenate(found)) == sorted(elements(each))
    assert all(not found[number].size for number in range(each.first))


def test_norms_alone_are_declared():
    """Where no other layer's module has loaded what normalisations write."""
    program = "import simgen.layers.norm.rms_norm\nfrom simgen.layers.written import DECLARED\n"
    program += "assert {'rms_norm', 'rms_norm_add', 'layer_norm_forward'} <= set(DECLARED)"
    subprocess.run([sys.executable, "-c", program], check=True)


def network():
    return lowered("cifar_quick")


def sample_of(workload, at, wave=1, rate=0.05):
    grid = workload.launches[at].grid
    return Sample(at, wave, samples.ranges(prod(grid), wave, rate))


def large(workload):
    """A launch with enough work-groups, whose step is read by the next one."""
    for at, step in enumerate(workload.steps[:-1]):
        first = workload.first_launches[at]
        wrote = {name for _, name in step.writes}
        read = {name for _, name in workload.steps[at + 1].reads}
        if len(step.launches) == 1 and wrote & read and prod(step.launches[0].grid) >= 10:
            return at, first
    raise AssertionError("no such launch")


def test_what_did_not_run_is_computed_by_nobody():
    workload = network()
    step, launch = large(workload)
    taken = {launch: sample_of(workload, launch)}
    (mask,) = sampled.computed(workload, step, taken).values()
    assert 0 < mask.sum() < mask.size
    assert sampled.computed(workload, step + 1, taken) == {}
    values = np.arange(mask.size, dtype=np.float32)
    blank = sampled.blank(values, mask)
    assert np.isnan(blank[~mask]).all()
    assert (blank[mask] == values[mask]).all()


def test_a_launch_that_reads_what_a_sample_left_computes_nothing():
    workload = network()
    step, launch = large(workload)
    first, second = workload.steps[step], workload.steps[step + 1]
    writes = (*first.writes, *second.writes)
    together = replace(first, writes=writes, launches=(*first.launches, *second.launches))
    steps = (*workload.steps[:step], together, *workload.steps[step + 2 :])
    joined = replace(workload, steps=steps)
    found = sampled.computed(joined, step, {launch: sample_of(workload, launch)})
    assert found[first.writes[0][1]].any()
    assert not found[second.writes[0][1]].any()


class _Run:
    def __init__(self, *taken):
        self.samples = taken


def test_the_next_layer_finds_the_reference_where_no_work_group_ran():
    workload = network()
    step, launch = large(workload)
    taken = sample_of(workload, launch)
    both, alone = Piece((step,), (step + 1,)), Piece((), (step,))
    assert sampling.filled(workload, _Run(taken), both) == [step]
    assert sampling.filled(workload, _Run(taken), alone) == []
    ((name, mask),) = sampled.computed(workload, step, {launch: taken}).items()
    reference = {name: np.full(workload.buffer(name).spec.shape, 2.5, np.float32)}
    left = sampling.left_out(workload, [taken], [step], reference)[name].reshape(-1)
    assert (left[~mask] == 2.5).all()
    assert (left[mask].view("<u4") == workload.canary).all()


def test_a_state_has_the_tensors_of_layers_that_run_in_part(tmp_path):
    workload = network()
    marks = [state_file.Mark.LEFT_OUT] * len(workload.steps)
    marks[0] = state_file.Mark.FILLED
    tensors = {
        name: np.full(workload.buffer(name).spec.shape, 3.0, np.float32)
        for _, name in workload.steps[0].writes
    }
    path = tmp_path / state_file.FILE
    state_file.write(path, workload, bytes(32), marks, tensors)
    assert state_file.read_marks(path, workload, bytes(32)) == marks
    name = workload.steps[0].writes[0][1]
    place = workload.buffer(name).offset - workload.state_offset
    start = state_file.head_nbytes(workload) + place
    assert np.frombuffer(path.read_bytes()[start : start + 4], "<f4")[0] == 3.0


# ---- Verdicts ----


def test_only_computed_elements_are_compared():
    compared = Comparison((2, 6))
    right = np.arange(1.0, 13.0)
    values = right.astype(np.float32)
    mask = np.arange(12) % 3 == 0
    values[~mask] = np.nan
    compared.add(0, values, right, right, np.full(12, 1e-3), mask=mask)
    assert (compared.elements, compared.outside) == (4, 0)
    values[9] = 0.0
    again = Comparison((2, 6))
    again.add(0, values, right, right, np.full(12, 1e-3), mask=mask)
    assert (again.outside, again.worst[0].index) == (1, (1, 3))


def test_a_tensor_of_which_nothing_was_computed_proves_nothing():
    compared = Comparison((4,))
    values = np.ones(4)
    compared.add(0, values, values, values, values, mask=np.zeros(4, bool))
    assert proves_nothing(compared) == "none of its elements was computed"
    assert compared.passed


# ---- What is refused ----


@pytest.mark.parametrize("share", ["0%", "51%", "-5%", "five", "nan", "0.7"])
def test_a_share_that_is_none(simgen, share):
    done = simgen("run", "nowhere", "--sample", share)
    fails(done, 2, f"--sample {share!r}: not a part of the whole; write one such as 0.05 or 5%")
