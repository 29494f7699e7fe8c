"""`Host(sanitize=True)` names what a kernel does wrong, and says nothing where all is right."""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING

import pytest
from test_host import SCALE, TREE, numbers

from simgen.kernels.build import Builder
from simgen.kernels.cache import Cache
from simgen.targets.host import Host

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import HostBundle

    Make = Callable[..., HostBundle]

pytestmark = pytest.mark.skipif(
    bool(Host().needs.missing()), reason="this machine cannot run the host target"
)


def checked(make: Make, text: str, *, block: int = 64, groups: int = 4) -> HostBundle:
    """A bundle of one kernel, which is called as its text says, over a.x, b.x, a.t and a.y."""
    name = re.search(r"KERNEL\(\w+, (\w+)\)", text)
    assert name
    x = numbers(groups, block)
    return make(
        {name[1]: (block, text.replace("BLOCK", str(block)))},
        [(name[1], (groups, 1, 1), ("a.x", "a.y"))],
        {"a.x": x, "b.x": x},
        {"a.y": x.shape},
        {"a.t": x.shape},
        sanitize=True,
    )


def statement(text: str) -> str:
    """The kernel `scale` with another statement, in line 6 of its file."""
    return SCALE[1].replace("unsigned at", "int at").replace("y[at] = 2 * x[at];", text)


# ---- Silent where all is right ----


@pytest.mark.parametrize("block", [1, 64, 1024])
def test_a_right_kernel_gives_the_same_result(host_bundle: Make, block: int) -> None:
    bundle = checked(host_bundle, TREE, block=block)
    y = bundle.good()["a.y"].ravel()[:4]
    assert (y == numbers(4, block).sum(axis=1)).all()


def test_vector_accesses_and_helpers(host_bundle: Make) -> None:
    text = """
static __device__ __forceinline__ float4 twice(float4 v, float* store)
{
    *store = v.x;
    __syncthreads();
    return float4{2 * v.x, 2 * v.y, 2 * v.z, 2 * v.w};
}
KERNEL(16, scale)
{
    alignas(16) __shared__ float4 held[16];
    __shared__ float first[16];
    const unsigned at = blockIdx.x * 16 + threadIdx.x;
    held[threadIdx.x] = reinterpret_cast<const float4*>(x)[at];
    const float4 v = twice(held[threadIdx.x], first + threadIdx.x);
    reinterpret_cast<float4*>(y)[at] = v;
}
"""
    x = numbers(4, 64)
    bundle = host_bundle({"scale": (16, text)}, [("scale", (4, 1, 1), ("a.x", "a.y"))], {"a.x": x},
                         {"a.y": x.shape}, sanitize=True)  # fmt: skip
    assert (bundle.good()["a.y"] == 2 * x).all()


def test_barriers_order_global_memory_within_a_work_group(host_bundle: Make) -> None:
    text = """
KERNEL(64, turn)
{
    float* mine = y + blockIdx.x * 64;
    mine[threadIdx.x] = x[blockIdx.x * 64 + threadIdx.x];
    __syncthreads();
    const float other = mine[63 - threadIdx.x];
    __syncthreads();
    mine[threadIdx.x] = other;
}
"""
    assert (checked(host_bundle, text).good()["a.y"] == numbers(4, 64)[:, ::-1]).all()


def test_later_launches_read_what_earlier_ones_wrote(host_bundle: Make) -> None:
    x = numbers(640)
    launches = [("scale", (10, 1, 1), ("a.x", "a.t")), ("scale", (10, 1, 1), ("a.t", "a.y"))]
    bundle = host_bundle({"scale": SCALE}, launches, {"a.x": x}, {"a.y": (640,)}, {"a.t": (640,)},
                         sanitize=True)  # fmt: skip
    assert (bundle.good()["a.y"] == 4 * x).all()


