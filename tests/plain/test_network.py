"""Sections -> layers with names, order and shapes; and the names that users may give."""

from __future__ import annotations

import re

import pytest
from census import census
from hypothesis import given
from hypothesis import strategies as st

from simgen.errors import ConfigError
from simgen.frontend import config, network
from simgen.frontend.network import Network, make_layer, resolve, sample_section
from simgen.ground.machine import fitted
from simgen.layers import LAYERS

X = "n=2\nc=3\nh=4\nw=5\n"
TWO = f"[Activation]\nname=a\n{X}[Softmax]\nname=s\nprevious_layer=a\n"


def resolved(text: str, *settings: tuple[str, str]) -> Network:
    return resolve(config.parse(text, "net.dnnmark"), settings)


def refused(text: str, *settings: tuple[str, str]) -> str:
    """The one line that the user sees."""
    with pytest.raises(ConfigError) as caught:
        resolved(text, *settings)
    message = str(caught.value)
    assert message.isprintable()
    assert re.match(r"(net\.dnnmark|--set )", message), "the place comes first"
    return message


def shapes(net: Network) -> dict[str, tuple[int, ...]]:
    return {placed.node.name: placed.node.inputs[0].shape for placed in net.layers}


# ------------------------------------------------------------------ names


@pytest.mark.parametrize(
    "name",
    ["a'b", 'a"b', "a;b", "../a", "a/b", "a.b", "-a", "1a", "a b", "é", "$(a)", "`a`", "x" * 64],
)
def test_a_name_that_could_mean_something_elsewhere_is_refused(name):
    text = TWO.replace("name=a", "name=" + name.replace("$", "$V"))
    with pytest.raises(ConfigError) as caught:
        resolve(config.parse(text, "net.dnnmark", {"V": "$"}))
    assert str(caught.value).startswith("net.dnnmark:2: name is ")
    assert "use 1 to 63 letters" in str(caught.value)


@pytest.mark.parametrize("name", ["a\nb", "a\rb", "a\x00b", "a\x1b[0m"])
def test_a_name_with_control_characters_does_not_get_this_far(name):
    with pytest.raises(ConfigError) as caught:
        resolve(config.parse("[Softmax]\nname=${V}\n" + X, "net.dnnmark", {"V": name}))
    assert str(caught.value).isprintable()


@given(st.text(max_size=70))
def test_an_accepted_name_is_a_plain_word(name):
    section = config.Section(
        "Softmax",
        tuple(
            config.Entry(key, value, config.Place("f", 1))
            for key, value in (("name", name), ("n", "1"), ("c", "2"))
        ),
        config.Place("f", 1),
    )
    try:
        (placed,) = resolve(config.Config("f", (section,), ())).layers
    except ConfigError as error:
        message = str(error)
        assert message.isprintable()
    else:
        assert placed.node.name == name
        assert re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]{0,62}", name)


def test_a_layer_without_a_name_has_its_kind_s():
    assert list(shapes(resolved("[Softmax]\n" + X))) == ["softmax"]


def test_two_layers_cannot_have_one_name():
    message = refused(TWO.replace("name=s", "name=a"))
    assert message.startswith("net.dnnmark:8: name 'a' is taken by the layer at net.dnnmark:1")


def test_nor_can_two_layers_without_a_name():
    assert "name 'softmax' is taken" in refused(f"[Softmax]\n{X}[Softmax]\n{X}")


# ------------------------------------------------------------------ order and shapes


def test_a_layer_takes_its_shape_from_the_one_before():
    net = resolved(TWO)
    assert shapes(net) == {"a": (2, 3, 4, 5), "s": (2, 3, 4, 5)}
    assert [placed.previous for placed in net.layers] == [(), ("a",)]


def test_shapes_follow_through_layers_that_change_them():
    net = resolved(
        "[Convolution]\nname=c\nn=2\nc=3\nh=8\nw=8\nnum_output=7\nkernel_size=3\npad=1\nstride=2\n"
        "[Pooling]\nname=p\nprevious_layer=c\nkernel_size=2\nstride=2\npad=0\n"
        "[FullyConnected]\nname=f\nprevious_layer=p\nnum_output=10\n"
        "[Softmax]\nname=s\nprevious_layer=f\n"
    )
    assert shapes(net) == {
        "c": (2, 3, 8, 8), "p": (2, 7, 4, 4), "f": (2, 7, 2, 2), "s": (2, 10, 1, 1),
    }  # fmt: skip


