"""Times launches whole and by samples of their work-groups, and prints how far the samples are off.

    python benchmarks/sampling/run.py [NAME...]
    python benchmarks/sampling/run.py large|fresh

On MGPUSim's timing model of an MI300A with one compute unit of few wavefronts, so that launches of
seconds fill it 60 times; `large` are the same layers with four times the work-groups, of which a
sample of the same rate has four times the waves; `fresh` are others. Bundles lie in
`sampling-NAME` in the current folder; what has run there before whole is not run again.
"""

from __future__ import annotations

import statistics
import sys
from pathlib import Path

import simgen
from simgen.bundle import result_names

TARGET = "mgpusim"
RATE = 0.09  # of a hundred waves; of sixty, the least sample is that much
ONE, FEW, MORE = ({"num_compute_units": 1, "wfs_per_simd": n} for n in (1, 2, 4))
# Name -> machine, workload, settings.
LAUNCHES = {
    "fc": (FEW, "fc_fwd", "n=16 c=16 num_output=20000"),
    "gemm-tall": (ONE, "gemm_fwd", "m=20480 n=32 k=8"),
    "gemm-wide": (ONE, "gemm_fwd", "m=32 n=32000 k=8"),
    "gemm-rest": (FEW, "gemm_fwd", "m=1300 n=1500 k=4 transa=true"),
    "conv-1x1": (FEW, "conv_fwd", "n=20 c=1 h=56 w=56 kernel_size=1 pad=0 num_output=32"),
    "conv-1x1-bwd": (FEW, "conv_bwd_data", "n=40 c=16 h=56 w=56 kernel_size=1 pad=0 num_output=1"),
    "conv-3x3": (FEW, "conv_fwd", "n=420 c=1 h=32 w=32 kernel_size=3 num_output=1"),
    "conv-im2col": (MORE, "conv_fwd", "n=2 c=3 h=32 w=32 kernel_size=3 algo=im2col"),
    "pool-max": (MORE, "pool_fwd", "n=24 c=64 h=28 w=28"),
    "pool-avg": (MORE, "pool_fwd", "pool_mode=avg n=32 c=64 h=32 w=32"),
    "pool-max-bwd": (FEW, "pool_bwd", "n=4 c=64 h=28 w=28"),
    "softmax-100": (MORE, "softmax_fwd", "n=2100 c=100"),
    "softmax-300": (MORE, "softmax_fwd", "n=520 c=300"),
    "softmax-2000": (FEW, "softmax_fwd", "n=140 c=2000"),
    "softmax-bwd": (MORE, "softmax_bwd", "n=1050 c=200"),
    "bn": (MORE, "bn_fwd", "n=8 c=64 h=32 w=32"),
    "bn-bwd": (MORE, "bn_bwd", "n=8 c=32 h=32 w=32"),
    "bn-running": (MORE, "bn_fwd", "n=8 c=64 h=32 w=32 batchnorm_statistics=running"),
    "lrn": (FEW, "lrn_fwd", "n=160 c=4 h=28 w=28"),
    "lrn-bwd": (FEW, "lrn_bwd", "n=160 c=2 h=28 w=28"),
    "relu": (MORE, "activation_fwd", "n=8 c=64 h=32 w=32"),
    "tanh-bwd": (MORE, "activation_bwd", "n=8 c=64 h=32 w=32 activation_mode=tanh"),
}
# The same with four times the work-groups, from the cheapest to simulate to the dearest.
LARGE = {
    "large-relu": (MORE, "activation_fwd", "n=32 c=64 h=32 w=32"),
    "large-conv-im2col": (MORE, "conv_fwd", "n=8 c=3 h=32 w=32 kernel_size=3 algo=im2col"),
    "large-tanh-bwd": (MORE, "activation_bwd", "n=32 c=64 h=32 w=32 activation_mode=tanh"),
    "large-bn": (MORE, "bn_fwd", "n=8 c=256 h=32 w=32"),
    "large-softmax-bwd": (MORE, "softmax_bwd", "n=4200 c=200"),
    "large-fc": (FEW, "fc_fwd", "n=16 c=16 num_output=80000"),
    "large-softmax-100": (MORE, "softmax_fwd", "n=8400 c=100"),
    "large-pool-max": (MORE, "pool_fwd", "n=96 c=64 h=28 w=28"),
    "large-lrn": (FEW, "lrn_fwd", "n=640 c=4 h=28 w=28"),
    "large-softmax-300": (MORE, "softmax_fwd", "n=2080 c=300"),
    "large-conv-1x1": (FEW, "conv_fwd", "n=80 c=1 h=56 w=56 kernel_size=1 pad=0 num_output=32"),
    "large-bn-bwd": (MORE, "bn_bwd", "n=8 c=128 h=32 w=32"),
    "large-conv-1x1-bwd":
        (FEW, "conv_bwd_data", "n=160 c=16 h=56 w=56 kernel_size=1 pad=0 num_output=1"),
    "large-softmax-2000": (FEW, "softmax_fwd", "n=560 c=2000"),
    "large-gemm-tall": (ONE, "gemm_fwd", "m=81920 n=32 k=8"),
    "large-pool-max-bwd": (FEW, "pool_bwd", "n=16 c=64 h=28 w=28"),
    "large-bn-running": (MORE, "bn_fwd", "n=32 c=64 h=32 w=32 batchnorm_statistics=running"),
    "large-gemm-rest": (FEW, "gemm_fwd", "m=2600 n=3000 k=4 transa=true"),
    "large-lrn-bwd": (FEW, "lrn_bwd", "n=640 c=2 h=28 w=28"),
    "large-pool-avg": (MORE, "pool_fwd", "pool_mode=avg n=128 c=64 h=32 w=32"),
}  # fmt: skip
# Of which nothing was known when the places and the interval of a sample were last changed.
FRESH = {
    "fresh-sigmoid":
        (MORE, "activation_fwd", "n=24 c=64 h=32 w=32 activation_mode=sigmoid"),
    "fresh-add": (MORE, "add_fwd", "n=24 c=64 h=32 w=32"),
    "fresh-softmax": (MORE, "softmax_fwd", "n=3000 c=150 softmax_algo=fast"),
    "fresh-pool": (FEW, "pool_fwd", "n=40 c=32 h=24 w=24 kernel_size=2 stride=2"),
    "fresh-gemm": (FEW, "gemm_fwd", "m=3000 n=900 k=16"),
    "fresh-conv": (FEW, "conv_fwd", "n=100 c=1 h=32 w=32 kernel_size=5 pad=2 num_output=2"),
}  # fmt: skip
SETS = {"large": LARGE, "fresh": FRESH}


