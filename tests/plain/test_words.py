"""Words of a text: their frequencies, the layers that read them, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from command_line import fails
from handmade import lowered_text

import simgen as package
from simgen.errors import ConfigError
from simgen.frontend import config, network
from simgen.ground.ir import Distribution, DType, Fill, Pass, TensorSpec
from simgen.tensors.random_values import generate
from simgen.workload.lowering import lower

TRAINING = (Pass.FORWARD, Pass.BACKWARD, Pass.UPDATE)
TEXT = """
[Input]
name=words
shape=3x7
type=i32

[Embedding]
name=first
previous_layer=words
vocabulary=50
features=6

[Embedding]
name=second
previous_layer=words
vocabulary=20
features=6
zipf=0

[Gemm]
name=scores
previous_layer=first,second
transb=true

[Input]
name=lengths
shape=3
type=i32

[Mask]
name=masked
previous_layer=scores,lengths
mask=lengths
"""


@pytest.mark.parametrize("exponent", [0.0, 1.0, 1.4])
def test_words_are_as_frequent_as_zipf_says(exponent: float):
    fill, count = Fill(Distribution.ZIPF, 30.0, exponent), 300_000
    ids = generate("words", TensorSpec((count,), DType.I32), fill, 3)
    expected = np.arange(1, 31) ** -exponent
    expected *= count / expected.sum()
    counts = np.bincount(ids, minlength=30)
    assert counts.size == 30
    chi_squared = ((counts - expected) ** 2 / expected).sum()
    assert chi_squared < 73  # of 29 degrees of freedom, with a probability of 1 - 1e-5


def test_a_part_of_a_text_is_that_of_the_whole():
    fill, spec = Fill(Distribution.ZIPF, 1000.0, 1.0), TensorSpec((300_000,), DType.I32)
    whole = generate("words", spec, fill, 3)
    part = generate("words", spec, fill, 3, 262_000, 500)
    np.testing.assert_array_equal(whole[262_000:262_500], part)


def test_words_fit_all_that_read_them_and_have_no_gradient():
    workload = lowered_text(TEXT, TRAINING)
    assert workload.buffer("words.y").fill == Fill(Distribution.ZIPF, 20.0, 0.0)
    assert workload.buffer("lengths.y").fill == Fill(Distribution.UNIFORM, 4.0, 8.0)
    names = {buffer.name for buffer in workload.buffers}
    assert {"first.dw", "second.new_w", "scores.dy"} <= names
    assert not {"words.dy", "lengths.dy"} & names


TABLES = """
[Input]
name=words
shape=4x6
type=i32

[Embedding]
name=e1
previous_layer=words
vocabulary=1000

[Embedding]
name=e2
previous_layer=words
vocabulary=10

[Add]
name=a
previous_layer=e1,e2
"""


def test_words_fit_all_that_read_them_where_a_slice_leaves_their_input_out():
    read = config.parse(TABLES, "test.dnnmark")
    workload = lower(network.resolve(read, layers="e1,e2,a"), "net", (Pass.FORWARD,), 0)
    assert workload.buffer("words.y").fill == Fill(Distribution.ZIPF, 10.0, 1.0)


def test_words_of_a_text_fit_all_tables_that_read_them(tmp_path):
    path = tmp_path / "net.dnnmark"
    path.write_text(TABLES)
    made = package.plan(path, data="words.txt").plan.values["words.y"]
    assert 0 < made.max() < 10


def test_words_that_a_layer_computes_are_refused():
    text = TABLES.replace("previous_layer=words", "previous_layer=b", 1)
    text = text.replace("[Embedding]", "[Bypass]\nname=b\nprevious_layer=words\n\n[Embedding]", 1)
    with pytest.raises(ConfigError, match=r"net\.dnnmark:\d+: .*'e1': ids are b\.y, which is comp"):
        lowered_text(text, (Pass.FORWARD,))


def test_the_type_of_a_network_is_that_of_its_tables():
    found = network.resolve(config.parse(TEXT, "test.dnnmark"), dtype="f16")
    assert {str(each.output.dtype) for each in found.layers} == {"i32", "f16"}


@pytest.mark.parametrize(
    ("old", "new", "fact"),
    [
        ("type=i32\n\n[Emb", "\n[Emb", "ids are indices of type i32, and words.y is f32"),
        ("shape=3\n", "shape=4\n", "lengths are 4, but x has 3 samples; give it an [Input]"),
        ("mask=lengths", "mask=causal", "mask=causal has no lengths; name x alone"),
        ("features=6\nzipf", "features=6\ntype=i32\nzipf", "type is i32; choose another"),
        ("=20\nfeatures=6", "=9000000\nfeatures=900", "is larger than 1073741824; make"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(old: str, new: str, fact: str):
    assert old in TEXT
    with pytest.raises(Exception, match=r"net\.dnnmark:\d+: ") as error:
        lowered_text(TEXT.replace(old, new), TRAINING)
    assert fact in str(error.value)


def test_unknown_words_and_lengths_are_refused(simgen):
    ids = np.zeros((16, 25), np.int32)
    ids[3, 4] = 1000
    np.savez("a.npz", **{"embedding.ids": ids})
    fails(simgen("show embedding_fwd --values a.npz"), 2, "ids[3, 4] is 1000; write 0 to 999")
    np.savez("a.npz", **{"mask.lengths": np.array([3, 0], np.int32)})
    problem = "mask_fwd --set shape=2x5x7 --set mask=lengths --values a.npz"
    fails(simgen(f"show {problem}"), 2, "lengths[1] is 0; write 1 to 7")
