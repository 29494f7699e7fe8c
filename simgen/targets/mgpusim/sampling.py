"""Samples of launches: what a GPU holds at once, and what samples showed, for whole launches.

The Go program (templates/launchers/mgpusim/sampling.go) leaves `waves.csv`, which has all counts at
the begin of each wave, and `groups.csv`, with each work-group's time and own counts.
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil, sqrt
from typing import TYPE_CHECKING

from simgen.ask.run import RunChoices
from simgen.errors import DamagedError, UsageError
from simgen.ground.ir import PAGE, Kernel, Workload
from simgen.isa import code_object
from simgen.targets import launch_rows, machine_file
from simgen.workload import samples as sampling
from simgen.workload.samples import Extrapolated, Sample

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from simgen.ground.machine import Machine

    Row = dict[str, float]

WAVES, GROUPS = "waves.csv", "groups.csv"
MOST_ROWS = 10**6
LINE = 64  # bytes of a cache line
# Half of the interval that holds the time of 95 of 100 launches, in parts of the time that a part
# of the machine takes: measured (benchmarks/sampling/SCALED.md), not derived.
PART_ERROR = 0.2
# What its command processor knows of a unit: scalar registers, and granules of what it gives.
AT_THE_END = {"cu_active_cycles", "wavefront_slot_cycles"}  # what counts when a unit is idle again
OF_UNITS = {"cu_cycles"}  # what passes in every unit, busy or not
BANKS = 16  # banks of L2, each with a memory controller
TLB_NBYTES = {"mgpusim-mi300a": 64 * 64 * PAGE}  # memory whose pages the L2 TLB holds
ALL_NBYTES = 2**40  # the same of other GPUs, whose TLB has room for all of memory
SCALARS, SCALAR_GRANULE, LDS_GRANULE = 3200, 16, 256


def held(kernel: Kernel, elf: bytes, machine: Machine) -> int:
    """Work-groups of a kernel that the machine holds at once.

    Raises:
        DamagedError: `elf` is not its code object.
    """
    found = code_object.kernels(elf).get(kernel.name)
    if found is None:
        raise DamagedError(f"{kernel.name}.co: it holds no such kernel; build the bundle again")
    wavefronts = ceil(kernel.block / machine.wavefront)
    of_simd = min(machine.wavefronts, machine.registers // max(found.vgprs, 1))
    scalars = SCALARS // SCALAR_GRANULE // max(ceil(found.sgprs / SCALAR_GRANULE), 1)
    groups = min(of_simd * machine.simds, scalars) // wavefronts
    if lds := found.lds_nbytes + (kernel.lds_nbytes if kernel.source else 0):
        each = ceil(lds / LDS_GRANULE) * LDS_GRANULE
        groups = min(groups, machine.lds_nbytes // each)
    return max(groups, 1) * machine.units


def caches_of_part(
    machine: Machine, options: Mapping[str, str | int], part: int
) -> tuple[int, int]:
    """Bytes that L2 holds, and the pages of its TLB, on a part of the machine: all of both
    (`ofWhole` in templates/launchers/mgpusim/hardware.go).

    Raises:
        UsageError: its units or banks cannot be divided so.
    """
    banks = int(options.get("num_tccs", BANKS))
    if banks % part or machine.units < part:
        most = min(banks & -banks, machine.units)
        raise UsageError(
            f"{RunChoices.scale_model} {part}: a GPU of {machine.units} compute units and {banks} "
            f"banks of L2 has no such part; write a power of two up to {most}"
        )
    return machine.l2_nbytes, TLB_NBYTES.get(machine.name, ALL_NBYTES)


def extrapolate(
    results: Path, workload: Workload, samples: Sequence[Sample], rows: Sequence[Row]
) -> tuple[Sample, ...]:
    """Make the metrics of sampled launches those of whole ones; the samples, with their errors.

    Raises:
        DamagedError: the tables are not those of the samples.
    """
    waves, groups = (launch_rows.by_launch(results / name, MOST_ROWS) for name in (WAVES, GROUPS))
    changed = "tcc_size" in str(machine_file.read_facts(results).get("hardware", ""))
    done = []
    for sample in samples:
        if sample.part > 1:
            done.append(_of_part(results, workload, sample, rows[sample.launch], waves, groups))
            continue
        fits = not changed and (
            LINE * _lines(workload, sample.launch) <= workload.machine.l2_nbytes
        )
        tables = waves.get(sample.launch, []), groups.get(sample.launch, [])
        try:
            found = _estimated(workload, sample, *tables, fits)
        except (KeyError, ValueError, IndexError, ZeroDivisionError) as error:
            fact = f"of launch {sample.launch}: {error}"
            raise DamagedError(f"{results / WAVES}: damaged ({fact}); run it again") from None
        values, errors = found
        row = rows[sample.launch]
        if "cycles" in row and row.get("seconds"):
            clock = row["cycles"] / row["seconds"]
            values["cycles"], errors["cycles"] = (
                values["seconds"] * clock,
                errors["seconds"] * clock,
            )
        row |= values
        done.append(replace(sample, errors={k: v for k, v in errors.items() if k in row}))
    return tuple(done)


def _of_part(
    results: Path,
    workload: Workload,
    sample: Sample,
    row: Row,
    waves: Mapping[int, Sequence[Row]],
    groups: Mapping[int, Sequence[Row]],
) -> Sample:
    """Make the metrics of a launch on a part of the machine those of the whole launch.

    It takes as long. What belongs to a work-group is added up by strata; what belongs to a unit,
    by parts of the machine; the rest, by work-groups. Each line is read from DRAM once, at most.
    """
    grid = workload.launches[sample.launch].grid
    try:
        own = [dict(each) for each in groups[sample.launch]]
        last = dict(waves[sample.launch][-1])
        numbers = [int(each.pop("group")) for each in own]
        if numbers != list(sample.numbers()) or int(last.pop("groups")) != sample.groups:
            raise ValueError("not the work-groups of the sample")
        for each in own:
            del each["begin"], each["end"]
        total = grid[0] * grid[1] * grid[2]
        time = last.pop("seconds")
        estimates = {
            name: Extrapolated(value * total / sample.groups, 0.0) for name, value in last.items()
        }
        estimates |= {
            name: Extrapolated(last[name] * sample.part, 0.0) for name in OF_UNITS & last.keys()
        }
        estimates |= {
            name: sampling.of_groups(grid, numbers, [each[name] for each in own]) for name in own[0]
        }
        estimates["work_groups"] = Extrapolated(float(total), 0.0)
        estimates["seconds"] = Extrapolated(time, PART_ERROR * time)
        lines = _lines(workload, sample.launch)
        if "dram_reads" in estimates and estimates["dram_reads"].value > lines:
            if "dram_read_cycles" in estimates:  # so many reads, each with the measured latency
                cycles = estimates["dram_read_cycles"].value * lines / estimates["dram_reads"].value
                estimates["dram_read_cycles"] = Extrapolated(cycles, 0.0)
            estimates["dram_reads"] = Extrapolated(lines, 0.0)
            estimates["dram_read_bytes"] = Extrapolated(lines * LINE, 0.0)
    except (KeyError, ValueError, IndexError, ZeroDivisionError) as error:
        fact = f"of launch {sample.launch}: {error}"
        raise DamagedError(f"{results / WAVES}: damaged ({fact}); run it again") from None
    if "cycles" in row and row.get("seconds"):
        clock = row["cycles"] / row["seconds"]
        estimates["cycles"] = Extrapolated(time * clock, PART_ERROR * time * clock)
    row |= {name: each.value for name, each in estimates.items()}
    errors = {name: each.half for name, each in estimates.items() if name in row and each.half}
    return replace(sample, warm=(), pages=(), errors=errors)


def _estimated(
    workload: Workload, sample: Sample, waves: Sequence[Row], groups: Sequence[Row], fits: bool
) -> tuple[Row, Row]:
    """(metric -> figure, metric -> half of its interval) of a whole launch; `fits`: L2 holds all
    that it reads and writes.

    Raises:
        KeyError, ValueError: the tables are of something else.
    """
    grid = workload.launches[sample.launch].grid
    numbers = [int(each.pop("group")) for each in groups]
    spans = [each.pop("end") - each.pop("begin") for each in groups]
    begins = [int(each.pop("groups")) for each in waves]
    starts = [*range(0, sample.groups, sample.wave), sample.groups]
    if numbers != list(sample.numbers()) or begins != starts or min(spans) < 0:
        raise ValueError("not the work-groups of the sample")
    total = grid[0] * grid[1] * grid[2]
    estimates = {
        name: sampling.of_groups(grid, numbers, [each[name] for each in groups])
        for name in groups[0]
    }
    estimates["work_groups"] = Extrapolated(float(total), 0.0)
    variation = _variation(spans[sample.wave : -sample.ranges[-1][1]])
    for name in waves[0]:
        if name not in estimates:
            estimates[name] = sample.figure(total, [each[name] for each in waves], variation)
    if fits and "dram_reads" in estimates:
        _bound(estimates, _lines(workload, sample.launch))
    time, sampled = estimates["seconds"], waves[-1]["seconds"]
    for name in AT_THE_END & waves[0].keys():
        share = waves[-1][name] / sampled
        estimates[name] = Extrapolated(share * time.value, share * time.half)
    values = {name: max(each.value, 0.0) for name, each in estimates.items()}
    return values, {name: each.half for name, each in estimates.items()}


def _lines(workload: Workload, launch: int) -> float:
    """Cache lines of the tensors of a launch."""
    names = dict.fromkeys(workload.launches[launch].args)
    return float(sum(ceil(workload.buffer(name).spec.held / LINE) for name in names))


def _bound(estimates: dict[str, Extrapolated], lines: float) -> None:
    """Correct what a launch whose tensors fit into L2 reads from DRAM: each line once, at most.

    Where sampled waves miss lines that others of the launch would have loaded before, these are
    extrapolated too often. Nobody knows how much of the time is due to that: it is between none,
    and all that the lines take which are too many.
    """
    reads, time = estimates["dram_reads"], estimates["seconds"]
    caches = ("l1_instruction_misses", "l1_scalar_misses")  # misses of code and arguments
    most = lines + sum(estimates[name].value for name in caches if name in estimates)
    if reads.value <= most:
        return
    sizes = {"dram_reads": 1.0, "dram_read_bytes": LINE}
    if "dram_read_cycles" in estimates:  # so many reads, each with the measured latency
        sizes["dram_read_cycles"] = estimates["dram_read_cycles"].value / reads.value
    for name, size in sizes.items():
        half = max(estimates[name].half, (reads.value - most) * size)
        estimates[name] = Extrapolated(most * size, half)
    too_long = time.value * (1 - most / reads.value)
    estimates["seconds"] = Extrapolated(time.value, max(time.half, too_long))


def _variation(values: Sequence[float]) -> float:
    """Standard deviation over mean."""
    mean = sum(values) / len(values)
    if len(values) < 2 or not mean:
        return 0.0
    return sqrt(sum((each - mean) ** 2 for each in values) / (len(values) - 1)) / mean
