"""Kernels for a simulator that lacks instructions: built, refused, and told where in the source."""

from __future__ import annotations

import json
import re
from functools import partial
from typing import TYPE_CHECKING

import pytest
from layer_variants import small_problems

from simgen.errors import RefusedError
from simgen.frontend import network, problem
from simgen.ground.ir import Buffer, Kernel, Launch, Pass, Role, Step, TensorSpec, Workload
from simgen.isa import legalise, toolchain
from simgen.isa.legalise import Model, simulators
from simgen.isa.legalise.assembly import Instruction, parse
from simgen.isa.legalise.table import RULES
from simgen.kernels import render, source_line
from simgen.kernels.build import Builder
from simgen.kernels.cache import Cache
from simgen.targets import replaced
from simgen.targets.mgpusim import legalised
from simgen.targets.mgpusim.target import model
from simgen.workload import lowering
from simgen_examine.conform.forms import forms

if TYPE_CHECKING:
    from pathlib import Path

SPEC = TensorSpec((64,))
WORKLOAD = Workload(
    "one",
    0,
    (),
    (Buffer("a.x", SPEC, Role.INPUT, 0), Buffer("a.y", SPEC, Role.OUTPUT, 8192)),
    (Kernel("one", "one.hip", 64),),
    (Step("a", Pass.FORWARD, (), (), (Launch("one", (1, 1, 1), ("a.x", "a.y")),)),),
    16384,
    8192,
)
SOURCE = """\
/* One kernel. */
#include "prelude.h"

static __device__ __forceinline__ float step(float x)
{{
    return {step};
}}

extern "C" __global__ __launch_bounds__(64) void one(const float* x, float* y)
{{
    {body}
    y[threadIdx.x] = step(x[threadIdx.x]);
}}
"""
GOOD = SOURCE.format(step="maximum(x, 1.0f)", body="")
BAD = SOURCE.format(
    step="maximum(x, 1.0f)",
    body='unsigned item = threadIdx.x; asm volatile("ds_inc_u64 %0, %1" : : "v"(item), "v"(0ull));',
)


def build(place: Path, source: str, *, replace: bool = True) -> legalised.Kernels:
    builder = Builder(Cache(place / "cache"))
    made_for = model("gfx942") if replace else Model.gpu("gfx942")
    return legalised.build(WORKLOAD, {"one": source}, builder, "sim", made_for)


def instructions(text: str) -> list[str]:
    (kernel,) = parse(text.split("\n"))
    return [str(item) for item in kernel.items.values() if isinstance(item, Instruction)]


