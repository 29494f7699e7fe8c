"""Lines of other programs, as their own sources and pages write them, and what these compute.

Other hands: tests/data/driver_defaults.txt has statements of the programs' sources, whose places
are in simgen/frontend/drivers/defaults.py; lines are of their documentation; `miopen_gemm` and
`onednn_conv` are the loops by which MIOpenDriver and benchdnn check results.
Costs: one second.
"""

from __future__ import annotations

import itertools
import re
import shlex
from dataclasses import replace
from math import prod
from pathlib import Path

import numpy as np
import pytest
from census import census

from simgen.errors import UsageError
from simgen.frontend import network, operation, problem
from simgen.frontend.drivers import table
from simgen.frontend.drivers.defaults import DEFAULTS
from simgen.ground.ir import Pass

SAID = Path(__file__).parents[1] / "data" / "driver_defaults.txt"
# What has no value of its own in a source: every kind of convolution; desc_t d {0}; an empty list.
IMPLIED = {
    ("cutlass_profiler conv2d", "--conv_kind"),
    ("benchdnn --conv", "d"),
    ("benchdnn --matmul", "--attr-post-ops"),
}
ROWS = [(program, option) for program, each in DEFAULTS.items() for option in each.values]
# The shortest line of each program, %s where options stand.
BARE = {
    "MIOpenDriver conv": "MIOpenDriver conv %s",
    "MIOpenDriver gemm": "MIOpenDriver gemm %s",
    "MIOpenDriver rnn": "MIOpenDriver rnn %s",
    "rocblas-bench": "rocblas-bench -f gemm_ex %s",
    "hipblaslt-bench": "hipblaslt-bench %s",
    "cutlass_profiler gemm": "cutlass_profiler --operation=Gemm %s",
    "cutlass_profiler conv2d": "cutlass_profiler --operation=Conv2d %s",
    "benchdnn --conv": "benchdnn --conv %s ic8ih9oc8kh3",
    "benchdnn --matmul": "benchdnn --matmul %s 10x30:30x20",
}
# What a bare line is, read off the sources.
WHOLE = {
    "MIOpenDriver conv": "conv:n=100,c=3,h=32,w=32,k=32,r=3,s=3,passes=fwd+bwd_data+bwd_weight",
    "MIOpenDriver gemm": "gemm:m=256,n=256,k=256",
    "MIOpenDriver rnn": "rnn:cell=tanh,hidden=32,batch=4,steps=1,input=linear,bias=0,"
    "passes=fwd+bwd_data+bwd_weight",
    "rocblas-bench": "gemm:m=128,n=128,k=128",
    "hipblaslt-bench": "gemm:m=128,n=128,k=128,type=f16",
    "cutlass_profiler gemm": "gemm:m=1024,n=1024,k=1024",
    "cutlass_profiler conv2d": "conv:n=1,c=64,h=16,w=16,k=64,r=3,s=3,pad=1,layout=nhwc,"
    "filter_layout=krsc",
    "benchdnn --conv": "conv:n=2,c=8,h=9,w=9,k=8,r=3,s=3,bias=1",
    "benchdnn --matmul": "gemm:m=20,n=10,k=30",
}


def said() -> dict[tuple[str, str], str]:
    """(program, option) -> its default, in the words of the program's source."""
    found: dict[tuple[str, str], str] = {}
    program = ""
    for line in SAID.read_text("utf-8").splitlines():
        if line.startswith("["):
            program = line[1:-1]
        elif given := re.fullmatch(r"\"\w+\", '(.)', \"(.*)\"", line):
            found[program, f"-{given[1]}"] = given[2]
        elif given := re.fullmatch(
            r'\("(\w+)(?:,(\w))?", \S+?\)(?:->default_value\((.*)\))?', line
        ):
            name = f"-{given[2]}" if given[2] else f"--{given[1]}"
            value = (given[3] or "").strip("'\"")
            product = re.fullmatch(r"(\d+)\*(\d+)", value)
            found[program, name] = str(prod(map(int, product.groups()))) if product else value
        elif given := re.fullmatch(r"(?:const int )?(\w+) += ([\w:]+)\.?f?;", line):
            found[program, f"--{given[1]}" if " " in program else given[1]] = given[2]
        elif given := re.fullmatch(r"d\.(\w+) = (.*);", line):
            found[program, given[1][0] if given[1] != "mb" else "mb"] = given[2].split(" ")[-1]
        else:
            for name, value in re.findall(
                r"(\w+) \{+(?:tag::|dnnl_data_type_|dnnl_)?(\w+)\}", line
            ):
                found[program, f"--{name.replace('_', '-')}"] = value
    return found


