"""What libraries log of a model's run, as problems."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from command_line import fails

from simgen.errors import UsageError
from simgen.frontend import call_log, operation
from simgen.frontend.drivers import table

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from command_line import Done

    Simgen = Callable[..., Done]

CONV = (
    "conv -n 8 -c 64 -H 56 -W 56 -k 64 -y 3 -x 3 -p 1 -q 1 -u 1 -v 1 -l 1 -j 1 -m conv -g 1 -F 1 "
    "-t 1"
)
GEMM = (
    "--transposeA T --transposeB N -m 128 -n 64 -k 256 --alpha 1 --lda 256 --ldb 256 --beta 0 "
    "--ldc 128"
)
LT = (
    "hipblaslt-bench --api_method c -m 1024 -n 512 -k 1024 --lda 1024 --ldb 1024 --ldc 1024 "
    "--ldd 1024  --stride_a 0 --stride_b 0 --stride_c 0 --stride_d 0  --alpha 1.000000 "
    "--beta 1.000000 --transA N --transB N --batch_count 1  --a_type f16_r --b_type f16_r "
    "--c_type f16_r --d_type f16_r --scale_type f32_r --bias_type f32_r   --compute_type f32_r "
    "--algo_method index --solution_index 56073"
)
LOG = f"""
Epoch 1, loss 2.3
MIOpen(HIP): Command [LogCmdFindConvolution] ./bin/MIOpenDriver {CONV}
MIOpen(HIP): Command [LogCmdConvolution] ./bin/MIOpenDriver {CONV}
MIOpen(HIP): Command [LogCmdConvolution] ./bin/MIOpenDriver {CONV}
MIOpen(HIP): Command [LogCmdBNorm] ./bin/MIOpenDriver bnorm -n 8 -c 64 -H 56 -W 56 -m 1
./rocblas-bench -f gemm -r f32_r {GEMM}
- {{ rocblas_function: "rocblas_sgemm", transA: 'T', transB: 'N', M: 128, N: 64, K: 256, alpha: 1, \
lda: 256, ldb: 256, beta: 0, ldc: 128, call_count: 40 }}
- {{ rocblas_function: "rocblas_saxpy", N: 100, call_count: 3 }}
{LT}
"""


def test_each_call_counts(tmp_path: Path) -> None:
    path = tmp_path / "model.log"
    path.write_text(LOG)
    found = call_log.read_log(path)
    assert {str(each): count for each, count in found.calls.items()} == {
        "conv:n=8,c=64,h=56,w=56,k=64,r=3,s=3,pad=1": 2,
        "gemm:m=128,n=64,k=256,ta=1": 41,
        "gemm:m=1024,n=512,k=1024,beta=1,type=f16": 1,
    }
    assert all(operation.parse_operation(str(each)) == each for each in found.calls)
    assert list(found.unread.values()) == [1, 3]  # saxpy was called three times
    reasons = " ".join(found.unread)
    assert "MIOpenDriver bnorm: simgen reads conv, gemm, rnn" in reasons
    assert "'rocblas_saxpy' is no product" in reasons


def test_the_command_prints_problems_and_what_is_left_out(tmp_path: Path, simgen: Simgen) -> None:
    path = tmp_path / "model.log"
    path.write_text(LOG)
    done = simgen("list", str(path), "--json")
    assert done.code == 0
    rows = done.json()["rows"]
    assert [row["calls"] for row in rows] == [2, 1, 41]
    assert sum(row["share"] for row in rows) == pytest.approx(1)
    assert done.err.startswith("calls that are left out: 4 (3: ")
    assert done.err.count("\n") == 1


def test_prose_about_a_program_is_no_call(tmp_path: Path) -> None:
    path = tmp_path / "model.log"
    prose = (
        "I don't use MIOpenDriver here",
        "MIOpenDriver conv is slow; see rocblas-bench -h",
        "rocblas-bench is a tool",
        "the key rocblas_function: counts calls",
        "warning: hipblaslt-bench -m 3 is what the page shows",
        "run gemm_bench to compare",
    )
    path.write_text(
        "\n".join(prose)
        + f"\n12:34 0.5 MIOpen(HIP): Command [LogCmdConvolution] MIOpenDriver.exe {CONV}\n"
        f"+ ./bin/MIOpenDriver {CONV}\n"
    )
    found = call_log.read_log(path)
    assert (list(found.calls.values()), found.unread) == ([2], {})


@pytest.mark.parametrize(
    ("content", "fact"),
    [
        (b"see MIOpenDriver -h\nit's rocblas-bench\n", "no call of MIOpen"),
        (b"nothing\n", "no call of MIOpen, rocBLAS or hipBLASLt in this log"),
        (b"\xff\0" * 1000, "no call of MIOpen"),
    ],
)
def test_a_log_without_calls(tmp_path: Path, simgen: Simgen, content: bytes, fact: str) -> None:
    path = tmp_path / "model.log"
    path.write_bytes(content)
    fails(simgen("list", str(path)), 2, fact)


@pytest.mark.parametrize(
    ("change", "fact"),
    [
        ("--activation_type relu", "--activation_type is 'relu'; let a layer of its own follow"),
        ("--scaleA 1", "--scaleA is '1'; scales are not read"),
        ("--grouped_gemm", "--grouped_gemm is given, which no layer has"),
        ("--lda 2048", "--lda is '2048'; matrices have no gaps"),
        ("--a_type f8_r", "--a_type is 'f8_r'"),
    ],
)
def test_what_hipblaslt_does_beside_a_product_is_refused(change: str, fact: str) -> None:
    with pytest.raises(UsageError, match=fact):
        table.parse_line(f"{LT} {change}")


def test_a_bias_of_hipblaslt_is_left_out() -> None:
    assert table.parse_line(f"{LT} --bias_vector --bias_source d") == table.parse_line(LT)
