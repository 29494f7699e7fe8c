"""What the builder asks of the compiler, and how it tells how far it is."""

from __future__ import annotations

import pytest

from simgen.isa import toolchain
from simgen.isa.legalise import Model
from simgen.kernels.build import Builder
from simgen.kernels.cache import Cache
from simgen.kernels.stages import CODE_OBJECT, Stage, amdgcn

KERNEL = '#include "prelude.h"\n\nextern "C" __global__ void {}(float *y)\n{{\n}}\n'


@pytest.fixture(name="compiled")
def compiler(monkeypatch):
    """Entry points of all that was compiled, in no order."""
    seen = []

    def assembly(source, arch, flags=None):
        name = source.rpartition("void ")[2].partition("(")[0]
        seen.append((name, arch))
        return f"\t.amdhsa_kernel {name}\n"

    monkeypatch.setattr(toolchain, "assembly", assembly)
    monkeypatch.setattr(toolchain, "assemble", lambda text, arch: text.encode())
    return seen


def test_kernels_are_compiled_once_and_come_in_their_order(tmp_path, compiled):
    names = [f"k{n}" for n in range(20)]
    sources = {name: KERNEL.format(name) for name in names}
    stages = amdgcn(Model.gpu("gfx902"))
    told: list[tuple[int, int]] = []
    cache = Cache(tmp_path)
    for _ in range(2):
        made = Builder(cache, lambda *step: told.append(step)).products(stages, sources)
        assert list(made) == names
        assert [each[CODE_OBJECT].split()[-1].decode() for each in made.values()] == names
    assert sorted(compiled) == sorted((name, "gfx902") for name in names)
    assert told == [(done, 20) for done in range(1, 21)] * 2
    assert {lookup.label for lookup in cache.lookups} == {
        f"{what} gfx902 {name}" for what in ("assembly", "code object") for name in names
    }


def test_a_kernel_that_the_target_refuses_is_not_linked(tmp_path, compiled):
    def refuse(text, cache):
        raise ValueError(text.split()[-1])

    compile_, _, *rest = amdgcn(Model.gpu("gfx902"))
    stages = (compile_, Stage("refused", refuse), *rest)
    with pytest.raises(ValueError, match="k0"):
        Builder(Cache(tmp_path)).products(stages, {"k0": KERNEL.format("k0")})
    assert compiled == [("k0", "gfx902")]
