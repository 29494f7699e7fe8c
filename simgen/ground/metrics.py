"""The metrics: what runs measure and what follows from it, in one table that all readers share.

A target leaves numbers for each launch under these names, with these meanings; what it does not
count it leaves out. Tables, figures, correlations and the trace database take names, units, titles
and formulas from here, so that a new metric is one row.

A formula is an expression of other metrics, and of GIVEN: `operations` and `bytes`, which the
algorithm needs, and what the machine that ran it can do at most. It is an expression of SQL too, so
that the trace database computes the same. What lacks a term, or divides by zero, has no value.
"""

from __future__ import annotations

import ast
import operator
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping

    Formula = ast.expr


PREFIXES = {
    "n": 1e-9, "u": 1e-6, "m": 1e-3, "": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12,
    "P": 1e15,
}  # fmt: skip


class Kind(StrEnum):
    """What a metric's numbers are; decides how they are written and compared."""

    TIME = "time"  # seconds
    COUNTER = "counter"  # number of events; several launches add up
    SHARE = "share"  # part of a whole: 0 to 1
    RATE = "rate"  # ratio of two quantities


@dataclass(frozen=True)
class Metric:
    """One row of the table."""

    name: str
    unit: str  # as it stands at an axis
    kind: Kind
    title: str  # title of its figure, and what it is
    formula: str = ""  # empty: targets count it
    compared: bool = False  # correlations have it, and the view `layer` of the trace database
    figure: bool = False  # the report draws it by layer
    column: str = ""  # its heading in the table that `simgen report` prints; empty: not there
    parts: tuple[tuple[str, str], ...] = ()  # (figure of PARTS, label): what it is a part of there


TIME, COUNTER, SHARE, RATE = Kind.TIME, Kind.COUNTER, Kind.SHARE, Kind.RATE

# Figures of one target that show something in parts: key -> (title, unit, the metric without which
# there is no such figure, whether the parts are shown as shares of their sum).
PARTS = {
    "instructions": ("Instruction mix", "share of instructions", "valu_instructions", True),
    "waits": (
        "What wavefronts wait for",
        "share of wavefronts' cycles",
        "wavefront_cycles",
        True,
    ),
    "transactions": ("Memory transactions", "transactions", "l1_accesses", False),
    "floats": (
        "Floating-point operations by kind",
        "instructions of work-items",
        "f32_fma_operations",
        False,
    ),
}
WAITS = "waits"

NEEDED = ("operations", "bytes")  # counts of the step itself
# Facts of the machine that ran it (simgen.reports.pages.peaks): work-items of a wavefront, vector
# instructions of a unit per cycle, bytes per cycle of an L1 and of all of L2, DRAM bytes per
# second, bytes of a line.
PEAKS = (
    "peak_lanes", "peak_valu_issue", "peak_l1_rate", "peak_l2_rate", "peak_dram_rate",
    "line_bytes",
)  # fmt: skip
GIVEN = (*NEEDED, *PEAKS)  # names in formulas that are no metrics


def _cache(
    name: str, title: str, *, compared: bool = False, column: str = ""
) -> tuple[Metric, ...]:
    """The rows of a cache.

    An access to a line that is on its way already (an MSHR hit) fetches nothing and counts as a
    hit, as it does in gem5: only so do two simulators' rates compare.
    """
    parts = {"l1": (("transactions", "L1"),), "l2": (("transactions", "L2"),)}.get(name, ())
    more = (Metric(f"{name}_reads", "transactions", COUNTER, f"{title} reads"),
            Metric(f"{name}_writes", "transactions", COUNTER, f"{title} writes"))  # fmt: skip
    hits, merged, misses = f"{name}_hits", f"{name}_mshr_hits", f"{name}_misses"
    accesses, rate = f"{name}_accesses", f"{name}_hit_rate"
    total = f"{hits} + coalesce({merged}, 0) + {misses}"
    share = f"1 - {misses} / {accesses}"
    return (
        Metric(hits, "accesses", COUNTER, f"{title} hits"),
        Metric(merged, "accesses", COUNTER, f"{title} hits of lines on their way"),
        Metric(accesses, "accesses", COUNTER, f"{title} accesses", total, compared, parts=parts),
        Metric(misses, "accesses", COUNTER, f"{title} misses", "", compared),
        Metric(rate, "hits / accesses", SHARE, f"{title} hit rate", share, compared, True, column),
        *(more if parts else ()),
    )  # fmt: skip


