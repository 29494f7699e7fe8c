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
        "Target to run on. [default: the first that can run here]")
    _: KW_ONLY
    options: OptionsOf = choice("", Options(), {}, text=
        "Options of the target by name, such as num_compute_units=8.")
    timeout: Number = choice("--timeout", Real("SECONDS", 0, above=True), text=
        "Stop the run after this time.")
    replace: YesNo = choice("--replace", Flag(), False, text=
        "Run again even if a result with the same options exists. The old result is removed "
        "once the new one is complete. In a sweep: all points.")
    layers: NamesOf = choice("--layers", NameList("L"), completes="layers", text=
        "Run only these layers: a range such as conv1..pool1, or names separated by commas.")
    inputs: FileOrNone = choice("--inputs", Path("R"), completes="inputs", text=
        "Source of these layers' inputs: a target that has run, a results.h5, or `reference`. "
        "[default: this target's result, or else the reference]")
    representatives: YesNo = choice("--representatives", Flag(), False, text=
        "Simulate only the first of several equal launches; the others get its figures.")
    jobs: Count = choice("--jobs", Whole("N", 1), text=
        "Split the network into pieces and simulate N of them at a time. Each piece starts from "
        "the reference's tensors.")
    warm: Text = choice("--warm", Word("", (PREVIOUS, NONE)), text=
        "Warm-up of each piece: previous = run the layer before it, uncounted; none = start "
        "with empty caches. [default: previous]")
    sample: Number = choice("--sample", Share(), text=
        "Simulate about P% of the work-groups of each large launch, and extrapolate its figures.")
    scale_model: Count = choice("--scale-model", Whole("K", 2), text=
        "Simulate 1/K of each launch's work-groups on 1/K of the machine (compute units, L2 "
        "banks, memory).")
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
        "Run once per value of a run option below, or of a build setting (n, algo, conv1.n). "
        "Settings are built beside BUNDLE. Repeat it for all combinations.")
    again: YesNo = choice("--again", Flag(), False, text="In a sweep, same as {replace}.")
    dry_run: YesNo = choice("--dry-run", Flag(), False, text=
        "In a sweep, print its points and run nothing.")
    unless_done: YesNo = choice("--unless-done", Flag(), False, text=
        "Do nothing if a result with the same options exists.")
    piece: Count = choice("--piece", Whole("K", 1), text=
        "Simulate and keep only piece K (from 1) of {representatives} or {jobs}, as cluster "
        "jobs do. Run again without {piece} to assemble the result.")

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
        if self.dry_run and not self.grid:
            raise UsageError(f"{run.dry_run}: it is for {run.grid}; leave it out")
        if (self.again or self.replace) and self.unless_done:
            raise UsageError(
                f"{run.unless_done}: {run.replace} asks for the opposite; leave one out"
            )


@asking
class JobChoices(Asked):
    """How runs become jobs of a cluster."""

    _: KW_ONLY
    executor: Text = choice("--executor", ValueKind("E"), completes="executors", text=
        "Run as Snakemake jobs: local, slurm, or another executor plugin whose jobs share folders.")
    profile: Text = choice("--profile", ValueKind("P"), completes="files", text=
        "Snakemake profile with your cluster's options: a name or a folder.")
    container: Text = choice("--container", ValueKind("IMAGE"), text=
        "Run the jobs in this container image, such as docker://you/simgen, with Apptainer or "
        "as pods.")
    workflow_only: YesNo = choice("--workflow-only", Flag(), False, text=
        "Write the workflow without starting it.")
# fmt: on
