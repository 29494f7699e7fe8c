"""What bisect refuses before it runs anything."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import simgen
from simgen.bundle import writing as bundles
from simgen.errors import RefusedError, SimgenError, UsageError
from simgen.isa import code_object
from simgen.kernels import cache, render
from simgen.kernels.build import Builder
from simgen.targets.gem5.se import Gem5Se
from simgen.targets.host import Host
from simgen.targets.mgpusim import legalised
from simgen.targets.mgpusim.target import MGPUSim
from simgen_examine.bisect import instrumented, opening
from simgen_examine.bisect.instrumented import END, Launched, Moment

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bisect") / "bundle"
    plan = simgen.plan("softmax_fwd", set={"n": 3, "c": 70})
    plan.build(path, [Host(), MGPUSim(arch="gfx942"), Gem5Se(arch="gfx902")])
    return path


@pytest.mark.parametrize(
    ("a", "b", "code", "kind", "told"),
    [
        ("mgpusim", "mgpusm", "", UsageError, "did you mean 'mgpusim'"),
        ("mgpusim", "mgpusim", "", UsageError, "name two targets"),
        ("mgpusim:timng", "mgpusim", "", UsageError, "did you mean 'timing'"),
        ("gem5-se:timing", "mgpusim", "", UsageError, "gem5-se has none"),
        ("mgpusim", "gem5-se", "", UsageError, "gfx942 and gem5-se for gfx902"),
        ("mgpusim", "mgpusim:emu", "gem5", UsageError, "--code gem5"),
        ("mgpusim", "host", "", RefusedError, "simgen diff"),
    ],
)
def test_what_is_refused(
    bundle: Path, tmp_path: Path, a: str, b: str, code: str, kind: type[SimgenError], told: str
) -> None:
    with pytest.raises(kind, match=told):
        opening.search(bundles.load(bundle), a, b, tmp_path, code=code)


@pytest.mark.parametrize("target", [MGPUSim(arch="gfx803"), MGPUSim(), Gem5Se(), Gem5Se("gfx90a")])
def test_kernels_that_store_registers_assemble(target: MGPUSim | Gem5Se) -> None:
    plan = simgen.plan("softmax_fwd", set={"n": 3, "c": 70}).plan.for_targets([target])
    workload, model = plan.workload, target.model
    assert model is not None
    sources = render.kernels(workload)
    made = legalised.build(workload, sources, Builder(cache.default()), target.name, model)
    for name, elf in made.objects.items():
        blocks = instrumented.blocks(elf, name, model.arch)
        assert sum(map(len, map(blocks.of, range(len(blocks.starts))))) == len(blocks.items)
        launched = Launched((3, 1, 1), (256, 1, 1), 0, 4096)
        for moment in (Moment(END), Moment(2, 1, 4), Moment(3, 0, 1, len(blocks.starts) - 1)):
            code = instrumented.storing(elf, blocks, launched, moment)
            (info,) = code_object.kernels(code).values()
            assert info.vgprs >= blocks.vgprs + instrumented.OWN_VECTORS