def _wait(reason: str, label: str, title: str) -> Metric:
    """A part of the cycles of wavefronts."""
    return Metric(f"{reason}_cycles", "cycles", COUNTER, title, parts=((WAITS, label),))


def _float(kind: str, label: str, title: str) -> Metric:
    """A kind of float32 operations."""
    name, full = f"f32_{kind}_operations", f"{title} in float32"
    return Metric(name, "operations", COUNTER, full, parts=(("floats", label),))


def _busy(unit: str, title: str, formula: str = "") -> tuple[Metric, Metric]:
    """How much of what it could do a unit has done: as a profiler counts it, or else by formula."""
    busy = f"{unit}_busy_seconds"
    counted = f"{busy} / counted_seconds"
    return (
        Metric(busy, "seconds", TIME, f"Time that the work of {title} takes at their peak"),
        Metric(
            f"{unit}_utilization", "share of peak", SHARE, f"Utilization of {title}",
            f"coalesce({counted}, {formula})" if formula else counted, figure=True,
        ),
    )  # fmt: skip


def _kind(name: str, label: str, title: str, *more: tuple[str, str]) -> Metric:
    """A kind of instructions, in an order in which figures stack them."""
    parts = (("instructions", label), *more)
    return Metric(name, "instructions", COUNTER, title, "", True, parts=parts)


