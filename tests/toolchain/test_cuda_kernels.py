"""How the launcher of NVIDIA's GPUs compiles kernels: side by side, and once. CuPy is not here;
NVIDIA's compiler is."""

from __future__ import annotations

import ctypes
import subprocess
import sys
import threading
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import nvrtc
import pytest

from simgen.ground import resources

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(nvrtc.library() is None, reason=f"{nvrtc.WHEEL} is not installed")
LAUNCHER = resources.folder("templates") / "launchers" / "cuda_run.py"
SOURCE = 'extern "C" __global__ void k(float* x) { x[threadIdx.x] += 1; }'


class RefusedError(Exception):
    """As CuPy's exceptions of a compiler."""


class Nvrtc:
    """The part of cupy.cuda.nvrtc that the launcher uses, by the library itself."""

    NVRTCError = RefusedError
    compilations = 0

    def __init__(self) -> None:
        found = nvrtc.library()
        assert found
        self.library = found

    def createProgram(self, source: str, name: str, *_: object) -> ctypes.c_void_p:
        made = ctypes.c_void_p()
        given = source.encode(), name.encode(), 0, None, None
        self.library.nvrtcCreateProgram(ctypes.byref(made), *given)
        return made

    def compileProgram(self, program: ctypes.c_void_p, options: Any) -> None:
        self.compilations += 1
        words = [each.encode() for each in options]
        given = (ctypes.c_char_p * len(words))(*words)
        if self.library.nvrtcCompileProgram(program, len(words), given):
            raise RefusedError

    def _get(self, what: str, program: ctypes.c_void_p) -> bytes:
        size = ctypes.c_size_t()
        getattr(self.library, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
        text = ctypes.create_string_buffer(size.value)
        getattr(self.library, f"nvrtcGet{what}")(program, text)
        return text.raw

    def getPTX(self, program: ctypes.c_void_p) -> bytes:
        return self._get("PTX", program)

    def getCUBIN(self, program: ctypes.c_void_p) -> bytes:
        return self._get("CUBIN", program)

    def getProgramLog(self, program: ctypes.c_void_p) -> str:
        return self._get("ProgramLog", program).decode()

    def destroyProgram(self, program: ctypes.c_void_p) -> None:
        self.library.nvrtcDestroyProgram(ctypes.byref(program))


@pytest.fixture(name="run")
def launcher_without_cupy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    fakes: dict[str, Any] = {name: ModuleType(name) for name in ("cupy", "cupy.cuda")}
    fakes["cupy"].cuda = fakes["cupy.cuda"]
    fakes["cupy"].RawKernel = fakes["cupy"].ndarray = object
    fakes["cupy.cuda"].nvrtc = Nvrtc()
    fakes["cupy.cuda"].compiler = SimpleNamespace(CompileException=RefusedError)
    fakes["cupy.cuda"].Device = lambda: SimpleNamespace(compute_capability="90", use=lambda: None)
    for name, module in fakes.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setenv("CUPY_CACHE_DIR", str(tmp_path / "kernels"))
    made = ModuleType("cuda_run")
    made.__file__ = str(tmp_path / "b/cuda/run.py")
    exec(compile(LAUNCHER.read_text(), LAUNCHER, "exec"), made.__dict__)
    return made


def test_the_same_kernel_is_compiled_once_and_read_after_that(run: Any, tmp_path: Path) -> None:
    made = run.kept(SOURCE, "k", "sm_90")
    assert made[:4] == b"\x7fELF"
    count = run.nvrtc.compilations  # one of them tells the version
    assert run.kept(SOURCE, "k", "sm_90") == made
    assert run.nvrtc.compilations == count
    (file,) = (tmp_path / "kernels").iterdir()
    for content in (b"", file.read_bytes()[:-1]):  # killed, or a disk that was full
        file.write_bytes(content)
        assert run.kept(SOURCE, "k", "sm_90")[:4] == b"\x7fELF"
    assert run.nvrtc.compilations == count + 2
    assert b"k(float" not in run.kept(SOURCE, "k", "compute_90")
    others = {SOURCE: "sm_89", f"{SOURCE} ": "sm_90"}
    assert all(run.kept(source, "k", code) for source, code in others.items())
    assert run.nvrtc.compilations == count + 5
    assert len(list((tmp_path / "kernels").iterdir())) == 4


def test_a_folder_that_cannot_be_written_is_no_error(run: Any, tmp_path: Path) -> None:
    (tmp_path / "kernels").write_text("a file")
    assert run.kept(SOURCE, "k", "sm_90")[:4] == b"\x7fELF"


def kernels(tmp_path: Path, sources: dict[str, str]) -> dict[str, Any]:
    """A workload of kernels that have to be compiled to machine code here."""
    (tmp_path / "b/src").mkdir(parents=True)
    (tmp_path / "b/src/prelude.h").write_text("")
    for name, source in sources.items():
        (tmp_path / f"b/src/{name}.hip").write_text(source)
    return {"kernels": [{"name": name, "maps": [1], "lds_nbytes": 0} for name in sources]}


def test_kernels_are_compiled_side_by_side(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = kernels(tmp_path, {f"k{at}": SOURCE.replace("k(", f"k{at}(") for at in range(8)})
    inside, together = threading.Barrier(4, timeout=60), run.nvrtc.compileProgram

    def compiled(program: Any, options: Any) -> None:
        inside.wait()  # four at once, or the test fails
        together(program, options)

    run.compiler()
    monkeypatch.setattr(run.nvrtc, "compileProgram", compiled)
    monkeypatch.setattr(run.os, "sched_getaffinity", lambda _: set(range(4)))
    loaded: list[bytes] = []

    class Module:
        def __init__(self, path: str) -> None:
            with open(path, "rb") as file:
                loaded.append(file.read())

        def get_function(self, name: str) -> str:
            return name

    monkeypatch.setattr(run.cupy, "RawModule", Module, raising=False)
    found = run.functions_of(work)
    assert list(found.items()) == [(f"k{at}", f"k{at}") for at in range(8)]
    assert all(any(f"k{at}".encode() in each for each in loaded) for at in range(8))


def test_kernels_that_are_refused_are_one_line(
    run: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise RefusedError("a.cu(1): error: no such thing")

    monkeypatch.setattr(run, "compiled", refused)
    monkeypatch.setattr(run, "compiler", lambda: "")
    with pytest.raises(SystemExit) as ended:
        run.functions_of(kernels(tmp_path, {f"k{at}": SOURCE for at in range(8)}))
    assert ended.value.code == 5
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("simgen: error: src/k")
    assert "NVRTC refuses it (a.cu(1): error: no such thing)" in line


def test_without_cupy_one_line_says_what_helps() -> None:
    words = [sys.executable, "-I", "-c", f"__file__ = ''; import sys; sys.modules['cupy'] = None\n"
             f"exec(open({str(LAUNCHER)!r}).read())"]  # fmt: skip
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == (
        f"simgen: error: cuda: {sys.executable} has no CuPy and NumPy; install them (python -m pip "
        "install cupy-cuda13x), or set SIMGEN_PYTHON to a Python that has them\n"
    )
