"""What docs/reference/index.md says on trust: commands that read start no program and open no
connection, and a run tells of a bundle that this machine did not build.

The judges are Python's audit events and, where it is installed, strace.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fuzzing
import pytest
from handmade import build, run_by_hand, small

from simgen.ask.build import BuildChoices
from simgen.bundle import built_here, finding, folder, own_reference, results, writing
from simgen.bundle.planning import Plan
from simgen.errors import ConfigError, DamagedError, UsageError
from simgen.ground.ir import Buffer, Role, TensorSpec
from simgen.kernels import cache, triton
from simgen.targets.cuda import Cuda

ROOT = Path(__file__).resolve().parents[2]
AUDITED = """
import os, sys
HOME = os.getcwd()
STARTS = {"subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "os.forkpty",
          "pty.spawn", "socket.connect", "socket.bind", "socket.sendto", "socket.getaddrinfo"}
def told(event, given):
    inside = any(isinstance(each, str) and each.startswith(HOME) for each in given)
    if event in STARTS or (event in ("ctypes.dlopen", "import") and inside):
        os.write(2, f"audit: {event} {given}\\n".encode())
sys.addaudithook(told)
from simgen.cli.main import main
main()
"""
# What only reads: docs/reference/index.md has the same list.
READING = (
    "diff net", "diff net --json", "report net -o page", "show net", "status net",
    "export net --as csv -o all.csv", "export net --as chakra --result cuda -o traces",
    "export net --as latency --result cuda -o tables", "report net --score", "list layers",
    "list metrics", "lint code.co --simulator mgpusim", "report swept -o swept-page",
    "report store.sqlite3 -o stored", "cache list", "show net.dnnmark",
)  # fmt: skip


@pytest.fixture(name="elsewhere", scope="module")
def fixture_elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle with results, its sweep and store, and a code object, as somebody sends them."""
    home = fuzzing.template(tmp_path_factory.mktemp("stranger") / "home")
    blobs = (each.path / "blob" for each in cache.entries(cache.precomputed_root()))
    code = next(blob for blob in blobs if blob.read_bytes()[:4] == b"\x7fELF")
    shutil.copy(code, home / "code.co")
    return home


def reading(home: Path, words: str, *before: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "SIMGEN_CACHE_DIR": str(home / "cache")}
    return subprocess.run(
        [*before, sys.executable, "-c", AUDITED, *words.split()], cwd=home, env=environment,
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip


@pytest.mark.parametrize("words", READING)
def test_what_reads_starts_nothing(elsewhere: Path, words: str) -> None:
    done = reading(elsewhere, words)
    assert done.returncode in (0, 4, 6), done.stderr
    assert "audit: " not in done.stderr


def test_the_judge_sees_what_is_started(elsewhere: Path) -> None:
    done = reading(elsewhere, "run net --on host --replace")
    assert "audit: subprocess.Popen" in done.stderr
    assert "net: this machine did not build it; its run executes programs of it (host)" in (
        done.stderr
    )


@pytest.mark.skipif(not shutil.which("strace"), reason="needs strace")
@pytest.mark.parametrize("words", ["diff net", "report net -o seen", "status net"])
def test_the_system_sees_no_more(elsewhere: Path, words: str) -> None:
    log = elsewhere / "strace.log"
    calls = "execve,execveat,fork,vfork,clone,clone3,connect,bind,sendto"
    done = reading(elsewhere, words, "strace", "-f", "-qq", "-o", str(log), "-e", f"trace={calls}")
    if "ptrace" in done.stderr and not log.stat().st_size:
        pytest.skip("this machine lets nobody trace")
    assert done.returncode in (0, 6), done.stderr
    found = [line for line in log.read_text().splitlines() if re.search(r"\d+ +\w+\(", line)]
    others = [line for line in found if "CLONE_THREAD" not in line]
    assert [line for line in others if "exited" not in line][1:] == []
    assert "execve(" in others[0]  # of Python itself


def test_the_page_names_what_was_tried() -> None:
    page = (ROOT / "docs/reference/index.md").read_text()
    section = page.partition("### What only reads")[2].partition("\n### ")[0]
    for name in {words.split()[0] for words in READING}:
        assert f"`{name}`" in section


def test_a_run_says_once_that_a_bundle_is_from_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = build(tmp_path / "one" / "bundle", small(), Cuda())
    monkeypatch.setenv("SIMGEN_CACHE_DIR", str(tmp_path / "cache"))
    assert not built_here.is_known(made, "cuda")
    assert "did not build it" in built_here.warning(made, ["cuda"])
    assert built_here.warning(made, ["cuda"]) == ""
    moved = tmp_path / "moved"
    made.path.rename(moved)
    assert built_here.warning(folder.load(moved), ["cuda"]) == ""


def test_a_bundle_of_this_machine_is_known_where_it_is_moved_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SIMGEN_CACHE_DIR", str(tmp_path / "cache"))
    made, _ = Plan("softmax_fwd", BuildChoices(), [Cuda()]).write(tmp_path / "bundle", [Cuda()])
    made.path.rename(tmp_path / "moved")
    assert built_here.warning(folder.load(tmp_path / "moved"), ["cuda"]) == ""
    # Another program under the same name is another one.
    files = {**made.manifest["files"], "cuda/run.sh": "0" * 64}
    other = folder.Bundle(made.path, {**made.manifest, "files": files}, made.workload)
    assert built_here.warning(other, ["cuda"])


def test_a_python_reference_lies_beside_its_description(tmp_path: Path) -> None:
    (tmp_path / "other.py").write_text("raise SystemExit('it is executed')\n")
    (tmp_path / "sent").mkdir()
    (tmp_path / "sent/link.py").symlink_to("../other.py")
    source = str(tmp_path / "sent" / "kernel.toml")
    for name in ("../other.py", str(tmp_path / "other.py"), "link.py"):
        kernel: Any = SimpleNamespace(python=(name, "f"), source=source)
        with pytest.raises(ConfigError, match="outside of the folder of"):
            own_reference.values(kernel, small(), {})


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o755), (0o077, 0o700), (0o002, 0o775)])
def test_programs_are_as_private_as_the_user_has_it(tmp_path: Path, mask: int, mode: int) -> None:
    before = os.umask(mask)
    try:
        writing._write(tmp_path / "program", b"", True)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "program").stat().st_mode) == mode


