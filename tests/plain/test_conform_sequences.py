"""Whole divisions, as compilers write them: what they have to give, and how they are told."""

from __future__ import annotations

import numpy as np
import pytest

from simgen_examine.conform import assembly, bundling, lint_table
from simgen_examine.conform.catalogue import catalogue
from simgen_examine.conform.description import SEQUENCE
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
