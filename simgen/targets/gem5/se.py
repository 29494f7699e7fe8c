"""gem5's GPU model in syscall-emulation mode: a program under `configs/example/apu_se.py`.

What the program is, the launcher decides (launcher.py): by default one that needs no ROCm and one
simulated CPU. gem5 is a checkout in which it was built, run directly or in the image that its own
documentation names. simgen.targets.gem5.apu_se has what differs between its versions.
"""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from simgen.ask.choice import option, spelled
from simgen.ask.run import RunChoices
from simgen.errors import UsageError
from simgen.ground.ir import FOR_AMD, Language, Workload
from simgen.isa.legalise import Model, history
from simgen.kernels import render
from simgen.targets import replaced
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
from simgen.targets.gem5 import apu_se
from simgen.targets.gem5.launcher import LAUNCHERS, NAME, Launcher, Simulated
from simgen.targets.gem5.needs import APU_SE, REDIRECTED, Gem5Checkout
from simgen.targets.gem5.reader import Gem5Reader
from simgen.targets.gem5.watcher import Gem5Watcher
from simgen.tensors import state_file

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from simgen.kernels.build import Builder

QUOTE = "'"  # ends the program's files, the last of its command


@dataclass(frozen=True)
class Gem5Se(Target):
    """Settings: GPU, pseudo-instructions around layers, gem5's version, cache policy, launcher."""

    name: ClassVar[str] = NAME
    summary: ClassVar[str] = "gem5's GPU model, syscall emulation, without ROCm"
    simulates: ClassVar[bool] = True
    own_variables: ClassVar[bool] = True
    run_options: ClassVar[Mapping[str, RunOption]] = {
        **apu_se.HARDWARE,
        **apu_se.ARGUMENTS,
        "keep": RunOption(
            "SIMGEN_KEEP",
            f"keep what finished layers leave, for {RunChoices.resume}; takes some simulated CPU "
            "instructions [default: yes in long runs]",
            ("yes", "no"),
        ),
    }
    variables: ClassVar[tuple[str, ...]] = ("GEM5_OPTIONS", "GEM5_BINARY")
    said_in: ClassVar[tuple[str, ...]] = ("GEM5_OPTIONS",)

    arch: str = setting(
        "gfx902",
        f"GPU that kernels are compiled for; if {spelled('gem5_version')} has no gfx902, its first",
        apu_se.GPUS,
    )
    m5ops: bool = setting(False, "mark each layer and pass with m5_work_begin and m5_work_end")
    gem5_version: str = setting("24.0", "version of gem5 that will run the bundle", apu_se.VERSIONS)
    l1: str = l1_setting()
    legalise: bool = legalise_setting()
    launcher: str = setting("kfd", "program that launches the kernels", LAUNCHERS)

    def __post_init__(self) -> None:
        apu_se.check(self.gem5_version, self.arch)
        super().__post_init__()
        if self.m5ops and not self.simulated.version.dumps:
            raise UsageError(
                f"{self.name}: {spelled('m5ops')}: apu_se.py of gem5 {self.gem5_version} ignores "
                "them; leave it out"
            )
        told = self.simulated.gpu.told
        if told and self._launcher.runtime:
            raise UsageError(
                f"{self.name}: {spelled('arch')} {self.arch}: gem5 is told that its GPU is a "
                f"{told}, and a runtime loads no other code; take {spelled('launcher')} kfd"
            )
        self._launcher.check(self.simulated)

    @classmethod
    def implied(cls, settings: Mapping[str, Any]) -> dict[str, Any]:
        settings = apu_se.of_tag(settings)
        version = apu_se.VERSIONS.get(settings.get("gem5_version", ""))
        return {**({"arch": version.gpus[0]} if version else {}), **settings}

    @property
    def machine(self) -> str:
        return apu_se.machine(self.arch)

    @property
    def model(self) -> Model:
        return self.simulated.model

    @property
    def simulated(self) -> Simulated:
        """What launchers need to know of the settings."""
        return Simulated(self.arch, self.gem5_version, self.m5ops, self.l1, self.legalise)

    @classmethod
    def unseen(cls) -> str:
        unseen = [name for name, each in LAUNCHERS.items() if not each.seen_running]
        return ", ".join(f"{option('launcher')} {name}" for name in unseen)

    @property
    def one_queue(self) -> str:  # type: ignore[override]
        if self._launcher.runtime:
            return f"the program of {spelled('launcher')} {self.launcher} has one queue"
        return self.simulated.in_order

    @property
    def _launcher(self) -> Launcher:
        return LAUNCHERS[self.launcher]

    @property
    def own_languages(self) -> tuple[Language, ...]:  # type: ignore[override]
        return FOR_AMD if self._launcher.takes_own else ()

    @property
    def needs(self) -> Requirements:
        return Gem5Checkout(self.simulated, self._launcher)

    @property
    def package(self) -> Package:
        return Gem5Package(self.simulated, self._launcher)

    @property
    def watcher(self) -> Watcher:
        return Gem5Watcher(self.simulated, self._launcher)

    @property
    def reader(self) -> Reader:
        return Gem5Reader(self.simulated, self._launcher)

    def whole_only(self) -> str | None:
        return self._launcher.whole_only()


