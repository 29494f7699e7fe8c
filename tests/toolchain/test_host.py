"""The host target runs hand-written kernels right, and every failure is one line."""

from __future__ import annotations

import resource
import subprocess
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from simgen.errors import DamagedError
from simgen.ground.ir import GUARD, DType
from simgen.targets.host import CPUINFO, Host

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import HostBundle

    Make = Callable[..., HostBundle]

pytestmark = pytest.mark.skipif(
    bool(Host().needs.missing()), reason="this machine cannot run the host target"
)

SCALE = (
    64,
    """
KERNEL(64, scale)
{
    const unsigned at = blockIdx.x * 64 + threadIdx.x;
    y[at] = 2 * x[at];
}
""",
)

TREE = """
KERNEL(BLOCK, total)
{
    __shared__ float partial[BLOCK];
    const unsigned item = threadIdx.x;
    partial[item] = x[blockIdx.x * BLOCK + item];
    __syncthreads();
    for (unsigned half = BLOCK / 2; half; half /= 2) {
        if (item < half)
            partial[item] += partial[item + half];
        __syncthreads();
    }
    if (item == 0)
        y[blockIdx.x] = partial[0];
}
"""


def numbers(*shape: int, seed: int = 0) -> Any:
    """Small whole numbers: sums of them are exact in any order."""
    return np.random.default_rng(seed).integers(-50, 50, shape).astype("f4")


def scale_bundle(make: Make, **options: Any) -> HostBundle:
    x = numbers(10, 64)
    return make({"scale": SCALE}, [("scale", (10, 1, 1), ("a.x", "a.y"))], {"a.x": x},
                {"a.y": x.shape}, **options)  # fmt: skip


def test_a_kernel_without_barriers(host_bundle: Make) -> None:
    bundle = scale_bundle(host_bundle)
    assert (bundle.good()["a.y"] == 2 * numbers(10, 64)).all()


@pytest.mark.parametrize("block", [1, 2, 64, 256, 1024])
def test_barriers_hold_in_a_tree_through_lds(host_bundle: Make, block: int) -> None:
    x = numbers(37, block)
    kernels = {"total": (block, TREE.replace("BLOCK", str(block)))}
    launches = [("total", (37, 1, 1), ("a.x", "a.y"))]
    bundle = host_bundle(kernels, launches, {"a.x": x}, {"a.y": (37,)})
    assert (bundle.good()["a.y"] == x.sum(axis=1)).all()


def test_each_process_count_gives_the_same_bytes(host_bundle: Make) -> None:
    x = numbers(37, 256)
    kernels = {"total": (256, TREE.replace("BLOCK", "256"))}
    launches = [("total", (37, 1, 1), ("a.x", "a.y"))]
    bundle = host_bundle(kernels, launches, {"a.x": x}, {"a.y": (37,)})
    raw = set()
    for processes in (1, 2, 7):
        bundle.good(processes)
        raw.add((bundle.results / "outputs.bin").read_bytes())
    assert len(raw) == 1


@pytest.mark.parametrize("sanitize", [False, True], ids=["fast", "sanitize"])
def test_arguments_may_begin_within_a_tensor(host_bundle: Make, sanitize: bool) -> None:
    """Each half of the result is made of the other half of x."""
    x, args = numbers(4, 64), ("a.x", "a.y")
    launches = [("scale", (2, 1, 1), args, (begin, 512 - begin)) for begin in (512, 0)]
    bundle = host_bundle(
        {"scale": SCALE}, launches, {"a.x": x}, {"a.y": x.shape}, sanitize=sanitize
    )
    assert (bundle.good()["a.y"] == 2 * np.roll(x, 2, axis=0)).all()


