"""What gem5's `configs/example/apu_se.py` takes and does, by version; the GPUs that it simulates.

Read in the sources of gem5 (apu_se.py; GPU.py, gpu_compute_driver.* and kernel_code.hh in
src/gpu-compute; configs/ruby/GPU_VIPER.py; util/dockerfiles) at the last tag of each version up to
v24.0.0.1, on develop at c91af552, which became 24.1, at 24.1.0.0 (59ca5600), 25.0.0.0 (e7b352e8),
where ScoreboardCheckStage has times of MFMA, and 25.1.0.1 (3a4046a1). docker/README.md says where
images are named. The registry of those before 23.0 is closed: v22-1 of another one stands for them.

The launcher speaks the same to the drivers of all these versions. Those before 24.0 take a kernel's
descriptor for the first 64 bytes of an amd_kernel_code_t, which has the same fields there, and read
register counts behind it: where these are 0, as in linked code objects, the descriptor's count.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Any

from simgen.ask.choice import spelled
from simgen.errors import UsageError
from simgen.ground.machine import Gem5Model, descriptions
from simgen.isa.legalise import versions
from simgen.targets.base import CLOCK, SIZE, RunOption
from simgen.targets.gem5 import script_options

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from simgen.isa.code_object import KernelInfo


@dataclass(frozen=True)
class Version:
    """A version of gem5, as data/isa has it."""

    image: str  # Docker image in which it can be built and run
    gpus: tuple[str, ...]  # GPUs that it simulates in syscall emulation; the first is its default
    dumps: bool  # apu_se.py dumps the statistics when a kernel ends, and at m5_work_*
    told: tuple[str, ...] = ()  # options of gem5 with which it says that a kernel has ended


def _gpus() -> dict[str, Gem5Model]:
    """By architecture: those of the newer family first, in a family that of an APU, and then what
    runs as that."""
    found = {each.machine.arch: each.gem5_se for each in descriptions().values() if each.gem5_se}

    def order(pair: tuple[str, Gem5Model]) -> tuple[bool, bool, bool]:
        return pair[1].build != VEGA, pair[1].dgpu, bool(pair[1].told)

    return dict(sorted(found.items(), key=order))


VEGA = "VEGA_X86"
# Folders that gem5's builds are made in; others may be of anything.
BUILDS = (VEGA, "GCN3_X86", "X86", "ARM", "RISCV", "MIPS", "POWER", "SPARC", "NULL")
GPUS = _gpus()
SIMULATOR = "gem5"  # name in the table of simulators


def _versions() -> dict[str, Version]:
    """Versions that run in syscall emulation, oldest first."""
    found = {}
    for name, of in versions(SIMULATOR).items():
        gpus = tuple(arch for arch, each in of.architectures.items() if each.syscall_emulation)
        if gpus:
            told = tuple(f"--debug-flags={each}" for each in of.debug_flags)
            found[name] = Version(of.image, gpus, of.dumps, told)
    return found


def full_system() -> dict[str, dict[str, tuple[str, ...]]]:
    """Version -> GPU -> the scripts that boot Linux on it, best first."""
    found: dict[str, dict[str, tuple[str, ...]]] = {}
    for name, of in versions(SIMULATOR).items():
        for arch, each in of.architectures.items():
            if each.full_system:
                found.setdefault(name, {})[arch] = each.full_system
    return found


VERSIONS = _versions()
# All versions with a number, oldest first.
KNOWN = tuple(name for name in versions(SIMULATOR) if name[0].isdigit())
# Its driver ignores the requests for events, and its statistics have other names.
TOO_OLD = "20.1"

SIMDS = 4  # SIMD units of a compute unit, as apu_se.py makes them

# Options that every version above has, under gem5's own names.
HARDWARE = {
    "num_compute_units": RunOption(
        "SIMGEN_NUM_COMPUTE_UNITS", "number of compute units", least=1, default="4"
    ),
    "wfs_per_simd": RunOption(
        "SIMGEN_WFS_PER_SIMD", "wavefronts per SIMD unit", least=1, default="10"
    ),
    "vreg_file_size": RunOption(
        "SIMGEN_VREG_FILE_SIZE", "vector registers per SIMD unit", least=1, default="2048"
    ),
    "reg_alloc_policy": RunOption(
        "SIMGEN_REG_ALLOC_POLICY",
        "simple: one work-group at a time per compute unit [default: gem5's, dynamic from 22.0]",
        ("simple", "dynamic"),
    ),
    "lds_size": RunOption(
        "SIMGEN_LDS_SIZE", "bytes of LDS per compute unit", least=1, default="65536"
    ),
    "tcp_size": RunOption(
        "SIMGEN_TCP_SIZE",
        "size of a compute unit's L1 cache",
        pattern=SIZE,
        example="16KiB",
        default="16KiB",
    ),
    "tcc_size": RunOption(
        "SIMGEN_TCC_SIZE", "size of the L2 cache", pattern=SIZE, example="1MiB", default="256KiB"
    ),
    "sqc_size": RunOption(
        "SIMGEN_SQC_SIZE",
        "size of the instruction cache",
        pattern=SIZE,
        example="32KiB",
        default="32KiB",
    ),
    "num_tccs": RunOption("SIMGEN_NUM_TCCS", "number of L2 banks", least=1, default="1"),
    "gpu_clock": RunOption(
        "SIMGEN_GPU_CLOCK", "clock of the GPU", pattern=CLOCK, example="1.5GHz", default="1GHz"
    ),
}


_OWN = "leave it out"
# What a bundle says to apu_se.py itself -> what to do in its place.
# All else may be said with --gem5-arg.
SET = {
    **{f"--{name.replace('_', '-')}": f"write --{name.replace('_', '-')}" for name in HARDWARE},
    "-u": "write --num-compute-units",
    **dict.fromkeys(("--gfx-version", "--dgpu"), f"build with another {spelled('arch')}"),
    **dict.fromkeys(("-c", "--cmd", "-o", "--options", "-e", "--env", "-n", "--num-cpus"), _OWN),
    **dict.fromkeys(("-h", "--help"), _OWN),
}
ARGUMENTS = {
    "gem5_arg": RunOption(
        "SIMGEN_GEM5_ARGS",
        "additional option of apu_se.py or of gem5 itself, such as --gem5-arg=--TCC_latency=8 or "
        "--gem5-arg=--debug-flags=GPUExec; repeatable",
        pattern=r"-{1,2}[A-Za-z][A-Za-z0-9_-]*(=[^\x00-\x1f\x7f]*)?",
        example="--TCC_latency=8",
        several=True,
        fault=lambda text: script_options.fault(text, SET),
        passes=script_options.is_known,
    )
}


def passed_on(version: str) -> dict[str, object]:
    """For run.sh, which sorts options that are passed on: those that the bundle sets and what to do
    in their place, those that begin another one and are whole, gem5's own, and what begins both."""
    script = script_options.names(script_options.SCRIPT, version)
    own = [
        name
        for name in script_options.names(script_options.OWN, version)
        if script_options.goes_before_the_script(name) and name not in script_options.UNUSABLE
    ]
    takes = script_options.options(script_options.OWN)
    variables = {f"--{name.replace('_', '-')}": each.variable for name, each in HARDWARE.items()}
    variables["-u"] = HARDWARE["num_compute_units"].variable
    return {
        "sets": "".join(
            f"{name} {f'set {variables[name]}' if name in variables else cure}\n"
            for name, cure in SET.items()
        ),
        "whole": [
            name
            for name in script
            if name not in SET and any(each.startswith(name) for each in SET)
        ]
        or ["--"],
        "own": [n for n in own if takes[n].takes_value and n != script_options.STATISTICS],
        "own_flags": [name for name in own if not takes[name].takes_value],
        "beginnings": sorted(
            {name[:end] for name in own for end in range(3, len(name)) if name[:2] == "--"}
            & {name[:end] for name in script for end in range(3, len(name) + 1)}
        ),
        "unusable": [name for name in script_options.UNUSABLE if name not in SET],
    }


