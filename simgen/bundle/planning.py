"""What is to be built, from what the user says: a problem, its layers and passes, its targets.

The commands and `simgen.api` hand over the same value, `simgen.ask.build.BuildChoices`.
"""

from __future__ import annotations

import functools
from dataclasses import Field, asdict, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simgen.ask.build import BuildChoices, Destination
from simgen.ask.choice import spelled
from simgen.ask.kinds import Flag, ValueKind, Whole
from simgen.bundle import built_here, planned_machine, recipe, writing
from simgen.bundle.planned_machine import PlannedMachine
from simgen.bundle.recipe import AskedWord, Recipe
from simgen.errors import UsageError, did_you_mean, one_line, printable
from simgen.frontend import descent, losses, network, problem, scaling
from simgen.frontend.decoder import Serving
from simgen.ground.ir import Pass, Workload
from simgen.kernels import cache
from simgen.kernels.build import Builder
from simgen.layers.base import Phase
from simgen.targets import TARGETS, Target, usual_targets
from simgen.tensors import exact_values, own_values
from simgen.tensors.samples import filling
from simgen.workload import lowering as workload
from simgen.workload import queues, sharding

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from simgen.bundle.writing import Bundle, Cures
    from simgen.frontend.network import Network
    from simgen.frontend.own_kernel import KernelFile

    # Called with what is done (KERNELS, DATA, ...), how much of it, and all of it.
    Told = Callable[[str, int, int], None]

DEFAULT_TARGETS = ("gem5-se", "host")
# How settings of targets are read, by the type of their defaults.
KINDS: Mapping[type, ValueKind] = {bool: Flag(), int: Whole("V"), str: ValueKind("V")}
KERNELS, DATA = "kernels", "data"  # what a build tells of: pieces, bytes


