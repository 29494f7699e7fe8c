"""The HIP host program, compiled without ROCm: with a libamdhip64 of the tests' own it runs to its
end, with the real one and its compiler, where they are installed, as far as it goes without a GPU.
"""

from __future__ import annotations

import csv
import ctypes.util
import io
import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from elftools.elf.elffile import ELFFile
from swaps import job, workload, write

from simgen.errors import SimgenError, UsageError
from simgen.ground.ir import DType
from simgen.ground.machine import named
from simgen.isa import toolchain
from simgen.isa.legalise import Model, cache_policy, code_object_version
from simgen.kernels import render
from simgen.kernels.build import Builder
from simgen.kernels.cache import Cache
from simgen.targets.gem5.se import Gem5Se
from simgen.tensors import data_file
from simgen_rocm import hip
from simgen_rocm.gem5_fs import Gem5Fs
from simgen_rocm.hip import Hip
from simgen_rocm.hip_program import LIBRARY_NAMES, HipPlace, Program

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from numpy.typing import NDArray

ROCM_4_0, ROCM_6 = 3305, 60032830  # what hipRuntimeGetVersion says
M5_DUMP_RESET_STATS = bytes.fromhex("0f044200")
GFX900, GFX902, XNACK = 0x2C, 0x2D, 0x100  # e_flags
M5 = "/usr/local/bin/m5"  # one of the places where the guest looks for it

# In the place of rocprofv3: runs the program, and counts 7 of everything in each of its launches.
ROCPROF = """\
counters=
while [ "$1" != -- ]; do
    case $1 in
    --pmc) while [ "$2" != --output-format ]; do counters="$counters $2"; shift; done ;;
    -d) folder=$2; shift ;;
    -o) name=$2; shift ;;
    esac
    shift
done
shift
"$@" || exit
mkdir -p "$folder"
{
    echo Dispatch_Id,Kernel_Name,Counter_Name,Counter_Value,Start_Timestamp,End_Timestamp
    tail -n +2 "$4" | while IFS=, read -r launch kernel rest; do
        for counter in $counters; do echo "$launch,$kernel,$counter,7.000000,10,30"; done
    done
} >"$folder/${name}_counter_collection.csv"
"""

needs_hipcc = pytest.mark.skipif(
    shutil.which("hipcc") is None,
    reason="there is no hipcc; apt-get install hipcc libamdhip64-dev (Debian 12)",
)


@pytest.fixture(scope="module")
def gpu(tmp_path_factory: pytest.TempPathFactory, builder: Builder) -> Path:
    return write(tmp_path_factory.mktemp("bundle gpu"), Hip(), builder)


@pytest.fixture(scope="module")
def syscalls(tmp_path_factory: pytest.TempPathFactory, builder: Builder) -> Path:
    return write(tmp_path_factory.mktemp("bundle se"), Gem5Se(launcher="hip"), builder)


@pytest.fixture(scope="module")
def guest(tmp_path_factory: pytest.TempPathFactory, builder: Builder) -> Path:
    return write(tmp_path_factory.mktemp("bundle fs"), Gem5Fs(arch="gfx90a"), builder)


def library(folder: Path, **macros: object) -> Path:
    """`folder` with a libamdhip64 of our own, compiled with `macros`."""
    given = {"VERSION": ROCM_6, "FLAGS": 0} | macros
    (folder / "system.h").write_text(render.text("launchers/system.h"))
    shutil.copy(Path(__file__).with_name("fake_hip.c"), folder)
    flags = (*toolchain.HOST_FLAGS, "-fpic", *(f"-D{n}={v}" for n, v in given.items()))
    zig = str(toolchain.zig())
    subprocess.run(
        [zig, "clang", *flags, "-c", "fake_hip.c", "-o", "fake.o"], cwd=folder, check=True
    )
    link = ["-shared", f"-soname={LIBRARY_NAMES[0]}", "fake.o", "-o", LIBRARY_NAMES[0]]
    subprocess.run([zig, "ld.lld", *link], cwd=folder, check=True)
    return folder


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return library(tmp_path_factory.mktemp("library"))


