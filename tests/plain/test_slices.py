"""Slices of a network, and an algorithm for all of its layers that have a choice."""

from __future__ import annotations

import pytest

from simgen.errors import ConfigError, UsageError
from simgen.frontend import config
from simgen.frontend.network import resolve

X = "n=2\nc=3\nh=4\nw=5\n"
TWO = f"[Activation]\nname=a\n{X}[Softmax]\nname=s\nprevious_layer=a\n"

# ------------------------------------------------------------------ slices

DIAMOND = (
    f"[Activation]\nname=top\n{X}[Activation]\nname=left\nprevious_layer=top\n"
    "[Activation]\nname=right\nprevious_layer=top\n"
    "[Add]\nname=sum\nprevious_layer=left,right\n[Softmax]\nname=end\nprevious_layer=sum\n"
)


def sliced(text: str, words: str) -> list[str]:
    net = resolve(config.parse(text, "net.dnnmark"), layers=words)
    return [placed.node.name for placed in net.layers]


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ("left", ["left"]),
        ("end,top", ["top", "end"]),
        ("top, left", ["top", "left"]),
        ("left..left", ["left"]),
        ("left..end", ["left", "sum", "end"]),
        ("top..sum", ["top", "left", "right", "sum"]),
        ("left..sum,right", ["left", "right", "sum"]),
        ("top..end", ["top", "left", "right", "sum", "end"]),
    ],
)
def test_a_slice_holds_the_layers_on_the_ways_between_two(words, names):
    assert sliced(DIAMOND, words) == names


@pytest.mark.parametrize(
    ("words", "fact"),
    [
        ("end..top", "no way from end to top; write the earlier one first"),
        ("left..right", "no way from left to right"),
        ("lefd", "no layer named 'lefd'; did you mean 'left'?"),
        ("left..", "no layer named ''"),
        ("", "no layer named ''"),
        ("top..sum..end", "no layer named 'sum..end'"),
        ("top\nend", "no layer named 'top\\nend'"),
    ],
)
def test_a_slice_that_is_none_is_refused(words, fact):
    with pytest.raises(UsageError) as caught:
        sliced(DIAMOND, words)
    message = str(caught.value)
    assert message.startswith(f"--layers {words!r}: ")
    assert fact in message
    assert message.isprintable()


def test_a_slice_keeps_the_names_of_what_it_reads():
    (placed,) = resolve(config.parse(DIAMOND, "net.dnnmark"), layers="sum").layers
    assert placed.previous == ("left", "right")


def test_layers_behind_a_slice_need_not_fit():
    text = f"{TWO}[Pooling]\nname=p\nprevious_layer=s\nkernel_size=9\n"
    with pytest.raises(ConfigError, match="a kernel height of 9"):
        resolve(config.parse(text, "net.dnnmark"))
    assert sliced(text, "a..s") == ["a", "s"]


# ------------------------------------------------------------------ algorithms

CONVOLUTIONS = (
    f"[Convolution]\nname=one\n{X}kernel_size=3\npad=1\n"
    "[Activation]\nname=between\nprevious_layer=one\n"
    "[Convolution]\nname=two\nprevious_layer=between\nkernel_size=3\npad=1\nalgo=1\n"
)


def algorithms(*settings: tuple[str, str], layers: str | None = None) -> list[str | None]:
    parsed = config.parse(CONVOLUTIONS, "net.dnnmark")
    net = resolve(parsed, settings, algorithm="winograd", layers=layers)
    return [dict(placed.node.parameters).get("algo") for placed in net.layers]


def test_an_algorithm_goes_to_every_layer_that_has_a_choice():
    assert algorithms() == ["winograd", None, "winograd"]


def test_an_algorithm_concerns_the_slice_alone():
    assert algorithms(("one.stride", "1"), layers="between..two") == [None, "winograd"]


def test_a_layer_s_own_setting_wins_over_the_network_s_algorithm():
    assert algorithms(("two.algo", "0")) == ["winograd", None, "0"]


@pytest.mark.parametrize(
    ("text", "name", "fact"),
    [
        (CONVOLUTIONS, "winnograd", "algo is 'winnograd'; did you mean 'winograd'?"),
        (TWO, "winograd", "no layer here has a choice of algorithms; leave it out"),
    ],
)
def test_an_algorithm_that_fits_nowhere_is_refused(text, name, fact):
    with pytest.raises(ConfigError) as caught:
        resolve(config.parse(text, "net.dnnmark"), algorithm=name)
    assert str(caught.value).startswith(f"--algo {name}: {fact}")