def bundle_of(name):
    machine, word, settings = (LAUNCHES | LARGE | FRESH)[name]
    path = Path(f"sampling-{name}")
    if path.exists():
        return simgen.load(path)
    pairs = dict(pair.split("=") for pair in settings.split())
    label = ",".join(("mgpusim-mi300a", *(f"{key}={value}" for key, value in machine.items())))
    algo = pairs.pop("algo", None)
    plan = simgen.plan(word, set=pairs, plan_for=label, **({"algo": algo} if algo else {}))
    return plan.build(path, targets=[TARGET])


def result(bundle, *words, **how):
    """A result of the bundle, which is run where it has not; `words` are what its name ends in."""
    machine = (LAUNCHES | LARGE | FRESH)[bundle.path.name.removeprefix("sampling-")][0]
    options = {"mode": "timing", **machine}
    name = result_names.of_run(TARGET, options, words)
    if (bundle.path / "results" / name / "complete").exists():
        return bundle.result(name)
    return bundle.run(TARGET, options=options, **how)


def main() -> None:
    print("| launch | work-groups | ran | instructions | fewer | us | sampled | error | interval |"
          " holds | instructions off | DRAM reads off | right |")  # fmt: skip
    print("|---|---|---|---|---|---|---|---|---|---|---|---|---|")
    errors, held = [], []
    for name in SETS.get(" ".join(sys.argv[1:]), sys.argv[1:]) or LAUNCHES:
        bundle = bundle_of(name)
        whole = result(bundle)
        part = result(bundle, result_names.SAMPLED, sample=RATE)
        right = bool(bundle.diff(part.name))
        for sample in part.provenance["samples"]:
            truth, found = whole.launches[sample["launch"]], part.launches[sample["launch"]]
            groups, ran = truth["work_groups"], sum(count for _, count in sample["ranges"])
            seconds, half = truth["seconds"], sample["errors"]["seconds"]
            error = found["seconds"] / seconds - 1
            holds = abs(found["seconds"] - seconds) <= half
            errors.append(abs(error))
            held.append(holds)
            off = [
                f"{found[metric] / truth[metric] - 1:+.2%}" if truth[metric] else "0"
                for metric in ("instructions", "dram_reads")
            ]
            cells = (
                name, f"{groups:.0f}", ran, f"{truth['instructions']:.0f}", f"{groups / ran:.1f}",
                f"{seconds * 1e6:.2f}", f"{found['seconds'] * 1e6:.2f}", f"{error:+.2%}",
                f"{half / seconds:.1%}", "yes" if holds else "no", *off, "yes" if right else "no",
            )  # fmt: skip
            print("|", " | ".join(map(str, cells)), "|", flush=True)
    within = sum(error <= 0.05 for error in errors)
    print(f"\n{len(errors)} launches: time within 5 % for {within}, median error "
          f"{statistics.median(errors):.2%}, worst {max(errors):.2%}; the interval holds the time "
          f"of {sum(held)}")  # fmt: skip


if __name__ == "__main__":
    main()
