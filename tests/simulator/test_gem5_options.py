"""The table of options against the gem5 that is here: what its own help says."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import gem5_here
import pytest

import simgen
from simgen.errors import MissingError
from simgen.targets.gem5 import apu_se, script_options
from simgen.targets.gem5.needs import APU_SE
from simgen.targets.gem5.se import Gem5Se

GEM5 = Path(os.environ.get("GEM5", "/nowhere"))
PROGRAM = GEM5 / f"build/{gem5_here.FAMILY}/gem5.opt"
pytestmark = [
    pytest.mark.gem5,
    pytest.mark.skipif(not PROGRAM.exists(), reason="GEM5 has no gem5.opt"),
]


def listed(text: str) -> set[str]:
    """The options that a help begins lines with, and their other names."""
    lines = [line.strip() for line in text.splitlines() if line.lstrip().startswith("-")]
    return {
        each
        for line in lines
        for each in re.findall(r"(?:^|, )(--?[A-Za-z][\w-]*)", line.split("  ")[0])
    }


@pytest.mark.parametrize("group", [script_options.SCRIPT, script_options.OWN])
def test_the_table_has_the_options_of_its_help(tmp_path: Path, group: str) -> None:
    words = ["-d", str(tmp_path), str(GEM5 / APU_SE)] if group == script_options.SCRIPT else []
    done = subprocess.run([PROGRAM, *words, "--help"], capture_output=True, text=True, cwd=tmp_path)
    names = script_options.names(group, gem5_here.VERSION)
    # gem5's parser has --help by itself, and in 24.0 the short options of Python.
    without = {"-c", "-m", "-P", "-s", "-h", "--help"} if group == script_options.OWN else set()
    assert listed(done.stdout) - without == set(names) - without


def test_a_bundle_for_another_version_is_refused_before_the_run(place: Path) -> None:
    version, arch = gem5_here.VERSION, gem5_here.ARCHS[0]
    other = next(
        name for name, each in apu_se.VERSIONS.items() if arch in each.gpus and name != version
    )
    plan = simgen.plan("softmax_fwd", set={"n": 1, "c": 4})
    bundle = plan.build(place / "b", Gem5Se(arch=arch, gem5_version=other))
    with pytest.raises(MissingError, match=rf"is version {version}\..*, not {other}; set GEM5 to"):
        bundle.run("gem5-se")
    done = subprocess.run(["sh", bundle.path / "gem5-se/run.sh"], capture_output=True, text=True)
    assert done.returncode == 3
    assert f"the bundle is for {other}; " in done.stderr
    assert done.stderr.endswith(f"or build the bundle with --gem5-version {version}\n")