def started(program: Path, *arguments: object, libraries: Path | None = None) -> tuple[int, str]:
    """Exit code and stderr of a program, started in its folder."""
    done = subprocess.run(
        [program, *map(str, arguments)], cwd=program.parent, capture_output=True, text=True,
        env={"LD_LIBRARY_PATH": str(libraries or "/nowhere")}, check=False,
    )  # fmt: skip
    return done.returncode, done.stderr


def check_outputs(path: Path, values: Path) -> None:
    """Both layers' tensors, each with the canary behind it up to the next one."""
    work = workload()
    x = data_file.load(values, work)["in.x"]
    words = np.fromfile(path, dtype="<u4")
    assert words.nbytes == work.arena_nbytes - work.outputs_offset
    swapped: NDArray[Any] = x.reshape(-1, 2)[:, ::-1].ravel()
    assert np.array_equal(words[:1024].view("<f4"), swapped)
    assert np.array_equal(words[2048:3072].view("<f4"), x)
    assert set(words[1024:2048]) == set(words[3072:]) == {DType.F32.canary}


class TestProgram:
    @pytest.mark.parametrize("place", HipPlace)
    def test_needs_the_c_library_and_nothing_of_rocm(self, builder: Builder, place: HipPlace):
        content = (
            Program(Model.gpu("gfx900"), place).build(job(workload()), builder)["binary"].content
        )
        elf = ELFFile(io.BytesIO(content))
        dynamic = elf.get_section_by_name(".dynamic")
        assert {t.needed for t in dynamic.iter_tags("DT_NEEDED")} == {"libc.so.6", "libdl.so.2"}
        assert not elf.get_section_by_name(".gnu.version_r")  # any version of them

    def test_carries_the_code_objects_as_they_are(self, builder: Builder):
        program = Program(Model.gpu("gfx1100"), HipPlace.GPU)
        made = job(workload())
        objects = program.code_objects(made, builder)
        content = program.build(made, builder)["binary"].content
        assert all(content.count(elf) == 1 for elf in objects)

    @pytest.mark.parametrize("arch", toolchain.AMD_ARCHS)
    def test_code_objects_are_of_version_4(self, builder: Builder, arch: str):
        made = Program(Model.gpu(arch), HipPlace.GPU).code_objects(job(workload()), builder)
        assert {elf[8] for elf in made} == {2}

    @pytest.mark.parametrize("arch", toolchain.AMD_ARCHS)
    def test_is_built_for_the_machine_that_was_planned_for(self, builder: Builder, arch: str):
        target = Hip(arch=arch)
        planned = replace(workload(), machine=named(target.machine or "mi210"))
        assert target.package.folder(job(planned), builder)["binary"].executable

    def test_text_of_another_version_is_an_error(self):
        with pytest.raises(SimgenError, match="does not write code objects of version 5"):
            code_object_version.four(".amdhsa_code_object_version 6\n", "gfx900")

    def test_the_cache_policy_reaches_the_kernels(self, builder: Builder):
        cached, bypass = (
            Hip(l1=policy).package.folder(job(workload()), builder)["src/code.img"].content
            for policy in cache_policy.POLICIES
        )
        assert cached != bypass

    def test_is_built_to_the_same_bytes_again(self, builder: Builder, tmp_path: Path):
        again = Builder(Cache(tmp_path))
        assert Hip().package.folder(job(workload()), again) == Hip().package.folder(
            job(workload()), builder
        )

    @pytest.mark.parametrize("version", ["23.0", "24.0"])
    def test_it_dumps_statistics_where_apu_se_does_not(self, builder: Builder, version: str):
        target = Gem5Se(gem5_version=version, launcher="hip")
        content = target.package.folder(job(workload()), builder)["binary"].content
        assert (M5_DUMP_RESET_STATS in content) is (version < "24")


