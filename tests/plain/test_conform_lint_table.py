"""What the probe has seen, as a table that lint reads."""

from __future__ import annotations

import json

import pytest
from command_line import fails

from simgen.isa import toolchain
from simgen.isa.legalise import facts
from simgen.isa.lint import linting
from simgen.isa.lint.containers import Held
from simgen_examine.conform import lint_table, probe
from simgen_examine.conform.forms import forms
from simgen_examine.conform.judging import Found, Seen
from simgen_examine.conform.page import Told

ARCH = "gfx902"


def seen(form) -> Seen:
    """Of a simulator that lacks v_bfi_b32, dies of row_half_mirror, takes e64 subtractions for
    additions, ignores clamp, and is wrong for a few values of v_rcp_f32."""
    word, text = form.mnemonic, form.text
    if word == "v_bfi_b32":
        return Seen(form, Found.MISSING, "no such opcode")
    if "row_half_mirror" in text:
        return Seen(form, Found.ENDS, "assertion")
    if word == "v_sub_f32_e64" or " clamp" in text:
        return Seen(form, Found.WRONG, "", 900, 1024)
    if word == "v_rcp_f32_e32":
        return Seen(form, Found.WRONG, "", 7, 1024)
    return Seen(form, Found.RIGHT, lanes=1024)


@pytest.fixture(name="made", scope="module")
def _made() -> dict:
    chosen = [each for each in forms(ARCH) if each.instruction.name in (
        "v_bfi_b32", "v_add_f32", "v_sub_f32", "v_rcp_f32", "v_mul_f32", "s_add_u32")]  # fmt: skip
    findings = tuple(seen(each) for each in chosen)
    told = Told("gem5 (as 99.0)", ARCH, findings, 1.0)
    return json.loads(json.dumps(lint_table.rows(told, "gem5", "99.0")))


def test_what_was_seen_has_its_place(made):
    (table,) = made["tables"]
    assert table["architectures"] == [ARCH]
    assert table["ends"] == ["v_bfi_b32"]
    assert not table["half_mirror"]
    assert set(table["wrong"]) == {"v_sub_f32_e64"}
    assert table["wrong"]["v_sub_f32_e64"].startswith("900 of 1024 tuples of values differ in ")
    # Of forms by DPP, one ends: few of them.
    assert "v_rcp_f32_e32" in table["edges"]
    assert "ends the simulation" in table["edges"]["v_add_f32_dpp"]
    assert set(table["ignores"]) == {"clamp"}
    assert {"v_add_f32_e64", "v_mul_f32_e64"} <= set(table["ignores"]["clamp"])
    assert "v_sub_f32_e64" not in table["ignores"]["clamp"], "it is wrong without, too"


CASES = {
    "v_bfi_b32 v0, v1, v2, v3": "ends",
    "v_add_f32_e64 v0, v1, v2 clamp": "wrong",
    "v_add_f32_e64 v0, v1, -v2": "",
    "v_sub_f32_e64 v0, v1, v2": "wrong",
    "v_rcp_f32_e32 v0, v1": "edges",
    "v_add_f32_dpp v0, v1, v2 row_half_mirror row_mask:0xf bank_mask:0xf": "ends",
    "v_mul_f32_e32 v0, v1, v2": "",
}


def test_lint_reads_it(made, tmp_path):
    path = tmp_path / "lint.json"
    path.write_text(json.dumps(made))
    own = facts.own(path)
    head = f'.amdgcn_target "amdgcn-amd-amdhsa--{ARCH}"\n.type f,@function\nf:\n'
    text = head + "\n".join(CASES) + "\n.size f, .-f\n"
    code = toolchain.assemble_foreign(text, ARCH, "f.s")
    (looked,) = linting.code_objects([Held(path, "", code)], own.simulator, own.version, own)
    found = {each.instruction.split()[0]: each.verdict for each in looked.findings}
    wanted = [(line.split()[0], verdict) for line, verdict in CASES.items() if verdict]
    assert [(each.instruction.split()[0], each.verdict) for each in looked.findings] == wanted
    assert found["v_rcp_f32_e32"] == "edges"
    (other,) = linting.code_objects(
        [Held(path, "", toolchain.assemble_foreign(text.replace(ARCH, "gfx90a"), "gfx90a", "f.s"))],
        own.simulator, own.version, own,
    )  # fmt: skip
    assert other.skipped == "the table has nothing of gfx90a"


def test_the_command(made, tmp_path, simgen):
    path, kernel = tmp_path / "lint.json", tmp_path / "k.s"
    path.write_text(json.dumps(made))
    kernel.write_text(f'.amdgcn_target "amdgcn-amd-amdhsa--{ARCH}"\n.type f,@function\nf:\n'
                      "v_bfi_b32 v0, v1, v2, v3\n.size f, .-f\n")  # fmt: skip
    said = "gem5 99.0 does not execute 1 instructions right"
    fails(simgen("lint k.s --table lint.json -q"), 4, said)
    for words in ("", " --table lint.json --simulator gem5"):
        fails(simgen(f"lint k.s{words}"), 2, "take one of --simulator")
    path.write_text('{"simulator": "gem5"}')
    fails(simgen("lint k.s --table lint.json"), 7, "no table of lint")


def test_the_reason_of_mgpusim_is_what_stands_in_brackets():
    assert probe._reason("panic: Opcode 7 (v_foo) not implemented") == "v_foo"
    assert probe._reason("signal: killed") == "signal: killed"