def test_launches_run_in_order(host_bundle: Make) -> None:
    text = """
KERNEL(64, NAME)
{
    const unsigned at = blockIdx.x * 64 + threadIdx.x;
    y[at] = EXPRESSION;
}
"""
    kernels = {
        "add": (64, text.replace("NAME", "add").replace("EXPRESSION", "x[at] + 3")),
        "double_it": (64, text.replace("NAME", "double_it").replace("EXPRESSION", "x[at] * 2")),
    }
    launches = [
        ("add", (10, 1, 1), ("a.x", "a.t")),
        ("double_it", (10, 1, 1), ("a.t", "a.u")),
        ("add", (10, 1, 1), ("a.u", "a.y")),
    ]
    scratch = {"a.t": (640,), "a.u": (640,)}
    bundle = host_bundle(kernels, launches, {"a.x": numbers(640)}, {"a.y": (640,)}, scratch)
    assert (bundle.good()["a.y"] == (numbers(640) + 3) * 2 + 3).all()
    rows = Host().reader.metrics(bundle.results, bundle.workload)
    assert len(rows) == 3
    assert all(row["seconds"] > 0 for row in rows)


def test_three_dimensional_grids_and_integers(host_bundle: Make) -> None:
    text = """
INT_KERNEL(2, where)
{
    const unsigned at = ((blockIdx.z * 4 + blockIdx.y) * 3 + blockIdx.x) * 2 + threadIdx.x;
    y[at] = x[at] + 1000 * blockIdx.z + 100 * blockIdx.y + 10 * blockIdx.x + threadIdx.x;
}
"""
    x = np.zeros((5, 4, 3, 2), "i4")
    launches = [("where", (3, 4, 5), ("a.x", "a.y"))]
    bundle = host_bundle({"where": (2, text)}, launches, {"a.x": x}, {"a.y": x.shape})
    z, y, x_, item = np.indices(x.shape)
    assert (bundle.good()["a.y"] == 1000 * z + 100 * y + 10 * x_ + item).all()


def test_what_no_kernel_writes_stays_canary(host_bundle: Make) -> None:
    text = SCALE[1].replace("y[at] =", "if (at != 5) y[at] =")
    x = numbers(64)
    launches = [("scale", (1, 1, 1), ("a.x", "a.y"))]
    bundle = host_bundle({"scale": (64, text)}, launches, {"a.x": x}, {"a.y": (64,)})
    bundle.good()
    words = np.fromfile(bundle.results / "outputs.bin", "<u4")
    assert len(words) * 4 == bundle.workload.arena_nbytes - bundle.workload.outputs_offset
    assert words[5] == DType.F32.canary
    assert (words[64:] == DType.F32.canary).all()
    assert len(words[64:]) * 4 >= GUARD


def test_a_dropped_barrier_changes_the_result(host_bundle: Make) -> None:
    text = TREE.replace("BLOCK", "256").replace("        __syncthreads();\n", "")
    x = numbers(8, 256)
    launches = [("total", (8, 1, 1), ("a.x", "a.y"))]
    bundle = host_bundle({"total": (256, text)}, launches, {"a.x": x}, {"a.y": (8,)})
    assert (bundle.good()["a.y"] != x.sum(axis=1)).any()


def test_lds_that_was_not_written_is_nan(host_bundle: Make) -> None:
    text = TREE.replace("BLOCK", "64").replace(
        "    partial[item] = x", "    if (item) partial[item] = x"
    )
    x = numbers(4, 64)
    launches = [("total", (4, 1, 1), ("a.x", "a.y"))]
    bundle = host_bundle({"total": (64, text)}, launches, {"a.x": x}, {"a.y": (4,)})
    assert np.isnan(bundle.good()["a.y"]).all()


# ---- Kernels that do what they must not ----


def test_a_work_item_that_ends_while_others_wait(host_bundle: Make) -> None:
    text = """
KERNEL(64, early)
{
    if (threadIdx.x == 9)
        return;
    __syncthreads();
    y[threadIdx.x] = x[threadIdx.x];
}
"""
    launches = [("early", (1, 1, 1), ("a.x", "a.y"))]
    bundle = host_bundle({"early": (64, text)}, launches, {"a.x": numbers(64)}, {"a.y": (64,)})
    assert bundle.error() == (
        "early: work-group 0: work-item 9 ended while work-item 0 waits at the barrier in line 7"
    )