def knobs(kernels: Iterable[tuple[int, KernelInfo]]) -> str:
    """The options of HARDWARE for kernels, each with the work-items of its work-group.

    A line has a variable, the option, and the least of it. With less gem5 never starts a
    work-group, and never ends.

    A work-group's wavefronts are spread over the SIMD units (ComputeUnit::hasDispResources).
    """
    least = dict.fromkeys(("wfs_per_simd", "vreg_file_size", "lds_size"), 1)
    for block, info in kernels:
        wavefronts = ceil(ceil(block / 64) / SIMDS)
        needs = (wavefronts, wavefronts * info.vgprs, info.lds_nbytes)
        least = {name: max(n, need) for (name, n), need in zip(least.items(), needs, strict=True)}
    return "".join(
        f"{option.variable} --{name.replace('_', '-')} {least.get(name, 0)}\n"
        for name, option in HARDWARE.items()
    )


def of_tag(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings with gem5's version, where they name one of its tags: v24.0.0.1 is 24.0."""
    said = str(settings.get("gem5_version", ""))
    short = ".".join(said.removeprefix("v").split(".")[:2])
    return {**settings, **({"gem5_version": short} if short in VERSIONS else {})}


def check(version: str, arch: str) -> None:
    """Refuse a GPU that a version of gem5 does not simulate.

    Raises:
        UsageError: it does not, or the version is too old for the launcher.
    """
    if version == TOO_OLD:
        raise UsageError(
            f"gem5-se: {spelled('gem5_version')} {version}: its driver has no events, which the "
            f"launcher waits for; use {next(iter(VERSIONS))} or later"
        )
    found = VERSIONS.get(version)
    if found and arch in GPUS and arch not in found.gpus:
        told = versions(SIMULATOR)[version].architectures.get(arch)
        fact = (told and told.refused) or "has no such GPU"
        raise UsageError(
            f"gem5-se: {spelled('arch')} {arch}: gem5 {version} {fact}; take {spelled('arch')} "
            f"{' or '.join(found.gpus)}, or another {spelled('gem5_version')}"
        )


def options(version: str, arch: str) -> tuple[str, ...]:
    """The options of apu_se.py that choose the GPU; a version with one GPU has none."""
    if len(VERSIONS[version].gpus) == 1:
        return ()
    told = GPUS[arch].told or arch
    return (f"--gfx-version={told}", *(("--dgpu",) if GPUS[arch].dgpu else ()))


def machine(arch: str) -> str:
    """Name of the machine that runs code for an architecture."""
    return next(
        name for name, each in descriptions().items() if each.gem5_se and each.machine.arch == arch
    )
