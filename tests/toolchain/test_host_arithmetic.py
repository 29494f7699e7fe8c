"""The arithmetic of the host's prelude against float64, over special values and random ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from simgen.targets.host import Host

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import HostBundle

    Make = Callable[..., HostBundle]

pytestmark = pytest.mark.skipif(
    bool(Host().needs.missing()), reason="this machine cannot run the host target"
)

MATHS = """
extern "C" __global__ __launch_bounds__(256) void maths(const float* __restrict__ x,
    float* __restrict__ exp2, float* __restrict__ log2, float* __restrict__ rcp,
    float* __restrict__ sqrt, float* __restrict__ abs, float* __restrict__ fma)
{
    const unsigned at = blockIdx.x * 256 + threadIdx.x;
    exp2[at] = fast_exp2(x[at]);
    log2[at] = fast_log2(x[at]);
    rcp[at] = fast_rcp(x[at]);
    sqrt[at] = fast_sqrt(x[at]);
    abs[at] = absolute(x[at]);
    fma[at] = fused(x[at], x[at], -x[at]);
}
"""
SPECIAL = np.array(
    [0, -0.0, 1, -1, 0.5, 2, np.inf, -np.inf, np.nan, -np.nan, 127, 127.99999, 128, 128.00002, 129,
     200, 3e38, -125.99999, -126, -126.5, -127, -148.5, -149, -149.5, -149.99999, -150, -150.00002,
     -151, -200, -3e38, 1e-45, -1e-45, 1.1754944e-38, 1.1754942e-38, 3.4028235e38, 0.99999994,
     1.0000001, 0.70710677, 0.7071068, 1.4142135, 1.4142137, 5.9604645e-08, -5.9604645e-08],
    "f4",
)  # fmt: skip


def samples(count: int) -> Any:
    """Special values, the range of exp2, the neighbourhood of 1, and any bits at all."""
    random = np.random.default_rng(1)
    rest = count - len(SPECIAL)
    parts = [
        random.uniform(-160, 135, rest // 4),
        random.uniform(0.5, 2, rest // 4),
        1 + random.uniform(-1e-3, 1e-3, rest // 4),
    ]
    values = np.concatenate([SPECIAL, *(part.astype("f4") for part in parts)])
    bits = random.integers(0, 2**32, count - len(values), dtype="u4").view("f4")
    return np.concatenate([values, bits])


def ulps(got: Any, want: Any) -> Any:
    """Distance in float32 ulp from the float64 value; 0 for equal infinities and NaNs."""
    with np.errstate(all="ignore"):
        # One ulp at `want`: 2^-149 below the normal numbers.
        exponent = np.maximum(np.frexp(want)[1] - 24, -149).astype(float)
        distance = np.abs(got.astype("f8") - want) / np.exp2(exponent)
        overflows = np.isinf(got) & (np.abs(want) >= (2 - 2.0**-24) * 2.0**127)
        same = (np.isnan(got) & np.isnan(want)) | (got == want) | (overflows & (got * want > 0))
    return np.where(same, 0, distance)


def test_arithmetic(host_bundle: Make) -> None:
    x = samples(256 * 2048)
    names = ("exp2", "log2", "rcp", "sqrt", "abs", "fma")
    buffers = ("a.x", *(f"a.{name}" for name in names))
    bundle = host_bundle(
        {"maths": (256, MATHS)},
        [("maths", (2048, 1, 1), buffers)],
        {"a.x": x},
        {f"a.{name}": x.shape for name in names},
    )
    got = bundle.good()
    with np.errstate(all="ignore"):
        wide = x.astype("f8")
        want = {
            "exp2": np.exp2(wide),
            "log2": np.log2(wide),
            "rcp": 1 / wide,
            "sqrt": np.sqrt(wide),
            "abs": np.abs(wide),
            "fma": wide * wide - wide,
        }
        bound = dict.fromkeys(names, 0.5001) | {"exp2": 0.51, "log2": 0.51, "abs": 0.0}
        for name in names:
            error = ulps(got[f"a.{name}"], want[name])
            worst = int(np.argmax(np.nan_to_num(error, nan=np.inf)))
            assert error[worst] <= bound[name], (name, x[worst], got[f"a.{name}"][worst])
    assert np.signbit(got["a.exp2"][~np.isnan(x)]).sum() == 0
    assert np.signbit(got["a.rcp"][1])  # of -0
