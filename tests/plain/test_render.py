"""Templates become text that reads as hand-written, and user text stays inside its quotes."""

from __future__ import annotations

import re
import shlex
from functools import cache
from pathlib import Path

import jinja2
import numpy as np
import pytest
from census import census
from handmade import BOTH, lowered, lowered_text
from hypothesis import given
from hypothesis import strategies as st

import simgen
from simgen.errors import SourceError
from simgen.frontend import problem
from simgen.ground import plugins, resources
from simgen.ground.ir import Kernel, Pass
from simgen.kernels import render
from simgen.layers.activation import ActivationMode
from simgen.layers.softmax import SoftmaxAlgo

X = "n=2\nc=3\nh=4\nw=5\n"
ESCAPE = re.compile(rb"\\([0-7]{3})")


def c_value(literal: str) -> bytes:
    """What a C compiler makes of a string literal; refuses whatever could end it early."""
    assert re.fullmatch(r'"(?:[ -!#->@-\[\]-~]|\\[0-7]{3})*"', literal), literal
    return ESCAPE.sub(lambda m: bytes([int(m[1], 8)]), literal[1:-1].encode())


@given(st.text())
def test_a_c_string_holds_any_text(text):
    assert c_value(render.c_string(text)) == text.encode()


@pytest.mark.parametrize("text", ['a"b', "a\\b", "a\nb", "??/", "\0001", "%s", "é", "*/ x /*"])
def test_a_c_string_holds_what_c_gives_a_meaning(text):
    assert c_value(render.c_string(text)) == text.encode()
    assert "??" not in render.c_string(text), "trigraphs"


@given(st.binary(max_size=64))
def test_c_bytes_hold_any_bytes(value):
    elements = render.c_bytes(value)
    assert bytes(int(word, 16) for word in elements.split(", ") if word) == value


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_a_c_float_reads_back_to_the_same_float32(value):
    literal = render.c_float(value)
    assert re.fullmatch(r"-?\d+(\.\d+)?(e[+-]?\d+)?f", literal), literal
    assert "." in literal or "e" in literal, "1f is no literal"
    back = np.float32(literal[:-1])
    assert back.tobytes() == np.float32(value).tobytes()


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan")])
def test_what_has_no_literal_is_refused(value):
    with pytest.raises(ValueError, match="no literal in C"):
        render.c_float(value)


def test_a_variable_that_is_not_given_is_an_error():
    with pytest.raises(jinja2.UndefinedError):
        render.text("targets/host.run.sh.j2", name="k")


def test_a_constant_too_few_is_an_error():
    (kernel,) = lowered("softmax_fwd").kernels
    for at in range(len(kernel.constants)):
        fewer = Kernel(
            kernel.name,
            kernel.template,
            kernel.block,
            kernel.constants[:at] + kernel.constants[at + 1 :],
        )
        with pytest.raises(SourceError, match="has no constant"):
            render.kernel(fewer)


def made() -> dict[str, str]:
    """Name -> source, of the built-in workloads and of every mode of the lowered layers."""
    text = "".join(f"[Activation]\nname=a_{m}\nactivation_mode={m}\n{X}" for m in ActivationMode)
    for algo in SoftmaxAlgo:
        for mode in ("channel", "instance"):
            text += (
                f"[Softmax]\nname=s_{algo}_{mode}\nsoftmax_algo={algo}\nsoftmax_mode={mode}\n{X}"
            )
    sources = render.kernels(lowered_text(text, BOTH))
    for name in problem.built_in():
        sources |= render.kernels(lowered(name))
    return sources


every_kernel = cache(made)


@census("name, source", lambda: every_kernel().items())
def test_a_rendered_kernel_reads_as_hand_written(name, source):
    code = re.sub(r"/\*.*?\*/", "", source, flags=re.DOTALL)
    assert not re.search(r"Undefined|None|True|False|nan|inf\b", code)
    lines = source.split("\n")
    assert [line for line in lines if line != line.rstrip()] == []
    assert "\t" not in source
    assert "\n\n\n" not in source
    assert re.search(r"\}\n\n?(#undef \w+\n)*\Z", source)
    assert source.isascii()


@census("name, source", lambda: every_kernel().items())
def test_a_rendered_kernel_has_one_entry_point_of_its_name(name, source):
    entries = re.findall(r"__global__[^(;]*(?:\([^)]*\))?\s*void\s+(\w+)\s*\(", source)
    if entries == ["KERNEL"]:
        entries = re.findall(r"^#define KERNEL (\w+)$", source, re.M)
    assert entries == [name]
    assert 'extern "C"' in source
    assert source.count(f'#include "{render.PRELUDE}"\n') == 1
    assert source.count("#include") == 1


def test_a_self_contained_source_includes_nothing():
    source = next(iter(every_kernel().values()))
    whole = render.self_contained(source)
    assert '#include "' not in whole
    assert render.prelude() in whole


@pytest.mark.parametrize("copies", [0, 2])
def test_a_kernel_includes_the_prelude_once(copies):
    with pytest.raises(ValueError, match="must have one line"):
        render.self_contained(f'#include "{render.PRELUDE}"\n' * copies)


def test_rendering_is_pure():
    assert made() == every_kernel()


def test_shell_text_is_quoted_for_the_shell():
    name = "a'; rm -rf $HOME #"
    script = render.text(
        "targets/cuda.run.sh.j2", name=name, target="cuda", digest="0" * 64, more="", gpus=1
    )
    assert f"name={shlex.quote(name)}" in script


def test_every_kernel_template_is_used():
    """By a layer's lowering, or by another template that includes it."""
    kernels = resources.folder("templates") / "kernels"
    users = [*Path(simgen.__file__).parent.rglob("*.py"), *kernels.glob("*.*")]
    texts = {path: path.read_text() for path in users}
    unused = [
        path.name
        for path in kernels.glob("*.h*")
        if not any(names(text, path.name) for by, text in texts.items() if by != path)
    ]
    rule = "no layer names it as docs/contributing/adding-a-layer.md says under Rules for names"
    assert unused == [], rule


def names(text: str, template: str) -> bool:
    """Whether a text names a template: as a whole, or its last word for `f"conv_fft_{what}..."`.

    That word is in the same text, or is a pass.
    """
    stem = template.removesuffix(".hip")
    family, _, last = stem.rpartition("_")
    made = re.search(rf'f"{family}_\{{\w+\}}\.hip"', text) is not None
    return f'{template}"' in text or (made and (f'"{last}"' in text or last in set(Pass)))


def test_no_script_has_branches_of_the_renderer() -> None:
    folders = (resources.folder("templates"), plugins.template("simgen_rocm:hip.run.sh.j2").parent)
    scripts = [each for folder in folders for each in folder.rglob("*.run.sh.j2")]
    assert len(scripts) >= 10
    assert [s.name for s in scripts if re.search(r"{% *(if|for|elif|else)", s.read_text())] == []
