"""Whole divisions, as compilers write them: what they have to give, and how they are told."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from simgen.targets.gem5.se import Gem5Se
from simgen.targets.roles import File
from simgen_examine.conform import assembly, bundling, lint_table, values
from simgen_examine.conform.catalogue import catalogue
from simgen_examine.conform.description import SEQUENCE
from simgen_examine.conform.forms import forms
from simgen_examine.conform.judging import Found, judged
from simgen_examine.conform.page import MOST_LINES, Told, reproducer

ARCHITECTURES = ("gfx803", "gfx902", "gfx90a", "gfx942")
KINDS = {"v_div_fixup_f32": np.float32, "v_div_fixup_f64": np.float64}


def divisions(arch: str):
    found = [each for each in catalogue(arch) if each.instruction.format == SEQUENCE]
    return {each.mnemonic: each for each in found}


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_quotients_are_rounded_once(arch: str):
    assert set(divisions(arch)) == set(KINDS)
    for name, form in divisions(arch).items():
        given = bundling.tried(form.signature, form.scalar)
        count = np.dtype(KINDS[name]).itemsize // 4
        a, b = (np.ascontiguousarray(given[n, :count].T).view(KINDS[name])[:, 0] for n in range(2))
        with np.errstate(all="ignore"):
            quotient = a / b
        words = np.ascontiguousarray(quotient).view(np.uint32).reshape(-1, count).T
        assert judged(form, words).found is Found.RIGHT
        least = np.finfo(KINDS[name]).tiny
        subnormal = (quotient != 0) & (np.abs(quotient) < least)
        flushed = np.where(subnormal, 0, quotient).astype(KINDS[name])
        words = np.ascontiguousarray(flushed).view(np.uint32).reshape(-1, count).T
        seen = judged(form, words)
        assert seen.found is Found.WRONG
        assert seen.wrong == subnormal.sum() > 10
        assert len(reproducer(seen)) <= MOST_LINES + 1  # with what came out of it
        told = Told("", arch, (seen,), 0.0)
        (table,) = lint_table.rows(told, "gem5", "24.1")["tables"]
        assert not table["wrong"]  # no instruction of them is known to be to blame
        assert not table["edges"]


def test_what_a_quotient_is_made_of_comes_before_it():
    form = divisions("gfx902")["v_div_fixup_f64"]
    lines = assembly.text("k", [form], "gfx902").splitlines()
    at = lines.index(form.text)
    assert sum(line.startswith("v_div_scale_f64") for line in lines[:at]) == 2
    assert lines[at - 1].startswith(".Lfrom")


def test_a_probe_gives_scalar_forms_rows_and_vector_forms_columns(tmp_path, monkeypatch):
    """A vector form's sources lie word by word, each over all lanes; a scalar form's sources lie
    beside each other, in 8 words. Programs may be executed, and other files may not."""
    made = SimpleNamespace(places=())
    monkeypatch.setattr(assembly, "assembled", lambda *_: made)
    found = list(forms("gfx902"))
    vector = next(form for form in found if form.mnemonic == "v_add_u32_e32")
    scalar = next(form for form in found if form.mnemonic == "s_add_u32" and form.scalar)
    probed = bundling.batched([(vector,), (scalar,)], "gfx902")
    words = values.tuples(vector.signature)
    first = probed.given[: words.size].view(np.uint32).reshape(words.shape)
    assert (first == words).all()
    words = values.tuples(scalar.signature)
    rows = probed.given[first.size :].view(np.uint32).reshape(-1, 8)
    assert (rows[:, 0] == words[0, 0]).all()
    assert (rows[:, 2] == words[1, 0]).all()
    assert (rows[:, 4] == (np.arange(len(rows)) % 3 == 0)).all()

    package = SimpleNamespace(
        folder=lambda job, builder: {"run.sh": File(b"run", executable=True), "data": File(b"0")}
    )
    bundling.write(tmp_path, probed, Gem5Se(), {}, package)
    held = {each.name: each.stat().st_mode & 0o100 for each in (tmp_path / "gem5-se").iterdir()}
    assert held == {"run.sh": 0o100, "data": 0, "probe.json": 0}