def test_layers_come_after_their_previous_layer_whatever_the_file_s_order():
    text = "[Softmax]\nname=s\nprevious_layer=b\n[LRN]\nname=b\nprevious_layer=a\n"
    text += f"[Activation]\nname=a\n{X}"
    assert list(shapes(resolved(text))) == ["a", "b", "s"]


def test_layers_that_do_not_feed_each_other_keep_the_file_s_order():
    text = "".join(f"[Softmax]\nname={name}\n{X}" for name in "dbca")
    assert list(shapes(resolved(text))) == ["d", "b", "c", "a"]


@given(st.permutations(range(6)), st.lists(st.integers(0, 5), min_size=6, max_size=6))
def test_every_acyclic_network_is_ordered(order, parents):
    """Layer i takes its input from one with a smaller number, or from the data file."""
    sections = []
    for i in order:
        before = f"previous_layer=l{parents[i]}\n" if parents[i] < i else X
        sections.append(f"[Softmax]\nname=l{i}\n{before}")
    net = resolved("".join(sections))
    seen: set[str] = set()
    for placed in net.layers:
        assert set(placed.previous) <= set(seen)
        seen.add(placed.node.name)
    assert len(seen) == 6


def test_extents_may_be_repeated_but_must_agree():
    assert shapes(resolved(TWO + "n=2\nh=4\n"))["s"] == (2, 3, 4, 5)
    assert shapes(resolved(TWO + "n=0\n"))["s"] == (2, 3, 4, 5)
    message = refused(TWO + "c=4\n")
    assert message == (
        "net.dnnmark:10: c is 4, but the previous layer's output has 3; leave it out"
    )


def test_a_missing_previous_layer_is_named_with_the_nearest():
    message = refused(TWO.replace("previous_layer=a", "previous_layer=A1"))
    assert "net.dnnmark:9: previous_layer of 's' is 'A1', which is not a layer here" in message
    assert "did you mean 'a'?" in message


@pytest.mark.parametrize("word", ["null", ""])
def test_null_means_that_x_comes_from_the_data_file(word):
    net = resolved(TWO.replace("previous_layer=a", f"previous_layer={word}\n{X}"))
    assert [placed.previous for placed in net.layers] == [(), ()]


@pytest.mark.parametrize(
    "feeds", [{"a": "a"}, {"a": "b", "b": "a"}, {"a": "b", "b": "c", "c": "a"}]
)
def test_a_cycle_is_shown(feeds):
    text = "".join(
        f"[Softmax]\nname={name}\nprevious_layer={feeds.get(name, 'a')}\n" for name in "xabc"
    )
    message = refused(text)
    assert "layers feed each other in a circle (a <- " in message
    assert message.count(" <- ") == len(feeds)
    assert "previous_layer=null" in message


# ------------------------------------------------------------------ sizes


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("0", "layer 's' has no n; give it, or a previous_layer to take it from"),
        ("-1", "n is -1; it must be at least 0"),
        ("2147483648", "n is 2147483648; it must be at most 2147483647"),
        ("9" * 30, "it must be at most"),
        ("1.5", "n is '1.5'; write a whole number"),
        ("1e3", "write a whole number"),
        ("1_000", "write a whole number"),  # Python's int() takes this one
        ("\N{ARABIC-INDIC DIGIT FOUR}", "write a whole number"),  # and this one
        ("", "n is ''; write a whole number"),
        ("four", "n is 'four'; write a whole number"),
    ],
)
def test_an_impossible_extent_is_refused_on_its_line(value, words):
    message = refused(f"[Softmax]\nname=s\nn={value}\nc=3\n")
    assert message.startswith("net.dnnmark:3: ")
    assert words in message