_ROWS = (
    # Times. Of a simulator, `seconds` are simulated ones.
    Metric("seconds", "seconds", TIME, "Time of each layer", "", True, True, "time"),
    Metric(
        "elapsed_seconds", "seconds", TIME,
        "Several queues: time from the latest earlier end to its own end; the sum is the run's "
        "time",
    ),
    Metric("seconds_min", "seconds", TIME, "Time in the fastest round"),
    Metric("seconds_q1", "seconds", TIME, "Time that a quarter of the rounds do not exceed"),
    Metric("seconds_q3", "seconds", TIME, "Time that three quarters of the rounds do not exceed"),
    Metric("seconds_max", "seconds", TIME, "Time in the slowest round"),
    Metric("rounds", "rounds", COUNTER, "Timed rounds"),
    Metric("simulated_seconds", "seconds", TIME,
           "Time since the end of the launch before, CPUs included"),
    Metric("host_seconds", "seconds", TIME, "Time that the simulator took"),
    Metric("shader_active_ticks", "ticks", COUNTER, "Ticks in which the GPU was active"),
    Metric("cycles", "cycles", COUNTER, "Cycles of the GPU's clock", "", True),
    # Instructions, each counted once for a wavefront.
    Metric(
        "instructions", "wavefront instructions", COUNTER, "Instructions", "", True, True,
        "instructions",
    ),
    _kind("valu_instructions", "vector ALU", "Instructions of the vector ALU"),
    _kind("salu_instructions", "scalar ALU", "Instructions of the scalar ALU, no branches"),
    _kind("lds_instructions", "LDS", "Instructions of LDS", ("transactions", "LDS")),
    _kind("vector_memory_reads", "vector memory", "Vector loads"),
    _kind("vector_memory_writes", "vector memory", "Vector stores"),
    _kind("scalar_memory_reads", "scalar memory", "Scalar loads"),
    Metric(
        "other_instructions", "instructions", COUNTER,
        "Waits, barriers, ends, and instructions that a target does not classify",
        "max(0, instructions - valu_instructions - coalesce(salu_instructions, 0)"
        " - coalesce(lds_instructions, 0) - coalesce(vector_memory_reads, 0)"
        " - coalesce(vector_memory_writes, 0) - coalesce(scalar_memory_reads, 0))",
        parts=(("instructions", "other"),),
    ),
    Metric(
        "instructions_per_cycle", "of the whole GPU", RATE, "Instructions per cycle",
        "instructions / cycles", figure=True,
    ),
    Metric(
        "unit_instructions_per_cycle", "instructions / cycle", RATE,
        "Instructions per active cycle of a compute unit", "instructions / cu_active_cycles",
    ),
    Metric("vector_operations", "operations", COUNTER, "Vector instructions times work-items"),
    Metric(
        "valu_operations", "operations", COUNTER,
        "Instructions of the vector ALU times work-items that execute them",
    ),
    Metric("thread_instructions", "instructions", COUNTER, "Instructions of threads"),
    Metric(
        "thread_instructions_on", "instructions", COUNTER,
        "Instructions of threads whose predicate is true",
    ),
    Metric(
        "warp_execution_efficiency", "active / all work-items", SHARE,
        "Work-items that execute an instruction",
        "coalesce(thread_instructions / (instructions * peak_lanes),"
        " valu_operations / (valu_instructions * peak_lanes))",
        figure=True,
    ),
    Metric(
        "warp_nonpredicated_efficiency", "active / all work-items", SHARE,
        "Work-items that execute an instruction and whose predicate is true",
        "thread_instructions_on / (instructions * peak_lanes)", figure=True,
    ),
    # Counts of work-items, with float32: a fused multiply-add counts once.
    _float("fma", "fused multiply-add", "Multiply-adds"),
    _float("add", "add", "Additions"),
    _float("mul", "multiply", "Products"),
    _float("special", "special function", "Reciprocals, roots, exponentials and the like"),
    _float("other", "other", "Those that a target does not tell apart, comparisons included"),
    Metric(
        "f32_instructions", "instructions of work-items", COUNTER, "Floating-point instructions",
        "f32_fma_operations + coalesce(f32_add_operations, 0) + coalesce(f32_mul_operations, 0)"
        " + coalesce(f32_special_operations, 0) + coalesce(f32_other_operations, 0)",
    ),
    Metric(
        "f32_flops", "flops", COUNTER, "Floating-point operations that were executed",
        "2 * f32_fma_operations + coalesce(f32_add_operations, 0)"
        " + coalesce(f32_mul_operations, 0) + coalesce(f32_special_operations, 0)"
        " + coalesce(f32_other_operations, 0)",
    ),
    Metric("lds_reads", "transactions", COUNTER, "Loads from LDS"),
    Metric("lds_writes", "transactions", COUNTER, "Stores to LDS"),
    Metric("lds_bank_accesses", "accesses", COUNTER, "Accesses to banks of LDS"),
    Metric("lds_bytes", "bytes", COUNTER, "Bytes that work-items load from LDS and store to it"),
    Metric(
        "lds_bytes_per_second", "bytes / second", RATE, "LDS throughput",
        "coalesce(lds_bytes, 4 * lds_bank_accesses) / coalesce(counted_seconds, seconds)",
        figure=True,
    ),
    # Compute units and what wavefronts wait for.
    Metric("wavefronts", "wavefronts", COUNTER, "Wavefronts that ended"),
    Metric("work_groups", "work-groups", COUNTER, "Work-groups that ended"),
    Metric("cu_cycles", "cycles", COUNTER, "Cycles of all compute units"),
    Metric("cu_active_cycles", "cycles", COUNTER, "Cycles of compute units with work"),
    Metric(
        "cu_utilization", "share of cycles", SHARE, "Compute units with work",
        "cu_active_cycles / cu_cycles", figure=True,
    ),
    Metric(
        "wavefront_slot_cycles", "cycles", COUNTER,
        "Active cycles of compute units times wavefronts that they can hold",
    ),
    Metric("wavefront_cycles", "cycles", COUNTER, "Those of them with a wavefront"),
    Metric(
        "occupancy", "share of wavefront slots", SHARE, "Occupancy",
        "wavefront_cycles / wavefront_slot_cycles", figure=True,
    ),
    _wait("ready", "ready", "Cycles of wavefronts that may be scheduled"),
    _wait("stall_fetch", "instruction fetch", "Cycles of waiting for the next instruction"),
    _wait("executing_valu", "in a vector ALU", "Cycles of executing in a vector ALU"),
    _wait("executing_salu", "in a scalar unit",
          "Cycles of executing in the scalar or branch unit, scalar loads included"),
    _wait("executing_lds", "in LDS", "Cycles of executing in LDS"),
    _wait("executing_memory", "to a memory unit",
          "Cycles from a vector load or store to the next instruction"),
    _wait("stall_wait", "memory and LDS", "Cycles in s_waitcnt (waiting for memory or LDS)"),
    _wait("stall_barrier", "barrier", "Cycles at barriers"),
    _wait("stall_vgpr", "vector register", "Cycles of waiting for a vector register"),
    _wait("stall_sgpr", "scalar register", "Cycles of waiting for a scalar register"),
    _wait("stall_dependency", "result before", "Cycles of waiting for the instruction before"),
    _wait("stall_pipe", "busy unit", "Cycles of waiting for a functional unit or its queue"),
    _wait("stall_other", "other, or executing", "Cycles that a target does not classify"),
    Metric(
        "eligible_wavefronts", "of a compute unit", RATE, "Wavefronts that may issue, per cycle",
        "ready_cycles / cu_active_cycles", figure=True,
    ),
    Metric(
        "counted_seconds", "seconds", TIME,
        "Time under a profiler; the base of its shares, not the run's time",
    ),
    *_busy("alu", "vector ALUs", "valu_instructions / (cu_cycles * peak_valu_issue)"),
    *_busy(
        "special", "special-function units",
        "f32_special_operations / (cu_cycles * peak_lanes * peak_valu_issue)",
    ),
    *_busy(
        "ldst", "load/store units", "(vector_memory_reads + vector_memory_writes) / cu_cycles"
    ),
    *_busy("control", "branch units"),
    *_busy("lds", "LDS", "lds_instructions / cu_cycles"),
    # Memory.
    *_cache("l1", "L1", compared=True, column="L1 hits"),
    *_cache("l1_scalar", "L1 scalar"),
    *_cache("l1_instruction", "L1 instruction"),
    *_cache("l2", "L2", compared=True, column="L2 hits"),
    Metric("l1_sector_bytes", "bytes", COUNTER, "Bytes that L1 was asked for, in sectors"),
    Metric("l2_sector_bytes", "bytes", COUNTER, "Bytes that L2 was asked for, in sectors"),
    Metric(
        "l1_bytes_per_second", "bytes / second", RATE, "L1 throughput",
        "coalesce(l1_sector_bytes, l1_accesses * line_bytes)"
        " / coalesce(counted_seconds, seconds)",
        figure=True,
    ),
    Metric(
        "l2_bytes_per_second", "bytes / second", RATE, "L2 throughput",
        "coalesce(l2_sector_bytes, l2_accesses * line_bytes)"
        " / coalesce(counted_seconds, seconds)",
        figure=True,
    ),
    *_busy("l1", "L1 caches", "l1_accesses * line_bytes / (cu_cycles * peak_l1_rate)"),
    *_busy("l2", "L2 caches", "l2_accesses * line_bytes / (cycles * peak_l2_rate)"),
    Metric("dram_reads", "transactions", COUNTER, "DRAM reads", parts=(("transactions", "DRAM"),)),
    Metric(
        "dram_writes", "transactions", COUNTER, "DRAM writes", parts=(("transactions", "DRAM"),)
    ),
    Metric("dram_read_bytes", "bytes", COUNTER, "Bytes read from the DRAM", "", True),
    Metric("dram_written_bytes", "bytes", COUNTER, "Bytes written to the DRAM", "", True),
    Metric(
        "dram_bytes", "bytes", COUNTER, "DRAM traffic",
        "dram_read_bytes + coalesce(dram_written_bytes, 0)", figure=True,
    ),
    # What is at the DRAM at once follows from these by Little's law.
    Metric(
        "dram_read_cycles", "cycles", COUNTER,
        "Cycles from a DRAM read's arrival at its controller to the answer, summed over all",
    ),
    Metric("dram_write_cycles", "cycles", COUNTER, "The same for DRAM writes"),
    Metric(
        "dram_read_latency", "seconds", RATE, "Mean latency of DRAM reads, at the controller",
        "dram_read_cycles * seconds / cycles / dram_reads", figure=True,
    ),
    Metric(
        "dram_write_latency", "seconds", RATE, "Mean latency of DRAM writes, at the controller",
        "dram_write_cycles * seconds / cycles / dram_writes",
    ),
    Metric(
        "dram_outstanding", "requests", RATE, "Mean number of outstanding DRAM requests",
        "(dram_read_cycles + dram_write_cycles) / cycles", figure=True,
    ),
    # Adding up the sums that several GPUs have parts of, after the step of the launch.
    Metric("all_reduce_launches", "launches", COUNTER, "Launches of the all-reduce"),
    Metric("all_reduce_instructions", "instructions", COUNTER, "Instructions of the all-reduce"),
    Metric("all_reduce_seconds", "seconds", TIME, "Time of the all-reduce"),
    Metric("all_reduce_host_seconds", "seconds", TIME, "Time that the simulator took for it"),
    Metric("all_reduce_bytes", "bytes", COUNTER, "Bytes of the vector that the GPUs reduce"),
    # For n GPUs, 2 (n - 1) / n of that; bandwidths by the names and formulas of NCCL's nccl-tests.
    Metric("all_reduce_bus_bytes", "bytes", COUNTER, "Bytes that each GPU sends in a ring"),
    Metric(
        "all_reduce_bandwidth", "bytes / second", RATE, "Algorithm bandwidth of the all-reduce",
        "all_reduce_bytes / all_reduce_seconds", figure=True, column="algorithm bytes/s",
    ),
    Metric(
        "all_reduce_bus_bandwidth", "bytes / second", RATE, "Bus bandwidth of the all-reduce",
        "all_reduce_bus_bytes / all_reduce_seconds", figure=True, column="bus bytes/s",
    ),
    # What the algorithm needs, in the time that it took.
    Metric(
        "operations_per_second", "operations / second", RATE, "Throughput", "operations / seconds",
        True, True, "operations/s",
    ),
    Metric(
        "bytes_per_second", "bytes / second", RATE, "Bytes that the algorithm needs, per second",
        "bytes / seconds", True, column="bytes/s",
    ),
    # gem5 counts the DRAM's traffic over more time than that in which the GPU worked.
    Metric(
        "dram_bytes_per_second", "bytes / second", RATE, "DRAM throughput",
        "dram_bytes / coalesce(simulated_seconds, counted_seconds, seconds)", figure=True,
    ),
    *_busy("dram", "DRAM channels", "dram_bytes_per_second / peak_dram_rate"),
)  # fmt: skip
METRICS = {metric.name: metric for metric in _ROWS}
OF_HOST = ("host_seconds", "all_reduce_host_seconds")  # what the simulator took, not the machine


