"""What ends gem5 is found, form by form, and all others are seen: by a gem5 that is made up."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pytest

from simgen.errors import RefusedError
from simgen.targets.gem5.se import Gem5Se
from simgen_examine.conform import assembly, bundling, description
from simgen_examine.conform.assembly import Assembled
from simgen_examine.conform.forms import forms
from simgen_examine.conform.judging import Found
from simgen_examine.conform.movements import movements
from simgen_examine.conform.units import Units

if TYPE_CHECKING:
    from pathlib import Path

ARCH = "gfx902"
START = 0x7F00
FORMS = [form for form in forms(ARCH) if form.instruction.name in ("v_add_u32", "v_mov_b32")]
LOADS = [
    form
    for form in movements(ARCH, description.words(ARCH))
    if form.text.startswith("global_load_dword")
]


@dataclass
class Made:
    """A gem5 that ends at some forms: text -> (what its stack has, whether it is traced there)."""

    bad: dict[str, tuple[str, str]]
    written: list = field(default_factory=list)
    tried: list = field(default_factory=list)  # texts, of each run's units

    def write(self, _, of, *__) -> None:
        self.written.append(of)

    def run(self, path: Path, _: float) -> tuple[int, str]:
        of = self.written[-1]
        self.tried.append([[form.text for form in batch.forms] for batch in of.batches])
        for batch in of.batches:
            folder = path / "results" / "gem5-se" / batch.name
            folder.mkdir(parents=True, exist_ok=True)
            told, log = {"code": 0, "late": False, "seconds": 1.0}, ""
            for form, place in zip(batch.forms, batch.made.places, strict=True):
                if form.text in self.bad:
                    log, how = self.bad[form.text]
                    told["code"] = -6
                    if how == "exact":
                        last = START + place[0]
                        told |= {"start": START, "last": last, "waves": [last]}
                    elif how == "after":  # waits behind it; another wave is not there yet
                        waves = [START + place[2], START + place[3] - 4]
                        told |= {"start": START, "last": waves[0], "waves": waves}
                    else:
                        told["late"] = how == "late"
                    break
            (folder / "log.txt").write_text(log)
            (folder / "ended.json").write_text(json.dumps(told))
            np.zeros(batch.nbytes // 4, np.uint32).tofile(folder / "outputs.bin")
        return 0, ""


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    def found_of(made: Made, tried, known=None):
        monkeypatch.setattr(bundling, "write", made.write)
        said: list[str] = []
        target = Gem5Se(arch=ARCH, gem5_version="24.1")
        units = Units(target, ARCH, tried, made.run, 1.0, known or {}, said.append)
        seen = units.findings(tmp_path)
        assert [each.form for each in seen] == list(tried)
        return {(each.form.text, each.form.what): each for each in seen}, said

    return found_of


def _stack(word: str, more: str = "") -> str:
    return (
        "gem5.opt: operand.hh:313: Assertion `!scalar' failed.\n"
        f"build/gem5.opt({more}_ZN4gem57VegaISA21Inst_VOP3__{word}7executeESt10)\n"
    )


def _ended(seen) -> set[str]:
    return {text for (text, _), each in seen.items() if each.found is Found.ENDS}


def test_one_that_ends_it_is_found_and_all_others_are_seen(found):
    bad = next(f.text for f in FORMS if f.what == "e64, b scalar")
    made = Made({bad: (_stack("V_ADD_U32"), "exact")})
    seen, said = found(made, FORMS)
    mirrored = {f.text for f in FORMS if "row_half_mirror" in f.text}
    assert _ended(seen) == {bad}
    assert seen[bad, "e64, b scalar"].reason.startswith("Assertion `!scalar' failed; seen at v_")
    assert len(said) == 1
    # Alone, it was tried once; what the sources of gem5 are known to end at, from the first run on.
    assert len(made.tried) == 3
    assert sum([bad] == unit for run in made.tried for unit in run) == 1
    assert any(unit[0] in mirrored and len(unit) == 1 for unit in made.tried[0])


def test_a_control_ends_it_for_all_instructions_that_have_it(found):
    ending = {f.text for f in FORMS if f.what == "SDWA, to BYTE_1, UNUSED_PRESERVE"}
    assert len(ending) == 2
    made = Made(dict.fromkeys(ending, (_stack("V_MOV_B32", "processSDWA"), "exact")))
    seen, said = found(made, FORMS)
    assert _ended(seen) == ending
    assert len(said) == 1


def test_loads_whose_answer_ends_it_share_that_with_other_widths(found):
    ending = {f.text for f in LOADS if f.what == "offset -4096"}
    assert len(ending) == 4
    made = Made(dict.fromkeys(ending, ("panic: no such page\n", "after")))
    seen, said = found(made, LOADS)
    assert _ended(seen) == ending
    assert len(said) == 1
    assert all("no such page; seen at global_load" in seen[key].reason
               for key in seen if key[0] in ending)  # fmt: skip


def test_what_hangs_or_cannot_be_traced_is_found_in_smaller_parts(found):
    plain = [form for form in FORMS if form.what.startswith("e")]
    hangs, dies = plain[3].text, plain[-2].text
    seen, _ = found(Made({hangs: ("", "late"), dies: ("fatal: dead", "untraced")}), plain)
    assert _ended(seen) == {hangs, dies}
    reasons = {each.reason.partition(";")[0] for each in seen.values() if each.reason}
    assert reasons == {"it hangs", "fatal: dead"}


def test_one_that_it_has_no_code_for_speaks_for_its_instruction(found):
    lacking = [form for form in FORMS if form.mnemonic == "v_add_u32_e64"]
    log = "fatal: Encountered unimplemented VEGA instruction: v_add_u32\n"
    seen, _ = found(Made(dict.fromkeys((f.text for f in lacking), (log, "after"))), FORMS)
    kinds = {text: each.found for (text, _), each in seen.items()}
    assert all(kinds[form.text] is Found.MISSING for form in lacking)
    others = {kind for text, kind in kinds.items() if text not in {f.text for f in lacking}}
    assert others <= {Found.RIGHT, Found.WRONG}


def test_what_is_known_is_not_tried(found):
    known = {0: (Found.MISSING, "known")}
    made = Made({})
    seen, _ = found(made, FORMS[:4], known)
    assert seen[FORMS[0].text, FORMS[0].what].found is Found.MISSING
    assert [len(unit) for unit in made.tried[0]] == [3]


@pytest.mark.parametrize("most", [10**6, 20])
def test_forms_that_are_not_taken_are_found_one_by_one(monkeypatch, most):
    """Whether the reason names the instruction or not, and where too many are refused at once."""
    held: dict[bytes, tuple] = {}

    def assembled(blocks, _) -> Assembled:
        code = f"{len(held)}".encode()
        held[code] = blocks
        return Assembled(code, (), ())

    def change(name: str, code: bytes) -> bytes:
        for form in held[code]:
            if form.text in bad:
                named = form.mnemonic if form.what.startswith("SDWA") else "something"
                raise RefusedError(f"kernel {name}: {named}: no rule")
        if len(held[code]) > most:
            raise RefusedError(f"kernel {name}: too many registers")
        return code

    monkeypatch.setattr(assembly, "assembled", assembled)
    bad = {f.text for f in FORMS if f.what.startswith("SDWA, to BYTE_1") or f.what == "e64, clamp"}
    groups = bundling.groups(FORMS)
    kept, refused = bundling.accepted_groups(groups, ARCH, change)
    assert {form.text for form, _ in refused} == bad
    assert {why for _, why in refused} == {
        f"{name}: no rule" for name in ("v_add_u32_sdwa", "v_mov_b32_sdwa", "something")
    }
    left = sorted(form.text for form in FORMS if form.text not in bad)
    assert sorted(form.text for group in kept for form in group) == left
    assert max(map(len, kept)) <= most
    assert (len(kept) == len(groups)) is (most > 20)


def test_units_that_are_too_much_at_once_are_halved(found, monkeypatch):
    made = Made({})

    def change(self, name: str, code: bytes) -> bytes:
        if len(code) > 6000:
            raise RefusedError(f"kernel {name}: too many registers")
        return code

    monkeypatch.setattr(Units, "change", change)
    found(made, FORMS)
    units = [len(batch.made.code) for of in made.written for batch in of.batches]
    assert max(units) <= 6000
    assert sum(map(len, made.tried[0])) > 2  # one, and what waits for it
