"""Wrong usage and wrong configs: one line that helps, exit code 2, and nothing written."""

from __future__ import annotations

import json
import re
import shlex

import pytest
from census import census
from command_line import fails

USAGE = [
    ("bild", "command 'bild': unknown; did you mean 'build'?"),
    ("cache", "Missing command"),
    ("cache lst", "command 'lst': unknown; did you mean 'list'?"),
    ("--nope", "No such option"),
    ("run b --sanitize", "No such option: --sanitize; simgen build, simgen show have it"),
    ("build softmax_fwd --mode timing", "No such option: --mode; simgen run, simgen "),
    ("build", "Missing argument 'WORKLOAD'"),
    ("build softmax_fwd more", "unexpected extra argument"),
    ("build softmax_fdw", "workload 'softmax_fdw': no such workload; did you mean 'softmax_fwd'?"),
    ("build softmax", "did you mean 'softmax_"),
    ("list network", "list 'network': unknown; did you mean 'networks'?"),
    ("report net -o r.html", "-o 'r.html': the page, and more, is written to a folder; write -o r"),
    ("build ''", "workload '': no such workload"),
    ("build softmax_fwd --target cudda", "--target 'cudda': no such target; did you mean 'cuda'?"),
    ("build softmax_fwd --target host,cudda", "--target 'cudda': no such target; did you mean"),
    ("build softmax_fwd --targt cuda", "; did you mean '--target'?"),
    ("build softmax_fwd --set n", "--set 'n': not a setting; write KEY=VALUE, such as n=4"),
    ("build softmax_fwd --set =4", "--set '=4': not a setting"),
    ("build softmax_fwd --set", "requires an argument"),
    ("build softmax_fwd --set softmax_alg=log", "did you mean 'softmax_algo'?"),
    ("build softmax_fwd --set softmax_algo=lg", "did you mean 'log'?"),
    ("build softmax_fwd --set n=0", "has no n"),
    ("build softmax_fwd --set n=-4", "n is -4; it must be at least 0"),
    ("build softmax_fwd --set n=2147483648", "n is 2147483648; it must be at most 2147483647"),
    ("build softmax_fwd --set n=65536 --set c=65536", "make n, c, h or w smaller"),
    ("build softmax_fwd --pass bwd", "is pass fwd already; leave --pass out"),
    ("build softmax_fwd --pass fwrd", "--pass 'fwrd': no such pass; did you mean 'fwd'?"),
    ("build softmax_fwd --pass ''", "--pass '': no such pass"),
    ("build softmax_fwd --layers softmaxx", "--layers 'softmaxx': no layer named 'softmaxx'; did"),
    ("build classifier --layers probability..limit", "no way from probability to limit; write"),
    ("build classifier --algo fft", "--algo fft: no layer here has a choice of algorithms"),
    ("build classifier --rate 1", "--rate: no weights are updated; add sgd to --pass"),
    ("build classifier --rate -1 --pass fwd,bwd,sgd", "--rate '-1': write a number, 0 or more"),
    ("build classifier --reuse-memory --pass fwd,bwd", "--reuse-memory: a backward pass"),
    ("build softmax_sgd", "workload 'softmax_sgd': no such workload; did you mean 'softmax_"),
    ("build softmax_fwd --seed x", "--seed 'x': write a whole number, 0 or more"),
    ("build softmax_fwd --seed -1", "--seed '-1': write a whole number, 0 or more"),
    (
        "build softmax_fwd --target cuda --arch gfx902",
        "--arch: not an option of cuda; it belongs to gem5-se, mgpusim, gem5-fs and hip",
    ),
    ("build softmax_fwd --target cuda --sanitize", "it belongs to host"),
    (
        "build softmax_fwd --target host --no-legalise",
        "--no-legalise: not an option of host; it belongs to gem5-se and mgpusim",
    ),
    ("conform --on gem5-se --legalised -o x", "-o x: --legalised tells nothing of the simulator"),
    ("build softmax_fwd --target gem5-se --arch gfx9020", "gfx902"),
    ("build sgd_bwd", "layer 'sgd': [SGD] has no pass bwd; leave it out, or choose of its own"),
    ("build lenet5 --pass sgd", "has anything to do in pass sgd; add passes with --pass, such as"),
    (
        "build lenet5 --rate nan --pass fwd,bwd,sgd",
        "--rate 'nan': not a finite number",
    ),
    ("build lenet5 --rate 1e400 --pass fwd,bwd,sgd", "'1e400': not a finite number; write one"),
    (
        "build lenet5 --rate 1e9 --pass fwd,bwd,sgd",
        "--rate 1e+09: rate is 1000000000.0; it must be",
    ),
    (
        "build softmax_fwd --gpus 2",
        "--gpus: not an option of gem5-se and host; it belongs to cuda and mgpusim",
    ),
    ("build none.dnnmark", "none.dnnmark: no such file; check the path"),
    ("show .", "workload '.': a folder; name a workload or a config file"),
    ("show xyz", "workload 'xyz': no such workload; list them with: simgen list"),
    ("lint . --simulator gem5 --as sarif --json", "two forms of one output; leave out one of them"),
    ("diff none a b c", "diff 'c': takes at most two results"),
    ("run none", "none: no such folder; make one with: simgen build"),
    ("diff none", "none: no such folder"),
    ("run .", "not a bundle"),
    ("run softmax_fwd --timeout 0", "--timeout"),
    ("run softmax_fwd --timeout nan", "'nan': not a finite number; write one"),
    ("run softmax_fwd --warmup 1.5", "--warmup '1.5': write a whole number, 0 or more"),
    ("list lyers", "list 'lyers': unknown; did you mean 'layers'?"),
    ("new data x.bin", "new data: say either --bytes, for DNNMark, or --like, for samples"),
    ("new data /dev/null --bytes 4", "simgen: error: /dev/null: it is there already; remove it"),
    ("report net --score -o r", "--score: writes nothing, so not with -o; leave one out"),
    ("report net --score --as tex", "--score: writes nothing, so not with --as; leave one out"),
    ("new data x.bin --bytes 5", "give a positive multiple of 4"),
    ("new data x.bin --bytes 0", "give a positive multiple of 4"),
    (
        "new data x.bin --bytes -4",
        "--bytes '-4': not a size; write a number such as 4096, 64M or 2G",
    ),
    ("new data x.bin --bytes 4T", "--bytes '4T': not a size"),
    ("new data x.bin --bytes ''", "--bytes '': not a size"),
    ("new data . --bytes 4", "."),
]