def derived(counted: Mapping[str, float]) -> dict[str, float]:
    """What follows from a step's counts, by name, in the order of the table.

    `counted` holds the sums over the launches of a step, and GIVEN.
    """
    values = dict(counted)
    found = {}
    for metric in METRICS.values():
        if not metric.formula or metric.name in counted:
            continue
        value = _value(_parsed(metric.formula), values)
        if value is not None:
            values[metric.name] = found[metric.name] = value
    return found


def compared(*, rates: bool = False) -> list[Metric]:
    """The metrics that are compared between targets. `rates`: those too which only say again what
    the time says, in another unit."""
    return [m for m in METRICS.values() if m.compared and (rates or m.kind is not Kind.RATE)]


def parts(key: str) -> dict[str, tuple[str, ...]]:
    """Label -> metrics whose sum it shows, of a figure of PARTS."""
    found: dict[str, tuple[str, ...]] = {}
    for metric in METRICS.values():
        for figure, label in metric.parts:
            if figure == key:
                found[label] = (*found.get(label, ()), metric.name)
    return found


def unit(name: str) -> str:
    """The unit of a metric; empty where it is none of the table (a target may count more)."""
    return METRICS[name].unit if name in METRICS else ""


def is_share(name: str) -> bool:
    """Whether a metric's values are shares of a whole."""
    return name in METRICS and METRICS[name].kind is Kind.SHARE