@census("program, option", [row for row in ROWS if row not in IMPLIED])
def test_a_default_is_what_the_programs_source_says(program, option):
    elsewhere = {  # what a value stands for there, or where it is made
        ("MIOpenDriver conv", "-b"): "", ("MIOpenDriver rnn", "-b"): "",  # atoi("") is 0
        **{("MIOpenDriver conv", name): "" for name in ("-I", "-O", "-f")},
        **{("hipblaslt-bench", f"--{name}"): "" for name in
           ("lda", "ldb", "ldc", "ldd", "stride_a", "stride_b", "stride_c", "stride_d")},
    }  # fmt: skip
    names = {"--g": "--groups"}
    words = {"library::ConvModeID::kCrossCorrelation": "cross", "1.f": "1"}
    found = said()[program, names.get(option, option)]
    wanted = elsewhere.get((program, option), DEFAULTS[program].values[option])
    assert words.get(found, found) == wanted


@pytest.mark.parametrize("program", BARE)
def test_a_line_without_options_is_what_the_source_makes_of_it(program):
    assert str(table.parse_line(BARE[program] % "")) == WHOLE[program]


@census("program, option", [(p, o) for p, o in ROWS if p in BARE and o.startswith("-")])
def test_a_default_that_is_written_out_changes_nothing(program, option):
    value = DEFAULTS[program].values[option]
    if not value or option == "-f":
        return  # it has no words, or the line has it
    joined = program.startswith(("cutlass", "benchdnn"))
    line = BARE[program] % f"{option}{'=' if joined else ' '}{value}"
    assert str(table.parse_line(line)) == WHOLE[program]


