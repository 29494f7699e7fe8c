"""What Nsight Compute counted, read from a file that it left on an H200 (LeNet-5, batch 4).

Columns of the device and of the launch are left out of the file, and all but five launches.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from simgen.errors import DamagedError
from simgen.ground import metrics, resources
from simgen.targets import ncu
from simgen.targets.cuda import Cuda

DATA = Path(__file__).resolve().parents[1] / "data" / "ncu.csv"
KERNELS = re.findall(r'^"\d+","\d+","[^"]*","[^"]*","([^"]+)"', DATA.read_text(), re.MULTILINE)
RUN = resources.folder("templates") / "launchers" / "cuda_run.py"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copy(DATA, tmp_path / ncu.FILE)
    return tmp_path


@pytest.fixture
def conv(folder: Path) -> dict[str, float]:
    """Of the first launch, the convolution of 4 images of 28 x 28 with 20 filters of 5 x 5."""
    return ncu.read_metrics(folder, KERNELS)[0]


def test_each_launch_has_its_counts(folder: Path) -> None:
    found = ncu.read_metrics(folder, KERNELS)
    assert len(found) == len(KERNELS) == 5
    assert all(each.keys() == found[0].keys() for each in found)
    assert {name for each in found for name in each} <= metrics.METRICS.keys()
    younger = {"lds_reads", "lds_writes", "lds_bytes", "l1_reads", "l1_writes", "l2_reads",
               "l2_writes"}  # than the file  # fmt: skip
    assert found[0].keys() == ncu.named().keys() - younger


def test_counts_are_those_of_the_layer(conv: dict[str, float]) -> None:
    assert conv["f32_fma_operations"] >= 4 * 20 * 24 * 24 * 25  # tiles overlap the edges
    assert conv["counted_seconds"] == pytest.approx(5.696e-6)
    assert conv["l1_hits"] + conv["l1_misses"] == conv["l1_sector_bytes"] / 32
    assert conv["dram_read_bytes"] == 32 * conv["dram_reads"]
    assert conv["thread_instructions_on"] <= conv["thread_instructions"]
    assert conv["thread_instructions"] <= 32 * conv["instructions"]
    assert conv["wavefront_slot_cycles"] == conv["cu_active_cycles"] * 64


def test_stalls_and_eligible_warps_are_the_cycles_of_warps(conv: dict[str, float]) -> None:
    """Counted in several runs of the launch, so that they are equal but for some per cent."""
    waits = sum(conv[name] for names in metrics.parts("waits").values() for name in names
                if name in conv)  # fmt: skip
    assert waits == pytest.approx(conv["wavefront_cycles"], rel=0.1)


def test_shares_of_peaks_follow(conv: dict[str, float]) -> None:
    found = metrics.derived({**conv, "peak_lanes": 32.0})
    assert found["alu_utilization"] == pytest.approx(0.0073)  # 0.73 % in the file
    assert found["l2_utilization"] == pytest.approx(0.0115)
    assert found["warp_execution_efficiency"] == pytest.approx(1917432 / (64638 * 32))
    assert 0 < found["warp_nonpredicated_efficiency"] < found["warp_execution_efficiency"]
    assert found["occupancy"] == pytest.approx(397054 / (211012 * 64))
    assert found["eligible_wavefronts"] == pytest.approx(64881 / 211012)


def test_figures_of_the_studies_can_be_had(conv: dict[str, float]) -> None:
    counted = Cuda().reader.counted()
    for name in ("alu_utilization", "dram_utilization", "l1_bytes_per_second", "occupancy"):
        assert metrics.expressed(name, counted) is not None


def test_every_metric_that_is_read_is_asked_for() -> None:
    text = RUN.read_text()
    begin = text.index("COUNTERS = (")
    asked: dict[str, tuple[str, ...]] = {}
    exec(text[begin : text.index("PROFILERS", begin)], asked)
    assert set(asked["COUNTERS"]) == set(ncu._WANTED)


def test_without_a_profiler_there_are_none(tmp_path: Path) -> None:
    assert ncu.read_metrics(tmp_path, ["a", "b"]) == [{}, {}]


@pytest.mark.parametrize(
    ("old", "new", "fact"),
    [
        ('"ns"', '"cycle"', "is not in ns"),
        (KERNELS[1], "another", "launches that are not"),
        ('"5696.00"', '"-1"', "is no count"),
        ('"5696.00"', '"nan"', "is no count"),
        ('"5696.00"', '"x"', "not a number"),
        ('"ID",', '"ID","ID",', "two of one name"),
        ('"5696.00",', "", "fields for"),
    ],
)
def test_another_file_is_damaged(folder: Path, old: str, new: str, fact: str) -> None:
    path = folder / ncu.FILE
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    with pytest.raises(DamagedError, match=fact):
        ncu.read_metrics(folder, KERNELS)


def test_other_numbers_of_launches_are_damaged(folder: Path) -> None:
    for kernels in (KERNELS[:4], [*KERNELS, "k"]):
        with pytest.raises(DamagedError, match="launches that are not"):
            ncu.read_metrics(folder, kernels)


@pytest.mark.parametrize(("unit", "factor"), [("nsecond", 1), ("us", 1e3), ("msecond", 1e6)])
def test_durations_may_be_in_other_units(folder: Path, unit: str, factor: float) -> None:
    path = folder / ncu.FILE
    path.write_text(path.read_text().replace('"ns"', f'"{unit}"'))
    seconds = ncu.read_metrics(folder, KERNELS)[0]["counted_seconds"]
    assert seconds == pytest.approx(5.696e-6 * factor)


# ------------------------------------------------------------------ the program that asks for them

STUB = """import sys, types
sys.dont_write_bytecode = True  # the templates hold what was written and nothing else
for name in ("numpy", "cupy", "cupy.cuda", "cupy.cuda.nvrtc"):
    sys.modules[name] = types.ModuleType(name)