def test_a_function_of_triton_gets_little_of_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What executes it prints its environment, in place of Triton's compiler."""
    monkeypatch.setenv("SECRET_TOKEN", "of the user")
    monkeypatch.setenv("TRITON_CACHE_DIR", "/elsewhere")
    program = "import os\nraise SystemExit(f'{sorted(os.environ)} {os.getcwd()}')\n"
    with pytest.raises(UsageError) as refused:
        triton._run(program, {}, "", "softmax.py")
    told = str(refused.value)
    assert "'HOME', 'LC_ALL'" in told
    assert "SECRET" not in told
    assert "TRITON" not in told


def test_a_function_of_triton_has_a_limit_of_memory() -> None:
    program = "bytearray(64 << 30)\n"
    with pytest.raises(UsageError, match=r"\(MemoryError\)"):
        triton._run(program, {}, "", "softmax.py")


def test_a_result_that_is_replaced_while_it_is_read_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = build(tmp_path / "b", small(), Cuda())
    home = run_by_hand(made)
    shutil.copytree(home, tmp_path / "new")
    read = results.collect

    def replaced(*given: Any, **more: Any) -> Any:
        """A run ends: what is being read goes."""
        monkeypatch.setattr(results, "collect", read)
        shutil.rmtree(home)
        (tmp_path / "new").rename(home)
        raise DamagedError("launches.csv: cannot be read")

    monkeypatch.setattr(results, "collect", replaced)
    assert finding.find_result(made, "cuda").outputs
    (home / "launches.csv").unlink()
    with pytest.raises(DamagedError, match=r"launches\.csv"):
        finding.find_result(made, "cuda")


@pytest.mark.parametrize(
    ("outputs", "found"),
    [("a", [1.0, 2.0]), ("a", ([1.0], [2.0])), ("ab", ([1.0, 2.0], [3.0, 4.0])),
     ("ab", {"b": [3.0, 4.0], "a": [1.0, 2.0]})],
)  # fmt: skip
def test_what_a_reference_may_return(outputs, found):
    """An array for each output, in order or by name; a tuple for one output is that array."""
    buffers = [Buffer(f"k.expected_{name}", TensorSpec((2,)), Role.INPUT, 0) for name in outputs]
    kernel = SimpleNamespace(definition=SimpleNamespace(
        outputs=[SimpleNamespace(name=name) for name in outputs]
    ))  # fmt: skip
    made = own_reference._expected("r.py", found, kernel, SimpleNamespace(inputs=buffers))
    values = {"k.expected_a": [1.0, 2.0], "k.expected_b": [3.0, 4.0]}
    assert {name: array.tolist() for name, array in made.items()} == {
        each.name: values[each.name] for each in buffers
    }
