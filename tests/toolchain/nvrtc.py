"""NVIDIA's runtime compiler of the wheel nvidia-cuda-nvrtc: it needs neither a GPU nor a driver."""

from __future__ import annotations

import ast
import ctypes
import re
from functools import cache
from importlib import metadata
from typing import TYPE_CHECKING

from simgen.ground import resources

if TYPE_CHECKING:
    from collections.abc import Sequence

WHEEL = "nvidia-cuda-nvrtc"
LAUNCHER = resources.folder("templates") / "launchers" / "cuda_run.py"
(_GIVEN,) = re.findall(r"^OPTIONS = (\(.*?\))", LAUNCHER.read_text(), re.M)
# Those of our launcher, and what CuPy adds for CUDA 12 and later (cupy/cuda/compiler.py).
OPTIONS = (*ast.literal_eval(_GIVEN), "--device-as-default-execution-space")


@cache
def library() -> ctypes.CDLL | None:
    """None where the wheel is not installed."""
    try:
        files = metadata.files(WHEEL) or []
    except metadata.PackageNotFoundError:
        return None
    found = [each for each in files if re.fullmatch(r"libnvrtc\.so\.\d+", each.name)]
    return ctypes.CDLL(str(found[0].locate())) if found else None


def refusal(source: str, arch: str, options: Sequence[str] = OPTIONS) -> str:
    """What it says of a source that it does not make machine code of; empty if it does."""
    nvrtc = library()
    assert nvrtc
    program, nbytes = ctypes.c_void_p(), ctypes.c_size_t()
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"k.cu", 0, None, None)
    words = [each.encode() for each in (*options, f"--gpu-architecture={arch}")]
    failed = nvrtc.nvrtcCompileProgram(program, len(words), (ctypes.c_char_p * len(words))(*words))
    nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(nbytes))
    log = ctypes.create_string_buffer(nbytes.value)
    nvrtc.nvrtcGetProgramLog(program, log)
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return (log.value.decode() or f"error {failed}") if failed else ""
