"""The gem5-fs target with a script in place of gem5: command lines by version, what it lacks, what
it believes of a run, and its diagnoses."""

from __future__ import annotations

import shutil
import stat
import subprocess
from typing import TYPE_CHECKING

import pytest
from swaps import workload, write

from simgen.errors import DamagedError, UsageError
from simgen.isa.legalise import Model
from simgen.kernels.stages import LEGALISED
from simgen_rocm import gem5_fs
from simgen_rocm.gem5_fs import GPUS, Gem5Fs
from simgen_rocm.hip_program import HipPlace, Program

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from simgen.kernels.build import Builder

GPUFS = "configs/example/gpufs"
STDLIB = "configs/example/gem5_library/x86-mi300x-gpu.py"
NBYTES = workload().arena_nbytes - workload().outputs_offset
GOOD = (
    f"head -c {NBYTES} /dev/zero >outputs.bin\n"
    "for i in 1 2; do\n"
    "    echo '---------- Begin Simulation Statistics ----------'\n"
    "    echo system.cpu1.shaderActiveTicks 5\n"
    "done >stats.txt\n"
)


@pytest.fixture
def run(
    tmp_path: Path, builder: Builder, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[int, str]]:
    """Builds for the settings, and runs run.sh with a checkout whose gem5 is a script."""

    def call(
        body: str = GOOD, has: tuple[str, ...] = (f"{GPUFS}/mi300.py",), **settings: str
    ) -> tuple[int, str]:
        root = tmp_path / "gem5 checkout"
        folder = write(tmp_path / "a 'bundle'", Gem5Fs(**settings), builder)
        program = root / gem5_fs.GEM5_OPT
        program.parent.mkdir(parents=True)
        program.write_text(f'#!/bin/sh\nprintf "%s|" "$@"\necho\n{body}')
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        for script in has:
            (root / script).parent.mkdir(parents=True, exist_ok=True)
            (root / script).touch()
        monkeypatch.setenv("GEM5", str(root))
        for variable in gem5_fs.FILES:
            (tmp_path / variable).touch()
            monkeypatch.setenv(variable, str(tmp_path / variable))
        monkeypatch.setattr(gem5_fs, "KVM", tmp_path / "kvm")
        (tmp_path / "kvm").touch()
        script = (folder / "run.sh").read_text().replace("/dev/kvm", '"$KVM"')
        (folder / "run.sh").write_text(script)
        monkeypatch.setenv("KVM", str(tmp_path / "kvm"))
        assert Gem5Fs(**settings).needs.missing() == []
        done = subprocess.run(
            ["sh", folder / "run.sh"], capture_output=True, text=True, check=False
        )
        return done.returncode, done.stderr

    return call


def arguments(root: Path) -> list[str]:
    """What gem5 was started with, by the log; the temporary folder cut off."""
    log = (root / "a 'bundle'/results/gem5-fs/log.txt").read_text()
    line = next(line for line in log.splitlines() if line.startswith("-d|"))
    return [word.removeprefix(f"{root}/") for word in line.rstrip("|").split("|")]


@pytest.mark.parametrize(("arch", "name"), [("gfx90a", "mi200.py"), ("gfx942", "mi300.py")])
def test_the_scripts_in_gpufs(
    run: Callable[..., tuple[int, str]], tmp_path: Path, arch: str, name: str
):
    assert run(arch=arch, has=(f"{GPUFS}/{name}",)) == (0, "")
    assert arguments(tmp_path) == [
        "-d", ".", f"gem5 checkout/{GPUFS}/{name}", "--disk-image", "GEM5_DISK_IMAGE",
        "--kernel", "GEM5_KERNEL", "--app", "app",
    ]  # fmt: skip


def test_counters_of_kvm_are_turned_off_where_they_are_on(
    run: Callable[..., tuple[int, str]], tmp_path: Path
):
    runfs = tmp_path / "gem5 checkout" / GPUFS / "runfs.py"
    runfs.parent.mkdir(parents=True)
    runfs.write_text('parser.add_argument("--no-kvm-perf")\n')
    assert run() == (0, "")
    assert "--no-kvm-perf" in arguments(tmp_path)


@pytest.mark.parametrize("version", ["24.1", "25.0", "25.1", "develop"])
def test_the_script_of_the_standard_library_where_there_is_one(
    run: Callable[..., tuple[int, str]], tmp_path: Path, version: str
):
    assert run(gem5_version=version, has=(STDLIB, f"{GPUFS}/mi300.py")) == (0, "")
    assert arguments(tmp_path) == [
        "-d", ".", f"gem5 checkout/{STDLIB}", "--image", "GEM5_DISK_IMAGE",
        "--kernel", "GEM5_KERNEL", "--app", "app",
    ]  # fmt: skip


