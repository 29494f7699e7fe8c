"""Judge right 16-bit kernels and mutants of them by the bounds of a user's kernels.

    python benchmarks/own_bounds/run.py --cases 500 --seed 1

Prints a row for each kernel and the totals. Two mutants are none, and others are drawn for them:
one whose every element is a number of its type next to what is right in float64, and one whose
errors are no larger than those of right kernels of other orders, random ones among them
(`like_right`); of the latter only those that are not caught.
"""

from __future__ import annotations

import argparse
import tempfile
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
from kernels import KERNELS, ORDERS, TYPES, spoilt

from simgen.frontend import own_kernel
from simgen.ground.dtypes import DType
from simgen.ground.ir import Pass
from simgen.layers.own import OwnKernel
from simgen.verdict import shares
from simgen.verdict.compare import Comparison, proves_nothing

LENGTHS = (64, 100, 192, 256, 777, 1000, 2000, 2048, 4096, 8192, 30_000, 100_000)
SHORT = {"gemm": 4096, "attention": 2048, "attention_by_parts": 2048}
SHUFFLED = 64  # random orders of sums
DEVIATIONS = 6.1  # a normal number is as far once in 10^9
# The sizes of partial sums of terms of two signs are chance, too: a Brownian bridge B. Errors then
# are normal numbers times the root of the integral of B^2, once in 10^9 as far as this.
WANDERING = 15.1
OF_TWO_SIGNS = ("gemv", "gemm", "attention", "attention_by_parts", "narrow_gemv")
MOST_NARROW = 4096  # terms of sums in the narrow type


def described(kernel, kind, m, n, folder):
    """The layer of a description, as `simgen build` reads it."""
    names = ", ".join(f"const T* {name}" for name in kernel.inputs)
    text = f"using T = {TYPES[kind]};\n__global__ void k({names}, T* y, int n)\n"
    text += f"{{ const int row = blockIdx.x; {kernel.body} }}\n"
    inputs = ", ".join(f'{name} = "{spec.format(t=kind)}"' for name, spec in kernel.inputs.items())
    args = ", ".join(f'"{name}"' for name in (*kernel.inputs, "y"))
    toml = f"""
source = "k.hip"
parameters = {{ m = {m}, n = {n} }}
inputs = {{ {inputs} }}
outputs = {{ y = "{kernel.output.format(t=kind)}" }}
args = [{args}, "i32 n"]
grid = "m"
block = 64
reference = "{kernel.reference}"
"""
    if kernel.accumulate:
        toml += f'accumulate = "{kernel.accumulate.format(t=kind)}"\n'
    (folder / "k.hip").write_text(text)
    (folder / "k.toml").write_text(toml)
    return OwnKernel(definition=own_kernel.read_kernel_file(folder / "k.toml", ()).definition)


def values(layer, rng):
    return {
        port.name: rng.normal(0, 1, port.spec.shape).astype(port.spec.dtype.array)
        for port in layer.ports((), Pass.FORWARD)
        if port.fill
    }


def judge(layer, tensors, found):
    """What `simgen diff` says of a result: same, different or proved nothing."""
    spec = layer.definition.outputs[0].spec
    wide = {name: array.astype(np.float64) for name, array in tensors.items()}
    with np.errstate(all="ignore"):
        expected = shares.expected(layer, wide, Pass.FORWARD, 1, {"y": spec})["y"]
    made = Comparison(spec.shape, spec.dtype)
    reference, bound, spread = expected
    made.add(0, found.reshape(spec.shape), reference, reference, bound, spread)
    if not made.passed:
        return "different", made
    return ("proved nothing" if proves_nothing(made) else "same"), made


def as_good(layer, tensors, found, stored):
    """Whether each element is the nearest number of its type, or as near but for 1 %."""
    right, step = _right(layer, tensors, found, stored)
    nearest = np.abs(right.astype(np.float32).astype(stored).astype(np.float64) - right)
    return bool((np.abs(found.astype(np.float64) - right) <= nearest + 0.01 * step).all())