LINES = [
    # MIOpen: doc of the driver, what it logs, and its command line's own rules
    ("MIOpenDriver conv -W 32 -H 32 -c 3 -k 32 -x 5 -y 5 -p 2 -q 2 -F 1 -g 0",
     "conv:n=100,c=3,h=32,w=32,k=32,r=5,s=5,pad=2"),
    ("MIOpenDriver conv --in_layout nhwc --out_layout NHWC --fil_layout NHWC -n 1 -F 3",
     "conv:n=1,c=3,h=32,w=32,k=32,r=3,s=3,layout=nhwc,filter_layout=krsc,passes=fwd+bwd_data"),
    ("MIOpenDriver rnn -n 4 -W 32 -H 32 -m tanh -F 1",
     "rnn:cell=tanh,hidden=32,batch=4,steps=1,input=linear,bias=0"),
    ("MIOpenDriver rnnfp16 -n 8,8,4 -W 16 -H 32 -b 1 -m gru -p 0 -r 0 -q 0 -k 2 -c 1 -F 1 -t 1",
     "rnn:cell=gru,hidden=32,batch=8,steps=2,features=16,input=linear,type=f16"),
    # hipBLASLt: clients/benchmarks, without and with types
    ("hipblaslt-bench -m 64 -n 32 -k 16", "gemm:m=64,n=32,k=16,type=f16"),
    ("hipblaslt-bench --sizem 64 -n 32 -k 16 --precision f32_r --transB T --batch_count 3",
     "gemm:m=64,n=32,k=16,tb=1,batch=3"),
    ("hipblaslt-bench -m 64 -n 32 -k 16 -r i8_r --c_type i32_r --d_type i32_r --compute_type i32_r",
     "gemm:m=64,n=32,k=16,type=i8"),
    # rocBLAS: the example of its help text, and d, which is c unless --outofplace is given
    ("./rocblas-bench -f gemm -r s -m 4000 -n 4000 -k 4000 --lda 4000 --ldb 4000 --ldc 4000 "
     "--transposeA N --transposeB T", "gemm:m=4000,n=4000,k=4000,tb=1"),
    ("rocblas-bench -f gemm_ex -r H -m 256 -n 256 -k 256 --d_type f32_r --ldd 999",
     "gemm:m=256,n=256,k=256,type=f16"),
    ("rocblas-bench -f gemm_strided_batched -m 128 -n 256 -k 128 --batch_count 3 --stride_b 32768",
     "gemm:m=128,n=256,k=128,batch=3"),
    # CUTLASS: README.md and media/docs/cpp/profiler.md; "nt" runs --A=f16:column --B=f16:row
    ("./tools/profiler/cutlass_profiler --kernels=sgemm --m=3456 --n=4096 --k=4096",
     "gemm:m=3456,n=4096,k=4096"),
    ("cutlass_profiler --kernels=cutlass_simt_sgemm_128x128_8x2_nt_align1 --m=34 --n=40 --k=41",
     "gemm:m=34,n=40,k=41,tb=1"),
    ("cutlass_profiler --kernels=*h884gemm*_tn_* --m=34 --n=40 --k=41",
     "gemm:m=34,n=40,k=41,ta=1,type=f16"),
    ("cutlass_profiler --operation=Gemm --m=1024 --n=1024 --k=128", "gemm:m=1024,n=1024,k=128"),
    ("cutlass_profiler --operation=gemm --problem-size::m=10 --n=20 --k=30 --A=f16:column --B=*:t",
     "gemm:m=10,n=20,k=30,tb=1,type=f16"),
    ("cutlass_profiler --kernels=simt_sfprop* --n=8 --h=224 --w=224 --c=128 --k=128 --r=3 --s=3",
     "conv:n=8,c=128,h=224,w=224,k=128,r=3,s=3,pad=1,layout=nhwc,filter_layout=krsc"),
    # benchdnn: doc/driver_*.md, doc/knobs_*.md
    ('benchdnn --conv -v1 --mb=4 --dir=FWD_B --dt=f32 '
     'ic3ih227iw227_oc96oh55ow55_kh11kw11_sh4sw4ph0pw0_n"alexnet:conv1"',
     "conv:n=4,c=3,h=227,w=227,k=96,r=11,s=11,stride=4,bias=1"),
    ("benchdnn --conv g20_mb1_ic20ih10_oc20oh10_kh3ph1",
     "conv:n=1,c=20,h=10,w=10,k=20,r=3,s=3,pad=1,group=20,bias=1"),
    ("benchdnn --conv --dir=BWD_D mb1ic8iw9oc8ow5kw3sw2pw1",
     "conv:n=1,c=8,h=1,w=9,k=8,r=1,s=3,pad_w=1,stride_w=2,passes=bwd_data"),
    ("benchdnn --conv --dir=fwd_b mb1ic8ih8oc8kh3ph1",
     "conv:n=1,c=8,h=8,w=8,k=8,r=3,s=3,pad=1,bias=1"),
    ("benchdnn --conv --dir=FWD_D ic8ih8oc8kh3ph1sw1pw0", "conv:n=2,c=8,h=8,w=8,k=8,r=3,s=3,pad=1"),
    ("benchdnn --conv --dir=FWD_I ic8ih8pd0sd1oc8kh3dh1",
     "conv:n=2,c=8,h=8,w=8,k=8,r=3,s=3,dilation=2"),
    ("benchdnn --conv --mb=0 --dir=fwd_d mb5ic8ih8oc8oh8kh3",
     "conv:n=5,c=8,h=8,w=8,k=8,r=3,s=3,pad=1"),
    ("benchdnn --conv --dir=FWD_D ih7iw9ic4oc4oh3ow5kh3kw3sh2sw2pw1",
     "conv:n=2,c=4,h=7,w=9,k=4,r=3,s=3,pad_w=1,stride=2"),
    ("benchdnn --conv --dt=f16 --dir=FWD_D --bia-dt=f16 --stag=axb --dtag=nhwc --wtag=abxc "
     "g2ic8ih8oc8kh3", "conv:n=2,c=8,h=8,w=8,k=8,r=3,s=3,group=2,bias=1,layout=nhwc,"
     "filter_layout=krsc,type=f16"),
    ("benchdnn --matmul --stag=ab --wtag=ab --dtag=ab --runtime_dims_masks=3:3 10x30:30x20",
     "gemm:m=20,n=10,k=30"),
    ('benchdnn --matmul 12x20:20x8_n"name"', "gemm:m=8,n=12,k=20"),
    ('benchdnn --matmul 12x20:20x8n"a_name"', "gemm:m=8,n=12,k=20"),
    ("benchdnn --matmul --wtag=acb --attr-post-ops=SUM:0.5 2x10x30:2x30x20",
     "gemm:m=20,n=10,k=30,ta=1,batch=2,beta=0.5"),
    ("benchdnn --matmul --dt=s8:s8:s32 --stag=abx --wtag=xba 10x30:30x20:10x20",
     "gemm:m=20,n=10,k=30,ta=1,type=i8"),
]  # fmt: skip


