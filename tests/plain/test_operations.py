"""Operations of libraries: problem strings, lines of drivers, and the layers that do them."""

from __future__ import annotations

import shlex
from dataclasses import asdict, fields, replace

import numpy as np
import pytest
from census import census
from command_line import fails
from hypothesis import given, settings
from hypothesis import strategies as st

from simgen.errors import SimgenError
from simgen.frontend import exporting, network, operation, problem
from simgen.frontend.drivers import table
from simgen.frontend.operation import (
    TYPES,
    Cell,
    ConvOperation,
    FilterMode,
    GemmOperation,
    RnnOperation,
)
from simgen.ground.ir import Pass
from simgen.layers.layout import FilterLayout, Layout
from simgen.layers.product.gemm import Gemm
from simgen.layers.recurrent.recurrent import InputMode

sizes = st.integers(1, 3000)
few = st.integers(1, 4)
scales = st.sampled_from([1.0, 0.0, 0.5, -2.25, 1e-3])
gemms = st.builds(
    GemmOperation,
    m=sizes,
    n=sizes,
    k=sizes,
    ta=st.booleans(),
    tb=st.booleans(),
    batch=few,
    alpha=scales,
    beta=scales,
    type=st.sampled_from(TYPES),
)
passes = st.sets(st.sampled_from(ConvOperation.PASSES), min_size=1).map(
    lambda found: tuple(each for each in ConvOperation.PASSES if each in found)
)
convs = st.builds(
    lambda group, **given: ConvOperation(
        **{**given, "c": given["c"] * group, "k": given["k"] * group}, group=group
    ),
    group=few,
    n=few,
    c=few,
    h=st.integers(9, 30),
    w=st.integers(9, 30),
    k=few,
    r=st.integers(1, 3),
    s=st.integers(1, 3),
    pad_h=st.integers(0, 3),
    pad_w=st.integers(0, 3),
    stride_h=few,
    stride_w=few,
    dilation_h=few,
    dilation_w=few,
    mode=st.sampled_from(FilterMode),
    bias=st.booleans(),
    layout=st.sampled_from(Layout),
    filter_layout=st.sampled_from(FilterLayout),
    passes=passes,
    type=st.sampled_from(TYPES),
)
rnns = st.builds(
    lambda features, **given: (
        RnnOperation(
            **given, features=0 if features == given["hidden"] else features, input=InputMode.LINEAR
        )
        if features
        else RnnOperation(**given)
    ),
    features=st.integers(0, 9),
    cell=st.sampled_from(Cell),
    hidden=st.integers(1, 9),
    batch=few,
    steps=st.integers(2, 9),
    bias=st.booleans(),
    passes=passes,
    type=st.sampled_from(("f32", "f16")),
)


def resolved(made):
    """The layer that does an operation, and its place in a network of its own."""
    found = problem.find(str(replace(made, type="f32")), (), None)
    return network.resolve(found.config).layers[0]


def outcome(call, *arguments):
    """What a call returns, or the line that it refuses its arguments with."""
    try:
        return call(*arguments), ""
    except SimgenError as error:
        return None, str(error)


# ------------------------------------------------------------------ one way to write each


def test_a_problem_string_says_what_is_not_usual():
    gemm = asdict(operation.parse_operation("gemm:m=2,n=3,k=4"))
    assert {each: gemm[each] for each in ("ta", "tb", "batch", "alpha", "beta", "type")} == {
        "ta": False, "tb": False, "batch": 1, "alpha": 1.0, "beta": 0.0, "type": "f32",
    }  # fmt: skip
    conv = asdict(operation.parse_operation("conv:n=1,c=2,h=5,w=6,k=3,r=3,s=3"))
    ones = dict.fromkeys(("stride_h", "stride_w", "dilation_h", "dilation_w", "group"), 1)
    usual = {**ones, "pad_h": 0, "pad_w": 0, "bias": False, "type": "f32"}
    assert {each: conv[each] for each in usual} == usual
    for key in ("pad_h", "pad_w"):
        with pytest.raises(SimgenError, match=key):
            operation.parse_operation(f"conv:n=1,c=2,h=5,w=6,k=3,r=3,s=3,{key}=-1")