def like_right(kernel, layer, tensors, found, stored):
    """Whether a right kernel errs as much: each element, but for what storing loses, and each row,
    by the mean square in units of the last place, but for 1 %, no more than the largest error in
    the five orders, or than the mean of `SHUFFLED` random ones and so many of their deviations that
    one right kernel in 10^9 is as far."""
    right, step = _right(layer, tensors, found, stored)
    orders = [*ORDERS, *(f"shuffled {seed}" for seed in range(SHUFFLED))]
    made = [kernel.compute(tensors, order, "", stored).reshape(right.shape) for order in orders]
    deviations = WANDERING if kernel.name in OF_TWO_SIGNS else DEVIATIONS
    reach = _reach(np.stack([each - right for each in made]), deviations)
    of_rows = [_squares((spoilt(each, "", stored) - right) / step) for each in made]
    far = np.abs(found.astype(np.float64) - right)
    rows = _squares(far / step) <= 1.01 * _reach(np.stack(of_rows), deviations)
    return bool(rows.all() and (far <= reach + step / 2).all())


def _reach(errors, deviations):
    """What right results are off at most."""
    random = errors[len(ORDERS) :]
    most = np.abs(random.mean(axis=0)) + deviations * random.std(axis=0, ddof=1)
    return np.maximum(np.abs(errors[: len(ORDERS)]).max(axis=0), most)


def _squares(errors):
    """The root of the mean square of each row; a vector is one."""
    return np.sqrt(np.square(errors.reshape(-1, errors.shape[-1])).mean(axis=-1))


def _right(layer, tensors, found, stored):
    """What is right in float64, and the distance of two numbers of the type there."""
    wide = {name: array.astype(np.float64) for name, array in tensors.items()}
    right = layer.reference(wide, Pass.FORWARD)["y"].reshape(found.shape)
    step = np.abs(np.spacing(np.abs(right).astype(np.float32)).astype(np.float64))
    kind = DType.table["f16" if stored == np.float16 else "bf16"]
    step = np.maximum(
        step * 2.0 ** (23 - kind.mantissa), 2.0 ** (kind.least_exponent - kind.mantissa)
    )
    return right, step


def cases(count, seed, mutants):
    """(kernel, type, m, n, order, fault), as many as wanted, all kernels alike."""
    rng = np.random.default_rng(seed)
    some = [k for k in KERNELS if k.faults or not mutants]
    for at in range(count * 3):
        kernel = some[at % len(some)]
        kind = ("f16", "bf16")[int(rng.integers(2))]
        fault = kernel.faults[at // len(some) % len(kernel.faults)] if mutants else ""
        most = SHORT.get(kernel.name, 10**6)
        if "narrow" in (kernel.name[:6], fault[:6]):
            most = MOST_NARROW
        lengths = [n for n in LENGTHS if n <= most]
        n = int(rng.choice(lengths)) + int(rng.integers(0, 3)) * (rng.random() < 0.5)
        m = int(min(max(2, 200_000 // n), rng.integers(2, 40)))
        yield kernel, kind, m, n, str(rng.choice(ORDERS)), fault, int(rng.integers(2**31))


def run(count, seed, mutants):
    """Counts by kernel and outcome, and what went wrong."""
    counts, odd, done = {}, [], 0
    with tempfile.TemporaryDirectory() as folder:
        for kernel, kind, m, n, order, fault, own in cases(count, seed, mutants):
            if done == count:
                break
            layer = described(kernel, kind, m, n, Path(folder))
            tensors = values(layer, np.random.default_rng(own))
            stored = DType.table[kind].array
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                found = spoilt(kernel.compute(tensors, order, fault, stored), fault, stored)
                if mutants and as_good(layer, tensors, found, stored):
                    continue
                outcome, made = judge(layer, tensors, found)
                caught = not mutants or outcome == "different"
                if not caught and like_right(kernel, layer, tensors, found, stored):
                    counts.setdefault(kernel.name, Counter())["errs as a right one"] += 1
                    continue
            done += 1
            counts.setdefault(kernel.name, Counter())[outcome] += 1
            if outcome != ("different" if mutants else "same"):
                odd.append(
                    (kernel.name, kind, m, n, order, fault, outcome, made.max_ratio, made.statistic)
                )
    return counts, odd


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    for mutants in (False, True):
        counts, odd = run(args.cases, args.seed, mutants)
        total = sum(counts.values(), Counter())
        print("mutants" if mutants else "right kernels", dict(total))
        for name, each in counts.items():
            print(f"  {name:20} {dict(each)}")
        for each in odd:
            print("  ", *each)


if __name__ == "__main__":
    main()