def test_more_options(
    run: Callable[..., tuple[int, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("GEM5_OPTIONS", "--tcp-size=32KiB *")
    assert run() == (0, "")
    assert arguments(tmp_path)[-2:] == ["--tcp-size=32KiB", "*"]


def test_the_guest_gets_the_program_with_the_data_behind_it(
    run: Callable[..., tuple[int, str]], tmp_path: Path
):
    assert run(f"cp app ../../app\n{GOOD}") == (0, "")
    root = tmp_path / "a 'bundle'"
    whole = (root / "gem5-fs/binary").read_bytes() + (root / "data.h5").read_bytes()
    assert (root / "app").read_bytes() == whole
    assert not (root / "results/gem5-fs/app").exists()


class TestBelief:
    def test_outputs_that_did_not_come_out(self, run: Callable[..., tuple[int, str]]):
        code, said = run("")
        assert code == 5
        assert said == (
            f"simgen: error: gem5-fs: 0 of {NBYTES} bytes of outputs came out of the guest; "
            "read results/failed-gem5-fs/log.txt\n"
        )

    def test_the_guests_error_comes_first(
        self, run: Callable[..., tuple[int, str]], tmp_path: Path
    ):
        error = "simgen: error: hipMalloc: hipErrorOutOfMemory (out of memory); cure"
        code, said = run(f'printf "boot\\r\\n{error}\\r\\n" >system.pc.com_1.device\n')
        assert code == 5
        assert said.splitlines()[0] == error
        log = (tmp_path / "a 'bundle'/results/failed-gem5-fs/log.txt").read_text()
        assert f"guest: boot\nguest: {error}\n" in log
        assert Gem5Fs().watcher.diagnosis(log + said) == error.removeprefix("simgen: error: ")

    def test_gem5s_own_exit_code(self, run: Callable[..., tuple[int, str]]):
        code, said = run("echo guest >board.pc.com_1.device\nexit 134\n")
        assert code == 5
        assert "the run ended with exit code 134" in said

    def test_statistics(self, run: Callable[..., tuple[int, str]], tmp_path: Path):
        run(GOOD)
        results = tmp_path / "a 'bundle'/results/gem5-fs"
        found = Gem5Fs().reader.metrics(results, workload())
        assert [launch["shader_active_ticks"] for launch in found] == [5, 5]
        text = (results / "stats.txt").read_text()
        (results / "stats.txt").write_text(text + text[: len(text) // 2])  # copying the outputs
        assert len(Gem5Fs().reader.metrics(results, workload())) == 2
        (results / "stats.txt").write_text(text + text)
        with pytest.raises(DamagedError, match="statistics of 4 kernels for 2 launches"):
            Gem5Fs().reader.metrics(results, workload())


class TestLacks:
    def test_all_are_named_at_once(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
        for variable in ("GEM5", *gem5_fs.FILES):
            monkeypatch.delenv(variable, raising=False)
        monkeypatch.setattr(gem5_fs, "KVM", tmp_path / "kvm")
        assert [lack.fact for lack in Gem5Fs().needs.missing()] == [
            "GEM5 is not set",
            "GEM5_DISK_IMAGE and GEM5_KERNEL are not set",
            f"there is no {tmp_path / 'kvm'}",
        ]

    def test_what_is_set_and_not_there(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
        monkeypatch.setenv("GEM5", str(tmp_path))
        monkeypatch.delenv("GEM5_BINARY", raising=False)
        monkeypatch.setenv("GEM5_DISK_IMAGE", "disk")
        monkeypatch.setenv("GEM5_KERNEL", str(tmp_path / "none"))
        facts = [lack.fact for lack in Gem5Fs(arch="gfx90a").needs.missing()]
        assert facts[:4] == [
            f"{tmp_path / GPUFS / 'mi200.py'} is missing",
            f"{tmp_path / gem5_fs.GEM5_OPT} is missing",
            "GEM5_DISK_IMAGE is disk, not the whole path of a disk image that can be read",
            f"GEM5_KERNEL is {tmp_path}/none, not the whole path of a kernel (vmlinux) that can be "
            "read",
        ]

    def test_run_sh_names_them_too(
        self, tmp_path: Path, builder: Builder, monkeypatch: pytest.MonkeyPatch
    ):
        folder = write(tmp_path, Gem5Fs(), builder)
        monkeypatch.setenv("GEM5", str(tmp_path))
        sh = shutil.which("sh") or "/bin/sh"
        done = subprocess.run([sh, folder / "run.sh"], capture_output=True, text=True, check=False)
        assert done.returncode == 3
        assert done.stderr.startswith(
            f"simgen: error: gem5-fs: {tmp_path / gem5_fs.GEM5_OPT} is missing; get gem5, run scons"
        )


@pytest.mark.parametrize(
    ("log", "fact"),
    [
        ("guest: ERROR: Missing DKMS package for kernel 6.8.0-47-generic. Exiting gem5.",
         "the disk image has no GPU driver for this kernel (Missing DKMS package for kernel "
         "6.8.0-47-generic); take the kernel"),
        ("mi300.py: error: unrecognized arguments: --no-kvm-perf",
         "gem5's script does not take the options (--no-kvm-perf); build for your gem5"),
        ("Encountered unimplemented VEGA instruction: v_x", "gem5 does not implement the instr"),
    ],
)  # fmt: skip
def test_diagnoses(log: str, fact: str):
    assert (Gem5Fs().watcher.diagnosis(log) or "").startswith(fact)


@pytest.mark.parametrize("arch", GPUS)
def test_what_gem5_executes_wrongly_is_replaced(builder: Builder, arch: str):
    program = Program(Model("gem5", "24.0", arch), HipPlace.GUEST)
    frame = (
        "\t.type\tk,@function\nk:\n; %bb.0:\n\tds_read_b96 v[0:2], v4\n\ts_endpgm\n"
        "\t.amdhsa_code_object_version 5\namdhsa.version:\n  - 1\n  - 2\n"
    )
    (legalised,) = (stage for stage in program.stages() if stage.product == LEGALISED)
    text = legalised.make(frame, builder.cache).text
    assert "ds_read_b64" in text
    assert "amdhsa_code_object_version 4" in text
    assert text.endswith("amdhsa.version:\n  - 1\n  - 1\n")


def test_an_older_gem5_is_refused():
    with pytest.raises(UsageError, match=r"gem5-fs: --gem5-version '?23.0'?: unknown"):
        Gem5Fs(gem5_version="23.0")
