"""Wrong results that bounds of long sums let pass, and what the judge of whole tensors says.

    python benchmarks/mutants/run.py [-o TABLE.md] [--only TEXT] [--seeds N]

For each algorithm and length k of its sums, the host target runs simgen's kernels on inputs from
the data file's generator. A mutant is that result, moved by what the mistake changes in float64: so
it has the roundings of real kernels, and the mistake's effect exactly. Mistakes inside of kernels
(a twiddle factor, a constant of Winograd's transformation, an epsilon, a divisor) are made in the
kernel's text instead, which is compiled and run. Printed are, for each, the largest error over the
hard bound, which was all that there was, and the larger of the judge's two figures. Each passes up
to 1; bold is what only the judge catches.

Honest results are those of the kernels with other seeds, and with data of other kinds: rectified,
all positive, sorted, constant, ramps, images of 8 bits. And sums in float32 NumPy, in order and in
pairs, with products that are rounded first, as MGPUSim has them.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from simgen.bundle import results
from simgen.bundle.writing import WORKLOAD, Bundle, workload_text
from simgen.frontend import network
from simgen.frontend.config import Config, Entry, Place, Section
from simgen.frontend.network import make_layer
from simgen.ground.ir import Pass
from simgen.kernels import render
from simgen.kernels.build import Builder
from simgen.kernels.cache import Cache
from simgen.layers import LAYERS
from simgen.layers.product.matrix_product import Product
from simgen.targets.base import Job
from simgen.targets.host import Host
from simgen.tensors import data_file
from simgen.tensors.header import read_header
from simgen.verdict.compare import Comparison
from simgen.workload import lowering as workloads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from numpy.typing import NDArray

    from simgen.ground.ir import Workload
    from simgen.layers import Layer

    Arrays = dict[str, NDArray[Any]]
    Change = Callable[[Layer, Arrays], Arrays]

F, BD, BW, B = Pass.FORWARD, Pass.BACKWARD_DATA, Pass.BACKWARD_WEIGHT, Pass.BACKWARD


@dataclass(frozen=True)
class Case:
    """A layer with its settings, and one pass of it."""

    name: str
    kind: str
    direction: Pass
    settings: dict[str, Any]
    k: int  # terms of a sum
    texts: dict[str, tuple[str, str, str]] = field(default_factory=dict)  # of mutated kernels
    mistakes: tuple[str, ...] = ()  # of MISTAKES; none: those of a product

    def plan(self, seed: int) -> Workload:
        where = Place("benchmark", 0)
        given = {"name": "layer", **self.settings}
        entries = tuple(Entry(key, str(value), where) for key, value in given.items())
        section = Section(LAYERS[self.kind].section, entries, where)
        found = network.resolve(Config("benchmark", (section,), ()))
        return workloads.lower(found, "mutants", (self.direction,), seed)


def run(
    workload: Workload, builder: Builder, fills: Mapping[str, Any], sources: Mapping[str, str]
) -> tuple[Arrays, Arrays]:
    """What the host target writes, and what it read, by port; `fills` are values of ports."""
    with tempfile.TemporaryDirectory() as folder:
        path, target = Path(folder), Host()
        digest = hashlib.sha256(workload_text(workload)).hexdigest()
        rendered = {**render.kernels(workload), **sources}
        job = Job(workload, rendered, data_file.data_id(workload), digest)
        for name, file in target.package.folder(job, builder).items():
            to = path / "host" / name
            to.parent.mkdir(parents=True, exist_ok=True)
            to.write_bytes(file.content)
            to.chmod(0o755 if file.executable else 0o644)
        data_file.write_data(path / "data.h5", workload)
        pairs = zip(workload.inputs, read_header(path / "data.h5").entries, strict=False)
        for buffer, entry in pairs:
            port = buffer.name.split(".")[-1]
            if port in fills:
                place = np.memmap(
                    path / "data.h5", np.float32, "r+", entry.offset, buffer.spec.shape
                )
                place[...] = fills[port]
                place.flush()
        subprocess.run(["sh", str(path / "host" / "run.sh")], check=True, capture_output=True)
        manifest = {
            "simgen": "benchmark",
            "compiler": "benchmark",
            "config": {},
            "data": {"file": "data.h5", "id": job.data_id.hex()},
            "targets": {"host": target.settings()},
            "files": {WORKLOAD: digest},
        }
        bundle = Bundle(path, manifest, workload)
        at = bundle.results("host")
        assert at is not None
        found = results.collect(bundle, target, at)
        (step,) = workload.steps
        wrote = {port: np.array(found.outputs[name].values) for port, name in step.writes}
        inputs = data_file.load(path / "data.h5", workload)
        read = {port: np.array(inputs[name], np.float64) for port, name in step.reads}
    return wrote, read


class Judge:
    """The expectations of one case, from what it read."""

    def __init__(self, workload: Workload, read: Arrays) -> None:
        (step,) = workload.steps
        self.layer = make_layer(workload.node(step.layer), workload.machine)
        self.direction = step.direction
        self.read = read | {
            port: np.broadcast_to(np.nan, workload.buffer(name).spec.shape)
            for port, name in step.writes
            if port in self.layer.shape_given
        }
        with np.errstate(all="ignore"):
            self.reference = self.layer.reference(self.read, self.direction)
            self.tolerance = self.layer.tolerance(self.read, self.direction)
            self.spread = self.layer.spread(self.read, self.direction, self.tolerance)

    def worst(self, wrote: Mapping[str, NDArray[Any]]) -> tuple[float, float]:
        """(largest error over its bound, larger figure of the second judge), of all tensors."""
        before = after = 0.0
        for port, values in wrote.items():
            made = Comparison(values.shape)
            made.add(
                0, values, self.reference[port], self.reference[port], self.tolerance[port],
                self.spread[port],
            )  # fmt: skip
            before = max(before, made.max_ratio)
            after = max(after, made.statistic or 0.0, made.peak or 0.0)
        return before, after

    def moved(self, wrote: Arrays, change: Change) -> Arrays:
        """`wrote` with what a change of the inputs makes of it."""
        changed = self.layer.reference(self.read | change(self.layer, self.read), self.direction)
        return {
            port: (values + (changed[port] - self.reference[port])).astype(np.float32)
            for port, values in wrote.items()
        }


# ---- Mistakes ----


def rounded(bits: int) -> Change:
    """All inputs with so many bits behind the leading one, to nearest."""

    def change(layer: Layer, read: Arrays) -> Arrays:
        found = {}
        for port, values in read.items():
            if not np.isnan(values).all():
                fraction, exponent = np.frexp(values)
                steps = 2.0 ** (bits + 1)
                found[port] = np.ldexp(np.round(fraction * steps) / steps, exponent)
        return found

    return change


def _summed(layer: Layer, read: Arrays) -> tuple[str, list[int]]:
    """The port whose axes `_summed` names are those that a sum goes over."""
    if layer.kind == "gemm":
        return "a", [1]
    if "w" not in read:
        return "dy", [0, 2, 3]
    if layer.kind == "fc":
        return "w", [0] if "dy" in read else [1]
    return "w", [0, 2, 3] if "dy" in read else [1, 2, 3]


def omitted(layer: Layer, read: Arrays) -> Arrays:
    """Without one product of each sum: that in the middle."""
    port, axes = _summed(layer, read)
    values = read[port].copy()
    place = tuple(n // 2 if at in axes else slice(None) for at, n in enumerate(values.shape))
    values[place] = 0
    return {port: values}


def last_tile(layer: Layer, read: Arrays) -> Arrays:
    """Without the last eight products of each sum, or the last channel's."""
    port, axes = _summed(layer, read)
    values = read[port].copy()
    inner = axes[-1] if layer.kind != "conv" or port == "dy" else axes[0]
    length = values.shape[inner]
    count = 1 if layer.kind == "conv" and port == "w" else min(8, length // 2)
    place: list[Any] = [slice(None)] * values.ndim
    place[inner] = slice(length - count, None)
    if port == "dy":  # the last pixels of the last sample
        place[0], place[2] = -1, -1
    values[tuple(place)] = 0
    return {port: values}


def last_pixel(layer: Layer, read: Arrays) -> Arrays:
    """Without the last pixel of every plane of every sample."""
    port = "dy" if "dy" in read else "x"
    values = read[port].copy()
    values[:, :, -1, -1] = 0
    return {port: values}


def border(layer: Layer, read: Arrays) -> Arrays:
    """The first row of pixels stands where the border of zeros should be, and is gone."""
    port = "dy" if "dy" in read else "x"
    values = read[port].copy()
    values[:, :, 0, 1:] = values[:, :, 0, :-1]
    return {port: values}


MISTAKES: dict[str, Change] = {
    "bf16 inputs": rounded(7),
    "TF32 inputs": rounded(10),
    "one product": omitted,
    "last tile": last_tile,
    "last pixel": last_pixel,
    "border": border,
}
PRODUCTS = ("bf16 inputs", "TF32 inputs", "one product", "last tile")


def conv(name: str, direction: Pass, k: int, texts: Any = (), **settings: Any) -> Case:
    given = {"kernel_size": 3, "pad": 1, "conv_mode": "cross_correlation", **settings}
    return Case(name, "conv", direction, given, k, dict(texts), tuple(MISTAKES))


def cases() -> Iterator[Case]:
    """One for each algorithm and length."""
    for algo in ("direct", "implicit_gemm", "im2col", "winograd", "fft"):
        for c, h, out in ((3, 32, 16), (64, 14, 16), (512, 7, 8), (4096, 7, 4)):
            size = {"n": 1, "h": h, "w": h, "algo": algo}
            yield conv(
                f"{algo} forward", F, 9 * c, TEXTS.get((algo, F), {}), c=c, num_output=out, **size
            )
        for out, h, c in ((3, 32, 16), (512, 7, 8)):
            size = {"n": 1, "h": h, "w": h, "algo": algo}
            yield conv(
                f"{algo} data", BD, 9 * out, TEXTS.get((algo, BD), {}), c=c, num_output=out, **size
            )
        for n, h in ((1, 14), (8, 112), (20, 224)):
            size = {"c": 3, "num_output": 4, "algo": algo}
            yield conv(
                f"{algo} filters", BW, n * h * h, TEXTS.get((algo, BW), {}), n=n, h=h, w=h, **size
            )
    for k in (27, 4096, 25088, 10**6):
        given = {"m": 16, "n": 24, "k": k}
        yield Case("gemm", "gemm", F, given, k, mistakes=PRODUCTS)
        yield Case("gemm, short", "gemm", F, given | {"m": 4, "n": 16}, k, mistakes=PRODUCTS)
    for k in (64, 9216, 10**5):
        given = {"n": 12, "c": k, "h": 1, "w": 1, "num_output": 20, "bias": "true"}
        yield Case("fc forward", "fc", F, given, k, mistakes=PRODUCTS)
    given = {"n": 12, "c": 20, "h": 1, "w": 1, "num_output": 25088}
    yield Case("fc data", "fc", BD, given, 25088, mistakes=PRODUCTS)
    given = {"n": 4096, "c": 20, "h": 1, "w": 1, "num_output": 16, "bias": "true"}
    yield Case("fc filters", "fc", BW, given, 4096, mistakes=("bf16 inputs", "TF32 inputs"))
    for n, h in ((4, 8), (16, 28), (20, 224)):
        given = {"n": n, "c": 32, "h": h, "w": h, "batchnorm_mode": "spatial"}
        k = n * h * h
        own = ("bf16 inputs", "TF32 inputs", "last pixel")
        yield Case("bn forward", "bn", F, given, k, TEXTS["bn", F], own)
        yield Case("bn backward", "bn", B, given, k, {}, own)
    for size in (7, 112):
        given = {"n": 2, "c": 16, "h": size, "w": size, "kernel_size": size, "stride": 1}
        given["pool_mode"] = "avg"
        own = ("bf16 inputs", "TF32 inputs", "last pixel")
        yield Case("mean of images", "pool", F, given, size * size, {}, own)


# (what, kernel, text, other text), by algorithm and pass.
TEXTS: dict[tuple[str, Pass], Any] = {
    ("bn", F): {
        "epsilon 1e-6": ("bn_", "EPSILON = 9.999999747378752e-06f", "EPSILON = 1e-06f"),
        "biased variance": ("bn_", "UNBIASED = ", "UNBIASED = FACTOR, IGNORED = "),
    },
    ("fft", F): {"twiddle 1e-4": ("conv_fft_source", "0.707106781f", "0.707206781f")},
    ("fft", BD): {"twiddle 1e-4": ("conv_fft_source", "0.707106781f", "0.707206781f")},
    ("fft", BW): {"twiddle 1e-4": ("conv_fft_image", "0.707106781f", "0.707206781f")},
    ("winograd", F): {"constant": ("conv_winograd_filters", "0.5f", "0.50005f")},
    ("winograd", BD): {"constant": ("conv_winograd_filters", "0.5f", "0.50005f")},
    ("winograd", BW): {"constant": ("conv_winograd_result", "0.5f", "0.50005f")},
}


def mutated(case: Case, workload: Workload, what: str) -> dict[str, str]:
    """Texts of the kernels in which a mistake is."""
    name, old, new = case.texts[what]
    texts = {each.name: render.kernel(each) for each in workload.kernels}
    found = {
        each: text.replace(old, new)
        for each, text in texts.items()
        if each.startswith(name) and old in text
    }
    if not found:
        sys.exit(f"{case.name}, k = {case.k}: no kernel holds {old}")
    return found


def table(builder: Builder, only: str) -> Iterator[str]:
    """Lines of the table of mutants."""
    columns = ("none", *MISTAKES, "in the kernel")
    yield f"| algorithm | k | {' | '.join(columns)} |"
    yield "|---" * (len(columns) + 2) + "|"
    for case in cases():
        if only not in case.name:
            continue
        workload = case.plan(0)
        wrote, read = run(workload, builder, {}, {})
        judge = Judge(workload, read)
        cells = dict.fromkeys(columns, "") | {"none": _cell(*judge.worst(wrote))}
        for what in case.mistakes:
            cells[what] = _cell(*judge.worst(judge.moved(wrote, MISTAKES[what])))
        cells[columns[-1]] = "; ".join(
            f"{what} {_cell(*judge.worst(made))}"
            for what in case.texts
            for made in [run(workload, builder, {}, mutated(case, workload, what))[0]]
        )
        yield f"| {case.name} | {case.k} | {' | '.join(cells.values())} |"


def _cell(before: float, after: float) -> str:
    """Both figures; bold where the bound passes and the judge does not."""
    text = f"{before:.2g}, {after:.2g}"
    return f"**{text}**" if before <= 1 < after else text


# ---- Honest results ----


def _images(rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[Any]:
    """Smooth pictures of 8 bits with noise and flat regions, their mean taken off, over 255."""
    rows, columns = (np.linspace(0, 3, shape[at] if len(shape) > at else 1) for at in (2, 3))
    phase = rng.uniform(0, 6, (*shape[:2], 1, 1)[: max(2, len(shape))])
    waves = np.sin(rows[:, None] * 2 + phase) + np.cos(columns + phase * 2)
    made = np.clip(128 + 90 * waves + rng.normal(0, 4, waves.shape), 0, 255)
    made = np.where(made > 230, 255, np.round(made))
    return np.asarray((made - 110) / 255).reshape(*made.shape[: len(shape)])


def _planes(rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[Any]:
    """One value in each plane, as the gradient of a mean of images is."""
    flat = shape[:2] if len(shape) == 4 else (*shape[:1], 1)
    each = rng.normal(size=flat)
    return np.broadcast_to(each.reshape(*flat, *(1,) * (len(shape) - 2)), shape)


KINDS: dict[str, Callable[[np.random.Generator, tuple[int, ...]], NDArray[Any]]] = {
    "normal": lambda rng, shape: rng.normal(size=shape),
    "rectified": lambda rng, shape: np.maximum(rng.normal(size=shape), 0),
    "positive": lambda rng, shape: rng.uniform(size=shape),
    "exponential": lambda rng, shape: rng.exponential(size=shape),
    "sorted": lambda rng, shape: np.sort(rng.normal(size=shape).reshape(-1)).reshape(shape),
    "offset": lambda rng, shape: 100 + rng.normal(size=shape),
    "constant": lambda rng, shape: np.full(shape, 0.1),
    "two values": lambda rng, shape: rng.choice([0.1, -0.3], shape),
    "ramp": lambda rng, shape: np.arange(np.prod(shape)).reshape(shape) % 1013 / 1013,
    "images": _images,
    "planes": _planes,
    "wide": lambda rng, shape: rng.normal(size=shape) * 10 ** rng.uniform(-6, 3, shape),
    "bf16": lambda rng, shape: np.round(rng.normal(size=shape) * 128) / 128,
}
HALF = ("rectified", "images", "planes")  # against weights of the data file too
WHOLE = ("x", "dy", "a", "b", "w")  # ports that get such values


def honest_cases() -> Iterator[Case]:
    """Those of `cases`, with sums of 64 to 10^5 terms, and gradients of biases."""
    for case in cases():
        if 64 <= case.k <= 110_000 and case.k != 36864:
            yield case
    given = {"n": 8, "c": 3, "h": 28, "w": 28, "num_output": 16, "bias": "true", "algo": "direct"}
    yield conv("direct filters", BW, 8 * 28 * 28, {}, **given)
    given = {"n": 2, "c": 64, "h": 14, "w": 14, "num_output": 40, "bias": "true"}
    for algo in ("implicit_gemm", "winograd", "fft"):
        yield conv(f"{algo} forward", F, 576, {}, **given, algo=algo)


def fills(workload: Workload, kind: str, ports: tuple[str, ...], seed: int) -> Arrays:
    rng = np.random.default_rng(seed)
    found = {}
    for buffer in workload.inputs:
        port = buffer.name.split(".")[-1]
        many = port != "b" or workload.nodes[0].kind == "gemm"
        if port in ports and many:
            found[port] = KINDS[kind](rng, buffer.spec.shape).astype(np.float32)
    return found


@dataclass
class Tally:
    """Honest tensors of one algorithm."""

    tensors: int = 0
    alarms: list[str] = field(default_factory=list)
    largest: float = 0.0
    of: str = ""

    def add(self, judge: Judge, wrote: Arrays, what: str) -> None:
        self.tensors += len(wrote)
        before, after = judge.worst(wrote)
        if before > 1 or after > 1:
            self.alarms.append(f"{what}: {before:.3g}, {after:.3g}")
        if after > self.largest:
            self.largest, self.of = after, what


def campaign(builder: Builder, only: str, seeds: int) -> Iterator[str]:
    """Lines of the table of honest results."""
    tallies: dict[str, Tally] = {}
    for case in honest_cases():
        if only not in case.name:
            continue
        tally = tallies.setdefault(case.name, Tally())
        workload = case.plan(0)
        for kind in KINDS:
            for seed in range(seeds if kind == "normal" else 1):
                sets = (WHOLE, ("x", "dy", "a")) if kind in HALF else (WHOLE,)
                for ports in sets if case.kind not in ("bn", "pool") else (("x", "dy"),):
                    wrote, read = run(workload, builder, fills(workload, kind, ports, seed), {})
                    what = f"k = {case.k}, {kind} {' '.join(ports)}"
                    tally.add(Judge(workload, read), wrote, what)
    if only in "float32 NumPy":
        tallies["float32 NumPy"] = in_order(seeds)
    yield "| algorithm | honest tensors | false alarms | largest figure | of |"
    yield "|---|---|---|---|---|"
    for name, tally in tallies.items():
        alarms = "; ".join(tally.alarms) or "0"
        yield f"| {name} | {tally.tensors} | {alarms} | {tally.largest:.3g} | {tally.of} |"


def in_order(seeds: int) -> Tally:
    """Products of matrices in float32, products rounded before they are added, as on MGPUSim."""
    tally = Tally()
    for k in (27, 1000, 25088, 10**6):
        given = {"m": 16, "n": 12, "k": k}
        workload = Case("", "gemm", F, given, k).plan(0)
        chunk, _ = Product(16, 12, k).chunks
        for kind, make in KINDS.items():
            if k == 10**6 and kind not in ("normal", "positive", "exponential", "constant"):
                continue
            for seed in range(seeds if k < 10**6 else 1):
                rng = np.random.default_rng(seed)
                a, b = (make(rng, s).astype(np.float32) for s in ((16, k), (k, 12)))
                y = np.zeros((16, 12), np.float32)
                for first in range(0, k, chunk):
                    part = np.zeros_like(y)
                    for at in range(first, min(first + chunk, k)):
                        part += np.multiply.outer(a[:, at], b[at])
                    y += part
                judge = Judge(workload, {"a": a.astype(np.float64), "b": b.astype(np.float64)})
                tally.add(judge, {"y": y}, f"k = {k}, {kind}")
    return tally


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("-o", type=Path, help="file for the tables (default: print them)")
    parser.add_argument("--only", default="", help="cases with this in their names")
    parser.add_argument("--seeds", type=int, default=3, help="of honest results (default: 3)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        builder = Builder(Cache(Path(folder)))
        lines = []
        parts = (table(builder, options.only), campaign(builder, options.only, options.seeds))
        for line in itertools.chain(parts[0], ("",), parts[1]):
            print(line, flush=True)
            lines.append(line)
    if options.o:
        options.o.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
