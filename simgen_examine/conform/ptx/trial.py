"""A probe of PTX, as `simgen conform` asks for it."""

from __future__ import annotations

import functools
import re
import shlex
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from simgen.ask.checks import ConformChoices
from simgen.errors import UsageError
from simgen.ground.storage.files import scratch_folder
from simgen_examine.conform.ptx import description
from simgen_examine.conform.ptx.catalogue import catalogue
from simgen_examine.conform.ptx.machines import DriverMachine, gpgpu_sim, nearest
from simgen_examine.conform.ptx.running import PtxProbe, Runs

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from simgen_examine.conform.judging import Seen

CUDA, GPGPUSIM = "cuda", "gpgpusim"
ON = (CUDA, GPGPUSIM)
MODES = ("functional", "timing")  # GPGPU-Sim's modes
SECONDS = 10.0  # time limit of a kernel of 1024 threads; it takes some milliseconds
ARCH = "sm_70"  # architecture that GPGPU-Sim's texts are for


@dataclass
class PtxTrial:
    """What is tried, on what, and how."""

    on: str
    arch: str = ""  # empty: the GPU's
    mode: str = ""  # mode of GPGPU-Sim
    limit: float = 0.0  # seconds without progress; 0: as many as are usual
    only: str = ""  # a regular expression that texts of forms match
    tell: Callable[[str], None] = field(default=lambda _: None)
    seconds: float = 0.0  # seconds that the machine took

    def __post_init__(self) -> None:
        if self.arch:
            description.version(self.arch)

    @functools.cached_property
    def machine(self) -> Runs:
        """Where it runs."""
        return DriverMachine() if self.on == CUDA else gpgpu_sim(timing=self.mode == "timing")

    @functools.cached_property
    def _device(self) -> dict[str, str]:
        assert isinstance(self.machine, DriverMachine)
        return self.machine.device()

    @functools.cached_property
    def arch_name(self) -> str:
        """Architecture name of the texts."""
        if self.arch:
            return self.arch
        return nearest(self._device["arch"]) if self.on == CUDA else ARCH

    @property
    def title(self) -> str:
        """The machine, its version and mode."""
        if self.on == CUDA:
            return f"{self._device['name']}, driver of CUDA {self._device['cuda']}"
        return f"GPGPU-Sim, {self.mode or MODES[0]}"

    @property
    def lint_name(self) -> str:
        """The machine's name in tables."""
        return self.on

    @property
    def version_name(self) -> str:
        """Its version there."""
        return self._device["cuda"] if self.on == CUDA else "4.2"

    @property
    def command(self) -> str:
        """What a user types for the same."""
        asked = ConformChoices(on=self.on, arch=self.arch_name, mode=self.mode)
        return shlex.join(asked.command())

    def findings(self, folder: Path | None = None) -> list[Seen]:
        """Findings for every form that is tried, in a new folder in `folder` or the system's.

        Raises:
            UsageError: no form matches `only`.
            MissingError: the machine is not here.
            RunError: it fails without a form being to blame.
        """
        pattern = re.compile(self.only)
        chosen = [each for each in catalogue(self.arch_name) if pattern.search(each.text)]
        if not chosen:
            fact = f"{ConformChoices.only} {self.only}: no form of {self.arch_name} matches"
            raise UsageError(f"{fact}; leave it out")
        self.tell(f"{len(chosen)} forms of {self.arch_name}")
        limit = self.limit or (SECONDS if self.mode != "timing" else 12 * SECONDS)
        probe = PtxProbe(self.machine, self.arch_name, chosen, limit, self.tell)
        with scratch_folder("conform", folder) as place:
            found = probe.findings(place)
        self.seconds = probe.seconds
        return found
