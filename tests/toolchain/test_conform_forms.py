"""Every form of an instruction is one that the assembler takes, and is told where it lies."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from simgen.isa import code_object
from simgen_examine.conform import assembly, bundling, description
from simgen_examine.conform.catalogue import catalogue
from simgen_examine.conform.float_mode import USUAL, FloatMode
from simgen_examine.conform.forms import forms
from simgen_examine.conform.ids import ids
from simgen_examine.conform.scalar_memory import scalar_stores

ARCHITECTURES = ("gfx803", "gfx902", "gfx90a", "gfx942")


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_the_assembler_takes_every_form(arch: str):
    groups: dict[tuple[bool, FloatMode], list] = {}
    for form in catalogue(arch):
        if form.shape:
            continue  # kernels of their own, below
        groups.setdefault((form.scalar, form.mode), []).append(form)
    for members in groups.values():
        made = assembly.assembled(members, arch)
        assert len(made.places) == len(members)
        ends = [(at, at + nbytes) for at, nbytes, *_ in made.places]
        assert all(end <= start for (_, end), (start, _) in itertools.pairwise(ends))


def test_a_scalar_store_is_left_out_with_what_writes_it_back():
    form = next(iter(scalar_stores("gfx902", description.words("gfx902"))))
    made = assembly.assembled([form], "gfx902")
    ((_, nbytes, *_),) = made.places
    assert (nbytes, made.together) == (8, (8 + 4 + 8,))
    code = assembly.without(made, [0], assembly.name_of([form], "gfx902"))
    changed = [n for n, (a, b) in enumerate(zip(code, made.code, strict=True)) if a != b]
    assert 12 < changed[-1] - changed[0] < 20
    words = np.frombuffer(code, np.uint32)[changed[0] // 4 :][:5]
    assert set(words.tolist()) == {0xBF800000}, "s_nop"


def test_an_instruction_that_sets_a_mode_is_left_out_with_what_shows_it():
    form = next(each for each in catalogue("gfx902") if each.mnemonic == "s_setreg_b32")
    made = assembly.assembled([form], "gfx902")
    ((_, nbytes, *_),) = made.places
    assert (nbytes, made.together) == (4, (4 + 4 + 4 + 8 + 4,))  # s_nop, v_add, back, s_nop


def test_a_form_that_is_left_out_is_the_one_that_is_named():
    chosen = [form for form in forms("gfx942") if form.instruction.name == "v_add_f32"]
    probe = bundling.probe([form for form in chosen if form.mode == USUAL], "gfx942")
    (batch,) = probe.batches
    _, nbytes, *_ = batch.made.places[3]
    code = assembly.without(batch.made, [3], batch.name)
    changed = [n for n, (a, b) in enumerate(zip(code, batch.made.code, strict=True)) if a != b]
    assert changed
    assert changed[-1] - changed[0] < nbytes
    # The number of its instruction leads back to it.
    lines = assembly.text("k", batch.forms, "gfx942").split("k:\n", 1)[1].splitlines()
    real = [line for line in lines if not line.startswith((";", "."))]
    number = real.index(batch.forms[3].text)
    assert assembly.number_of(batch.forms, "gfx942", number) == 3
    assert assembly.number_of(batch.forms, "gfx942", number + 1) is None


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_every_shape_of_ids_is_a_kernel_that_asks_for_them(arch: str):
    made = bundling.probe(tuple(ids()), arch)
    assert len({batch.shape for batch in made.batches}) == len(made.batches) == len(tuple(ids()))
    planned = bundling.workload(made)
    for batch, launch in zip(made.batches, planned.launches, strict=True):
        (form,) = batch.forms
        assert planned.kernel(batch.name).extents == batch.shape.group
        assert launch.grid == batch.shape.grid
        # compute_pgm_rsrc2: which ids of work-groups, and of how many dimensions of work-items
        at = code_object.kernels(batch.made.code)[batch.name].descriptor_offset
        image = code_object.memory_image(batch.made.code)
        rsrc2 = code_object.DESCRIPTOR.unpack_from(image, at)[6]
        assert [bool(rsrc2 >> 7 + n & 1) for n in range(3)] == [a in batch.shape.ids for a in "xyz"]
        dimensions = max(n + 1 for n in range(3) if n == 0 or batch.shape.group[n] > 1)
        assert rsrc2 >> 11 & 3 == dimensions - 1
        assert form.mnemonic == "ids"
