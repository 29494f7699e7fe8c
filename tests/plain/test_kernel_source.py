"""Kernel files become one text with the kernel's values, or are refused."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from census import census

from simgen.errors import SourceError
from simgen.ground import resources
from simgen.ground.ir import Constants, Kernel
from simgen.kernels import kernel_source

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CONSTANTS = """\
#pragma once

enum class Mode { SUM, MEAN };

#define KERNEL sample
constexpr unsigned BLOCK = 64;
constexpr unsigned SIZE = 10; /* elements */
constexpr int SHIFT = -1;
constexpr bool EVEN = true;
constexpr float SCALE = 0.5f;
constexpr Mode MODE = Mode::SUM;
constexpr unsigned STARTS[] = {0, 100};
#define WITH_BIAS 1
#define EACH_INPUT(DO) DO(0) DO(1)
"""
KERNEL = """\
/* A kernel. */
#include "prelude.h"
#include "twice.h"
#include "constants/sums.h"
#include "once.h"

constexpr unsigned HALF = SIZE / 2;

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(float* y) { *y = once(); }
"""
VALUES: Constants = (
    ("size", 4_000_000_000),
    ("shift", -7),
    ("even", 0),
    ("scale", 2.0),
    ("mode", "mean"),
    ("starts", "0 3 10"),
    ("with_bias", 0),
    ("inputs", 3),
)
TEXT = """\
/* A kernel. */
#include "prelude.h"

/* ---- twice.h ---- */

/* ---- once.h ---- */
inline float once() { return 1; }

/* ---- constants/sums.h ---- */
enum class Mode { SUM, MEAN };

#define KERNEL sums
constexpr unsigned BLOCK = 256;
constexpr unsigned SIZE = 4000000000; /* elements */
constexpr int SHIFT = -7;
constexpr bool EVEN = false;
constexpr float SCALE = 2.0f;
constexpr Mode MODE = Mode::MEAN;
constexpr unsigned STARTS[] = {0, 3, 10};
#define WITH_BIAS 0
#define EACH_INPUT(DO) DO(0) DO(1) DO(2)

constexpr unsigned HALF = SIZE / 2;

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(float* y) { *y = once(); }
#undef KERNEL
#undef WITH_BIAS
#undef EACH_INPUT
"""


@pytest.fixture
def kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Templates of their own; what was read before is forgotten."""
    folder = tmp_path / "kernels"
    (folder / "constants").mkdir(parents=True)
    (folder / "constants" / "sums.h").write_text(CONSTANTS)
    (folder / "sums.hip").write_text(KERNEL)
    (folder / "once.h").write_text("#pragma once\ninline float once() { return 1; }\n")
    (folder / "twice.h").write_text('#pragma once\n#include "prelude.h"\n#include "once.h"\n')
    monkeypatch.setattr(resources, "folder", lambda name: tmp_path)
    forget()
    yield folder
    forget()


def forget() -> None:
    """Files that have been read are read again."""
    for each in vars(kernel_source).values():
        if hasattr(each, "cache_clear"):
            each.cache_clear()


def kernel(**changed: int | float | str) -> Kernel:
    return Kernel("sums", "sums.hip", 256, tuple((dict(VALUES) | changed).items()))


def test_values_and_headers_take_their_places(kernels: Path) -> None:
    assert kernel_source.text(kernel()) == TEXT
    assert kernel_source.constants("sums.hip") == set(dict(VALUES))


@pytest.mark.parametrize("missing", [name for name, _ in VALUES])
def test_a_constant_too_few_is_refused(kernels: Path, missing: str) -> None:
    fewer = tuple(pair for pair in VALUES if pair[0] != missing)
    with pytest.raises(SourceError, match=rf"sums\.hip: kernel sums has no constant {missing};"):
        kernel_source.text(Kernel("sums", "sums.hip", 256, fewer))


def test_a_constant_too_many_is_refused(kernels: Path) -> None:
    with pytest.raises(SourceError, match=r"kernel sums has half, which no header declares;"):
        kernel_source.text(kernel(half=5))


@census("name, value", [
        ("size", -1), ("size", 2**32), ("size", 1.5), ("size", "1"), ("shift", 2**31), ("even", 2),
        ("scale", float("inf")), ("scale", "1.0f; int x"), ("mode", "median"), ("mode", 1),
        ("starts", "1, 2"), ("starts", 1), ("starts", ""), ("with_bias", "a b"), ("inputs", "2"),
        ("inputs", 0),
    ])  # fmt: skip
def test_a_value_of_another_type_is_refused(
    kernels: Path, name: str, value: int | float | str
) -> None:
    with pytest.raises(ValueError, match=rf"{re.escape(repr(value))} is no |inf has no literal"):
        kernel_source.text(kernel(**{name: value}))


@pytest.mark.parametrize("template", ["other.hip", "../sums.hip", "constants/sums.h", "once.h", ""])
def test_what_is_no_kernel_file_is_refused(kernels: Path, template: str) -> None:
    with pytest.raises(SourceError, match="there is no such kernel; write it"):
        kernel_source.text(Kernel("sums", template, 256, VALUES))
