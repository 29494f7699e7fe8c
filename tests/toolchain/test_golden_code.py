"""Whether machine code stays what it was: digests of code objects of the built-in workloads.

Rewritten kernels should leave it as it is. More kernels and architectures than are tested here, for
those who rewrite them: `python tests/golden.py write`, before, and `compare`, after (golden.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import golden
import pytest

from simgen.isa import toolchain

if TYPE_CHECKING:
    from simgen.kernels.build import Builder

COMPILER, KEPT = golden.read(golden.CODE)


@pytest.mark.skipif(
    toolchain.identity() != COMPILER,
    reason=f"digests are of {COMPILER}, and this is {toolchain.identity()}",
)
@pytest.mark.parametrize("arch", golden.ARCHS)
def test_code_objects_are_those_that_were_accepted(arch: str, builder: Builder) -> None:
    """Was it meant? python tests/golden.py accept code"""
    kept = {name: digest for name, digest in KEPT.items() if name.startswith(f"{arch}/")}
    assert len(kept) > 20
    found = golden.differences(kept, golden.code_of_tests(arch, builder))
    assert not found, "python tests/golden.py accept code"
