"""What the commands that examine simulators and code, `rates` and `export` are asked for."""

from __future__ import annotations

from dataclasses import KW_ONLY  # noqa: TC003 - dataclasses look for it
from typing import TYPE_CHECKING

from simgen.ask.choice import Asked, asking, choice
from simgen.ask.kinds import Flag, Options, Path, Real, ValueKind, Whole

if TYPE_CHECKING:
    from simgen.ask.build import Count, FileOrNone, Number, Text, YesNo
    from simgen.ask.run import OptionsOf


# fmt: off
@asking
class ConformChoices(Asked):
    """Which instructions are tried, and on what."""

    on: Text = choice("--on", ValueKind("T"), "", completes="examined", text=
        "Target: mgpusim, gem5-se, gpgpusim or cuda; mgpusim@FOLDER or gem5-se@FOLDER is the build "
        "in a checkout.")
    _: KW_ONLY
    arch: Text = choice("--arch", ValueKind("A"), "", completes="archs", text=
        "GPU [default: the target's].")
    mode: Text = choice("--mode", ValueKind("M"), "", completes="modes", text=
        "mgpusim: emu or timing; gpgpusim: functional or timing [default: the first].")
    gem5_version: Text = choice(
        "--gem5-version", ValueKind("V"), "", completes="gem5_versions", text=
        "Version of gem5 [default: 24.1].")
    only: Text = choice("--only", ValueKind("RE"), "", text=
        "Try only forms whose text matches, such as v_fma.")
    all: YesNo = choice("--all", Flag(), False, text=
        "gem5: also try forms that its sources lack (slow).")
    legalised: YesNo = choice("--legalised", Flag(), False, text=
        "Try legalise's replacements of the forms; forms that it refuses are reported.")
    timeout: Number = choice("--timeout", Real("SECONDS", 0, above=True), text=
        "Time limit: seconds per run; on gem5, CPU seconds per kernel [default: 120]; for PTX, "
        "seconds per kernel [default: 10].")
    output: FileOrNone = choice("-o", Path("DIR"), text=
        "Write page.md, findings.json and a table for lint to DIR.")
    against: FileOrNone = choice("--against", Path("FILE"), text=
        "findings.json of an earlier build: only what is worse now gives exit code 6.")

    def command(self) -> list[str]:
        """The words of the command that tries the same."""
        return ["simgen", "conform", *self.words()]


@asking
class BisectChoices(Asked):
    """What two targets, or two builds of a simulator, run."""

    _: KW_ONLY
    code: Text = choice("--code", ValueKind("T"), "", completes="targets", text=
        "Architecture of the code objects that both run [default: mgpusim's, else A's].")
    ulps: Count = choice("--ulps", Whole("N", 0, 2**20), 0, text=
        "Words that differ by at most this are equal [default: 0].")


@asking
class SimulatorChoice(Asked):
    """The simulator that code is for."""

    simulator: Text = choice(
        "--simulator", ValueKind("S[@V]"), "", also="-s", completes="simulators", text=
        "Simulator: gem5@24.0, mgpusim@4.2.0, ...; without a version, the newest known one.")
    _: KW_ONLY
    arch: Text = choice("--arch", ValueKind("A"), "", completes="archs", text=
        "Processor of assembly that names none.")


@asking
class LintChoices(SimulatorChoice):
    """What code is checked for."""

    _: KW_ONLY
    table: Text = choice("--table", Path("FILE"), "", completes="files", text=
        "Instead of a simulator: lint.json of `simgen conform -o`.")


@asking
class LegaliseChoices(SimulatorChoice):
    """What code is rewritten for."""

    _: KW_ONLY
    dynamic_lds: Count = choice("--dynamic-lds", Whole("BYTES", 0, 2**16), text=
        "Largest LDS size that launches request in addition to what kernels declare.")
    output: FileOrNone = choice("-o", Path("OUT"), also="--output", text=
        "Code object to write; - is stdout.")


@asking
class RatesChoices(Asked):
    """What machine is measured."""

    options: OptionsOf = choice("", Options(), {}, text="Run options of the target, by name.")
    _: KW_ONLY
    arch: Text = choice("--arch", ValueKind("A"), "", completes="archs", text=
        "GPU [default: the target's].")
    timeout: Number = choice("--timeout", Real("SECONDS", 0, above=True), text=
        "Stop the run after this time.")


@asking
class ExportChoices(Asked):
    """What is exported."""

    form: Text = choice("--as", ValueKind("FORMAT"), "", completes="exports", text=
        "Format; see `simgen list exports`.")
    output: FileOrNone = choice("-o", Path("PATH"), also="--output", text=
        "File or folder to write, which must not exist; - is stdout.")
    _: KW_ONLY
    result: Text = choice("--result", ValueKind("R"), completes="baselines", text=
        "Result to export: a target, or a point of a sweep. [default: the only one; for csv and "
        "parquet, all]")
    model: Text = choice("--model", ValueKind("K=N,..."), completes="model_facts", text=
        "latency: facts about the model that its layers do not show, for Vidur: "
        "n_head=32,n_kv_head=32,vocab_size=32768.")
# fmt: on
