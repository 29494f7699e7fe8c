"""gem5's own full-system scripts with the command lines of run.sh: they take the options, build the
system, and get as far as the kernel of Linux, which is none here."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest
from swaps import write

from simgen.kernels.build import Builder
from simgen.kernels.cache import Cache
from simgen_rocm import gem5_fs
from simgen_rocm.gem5_fs import Gem5Fs

if TYPE_CHECKING:
    from pathlib import Path

LACKS = gem5_fs.Gem5WithDisk(Gem5Fs().model)._gem5()  # no KVM and no disk image are needed here
pytestmark = [
    pytest.mark.gem5,
    pytest.mark.skipif(
        bool(gem5_fs.Gem5WithDisk(Gem5Fs().model)._gem5()),
        reason="GEM5 is not set to a gem5 with VEGA_X86",
    ),
]


@pytest.mark.parametrize("arch", gem5_fs.GPUS)
def test_the_script_goes_on_to_the_kernel(
    tmp_path: Path, arch: str, monkeypatch: pytest.MonkeyPatch
):
    target = Gem5Fs(arch=arch, gem5_version="develop")
    folder = write(tmp_path, target, Builder(Cache(tmp_path / "cache")))
    for variable in gem5_fs.FILES:
        (tmp_path / variable).touch()
        monkeypatch.setenv(variable, str(tmp_path / variable))
    # KVM comes after the kernel: this much of it runs without.
    (tmp_path / "kvm").touch()
    monkeypatch.setenv("KVM", str(tmp_path / "kvm"))
    script = (folder / "run.sh").read_text().replace("/dev/kvm", '"$KVM"')
    (folder / "run.sh").write_text(script)
    done = subprocess.run(["sh", folder / "run.sh"], capture_output=True, text=True, check=False)
    assert done.returncode == 5
    log = (tmp_path / "results/failed-gem5-fs/log.txt").read_text()
    assert "unrecognized arguments" not in log
    assert (target.watcher.diagnosis(log) or "").startswith(
        "GEM5_KERNEL is not a Linux kernel for x86-64"
    )
