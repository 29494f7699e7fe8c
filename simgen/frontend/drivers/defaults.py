"""What an option is where a line does not give it, by program, with the source that says so.

A value is written as the source has it. An empty one is no value: the option does nothing, or what
is computed for it stands at the place that reads it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Defaults:
    """The options of a program or of one of its operations."""

    source: str  # repository, commit, path and place in it
    values: Mapping[str, str]  # option, as messages name it -> value


_MIOPEN = "ROCm/MIOpen 2d1fd997 driver"
_ONEDNN = "oneapi-src/oneDNN 515bfba6 tests/benchdnn"
_CUTLASS = "NVIDIA/cutlass 7107b055 tools/profiler/src"

DEFAULTS: dict[str, Defaults] = {
    "MIOpenDriver conv": Defaults(
        f"{_MIOPEN}/conv_driver.hpp, AddCmdLineArgs; layouts: ParseCmdLineArgs",
        {
            "-_": "2", "-F": "0", "-n": "100", "-c": "3", "-H": "32", "-W": "32", "-k": "32",
            "-y": "3", "-x": "3", "-u": "1", "-v": "1", "-p": "0", "-q": "0", "-l": "1", "-j": "1",
            "-g": "1", "-b": "0", "-m": "conv", "-z": "default", "-Z": "0", "-L": "1",
            "-I": "NCHW", "-O": "NCHW", "-f": "NCHW", "-U": "-1", "-T": "-1", "-R": "-1",
        },
    ),
    "MIOpenDriver gemm": Defaults(
        f"{_MIOPEN}/gemm_driver.hpp, AddCmdLineArgs",
        {
            "-b": "1", "-C": "0", "-m": "256", "-k": "256", "-n": "256", "-A": "1.0", "-B": "0.0",
            "-u": "0", "-v": "0",
        },
    ),
    # The help text of seq_len says 10; the value behind it, which holds, is 1.
    "MIOpenDriver rnn": Defaults(
        f"{_MIOPEN}/rnn_driver.hpp, AddCmdLineArgs",
        {
            "-F": "0", "-l": "1", "-k": "1", "-r": "0", "-n": "4", "-H": "32", "-W": "32",
            "-b": "0", "-m": "tanh", "-p": "0", "-U": "0",
        },
    ),
    # Strides of a and b stay as they are; leading dimensions, and strides of c and d, are raised
    # to the least that is possible. Types that are not given are --precision.
    "rocblas-bench": Defaults(
        "ROCm/rocBLAS b520bc83 clients/benchmarks/client.cpp, main; raised in run_bench_test",
        {
            "-m": "128", "-n": "128", "-k": "128", "-r": "f32_r", "--transposeA": "N",
            "--transposeB": "N", "--alpha": "1.0", "--beta": "0.0", "--batch_count": "1",
            "--lda": "128", "--ldb": "128", "--ldc": "128", "--ldd": "128",
            "--stride_a": "16384", "--stride_b": "16384", "--stride_c": "16384",
            "--stride_d": "16384", "-f": "",
        },
    ),
    # All leading dimensions and strides begin with 0, and are raised.
    "hipblaslt-bench": Defaults(
        "ROCm/hipBLASLt 7d9fb683 clients/benchmarks/client.cpp, main; raised in run_bench_test",
        {
            "-m": "128", "-n": "128", "-k": "128", "-r": "f16_r", "--compute_type": "f32_r",
            "--transA": "N", "--transB": "N", "--alpha": "1.0", "--beta": "0.0",
            "--batch_count": "1", "--activation_type": "none", "-f": "matmul",
            "--lda": "0", "--ldb": "0", "--ldc": "0", "--ldd": "0",
            "--stride_a": "0", "--stride_b": "0", "--stride_c": "0", "--stride_d": "0",
            "--scaleA": "", "--scaleB": "", "--compute_input_typeA": "",
            "--compute_input_typeB": "",
        },
    ),
    # Every kernel that fits is run, whatever its types and layouts: of these, simgen takes one.
    "cutlass_profiler gemm": Defaults(
        f"{_CUTLASS}/gemm_operation_profiler.cu, GemmProblem::parse",
        {
            "--m": "1024", "--n": "1024", "--k": "1024", "--batch_count": "1", "--alpha": "1",
            "--beta": "0",
        },
    ),
    "cutlass_profiler conv2d": Defaults(
        f"{_CUTLASS}/conv2d_operation_profiler.cu, initialize_configuration",
        {
            "--n": "1", "--h": "16", "--w": "16", "--c": "64", "--k": "64", "--r": "3", "--s": "3",
            "--g": "1", "--pad_h": "1", "--pad_w": "1", "--stride_h": "1", "--stride_w": "1",
            "--dilation_h": "1", "--dilation_w": "1", "--alpha": "1", "--beta": "0",
            "--conv_mode": "cross", "--conv_kind": "fprop",
        },
    ),
    # Letters of a problem, and options. Pads follow from the extents of the result, or are 0.
    "benchdnn --conv": Defaults(
        f"{_ONEDNN}/conv/conv.hpp, settings_t; letters: conv/conv_aux.cpp, str2desc",
        {
            "--dir": "FWD_B", "--dt": "f32", "--bia-dt": "undef", "--stag": "any", "--wtag": "any",
            "--dtag": "any", "--mb": "0", "g": "1", "mb": "2", "s": "1", "d": "0",
        },
    ),
    "benchdnn --matmul": Defaults(
        f"{_ONEDNN}/matmul/matmul.hpp, settings_t",
        {
            "--dt": "f32", "--bia-dt": "undef", "--stag": "any", "--wtag": "any", "--dtag": "any",
            "--attr-post-ops": "",
        },
    ),
    # Arguments have places and no defaults; these are constants of the programs.
    "gemm_bench": Defaults(
        "baidu-research/DeepBench da81ba78 code/nvidia/gemm_bench.cu, time_gemm",
        {"alpha": "1", "beta": "1"},
    ),
}  # fmt: skip