@given(gemms | convs | rnns)
def test_a_problem_string_is_read_as_what_it_was_written_from(made):
    assert operation.parse_operation(str(made)) == made


@given(gemms | convs | rnns, st.sampled_from(sorted(table.DRIVERS)))
def test_the_line_of_a_driver_is_read_as_what_it_was_written_from(made, form):
    lines, refusal = outcome(table.lines, form, made)
    if refusal:
        assert f"--as {form}: " in refusal
        return
    found = [table.parse_line(line) for line in lines]
    if not isinstance(made, ConvOperation) or form in ("miopen", "deepbench"):
        assert found == [made]
    else:  # a line for each pass, and a bias where the pass has one
        assert tuple(each.passes[0] for each in found) == made.passes
        for each in found:
            biased = made.bias and each.passes != (Pass.BACKWARD_DATA,)
            assert each == replace(made, passes=each.passes, bias=biased)


@given(gemms | convs | rnns)
def test_the_layer_of_an_operation_is_exported_as_that_operation(made):
    found = exporting.operations(resolved(made), made.direction)
    assert found == [replace(made, type="f32")]


@settings(max_examples=30)
@given(st.text(max_size=60), st.sampled_from(["", "gemm:", "conv:n=1,", "rnn:", "deepbench/"]))
def test_any_word_is_a_workload_or_one_line(text, head):
    found, refusal = outcome(problem.find, head + text, (), None)
    assert bool(found) is not bool(refusal)


@given(
    st.lists(
        st.sampled_from(["-n", "--m=3", "8", "--conv", "conv", "-f", "gemm", "3x4:4x5", "\0"])
    ),
    st.sampled_from(sorted(table.PROGRAMS)),
)
def test_any_line_of_a_driver_is_read_or_refused(words, program):
    found, refusal = outcome(table.parse_line, shlex.join([f"./bin/{program}", *words]))
    assert found or program in refusal


# ------------------------------------------------------------------ what they mean


@given(gemms.map(lambda g: replace(g, m=g.m % 5 + 1, n=g.n % 5 + 1, k=g.k % 5 + 1, batch=1)))
def test_a_gemm_by_columns_is_the_layers_problem_by_rows(made):
    """The same bytes: what BLAS has by columns is given to the layer as it lies in memory."""
    rng = np.random.default_rng(0)
    a = rng.normal(size=(made.k, made.m) if made.ta else (made.m, made.k))
    b = rng.normal(size=(made.n, made.k) if made.tb else (made.k, made.n))
    c = rng.normal(size=(made.m, made.n))
    wanted = made.alpha * (a.T if made.ta else a) @ (b.T if made.tb else b) + made.beta * c
    layer = resolved(made).layer
    assert isinstance(layer, Gemm)
    memory = {"a": b, "b": a, "c": c}
    read = {name: each.ravel("F").reshape(each.shape[::-1]) for name, each in memory.items()}
    y = layer.reference(read, Pass.FORWARD)["y"]
    scales = [float(np.float32(each)) for each in (made.alpha, made.beta)]
    if scales == [made.alpha, made.beta]:
        np.testing.assert_allclose(y.ravel("C"), wanted.ravel("F"), rtol=1e-9, atol=1e-12)


@given(convs)
def test_extents_and_work_of_a_convolution_are_those_of_the_layer(made):
    placed = resolved(made)
    assert placed.output.shape == (made.n, made.k, *made.extents)
    counted = placed.layer.count(placed.node.inputs, Pass.FORWARD).flops
    added = placed.output.size if made.bias else 0
    assert counted == made.flops / len(made.passes) + added


