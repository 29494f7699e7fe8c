"""What a launcher of gem5-se is: the program under apu_se.py, how it is started, what it leaves."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from simgen.ask.choice import spelled
from simgen.errors import RefusedError, SimgenError
from simgen.ground.numerics.powers import next_power_of_two
from simgen.isa import code_object
from simgen.isa.legalise import Model, cache_policy
from simgen.kernels import stages
from simgen.targets import fit, own_sources
from simgen.targets.gem5 import apu_se

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from simgen.ground.ir import Workload
    from simgen.ground.machine import Gem5Model
    from simgen.kernels.build import Builder
    from simgen.kernels.stages import Products, Stage
    from simgen.targets.base import File, Job, Lack

NAME = "gem5-se"  # name of the target
LAUNCHERS: dict[str, Launcher] = {}  # by name; importing simgen.targets fills it

MIB = 1 << 20
LEAST_MEMORY = 512 * MIB  # what gem5 simulates by default


@dataclass(frozen=True)
class Simulated:
    """What is simulated, as the settings of gem5-se say it."""

    arch: str
    gem5_version: str
    m5ops: bool = False
    l1: str = cache_policy.CACHED
    legalise: bool = True

    @property
    def model(self) -> Model:
        """The key of the table of what simulators do wrong."""
        return Model(apu_se.SIMULATOR, self.gem5_version, self.arch)

    @property
    def made_for(self) -> Model:
        """What kernels are made for: the simulator, or the GPU that it stands for."""
        return self.model if self.legalise else Model.gpu(self.arch)

    @property
    def gpu(self) -> Gem5Model:
        return apu_se.GPUS[self.arch]

    @property
    def version(self) -> apu_se.Version:
        return apu_se.VERSIONS[self.gem5_version]

    @property
    def options(self) -> tuple[str, ...]:
        """The options of apu_se.py that choose the GPU."""
        return apu_se.options(self.gem5_version, self.arch)

    @property
    def gem5_opt(self) -> str:
        """The simulator's path in the checkout."""
        return f"build/{self.gpu.build}/gem5.opt"

    @property
    def build_cure(self) -> str:
        return (
            f"get gem5, run scons {self.gem5_opt} in it and set GEM5 to its folder (simgen doctor "
            "--for gem5-se, page gem5)"
        )

    @property
    def in_order(self) -> str:
        """Why steps of several queues run in order; empty: they run at once."""
        if not self.version.dumps:
            return f"apu_se.py of gem5 {self.gem5_version} does not tell when its GPU was active"
        return f"{spelled('m5ops')} marks one layer after the other" if self.m5ops else ""

    def stages(self, *, own: bool = False) -> tuple[Stage, ...]:
        """The stages of the workload's kernels; `own`: they are a user's."""
        return stages.amdgcn(self.made_for, l1=self.l1, edges=own, private=own)

    def products(self, job: Job, builder: Builder) -> dict[str, Products]:
        """What the stages make of each kernel of the workload.

        Raises:
            RefusedError: a kernel has an instruction that this gem5 executes wrongly and that
                nothing replaces, or would find other ids.
        """
        if builder.linted:
            self._check_ids(job.workload)
        chain = self.stages(own=job.workload.is_own)
        return own_sources.products(builder, chain, self.made_for, job.workload, job.kernel_sources)

    def linked(
        self, job: Job, builder: Builder, made: Mapping[str, Products] | None = None
    ) -> list[tuple[bytes, code_object.KernelInfo]]:
        """The code object and the resources of each kernel of the workload, of its products if
        they are `made`.

        Raises:
            RefusedError: as `products`, or a kernel does not fit into the machine that the
                workload is planned for.
        """
        made = self.products(job, builder) if made is None else made
        found = []
        for name, products in made.items():
            symbol = job.workload.kernel(name).symbol
            info = kernel_info(products[stages.CODE_OBJECT], symbol, self.arch)
            fit.check("gem5-se", self.arch, job.workload, name, info)
            found.append((products[stages.CODE_OBJECT], info))
        return found

    def _check_ids(self, workload: Workload) -> None:
        """Refuse work-groups whose second and third ids a kernel would look for in vain: code for
        gfx90a on has all of a work-item in v0, and gem5 puts them where the GPU that it is told
        to simulate has them (Wavefront::initRegState)."""
        packed = code_object.PACKED_IDS
        if self.arch not in packed or (self.gpu.told or self.arch) in packed:
            return
        for kernel in workload.kernels:
            if kernel.extents[1] * kernel.extents[2] > 1:
                raise RefusedError(
                    f"gem5-se: kernel {kernel.name}: code for {self.arch} runs as {self.gpu.told}, "
                    "which has ids of work-items elsewhere; give it a block of one dimension, or "
                    f"take {spelled('arch')} {self.gpu.told}"
                )


