"""What fusing layers and passing the L1 cache by do to a convolution in two GPU simulators.

    GEM5=/path/to/gem5 python benchmarks/fusion/run.py [-o FOLDER]

Convolution, batch normalisation with given statistics and ReLU: as three kernels and as one
(`--fuse`), with vector loads that use the L1 cache and with loads that do not (`--l1 bypass`). Each
run is compared with the float64 reference, and the outputs of all runs on a simulator with each
other, byte for byte. FOLDER must not lie under /tmp, which gem5's apu_se.py redirects.
"""

from __future__ import annotations

import argparse
import itertools
from pathlib import Path

import numpy as np

import simgen

CONFIG = """\
[DNNMark]
run_mode=composed
[Convolution]
name=conv
n=2
c=16
h=32
w=32
num_output=32
kernel_size=3
pad=1
stride=1
previous_layer=null
[BatchNorm]
name=bn
batchnorm_mode=spatial
batchnorm_statistics=running
previous_layer=conv
[Activation]
name=relu
activation_mode=relu
previous_layer=bn
"""
TARGETS = {"gem5-se": {}, "mgpusim": {"mode": "timing"}}
COLUMNS = ("instructions", "vector_memory_reads", "vector_memory_writes", "l1_hits", "l1_misses",
           "l2_hits", "l2_misses", "dram_read_bytes", "dram_written_bytes")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", type=Path, default=Path("fusion-benchmark"))
    folder = parser.parse_args().output
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "block.dnnmark").write_text(CONFIG)
    for target, options in TARGETS.items():
        print(f"\n| {target} | launches | GPU time (us) | {' | '.join(COLUMNS)} |")
        print("|---" * (len(COLUMNS) + 3) + "|", flush=True)
        outputs = []
        for fused, policy in itertools.product((False, True), ("cached", "bypass")):
            outputs.append(row(folder, target, options, fused, policy))
        same = all(np.array_equal(outputs[0], other) for other in outputs)
        print(f"\nOutputs {'are the same' if same else 'DIFFER'}, byte for byte.", flush=True)


def row(folder: Path, target: str, options: dict[str, str], fused: bool, policy: str) -> np.ndarray:
    what = f"{'fused' if fused else 'apart'}, {policy}"
    path = folder / f"{target}-{what.replace(', ', '-')}"
    plan = simgen.plan(folder / "block.dnnmark", fuse=fused)
    bundle = plan.build(path, target, settings={"l1": policy}, replace=True)
    made = bundle.run(target, options=options, replace=True)
    if not bundle.diff(made.name):
        raise SystemExit(f"{what}: differs from the reference")
    each = made.launches
    # Of gem5, the time in which the GPU is active: seconds have the CPU's part too.
    seconds = sum(m.get("shader_active_ticks", 1e12 * m["seconds"]) for m in each) / 1e12
    cells = [f"{sum(m[name] for m in each):.0f}" if name in each[0] else "" for name in COLUMNS]
    print(f"| {what} | {len(each)} | {seconds * 1e6:.1f} | {' | '.join(cells)} |", flush=True)
    return np.asarray(made.outputs["relu.y"].values).view(np.uint32)


if __name__ == "__main__":
    try:
        main()
    except simgen.errors.SimgenError as error:
        raise SystemExit(str(error)) from None