@census("line, words", USAGE)
def test_wrong_usage_is_one_line_and_exit_code_2(simgen, line, words, tmp_path):
    done = simgen(*shlex.split(line))
    fails(done, 2, words)
    if "--json" in line:
        assert json.loads(done.out)["schema"] == "simgen.error/1"
    else:
        assert done.out == ""
    assert list(tmp_path.iterdir()) == [], "nothing was written"


NASTY = [
    "a\nb",
    "a\rb",
    "\x1b[31mred",
    "a'; touch x; '",
    "$(touch x)",
    "../../x",
    "é" * 300,
    "\udcff",
]


@census("text", NASTY)
@census(
    "words",
    [
        ("{}",),
        ("build", "{}"),
        ("build", "{}.dnnmark"),
        ("build", "softmax_fwd", "--target", "{}"),
        ("build", "softmax_fwd", "--set", "{}"),
        ("build", "softmax_fwd", "--set", "n={}"),
        ("build", "softmax_fwd", "--set", "{}=4"),
        ("build", "softmax_fwd", "--pass", "{}"),
        ("build", "softmax_fwd", "--seed", "{}"),
        ("build", "softmax_fwd", "--target", "gem5-se", "--arch", "{}"),
        ("run", "{}"),
        ("diff", "{}"),
        ("list", "{}"),
        ("new", "data", "x", "--bytes", "{}"),
        ("--{}",),
    ],
)
def test_no_text_of_the_user_breaks_the_line_or_reaches_a_shell(simgen, words, text, tmp_path):
    if len(words) == 1:
        words = (*words, "--help")
    done = simgen(*(word.replace("{}", text) for word in words))
    fails(done, 2)
    assert list(tmp_path.iterdir()) == []


CONFIGS = {
    "empty": b"",
    "binary": bytes(range(256)),
    "not UTF-8": b"[Softmax]\nname=\xff\n",
    "no section": b"n=4\n",
    "unknown section": b"[Softmux]\nn=4\n",
    "unknown key": b"[Softmax]\nn=4\nc=10\nsoftmax_mod=channel\n",
    "a key twice": b"[Softmax]\nn=4\nn=5\n",
    "a name twice": b"[Softmax]\nname=a\nn=4\nc=1\n[Softmax]\nname=a\nn=4\nc=1\n",
    "a cycle": b"[Softmax]\nname=a\nprevious_layer=a\n",
    "a missing layer": b"[Softmax]\nname=a\nprevious_layer=b\n",
    "a missing variable": b"[Softmax]\nn=$N\nc=4\n",
    "a name with a quote": b"[Softmax]\nname=a'b\nn=4\nc=4\n",
    "a negative size": b"[Softmax]\nn=-4\nc=4\n",
    "an overflow": b"[Softmax]\nn=99999\nc=99999\n",
}


@census("content", CONFIGS.values())
@census("command", ["build", "show"])
def test_a_bad_config_is_told_with_its_place(simgen, command, content, tmp_path):
    (tmp_path / "bad.dnnmark").write_bytes(content)
    done = simgen(command, "bad.dnnmark")
    fails(done, 2)
    assert re.match(r"simgen: error: bad\.dnnmark:\d+: .*; ", done.err), done.err
    assert sorted(p.name for p in tmp_path.iterdir()) == ["bad.dnnmark"]


@pytest.mark.parametrize("name", ["folder.dnnmark", "/proc/self/mem.dnnmark"])
def test_a_config_that_is_no_file_is_told(simgen, name, tmp_path):
    (tmp_path / "folder.dnnmark").mkdir()
    fails(simgen("build", name), 2, name)


