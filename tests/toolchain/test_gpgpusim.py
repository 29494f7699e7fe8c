"""The launcher for GPGPU-Sim and its run.sh, with a libcudart.so of the tests' own, which prints
what GPGPU-Sim 4.2 printed."""

from __future__ import annotations

import csv
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from layer_bundles import Problem, plan
from layer_variants import Variant
from swaps import workload, write

from simgen import api
from simgen.errors import DamagedError, RefusedError, UsageError
from simgen.ground.ir import DType, Pass
from simgen.isa import toolchain
from simgen.kernels import render
from simgen.targets.base import Job
from simgen.targets.gpgpusim.simulator import GpgpuSim

if TYPE_CHECKING:
    from simgen.kernels.build import Builder

BUILD = "gcc-12.2.0/cuda-11080/release"
CONFIG = "configs/tested-cfgs/SM7_QV100"
REFUSED = 5  # of the simulator; as simgen's own exit code


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, builder: Builder) -> Path:
    return write(tmp_path_factory.mktemp("it's a bundle"), GpgpuSim(), builder)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What stands for a checkout that is built."""
    place = tmp_path_factory.mktemp("gpgpu sim")
    made = place / "lib" / BUILD
    made.mkdir(parents=True)
    (place / CONFIG).mkdir(parents=True)
    (place / CONFIG / "gpgpusim.config").write_text("# no newline at its end")
    (place / CONFIG / "config_volta_islip.icnt").write_text("")
    (place / "system.h").write_text(render.text("launchers/system.h"))
    shutil.copy(Path(__file__).with_name("fake_gpgpusim.c"), place)
    zig = str(toolchain.zig())
    compiled = [zig, "clang", *toolchain.HOST_FLAGS, "-std=gnu23", "-fpic"]
    subprocess.run([*compiled, "-c", "fake_gpgpusim.c", "-o", "fake.o"], cwd=place, check=True)
    link = [zig, "ld.lld", "-shared", "-soname=libcudart.so", "fake.o"]
    subprocess.run([*link, "-o", str(made / "libcudart.so")], cwd=place, check=True)
    return place


def run(folder: Path, **variables: object) -> tuple[int, str]:
    """Exit code and stderr of run.sh, in the place of any result that is there."""
    given = {
        "PATH": os.defpath,
        "SIMGEN_REPLACE": "yes",
        **{name: str(value) for name, value in variables.items()},
    }
    done = subprocess.run(
        ["sh", str(folder / "run.sh")], env=given, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stderr


def results(folder: Path) -> Path:
    return folder.parent / "results" / "gpgpusim"


def test_functional_mode_leaves_outputs_and_the_time_it_took(folder: Path, root: Path) -> None:
    assert run(folder, GPGPUSIM_ROOT=root) == (0, "")
    left = results(folder)
    work = workload()
    assert (left / "outputs.bin").stat().st_size == work.arena_nbytes - work.outputs_offset
    rows = GpgpuSim().reader.metrics(left, work)
    assert [set(row) for row in rows] == [{"host_seconds"}] * 2
    assert GpgpuSim().reader.machine(left) == {
        "simulator": "GPGPU-Sim", "version": "4.2.0  [build fake]", "mode": "functional",
        "config": "SM7_QV100", "clock": "1132 MHz",
    }  # fmt: skip
    # A run leaves none of what the simulator writes for itself.
    assert not {"work", "printed.txt"} & {path.name for path in left.iterdir()}
    said = (left / "gpgpusim.config").read_text().splitlines()
    assert said[1:] == ["-gpgpu_ptx_use_cuobjdump 0"]


def test_counters_that_run_on_are_told_for_each_launch(folder: Path, root: Path) -> None:
    assert run(folder, GPGPUSIM_ROOT=root, SIMGEN_MODE="timing") == (0, "")
    first, second = GpgpuSim().reader.metrics(results(folder), workload())
    for row in (first, second):
        row.pop("host_seconds")
    assert first["cycles"] == 5661
    assert second["cycles"] == 5662
    assert first["seconds"] == pytest.approx(5661 / 1132e6, abs=1e-12)
    counted = {
        "instructions": 576, "thread_instructions": 17288, "work_groups": 16,
        "l1_hits": 70, "l1_misses": 150, "l1_mshr_hits": 30,
        "l2_hits": 240, "l2_misses": 10, "l2_mshr_hits": 0,
        "dram_reads": 3, "dram_writes": 2, "dram_read_bytes": 96, "dram_written_bytes": 64,
    }  # fmt: skip
    for row in (first, second):
        assert {name: row[name] for name in counted} == counted
        assert row.keys() == GpgpuSim().reader.counted().keys() - {"host_seconds"}


@pytest.mark.parametrize(
    ("fake", "code", "said"),
    [
        ("syntax", 4, "GPGPU-Sim does not read this PTX: ./kernels.ptx:17 Syntax error:"),
        ("deadlock", REFUSED, "swap: the simulated GPU is in a deadlock"),
        ("assert", REFUSED, "swap: GPGPU-Sim ended itself (a failed assertion, or abort)"),
        ("exit", REFUSED, "swap: GPGPU-Sim called exit"),
        ("segment", REFUSED, "swap: GPGPU-Sim crashed (signal 11)"),
        ("silent", REFUSED, "statistics: GPGPU-Sim printed no L2_total_cache_accesses"),
    ],
)
def test_what_goes_wrong_in_the_simulator_is_told_in_a_line(
    folder: Path, root: Path, fake: str, code: int, said: str
) -> None:
    before = sorted(results(folder).iterdir()) if results(folder).exists() else None
    done = run(folder, GPGPUSIM_ROOT=root, SIMGEN_MODE="timing", FAKE=fake)
    assert done[0] == code, done
    (line,) = done[1].splitlines()
    assert line.startswith("simgen: error: ")
    assert said in line
    log = (folder.parent / "results" / "failed-gpgpusim" / "log.txt").read_text()
    assert line in log
    assert said in (GpgpuSim().watcher.diagnosis(log) or "")
    # What was there before is there still; nothing is half-written.
    assert (sorted(results(folder).iterdir()) if before else None) == before
    assert not list((folder.parent / "results").glob(".part-*"))


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({}, "GPGPUSIM_ROOT is not set; build GPGPU-Sim 4.2 as its README says"),
        ({"GPGPUSIM_ROOT": "/nowhere"}, "GPGPUSIM_ROOT is /nowhere, which is no folder"),
        ({"GPGPUSIM_CONFIG": "gcc/cuda/debug"}, "lib/gcc/cuda/debug has no libcudart.so"),
        ({"SIMGEN_MODE": "emu"}, "SIMGEN_MODE is emu; known: functional, timing"),
    ],
)
def test_what_a_run_lacks_is_told_before_it_begins(
    folder: Path, root: Path, variables: dict[str, str], said: str
) -> None:
    own = {} if not variables else {"GPGPUSIM_ROOT": root}
    code, line = run(folder, **(own | variables))
    assert code == (2 if "SIMGEN_MODE" in variables else 3)
    assert said in line


def test_a_configuration_that_is_not_there_is_told(
    folder: Path, root: Path, tmp_path: Path
) -> None:
    shutil.copytree(root / "lib", tmp_path / "lib")
    code, line = run(folder, GPGPUSIM_ROOT=tmp_path)
    assert code == 3
    assert f"{tmp_path}/{CONFIG} has no gpgpusim.config" in line


def test_needs_say_the_same(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needs = GpgpuSim().needs
    monkeypatch.delenv("GPGPUSIM_CONFIG", raising=False)
    monkeypatch.setenv("GPGPUSIM_ROOT", str(root))
    assert needs.missing() == []
    assert str(root) in needs.identity()
    monkeypatch.setenv("GPGPUSIM_ROOT", str(tmp_path))
    facts = [lack.fact for lack in needs.missing()]
    assert facts[0] == f"{tmp_path} has no lib/*/*/*/libcudart.so"
    assert len(facts) == 2
    shutil.copytree(root / "lib", tmp_path / "lib")
    shutil.copytree(root / "lib" / BUILD, tmp_path / "lib" / "gcc-12.2.0/cuda-11080/debug")
    assert needs.missing()[0].fact == f"{tmp_path}/lib has several builds"
    monkeypatch.setenv("GPGPUSIM_CONFIG", BUILD)
    assert len(needs.missing()) == 1  # the configuration


def test_lines_that_are_not_those_of_the_launches_are_damage(folder: Path, root: Path) -> None:
    assert run(folder, GPGPUSIM_ROOT=root) == (0, "")
    path = results(folder) / "launches.csv"
    with path.open() as file:
        head, *rows = csv.reader(file)
    path.write_text("\n".join(",".join(row) for row in (head, rows[0])) + "\n")
    with pytest.raises(DamagedError, match="lists 1 launches"):
        GpgpuSim().reader.metrics(results(folder), workload())


def test_more_than_its_addresses_reach_is_refused(builder: Builder, tmp_path: Path) -> None:
    """A gigabyte, of which it would silently take the first byte for the next."""
    with pytest.raises(RefusedError, match=r"the tensors take 1610625024 bytes.*choose a"):
        write(tmp_path, GpgpuSim(), builder, workload(elements=2**27))


def test_kernels_with_shuffles_are_for_the_timing_model(
    folder: Path, root: Path, tmp_path: Path
) -> None:
    shutil.copytree(folder.parent, tmp_path / "b")
    (tmp_path / "b" / "gpgpusim" / "timed.txt").write_text("kernel swap: shfl: why\n")
    code, line = run(tmp_path / "b" / "gpgpusim", GPGPUSIM_ROOT=root)
    assert (code, line) == (4, "simgen: error: gpgpusim: kernel swap: shfl: why\n")
    assert run(tmp_path / "b" / "gpgpusim", GPGPUSIM_ROOT=root, SIMGEN_MODE="timing")[0] == 0


def test_a_run_that_ended_in_a_launch_goes_on_behind_the_last_step(
    folder: Path, root: Path, tmp_path: Path
) -> None:
    assert run(folder, GPGPUSIM_ROOT=root) == (0, "")
    whole = (results(folder) / "outputs.bin").read_bytes()
    shutil.copytree(folder.parent, tmp_path / "b", ignore=shutil.ignore_patterns("results"))
    again = tmp_path / "b" / "gpgpusim"
    assert run(again, GPGPUSIM_ROOT=root, FAKE="second")[0] == REFUSED
    stopped = results(again).with_name("stopped-gpgpusim")
    assert (stopped / "state.bin").read_bytes()[64:66] == b"\1\0"
    start = {"SIMGEN_START": "../results/stopped-gpgpusim", "SIMGEN_LAUNCHES": 1}
    code, said = run(again, GPGPUSIM_ROOT=root, **start)
    assert (code, said) == (0, "")
    assert (results(again) / "outputs.bin").read_bytes() == whole
    assert len((results(again) / "launches.csv").read_text().splitlines()) == 2  # with the head
    assert not stopped.exists()


def test_words_of_a_mode_are_those_of_the_target_that_runs(tmp_path: Path) -> None:
    """MGPUSim's and GPGPU-Sim's modes have one option, and other words."""
    plan = api.plan("softmax_fwd", set={"n": 1, "c": 3})
    bundle = plan.build(tmp_path / "b", targets=["gpgpusim", "mgpusim"])
    with pytest.raises(UsageError, match="mode 'emu': unknown; known: functional, timing"):
        bundle.run("gpgpusim", options={"mode": "emu"})
    with pytest.raises(UsageError, match="mode 'slow': unknown"):
        bundle.run(options={"mode": "slow"})


@pytest.mark.parametrize(("config", "dtype"), [("SM7_QV100", "f32"), ("SM86_RTX3070", "f16")])
def test_kernels_become_what_gpgpusim_reads(builder: Builder, config: str, dtype: str) -> None:
    """Of layers whose kernels need most of the rules; a word that it lacks would be refused."""
    target = GpgpuSim(config=config)
    chosen = {
        "conv": Problem(Variant("conv", (("algo", "fft"), ("num_output", "2"), ("pad", "1"))),
                        (1, 2, 5, 7)),
        "gemm": Problem(Variant("gemm", (("m", "5"), ("n", "3"), ("k", "7"))), (1,)),
        "dropout": Problem(Variant("dropout", ()), (2, 6, 5, 7)),
        "recurrent": Problem(Variant("recurrent", (("algo", "persistent"),)), (3, 2, 6)),
    }  # fmt: skip
    passes = (Pass.FORWARD, Pass.BACKWARD_DATA, Pass.BACKWARD_WEIGHT)
    work = plan(chosen, *passes, machine=target.simulated, dtype=DType.table[dtype])
    files = target.package.folder(Job(work, render.kernels(work), bytes(32), "0" * 64), builder)
    text = files["kernels.ptx"].content.decode()
    names = [kernel.name for kernel in work.kernels]
    assert re.findall(r"^\.visible \.entry (\w+)\(", text, re.M) == names
    assert len(re.findall(r"^\.version", text, re.M)) == 1
    told = files["resources.txt"].content.decode()
    assert re.findall(r"entry function '(\w+)' for 'sm_\d+'", told) == names
    assert not re.search(r"setp\.(eq|ne)\.b(16|32)|maxntid|cvt\.rn\.f16|\{ \.reg|fence", text)
    assert not re.search(r"\{[^}\n]*(?<![\w%])\d", re.sub(r"(?m)^\.global.*", "", text))
    assert "timed.txt" not in files
