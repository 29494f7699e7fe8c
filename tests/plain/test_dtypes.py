"""The table of element types, against what the packages that make the arrays say of them."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from simgen.ground.dtypes import BF16, F8E4M3FN, F8E4M3FNUZ, F16, F64, DType
from simgen.ground.storage.schema import SchemaError, from_json, to_json

TYPES = list(DType.table.values())
FLOATS = [dtype for dtype in TYPES if dtype.is_float]
NARROW = [dtype for dtype in FLOATS if dtype.is_narrow]


def named(dtypes: list[DType]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("dtype", dtypes, ids=lambda dtype: dtype.name)


@named(FLOATS)
def test_the_row_of_a_float_is_what_its_package_says(dtype: DType) -> None:
    told = ml_dtypes.finfo(dtype.array)
    assert dtype.array.itemsize == dtype.nbytes == told.bits // 8
    assert dtype.largest == float(told.max)
    assert dtype.mantissa == told.nmant
    assert 2.0**dtype.least_exponent == float(told.smallest_normal)
    assert 2.0 ** (dtype.least_exponent - dtype.mantissa) == float(told.smallest_subnormal)


@named(NARROW)
def test_where_numbers_overflow_and_vanish(dtype: DType) -> None:
    def stored(value: float) -> float:
        with np.errstate(over="ignore"):
            return float(np.float32(value).astype(dtype.array))

    assert stored(dtype.overflow * (1 - 2.0**-20)) == dtype.largest
    assert not np.isfinite(stored(dtype.overflow * (1 + 2.0**-20)))
    least = 2.0 ** (dtype.least_exponent - dtype.mantissa)
    assert stored(least / 2) == 0
    assert stored(least * 0.5001) == least or least < 2.0**-126
    assert dtype.vanishing == pytest.approx(max(least / 2, 2.0**-126))


@named(FLOATS)
def test_relative_errors_are_within_the_roundoff(dtype: DType) -> None:
    values = np.random.default_rng(1).uniform(1, 4, 4096)
    errors = np.abs(values.astype(dtype.array).astype(np.float64) / values - 1)
    assert 0.8 * dtype.roundoff < errors.max() <= dtype.roundoff or dtype == F64


def test_nobody_writes_the_canary_by_chance() -> None:
    """It is NaN in whatever part of a word an element has; of formats with one NaN, that one."""
    for dtype in FLOATS:
        pattern = np.full(2, dtype.canary, "<u4").view(dtype.array)
        assert np.isnan(pattern.astype(np.float64)).all(), dtype.name
    assert len({dtype.canary for dtype in (F16, BF16)}) == 1  # a workload may have both


def test_a_file_has_its_name() -> None:
    for dtype in TYPES:
        assert to_json(dtype) == dtype.name
        assert from_json(DType, dtype.name) is dtype
    for wrong in ("f12", "", 4, None, ["f32"]):
        with pytest.raises(SchemaError, match="not a valid DType"):
            from_json(DType, wrong)


def test_kernels_compute_in_float32() -> None:
    assert {dtype.accumulation for dtype in NARROW} == {DType.F32}
    assert F64.accumulation == F64
    assert DType.I32.accumulation == DType.I32


def test_what_kernels_call_it() -> None:
    assert DType.F32.c == "float"
    assert BF16.c == "Narrow<8, 7, 127, Special::IEEE>"
    assert F8E4M3FN.c == "Narrow<4, 3, 7, Special::FINITE>"
    assert F8E4M3FNUZ.c == "Narrow<4, 3, 8, Special::UNSIGNED_ZERO>"


def test_two_rows_have_two_names() -> None:
    with pytest.raises(RuntimeError, match="registered twice"):
        DType("f16", 2, "float16", 0, 5, 10, 15)