def test_work_items_at_different_barriers(host_bundle: Make) -> None:
    text = """
KERNEL(64, split)
{
    if (threadIdx.x < 40) {
        __syncthreads();
    } else {
        __syncthreads();
    }
    y[threadIdx.x] = x[threadIdx.x];
}
"""
    launches = [("split", (1, 2, 1), ("a.x", "a.y"))]
    bundle = host_bundle({"split": (64, text)}, launches, {"a.x": numbers(64)}, {"a.y": (64,)})
    line = bundle.error()
    assert line.startswith("split: work-group (0, ")
    assert line.endswith(
        "work-item 0 waits at the barrier in line 6, work-item 40 at the one in line 8"
    )


@pytest.mark.parametrize(
    ("statement", "end"),
    [
        ("y[1024 + at] = 0", "3840 bytes past the end of buffer a.y"),  # its guard begins there
        ("y[at] = x[at - 1024]", "4096 bytes before the start of buffer a.x"),
        ("const_cast<float*>(x)[at + 3] = 1", "12 bytes into buffer a.x"),
        ("y[at] = 7 / static_cast<int>(as_uint(x[at]) << 31)", "integer division by zero"),
    ],
)
def test_the_cpu_stops_what_leaves_its_pages(host_bundle: Make, statement: str, end: str) -> None:
    text = SCALE[1].replace("y[at] = 2 * x[at]", statement).replace("unsigned at", "int at")
    bundle = host_bundle(
        {"scale": (64, text)},
        [("scale", (1, 1, 1), ("a.x", "a.y"))],
        # The first buffer keeps what lies before a.x from being somebody else's memory.
        {"a.first": numbers(64), "a.x": 0 * numbers(64)},
        {"a.y": (64,)},
    )
    line = bundle.error()
    assert line.startswith("scale: work-group 0, work-item 0: ")
    assert line.endswith(end)


def test_a_stack_that_overflows(host_bundle: Make) -> None:
    text = SCALE[1].replace(
        "y[at] = 2 * x[at];",
        "volatile float big[65536]; big[0] = x[at]; big[at * 256] = 1; y[at] = big[0];",
    )
    bundle = host_bundle(
        {"scale": (64, text)},
        [("scale", (1, 1, 1), ("a.x", "a.y"))],
        {"a.x": numbers(64)},
        {"a.y": (64,)},
    )
    assert bundle.error() == "scale: work-group 0, work-item 0: its stack overflows"


def test_more_lds_than_a_gpu_has(host_bundle: Make) -> None:
    text = TREE.replace("partial[BLOCK];", "partial[131073];").replace("BLOCK", "64")
    launches = [("total", (1, 1, 1), ("a.x", "a.y"))]
    bundle = host_bundle({"total": (64, text)}, launches, {"a.x": numbers(64)}, {"a.y": (1,)})
    done = bundle.run()
    assert (done.returncode, done.stderr) == (
        5,
        "simgen: error: total: needs more than 512 KiB of LDS, as no GPU has; "
        "make its work-groups smaller\n",
    )


def test_a_workload_without_inputs(host_bundle: Make) -> None:
    text = """
extern "C" __global__ __launch_bounds__(64) void count(float* __restrict__ y)
{
    y[threadIdx.x] = threadIdx.x;
}
"""
    launches = [("count", (1, 1, 1), ("a.y",))]
    bundle = host_bundle({"count": (64, text)}, launches, {}, {"a.y": (64,)})
    assert (bundle.good()["a.y"] == np.arange(64)).all()


# ---- Files ----


