"""What rocprofv3 counted, from files of the format that its documentation shows.

`counter_collection.csv` has a line for each launch and counter, of the runtime's own kernels too.
"""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING

import pytest

from simgen.errors import DamagedError
from simgen.ground import metrics
from simgen_rocm import rocprof
from simgen_rocm.hip import Hip

if TYPE_CHECKING:
    from pathlib import Path

# The heads and a line of the documentation's own.
HEADS = (
    '"Correlation_Id","Dispatch_Id","Agent_Id","Queue_Id","Process_Id","Thread_Id","Grid_Size",'
    '"Kernel_Id","Kernel_Name","Workgroup_Size","LDS_Block_Size","Scratch_Size","VGPR_Count",'
    '"Accum_VGPR_Count","SGPR_Count","Counter_Name","Counter_Value","Start_Timestamp",'
    '"End_Timestamp"'
)
LINE = (
    '{d},{d},"Agent 1",1,15606,15606,1048576,17,"{kernel}",64,0,0,8,0,16,"{counter}",{value:.6f},'
    "3200098838431081,3200098838483232"
)
NANOSECONDS = 3200098838483232 - 3200098838431081
KERNELS = ["conv_fwd", "act_fwd", "conv_fwd"]
RUNTIME = "__amd_rocclr_fillBufferAligned"


def value(counter: str, launch: int) -> float:
    """Another one for each, and hits that are no more than accesses."""
    names = [name for group in rocprof.GROUPS for name in group]
    return 1000.0 * (launch + 1) + (500 if counter == rocprof.ACCESSES else names.index(counter))


def write(folder: Path, kernels: list[str] = KERNELS) -> None:
    """The files of all passes; lines of later launches come first, as they may."""
    for number, group in enumerate(rocprof.GROUPS, 1):
        launches = [RUNTIME, *(f"{name}.kd" if number == 2 else name for name in kernels)]
        lines = [
            LINE.format(d=at + 1, kernel=kernel, counter=counter, value=value(counter, at - 1))
            for at, kernel in enumerate(launches)
            for counter in group
        ]
        path = folder / rocprof.file_of(number)
        path.write_text("\n".join([HEADS, *reversed(lines)]) + "\n")


def test_each_launch_has_its_counts(tmp_path: Path) -> None:
    write(tmp_path)
    found = rocprof.read_metrics(tmp_path, KERNELS)
    assert len(found) == 3
    for launch, made in enumerate(found):
        assert made.keys() == rocprof.named().keys() <= metrics.METRICS.keys()
        assert made["valu_instructions"] == value("SQ_INSTS_VALU", launch)
        assert made["wavefront_cycles"] == 4 * value("SQ_WAVE_CYCLES", launch)
        assert made["dram_read_bytes"] == 1024 * value("FETCH_SIZE", launch)
        assert made["l1_hits"] + made["l1_misses"] == value(rocprof.ACCESSES, launch)
        assert made["counted_seconds"] == pytest.approx(NANOSECONDS * 1e-9)


def test_they_stand_beside_the_times_of_the_run(tmp_path: Path) -> None:
    write(tmp_path)
    with open(tmp_path / "launches.csv", "w", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(["launch", "kernel", "seconds", "seconds_min", "seconds_max", "rounds"])
        lines.writerows([at, kernel, 1e-6, 1e-6, 2e-6, 3] for at, kernel in enumerate(KERNELS))
    workload = type("W", (), {"launches": [type("L", (), {"kernel": k}) for k in KERNELS]})
    (first, *_) = Hip().reader.metrics(tmp_path, workload)  # type: ignore[arg-type]
    assert first["seconds"] == 1e-6
    assert first["l2_hits"] == value("TCC_HIT_sum", 0)
    assert Hip().reader.counted().keys() >= first.keys() - {"seconds_min", "seconds_max", "rounds"}


def test_without_a_profiler_there_are_none(tmp_path: Path) -> None:
    assert rocprof.read_metrics(tmp_path, KERNELS) == [{}, {}, {}]


def test_a_pass_that_is_missing_is_damage(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / rocprof.file_of(5)).unlink()
    with pytest.raises(DamagedError, match=r"rocprof-5\.csv: cannot be read \(No such file"):
        rocprof.read_metrics(tmp_path, KERNELS)


@pytest.mark.parametrize("kernels", [KERNELS[:2], [*KERNELS, "act_fwd"], KERNELS[::-1][1:]])
def test_other_launches_are_damage(tmp_path: Path, kernels: list[str]) -> None:
    write(tmp_path)
    with pytest.raises(DamagedError, match="launches that are not the workload's"):
        rocprof.read_metrics(tmp_path, kernels)


@pytest.mark.parametrize(
    ("old", "new", "fact"),
    [
        ('"Counter_Value"', '"Value"', "not the columns"),
        ('"Queue_Id"', '"Agent_Id"', "not the columns"),
        ("3000.000000", "-1", "which is no count"),
        ("3000.000000", "nan", "which is no count"),
        ("3000.000000", "many", "not a number"),
        ('"SQ_INSTS_SMEM"', '"SQ_INSTS_LDS"', "twice"),
        ('"SQ_INSTS_SMEM"', '"SQ_ITEMS"', "a launch without SQ_INSTS_SMEM"),
        (',"SQ_WAVES"', "", "fields for"),
    ],
)
def test_another_file_is_damage(tmp_path: Path, old: str, new: str, fact: str) -> None:
    write(tmp_path)
    path = tmp_path / rocprof.file_of(1)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    with pytest.raises(DamagedError, match=fact):
        rocprof.read_metrics(tmp_path, KERNELS)


def test_what_is_asked_for_is_what_is_read() -> None:
    asked = [name for group in rocprof.GROUPS for name in group]
    assert len({*asked}) == len(asked)
    assert {*asked} == {*rocprof.COUNTS, rocprof.ACCESSES}