LINES = [
    # MIOpenDriver's README, a line that MIOpen logs, an example of rocBLAS, and of CUTLASS
    ("./bin/MIOpenDriver convfp16 -W 32 -H 32 -c 3 -k 32 -x 5 -y 5 -p 2 -q 2 -s 0 -F 1",
     "conv:n=100,c=3,h=32,w=32,k=32,r=5,s=5,pad=2,type=f16"),
    ("MIOpen(HIP): Command [LogCmdConvolution] ./bin/MIOpenDriver conv -n 128 -c 3 -H 224 -W 224 "
     "-k 64 -y 7 -x 7 -p 3 -q 3 -u 2 -v 2 -l 1 -j 1 -m conv -g 1 -F 4 -t 1",
     "conv:n=128,c=3,h=224,w=224,k=64,r=7,s=7,pad=3,stride=2,passes=bwd_weight"),
    ("MIOpenDriver conv -n 1 -I NHWC -O NHWC -f NHWC -F 1",
     "conv:n=1,c=3,h=32,w=32,k=32,r=3,s=3,layout=nhwc,filter_layout=krsc"),
    ("MIOpenDriver gemm -m 35 -n 700 -k 2048 -u 1", "gemm:m=700,n=35,k=2048,tb=1"),
    ("./rocblas-bench -f gemm_ex --transposeA N --transposeB N -m 12288 -n 1 -k 4096 --alpha 1 "
     "--a_type f16_r --lda 12288 --b_type f16_r --ldb 4096 --beta 0 --c_type f16_r --ldc 12288 "
     "--d_type f16_r --ldd 12288 --compute_type f32_r --algo 0 --solution_index 0 --flags 0",
     "gemm:m=12288,n=1,k=4096,type=f16"),
    ("rocblas-bench -f gemm -r s -m 4000 -n 300 -k 20 --lda 4000 --transposeB T",
     "gemm:m=4000,n=300,k=20,tb=1"),
    ("cutlass_profiler --operation=Conv2d --Activation=f16:nhwc --Filter=f16:nhwc --Output=f16 "
     "--accumulator-type=f32 --n=32 --h=14 --w=14 --c=8 --k=64 --r=3 --s=3 --pad_h=1 --pad_w=1",
     "conv:n=32,c=8,h=14,w=14,k=64,r=3,s=3,pad=1,layout=nhwc,filter_layout=krsc,type=f16"),
    ("cutlass_profiler --operation=Gemm --m=5 --n=6 --k=7 --A=s8:row --B=s8:col --C=s32:t",
     "gemm:m=6,n=5,k=7,ta=1,type=i8"),
    ('benchdnn --conv -v1 --mb=4 --dir=FWD_B ic3ih227iw227_oc96oh55ow55_kh11kw11_sh4sw4ph0pw0_n"x"',
     "conv:n=4,c=3,h=227,w=227,k=96,r=11,s=11,stride=4,bias=1"),
    ("benchdnn --conv --dir=BWD_D mb1ic64ih56oc64oh56kh3", "conv:n=1,c=64,h=56,w=56,k=64,r=3,s=3,"
     "pad=1,passes=bwd_data"),
    ("benchdnn --matmul --attr-post-ops=sum 10x30:30x20", "gemm:m=20,n=10,k=30,beta=1"),
    ("./gemm_bench train half 17 700 160 0 1", "gemm:m=17,n=700,k=160,tb=1,beta=1,type=f16"),
    ("./conv_bench inference int8 341 79 32 1 32 10 5 0 0 2 2",
     "conv:n=1,c=32,h=79,w=341,k=32,r=5,s=10,stride=2,type=i8"),
    ("MIOpenDriver rnn -n 224,224 -W 224 -H 1000 -l 1 -b 1 -m lstm -p 0 -r 0 -k 32 -c 0 -F 0 -t 1",
     "rnn:cell=lstm,hidden=1000,batch=224,steps=32,features=224,input=linear,"
     "passes=fwd+bwd_data+bwd_weight"),
    ("rnn_bench train half 1760 16 50 gru", "rnn:cell=gru,hidden=1760,batch=16,steps=50,"
     "passes=fwd+bwd_data+bwd_weight,type=f16"),
]  # fmt: skip


@census("line, string", LINES)
def test_lines_that_people_have(line, string):
    assert str(table.parse_line(line)) == string


