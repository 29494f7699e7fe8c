"""Every file of templates/kernels/ is C++ that compiles as it lies there, with sample constants.

So do the headers, each by itself: editors and readers need no renderer.
"""

from __future__ import annotations

import subprocess

import pytest

from simgen.ground import resources
from simgen.isa import toolchain

TEMPLATES = resources.folder("templates")
KERNELS = TEMPLATES / "kernels"
DEVICE = (KERNELS / "compile_flags.txt").read_text().split()
HOST = ["-xc++", "-std=c++20", "-I../prelude"]
MORE = ["-fsyntax-only", "-Wall", "-Wno-unused-function", "-Wno-unused-const-variable", "-Werror"]
FILES = sorted(p.name for kind in ("*.hip", "*.h") for p in KERNELS.glob(kind))


@pytest.mark.parametrize("flags", [DEVICE, HOST], ids=["gpu", "host"])
def test_each_file_compiles_by_itself(flags: list[str]) -> None:
    assert FILES
    more = [*MORE, "-Wno-pragma-once-outside-header"]
    done = subprocess.run(
        [str(toolchain.zig()), "clang", *flags, *more, *FILES],
        cwd=KERNELS,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_samples_hold_no_more_than_is_included() -> None:
    texts = [(KERNELS / name).read_text() for name in FILES]
    for sample in (KERNELS / "constants").iterdir():
        assert any(f'#include "constants/{sample.name}"\n' in text for text in texts), sample.name


def test_no_line_is_longer_than_100_columns() -> None:
    """`clang-format --lines=N:N` breaks one (templates/.clang-format)."""
    kinds = ("*.hip", "*.h", "*.c", "*.cpp")
    files = [
        path for kind in kinds for path in TEMPLATES.rglob(kind) if path.parent.name != "sample"
    ]
    long = [
        f"{path.relative_to(TEMPLATES)}:{number}"
        for path in files
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if len(line) > 100
    ]
    assert long == []