class TestRuns:
    def test_on_a_gpu(self, gpu: Path, good: Path):
        program, values = gpu / "binary", gpu.parent / "data.h5"
        code, said = started(program, values, "o.bin", "l.csv", 1, 4, libraries=good)
        assert (code, said) == (0, f"simgen: gpu: Fake GPU\nsimgen: hip_runtime: {ROCM_6}\n")
        check_outputs(gpu / "o.bin", values)
        with (gpu / "l.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
        assert [(r["launch"], r["kernel"], r["rounds"]) for r in rows] == [
            ("0", "swap", "4"), ("1", "swap", "4")
        ]  # fmt: skip
        # An event's time is that of the event before it and 1, 2, 3, 4 or 0 us, in turn; the
        # first four are those of the first round, the next of the warming up.
        times = [[(k + 1) % 5 for k in range(9 + at, 9 + at + 16, 4)] for at in (0, 2)]
        for row, found in zip(rows, times, strict=True):
            kept = (np.median(found), min(found), max(found))
            names = ("seconds", "seconds_min", "seconds_max")
            assert [float(row[name]) for name in names] == pytest.approx(
                [us * 1e-6 for us in kept], abs=1.1e-9
            )

    def test_one_round_is_the_timed_one(self, gpu: Path, good: Path, tmp_path: Path):
        values, times = gpu.parent / "data.h5", tmp_path / "launches.csv"
        code, _ = started(gpu / "binary", values, tmp_path / "o", times, 0, 1, libraries=good)
        assert code == 0
        (results := tmp_path).joinpath("log.txt").write_text("simgen: gpu: Fake GPU\n")
        found = Hip().reader.metrics(results, workload())
        assert [launch["rounds"] for launch in found] == [1, 1]
        assert [launch["seconds"] for launch in found] == [2e-6, 4e-6]
        assert Hip().reader.machine(results) == {"arch": "gfx90a", "gpu": "Fake GPU"}

    @pytest.mark.parametrize(
        ("arch", "version", "macros"),
        [
            ("gfx902", "24.0", {}),
            ("gfx902", "24.0", {"VERSION": ROCM_4_0, "FLAGS": GFX902 | XNACK}),
            ("gfx900", "24.0", {"VERSION": ROCM_4_0, "FLAGS": GFX900}),
        ],
    )
    def test_under_system_calls_code_objects_are_what_the_runtime_loads(
        self, builder: Builder, tmp_path: Path, arch: str, version: str, macros: dict[str, int]
    ):
        target = Gem5Se(arch=arch, gem5_version=version, launcher="hip")
        folder = write(tmp_path, target, builder)
        (at := tmp_path / "library").mkdir()
        values = tmp_path / "data.h5"
        libraries = library(at, **macros)
        assert started(folder / "binary", values, "o.bin", libraries=libraries) == (0, "")
        check_outputs(folder / "o.bin", values)

    def test_in_a_guest(self, guest: Path, good: Path, tmp_path: Path):
        app, calls = with_data(guest, tmp_path)
        assert started(app, libraries=good) == (0, "")
        check_outputs(tmp_path / "outputs.bin", guest.parent / "data.h5")
        assert calls.read_text().splitlines() == [
            "resetstats", "dumpresetstats", "dumpresetstats", "writefile outputs.bin"
        ]  # fmt: skip

    def test_a_guest_without_m5(self, guest: Path, good: Path, tmp_path: Path):
        app, _ = with_data(guest, tmp_path, code=3)
        code, said = started(app, libraries=good)
        assert code == 32
        assert said.startswith("simgen: error: resetstats: the disk image has no working m5; ")


def with_data(guest: Path, folder: Path, code: int = 0) -> tuple[Path, Path]:
    """The guest's program with the data behind it, and what a script in place of m5 notes."""
    calls = folder / "calls"
    while True:  # a path as long as that of m5, to put in its place
        script = Path("/var/tmp", f"m5{os.urandom(8).hex()}"[: len(M5) - len("/var/tmp/")])
        if not script.exists():
            break
    app = folder / "app"
    content = (guest / "binary").read_bytes()
    for place in ("/sbin/m5", "/usr/bin/m5"):
        content = content.replace(place.encode() + b"\0", b"/".ljust(len(place), b"-") + b"\0")
    assert content.count(M5.encode()) == 1
    content = content.replace(M5.encode(), str(script).encode())
    app.write_bytes(content + (guest.parent / "data.h5").read_bytes())
    app.chmod(0o755)
    script.write_text(f'#!/bin/sh\necho "$@" >>"{calls}"\nexit {code}\n')
    script.chmod(0o755)
    _SCRIPTS.append(script)
    return app, calls


_SCRIPTS: list[Path] = []


@pytest.fixture(scope="module", autouse=True)
def swept():
    yield
    for script in _SCRIPTS:
        script.unlink(missing_ok=True)


class TestExitCodes:
    @pytest.mark.parametrize("arguments", [(), ("a", "b"), ("a", "b", "c", "0", "1", "2")])
    def test_arguments(self, gpu: Path, arguments: tuple[str, ...]):
        said = "not as many as it takes; write DATA OUTPUTS LAUNCHES_CSV WARMUP REPEATS"
        wanted = f"simgen: error: arguments: {said}\n"
        assert started(gpu / "binary", *arguments) == (20, wanted)

    @pytest.mark.parametrize(
        ("warmup", "repeats", "place"),
        [("x", "1", "WARMUP"), ("0", "-1", "REPEATS"), ("0", "0", "REPEATS")],
    )
    def test_numbers(self, gpu: Path, warmup: str, repeats: str, place: str):
        code, said = started(gpu / "binary", "../data.h5", "o", "l", warmup, repeats)
        assert code == 20
        assert said.startswith(f"simgen: error: {place}: ")

    def test_no_library(self, gpu: Path, tmp_path: Path):
        # What is found first is not one.
        for name in LIBRARY_NAMES:
            (tmp_path / name).write_bytes(b"no library")
        found = ctypes.util.find_library("amdhip64")
        code, said = started(gpu / "binary", "../data.h5", "o", "l", 0, 1, libraries=tmp_path)
        assert code == 30
        if found is None:
            assert said.endswith(
                "simgen: error: libamdhip64.so: cannot be loaded; install ROCm, or name its folder "
                "in LD_LIBRARY_PATH\n"
            )

    @pytest.mark.parametrize(
        ("function", "error", "code", "line"),
        [
            ("hipGetDeviceCount", 100, 30, "hipGetDeviceCount: hipErrorNoDevice (no ROCm-capable"),
            ("hipModuleLoadData", 209, 50, "swap: hipErrorFake (fake); the kernel is for gfx90a; "),
            ("hipMalloc", 2, 33, "hipMalloc: hipErrorFake (fake); choose a smaller batch"),
            ("hipMemcpy", 719, 50, "../data.h5: hipErrorFake (fake); hipMemcpy failed"),
            ("hipMemsetD32", 719, 50, "hipMemsetD32: hipErrorFake (fake)"),
            ("hipModuleLaunchKernel", 719, 52, "swap: hipErrorFake (fake); the launch was refused"),
            (
                "hipDeviceSynchronize",
                719,
                52,
                "hipDeviceSynchronize: hipErrorFake (fake); a kernel",
            ),
        ],
    )
    def test_errors_of_hip_have_its_names(
        self, gpu: Path, tmp_path: Path, function: str, error: int, code: int, line: str
    ):
        libraries = library(tmp_path, FAIL_IN=function, ERROR=error)
        found, said = started(gpu / "binary", "../data.h5", "o", "l", 0, 1, libraries=libraries)
        assert found == code
        assert said.splitlines()[-1].startswith(f"simgen: error: {line}")
        assert not (gpu / "o").exists() or function == "hipMemcpy"

    @pytest.mark.parametrize(
        ("damage", "code"),
        [
            (lambda raw: b"", 70),
            (lambda raw: raw[:-1], 70),
            (lambda raw: raw + b"\0", 70),
            (lambda raw: b"x" + raw[1:], 70),
            (lambda raw: raw[:8] + b"x" * 32 + raw[40:], 71),
        ],
    )
    def test_damaged_data(self, gpu: Path, guest: Path, tmp_path: Path, damage: Any, code: int):
        raw = damage((gpu.parent / "data.h5").read_bytes())
        (tmp_path / "data.h5").write_bytes(raw)
        found, _ = started(gpu / "binary", tmp_path / "data.h5", "o", "l", 0, 1)
        assert found == code
        app = tmp_path / "app"
        app.write_bytes((guest / "binary").read_bytes() + raw)
        app.chmod(0o755)
        assert started(app)[0] == code

    def test_no_data_and_no_place_for_outputs(self, gpu: Path, good: Path, tmp_path: Path):
        program = gpu / "binary"
        assert started(program, tmp_path / "none", "o", "l", 0, 1)[0] == 31
        at = tmp_path / "none" / "o"
        assert started(program, "../data.h5", at, "l", 0, 1, libraries=good)[0] == 32


class TestUnderGem5:
    """run.sh of gem5-se with a script in place of gem5, and of Docker."""

    def arguments(self, root: Path, body: str = "", **environment: str) -> tuple[int, list[str]]:
        """Exit code, and the command line as the log has it."""
        tools = root / "tools"
        gem5 = root / "gem5/build/VEGA_X86/gem5.opt"
        for program in (tools / "docker", gem5):
            program.parent.mkdir(parents=True, exist_ok=True)
            told = '[ "$3" != which-version ] || echo "gem5 version 24.0.0.1"'
            program.write_text(f'#!/bin/sh\n{told}\nprintf "%s|" "$0" "$@"\necho\n{body}')
            program.chmod(0o755)
        script = root / "gem5/configs/example/apu_se.py"
        script.parent.mkdir(parents=True, exist_ok=True)
        script.touch()
        given = os.environ | {"GEM5": str(root / "gem5"), "PATH": f"{tools}:{os.environ['PATH']}"}
        given = {k: v for k, v in given.items() if k != "SIMGEN_DOCKER"} | environment
        run = root / "gem5-se/run.sh"
        done = subprocess.run(["sh", run], env=given, capture_output=True, check=False)
        log = (root / "results/failed-gem5-se/log.txt").read_text()
        line = next(line for line in log.splitlines() if line.endswith("|"))
        return done.returncode, [w.removeprefix(f"{root}/") for w in line.rstrip("|").split("|")]

    @pytest.fixture
    def root(self, syscalls: Path) -> Iterator[Path]:
        with tempfile.TemporaryDirectory(dir="/var/tmp") as root:
            if Gem5Se().needs.refusal(Path(root)):
                pytest.skip("/var/tmp is a link to a place that gem5 redirects")
            yield Path(shutil.copytree(syscalls.parent, Path(root, "bundle")))

    def test_it_runs_in_gem5s_image(self, root: Path):
        code, words = self.arguments(root)
        assert code == 5  # there are no outputs
        assert words[:3] == ["tools/docker", "run", "--rm"]
        image = words.index("ghcr.io/gem5/gcn-gpu:v24-0")
        assert words[image + 1 :] == [
            "gem5/build/VEGA_X86/gem5.opt", "-d", ".", "gem5/configs/example/apu_se.py", "-n3",
            "--mem-size=512MiB", "--gfx-version=gfx902", "-c", "../../gem5-se/binary",
            "--options=../../data.h5 outputs.bin",
        ]  # fmt: skip

    def test_on_request_it_runs_here(self, root: Path):
        assert self.arguments(root, SIMGEN_DOCKER="0")[1][0] == "gem5/build/VEGA_X86/gem5.opt"

    def test_docker_that_does_not_run_is_missing(self, root: Path):
        code, _ = self.arguments(root, "echo Cannot connect to the Docker daemon\nexit 125\n")
        assert code == 3
        log = (root / "results/failed-gem5-se/log.txt").read_text()
        assert (Gem5Se(launcher="hip").watcher.diagnosis(log) or "").startswith(
            "Docker does not run here"
        )

    def test_without_docker_it_cannot_run(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
        monkeypatch.setenv("PATH", str(tmp_path))
        monkeypatch.delenv("SIMGEN_DOCKER", raising=False)
        assert "gem5's image has the HIP" in Gem5Se(launcher="hip").needs.missing()[-1].fact
        monkeypatch.setenv("SIMGEN_DOCKER", "0")
        assert not any("docker" in lack.fact for lack in Gem5Se(launcher="hip").needs.missing())

    def test_pseudo_instructions_are_refused(self):
        with pytest.raises(UsageError, match="--m5ops: the HIP program has no such instructions"):
            Gem5Se(launcher="hip", m5ops=True)

    @pytest.mark.parametrize(
        ("log", "fact"),
        [
            ("libc.so.6: CPU ISA level is lower than required", "the C library of this machine"),
            ("fatal: syscall set_mempolicy (#238) unimplemented.", "gem5 has no system call set_m"),
            ("fatal: 3223866242: bad ioctl", "this ROCm is too new for gem5's driver (bad ioctl)"),
        ],
    )
    def test_what_a_newer_rocm_dies_of(self, log: str, fact: str):
        assert (Gem5Se(launcher="hip").watcher.diagnosis(log) or "").startswith(fact)
        assert (
            Gem5Se(launcher="hip").watcher.launches_done(f"Entering event queue @ 0\n{log}") is None
        )


class TestTarget:
    def test_without_a_driver_it_cannot_run(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
        monkeypatch.setattr(hip, "DRIVER", tmp_path / "kfd")
        assert [lack.fact for lack in Hip().needs.missing()] == [f"there is no {tmp_path / 'kfd'}"]

    def test_a_driver_without_a_library(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
        (tmp_path / "kfd").touch()
        monkeypatch.setattr(hip, "DRIVER", tmp_path / "kfd")
        monkeypatch.setattr(hip, "LIBRARY_NAMES", ("libamdhip64.so.none",))
        assert [lack.fact for lack in Hip().needs.missing()] == ["there is no libamdhip64"]

    def test_the_script_says_what_is_missing(self, gpu: Path):
        if Path("/dev/kfd").exists():
            pytest.skip("this machine has an AMD GPU")
        done = subprocess.run(
            ["sh", gpu / "run.sh"], capture_output=True, text=True, check=False, env={}
        )
        assert done.returncode == 3
        assert re.match(r"simgen: error: hip: there is no /dev/kfd .*gfx90a", done.stderr)

    @pytest.mark.parametrize(
        ("profiler", "fact"),
        [
            (ROCPROF, ""),
            ("exit 9\n", "rocprofv3: it ended with 9; read log.txt"),
            ("exit 0\n", "rocprofv3: it left no counter_collection.csv"),
            (None, r"hip: .*/rocprofv3 is not here; install rocprofiler-sdk"),
        ],
    )
    def test_counters_are_those_of_passes_of_their_own(
        self, gpu: Path, good: Path, tmp_path: Path, profiler: str | None, fact: str
    ):
        """With stand-ins for the driver, its library and the profiler."""
        root = tmp_path / "b"
        shutil.copytree(gpu.parent, root)
        script = root / "hip/run.sh"
        script.write_text(script.read_text().replace("/dev/kfd", "/dev/null"))
        program = tmp_path / "rocprofv3"
        if profiler is not None:
            program.write_text("#!/bin/sh\n" + profiler)
            program.chmod(0o755)
        done = subprocess.run(
            ["sh", script], capture_output=True, text=True, check=False,
            env={"LD_LIBRARY_PATH": str(good), "SIMGEN_COUNTERS": "yes", "PATH": os.environ["PATH"],
                 "SIMGEN_ROCPROF": str(program)},
        )  # fmt: skip
        if fact:
            assert done.returncode == (3 if profiler is None else 5)
            assert re.search(fact, done.stderr)
            assert not (root / "results/hip").exists()
            return
        assert done.returncode == 0, done.stderr
        folder = root / "results/hip"
        found = Hip().reader.metrics(folder, workload())
        assert [each["wavefronts"] for each in found] == [7.0] * len(workload().launches)
        assert all(each["seconds"] > 0 for each in found)
        check_outputs(folder / "outputs.bin", root / "data.h5")
        assert not list(folder.glob("counted*"))

    def test_counters_of_other_gpus_are_refused(self, tmp_path: Path, builder: Builder):
        script = write(tmp_path / "b", Hip(arch="gfx1100"), builder) / "run.sh"
        script.write_text(script.read_text().replace("/dev/kfd", "/dev/null"))
        done = subprocess.run(
            ["sh", script], capture_output=True, text=True, check=False,
            env={"SIMGEN_COUNTERS": "yes", "PATH": os.environ["PATH"]},
        )  # fmt: skip
        assert done.returncode == 4
        assert "counters are known of gfx90a and gfx942, and this is for gfx1100" in done.stderr

    def test_an_unknown_gpu_is_refused(self):
        with pytest.raises(UsageError, match="--arch 'gfx90aa': unknown; did you mean 'gfx90a'"):
            Hip(arch="gfx90aa")

    def test_the_programs_error_is_the_diagnosis(self):
        log = "x\nsimgen: error: hipMalloc: hipErrorOutOfMemory (out of memory); cure\n"
        assert (
            Hip().watcher.diagnosis(log) == "hipMalloc: hipErrorOutOfMemory (out of memory); cure"
        )


class TestRocm:
    """With Debian's hipcc and libamdhip64."""

    @needs_hipcc
    @pytest.mark.parametrize("place", HipPlace)
    def test_its_compiler_takes_the_program(
        self, builder: Builder, place: HipPlace, tmp_path: Path
    ):
        made = Program(Model.gpu("gfx900"), place).build(job(workload()), builder)
        for name, file in made.items():
            if name.startswith("src/"):
                (tmp_path / Path(name).name).write_bytes(file.content)
        line = re.search(r"HIP_PLATFORM=amd hipcc (.*) \*/", (tmp_path / "hip.c").read_text())
        assert line
        flags = ("-Wall", "-Werror", "-Wno-unused-command-line-argument")
        run_hipcc(tmp_path, *line[1].split(), *flags)
        code, said = started(tmp_path / "program")
        # It is linked to the real library, and comes as far as its own checks do.
        assert (code, "simgen: error: " in said) == ({HipPlace.GUEST: 70}.get(place, 20), True)

    @needs_hipcc
    def test_its_headers_say_the_same(self, tmp_path: Path):
        api = render.text("simgen_rocm:hip_api.h")
        names = api[api.index("names[] = {") : api.index("void *library = 0;")]
        assert tuple(re.findall(r'"(\S+)"', names)) == LIBRARY_NAMES
        own = api[api.index("#else") : api.index("#endif")]
        numbers = re.findall(r"\b(hip\w+) = (\d+)", own)
        pointers = re.findall(r"#define (HIP_\w+) \(\(void \*\)(0x\d+)\)", own)
        assert (len(numbers), len(pointers)) == (8, 3)
        same = " && ".join(f"(long){name} == {value}" for name, value in numbers + pointers)
        (tmp_path / "hip_api.h").write_text(api)
        (tmp_path / "system.h").write_text(render.text("launchers/system.h"))
        check = f'#include "hip_api.h"\nint main(void) {{ return !({same}); }}\n'
        (tmp_path / "check.c").write_text(check)
        run_hipcc(tmp_path, "-D__HIP_PLATFORM_AMD__", "-x", "c", "check.c", "-o", "check")
        assert started(tmp_path / "check") == (0, "")

    @pytest.mark.skipif(Path("/dev/kfd").exists(), reason="this machine has an AMD GPU")
    def test_its_library_says_that_there_is_no_gpu(self, gpu: Path):
        if ctypes.util.find_library("amdhip64") is None:
            pytest.skip("there is no libamdhip64; apt-get install libamdhip64-5 (Debian 12)")
        code, said = started(gpu / "binary", "../data.h5", "o", "l", 0, 1)
        assert code == 30
        assert said.startswith("simgen: error: hipGetDeviceCount: hipErrorNoDevice (")
        assert "run it on a machine with an AMD GPU" in said


def run_hipcc(folder: Path, *arguments: str) -> None:
    environment = os.environ | {"HIP_PLATFORM": "amd"}
    done = subprocess.run(
        ["hipcc", *arguments], cwd=folder, env=environment, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