# What people type who know other tools: TensorFlow's, PyTorch's, NVIDIA's and gem5's words.
TYPED = [
    ("run x --num-cus 8", "'--num-compute-units'"),
    ("run x --sms 8", "'--num-compute-units'"),
    ("build softmax_fwd --num-cus 8", "simgen run, simgen quick, simgen rates have --num-comp"),
    ("run x --on mgpusim --tcc-size 16k", "write 16KiB"),
    ("run x --target mgpusim", "'--on'"),
    ("run x --simulator mgpusim", "'--on'"),
    ("build softmax_fwd --on mgpusim", "'--target'"),
    ("build softmax_fwd --device cuda", "'--target'"),
    ("build softmax_fwd --gpu gfx942", "'--arch'"),
    ("lint . --target gem5", "'--simulator'"),
    ("diff x --atol 1e-3", "bounds follow from each kernel's sums"),
    ("report x --csv", "simgen export --as csv"),
    ("export x --format csv -o y", "'--as'"),
    ("build matmul", "'gemm_fwd'"),
    ("build gpt2", "config.json"),
    ("list gpus", "'machines'"),
    ("run x --l2-size 1MiB", "'--tcc-size'"),
    ("build softmax_fwd --batch 4", "'--set n=N'"),
    ("build softmax_fwd --batch-size 4", "'--set n=N'"),
    ("build softmax_fwd -n 4", "'--set n=N'"),
    ("build softmax_fwd --set batch_size=4", "'n'"),
    ("build softmax_fwd --dtype f16", "'--type'"),
    ("build softmax_fwd --fp16", "'--type f16'"),
    ("build softmax_fwd --type half", "'f16'"),
    ("build softmax_fwd --target cpu", "'host'"),
    ("build softmax_fwd --target gpu", "'cuda'"),
    ("build softmax_fwd --target gem5-se --arch mi300x", "'gfx942'"),
    ("build softmax_fwd --target gem5-se --gem5-version 26.0", "'25.1'"),
    ("lint . --simulator gem5@26.0", "'25.1'"),
    ("build softmax_fwd --set n=16k", "write 16000 or 16384"),
    ("build softmax_fwd --set n=16KiB", "write 16384"),
    ("build softmax_fwd --set n=4,8", "simgen run --sweep NAME=4,8 takes several"),
    ("run x --num-compute-units 4,8", "simgen run --sweep NAME=4,8 takes several"),
    ("lint . --simulator gpgpusim", "known: gem5, mgpusim"),
]


@pytest.mark.parametrize(("words", "cure"), TYPED)
def test_words_of_other_tools_get_the_right_hint(simgen, words, cure):
    done = simgen(words)
    assert done.code == 2
    assert cure in done.err


@pytest.mark.parametrize(
    ("old", "now"),
    [
        ("data x.bin --bytes 4K", "new data"),
        ("synthesise softmax_fwd --operations 1e4 -o x.dnnmark", "new network"),
        ("score none", "report --score"),
    ],
)
def test_earlier_names_of_commands_work_and_say_the_new_one(simgen, old, now):
    done = simgen(*shlex.split(old))
    assert f"simgen {old.split()[0]}: its name is now simgen {now}" in done.err
    assert ("none: no such folder" in done.err) if "none" in old else (done.code == 0)


def test_help_of_a_command_is_what_help_and_its_name_print(simgen):
    assert simgen("help build").out == simgen("build --help").out
    assert simgen("help cache list").out == simgen("cache list --help").out
    fails(simgen("help biuld"), 2, "did you mean 'build'")


def test_a_missing_argument_is_told_with_the_usage(simgen):
    fails(simgen("build"), 2, "Missing argument 'WORKLOAD'; usage: simgen build [OPTIONS] WORKLOAD")


@pytest.mark.parametrize(
    ("words", "there", "not_there"),
    [
        ("run --help", ["--sweep", "Targets have more options"], ["--gpu-clock", "--tcp-size"]),
        ("run --on cuda --help", ["--warmup", "cuda: "], ["--gpu-clock"]),
        ("run --help-all", ["--warmup", "--gpu-clock"], ["Targets have more options"]),
        ("build --target=mgpusim --help", ["--gpus"], ["--sanitize"]),
    ],
)
def test_the_help_has_the_options_of_the_targets_that_are_named(simgen, words, there, not_there):
    done = simgen(*words.split())
    assert done.code == 0
    assert all(each in done.out for each in there)
    assert not any(each in done.out for each in not_there)


@pytest.mark.parametrize("words", ["", "diff", "status", "cache", "cache list", "new data"])
def test_every_command_takes_help_all_as_help(simgen, words):
    told = [simgen(*words.split(), flag) for flag in ("--help-all", "--help")]
    assert told[0].code == 0
    assert told[0].out == told[1].out != ""


@pytest.mark.parametrize("words", [(), ("help",), ("--help",)])
def test_the_help_has_five_groups_and_whole_summaries(simgen, words):
    done = simgen(*words)
    assert done.code == 0
    titles = re.findall(r"^(\w.*):$", done.out, re.MULTILINE)
    assert titles == ["Options", "Make", "Run", "Judge", "Examine a simulator", "Look up"]
    assert "..." not in done.out.replace("[ARGS]...", "")
