"""Fits data/costs.json to runs, and compares what is foretold of each workload with its run.

    python benchmarks/costs/run.py collect TARGET     # runs what has not run; rows-TARGET.json
    python benchmarks/costs/run.py add TARGET BUNDLE [RESULT [FACTOR]]  # rows of one that has run
    python benchmarks/costs/run.py fit TARGET         # data/costs.json, and the table of RESULTS.md
    python benchmarks/costs/run.py template TARGET TEMPLATE  # that one of data/costs.json alone
    python benchmarks/costs/run.py counts TARGET TEMPLATE    # its instructions, not its host times
    python benchmarks/costs/run.py times TARGET       # simulated times alone
    python benchmarks/costs/run.py host TARGET        # host times alone, of a simulator made faster

A workload is foretold from the others alone: the fit is made again without it for its row. FACTOR
is what `simgen show --cost --json` says of the machine of that run, where another made the fit.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from statistics import median

import numpy as np

import simgen
from simgen.bundle import finding
from simgen.bundle import writing as bundles
from simgen.ground import resources
from simgen.running.estimates import FILE, WORD, TargetCosts, TemplateCost
from simgen.workload import launch_features

OPTIONS = {"mgpusim": {"mode": "timing"}}
RIDGE = 1e-3  # of the largest column; keeps what few runs cannot tell apart near nothing
START = {"mgpusim": 0.3, "gem5-se": 4.0}  # seconds of a process, about
# Bytes of a process, and for each byte of tensors: of MGPUSim as `top` showed them for LeNet-5
# (2 MB) and ResNet-50 (387 MB), of gem5 what simgen.targets.gem5 asks for.
MEMORY = {"mgpusim": (512 << 20, 2.5), "gem5-se": (256 << 20, 12.5)}
WORKLOADS = (
    "gemm_fwd m=128 n=64 k=64",
    "gemm_fwd m=35 n=100 k=128",
    "gemm_fwd m=64 n=64 k=64",
    "gemm_fwd m=128 n=128 k=128",
    "gemm_fwd m=64 n=64 k=512",
    "gemm_fwd m=96 n=200 k=1024",
    "gemm_fwd m=128 n=256 k=512",
    "gemm_fwd m=256 n=256 k=64",
    "gemm_fwd m=256 n=256 k=256",
    "gemm_fwd m=1024 n=64 k=64",
    "fc_bwd_weight n=1 c=512 num_output=1000",
    "conv_fwd n=1 c=8 h=14 w=14 num_output=16 kernel_size=3 pad=1",
    "conv_fwd n=1 c=16 h=14 w=14 num_output=32 kernel_size=1 pad=0",
    "conv_fwd n=1 c=3 h=32 w=32 num_output=8 kernel_size=7 pad=3 stride=2",
    "conv_bwd_data n=1 c=8 h=10 w=10 num_output=8 kernel_size=3 pad=1",
    "conv_bwd_weight n=1 c=8 h=10 w=10 num_output=8 kernel_size=3 pad=1",
    "pool_fwd n=1 c=8 h=16 w=16",
    "pool_bwd n=1 c=8 h=16 w=16",
    "activation_fwd n=4 c=16 h=16 w=16",
    "activation_fwd n=16 c=16 h=16 w=16",
    "activation_bwd n=4 c=16 h=16 w=16",
    "softmax_fwd n=16 c=200",
    "softmax_bwd n=16 c=200",
    "softmax_fwd n=64 c=100",
    "bn_fwd n=4 c=8 h=8 w=8 batchnorm_mode=spatial",
    "bn_bwd n=4 c=8 h=8 w=8 batchnorm_mode=spatial",
    "lrn_fwd n=1 c=16 h=8 w=8",
    "fc_fwd n=4 c=256 num_output=64",
    "fc_bwd_data n=4 c=128 num_output=64",
    "add_fwd n=1 c=32 h=14 w=14",
    "concat_fwd n=1 c=32 h=14 w=14",
    "dropout_fwd n=16 c=500",
    "layer_norm_fwd shape=2x32x128",
    "heads_fwd shape=1x32x128 heads=2",
    "bypass_fwd n=16 c=500",
    "lrn_fwd n=2 c=32 h=8 w=8",
    "pool_fwd n=1 c=4 h=12 w=12 pool_mode=avg",
    "conv_bwd_weight n=1 c=8 h=14 w=14 num_output=16 kernel_size=3 pad=1",
    "pool_bwd n=1 c=4 h=24 w=24",
    "activation_bwd n=2 c=16 h=20 w=20",
    "softmax_bwd n=32 c=100",
    "bn_fwd n=4 c=16 h=10 w=10 batchnorm_mode=spatial",
    "bn_bwd n=4 c=16 h=10 w=10 batchnorm_mode=spatial",
    "add_fwd n=2 c=24 h=16 w=16",
    "concat_fwd n=2 c=16 h=16 w=16",
    "dropout_fwd n=10 c=400",
    "layer_norm_fwd shape=1x64x192",
    "heads_fwd shape=1x48x192 heads=3",
    "bypass_fwd n=10 c=400",
    "conv_fwd n=1 c=64 h=28 w=28 num_output=64 kernel_size=3 pad=1",
    "conv_fwd n=1 c=128 h=14 w=14 num_output=128 kernel_size=3 pad=1",
)


def rows_of(bundle: bundles.Bundle, name: str, result: str) -> list[dict[str, object]]:
    """Features and measured figures of each launch that ran."""
    workload = bundle.workload
    found = finding.find_result(bundle, result)
    machine = workload.machine
    inferred = found.provenance.get("inferred", ())
    skipped = {at for at, _ in inferred}
    return [
        {
            "workload": name,
            **asdict(features),
            "first": not at,
            "units": machine.units,
            "clock": machine.clock,
            "dram": machine.dram_rate,
            "count": metrics["instructions"],
            "seconds": metrics["seconds"],
            "host": metrics["host_seconds"],
        }
        for at, (features, metrics) in enumerate(
            zip(launch_features.features_of(workload), found.launches, strict=True)
        )
        if metrics and at not in skipped
    ]


def collect(target: str) -> None:
    path = Path(f"rows-{target}.json")
    rows = json.loads(path.read_text()) if path.exists() else []
    done = {row["workload"] for row in rows}
    for at, name in enumerate(WORKLOADS):
        if name in done:
            continue
        word, *pairs = name.split()
        plan = simgen.plan(word, set=dict(pair.split("=") for pair in pairs))
        made = plan.build(f"costs-{target}-{at}", targets=[target])
        ran = made.run(target, options=OPTIONS.get(target, {}), replace=True)
        rows += rows_of(bundles.load(made.path), name, ran.name)
        path.write_text(json.dumps(rows))
        print(name, flush=True)


def add(target: str, folder: str, result: str = "", factor: str = "1") -> None:
    path = Path(f"rows-{target}.json")
    rows = json.loads(path.read_text()) if path.exists() else []
    bundle = bundles.load(Path(folder))
    name = Path(folder).resolve().name
    rows = [row for row in rows if row["workload"] != name]
    own = rows_of(bundle, name, result or target)
    own = [{**row, "host": row["host"] / float(factor)} for row in own]
    path.write_text(json.dumps(rows + own))


def solved(
    columns: list[list[float]], wanted: list[float], weights: np.ndarray | float = 1.0
) -> list[float]:
    """Factors, none below 0, by least squares of relative errors (active set: drop the lowest)."""
    weighted = weights * np.ones(len(wanted))
    a = np.array(columns, float).T / np.array(wanted)[:, None] * weighted[:, None]
    keep = list(range(a.shape[1]))
    while keep:
        part = a[:, keep]
        ridge = RIDGE * np.linalg.norm(part, axis=0)
        stacked = np.vstack([part, np.diag(ridge)])
        found = np.linalg.lstsq(stacked, np.r_[weighted, np.zeros(len(keep))], rcond=None)[0]
        if (found >= 0).all():
            return [float(found[keep.index(i)]) if i in keep else 0.0 for i in range(a.shape[1])]
        keep.pop(int(np.argmin(found)))
    return [0.0] * a.shape[1]


def template(rows: list[dict]) -> TemplateCost:
    columns = [
        [row["wavefronts"] for row in rows],
        [row["operations"] for row in rows],
        [row["nbytes"] / WORD for row in rows],
    ]
    counts = [row["count"] for row in rows]
    return TemplateCost(
        *solved(columns, counts), median(row["host"] / row["count"] for row in rows)
    )


def fitted_times(rows: list[dict], weights: np.ndarray | float = 1.0) -> list[float]:
    columns = [
        [1.0 for _ in rows],
        [float(row["first"]) for row in rows],
        [row["count"] / row["wavefronts"] / row["clock"] for row in rows],
        [row["count"] / row["units"] / row["clock"] for row in rows],
        [row["nbytes"] / row["dram"] for row in rows],
    ]
    return solved(columns, [row["seconds"] for row in rows], weights)


def fitted(target: str, rows: list[dict]) -> TargetCosts:
    names = sorted({row["template"] for row in rows})
    templates = {name: template([r for r in rows if r["template"] == name]) for name in names}
    other = TemplateCost(
        *(median(getattr(each, field) for each in templates.values())
          for field in ("wavefront", "operation", "word", "host"))
    )  # fmt: skip
    times = fitted_times(rows)
    return TargetCosts(templates, other, *times, START[target], *MEMORY[target])


def foretold(costs: TargetCosts, row: dict) -> tuple[float, float, float]:
    of = costs.templates.get(row["template"], costs.other)
    count = (
        row["wavefronts"] * of.wavefront
        + row["operations"] * of.operation
        + row["nbytes"] / WORD * of.word
    )
    return count, seconds_of(costs, row, count), count * of.host


def seconds_of(costs: TargetCosts, row: dict, count: float) -> float:
    """Simulated, of a launch with so many instructions."""
    return (
        costs.launch
        + costs.first * row["first"]
        + costs.latency * count / row["wavefronts"] / row["clock"]
        + costs.issue * count / row["units"] / row["clock"]
        + costs.dram * row["nbytes"] / row["dram"]
    )


def fit(target: str) -> None:
    rows = json.loads(Path(f"rows-{target}.json").read_text())
    names = list(dict.fromkeys(row["workload"] for row in rows))
    print("| workload | launches | instructions | foretold | us | foretold | host s | foretold |")
    print("|---|---|---|---|---|---|---|---|")
    errors = []
    for name in names:
        own = [row for row in rows if row["workload"] == name]
        rest = [row for row in rows if row["workload"] != name]
        costs = fitted(target, rest)
        guesses = np.array([foretold(costs, row) for row in own]).sum(axis=0)
        actual = np.array([(r["count"], r["seconds"], r["host"]) for r in own]).sum(axis=0)
        known = all(row["template"] in costs.templates for row in own)
        if known:
            errors.append(guesses / actual - 1)
        cells = [f"{a:.4g} | {g:.4g} ({g / a - 1:+.0%})" for a, g in zip(
            actual * (1, 1e6, 1), guesses * (1, 1e6, 1))]  # fmt: skip
        print(f"| {name}{'' if known else ' (alone)'} | {len(own)} | {' | '.join(cells)} |")
    for which, what in enumerate(("instructions", "simulated time", "host time")):
        off = [abs(each[which]) for each in errors]
        print(f"{what}: median {median(off):.0%}, worst {max(off):.0%} of {len(off)} workloads")
    path = resources.folder("data") / FILE
    table = json.loads(path.read_text()) if path.exists() else {}
    table[target] = asdict(fitted(target, rows))
    write(path, table)


def fit_counts(target: str, name: str) -> None:
    """Fit the instructions of one template; its host times stay too."""
    fit_template(target, name, keep_host=True)


def fit_template(target: str, name: str, *, keep_host: bool = False) -> None:
    """Fit one template that the table lacks; what the table has of others stays."""
    rows = json.loads(Path(f"rows-{target}.json").read_text())
    rows = [row for row in rows if row["template"] == name]
    path = resources.folder("data") / FILE
    table = json.loads(path.read_text())
    for workload in dict.fromkeys(row["workload"] for row in rows):
        own = [row for row in rows if row["workload"] == workload]
        rest = template([row for row in rows if row["workload"] != workload])
        told = sum(
            row["wavefronts"] * rest.wavefront + row["operations"] * rest.operation
            + row["nbytes"] / WORD * rest.word for row in own
        )  # fmt: skip
        count = sum(row["count"] for row in own)
        print(f"| {workload} | {len(own)} | {count:.4g} | {told:.4g} ({told / count - 1:+.0%}) |")
    made = asdict(template(rows))
    if keep_host:
        made["host"] = table[target]["templates"][name]["host"]
    table[target]["templates"][name] = made
    write(path, table)


def fit_times(target: str) -> None:
    """Fit simulated times alone; each workload counts as one, however many launches it has."""
    rows = json.loads(Path(f"rows-{target}.json").read_text())
    path = resources.folder("data") / FILE
    table = json.loads(path.read_text())
    names = [row["workload"] for row in rows]
    weights = np.array([names.count(name) ** -0.5 for name in names])
    made = dict(
        zip(
            ("launch", "first", "latency", "issue", "dram"),
            fitted_times(rows, weights),
            strict=True,
        )
    )
    for name in dict.fromkeys(names):
        rest = [at for at, each in enumerate(names) if each != name]
        own = fitted_times([rows[at] for at in rest], weights[rest])
        costs = TargetCosts({}, TemplateCost(0, 0, 0, 0), *own, 0, 0, 0)
        actual = [row for row in rows if row["workload"] == name]
        told = sum(seconds_of(costs, row, row["count"]) for row in actual)
        took = sum(row["seconds"] for row in actual)
        print(f"| {name} | {took * 1e6:.4g} | {told * 1e6:.4g} ({told / took - 1:+.0%}) |")
    table[target] |= made
    write(path, table)


def fit_host(target: str) -> None:
    """Fit the host's seconds of an instruction; what the table has else stays, but for templates
    that it lacks. Whole sums count: of what takes long, seconds shall be right."""
    rows = json.loads(Path(f"rows-{target}.json").read_text())
    path = resources.folder("data") / FILE
    table = json.loads(path.read_text())
    of = table[target]["templates"]
    by_name = {name: [row for row in rows if row["template"] == name] for name in of}
    for name in {row["template"] for row in rows} - {*of}:
        of[name] = asdict(template([row for row in rows if row["template"] == name]))
    for name, own in by_name.items():
        if own:
            of[name]["host"] = sum(row["host"] for row in own) / sum(row["count"] for row in own)
    table[target]["start"] = START[target]
    table[target]["other"]["host"] = median(each["host"] for each in of.values())
    write(path, table)


def write(path: Path, table: dict) -> None:
    rounded = json.loads(json.dumps(table), parse_float=lambda text: float(f"{float(text):.4g}"))
    path.write_text(json.dumps(rounded, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    commands = {
        "collect": collect,
        "add": add,
        "fit": fit,
        "template": fit_template,
        "counts": fit_counts,
        "times": fit_times,
        "host": fit_host,
    }
    commands[sys.argv[1]](*sys.argv[2:])