def test_two_kernels_keep_their_lds_apart(host_bundle: Make) -> None:
    swap = TREE.replace("total", "other").replace("+=", "-=")
    kernels = {
        "total": (64, TREE.replace("BLOCK", "64")),
        "other": (64, swap.replace("BLOCK", "64")),
    }
    launches = [("total", (4, 1, 1), ("a.x", "a.y")), ("other", (4, 1, 1), ("a.x", "b.y"))]
    x = numbers(4, 64)
    bundle = host_bundle(kernels, launches, {"a.x": x}, {"a.y": (4,), "b.y": (4,)}, sanitize=True)
    assert (bundle.good()["a.y"] == x.sum(axis=1)).all()


# ---- Bounds ----


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ("y[at] = x[at + 193];",
         "work-item 63: 4-byte load 0 bytes past the end of buffer a.x, in line 6"),
        ("y[at] = x[at - 1];",
         "work-item 0: 4-byte load 4 bytes before the start of buffer a.x, in line 6"),
        ("y[at + 196] = x[at];",
         "work-item 60: 4-byte store 0 bytes past the end of buffer a.y, in line 6"),
        ("const_cast<float*>(x)[at] = y[0] = 1;",
         "work-item 0: writes an input of the workload: 4-byte store 0 bytes into "
         "buffer a.x, in line 6"),
        ("y[at] = x[at + 2048];",
         "work-item 0: 4-byte load 0 bytes into buffer b.x, which is not an argument "
         "of the launch, in line 6"),
        ("y[at] = reinterpret_cast<const float4*>(x + 253)->w;",
         "work-item 0: 4-byte load 0 bytes past the end of buffer a.x, in line 6"),
        ("y[at] = x[0x7fffffff];",
         "far from all buffers, in line 6"),
        ("float local[4] = {x[0], x[1], x[2], x[3]}; y[at] = local[(at & 3) + 1];",
         "index 4 is outside of the array of type 'float[4]', in line 6"),
        ("y[at] = x[0] + (0x7fffffff + at);",
         "work-item 1: a signed number overflows, in line 6"),
    ],
)  # fmt: skip
def test_bounds(host_bundle: Make, text: str, end: str) -> None:
    bundle = checked(host_bundle, statement(text))
    line = one_process(bundle)
    assert line.startswith("scale: work-group 0, work-item ")
    assert line.endswith(end)


def one_process(bundle: HostBundle) -> str:
    """The error line with work-groups in order."""
    done = bundle.run(processes=1)
    assert done.returncode == 5, done.stderr
    assert done.stderr.count("\n") == 1
    return done.stderr.strip().removeprefix("simgen: error: kernel ")


@pytest.mark.parametrize(
    ("index", "end"),
    [
        ("item + 1", "work-item 63: index 64 is outside of the array of type 'float[64]'"),
        ("static_cast<int>(item) - 1",
         "work-item 0: index -1 is outside of the array of type 'float[64]'"),
    ],
)  # fmt: skip
def test_bounds_of_an_lds_array(host_bundle: Make, index: str, end: str) -> None:
    text = TREE.replace("    partial[item] = x", f"    partial[{index}] = x")
    text = text.replace("partial[BLOCK];", "partial[BLOCK], other[BLOCK]; other[threadIdx.x] = 0;")
    assert one_process(checked(host_bundle, text)).endswith(f"{end}, in line 7")


def test_bounds_of_lds_through_a_pointer(host_bundle: Make) -> None:
    text = TREE.replace("    partial[item] = x", "    float* at = partial; at[item + 1] = x")
    assert one_process(checked(host_bundle, text)).endswith(
        "work-item 63: 4-byte store 0 bytes past the end of LDS, in line 7"
    )


# ---- Order and races ----


def test_a_dropped_barrier_is_a_race(host_bundle: Make) -> None:
    text = TREE.replace("        __syncthreads();\n", "")
    line = one_process(checked(host_bundle, text))
    assert line.startswith("total: work-group 0, work-item 1: data race: 4-byte ")
    assert line.endswith(", in line 11")