@census("line, string", LINES)
def test_a_line_of_a_programs_own_pages(line, string):
    assert str(table.parse_line(line)) == string


REFUSED = [
    ("MIOpenDriver pool -n 2 -c 3 -H 8 -W 8 -y 2 -x 2 -m max -F 1",
     "simgen reads conv, gemm, rnn; write a config with [Pooling]"),
    ("MIOpenDriver bnorm -n 4 -m 1 --forw 1 -b 0 -s 1", "write a config with [BatchNorm]"),
    ("MIOpenDriver softmaxfp16 -n 4", "write a config with [Softmax]"),
    ("MIOpenDriver lrn -F 1 -m cross", "write a config with [LRN]"),
    ("MIOpenDriver activ -F 1", "write a config with [Activation]"),
    ("MIOpenDriver groupnorm -F 1", "simgen reads conv, gemm, rnn; choose one of these"),
    ("MIOpenDriver gemmbfp16", "unknown operation 'gemmbfp16'"),  # there is none
    ("MIOpenDriver conv -I NHWC", "-O is 'NCHW'; only that of the images is read; write -O NHWC"),
    ("MIOpenDriver conv --spatial_dim 3 --in_d 8 --fil_d 3", "only two dimensions are read"),
    ("MIOpenDriver conv -U fp8", "tensors are not cast here"),
    ("MIOpenDriver rnn -n 8,4 -k 4", "only as many samples at each step are read"),
    ("hipblaslt-bench -r i8_r --c_type i32_r --d_type i32_r",
     "--compute_type is f32, where a is i8"),
    ("hipblaslt-bench -m 8 -n 8 -k 8 --batch_count 4 --any_stride --stride_a 0",
     "--stride_a is '0'; matrices have no gaps in simgen: write --stride_a 64"),
    ("hipblaslt-bench -m 8 --scaleA s", "--scaleA is 's'; scales are not read"),
    ("rocblas-bench -f gemm -m 64", "--lda is '128' where it is not given"),
    ("rocblas-bench -f gemm_strided_batched -m 256 --batch_count 3",
     "--stride_a is '16384' where it is not given"),
    ("rocblas-bench -f gemm_ex --outofplace -m 256 -n 256 -k 256 --ldd 300", "write --ldd 256"),
    ("cutlass_profiler --m=3", "without --operation, it profiles every kind"),
    ("cutlass_profiler --kernels=cutlass_tensorop_s*gemm_f16_*_nt_align8 --m=3456",
     "which may be of several types; add --A=f16"),
    ("cutlass_profiler --operation=Conv3d", "simgen reads Gemm and Conv2d"),
    ("benchdnn --conv mb1ic8ih7oc8oh7kh2ph0", "pads alike on both sides give 6"),
    ("benchdnn --conv ic8ih8oc8oh2kh3", "leaves 2 of the image out on each side"),
    ("benchdnn --conv ic8ih8iw9oc8kh3", "has no iw, kw or sw above 0"),
    ("benchdnn --conv ic8oc8", "has neither height nor width"),
    ("benchdnn --conv mb0ic8ih8oc8kh3", "has no mb above 0"),
    ("benchdnn --conv --dt=f16 ic8ih8oc8kh3", "its bias is 'f32', where simgen's is f16"),
    ("benchdnn --conv ic8ih8oc8kh3 --dir=BWD_D", "is for the next one; write it before"),
    ("benchdnn --conv --dir=FWD_D,BWD_D ic8ih8oc8kh3", "several values are several problems"),
    ("benchdnn --conv --batch=inputs/conv/set_conv_all", "give one problem of that file"),
    ("benchdnn --conv --wtag=hwio ic8ih8oc8kh3", "--wtag is 'hwio'; simgen has any, abx"),
    ("benchdnn --conv --attr-scales=dst:common:0.5 ic8ih8oc8kh3", "--attr-scales is"),
    ("benchdnn --matmul 2x10x30:1x30x20", "has batches that are broadcast"),
    ("benchdnn --matmul --stag=ab 2x10x30:2x30x20", "--stag is 'ab'; simgen has any"),
    ("benchdnn --matmul --strides=8x4x1:24x6x1:21x7x1 3x2x4:3x4x6", "tensors have no gaps"),
    ("benchdnn --matmul --attr-post-ops=sum+relu:0.5 10x30:30x20", "only sum is read"),
    ("benchdnn --pool ic8ih8kh3", "write a config with [Pooling]"),
    ("gemm_bench train int8 8 8 8 0 0", "int8 is of inference alone"),
    ("rocblas-bench -f gemm -r d -m 8", "-r is 'd'; known: bf16_r"),
]  # fmt: skip