sys.modules["cupy"].ndarray = sys.modules["cupy"].RawKernel = object
sys.modules["numpy"].ndarray = object
sys.modules["cupy.cuda"].nvrtc = sys.modules["cupy.cuda.nvrtc"]
sys.path.insert(0, {folder!r})
from pathlib import Path
import cuda_run
cuda_run.PROFILERS = ()
cuda_run.profile(Path({results!r}))
"""


def profiled(tmp_path: Path, script: str | None, **environment: str) -> tuple[int, str]:
    """Exit code and error of `profile`, with a script in the place of ncu; it leaves its log."""
    if script is not None:
        program = tmp_path / "ncu"
        program.write_text(
            '#!/bin/sh\nwhile [ "$1" != --log-file ]; do shift; done\nlog=$2\n' + script
        )
        program.chmod(0o755)
        environment["SIMGEN_NCU"] = str(program)
    done = subprocess.run(
        [sys.executable, "-c", STUB.format(folder=str(RUN.parent), results=str(tmp_path))],
        env={**os.environ, "PATH": "/usr/bin:/bin", **environment},
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stderr


def test_without_permission_it_says_what_to_ask_for(tmp_path: Path) -> None:
    code, error = profiled(tmp_path, 'echo "==ERROR== ERR_NVGPUCTRPERM - The user" >"$log"; exit 1')
    assert code == 3
    assert error.count("\n") == 1
    assert "ask the administrator" in error
    assert "NVreg_RestrictProfilingToAdminUsers=0" in error


@pytest.mark.parametrize(
    ("script", "environment", "code", "fact"),
    [
        (None, {}, 3, "Nsight Compute is not here; install it"),
        (None, {"SIMGEN_NCU": "/nowhere"}, 3, "/nowhere is no program"),
        ('echo "==ERROR== Failed to find metric x" >"$log"', {}, 5, "Failed to find metric x"),
        ("exit 9", {}, 5, "it ended with 9"),
        ('echo \'"ID"\' >"$log"', {}, 0, ""),
    ],
)
def test_a_profiler_that_fails_is_one_line(
    tmp_path: Path, script: str | None, environment: dict[str, str], code: int, fact: str
) -> None:
    got, error = profiled(tmp_path, script, **environment)
    assert (got, fact in error) == (code, True), error
    assert error.count("\n") == (code != 0)
