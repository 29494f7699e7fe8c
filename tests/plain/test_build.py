"""What the builder asks of the compiler, and how it tells how far it is."""

from __future__ import annotations

import pytest

from simgen.compile import toolchain
from simgen.compile.build import Builder
from simgen.compile.cache import Cache

KERNEL = '#include "prelude.h"\n\nextern "C" __global__ void {}(float *y)\n{{\n}}\n'


@pytest.fixture(name="compiled")
def compiler(monkeypatch):
    """Entry points of all that was compiled, in no order."""
    seen = []

    def assembly(source, arch):
        name = source.rpartition("void ")[2].partition("(")[0]
        seen.append((name, arch))
        return f"\t.amdhsa_kernel {name}\n"

    monkeypatch.setattr(toolchain, "assembly", assembly)
    monkeypatch.setattr(toolchain, "assemble", lambda text, arch: text.encode())
    return seen


def test_kernels_are_compiled_once_and_come_in_their_order(tmp_path, compiled):
    names = [f"k{n}" for n in range(20)]
    sources = [KERNEL.format(name) for name in names]
    told: list[tuple[int, int]] = []
    cache = Cache(tmp_path)
    for _ in range(2):
        made = Builder(cache, lambda *step: told.append(step)).code_objects(sources, "gfx902")
        assert [elf.split()[-1].decode() for elf in made] == names
    assert sorted(compiled) == sorted((name, "gfx902") for name in names)
    assert told == [(done, 20) for done in range(1, 21)] * 2
    assert {lookup.label for lookup in cache.lookups} == {
        f"{what} gfx902 {name}" for what in ("assembly", "code object") for name in names
    }


def test_a_kernel_that_the_target_refuses_is_not_linked(tmp_path, compiled):
    def refuse(text):
        raise ValueError(text.split()[-1])

    with pytest.raises(ValueError, match="k0"):
        Builder(Cache(tmp_path)).code_objects([KERNEL.format("k0")], "gfx902", refuse)
    assert compiled == [("k0", "gfx902")]
