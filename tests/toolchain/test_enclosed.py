"""A source reads what its description's folder has, and nothing else of the user's machine."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from simgen.cli.main import cli
from simgen.errors import SimgenError, UsageError
from simgen.isa import toolchain

TOML = """
source = "k.hip"
inputs = { x = "f32[64]" }
outputs = { y = "f32[64]" }
args = ["x", "y"]
items = 64
block = 64
reference = { y = "x" }
"""
SECRET = "4711081547110815"
KERNEL = """
__global__ void k(const float* x, float* y)
{
    BODY
    y[threadIdx.x] = x[threadIdx.x];
}
"""
READS = {
    "absolute": '#include "/ABOVE/secret.h"',
    "above": '#include "../secret.h"',
    "link": '#include "link.h"',
    "macro": '#define NAME "/ABOVE/secret.h"\n#include NAME',
    "embed": 'const char all[] = {\n#embed "/ABOVE/secret.h"\n};',
    "asks": '#if __has_include("/ABOVE/secret.h")\n#error it is seen\n#endif',
    "data": r'asm volatile(".incbin \"/ABOVE/secret.h\"");',
    "text": r'asm volatile(".INCLUDE \"/ABOVE/secret.h\"");',
}


@pytest.fixture(name="folder")
def folder_below_a_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "secret.h").write_text(f"// {SECRET}\n")
    (tmp_path / "mine").mkdir()
    monkeypatch.chdir(tmp_path / "mine")
    Path("k.toml").write_text(TOML)
    return tmp_path


@pytest.mark.parametrize("target", ["host", "mgpusim", "gem5-se"])
@pytest.mark.parametrize("how", READS)
def test_a_source_reads_no_other_file(folder: Path, how: str, target: str) -> None:
    if how == "link":
        Path("link.h").symlink_to("../secret.h")
    body = READS[how].replace("/ABOVE", str(folder))
    Path("k.hip").write_text(KERNEL.replace("BODY", body))
    done = CliRunner().invoke(cli, ["build", "k.toml", "--target", target, "-o", "b"])
    if how == "asks":
        assert done.exit_code == 0, done.exception
    else:
        assert isinstance(done.exception, SimgenError)
        assert done.exception.exit_code in (2, 4)
        assert "\n" not in str(done.exception)
        assert not Path("b").exists()
    found = (path for path in Path().rglob("*") if path.is_file() and not path.is_symlink())
    assert not any(SECRET.encode() in path.read_bytes() for path in found)


@pytest.mark.parametrize(
    "text",
    [
        '.incbin "x"',
        'a: .Include "x"',
        '.macro r d\n\\d "x"\n.endm\nr .incbin',
        '.macro r d\n.inc\\d "x"\n.endm\nr bin',
        '.macro r d, e\n\\d\\()\\e "x"\n.endm\nr .in, cbin',
        '.irp d, bin\n  .i\\()nc\\d "x"\n.endr',
        '.macro r d\n.\\d "x"\n.endm\nr incbin',
    ],
)
def test_assembly_that_may_read_a_file_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"^k.s: line \d+ of its assembly may read another file"):
        toolchain.assemble_foreign(f"s_nop 0\n{text}\n", "gfx942", "k.s")


@pytest.mark.parametrize(
    "text",
    [
        ".macro two op, a\n\\op \\a, 1\n\\op \\a, 2\n.endm\ntwo s_mov_b32, s0",
        ".macro wait n\n.Lloop_\\@:\ns_nop \\n\n.endm\nwait 1",
        ".if 1\ns_nop 0\n.endif\n.irp n, 1, 2\ns_nop \\n\n.endr",
        "f:\ns_nop 0\n.size f, .-f\n.set here, . - f",
    ],
)
def test_other_macros_are_assembled(text: str) -> None:
    assert toolchain.assemble_foreign(f"{text}\n", "gfx942", "k.s")[:4] == b"\x7fELF"