REFUSED = [
    ("gem:m=3", "did you mean 'gemm'?"),
    ("gemm:m=3,n=4", "gemm has no k; give what it lacks"),
    ("gemm:m=3,n=4,k=5,kk=6", "no key 'kk'; did you mean 'k'?"),
    ("gemm:m=3,n=4,k=5,k=6", "k is given twice"),
    ("gemm:m=3,n=4,k=0", "k is 0; it must be at least 1"),
    ("gemm:m=3,n=4,k=5,type=f15", "did you mean 'f16'?"),
    ("conv:n=1,c=2,h=3,w=3,k=5,r=3,s=3,passes=fwd+bwd_dat", "did you mean 'bwd_data'?"),
    ("rnn:cell=lsmt,hidden=4,batch=2,steps=3", "did you mean 'lstm'?"),
    ("MIOpenDriver cnv -n 3", "did you mean 'conv'?"),
    ("MIOpenDriver rnn -l 8", "one layer is read; write a config with a [Recurrent] of each"),
    ("MIOpenDriver rnn -n 4,4,3 -k 3", "only as many samples at each step are read"),
    ("MIOpenDriver rnn -m lstmm", "did you mean 'lstm'?"),
    ("MIOpenDriver rnn -p 1 -W 8 -H 9 -F 1", "input_mode=skip adds 8 features of x to 9 units"),
    ("MIOpenDriver conv -m trans", "only conv is read"),
    ("MIOpenDriver conv -n", "-n has no value"),
    ("MIOpenDriver conv -I NHWC -O NCHW", "-O is 'NCHW'; only that of the images is read"),
    ("MIOpenDriver conv -I CHWN", "only NCHW and NHWC are read"),
    ("MIOpenDriver conv -n 1 --spatial_dim 3", "only two dimensions are read"),
    ("rocblas-bench -f gemm -m 3 --lda 5", "matrices have no gaps"),
    ("rocblas-bench -f gemm_ex --a_type f16_r --b_type f16_r --c_type f32_r", "simgen has f16"),
    ("cutlass_profiler --operation=Gemm --m=1024:4096:256", "write one whole number"),
    ("cutlass_profiler --operation=Gemm --pad_h=3", "gemm has no such option"),
    ("benchdnn --conv ic3ih5oc4kh3oh4", "pads alike on both sides"),
    ("benchdnn --conv ic3id5ih5oc4kh3", "only images are read"),
    ("benchdnn --matmul 10x30:20x30", "do not fit together"),
    ("benchdnn --conv 'ic3", "a quotation has no end"),
    ("gemm_bench train halv 1 2 3 0 0", "did you mean 'half'?"),
    ("gemm_bench train half 1 2 3", "5 arguments; give train half M N K TA TB"),
    ("gemm_bench train half 1 2 x 0 0", "k is 'x'; write a whole number"),
]


@census("word, fact", REFUSED)
def test_what_cannot_be_read_is_one_line(simgen, word, fact):
    fails(simgen(f"show {shlex.quote(word)}"), 2, fact)


def test_a_workload_of_each_form_is_shown_in_each_form(simgen):
    string = "conv:n=2,c=3,h=8,w=9,k=4,r=3,s=3,pad=1,passes=bwd_data"
    for form in ("string", "miopen", "benchdnn"):
        line = simgen(f"show '{string}' --as {form}").out
        assert simgen(f"show {shlex.quote(line.strip())} --as string").out == f"{string}\n"
    fails(simgen(f"show '{string}' --as rocblas"), 2, "no line for a convolution")
    fails(simgen(f"show '{string}' --as miopn"), 2, "did you mean 'miopen'?")
    fails(simgen(f"show '{string}' --as cutlass"), 2, "no convolution of NCHW images")
    string += ",layout=nhwc,filter_layout=krsc"
    line = simgen(f"show '{string}' --as cutlass").out
    assert "--Activation=f32:nhwc" in line
    fails(simgen(f"show '{string}' --as deepbench"), 2, "no convolution of NHWC images")


@pytest.mark.parametrize(
    "word",
    ["gemm:m=3,n=4,k=5,type=f32", "conv:n=1,c=2,h=3,w=3,k=5,r=3,s=3,type=f32", "MIOpenDriver gemm",
     "rocblas-bench -f gemm -r s", "gemm:m=3,n=4,k=5,type=bf16"],
)  # fmt: skip
def test_a_type_that_the_words_say_stays(simgen, word):
    said = "type=bf16" if "bf16" in word else "type=f32"
    fails(simgen(f"show {shlex.quote(word)} --type f16"), 2, f"the workload says {said} already")
    assert (
        simgen("show gemm:m=3,n=4,k=5 --type f16 --as string").out == "gemm:m=3,n=4,k=5,type=f16\n"
    )