def test_n_and_c_must_be_given_and_h_and_w_are_one():
    assert shapes(resolved("[Softmax]\nn=2\nc=3\n")) == {"softmax": (2, 3, 1, 1)}
    assert "has no c" in refused("[Softmax]\nn=2\n")
    assert "has no h" in refused("[Softmax]\nn=2\nc=3\nh=0\n")


@pytest.mark.parametrize(
    "extents", [(65536, 32768, 1, 1), (2048, 2048, 512, 1), (2**31 - 1, 2, 1, 1)]
)
def test_a_product_of_extents_must_fit_in_32_bits(extents):
    text = "[Softmax]\n" + "".join(f"{k}={v}\n" for k, v in zip("nchw", extents))
    message = refused(text)
    assert "the input of layer 'softmax' has " + " x ".join(map(str, extents)) in message
    assert "more than 2147483647; make n, c, h or w smaller" in message


def test_the_largest_tensor_that_fits_is_accepted():
    assert shapes(resolved("[Softmax]\nn=2147483647\nc=1\n"))["softmax"][0] == 2**31 - 1


def test_an_output_may_be_too_large_too():
    text = "[Concat]\nn=65536\nc=16384\nh=1\nw=1\n"
    assert "the output of layer 'concat' has" in refused(text)


@pytest.mark.parametrize("section", ["Convolution", "Pooling", "LRN", "BatchNorm"])
def test_a_matrix_is_no_input_of_a_layer_that_takes_images(section):
    text = f"[Gemm]\nname=g\nm=3\nn=4\nk=5\n[{section}]\nname=s\nprevious_layer=g\n"
    expected = "net.dnnmark:6: layer 's' takes a tensor (N, C, H, W), but 'g' gives one of 3 x 4; "
    assert refused(text).startswith(expected)


def test_an_output_extent_below_one_names_layer_and_line():
    text = f"\n[Pooling]\nname=p\n{X}kernel_size=9\nstride=1\npad=0\n"
    assert refused(text).startswith("net.dnnmark:2: layer 'p': ")


def test_a_setting_that_makes_a_layer_impossible_is_named():
    text = f"[Activation]\nname=a\n{X}[Pooling]\nname=p\nprevious_layer=a\n"
    assert refused(text, ("p.kernel_size", "9")).startswith("--set p.kernel_size=9: layer 'p': ")


# ------------------------------------------------------------------ sections and keys


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[Sofmax]\n" + X, "net.dnnmark:1: unknown section 'Sofmax'; did you mean 'Softmax'?"),
        ("[softmax]\n" + X, "did you mean 'Softmax'?"),
        ("[Softmax]\nsoftmax_alg=fast\n" + X, ":2: unknown key 'softmax_alg' in [Softmax]"),
        ("[Softmax]\nsoftmax_alg=fast\n" + X, "did you mean 'softmax_algo'?"),
        ("[Softmax]\nsoftmax_algo=acurate\n" + X, "did you mean 'accurate'?"),
        ("[DNNMark]\nrunmode=none\n[Softmax]\n" + X, "did you mean 'run_mode'?"),
        ("[DNNMark]\nrun_mode=compose\n[Softmax]\n" + X, "did you mean 'composed'?"),
        ("[DNNMark]\n[Softmax]\n" + X + "[DNNMark]\n", "[DNNMark] is already at net.dnnmark:1"),
        ("[DNNMark]\nrun_mode=none\n", "no layer section; add one"),
    ],
)
def test_what_is_unknown_is_an_error_with_a_cure(text, words):
    assert words in refused(text)


@pytest.mark.parametrize("mode", network.RUN_MODES)
def test_every_run_mode_of_dnnmark_is_read(mode):
    text = TWO if mode != "standalone" else f"{TWO}{X}"
    assert resolved(f"[DNNMark]\nrun_mode={mode}\n{text}").run_mode == mode