@pytest.mark.parametrize(
    ("body", "fact"),
    [
        (
            "held[item] = x[item]; y[item] = held[63 - item] + x[0];",
            "work-item 31 wrote since",
        ),
        (
            "held[item] = x[item]; __syncthreads(); y[item] = held[63]; held[item] = 0;",
            "read since",
        ),
        ("held[0] = x[item]; __syncthreads(); y[item] = held[0];", "work-item 0 wrote since"),
    ],
)
def test_races_in_lds(host_bundle: Make, body: str, fact: str) -> None:
    text = (
        "KERNEL(64, racy)\n"
        "{ __shared__ float held[64]; const unsigned item = threadIdx.x;\n"
        f"  if (blockIdx.x == 0) {{ {body} }} }}\n"
    )
    if "held[63 - item]" in body:
        text = text.replace("held[item] = x[item]; y", "held[item] = x[item]; if (item > 31) y")
    line = one_process(checked(host_bundle, text))
    assert line.startswith("racy: work-group 0, work-item ")
    assert "data race: 4-byte " in line
    assert "of LDS" not in line
    assert "into LDS" in line
    assert fact in line


def test_two_work_groups_that_write_one_word(host_bundle: Make) -> None:
    line = one_process(checked(host_bundle, statement("y[threadIdx.x] = x[at];")))
    assert line == (
        "scale: work-group 1, work-item 0: data race: 4-byte store 0 bytes into buffer a.y, "
        "which work-item 0 of work-group 0 wrote in the same launch, in line 6"
    )


def test_a_work_group_that_reads_what_another_one_writes(host_bundle: Make) -> None:
    text = statement("y[at] = at >= 64 ? y[at - 64] : x[at];")
    line = one_process(checked(host_bundle, text))
    assert line.startswith("scale: work-group 1, work-item 0: data race: 4-byte load 0 bytes into ")


def test_lds_that_is_read_before_it_is_written(host_bundle: Make) -> None:
    text = TREE.replace("    partial[item] = x", "    if (item != 32) partial[item] = x")
    assert one_process(checked(host_bundle, text)) == (
        "total: work-group 0, work-item 0: reads LDS before it is written: "
        "4-byte load 128 bytes into LDS, in line 11"
    )


def test_lds_of_an_earlier_work_group_does_not_count(host_bundle: Make) -> None:
    text = TREE.replace("    partial[item] = x", "    if (blockIdx.x < 2) partial[item] = x")
    assert one_process(checked(host_bundle, text)).startswith(
        "total: work-group 2, work-item 0: reads "
    )


@pytest.mark.parametrize("buffer", ["a.t", "a.y"])
def test_memory_that_no_kernel_has_written(host_bundle: Make, buffer: str) -> None:
    x = numbers(64)
    launches = [("scale", (1, 1, 1), (buffer, "b.y"))]
    bundle = host_bundle({"scale": SCALE}, launches, {"a.x": x}, {"a.y": (64,), "b.y": (64,)},
                         {"a.t": (64,)}, sanitize=True)  # fmt: skip
    assert bundle.error() == (
        "scale: work-group 0, work-item 0: reads global memory before it is written: "
        f"4-byte load 0 bytes into buffer {buffer}, in line 6"
    )


def test_only_kernels_are_instrumented(host_bundle: Make) -> None:
    """The launcher's own functions must not call the checks: those would call themselves."""
    program = checked(host_bundle, TREE).program
    try:
        listing = subprocess.run(
            ["objdump", "-d", program], capture_output=True, text=True, check=True
        ).stdout
    except FileNotFoundError:
        pytest.skip("no objdump on this machine")
    function, callers = "", set()
    for line in listing.splitlines():
        if line.endswith(">:"):
            function = line.split("<")[1].removesuffix(">:")
        if re.search(r"call.*<__(asan|ubsan)", line):
            callers.add(function)
    assert callers <= {"total", "_ZL9run_totalPKm"}
    assert callers


def test_the_program_has_the_same_bytes_again(host_bundle: Make, tmp_path: Path) -> None:
    job = checked(host_bundle, TREE).job
    for sanitize in (False, True):
        made = [
            Host(sanitize=sanitize).package.folder(job, Builder(Cache(tmp_path / str(run))))["hand"]
            for run in range(2)
        ]
        assert made[0] == made[1]