@census("line, fact", REFUSED)
def test_what_no_layer_does_is_refused_for_that_reason(line, fact):
    with pytest.raises(UsageError, match=re.escape(fact)):
        table.parse_line(line)


@pytest.mark.parametrize(
    ("line", "note"),
    [
        ("hipblaslt-bench -m 8 --bias_vector", "the bias that --bias_vector adds is left out"),
        ("cutlass_profiler --operation=Gemm --m=8", "kernels of every type that fits; this is f32"),
        ("benchdnn --conv ic8ih8oc8kh3", "the library choose how images lie; here they are NCHW"),
        ("hipblaslt-bench -m 8 --compute_type f16_r", "sums are of f32 here"),
        ("rocblas-bench -f gemm_ex -r f16_r --compute_type h", "sums are of f32 here"),
        ("cutlass_profiler --operation=Gemm --m=8 --accum=f16", "sums are of f32 here"),
        # gemm_bench.cu and conv_bench.cu of baidu-research/DeepBench: PAD_KERNELS, A_type, T1
        ("gemm_bench train half 8 8 8 0 0", "sums are of f32 here"),
        ("gemm_bench inference int8 35 8 64 0 0", "the program raises m to 36; simgen does not"),
        ("conv_bench inference int8 8 7 30 1 4 3 3 1 1 1 1", "raises c to 32, h to 8; simgen"),
        ("conv_bench inference int8 8 8 8 1 4 3 3 1 1 1 1", "NHWC and its results int8"),
        ("conv_bench train float 8 8 3 1 4 3 3 1 1 1 1", "the program raises c to 8"),
        # products by columns
        ("MIOpenDriver gemm -m 8 -C 1", "matrices by columns, as in BLAS"),
        ("benchdnn --matmul --dtag=ba 8x4:4x2", "matrices by columns, as in BLAS"),
        ("cutlass_profiler --operation=Gemm --m=8", "matrices by columns, as in BLAS"),
    ],
)
def test_what_a_line_leaves_open_is_said(simgen, line, note):
    assert note in simgen(f"show {shlex.quote(line)}").out
    plain = {
        "hipblaslt": "-m 8",
        "cutlass_p": "--operation=Gemm --A=f16 --C=f16:row",
        "benchdnn ": "--matmul 2x3:3x4",
        "rocblas-b": "-f gemm",
        "MIOpenDri": "gemm -m 8",
        "gemm_benc": "inference float 36 8 64 0 0" if "sums" in note else "train half 3 3 3 0 0",
        "conv_benc": "inference float 8 8 8 1 4 3 3 1 1 1 1",
    }
    assert note not in simgen(f"show {shlex.quote(f'{line.split()[0]} {plain[line[:9]]}')}").out


# ------------------------------------------------------------------ what the programs compute


def layer(line: str):
    """The layer that stands for a line, with its node."""
    string = str(replace(table.parse_line(line), type="f32"))
    return network.resolve(problem.find(string, (), None).config).layers[0]


