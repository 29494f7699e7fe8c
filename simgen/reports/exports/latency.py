"""Tables of operators with times, as simulators of LLM serving read them.

A folder with a table for each of them, of what they have a place for:

    operators.csv               everything: a line for each layer and pass; times in microseconds
    aiconfigurator/gemm_perf    products, for AIConfigurator's database: `latency` in milliseconds.
                                .parquet is what versions from 0.10 on read, .csv is the same for
                                people; m are rows of activations, n and k features of y and x
    llmservingsim/dense.csv     forward passes by layer and number of tokens, in microseconds
    vidur/mlp.csv               forward passes of layers that have Vidur's names, a line for each
                                number of tokens, in milliseconds
    vidur/all_reduce.csv        all-reduces: `size` in bytes, times in milliseconds

Several bundles, as of a sweep over the number of tokens, make one table: these tools interpolate.
Equal products are one line with the mean of their times. What a table has no word for (quantised
products, factors alpha and beta, a second order in memory or a second 16-bit type of the same
extents, a layer with as many tokens in another bundle) is not in it, and is named.

Source of Vidur's columns: SklearnExecutionTimePredictor of Vidur 0.0.26, which reads medians of
times and takes the lines whose model is the one that it simulates.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from statistics import fmean
from typing import TYPE_CHECKING, Any, ClassVar

from simgen.ask.checks import ExportChoices
from simgen.frontend.network import make_layer
from simgen.frontend.operation import GemmOperation, LibraryOperation
from simgen.ground.ir import OpCount, Pass, Step, Workload
from simgen.ground.storage.files import atomic_folder
from simgen.ground.version import version
from simgen.reports.exports import arrow, base, operators, tables
from simgen.workload import sharding

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from simgen.reports.exports.base import Exported
    from simgen.reports.exports.operators import MatrixProduct

MILLISECONDS, MICROSECONDS = 1e3, 1e6
# AIConfigurator's GEMMQuantMode by the type of the factors; all 16-bit floats share one mode.
QUANT_MODES = {"bf16": "bfloat16", "f16": "bfloat16"}
GEMM = (
    "framework", "version", "device", "op_name", "kernel_source", "gemm_dtype", "m", "n", "k",
    "latency",
)  # fmt: skip
DENSE = ("layer", "tokens", "time_us")
ALL_REDUCE = (
    "size", "num_workers", "devices_per_node", "collective", "time_stats.all_reduce.median",
)  # fmt: skip
VIDUR_LAYERS = (
    "input_layernorm", "attn_pre_proj", "attn_rope", "attn_post_proj", "post_attention_layernorm",
    "mlp_up_proj", "mlp_act", "mlp_down_proj", "add",
)  # fmt: skip
OPTIONAL = ("input_layernorm", "post_attention_layernorm", "add")  # 0 where there is no column
MODEL = ("n_head", "n_kv_head", "vocab_size")  # what layers do not tell
OPERATORS = (
    "bundle", "result", "layer", "kind", "pass", "type", "inputs", "outputs", "m", "n", "k",
    "count", "operations", "bytes", "time_us",
)  # fmt: skip


@dataclass(frozen=True)
class TimedStep:
    """A layer in a pass, with the time that it took."""

    bundle: str
    result: str
    workload: Workload
    step: Step
    work: OpCount
    operation: LibraryOperation | None
    seconds: float
    built: Mapping[str, str]  # settings that the bundle was built with

    @property
    def product(self) -> MatrixProduct | None:
        return operators.product(self.operation)

    def __str__(self) -> str:
        return f"{operators.title(self.step)} of {self.bundle}"

    @property
    def tokens(self) -> int | None:
        """Rows of features that the layer writes; None of images, and of single numbers."""
        _, name = self.step.writes[0]
        shape = self.workload.buffer(name).spec.shape
        if len(shape) == 4:
            shape = shape[:2] if shape[2:] == (1, 1) else ()
        return prod(shape[:-1]) if len(shape) > 1 else None

    def shapes(self, ports: Iterable[tuple[str, str]]) -> str:
        """Shapes of tensors, as "x=8x16x4 w=32x16"."""
        specs = ((port, self.workload.buffer(name).spec) for port, name in ports)
        return " ".join(f"{port}={'x'.join(map(str, each.shape))}" for port, each in specs)


class LatencyTables(base.Export):
    """A folder of tables."""

    name: ClassVar[str] = "latency"
    what: ClassVar[str] = "tables of operators with times, for AIConfigurator and LLM simulators"
    readers: ClassVar[tuple[str, ...]] = ("aiconfigurator", "vidur")
    several: ClassVar[bool] = True
    model_keys: ClassVar[tuple[str, ...]] = MODEL

    def write(self, sources: Sequence[Exported], path: Path) -> list[str]:
        timed = [each for source in sources for each in _timed(self, source)]
        gemms, without = _gemms(timed)
        dense, several = _dense(timed)
        mlp, lacking = _mlp(timed, self.model)
        left = [
            (name, why)
            for name, reasons in (("gemm_perf", without), ("dense.csv", several))
            for why in _by_reason(reasons)
        ]
        found: dict[str, tuple[Sequence[str], Sequence[Sequence[object]]]] = {
            "operators.csv": _operators(timed),
            "aiconfigurator/gemm_perf.csv": (GEMM, gemms),
            "llmservingsim/dense.csv": (DENSE, dense),
            "vidur/mlp.csv": mlp,
            "vidur/all_reduce.csv": (ALL_REDUCE, _all_reduces(sources)),
        }
        lines = [line for source in sources for line in base.inferred(source.result)] + lacking
        with atomic_folder(path, new=True) as folder:
            for name, (heads, rows) in found.items():
                if rows:
                    (folder / name).parent.mkdir(exist_ok=True)
                    (folder / name).write_text(tables.csv_text(heads, rows))
                    lines.append(f"{path / name}: {len(rows)} lines")
            if gemms and arrow.is_here():
                columns = dict(zip(GEMM, map(list, zip(*gemms))))
                at = folder / "aiconfigurator" / "gemm_perf.parquet"
                arrow.write(at, columns, {"latency": "ms"}, {"producer": f"simgen {version()}"})
            elif gemms:
                lines.append(f"there is no pyarrow, and so no gemm_perf.parquet; {arrow.CURE}")
        lines += [f"not in {name}: {why}" for name, why in left]
        if not gemms:
            known = " or ".join(QUANT_MODES)
            lines.append(f"no table for AIConfigurator, which has products of {known}")
        return lines


def _timed(export: base.Export, source: Exported) -> Iterator[TimedStep]:
    """The steps that have times; of several GPUs, what each of them did."""
    bundle, result = source.bundle, source.result
    seconds = base.seconds(export, bundle, result)
    gpus = int(result.provenance.get("gpus", 1))
    workload = sharding.split(bundle.workload, gpus).workload
    for at, step in enumerate(workload.steps):
        if at in seconds:
            found = operators.operation(workload, step)
            node = workload.node(step.layer)
            work = make_layer(node, workload.machine).count(node.inputs, step.direction)
            told = (source.name, result.name, workload, step, work, found)
            yield TimedStep(*told, seconds[at], bundle.settings)


def _operators(timed: Sequence[TimedStep]) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
    """A line for each, with the settings that the names of bundles and results tell."""
    given = [tables.settings(each.bundle, each.result) for each in timed]
    names = dict.fromkeys(name for told in given for name in told)
    heads = [name for name in names if name not in OPERATORS]
    lines = [
        (*_operator(each), *(told.get(name, each.built.get(name, "")) for name in heads))
        for each, told in zip(timed, given, strict=True)
    ]
    return (*OPERATORS, *heads), lines


def _operator(of: TimedStep) -> list[Any]:
    step, p = of.step, of.product
    extents = (p.m, p.n, p.k, p.count) if p else ("", "", "", "")
    return [
        of.bundle, of.result, step.layer, of.workload.node(step.layer).kind, str(step.direction),
        of.workload.types(step), of.shapes(step.reads), of.shapes(step.writes), *extents,
        of.work.flops + of.work.transcendentals, of.work.read_bytes + of.work.written_bytes,
        _number(of.seconds * MICROSECONDS),
    ]  # fmt: skip


def _gemms(timed: Sequence[TimedStep]) -> tuple[list[list[Any]], list[tuple[TimedStep, str]]]:
    """Products that are layers by themselves: fully connected ones, and [Gemm] without a batch.

    Those that the table has no line for come with the reason.
    """
    found: dict[tuple[Any, ...], list[TimedStep]] = {}
    without: list[tuple[TimedStep, str]] = []
    for each in timed:
        p, made = each.product, each.operation
        if p is None or not isinstance(made, GemmOperation):
            continue
        key = (each.result, QUANT_MODES.get(p.type), p.m, p.n, p.k)
        same = found.get(key, [each])[0].operation
        why = (
            operators.unsaid(each.workload, each.step, made)
            or ("" if p.type in QUANT_MODES else p.type)
            or ("" if p.count == 1 else f"{p.count} matrices")
            or ("" if (made.alpha, made.beta) == (1, 0) else f"alpha={made.alpha} beta={made.beta}")
            or ("" if made == same else f"its line is of {same}")
        )
        if why:
            without.append((each, why))
        else:
            found.setdefault(key, []).append(each)
    rows = [
        ["simgen", version(), result, "gemm", "simgen", mode, *mnk,
         _number(fmean(each.seconds for each in of) * MILLISECONDS)]
        for (result, mode, *mnk), of in found.items()
    ]  # fmt: skip
    return rows, without


def _dense(timed: Sequence[TimedStep]) -> tuple[list[list[Any]], list[tuple[TimedStep, str]]]:
    """Lines of forward passes, and the steps that would be a second one of the same name."""
    found: dict[tuple[str, int], TimedStep] = {}
    without: list[tuple[TimedStep, str]] = []
    for each in timed:
        if each.step.direction is Pass.FORWARD and each.tokens is not None:
            kept = found.setdefault((each.step.layer, each.tokens), each)
            if kept is not each:
                without.append((each, f"its line is of {kept.bundle}"))
    rows = [
        [layer, tokens, _number(each.seconds * MICROSECONDS)]
        for (layer, tokens), each in sorted(found.items(), key=lambda item: item[0])
    ]
    return rows, without


def _by_reason(without: Sequence[tuple[TimedStep, str]]) -> list[str]:
    """Names of steps, by the reason that they are not there."""
    found: dict[str, list[str]] = {}
    for each, why in without:
        found.setdefault(why, []).append(str(each))
    return [f"{', '.join(names)} ({why})" for why, names in found.items()]


def _mlp(
    timed: Sequence[TimedStep], model: Mapping[str, int]
) -> tuple[tuple[Sequence[str], list[list[Any]]], list[str]]:
    """Heads and lines of Vidur's table of a decoder layer, and what is to be said of it.

    A bundle gives a line for each number of tokens; its model's sizes are those of the two products
    of the feed-forward block, whose first one has twice the width where it is gated.
    """
    named = [e for e in timed if e.step.layer in VIDUR_LAYERS and e.step.direction is Pass.FORWARD]
    sizes = {
        e.bundle: (up.product.k, e.product.k, up.product.n == 2 * e.product.k)
        for e in named
        for up in named
        if (e.step.layer, up.step.layer) == ("mlp_down_proj", "mlp_up_proj")
        and e.bundle == up.bundle and e.product and up.product
    }  # fmt: skip
    found: dict[tuple[str, int], dict[str, list[float]]] = {}
    for each in named:
        if each.bundle in sizes and each.tokens is not None:
            times = found.setdefault((each.bundle, each.tokens), {})
            times.setdefault(each.step.layer, []).append(each.seconds * MILLISECONDS)
    if not found:
        return ((), []), []
    if set(model) != set(MODEL):
        words = ",".join(f"{key}=N" for key in MODEL if key not in model)
        return ((), []), [
            "no vidur/mlp.csv: layers do not tell all of the model; add "
            f"{ExportChoices.model} {words}"
        ]
    kept: dict[tuple[Any, ...], str] = {}
    said = []
    for bundle, tokens in [*found]:
        first = kept.setdefault((tokens, *sizes[bundle]), bundle)
        if first != bundle:
            del found[bundle, tokens]
            said.append(f"not in mlp.csv: {bundle} with {tokens} tokens (its line is of {first})")
    layers = [name for name in VIDUR_LAYERS if any(name in times for times in found.values())]
    absent = [name for name in VIDUR_LAYERS if name not in layers and name not in OPTIONAL]
    rows = [
        [
            *(_number(fmean(times[name])) if name in times else "" for name in layers),
            model["n_head"], model["n_kv_head"], *sizes[bundle][:2], model["vocab_size"],
            sizes[bundle][2], tokens, 1,
        ]
        for (bundle, tokens), times in found.items()
    ]  # fmt: skip
    heads = (
        *(f"time_stats.{name}.median" for name in layers), "n_head", "n_kv_head", "n_embd",
        "n_expanded_embd", "vocab_size", "use_gated_mlp", "num_tokens",
        "num_tensor_parallel_workers",
    )  # fmt: skip
    if absent:
        said.append(f"vidur/mlp.csv: no layers {', '.join(absent)}, which Vidur asks for")
    return (heads, rows), said


def _all_reduces(sources: Sequence[Exported]) -> list[list[Any]]:
    """What several GPUs added up; all of them are taken to be in one node."""
    rows = []
    for source in sources:
        gpus = int(source.result.provenance.get("gpus", 1))
        for counted in source.result.launches:
            if counted.get("all_reduce_seconds"):
                size = int(counted["all_reduce_bytes"])
                time = _number(counted["all_reduce_seconds"] * MILLISECONDS)
                rows.append([size, gpus, gpus, "all_reduce", time])
    return rows


def _number(value: float) -> float:
    """Nine digits: times are no more exact."""
    return float(f"{value:.9g}")