@pytest.mark.parametrize("arch", ["gfx942", "gfx803"])
@pytest.mark.parametrize(
    ("name", "settings"), [p for p in small_problems() if p[0].startswith(("softmax", "activ"))]
)
def test_line_tables_leave_the_instructions_as_they_are(
    name: str, settings: tuple[str, ...], arch: str
) -> None:
    """So the number of an instruction in the code object finds it in the text with lines."""
    pairs = [(key, value) for key, _, value in (text.partition("=") for text in settings)]
    found = problem.find(name, pairs, None)
    work = lowering.lower(network.resolve(found.config, found.settings), name, found.passes, 0)
    for kernel, source in render.kernels(work).items():
        plain = toolchain.assembly(render.self_contained(source), arch)
        for made_for in (Model.gpu(arch), model(arch)):
            place = (source, render.prelude(), made_for, kernel)
            told = partial(source_line.of_instruction, *place)
            found = instructions(legalise.rewrite(plain, made_for).text)
            for number in (0, len(found) // 2, len(found) - 1):
                one = told(number)
                assert one is not None
                assert one.instruction == found[number]
                assert one.text == (source.splitlines()[one.line - 1].strip() if one.line else "")
            assert told(len(found)) is None


def test_a_refusal_names_target_kernel_layer_template_line_and_cure(tmp_path: Path) -> None:
    with pytest.raises(RefusedError) as caught:
        build(tmp_path, BAD)
    assert re.fullmatch(
        r'sim: kernel one \(layer "a", fwd\), kernels/one\.hip, rendered line 11, '
        r"'unsigned item = .*\.\.\..*': ds_inc_u64 \(gfx942\): .*; .*",
        str(caught.value),
    )
    assert build(tmp_path, BAD, replace=False).replaced == {}


def test_the_machine_code_is_checked_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the table of mnemonics lets through by mistake is refused all the same."""
    source = SOURCE.format(
        step="maximum(x, 1.0f)",
        body='float f; asm volatile("v_floor_f32_e32 %0, %1" : "=v"(f) : "v"(x[1])); y[1] = f;',
    )
    build(tmp_path, source)
    of = model("gfx942")
    native = simulators.native(of) | {"v_floor_f32_e32"}
    monkeypatch.setattr(simulators, "native", {of: native}.__getitem__)
    monkeypatch.delitem(RULES["gfx942"], "v_floor_f32_e32")
    with pytest.raises(RefusedError) as caught:
        build(tmp_path, source)
    message = str(caught.value)
    assert 'kernel one (layer "a", fwd), kernels/one.hip, rendered line 11, ' in message
    assert re.search(r": v_floor_f32\w* v\d, v\d \(gfx942, VOP1 opcode 31\): the sim", message)
    assert len(build(tmp_path, source, replace=False).objects) == 1


def test_what_was_replaced_is_told_in_a_line(tmp_path: Path) -> None:
    path = tmp_path / "t" / "kernels" / "replaced.json"
    path.parent.mkdir(parents=True)
    costs = {
        "a": {"instructions": 100, "replaced": {"v_x": 2, "v_y": 1}, "added": 4},
        "b": {"instructions": 60, "replaced": {}, "added": 0},
    }
    path.write_text(json.dumps(costs))
    head = "t: replaced 3 of 160 instructions by 7 (+2.5 %), see t/kernels/replaced.json"
    assert replaced.notes(path, "t", details=False) == [head]
    assert replaced.notes(path, "t", details=True) == [
        head,
        "  a: 3 of 100 instructions by 7 (+4.0 %): 2 v_x, 1 v_y",
        "  b: 0 of 60 instructions by 0 (+0.0 %)",
    ]
    path.write_text("{}")
    assert replaced.notes(path, "t", details=True) == []
    path.unlink()
    assert replaced.notes(path, "t", details=True) == []


def test_a_launchers_error_gets_the_line_of_the_source(tmp_path: Path) -> None:
    said = 'kernel one (layer "a", fwd): S cannot execute instruction {}, v_foo (why); cure'
    text = instructions(toolchain.assembly(render.self_contained(GOOD), "gfx942"))
    at = next(i for i, line in enumerate(text) if line.startswith("v_max_f32"))

    def located(fact: str) -> str:
        return legalised.located(fact, tmp_path, WORKLOAD, Model.gpu("gfx942"))

    assert located(said.format(at)) == said.format(at)  # no source
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "one.hip").write_text(GOOD)
    (tmp_path / "src" / "prelude.h").write_text(render.prelude())
    place = "src/one.hip:6 of kernels/one.hip, 'return maximum(x, 1.0f);'"
    assert located(said.format(at)) == said.replace(
        "instruction {}, v_foo", f"{text[at]} ({place})"
    )
    assert located(said.format(999)) == said.format(999)
    assert located("anything else") == "anything else"


TOGETHER = 16  # forms in a text


@pytest.mark.parametrize(
    ("arch", "versions"),
    [("gfx803", ("21.2", "22.1", "23.1")), ("gfx902", ("22.1", "24.0")), ("gfx942", ("25.1",))],
)
def test_what_stands_for_an_instruction_is_of_its_architecture(
    arch: str, versions: tuple[str, ...]
) -> None:
    """Every form that the probe tries, legalised for gem5: the assembler takes what comes out."""
    head = f'\t.amdgcn_target "amdgcn-amd-amdhsa--{arch}"\n\t.text\n\t.type\tk,@function\nk:\n'
    tail = (
        "\ts_endpgm\n.Lend_k:\n\t.size\tk, .Lend_k-k\n"
        "\t.set k.num_vgpr, 128\n\t.set k.numbered_sgpr, 64\n"
    )
    every: dict[str, None] = {}
    texts = list(dict.fromkeys(form.text for form in forms(arch)))
    for version in versions:
        of = Model("gem5", version, arch)
        names = legalise.names(of, edges=True)
        left = [texts[at : at + TOGETHER] for at in range(0, len(texts), TOGETHER)]
        while left:
            some = left.pop()
            body = "".join(f"\t{text}\n" for text in some)
            try:
                made = legalise.rewrite(f"{head}{body}{tail}", of, names).text
            except RefusedError:  # one of them is
                half = len(some) // 2
                left += [some[:half], some[half:]] if half else []
                continue
            lines = made.split("k:\n")[1].split("\ts_endpgm")[0].splitlines()
            instructions = (line.partition(";")[0] for line in lines if not line.endswith(":"))
            every.update(dict.fromkeys(re.sub(r"\.L\w+", "k", each) for each in instructions))
    assert len(every) > 2000
    toolchain.assemble_foreign(head + "\n".join(every) + "\n" + tail, arch, "forms.s")
