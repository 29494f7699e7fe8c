"""What `simgen run` is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, replace
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from simgen.ask.choice import Asked, ChoiceField, asking, choice
from simgen.ask.kinds import (
    Flag,
    NameList,
    Options,
    Path,
    Real,
    Share,
    Texts,
    ValueKind,
    Whole,
    Word,
)
from simgen.errors import UsageError

if TYPE_CHECKING:
    from simgen.ask.build import Count, FileOrNone, NamesOf, Number, Text, Words, YesNo

OptionsOf: TypeAlias = ChoiceField[Mapping[str, str | int] | None, Mapping[str, str | int]]
PREVIOUS, NONE = "previous", "none"  # what fills the caches of a piece


# fmt: off
@asking
class RunChoices(Asked):
    """How a bundle is run."""

    target: Text = choice("--on", ValueKind("T"), completes="targets", text=
        "The target. [default: the first that can run here]")
    _: KW_ONLY
    options: OptionsOf = choice("", Options(), {}, text=
        "Options of the target, by their names, as num_compute_units=8.")
    timeout: Number = choice("--timeout", Real("SECONDS", 0, above=True), text=
        "End the run after this time.")
    replace: YesNo = choice("--replace", Flag(), False, text=
        "Run it anew where a run with the same options has a result, which goes when this one is "
        "whole; of a sweep, all points.")
    layers: NamesOf = choice("--layers", NameList("L"), completes="layers", text=
        "Run only these layers: conv1..pool1, or layers separated by commas.")
    inputs: FileOrNone = choice("--inputs", Path("R"), text=
        "Take the inputs of these layers from a target that has run, a results.h5, or "
        "`reference`. [default: this target's result, or else the reference]")
    representatives: YesNo = choice("--representatives", Flag(), False, text=
        "Simulate only the first of launches that are alike; the others get its figures.")
    jobs: Count = choice("--jobs", Whole("N", 1), text=
        "Simulate pieces of the network side by side, N at a time, each from the reference's "
        "tensors.")
    warm: Text = choice("--warm", Word("", (PREVIOUS, NONE)), text=
        "What fills the caches of such a piece: the layer before it, which runs first and is not "
        "counted, or nothing. [default: previous]")
    sample: Number = choice("--sample", Share(), text=
        "Simulate about this part of the work-groups of each launch that has enough, and "
        "extrapolate its figures.")
    scale_model: Count = choice("--scale-model", Whole("K", 2), text=
        "Simulate a K-th of the work-groups of each launch on a K-th of the machine: of its "
        "compute units, banks of L2 and memory.")
    resume: YesNo = choice("--resume", Flag(), False, text=
        "Continue a stopped run after its last finished layer.")

    def __post_init__(self) -> None:
        """
        Raises:
            UsageError: they do not go together.
        """
        run = RunChoices
        if self.scale_model and self.warm:
            raise UsageError(f"{run.warm}: {run.scale_model} fills the caches by itself; leave it "
                             "out")  # fmt: skip
        if self.scale_model and self.sample:
            raise UsageError(f"{run.scale_model}: it is a sample by itself; leave out {run.sample}")
        if self.warm and not self.by_pieces:
            raise UsageError(
                f"{run.warm}: a run of the whole network has the caches that it has; leave it out, "
                f"or add {run.representatives}, {run.sample} or {run.jobs}"
            )
        if self.by_pieces and (self.resume or self.inputs):
            raise UsageError(
                f"{run.resume if self.resume else run.inputs}: a run by pieces has the inputs of "
                "the reference, and goes on by itself; leave it out, or leave out "
                f"{run.representatives}, {run.jobs}, {run.sample} and {run.scale_model}"
            )
        if self.inputs and not self.layers:
            raise UsageError(
                f"{run.inputs}: the whole network reads from the data file; add {run.layers}"
            )
        if self.inputs and self.resume:
            raise UsageError(f"{run.inputs}: the stopped run has its inputs; leave it out")

    @property
    def by_pieces(self) -> ChoiceField[Any, Any] | None:
        """The first of the choices that have it run by pieces; None: it runs whole."""
        run = RunChoices
        cuts = (run.representatives, run.scale_model, run.sample, run.jobs)
        return next((each for each in cuts if getattr(self, each.name)), None)

    @property
    def lasting(self) -> Self:
        """What a result is of, without what only says how this run gets there."""
        return replace(self, timeout=None, replace=False, resume=False)


@asking
class RunCommand(RunChoices):
    """What the command `simgen run` takes more."""

    _: KW_ONLY
    grid: Words = choice("--sweep", Texts("O=V,V..."), (), completes="axes", text=
        "Run at each of several values of an option below, or of a setting of the build (n, algo, "
        "conv1.n), which are built beside BUNDLE; repeat it for all combinations.")
    again: YesNo = choice("--again", Flag(), False, text="Of a sweep: as {replace}.")
    unless_done: YesNo = choice("--unless-done", Flag(), False, text=
        "Do nothing where a run with the same options has a result.")
    piece: Count = choice("--piece", Whole("K", 1), text=
        "Simulate only this piece of {representatives} or {jobs}, from 1 on, and keep it, as jobs "
        "of a cluster do; the command without {piece} makes the result.")

    def __post_init__(self) -> None:
        super().__post_init__()
        run = RunCommand
        if self.grid and self.layers is not None and not self.by_pieces:
            raise UsageError(
                f"{run.layers}: a sweep runs the whole network; leave out {run.layers} or "
                f"{run.grid}, or add {run.representatives} or {run.jobs}"
            )
        if self.again and not self.grid:
            raise UsageError(f"{run.again}: it is for {run.grid}; write {run.replace}")
        if (self.again or self.replace) and self.unless_done:
            raise UsageError(
                f"{run.unless_done}: {run.replace} asks for the opposite; leave one out"
            )


@asking
class JobChoices(Asked):
    """How runs become jobs of a cluster."""

    _: KW_ONLY
    executor: Text = choice("--executor", ValueKind("E"), text=
        "Have Snakemake run it as jobs: local, slurm, kubernetes, or another of its executor "
        "plugins.")
    profile: Text = choice("--profile", ValueKind("P"), text=
        "A profile of Snakemake's, with options of your cluster: a name, or a folder.")
    container: Text = choice("--container", ValueKind("IMAGE"), text=
        "Run the jobs in this image, such as docker://you/simgen: with Apptainer, or as pods.")
    workflow_only: YesNo = choice("--workflow-only", Flag(), False, text=
        "Write the workflow, and start nothing.")
# fmt: on