def run_program(bundle: HostBundle, *arguments: object, **options: Any) -> tuple[int, str]:
    done = subprocess.run(
        [bundle.program, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=60,
        **options,
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("damage", "code", "fact"),
    [
        (lambda raw: raw[:-1], 70, "is truncated"),
        (lambda raw: raw + b"x", 70, "is truncated or too long"),
        (lambda raw: raw[:40], 70, "is shorter than its header"),
        (lambda raw: b"", 70, "is shorter than its header"),
        (lambda raw: b"X" + raw[1:], 70, "is not a data file of simgen"),
        (lambda raw: raw[:8] + b"\xff" + raw[9:], 71, "holds other tensors or another seed"),
        (lambda raw: raw[:48] + b"\x05" + raw[49:], 70, "has another number of tensors"),
        (lambda raw: raw[:64] + b"\x05" + raw[65:], 70, "has a tensor of another size"),
    ],
)
def test_a_wrong_data_file(
    host_bundle: Make, damage: Callable[[bytes], bytes], code: int, fact: str
) -> None:
    bundle = scale_bundle(host_bundle)
    data = bundle.path / "data.h5"
    data.write_bytes(damage(data.read_bytes()))
    got, line = run_program(bundle, data, bundle.path / "out", bundle.path / "csv")
    assert (got, line.count("\n")) == (code, 1)
    assert line.startswith(f"simgen: error: {data}: {fact}")
    assert not (bundle.path / "out").exists()
    done = bundle.run()
    assert (done.returncode, done.stderr.count("\n")) == (7, 1)
    assert fact in (bundle.path / "results" / "failed-host" / "log.txt").read_text()
    assert [p.name for p in (bundle.path / "results").iterdir()] == ["failed-host"]


def test_a_missing_data_file(host_bundle: Make) -> None:
    bundle = scale_bundle(host_bundle)
    (bundle.path / "data.h5").unlink()
    done = bundle.run()
    assert (done.returncode, done.stderr) == (
        3,
        "simgen: error: ../data.h5: cannot be opened; build the bundle again\n",
    )


@pytest.mark.parametrize("words", ["", "a", "a b c 0", "a b c 2x", "a b c 4294967297", "a b c 1 e"])
def test_wrong_arguments(host_bundle: Make, words: str) -> None:
    code, line = run_program(scale_bundle(host_bundle), *words.split())
    assert (code, line.count("\n")) == (20, 1)


def test_outputs_that_cannot_be_written(host_bundle: Make, tmp_path: Path) -> None:
    bundle = scale_bundle(host_bundle)
    data, csv = bundle.path / "data.h5", tmp_path / "csv"
    code, line = run_program(bundle, data, tmp_path / "none" / "out", csv)
    assert (code, "cannot be made" in line) == (32, True)

    def no_room() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

    code, line = run_program(bundle, data, tmp_path / "out", csv, preexec_fn=no_room)
    assert (code, "cannot be written" in line) == (32, True)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["bundle"]


def test_a_results_folder_that_cannot_be_made(host_bundle: Make) -> None:
    bundle = scale_bundle(host_bundle)
    (bundle.path / "results").write_text("a file is in the way")
    done = bundle.run()
    assert (done.returncode, done.stderr.count("\n")) == (3, 1)


# ---- The Python side ----


def test_metrics_that_are_not_of_this_workload(host_bundle: Make) -> None:
    bundle = scale_bundle(host_bundle)
    bundle.good()
    path = bundle.results / "launches.csv"
    whole = path.read_text()
    for text in ("", whole.replace("scale", "other"), whole + whole.splitlines()[1], "\0",
                 whole.replace("0.", "x.")):  # fmt: skip
        path.write_text(text)
        with pytest.raises(DamagedError, match=r"launches\.csv"):
            Host().reader.metrics(bundle.results, bundle.workload)


def test_the_diagnosis_is_the_error_line() -> None:
    assert Host().watcher.diagnosis("x\nsimgen: error: kernel k: fact\n") == "kernel k: fact"
    assert Host().watcher.diagnosis("all is well") is None


def test_a_cpu_without_vectors_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "cpuinfo"
    file.write_text(CPUINFO.read_text().replace(" avx2", "").replace(" fma", ""))
    monkeypatch.setattr("simgen.targets.host.CPUINFO", file)
    (lack,) = Host().needs.missing()
    assert str(lack).startswith("this CPU has no avx2 and no fma; ")
