"""What every target puts into a bundle: the contract of packages, for all of them."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from swaps import job, workload

from simgen.isa.legalise import Model
from simgen.kernels import stages
from simgen.kernels.stages import ASSEMBLY, CODE_OBJECT, LEGALISED, SOURCE
from simgen.targets import TARGETS
from simgen.targets.gem5.se import Gem5Se

if TYPE_CHECKING:
    from simgen.kernels.build import Builder
    from simgen.targets import Target

ROOT = Path(__file__).resolve().parents[2]
ALL = [*(kind() for kind in TARGETS.values()), Gem5Se(launcher="hip")]


@pytest.mark.parametrize("target", ALL, ids=[*TARGETS, "gem5-se-hip"])
def test_a_package_is_a_script_and_files_and_the_same_again(
    target: Target, builder: Builder, tmp_path: Path
) -> None:
    made = target.package.folder(job(workload()), builder)
    assert made == target.package.folder(job(workload()), builder)
    script = made["run.sh"]
    assert script.executable
    (tmp_path / "run.sh").write_bytes(script.content)
    subprocess.run(["sh", "-n", tmp_path / "run.sh"], check=True)
    for name, file in made.items():
        assert not name.startswith(("/", "..")), name
        for place in (ROOT, tmp_path.parent):  # no path of this machine
            assert str(place).encode() not in file.content, name


def test_the_stages_of_a_kernel_go_from_text_to_code(builder: Builder) -> None:
    """In the order in which `simgen list targets --json` names them."""
    made = stages.amdgcn(Model("mgpusim", "4.2.0", "gfx942"))
    products = builder.products(made, job(workload()).kernel_sources)
    for each in products.values():
        assert tuple(each) == stages.names(made)
        assert "__global__" in each[SOURCE]
        assert ".amdhsa_kernel" in each[ASSEMBLY]
        assert ".amdhsa_kernel" in each[LEGALISED].text
        assert each[CODE_OBJECT][:4] == b"\x7fELF"
