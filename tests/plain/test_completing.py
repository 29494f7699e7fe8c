"""What a shell is offered."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import click
import golden
import pytest
from command_line import CUDA, ROOT

from simgen.cli import offered
from simgen.cli.main import cli

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
    "lint x -s gem5@25": {"gem5@25.0", "gem5@25.1"},
    "legalise x --simulator mgp": {"mgpusim", "mgpusim@4.2.0"},
    "lint x -s mgpusim --arch ": {"gfx803", "gfx942"},
    "conform --on g": {"gem5-se", "gpgpusim"},
    "conform --on gpgpusim --mode ": {"functional", "timing"},
    "conform --gem5-version 25": {"25.0", "25.1"},
    "rates --on mgpusim --arch gfx9": {"gfx942"},
    "bisect made cu": {"cuda"},
    "build lenet5 --optimizer ad": {"adam", "adamw"},
    "build lenet5 --loss cr": {"cross_entropy"},
    "build lenet5 --layout n": {"nchw", "nhwc"},
    "build lenet5 --values ex": {"exact"},
    "run made --executor s": {"slurm"},
    "report made --figures pdf,s": {"pdf,svg"},
    "show lenet5 --as m": {"miopen"},
    "study ic": {"icpe18"},
    "study icpe18 --targets mgp": {"mgpusim"},
    "list metr": {"metrics"},
    "list deepbench co": {"conv"},
    "config target=mg": {"target=mgpusim"},
    "doctor --gem5-version 23": {"23.0", "23.1"},
    "cache miopen --gfx gfx90": {"gfx900", "gfx902"},
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


FREE = {  # metavars of texts and numbers, which nobody can know before
    "N", "N,N", "R", "S", "K", "D", "L", "P", "MONEY", "F,F", "P%", "OPS",
    "BYTES", "SECONDS", "W", "TEXT", "RE",
    "ARG", "IMAGE", "K=V",
}  # fmt: skip


def test_every_option_that_has_words_or_files_is_completed():
    def commands(of, path):
        if isinstance(of, click.Group):
            for name, each in of.all().items():
                yield from commands(each, f"{path} {name}")
        else:
            yield path, of

    lacking, seen = [], 0
    for path, command in commands(cli, ""):
        for param in command.get_params(click.Context(command)):
            if isinstance(param, click.Option) and not param.is_flag and not param.hidden:
                seen += 1
                known = isinstance(param.type, click.Choice | click.Path)
                if not known and not param._custom_shell_complete and param.metavar not in FREE:
                    lacking.append(f"{path} {param.opts[0]}")
    assert lacking == []
    assert seen > 200


def test_what_is_offered_before_anything_is_imported_is_what_there_is():
    now = json.loads(json.dumps(golden.offered_now()))
    assert json.loads(offered.path().read_text()) == now, "python tests/golden.py accept offered"
    assert offered.problems() == golden.problems()


HEAVY = {"simgen.targets", "simgen.layers", "simgen.bundle", "numpy", "jinja2", "h5py"}
# Imports are what costs: 0.1 s of CPU without them, and more than 0.35 s with them.
WATCHED = f"""
import sys
from simgen.cli import main
try:
    main.main()
finally:
    print(sorted({HEAVY} & {{*sys.modules}}), file=sys.stderr)
"""


@pytest.mark.parametrize("line", ["build --help", "run --help-all", "show --help"])
def test_help_imports_no_target_and_no_layer(line):
    assert _imported(line.split(), {}) == "[]"


@pytest.mark.parametrize(
    "line",
    ["build softm", "build --ta", "run --o", "build -t ge", "build x --plan-for g", "export --as c",
     "build x --algo d", "build x --type f", "build x --arch g", "build deepbench/g", "cache "],
)  # fmt: skip
def test_a_tab_imports_no_target_and_no_layer(line):
    words = ["simgen", *line.split(" ")]
    asked = {"COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
    assert _imported([], {**asked, "_SIMGEN_COMPLETE": "bash_complete"}) == "[]"


def _imported(words, environment):
    command = [sys.executable, "-c", WATCHED, *words]
    done = subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True
    )
    assert done.stdout
    return done.stderr.strip()


def test_options_of_a_target_of_another_package_are_known(monkeypatch):
    monkeypatch.setitem(offered._table(), "brought", {})  # as if the table did not know `hip`
    monkeypatch.delitem(sys.modules, "simgen.targets", raising=False)
    assert "hip" in offered.targets()


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


THREADS = """
import os, sys
from simgen.cli import main
try:
    main.main()
finally:
    print(len(os.listdir("/proc/self/task")), "OPENBLAS_NUM_THREADS" in os.environ, file=sys.stderr)
"""


def test_a_build_starts_no_threads_of_a_blas(tmp_path):
    """They wait busily: a fifth of the processor time of `build softmax_fwd`."""
    words = ["build", "softmax_fwd", "-t", "cuda", "-q", "-o", str(tmp_path / "made")]
    environment = {name: os.environ[name] for name in os.environ if "_NUM_THREADS" not in name}
    command = [sys.executable, "-c", THREADS, *words]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "1 False\n")
