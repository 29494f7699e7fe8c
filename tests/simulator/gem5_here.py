"""The gem5 that GEM5 names: its version, its build, and the GPUs that it simulates.

Targets without settings are for it, so that the tests of this folder run on any version.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from simgen.targets.gem5 import apu_se
from simgen.targets.gem5.se import Gem5Se

USUAL = "24.0"


def _found() -> tuple[str, str]:
    """Version and family."""
    root = os.environ.get("GEM5", "/nowhere")
    for program in sorted(Path(root).glob("build/*_X86/gem5.opt"), reverse=True):
        done = subprocess.run([program, "/nowhere.py"], capture_output=True, text=True, check=False)
        version = re.search(r"^gem5 version (\d+\.\d+)", done.stdout, re.MULTILINE)
        if version and version[1] in apu_se.VERSIONS:
            return version[1], program.parent.name
    return USUAL, apu_se.VEGA


VERSION, FAMILY = _found()
ARCHS = [
    arch for arch in apu_se.VERSIONS[VERSION].gpus if apu_se.GPUS[arch].build == FAMILY
]  # the first is the usual one
if (VERSION, FAMILY) != (USUAL, apu_se.VEGA):
    usual = {"24.0": VERSION, "gfx902": ARCHS[0]}
    init = Gem5Se.__init__
    init.__defaults__ = tuple(usual.get(each, each) for each in init.__defaults__)  # type: ignore[union-attr,arg-type]
