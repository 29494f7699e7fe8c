"""Functions of Triton in MGPUSim: what the package made once, and by the package where it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import triton_text

import simgen
from simgen.errors import MissingError
from simgen.kernels import cache, triton
from simgen.targets.mgpusim.target import MGPUSim

if TYPE_CHECKING:
    from pathlib import Path

LACKS = MGPUSim().needs.missing()
pytestmark = pytest.mark.skipif(bool(LACKS), reason="; ".join(map(str, LACKS)))
TIMEOUT = 300.0
SOURCE = (triton_text.FOLDER / "softmax.ll").read_bytes()
LDS_NBYTES, ARGUMENTS = 16, 3  # that Triton's launcher gives it; the rest has no use
AS_ASSEMBLY = {
    '"softmax.py"': '"softmax.s"',
    "constexprs = { block = 1024 }\n": "",
    "num_warps = 4": "block = 256",
}


def right(file: Path, folder: Path) -> bool:
    bundle = simgen.plan(str(file)).build(folder, MGPUSim(arch=triton_text.ARCH))
    bundle.run(timeout=TIMEOUT)
    return bool(bundle.diff(strict=True))


def test_what_triton_made_is_right(tmp_path: Path) -> None:
    """From LLVM's language on, as `build` goes on where the package has ended."""
    kept = cache.Cache(tmp_path / "cache")
    text = triton.of_llvm(
        SOURCE, triton_text.ARCH, "softmax", LDS_NBYTES, ARGUMENTS, "softmax", kept
    )
    (tmp_path / "softmax.s").write_text(text)
    toml = (triton_text.FOLDER / "softmax.toml").read_text()
    for old, new in AS_ASSEMBLY.items():
        assert old in toml
        toml = toml.replace(old, new)
    (tmp_path / "softmax.toml").write_text(toml)
    assert right(tmp_path / "softmax.toml", tmp_path / "bundle")


def test_the_package_makes_what_is_right(tmp_path: Path) -> None:
    try:
        version = triton.version()
    except MissingError as error:
        pytest.skip(str(error))
    if version == triton_text.MADE_BY:
        assert triton_text.made(tmp_path / "cache") == (SOURCE, LDS_NBYTES)
    assert right(triton_text.FOLDER / "softmax.toml", tmp_path / "bundle")