def miopen_gemm(a, b, *, by_columns, ta, tb, m, n, k):
    """callCpuGemmStridedBatched of MIOpen's driver/gemm_driver.hpp, of one pair of matrices."""
    lda, ldb, ldc = (
        (k if ta else m, n if tb else k, m) if by_columns else (m if ta else k, k if tb else n, n)
    )
    if by_columns:
        a, b, ta, tb, m, n, lda, ldb = b, a, tb, ta, n, m, ldb, lda
    c = np.zeros(m * n)
    for i, j in itertools.product(range(m), range(n)):
        for p in range(k):
            left = a[lda * p + i if ta else lda * i + p]
            c[ldc * i + j] += left * b[ldb * j + p if tb else ldb * p + j]
    return c


@pytest.mark.parametrize(("by_columns", "ta", "tb"), [*itertools.product((0, 1), repeat=3)])
def test_a_product_of_miopen_is_the_one_that_its_driver_checks(by_columns, ta, tb):
    m, n, k = 3, 4, 5
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=m * k), rng.normal(size=k * n)
    wanted = miopen_gemm(a, b, by_columns=by_columns, ta=ta, tb=tb, m=m, n=n, k=k)
    placed = layer(f"MIOpenDriver gemm -m {m} -n {n} -k {k} -u {ta} -v {tb} -C {by_columns}")
    # b of BLAS is a of [Gemm]; a program by rows gives its own a first.
    memory = (b, a) if by_columns else (a, b)
    ports = placed.layer.ports(placed.node.inputs, Pass.FORWARD)
    shapes = {each.name: each.spec.shape for each in ports}
    tensors = {name: each.reshape(shapes[name]) for name, each in zip("ab", memory, strict=True)}
    y = placed.layer.reference(tensors, Pass.FORWARD)["y"]
    np.testing.assert_allclose(y.ravel(), wanted, rtol=1e-12)


def onednn_conv(x, w, *, g, stride, dilation, pad, out):
    """compute_ref_direct_fwd of benchdnn's conv/ref_conv.cpp, in two dimensions."""
    mb, ic, ih, iw = x.shape
    oc, _, kh, kw = w.shape
    (sh, sw), (dh, dw), (ph, pw), (oh_, ow_) = stride, dilation, pad, out
    y = np.zeros((mb, oc, oh_, ow_))
    for n, o, oh, ow in itertools.product(range(mb), range(oc), range(oh_), range(ow_)):
        group = o // (oc // g)
        for r, s in itertools.product(range(kh), range(kw)):
            at, to = oh * sh - ph + r * (dh + 1), ow * sw - pw + s * (dw + 1)
            if 0 <= at < ih and 0 <= to < iw:
                channels = slice(group * ic // g, (group + 1) * ic // g)
                y[n, o, oh, ow] += x[n, channels, at, to] @ w[o, :, r, s]
    return y


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("mb1ic4ih9oc6kh3", {"out": (7, 7)}),
        ("g2mb2ic4ih9iw7oc6oh5ow4kh3kw3sh2sw2",
         {"g": 2, "stride": (2, 2), "pad": (1, 1), "out": (5, 4)}),
        ("mb1ic2iw9oc2kw3dw1pw2", {"dilation": (0, 1), "pad": (0, 2), "out": (1, 9)}),
        ("mb1ic2ih8oc2oh8kh3dh1", {"dilation": (1, 1), "pad": (2, 2), "out": (8, 8)}),
    ],
)  # fmt: skip
def test_a_convolution_of_benchdnn_is_the_one_that_it_checks(text, terms):
    placed = layer(f"benchdnn --conv --dir=FWD_D {text}")
    usual = {"g": 1, "stride": (1, 1), "dilation": (0, 0), "pad": (0, 0)}
    rng = np.random.default_rng(2)
    ports = placed.layer.ports(placed.node.inputs, Pass.FORWARD)
    tensors = {p.name: rng.normal(size=p.spec.shape) for p in ports if p.name in ("x", "w")}
    wanted = onednn_conv(tensors["x"], tensors["w"], **{**usual, **terms})
    y = placed.layer.reference(tensors, Pass.FORWARD)["y"]
    assert y.shape == wanted.shape
    np.testing.assert_allclose(y, wanted, rtol=1e-9, atol=1e-12)


def test_problems_of_lines_are_read_again():
    for _, string in LINES:
        assert str(operation.parse_operation(string)) == string