class Plan:
    """A problem and what is done with it, checked; nothing is compiled or written yet."""

    def __init__(
        self,
        source: str | Recipe,
        choices: BuildChoices,
        targets: Sequence[Target] = (),
        planned_for: PlannedMachine | None = None,
    ) -> None:
        """`source` names a workload or a config file, or is what a bundle was planned from.

        It is planned for the machine that the choices name, or that of the `targets`, or for
        `planned_for`, which another plan has found.

        Raises:
            UsageError: there is no such workload, or the choices do not go together.
            ConfigError: the config cannot be accepted.
        """
        ask = BuildChoices  # messages name its choices
        self.source, self.choices = source, choices
        self._made_of = choices  # choices that make the same of the problem, without scaling it
        self.planned_for = planned_for or planned_machine.choose(
            choices.plan_for, targets, choices.matrix
        )
        phase = _phase(choices.inference)
        step = (Pass.FORWARD, Pass.BACKWARD, Pass.UPDATE)
        usual = step if phase is Phase.TRAINING else (Pass.FORWARD,)
        passes = _passes(choices.passes)
        self.problem = (
            source.problem(choices)
            if isinstance(source, Recipe)
            else problem.find(
                source,
                choices.set,
                passes,
                usual,
                choices.type,
                Serving(
                    choices.phase,
                    choices.batch,
                    choices.context,
                    choices.tp,
                    choices.own_weights,
                ),
            )
        )
        if phase is Phase.INFERENCE and choices.loss is not None:
            raise UsageError(f"{ask.loss}: inference has none; leave it out, or {ask.inference}")
        if phase is Phase.INFERENCE and set(self.problem.passes) != {Pass.FORWARD}:
            raise UsageError(
                f"{ask.inference}: it is for pass fwd only; leave {ask.passes} out, or set "
                "batchnorm_statistics=running of the layers that are to be frozen in training"
            )
        if self.problem.kernel:
            _check_kernel(choices, self.problem.kernel)
        self.network = self._resolved(phase)
        if choices.scale_to is not None:
            self._scale(choices.scale_to, phase)
        if choices.rate is not None and Pass.UPDATE not in self.problem.passes:
            raise UsageError(
                f"{ask.rate}: no weights are updated; add sgd to {ask.passes}, or leave it out"
            )
        if choices.optimizer is not None and Pass.UPDATE not in self.problem.passes:
            cure = _update_cure(choices)
            raise UsageError(f"{ask.optimizer}: no weights are updated; {cure}")
        descent.parse_descent(choices.optimizer, choices.rate)
        if (choices.steps or 1) > 1 and Pass.UPDATE not in self.problem.passes:
            fact = f"{ask.steps} {choices.steps}: no weights are updated between steps"
            raise UsageError(f"{fact}; {_update_cure(choices)}")
        if choices.loss_scale is not None and set(self.problem.passes) == {Pass.FORWARD}:
            raise UsageError(
                f"{ask.loss_scale}: no gradients are computed; add bwd to {ask.passes}, or "
                "leave it out"
            )
        if choices.fuse:
            from simgen.frontend import fusion

            self.network = fusion.fuse(self.network, self.problem.passes)

    @property
    def settable(self) -> list[str]:
        """The keys that settings take: variables of a template or parameters of the user's own
        kernels, and keys of layers."""
        if self.problem.kernel:
            return [name for name, _ in self.problem.kernel.definition.parameters]
        return [*self.problem.config.variables, *network.settable(self.network)]

    def _resolved(self, phase: Phase | None) -> Network:
        if self.problem.kernel:
            return self.problem.kernel.network(self.planned_for.machine)
        training = phase is Phase.TRAINING
        config = losses.ended(self.problem.config, self.choices.loss, training=training)
        losses.check_slice(self.choices.layers, self.problem.config, config)
        return network.resolve(
            config,
            self.problem.settings,
            algorithm=self.choices.algo,
            layout=self.choices.layout,
            layers=self.choices.layers,
            phase=phase,
            machine=self.planned_for.machine,
            dtype=self.problem.dtype,
        )

    def _scale(self, most: float, phase: Phase | None) -> None:
        """The problem with smaller extents, as if they had been set.

        Raises:
            UsageError: it is not one layer that has a rule for that.
        """
        found = scaling.scaled(self.network, self.problem.passes, most)
        self.problem = replace(
            self.problem,
            name=f"{self.problem.name}_scaled" if found.settings else self.problem.name,
            settings=(*self.problem.settings, *found.settings),
            notes=(*self.problem.notes, *found.notes),
        )
        settings = (*self.choices.set, *found.settings)
        self._made_of = replace(self.choices, set=settings, scale_to=None)
        if found.machine != self.planned_for.machine:
            why = f"scaled down with the problem; {self.planned_for.why}"
            self.planned_for = PlannedMachine(found.machine, why)
            self._made_of = replace(self._made_of, plan_for=found.machine.label)
        self.network = self._resolved(phase)

    @functools.cached_property
    def workload(self) -> Workload:
        """Lowered on first use: `show` prints layers also where not all can be lowered.

        Raises:
            UnsupportedError: a layer has no kernels for a pass.
            UsageError, DamagedError: own values cannot be used.
        """
        made = own_values.with_values(self._lowered, self.values) if self.values else self._lowered
        if self.problem.kernel:
            from simgen.bundle import own_reference

            own_reference.check(self.problem.kernel, made)
        return made

    @functools.cached_property
    def samples(self) -> filling.Samples | None:
        """What the user's file of samples holds."""
        return filling.read_samples(filling.find(self.choices.data)) if self.choices.data else None

    @property
    def taken_for(self) -> tuple[str, ...]:
        """What the file of samples was taken for, if there is one."""
        return (
            (f"{one_line(self.choices.data or '')}: {self.samples.told}",) if self.samples else ()
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """What is to be said of the problem and its samples."""
        return (*self.problem.notes, *self.taken_for)

    @functools.cached_property
    def values(self) -> dict[str, NDArray[Any]]:
        """The user's own values of inputs, and what a model fixes."""
        words = (exact_values.WORD, own_values.MODEL)
        paths = [Path(word) for word in self.choices.values if word not in words]
        source, word = self.source, self.choices.data
        only = source.own or None if isinstance(source, Recipe) else None
        found = dict(self.constants)
        if self.samples and word:
            lowered = own_values.with_values(self._lowered, found)
            found |= filling.values(filling.find(word), self.samples, lowered)
        if own_values.MODEL in self.choices.values:
            name = self.problem.name
            found |= own_values.of_model(self.problem.parameters, name, self._lowered)
        found |= own_values.read_values(paths, self._lowered, only) if paths else {}
        if self.problem.kernel:
            from simgen.bundle import own_reference

            found |= own_reference.values(self.problem.kernel, self._lowered, found)
        return found

    @functools.cached_property
    def constants(self) -> Mapping[str, NDArray[Any]]:
        """What the model that this is made of fixes, by input."""
        return own_values.constants(self.problem.parameters or {}, self._lowered)

    @functools.cached_property
    def _lowered(self) -> Workload:
        choices = self.choices
        made = workload.lower(
            self.network,
            self.problem.name,
            self.problem.passes,
            choices.seed,
            descent=descent.parse_descent(choices.optimizer, choices.rate),
            steps=choices.steps or 1,
            loss_scale=1.0 if choices.loss_scale is None else choices.loss_scale,
            reuse_memory=choices.reuse_memory,
        )
        made = queues.scheduled(made, choices.queues or 1)
        return exact_values.with_exact_values(made) if exact_values.WORD in choices.values else made

    def provenance(self) -> dict[str, Any]:
        """What the manifest says of where the workload comes from."""
        source = self.source
        fixed = (name for name, each in self.constants.items() if self.values[name] is each)
        constants = source.constants if isinstance(source, Recipe) else tuple(fixed)
        return recipe.manifest_entries(self.problem, self._made_of, constants)

    def asked(self, path: Path) -> tuple[AskedWord, ...]:
        """What the manifest of its bundle at `path` keeps of the command that builds it."""
        return recipe.asked_words(self.source, self.choices, path)

    def for_targets(self, targets: Sequence[Target]) -> Plan:
        """The same for the machine of these targets, if the choices name none."""
        choices = self.choices
        found = planned_machine.choose(choices.plan_for, targets, choices.matrix)
        if found.machine == self.planned_for.machine:
            return self
        return Plan(self.source, self.choices, planned_for=found)

    def beside(self, path: Path) -> Plan:
        """The same as the bundle at `path` is planned, if that is of this very workload.

        So a target that is added executes the launches that the others do.
        """
        chosen = self.choices.plan_for or self.choices.matrix
        there = None if chosen else planned_machine.of_bundle(path)
        if there is None or there.machine == self.planned_for.machine:
            return self
        found = PlannedMachine(there.machine, f"{path} is planned for it")
        again = Plan(self.source, self.choices, planned_for=found)
        return again if again.workload == there else self

    def write(
        self,
        path: Path,
        targets: Sequence[Target],
        *,
        replace_results: bool = False,
        tell: Told | None = None,
    ) -> tuple[Bundle, Builder]:
        """Make the bundle at `path`, or add to it; also the builder, which knows what it compiled.

        Raises:
            UsageError, RefusedError, MissingError: as `simgen.bundle.writing.write`.
        """

        def planned_again() -> tuple[Bundle, Builder]:
            seen = writing.standing(path)
            return self.beside(path).make(
                path, targets, replace_results=replace_results, tell=tell, seen=seen
            )

        return writing.not_overtaken(path, planned_again)

    def make(
        self,
        path: Path,
        targets: Sequence[Target],
        *,
        replace_results: bool = False,
        cures: Cures = writing.OF_BUILD,
        tell: Told | None = None,
        seen: bytes | None = None,
    ) -> tuple[Bundle, Builder]:
        """As `write`, planned for this machine whatever the bundle there is planned for.

        `seen`: as `simgen.bundle.writing.write` has it.
        """
        for target in targets:
            place = f"{Destination.targets} {target.name}"
            sharding.check_enough(self.workload, target.sharing(), place)
        builder = Builder(cache.default(), about(tell, KERNELS))
        made = writing.write(
            path,
            self.workload,
            targets,
            builder,
            {**self.provenance(), recipe.ASKED: [asdict(each) for each in self.asked(path)]},
            about(tell, DATA),
            self.values,
            replace_results=replace_results,
            cures=cures,
            seen=seen,
        )
        built_here.remember(made, (target.name for target in targets))
        return made, builder


def _update_cure(choices: BuildChoices) -> str:
    """What makes a plan update weights, which a choice needs."""
    passes, training = BuildChoices.passes, BuildChoices.inference.off
    more = f"add sgd to {passes}" if choices.passes else f"add {training}"
    return f"{more}, or leave it out"


def _check_kernel(choices: BuildChoices, kernel: KernelFile) -> None:
    """Raises:
    UsageError: what is chosen is of layers.
    """
    any_kernel = {"set", "values", "seed", "plan_for", "matrix"}
    for choice, value in choices.given().items():
        if choice.name not in any_kernel:
            what = "layers" if choice is not BuildChoices.inference else "phases"
            fact = f"{kernel.source} has kernels of your own, and no {what}"
            raise UsageError(f"{choice.spelling(value)}: {fact}; leave it out")


def about(tell: Told | None, what: str) -> Callable[[int, int], None] | None:
    """`tell` for one kind of work."""
    return functools.partial(tell, what) if tell else None


def target_settings() -> dict[str, tuple[list[str], Field[Any]]]:
    """Name of a setting -> the targets that have it, and its field in the first of them."""
    found: dict[str, tuple[list[str], Field[Any]]] = {}
    for target in TARGETS.values():
        for each in fields(target):
            found.setdefault(each.name, ([], each))[0].append(target.name)
    return found


def chosen_targets(names: Sequence[str], settings: Mapping[str, Any]) -> list[Target]:
    """The targets, or the usual ones, each with the settings that it has.

    Raises:
        UsageError: there is no such target, or none of them has a setting or takes its value.
    """
    for name in names:
        if name not in TARGETS:
            cure = did_you_mean(name, usual_targets())
            raise UsageError(f"{Destination.targets} {name!r}: no such target; {cure}")
    names = tuple(dict.fromkeys(names)) or DEFAULT_TARGETS
    known = {name: {f.name for f in fields(TARGETS[name])} for name in names}
    everywhere = target_settings()
    for setting, value in settings.items():
        if setting not in everywhere:
            raise UsageError(
                f"{spelled(setting)}: not a setting of any target; "
                f"{did_you_mean(setting, everywhere)}"
            )
        if not any(setting in of_target for of_target in known.values()):
            raise UsageError(
                f"{spelled(setting, value)}: not an option of {_listed(names)}; "
                f"it belongs to {_listed(everywhere[setting][0])}"
            )
    read = {name: setting_of(everywhere[name][1], value) for name, value in settings.items()}
    return [
        TARGETS[name](**TARGETS[name].implied({k: v for k, v in read.items() if k in known[name]}))
        for name in names
    ]


def setting_of(field: Field[Any], value: Any) -> Any:
    """The value of a target's setting that `value`, or its text, is.

    Raises:
        UsageError: it is none.
    """
    try:
        return KINDS[type(field.default)].read(value)
    except ValueError as error:
        raise UsageError(f"{spelled(field.name)} {printable(str(value))}: {error}") from None


def _passes(text: str | None) -> list[Pass] | None:
    if text is None:
        return None
    for word in text.split(","):
        if word not in set(Pass):
            cure = did_you_mean(word, list(Pass))
            raise UsageError(f"{BuildChoices.passes} {word!r}: no such pass; {cure}")
    return [Pass(word) for word in text.split(",")]


def _phase(inference: bool | None) -> Phase | None:
    """What the choice of a phase says."""
    return None if inference is None else Phase.INFERENCE if inference else Phase.TRAINING


def _listed(names: Sequence[str]) -> str:
    """ "a, b and c"."""
    return " and ".join((", ".join(names[:-1]), names[-1])) if len(names) > 1 else names[0]