@dataclass(frozen=True)
class Gem5Package(Package):
    """`run.sh` and the files of a launcher."""

    simulated: Simulated
    launcher: Launcher

    def stages(self) -> tuple[str, ...]:
        return self.launcher.stages(self.simulated)

    def folder(self, job: Job, builder: Builder) -> dict[str, File]:
        """`run.sh` and the files of the launcher."""
        launcher = self.launcher
        built = launcher.build(self.simulated, job, builder)
        command = launcher.command(self.simulated, job.workload)
        deadlock = history.deadlock(
            self.simulated.gem5_version, self.simulated.arch, atomics=built.atomics
        )
        run = render.text(
            launcher.template,
            name=job.workload.name,
            target=NAME,
            digest=job.digest,
            options=Gem5Se.variables_of_options(),
            command=command,
            keeps="" if command.keeps is None else "yes" if command.keeps else "no",
            launches="" if command.launches is None else command.launches,
            left_nbytes="" if command.outputs_nbytes is None else command.outputs_nbytes,
            knobs=apu_se.knobs(built.kernels),
            redirected=REDIRECTED,
            gem5_opt=self.simulated.gem5_opt,
            family=self.simulated.gpu.build,
            builds=[each for each in apu_se.BUILDS if each != self.simulated.gpu.build],
            gpu=self.simulated.arch,
            arch_option=option("arch"),
            told=self.simulated.version.told,
            **apu_se.passed_on(self.simulated.gem5_version),
            apu_se=APU_SE,
            gem5_version=self.simulated.gem5_version,
            known=apu_se.KNOWN,
            image=self.simulated.version.image,
            build_cure=self.simulated.build_cure,
            deadlock=f"{deadlock.does}; {deadlock.cure}" if deadlock else "",
            **built.variables,
        )
        return {"run.sh": File(run.encode(), executable=True), **built.files}

    def commands(self, bundle: Path, workload: Workload) -> Mapping[str, str]:
        """`direct` and `docker`: lines for a shell; $GEM5 stands for itself where it is not set.

        They run what run.sh runs, with the same simulated timing, in the folder `results/m5out`.
        """
        home = bundle.resolve()
        here = shlex.quote(str(home / "results" / "m5out"))
        root = os.environ.get("GEM5")
        gem5 = shlex.quote(root) if root else '"$GEM5"'
        command = self.launcher.command(self.simulated, workload)
        words = " ".join((*command.before, *command.after))
        start = f"mkdir -p {here} && cd {here} &&"
        if command.keeps:
            words = f"{words.removesuffix(QUOTE)} {state_file.FILE}{QUOTE}"
            # Or the layers that an earlier run has finished would not run.
            start += f" rm -f {state_file.FILE} &&"
        run = f"{gem5}/{self.simulated.gem5_opt} -d . {gem5}/{APU_SE} {words}"
        volumes = (f"{gem5}:{gem5}", shlex.quote(f"{home}:{home}"), *command.mounts)
        user = "" if command.root else f"-u {os.getuid()}:{os.getgid()} "
        docker = (
            f"docker run --rm {user}{' '.join(f'-v {volume}' for volume in volumes)} "
            f"-w {here} {self.simulated.version.image}"
        )
        return {"direct": f"{start} {run}", "docker": f"{start} {docker} {run}"}

    def mapped_nbytes(self, workload: Workload) -> int:
        return self.launcher.mapped_nbytes(workload)

    def notes(self, folder: Path, *, details: bool = False) -> list[str]:
        version, arch = self.simulated.gem5_version, self.simulated.arch
        rows = history.launches(version, arch)
        told = [f"{NAME}: gem5 {version} {row.does}; {row.cure}" for row in rows if details]
        if rows and not details:
            told = [
                f"{NAME}: gem5 {version} ({history.provenance(version)}) does {len(rows)} things "
                "with launches that later versions do otherwise: -v tells them"
            ]
        return [
            *replaced.notes(folder / replaced.FILE, NAME, details=details),
            *self.launcher.notes(folder),
            *told,
        ]
