"""Native: the rendered kernels on an NVIDIA GPU through CuPy's RawModule.

The folder holds one Python file that needs CuPy and NumPy and nothing of simgen, so that a bundle
can be carried to the machine that has the GPU.
"""

from __future__ import annotations

import ctypes
import importlib.util
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from simgen.ask.choice import spelled
from simgen.errors import RefusedError
from simgen.ground.ir import CUDA_WARP, Language, Workload
from simgen.ground.machine import FITTED
from simgen.isa.legalise import cache_policy
from simgen.kernels import own, render, stages
from simgen.targets import launch_rows, machine_file, ncu, shares
from simgen.targets.base import (
    File,
    Job,
    Lack,
    Package,
    Reader,
    Requirements,
    RunOption,
    Target,
    Watcher,
    l1_setting,
)
from simgen.workload import sharding

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from simgen.kernels.build import Builder

CUPY_WHEEL = "cupy-cuda13x"  # the extra `cuda` has its lowest version


@dataclass(frozen=True)
class Cuda(Target):
    """Settings: how many GPUs, the cache policy."""

    name: ClassVar[str] = "cuda"
    one_queue: ClassVar[str] = ""
    summary: ClassVar[str] = "this machine's NVIDIA GPU, through CuPy, timed with CUDA events"
    run_options: ClassVar[Mapping[str, RunOption]] = launch_rows.ROUND_OPTIONS | {
        **shares.OPTION,
        "noise": RunOption(
            "SIMGEN_NOISE",
            "repeat until the standard deviation of the times is at most this, in per cent",
            pattern=r"\d{1,2}(\.\d{1,3})?",
            example="0.5",
        ),
        "l2": RunOption(
            "SIMGEN_L2",
            "contents of L2 before a layer: left = from the previous layer; cold = other data, "
            "written; clean = other data, read; warm = the layer's own data",
            choices=("left", "cold", "clean", "warm"),
            default="left",
        ),
        "counters": RunOption(
            "SIMGEN_COUNTERS",
            "hardware counters of Nsight Compute, from one more run of all launches, one at a time",
            choices=("yes", "no"),
            default="no",
        ),
    }

    own_variables: ClassVar[bool] = True
    own_languages: ClassVar[tuple[Language, ...]] = (Language.HIP, Language.PTX)

    l1: str = l1_setting()
    gpus: int = shares.gpus_setting()

    def __post_init__(self) -> None:
        super().__post_init__()
        sharding.check(self.gpus)

    def sharing(self) -> int:
        return self.gpus

    def default(self, option: str) -> str:
        return str(self.gpus) if option == "gpus" else super().default(option)

    @property
    def machine(self) -> str:
        return FITTED

    @property
    def needs(self) -> Requirements:
        return NvidiaGpu()

    @property
    def package(self) -> Package:
        return CudaPackage(self.l1, self.gpus)

    @property
    def watcher(self) -> Watcher:
        return CudaWatcher()

    @property
    def reader(self) -> Reader:
        return CudaReader()


class NvidiaGpu(Requirements):
    """A GPU that CuPy can use."""

    def missing(self, bundle: Path | None = None) -> list[Lack]:
        if importlib.util.find_spec("cupy") is None:
            return [
                Lack("CuPy is not installed", f"install it: python -m pip install {CUPY_WHEEL}")
            ]
        if why := _no_gpu():
            return [Lack(f"no usable NVIDIA GPU ({why})", "run it on a machine that has one")]
        return []


def _no_gpu() -> str:
    """Why the driver has none; empty if it has. CuPy takes a second until it could be asked."""
    count, name = ctypes.c_int(), ctypes.c_char_p()
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return "there is no driver of NVIDIA's"
    status = driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count))
    if status:
        driver.cuGetErrorName(status, ctypes.byref(name))
        return (name.value or b"").decode() or f"error {status} of the driver"
    return "" if count.value else "the driver has none"