def test_standalone_layers_read_nothing_of_each_other():
    """As Setup of DNNMark's core/include/dnn_layer.h: extents of its own, or no layer."""
    head = "[DNNMark]\nrun_mode=standalone\n"
    own = f"[Softmax]\nname=s\nprevious_layer=a\n{X}"
    for text in (f"{head}[Activation]\nname=a\n{X}{own}", f"{head}{own}[Activation]\nname=a\n{X}"):
        found = {each.node.name: each for each in resolved(text).layers}
        assert found["s"].previous == ()
        assert found["s"].node.inputs[0].shape == found["a"].node.inputs[0].shape
    fact = (
        "layer 's' reads 'a', but run_mode=standalone runs each alone; give it extents of its own"
    )
    assert fact in refused(f"{head}{TWO}")
    given = "[Input]\nname=x\nshape=2x3\n[Softmax]\nname=s\nprevious_layer=x\n"
    assert resolved(f"{head}{given}").layers[-1].previous == ("x",)  # data, and no layer that runs
    product = "[Gemm]\nname=g\nm=2\nn=3\nk=4\nprevious_layer=a,a\n"
    assert resolved(f"{head}[Activation]\nname=a\n{X}{product}").layers[-1].previous == ()


def test_run_mode_is_none_unless_given():
    assert resolved(TWO).run_mode == "none"


# ------------------------------------------------------------------ settings


def test_a_bare_key_sets_the_only_layer():
    net = resolved("[Softmax]\n" + X, ("n", "9"), ("softmax_algo", "log"))
    assert shapes(net)["softmax"] == (9, 3, 4, 5)
    assert net.layers[0].node.parameters == (("softmax_algo", "log"),)


def test_the_last_setting_of_a_key_wins():
    assert shapes(resolved("[Softmax]\n" + X, ("n", "9"), ("n", "8")))["softmax"][0] == 8


def test_in_a_network_a_key_names_its_layer():
    net = resolved(TWO, ("a.activation_mode", "elu"), ("s.softmax_mode", "instance"))
    assert [placed.node.parameters for placed in net.layers] == [
        (("activation_mode", "elu"),),
        (("softmax_mode", "instance"),),
    ]


def test_a_bare_extent_rescales_the_whole_network():
    two_inputs = TWO + f"[LRN]\nname=l\n{X}"
    assert shapes(resolved(two_inputs, ("n", "7"))) == {
        "a": (7, 3, 4, 5), "s": (7, 3, 4, 5), "l": (7, 3, 4, 5),
    }  # fmt: skip


@census(
    "setting, words",
    [
        (("softmax_algo", "log"), "several layers; write s.softmax_algo=..., for example"),
        (("softmax_alg", "log"), "has a key 'softmax_alg'; did you mean 'softmax_algo'?"),
        (("name", "b"), "several layers; write a.name=..., for example"),
        (("b.n", "1"), "no layer named 'b'"),
        (("sx.softmax_algo", "log"), "did you mean 's'?"),
        (("s.softmax_algo", "lag"), "did you mean 'log'?"),
        (("s.activation_mode", "elu"), "unknown key 'activation_mode' in [Softmax]"),
        (("a.name", "b"), "name cannot be set; edit the config instead"),
        (("s.previous_layer", "null"), "previous_layer cannot be set"),
        (("a.n", "0"), "layer 'a' has no n"),
        (("a.n", "-3"), "n is -3"),
        (("s.n", "3"), "n is 3, but the previous layer's output has 2"),
        (("s.", "3"), "unknown key ''"),
        ((".n", "3"), "no layer named ''"),
        (("a.b.n", "3"), "no layer named 'a.b'"),
    ],
)
def test_a_setting_that_fits_nowhere_is_refused_at_its_place(setting, words):
    message = refused(TWO, setting)
    assert message.startswith(f"--set {'='.join(setting)}: ")
    assert words in message


# ------------------------------------------------------------------ layers from nodes


def test_a_node_holds_enough_to_make_its_layer_again():
    net = resolved(TWO, ("a.activation_mode", "elu"), ("a.activation_alpha", "0.5"))
    for placed in net.layers:
        assert make_layer(placed.node, fitted()) == placed.layer


@census("kind", LAYERS)
def test_the_sample_problem_of_every_layer_resolves(kind):
    built_in = config.Config(f"built-in {kind}", (sample_section(kind),), ())
    (placed,) = resolve(built_in).layers
    assert (placed.node.name, placed.node.kind) == (kind, kind)
    assert make_layer(placed.node, fitted()) == placed.layer
    assert placed.where == f"built-in {kind}"