# ------------------------------------------------------------------ formulas

_BINARY = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul}
_SIGNS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*"}


@cache
def _parsed(formula: str) -> Formula:
    return ast.parse(formula, mode="eval").body


def _value(node: Formula, values: Mapping[str, float]) -> float | None:
    """The value of an expression; None where it has none."""
    match node:
        case ast.Constant(value=int() | float() as value):
            return float(value)
        case ast.Name(id=name):
            return values.get(name)
        case ast.Call(func=ast.Name(id="coalesce"), args=terms):
            found = (_value(term, values) for term in terms)
            return next((value for value in found if value is not None), None)
        case ast.Call(func=ast.Name(id="max"), args=terms):
            numbers = [_value(term, values) for term in terms]
            return None if None in numbers else max(n for n in numbers if n is not None)
        case ast.BinOp(left=left, op=ast.Div(), right=right):
            over, under = _value(left, values), _value(right, values)
            return over / under if over is not None and under else None
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _BINARY:
            a, b = _value(left, values), _value(right, values)
            return None if a is None or b is None else float(_BINARY[type(sign)](a, b))
    raise _unknown(node)


def sql(name: str) -> str:
    """A metric or one of GIVEN as an expression of SQL over columns that targets count."""
    return _sql(_parsed(name))


def _sql(node: Formula) -> str:
    match node:
        case ast.Constant(value=int() | float() as value):
            return str(float(value))  # whole numbers would be divided as such
        case ast.Name(id=name):
            formula = METRICS[name].formula if name in METRICS else ""
            return _sql(_parsed(formula)) if formula else name
        case ast.Call(func=ast.Name(id="coalesce" | "max" as function), args=terms):
            return f"{function}({', '.join(map(_sql, terms))})"
        case ast.BinOp(left=left, op=ast.Div(), right=right):
            return f"({_sql(left)} / nullif({_sql(right)}, 0))"
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _SIGNS:
            return f"({_sql(left)} {_SIGNS[type(sign)]} {_sql(right)})"
    raise _unknown(node)


