"""Memory-bound kernels of 16-bit floats on this machine's NVIDIA GPU, beside a device copy.

    python benchmarks/native/memory.py [WORD ...]     WORD: of names or of shapes

Each is built for an H200 and run with the `cuda` target, cold and clean L2, medians of 30 rounds: a
cold one was written, which goes to memory in the time of what follows. The same layer of ROWS rows
is judged by `simgen diff`. Bytes are those of the tensors that have the type.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import run as native

import simgen

ROWS = 64
TENSORS = {
    "softmax_fwd": 2, "softmax_bwd": 3, "layer_norm_fwd": 2, "layer_norm_bwd_data": 3,
    "layer_norm_bwd_weight": 2, "activation_fwd": 2, "activation_bwd": 3, "add_fwd": 3,
    "dropout_fwd": 2,
}  # fmt: skip
SHORT = ("softmax_fwd", "softmax_bwd", "layer_norm_fwd", "layer_norm_bwd_weight")
PROBLEMS = (
    *((name, 65536, 1024) for name in SHORT),
    *((name, 16384, 4096) for name in TENSORS if "norm" in name or "softmax" in name),
    *((name, 16384, 8192) for name in TENSORS),
    ("softmax_fwd", 4096, 32768),
)


def main() -> None:
    copy = native.copy_rate(2**31)
    print(f"device copy: {copy / 1e9:.0f} GB/s\n")
    print("| kernel | result | cold | | of the copy | clean | | of the copy |")
    print("|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for name, rows, columns in PROBLEMS:
            words = f"{name} {rows} x {columns}"
            if sys.argv[1:] and not any(word in words for word in sys.argv[1:]):
                continue
            for dtype in ("bf16", "f16"):
                checked = built(Path(folder) / "checked", name, dtype, (ROWS, columns))
                checked.run("cuda", replace=True)
                right = checked.diff().reports[0].passed
                told = [f"| {words} {dtype}", "right" if right else "WRONG"]
                timed = built(Path(folder) / "timed", name, dtype, (rows, columns))
                for l2 in ("cold", "clean"):
                    options = {**native.ROUNDS, "l2": l2}
                    result = timed.run("cuda", options=options, replace=True)
                    seconds = sum(each["seconds"] for each in result.launches)
                    rate = TENSORS[name] * rows * columns * 2 / seconds
                    told.append(
                        f"{seconds * 1e6:.1f} us | {rate / 1e9:.0f} GB/s | {rate / copy:.2f}"
                    )
                print(" | ".join(told), "|", flush=True)


def built(folder: Path, name: str, dtype: str, shape: tuple[int, int]) -> simgen.BuiltBundle:
    rows, columns = shape
    extents = {"n": rows, "c": columns, "h": 1, "w": 1}
    given = {"shape": f"{rows}x{columns}"} if "norm" in name else extents
    plan = simgen.plan(name, type=dtype, plan_for="h200", set=given)
    return plan.build(folder, "cuda", replace=True)


if __name__ == "__main__":
    main()