@dataclass(frozen=True)
class Command:
    """How apu_se.py starts a program, and what a run leaves.

    `before` and `after` are words of the shell, quoted where they need it. They are read in the
    folder of the results (results/NAME or one beside it), where gem5 runs: the bundle is `../..`.
    """

    before: tuple[str, ...]  # options of apu_se.py that those of the user may override
    after: tuple[str, ...]  # options behind the user's: -c and --options
    launches: int | None  # kernels that must have run; None: only the program knows how many
    outputs_nbytes: int | None  # size of outputs.bin; None: it leaves none
    mounts: tuple[str, ...] = ()  # more volumes of the container, HOST:CONTAINER, shell words
    root: bool = False  # in the container the program runs as root, else as the user
    keeps: bool | None = None  # default of SIMGEN_KEEP; None: it keeps nothing
    queues: int = 0  # queues that run steps at once, if it keeps nothing
    in_image: bool = False  # it needs gem5's image, unless SIMGEN_DOCKER is 0

    @property
    def volumes(self) -> str:
        """`mounts` as options of docker."""
        return " ".join(f"-v {each}" for each in self.mounts)


@dataclass(frozen=True)
class Built:
    """A launcher's files in the target's folder, beside run.sh."""

    files: Mapping[str, File]
    # Work-items of a work-group and resources of each kernel, where they are known: run.sh refuses
    # hardware options with which a work-group does not fit on a compute unit.
    kernels: tuple[tuple[int, code_object.KernelInfo], ...] = ()
    variables: Mapping[str, object] = field(default_factory=dict)  # more of them, for `template`
    atomics: bool = True  # whether kernels may have atomics


class Launcher(ABC):
    """One way to start kernels under apu_se.py.

    It has no state, and defining it registers it; or it is not `registered`, and no setting."""

    name: ClassVar[str]
    # template of run.sh, or one that extends it
    template: ClassVar[str] = "targets/gem5-se.run.sh.j2"
    # What a log holds -> fact and cure, before those of gem5-se.
    diagnoses: ClassVar[tuple[tuple[str, str], ...]] = ()
    own_kernels: ClassVar[bool] = False  # it runs others than the workload's
    runtime: ClassVar[bool] = True  # a library starts the kernels
    takes_own: ClassVar[bool] = False  # kernels that users bring
    seen_running: ClassVar[bool] = True  # here, by those who wrote it

    def __init_subclass__(cls, *, registered: bool = True) -> None:
        super().__init_subclass__()
        if registered:
            LAUNCHERS[cls.name] = cls()

    def check(self, simulated: Simulated) -> None:
        """Refuse settings that the launcher cannot serve.

        Raises:
            UsageError: it cannot.
        """
        return

    def missing(self) -> list[Lack]:
        """What the launcher needs of this machine beside gem5 and does not find."""
        return []

    @abstractmethod
    def command(self, simulated: Simulated, workload: Workload) -> Command:
        """What the launcher adds to the command line of apu_se.py."""

    @abstractmethod
    def build(self, simulated: Simulated, job: Job, builder: Builder) -> Built:
        """The files that it runs."""

    def stages(self, simulated: Simulated) -> tuple[str, ...]:
        """As `Package.stages`."""
        return (*stages.names(simulated.stages()), stages.PROGRAM)

    def mapped_nbytes(self, workload: Workload) -> int:
        """As `Package.mapped_nbytes`."""
        return 0

    def ran(self, workload: Workload, launches: int) -> tuple[tuple[int, str], ...] | None:
        """As `Reader.ran`."""
        return None

    def whole_only(self) -> str | None:
        """As `Target.whole_only`."""
        return None

    def notes(self, folder: Path) -> list[str]:
        """What a build tells of the target's folder, in lines."""
        return []


def kernel_info(elf: bytes, name: str, arch: str) -> code_object.KernelInfo:
    """Resources of kernel `name` of a code object that must be for `arch`."""
    found = code_object.kernels(elf)
    if code_object.machine(elf) != arch or name not in found:
        raise SimgenError(
            f"gem5-se: the code object holds {', '.join(found)} for {code_object.machine(elf)}, "
            f"not {name} for {arch}; clear the cache"
        )
    return found[name]


def memory_for(nbytes: int) -> int:
    """The least simulated memory, in bytes, that holds `nbytes`: a power of two."""
    return max(LEAST_MEMORY, next_power_of_two(nbytes))


def memory_text(nbytes: int) -> str:
    """As gem5 spells it: 512MiB, 4GiB."""
    return f"{nbytes // MIB}MiB" if nbytes < 1024 * MIB else f"{nbytes // MIB // 1024}GiB"
