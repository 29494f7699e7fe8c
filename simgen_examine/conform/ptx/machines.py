"""Where kernels of PTX run: NVIDIA's driver, and GPGPU-Sim."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from simgen.errors import MissingError
from simgen.ground.storage.files import new_mode, read_regular
from simgen.kernels import ptx_modules
from simgen.targets import TARGETS
from simgen.targets.gpgpusim import needs
from simgen_examine import HERE
from simgen_examine.conform.ptx import description
from simgen_examine.conform.ptx.running import LAUNCHER, MOST_LOG

TAKES = ptx_modules.Resources(32, 2048, 8)  # about what each kernel of a probe does
MOST_CONFIG = 1 << 20
_ENTRY = re.compile(r"\.entry (\w+)")
NAME, CONFIG = "gpgpusim", "SM7_QV100"
_LACKS = re.compile(
    r"not \(?(?:yet)?\)? ?(?:implemented|supported|defined)|unimplemented|unsupported", re.I
)
_TELLING = re.compile(
    r"Assertion|ERROR|error:|Execution error|implemented|supported|yntax|corruption|what\(\)", re.I
)


@dataclass(frozen=True)
class DriverMachine:
    """This machine's GPU."""

    name: str = "cuda"
    library: str = ""
    unit: int = 256
    processes: int = 4

    @property
    def environment(self) -> Mapping[str, str]:
        return os.environ

    def prepare(self, folder: Path, arch: str) -> None:
        """Nothing."""

    def said(self, log: str) -> str:
        """The last line."""
        return (log.strip().splitlines() or ["it dies"])[-1].removeprefix("simgen: error: ")

    def lacks(self, _: str) -> bool:
        """Never: the driver refuses a text as a whole."""
        return False

    def device(self) -> dict[str, str]:
        """Its name, architecture and CUDA's version.

        Raises:
            MissingError: there is none.
        """
        launcher = HERE / "templates" / LAUNCHER
        done = subprocess.run(
            [sys.executable, str(launcher), "--device"], capture_output=True, text=True, check=False
        )
        if done.returncode:
            said = self.said(done.stderr)
            raise MissingError(f"cuda: no usable NVIDIA GPU ({said}); run it on a machine with one")
        told: dict[str, str] = json.loads(done.stdout)
        return told


def nearest(arch: str) -> str:
    """The newest description that a GPU takes."""
    known = [each for each in description.machines()
             if description.number(each) <= description.number(arch)]  # fmt: skip
    if not known:
        raise MissingError(f"cuda: {arch}: too old a GPU; take one of sm_70 or later")
    return max(known, key=description.number)


@dataclass(frozen=True)
class GpgpuSimMachine:
    """GPGPU-Sim as it was built in a folder."""

    root: Path
    timing: bool = False
    name: str = "gpgpusim"
    unit: int = 48

    @property
    def processes(self) -> int:
        return len(os.sched_getaffinity(0))

    @property
    def library(self) -> str:
        return str(needs.libraries(self.root)[0])

    @property
    def environment(self) -> Mapping[str, str]:
        mode = "0" if self.timing else "1"
        return {**os.environ, "PTX_SIM_MODE_FUNC": mode, needs.ROOT: str(self.root),
                "CUDA_INSTALL_PATH": "."}  # fmt: skip

    def prepare(self, folder: Path, arch: str) -> None:
        """Its configuration, and what it takes for ptxas's words about kernels."""
        configuration = self.root / needs.CONFIGS / CONFIG
        for path in configuration.glob("*.icnt"):
            shutil.copy(path, folder)
        text = read_regular(configuration / "gpgpusim.config", MOST_CONFIG).decode()
        # The text is given as it is, not in a program that cuobjdump would take it from.
        # One core is made sooner than 80, and in functional mode all run on it anyhow.
        few = "" if self.timing else "-gpgpu_n_clusters 1\n"
        (folder / "gpgpusim.config").write_text(f"{text}\n-gpgpu_ptx_use_cuobjdump 0\n{few}")
        names = _ENTRY.findall(read_regular(folder / "kernels.ptx", MOST_LOG).decode())
        takes = dict.fromkeys(names, TAKES)
        (folder / "takes.txt").write_text(ptx_modules.resource_lines(takes, arch))
        (folder / "bin").mkdir()
        (folder / "bin" / "ptxas").write_text("#!/bin/sh\ncat takes.txt >&2\n")
        (folder / "bin" / "ptxas").chmod(new_mode(0o755))

    def said(self, log: str) -> str:
        """The last line that tells of something."""
        lines = [line.strip() for line in log.splitlines() if line.strip()]
        telling = [line for line in lines if _TELLING.search(line)]
        found = re.sub(r"\s+", " ", (telling or ["it dies"])[-1]).removeprefix("python: ")
        return "syntax error" if "yntax error" in found else found

    def lacks(self, log: str) -> bool:
        """Whether it says that it has no code for an instruction."""
        return bool(_LACKS.search(self.said(log)))


def gpgpu_sim(*, timing: bool) -> GpgpuSimMachine:
    """The one that a variable names.

    Raises:
        MissingError: none does.
    """
    if lacks := TARGETS[NAME](config=CONFIG).needs.missing():  # type: ignore[call-arg]
        raise MissingError(f"{NAME}: " + "; ".join(map(str, lacks)))
    return GpgpuSimMachine(Path(os.environ[needs.ROOT]).resolve(), timing)
