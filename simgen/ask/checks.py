"""What `simgen conform`, `simgen bisect`, `simgen lint` and `simgen legalise` are asked for."""

from __future__ import annotations

from dataclasses import KW_ONLY  # noqa: TC003 - dataclasses look for it
from typing import TYPE_CHECKING

from simgen.ask.choice import Asked, asking, choice
from simgen.ask.kinds import Flag, ValueKind

if TYPE_CHECKING:
    from simgen.ask.build import Text, YesNo


# fmt: off
@asking
class ConformChoices(Asked):
    """Which instructions are tried, and on what."""

    _: KW_ONLY
    on: Text = choice("--on", ValueKind("T"), "", text=
        "Target: mgpusim, gem5-se, gpgpusim or cuda.")
    arch: Text = choice("--arch", ValueKind("A"), "", text="GPU [default: the target's].")
    mode: Text = choice("--mode", ValueKind("M"), "", text=
        "mgpusim: emu or timing; gpgpusim: functional or timing [default: the first].")
    gem5_version: Text = choice("--gem5-version", ValueKind("V"), "", text=
        "Version of gem5 [default: 24.1].")
    only: Text = choice("--only", ValueKind("RE"), "", text=
        "Try only forms whose text matches, such as v_fma.")
    all: YesNo = choice("--all", Flag(), False, text=
        "gem5: also try forms that its sources lack (slow).")
    legalised: YesNo = choice("--legalised", Flag(), False, text=
        "Try legalise's replacements of the forms; forms that it refuses are reported.")

    def command(self) -> list[str]:
        """The words of the command that tries the same."""
        return ["simgen", "conform", *self.words()]


@asking
class BisectChoices(Asked):
    """What two targets run."""

    _: KW_ONLY
    code: Text = choice("--code", ValueKind("T"), "", text=
        "Architecture of the code objects that both run [default: mgpusim's, else A's].")


@asking
class SimulatorChoice(Asked):
    """The simulator that code is for."""

    _: KW_ONLY
    simulator: Text = choice("--simulator", ValueKind("S[@V]"), "", also="-s", text=
        "Simulator: gem5@24.0, mgpusim@4.2.0, ...; without a version, the newest known one.")
# fmt: on
