"""The launchers are C and C++ that compile as they lie there, in each form that `plan.h` asks for.

`python tests/toolchain/test_launchers.py` writes the sample of the headers that are generated.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from swaps import job, workload

from simgen.ground import resources
from simgen.isa import toolchain
from simgen.targets import plan
from simgen.targets.host import HostPackage

LAUNCHERS = resources.folder("templates") / "launchers"
SAMPLE = LAUNCHERS / "sample"
ROCM = Path(resources.__file__).parents[2] / "simgen_rocm" / "templates"
FLAGS = [
    *(LAUNCHERS / "compile_flags.txt").read_text().split(),
    "-fsyntax-only",
    "-Wall",
    "-Wundef",
]
MORE = ["-Wno-unused-function", "-Wno-unused-const-variable", "-Wno-unused-variable", "-Werror"]
C, CXX = "-std=gnu23", "-std=c++20"

# What each launcher asks for: macro -> the values that it may have; the first is the sample's.
FACTS: dict[str, tuple[object, ...]] = {
    "GPU_ID": (2765,),
    "DISCRETE": (0, 1),
    "DOORBELL_NBYTES": (4, 8),
    "RING_HALVES": (1, 2),
    "MARKS_STEPS": (0, 1),
    "DUMPS": (0, 1),
    "QUEUES": (1, 2),
    "KERNARG_NBYTES": ("64ul",),
    "PRIVATE_NBYTES": ("0ul", "4096ul"),
    "RELOCATED": (0, 1),
    "CONFIG": ('"SM7_QV100"',),
    "SM": (70,),
    "ARCH": ('"gfx902"',),
    "HOST_MEMORY": (0, 1),
    "TIMED": (0, 1),
    "GUEST": (0, 1),
    "APU": (0, 1),
    "SIMGEN_SANITIZE": (0, 1),
}
TURNS = """
static const struct turn { u32 queue, first, count; } turns[STEPS] = { { 0, 0, 0 } };
static const u32 before[1] = { 0 };
static const u32 relocated[1] = { 0 };
"""
FILES = {"gem5_se.c": LAUNCHERS, "gpgpusim.c": LAUNCHERS, "host.cpp": LAUNCHERS,
         "host_kernels.cpp": LAUNCHERS, "hip.c": ROCM}  # fmt: skip


def generated() -> dict[str, str]:
    """The headers of the sample, by name."""
    made = job(workload())
    facts = {name: values[0] for name, values in FACTS.items()}
    rows = [plan.row(kernel, kernel.name) for kernel in made.workload.kernels]
    texts = plan.sources(made, (), facts, rows) | {
        name: content
        for name, content in HostPackage(sanitize=False).sources(made).items()
        if name in ("kernels.h", "calls.h", "swap.hip")
    }
    return {name: texts[name].decode() for name in ("plan.h", "kernels.h", "calls.h", "swap.hip")}


@pytest.mark.parametrize("name", generated())
def test_the_sample_is_what_is_generated(name: str) -> None:
    assert (SAMPLE / name).read_text() == generated()[name]


def complaints(folder: Path, file: Path) -> str:
    language = CXX if file.suffix == ".cpp" else C
    command = [str(toolchain.zig()), "clang", language, f"-I{folder}", *FLAGS, *MORE, str(file)]
    return subprocess.run(command, cwd=LAUNCHERS, capture_output=True, text=True).stderr


@pytest.mark.parametrize("name", FILES)
def test_each_compiles_as_it_lies_there(name: str) -> None:
    assert complaints(SAMPLE, FILES[name] / name) == ""


@pytest.mark.parametrize("name", FILES)
def test_each_compiles_whatever_the_header_says(name: str, tmp_path: Path) -> None:
    text = (FILES[name] / name).read_text()
    for macro, values in FACTS.items():
        if re.search(rf"^#(?:el)?if .*\b{macro}\b", text, re.M):
            header = (SAMPLE / "plan.h").read_text()
            header = re.sub(rf"(#define {macro}) \S+", rf"\1 {values[-1]}", header)
            (tmp_path / "plan.h").write_text(header.replace("#endif\n", f"{TURNS}#endif\n"))
            assert complaints(tmp_path, FILES[name] / name) == "", macro


if __name__ == "__main__":
    for file, content in generated().items():
        (SAMPLE / file).write_text(content)
