"""What a shell is offered."""

from __future__ import annotations

import pytest
from command_line import CUDA, ROOT

TRANSPOSE = str(ROOT / "examples" / "kernels" / "transpose.toml")
OFFERED = {
    "build softm": {"softmax_fwd", "softmax_bwd"},
    "build deepbench/rnn/12": {"deepbench/rnn/12", "deepbench/rnn/120"},
    "build lenet5 --target mgp": {"mgpusim"},
    "build lenet5 --target host,mgp": {"host,mgpusim"},
    "build lenet5 --set conv1.kernel": {"conv1.kernel_size=", "conv1.kernel_size_h="},
    "build conv_fwd --set kernel_size_": {"kernel_size_h=", "kernel_size_w="},
    "build lenet5 --layers conv1..poo": {"conv1..pool1", "conv1..pool2"},
    "build lenet5 --layers conv1,conv": {"conv1,conv1", "conv1,conv2"},
    "build lenet5 --pass fwd,bw": {"fwd,bwd", "fwd,bwd_data"},
    "build conv_fwd --algo winog": {"winograd"},
    "build KERNEL --set col": {"columns="},
    "show lenet5 --type bf": {"bf16"},
    "show lenet5 --plan-for h2": {"h200"},
    "run made --on cu": {"cuda"},
    "run made --sweep rep": {"repeats="},
    "run made --sweep conv1.num": {"conv1.num_output="},
    "run made --layers po": {"pool1"},
    "diff made refe": {"reference"},
    "build lenet5 --target mgpusim --arch ": {"gfx803", "gfx942"},
    "build lenet5 --arch gfx80": {"gfx801", "gfx803"},
    "build lenet5 --set pool1.pool_mode=m": {"pool1.pool_mode=max"},
    "build lenet5 --set conv1.bias=": {"conv1.bias=true", "conv1.bias=false"},
    "build cast_fwd --set type=bf": {"type=bf16"},
    "run made --sweep counters=": {"counters=yes", "counters=no"},
    "run made --sweep algo=direct,wino": {"algo=direct,winograd"},
    "run made --sweep pool1.pool_mode=av": {"pool1.pool_mode=avg"},
    # As bash parts words.
    "build lenet5 --set conv1.bias = t": {"true"},
    "build lenet5 --set conv1.bias =": {"true", "false"},
    "show lenet5 --plan-for = h2": {"h200"},
}


@pytest.mark.parametrize("line", OFFERED)
def test_names_are_completed(simgen, monkeypatch, line, tmp_path):
    if "made" in line:
        (tmp_path / "net.dnnmark").write_text(
            "[DNNMark]\nrun_mode=composed\n[Convolution]\nname=conv1\nn=1\nc=1\nh=8\nw=8\n"
            "num_output=2\nkernel_size=3\n[Pooling]\nname=pool1\nprevious_layer=conv1\n"
            "kernel_size=2\nstride=2\n"
        )
        assert simgen(f"build net.dnnmark {CUDA} -o made").code == 0
    assert OFFERED[line] <= _offered(simgen, monkeypatch, line)


def test_what_cannot_be_read_offers_nothing(simgen, monkeypatch):
    for line in ("build nothing --set ", "run nowhere --on ", "run nowhere --sweep n"):
        assert _offered(simgen, monkeypatch, line) == set()


def _offered(simgen, monkeypatch, line):
    words = ["simgen", *line.replace("KERNEL", TRANSPOSE).split(" ")]
    monkeypatch.setenv("_SIMGEN_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", " ".join(words))
    monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
    found = [each.split(",", 1) for each in simgen("").out.split()]
    monkeypatch.delenv("_SIMGEN_COMPLETE")
    return {name for kind, name in found if kind == "plain"}