def test_sparse_products_and_all_reduces_are_written_as_strings(simgen):
    for string in (
        "sparse:m=64,n=9,k=32,sparsity=0.75,side=8",
        "allreduce:elements=10,ranks=8,route=tree",
    ):
        assert simgen(f"show {string} --as string").out == f"{string}\n"
    given = "show sparse_gemm_fwd --set m=30 --set n=8 --set k=20 --set nonzeros=96 --as string"
    assert simgen(given).out == "sparse:m=30,n=8,k=20,sparsity=0.84\n"
    fails(simgen(f"show {string} --as rocblas"), 2, "no line for an all-reduce")


def test_layers_of_a_network_that_no_library_has_are_named(simgen):
    done = simgen("show lenet5 --as miopen --json").json()
    assert [line.split()[1] for line in done["lines"]] == ["conv", "conv", "gemm", "gemm"]
    assert {"pool1", "softmax"} < done["without"].keys()
    fails(simgen("show softmax_fwd --as miopen"), 2, "no layer here has such a line")


RECURRENT = """[DNNMark]
run_mode=composed
[Input]
name=x
shape=6x2x16
[Input]
name=h
shape=2x16
[Recurrent]
name=given
cell=gru
previous_layer=x,h
initial_state=true
[Recurrent]
name=plain
cell=tanh
previous_layer=given
"""


@pytest.mark.parametrize("form", ["miopen", "string"])
def test_a_layer_that_a_line_does_not_say_is_left_out_by_name(simgen, tmp_path, form):
    path = tmp_path / "states.dnnmark"
    path.write_text(RECURRENT)
    done = simgen(f"show {path} --as {form}")
    assert len(done.out.splitlines()) == 1
    assert "tanh" in done.out
    assert "x, h; given ([Recurrent] with initial_state=true)" in done.err
    for words, fact in [
        ("gemm_fwd --type f16 --set transb=true --set b_type=i4 --set b_scale=.01",
         "[Gemm] with b_scale=0.01"),
        ("fc_fwd --type f16 --set w_type=i8 --set w_scale=.01", "[FullyConnected] with w_type=i8"),
        ("lenet5_i8 --layers conv1", "[Convolution] with x_scale="),
        ("recurrent_fwd --set final_state=true", "[Recurrent] with final_state=true"),
    ]:  # fmt: skip
        fails(simgen(f"show {words} --as {form}"), 2, fact)
    assert (
        simgen("show gemm_fwd --set type=i8 --as string").out == "gemm:m=256,n=256,k=256,type=i8\n"
    )


def test_layouts_are_said_or_the_line_is_left_out(simgen):
    plain = "conv_fwd --set conv_mode=cross_correlation --layout nhwc"
    assert "--stag=axb --dtag=axb g1mb126" in simgen(f"show {plain} --as benchdnn").out
    assert "-I NHWC -O NHWC" in simgen(f"show {plain} --as miopen").out
    done = simgen("show resnet18 --as cutlass")
    assert (len(done.out.splitlines()), done.err.count("NCHW images")) == (1, 1)


def test_products_of_a_fully_connected_layer_are_those_of_blas(simgen):
    """y^T = w x^T, dx^T = w^T dy^T and dw^T = x^T dy, where x (N, I), y (N, K) and w (K, I) by rows
    are (I, N), (K, N) and (I, K) by columns."""
    words = "show fc_bwd --set n=3 --set c=5 --set num_output=7 --as string"
    backward = ["gemm:m=5,n=7,k=3,tb=1", "gemm:m=5,n=3,k=7"]
    assert simgen(words).out.splitlines() == backward
    assert simgen(words.replace("bwd", "fwd")).out == "gemm:m=7,n=3,k=5,ta=1\n"


def test_families_name_every_key_once():
    for family in operation.FAMILIES.values():
        names = [each.name for each in fields(family)]
        assert not {*family.both} & {*names}