@dataclass(frozen=True)
class CudaPackage(Package):
    """A Python file; NVRTC compiles the kernels for the GPU that is there.

    For more than one GPU, `gpus-N/` has another file, and the kernels for the share of each.
    """

    l1: str
    gpus: int

    def stages(self) -> tuple[str, ...]:
        return stages.names(stages.nvptx())

    def folder(self, job: Job, builder: Builder) -> dict[str, File]:
        run = render.text(
            "targets/cuda.run.sh.j2",
            **job.frame,
            target=Cuda.name,
            options=Cuda.variables_of_options(),
            more=" --past-l1" if self.l1 == cache_policy.BYPASS else "",
            gpus=self.gpus,
        )
        extension = self.extension({})
        of_shares = self.extend({}, job.workload, builder) if extension else {}
        return {
            "run.sh": File(run.encode(), executable=True),
            "run.py": File(render.text("launchers/cuda_run.py").encode()),
            **self._own(job.workload),
            **{f"{extension}/{name}": file for name, file in of_shares.items()},
        }

    def extension(self, options: Mapping[str, str | int]) -> str | None:
        """The folder with the shares of several GPUs."""
        return shares.folder(options, self.gpus)

    def extend(
        self, options: Mapping[str, str | int], workload: Workload, builder: Builder
    ) -> dict[str, File]:
        """The program of several GPUs, `shards.json`, which it reads, and kernels of a share.

        Raises:
            RefusedError: a layer cannot be split over GPUs.
            UsageError: the number of GPUs does not divide the batch.
        """
        split = sharding.split(workload, int(options.get("gpus", self.gpus)))
        sources = render.kernels(split.workload)
        return {
            "gpus.py": File(render.text("launchers/cuda_gpus.py").encode()),
            f"src/{render.PRELUDE}": File(render.prelude().encode()),
            **shares.files(split, sources),
        }

    def _own(self, workload: Workload) -> dict[str, File]:
        """Kernels of users: PTX as it is, C++ behind the names that HIP has.

        Raises:
            RefusedError: their loads would have to be others, or they are for AMD's GPUs alone.
        """
        from simgen.frontend import wavefronts

        found = {}
        for each in workload.kernels:
            if each.source is None:
                continue
            if self.l1 == cache_policy.BYPASS:
                raise RefusedError(
                    f"{Cuda.name}: kernel {each.name}: loads of kernels of your own are as they "
                    f"are written; leave {spelled('l1')} out"
                )
            if each.source.language is Language.PTX:
                found[f"own/{each.name}.ptx"] = File(each.source.text.encode())
                continue
            if each.source.warp != CUDA_WARP and (
                lacks := wavefronts.fact_and_cure(
                    each.source.text, each.source.defines, each.block, own.header("nvidia.h")
                )
            ):
                raise RefusedError(f"{Cuda.name}: kernel {each.name}: {lacks[0]}; {lacks[1]}")
            found[f"own/{each.name}.cu"] = File(own.nvidia_text(each.source).encode())
        return found


class CudaWatcher(Watcher):
    """What Python says."""

    def diagnosis(self, log: str) -> str | None:
        """What run.py says; where Python itself ended it, the last line of its traceback."""
        lines = [line for line in log.splitlines() if line.strip()]
        lines = [line for line in lines if ": the run ended with" not in line]
        told = [line for line in lines if line.startswith("simgen: error: ")] or lines
        return told[-1].removeprefix("simgen: error: ") if told else None


class CudaReader(launch_rows.RowsReader):
    """`seconds` is the median over the timed rounds, between CUDA events. Quartiles are there since
    run.py leaves them: results of a bundle that was built before have none. What a profiler counted
    stands beside it, with `counted_seconds`, the time that a launch took under it."""

    def metrics(self, results: Path, workload: Workload) -> list[dict[str, float]]:
        launch_rows.read_rows(results, workload, launch_rows.ROUND_COLUMNS)
        counted = ncu.read_metrics(results, [launch.kernel for launch in workload.launches])
        timed = launch_rows.read_rows(results, workload)
        return [{**counts, **times} for counts, times in zip(counted, timed, strict=True)]

    def counted(self) -> Mapping[str, str]:
        return {
            "seconds": "between CUDA events, median of rounds",
            "elapsed_seconds": "end of the launch - the last end before it, of the median round",
            **ncu.named(),
        }

    def machine(self, results: Path) -> Mapping[str, str]:
        facts = machine_file.texts(machine_file.read_facts(results))
        return {name: value for name, value in facts.items() if name != shares.FACT}

    def gpus(self, results: Path) -> int:
        return shares.counted(results, 1)
