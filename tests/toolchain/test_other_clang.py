"""SIMGEN_CLANG: a clang of a distribution in place of the package's."""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING

import pytest
from loaded import program

from simgen.isa import code_object, toolchain
from simgen.kernels import render

if TYPE_CHECKING:
    from pathlib import Path

CURE = "name a clang of LLVM 22 or newer, or unset it to use the package ziglang"
KERNEL = """#include "prelude.h"
extern "C" __global__ void twice(float *x) { x[threadIdx.x] *= 2; }
"""
TARGETS = "  Registered Targets:\n    amdgcn - AMD GCN GPUs\n    x86-64 - 64-bit X86\n"


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def says(version: str, targets: str = TARGETS) -> str:
    return f"""case $1 in
--version) echo '{version}';;
*) printf '{targets}';;
esac"""


def simgen(clang: object, *words: str, cache: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "SIMGEN_CLANG": str(clang), "SIMGEN_CACHE_DIR": str(cache)}
    command = [program(), *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)


def build(clang: object, out: Path) -> subprocess.CompletedProcess[str]:
    words = ("build", "softmax_fwd", "--set", "n=4", "-t", "gem5-se,host", "-o", str(out), "--json")
    return simgen(clang, *words, cache=out.parent / "cache")


@pytest.fixture(name="clang")
def _clang(tmp_path: Path) -> Path:
    """The package's own program under another name."""
    script(tmp_path / "bin/ld.lld-22", f'exec {toolchain.zig()} ld.lld "$@"')
    return script(tmp_path / "bin/clang-22", f'exec {toolchain.zig()} clang "$@"')


def test_another_clang_is_in_the_key_and_in_the_bundle(tmp_path: Path, clang: Path) -> None:
    built = [build(other, tmp_path / name) for other, name in (("", "a"), (clang, "b"))]
    assert [(each.returncode, each.stderr) for each in built] == [(0, ""), (0, "")]
    assert json.loads(built[1].stdout)["compiled"].keys() == {"built"}
    version = subprocess.check_output([clang, "--version"], text=True).split("\n")[0]
    assert json.loads((tmp_path / "b/manifest.json").read_text())["compiler"] == version
    again = json.loads(build(clang, tmp_path / "again").stdout)["compiled"]
    assert again.keys() == {"from the cache"}
    doctor = json.loads(simgen(clang, "doctor", "--json", cache=tmp_path / "cache").stdout)
    (found,) = [each for each in doctor["checks"] if each["what"] == "compiler"]
    assert found["ok"]
    assert found["fact"].startswith(version)


def test_another_clang_makes_the_same_instructions(
    clang: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = render.self_contained(KERNEL)
    made = []
    for name in ("", str(clang)):
        monkeypatch.setenv(toolchain.OTHER, name)
        made.append(toolchain.compile_device(source, "gfx902"))
    assert made[0] != made[1]  # clang names a module after its command line
    first, second = (code_object.instructions(elf, "twice") for elf in made)
    assert first == second


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        (says("Debian clang version 15.0.7"), "is clang 15, and kernels need 22"),
        (says("clang version 23.0.0", "  x86-64 - 64-bit X86\n"), "was built without AMD GPUs"),
        (says("gcc (Debian) 12.2"), "does not say which clang it is"),
        ("exit 1", "cannot be started"),
        (None, "cannot be started"),
    ],
)
def test_what_will_not_do_is_refused_in_one_line(
    tmp_path: Path, text: str | None, fact: str
) -> None:
    clang = script(tmp_path / "clang", text) if text else tmp_path / "nowhere"
    done = build(clang, tmp_path / "made")
    assert done.returncode == 3
    assert done.stderr.startswith(f"simgen: error: SIMGEN_CLANG {clang}: {fact}")
    assert done.stderr.endswith(f"; {CURE}\n")
    assert not (tmp_path / "made").exists()


def test_a_clang_without_a_linker_is_refused(tmp_path: Path) -> None:
    clang = script(tmp_path / "clang", says("clang version 22.1.0"))
    done = build(clang, tmp_path / "made")
    cure = "no ld.lld lies beside it; install LLD 22 there"
    assert (done.returncode, done.stderr) == (3, f"simgen: error: SIMGEN_CLANG {clang}: {cure}\n")
