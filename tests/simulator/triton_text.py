"""What Triton makes of tests/data/triton/softmax.py, in LLVM's language.

`python tests/simulator/triton_text.py` writes softmax.ll; that takes the package triton, of version
MADE_BY. Tests compile and run that text where the package is not.
"""

from __future__ import annotations

import base64
from pathlib import Path

import simgen
from simgen.kernels import cache, triton

FOLDER = Path(__file__).resolve().parents[1] / "data" / "triton"
MADE_BY = "3.4.0"
ARCH = "gfx942"


def made(folder: Path) -> tuple[bytes, int]:
    """(text, bytes of LDS), by the package that is here; `folder` is for its cache."""
    (kernel,) = simgen.plan(str(FOLDER / "softmax.toml")).workload.kernels
    assert kernel.source is not None
    reply = triton._compiled(
        kernel.source, "hip", ARCH, triton.LANES, "llir", "softmax", cache.Cache(folder),
        matrix=False,
    )  # fmt: skip
    return base64.b64decode(reply["content"]), reply["lds_nbytes"]


if __name__ == "__main__":
    import tempfile

    if triton.version() != MADE_BY:
        raise SystemExit(f"triton: version {triton.version()} is here; install {MADE_BY}")
    with tempfile.TemporaryDirectory() as name:
        text, lds_nbytes = made(Path(name))
    (FOLDER / "softmax.ll").write_bytes(text)
    print(f"softmax.ll; {lds_nbytes} bytes of LDS")