def counted(names: Iterable[str]) -> list[str]:
    """The metrics that targets count from which these follow, in the order of the table."""
    found: set[str] = set()
    left = list(names)
    while left:
        name = left.pop()
        formula = METRICS[name].formula if name in METRICS else ""
        if formula:
            words = (n.id for n in ast.walk(_parsed(formula)) if isinstance(n, ast.Name))
            left += [word for word in words if word in METRICS]
        else:
            found.add(name)
    return [metric.name for metric in METRICS.values() if metric.name in found]


def expressed(name: str, counted: Container[str]) -> str | None:
    """A metric as a formula of those that a target counts, and GIVEN; None where it lacks one."""
    found = _expressed(_parsed(name), counted)
    return None if found is None else ast.unparse(found)


def quantity(value: float, unit: str, prefixes: str = "numkMGTP") -> str:
    """0.000123 in "s" -> "123 us": three digits, with the prefix that the rounded number has."""
    digits = float(f"{value:.3g}")
    powers = {name: PREFIXES[name] for name in ("", *prefixes)}
    fitting = [name for name in powers if abs(digits) >= powers[name]]
    name = max(fitting, key=powers.__getitem__) if fitting else min(powers, key=powers.__getitem__)
    scaled = digits / powers[name]
    return f"{scaled:.3g} {name}{unit}" if abs(scaled) < 1000 else f"{scaled:.0f} {name}{unit}"


def seconds(value: float) -> str:
    """0.000123 -> "123 us"."""
    return quantity(value, "s", "num")


def terms(formula: str) -> list[str]:
    """The names in a formula, in their order."""
    found = (n.id for n in ast.walk(ast.parse(formula, mode="eval")) if isinstance(n, ast.Name))
    return [name for name in dict.fromkeys(found) if name in METRICS]


def _expressed(node: Formula, counted: Container[str]) -> Formula | None:
    """The expression of counts that has the value of `node`; None where it has none."""
    match node:
        case ast.Constant():
            return node
        case ast.Name(id=name):
            formula = METRICS[name].formula if name in METRICS else ""
            if name in counted or name in GIVEN:
                return node
            return _expressed(_parsed(formula), counted) if formula else None
        case ast.Call(func=ast.Name(id="coalesce"), args=args):
            found = (_expressed(arg, counted) for arg in args)
            return next((each for each in found if each is not None), None)
        case ast.Call(func=ast.Name(id="max") as function, args=args):
            every = [each for arg in args if (each := _expressed(arg, counted)) is not None]
            return ast.Call(function, every, []) if len(every) == len(args) else None
        case ast.BinOp(left=left, op=sign, right=right):
            a, b = _expressed(left, counted), _expressed(right, counted)
            if a is None or b is None:
                return None
            nothing = isinstance(b, ast.Constant) and b.value == 0
            if nothing and isinstance(sign, ast.Add | ast.Sub):  # a part that the target lacks
                return a
            return ast.BinOp(a, sign, b)
    raise _unknown(node)


def _unknown(node: Formula) -> ValueError:
    return ValueError(f"{ast.unparse(node)}: formulas have + - * /, coalesce() and max()")
