"""Every command that simgen prints does again what it says, and gives the same workload."""

from __future__ import annotations

import html
import json
import re
import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest
from command_line import Done, fails

from simgen.ask.build import BuildChoices
from simgen.ask.choice import choices
from simgen.bundle import commands, folder
from simgen.errors import UsageError

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "data"
TINY = "softmax_fwd --set n=2 --set c=3"
# Kinds of workloads, and what is done with them; IN is a folder with files of the user's own.
BUILDS = {
    "a built-in layer": "softmax_fwd",
    "of two words": "lrn_fwd --set n=1 --seed 7",
    "a pass with an underscore": "conv_bwd_data --set n=1",
    "a pass of several": "fc_bwd",
    "a network": "lenet5 --pass fwd,bwd",
    "training": "lenet5 --training --steps 2 --optimizer sgd,momentum=0.9 --loss-scale 8",
    "a slice": "lenet5 --layers conv1..pool1 --inference --reuse-memory",
    "a file named as a network": "IN/alexnet.dnnmark",
    "a file with passes": "IN/alexnet.dnnmark --pass fwd,bwd",
    "a file named as a layer": "IN/softmax_fwd.dnnmark --set n=3",
    "a template": "IN/block.dnntemplate --set N=2 --set WIDTH=5",
    "own kernels": "IN/kernels/reduce.toml",
    "own kernels with a size": "IN/kernels/transpose.toml",
    "a model": "IN/program.pt2 --set s77=1",
    "a model with its values": "IN/program.pt2 --set s77=1 --values model",
    "a problem string": "gemm:m=35,n=7,k=20",
    "one with a type": "gemm:m=35,n=7,k=20,type=f16",
    "one with a type asked for": "gemm:m=35,n=7,k=20 --type bf16",
    "one of a list": "deepbench/gemm/1 --scale-to 1e6",
    "scaled down": "conv_fwd --scale-to 1e6",
    "a line of benchdnn": "'benchdnn --matmul --attr-post-ops=sum 10x30:30x20'",
    "a line of MIOpenDriver": "'MIOpenDriver conv -n 2 -c 3 -H 8 -W 8 -k 4 -y 3 -x 3 -p 1 -q 1'",
    "a line of rocblas-bench": "'rocblas-bench -f gemm -r s -m 40 -n 30 -k 20 --lda 40 --ldb 20 "
    "--ldc 40'",
    "a line of hipblaslt-bench": "'hipblaslt-bench -m 64 -n 32 -k 16 --lda 64 --ldb 16 --ldc 64'",
    "samples": "lenet5 --data digits-images-idx3-ubyte.gz --set n=2",
    "samples of a file": "lenet5 --data IN/digits-images-idx3-ubyte --set n=2",
    "values": "softmax_fwd --set n=2 --set c=3 --values IN/values.npz",
    "exact values": "gemm:m=8,n=8,k=8 --values exact",
    "another machine": "conv_fwd --set n=1 --plan-for gem5-gfx902,num_compute_units=16",
    "another algorithm": "conv_fwd --set n=1 --algo direct --layout nhwc --matrix no",
    "queues": "lenet5 --pass fwd,bwd --queues 2",
    "fused": "lenet5 --fuse",
    "a loss and a rate": "lenet5 --training --loss none --rate 0.05",
    "a step of a language model": "IN/tiny/config.json --phase decode --batch 2 --context 8 --tp 2 "
    "--own-weights",
    "a setting given twice": "softmax_fwd --set n=2 --set n=4",
}
DECODER = {
    "model_type": "llama", "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
    "num_key_value_heads": 2, "intermediate_size": 32, "vocab_size": 24,
    "max_position_embeddings": 16,
}  # fmt: skip


@pytest.fixture(name="here")
def a_folder(own_folder, tmp_path, monkeypatch):
    """The user's own files, in `in files` and by whole paths."""
    home = tmp_path / "work"
    own = home / "in files"
    own.mkdir(parents=True)
    for name in ("alexnet.dnnmark", "softmax_fwd.dnnmark"):
        shutil.copy(DATA / "integers.dnnmark", own / name)
    (own / "softmax_fwd.dnnmark").write_text(
        "[DNNMark]\nrun_mode=composed\n\n[Softmax]\nname=a\nn=2\nc=5\nh=1\nw=1\n"
        "previous_layer=null\n"
    )
    layer = (own / "softmax_fwd.dnnmark").read_text()
    (own / "block.dnntemplate").write_text(layer.replace("n=2", "n=$N").replace("c=5", "c=$WIDTH"))
    shutil.copy(DATA / "program.pt2", own)
    (own / "tiny").mkdir()
    (own / "tiny" / "config.json").write_text(json.dumps(DECODER))
    shutil.copytree(ROOT / "examples" / "kernels", own / "kernels")
    monkeypatch.chdir(home)
    return home


def given(words, folder):
    return words.replace("IN/", shlex.quote(f"{folder}/")) if "IN/" in words else words


def prepare(simgen, words):
    """Files that simgen writes itself."""
    if "IN/digits" in words:
        name = "in files/digits-images-idx3-ubyte"
        assert simgen(f"data '{name}' --like mnist --samples 4 -q").code == 0
    if "IN/values" in words:
        values = np.arange(6, dtype=np.float32).reshape(2, 3, 1, 1)
        np.savez("in files/values.npz", **{"softmax.x": values})


def manifest(path):
    return json.loads((path / "manifest.json").read_text())


def built_from_report(simgen, path):
    """The commands that the report's page has for a result."""
    done = simgen(f"run {path} --on null -q")
    assert (done.code, done.err) == (0, "")
    assert simgen(f"report {path} -o page -q").code == 0
    text = html.unescape(Path("page/report.html").read_text())
    lines = re.findall(r"<div><code>((?:env \S+ )?simgen .*?)</code></div>", text)
    shutil.rmtree("page")
    return lines


CASES = [
    (name, place)
    for name, words in BUILDS.items()
    for place in ("in files", "whole")
    if place != "whole" or "IN/" in words
]


@pytest.mark.parametrize(("name", "place"), CASES)
def test_what_build_and_report_print_builds_it_again(here, simgen, name, place):
    words, own = BUILDS[name], name.startswith("own")
    prepare(simgen, words)
    asked = given(words, here / "in files" if place == "whole" else "in files")
    done = simgen(f"build {asked} --target {'cuda' if own else 'null'} -o b")
    assert (done.code, done.err) == (0, "")
    (printed,) = re.findall(r"^reproduce: simgen (.*)$", done.out, re.M)
    first = manifest(here / "b")
    if own:  # the target null takes no kernels of users, and cuda needs a GPU to run
        (words,) = commands.build(folder.load(Path("b")))
        build, run = shlex.join(words), ""
    else:
        build, run = built_from_report(simgen, "b")
    for line in (printed, build.removeprefix("simgen ")):
        shutil.rmtree(here / "b")
        again = simgen(line)
        assert (again.code, again.err) == (0, ""), line
        assert manifest(here / "b") == first, line
    if run:  # where there is a result, too
        for _ in range(2):
            assert simgen(run.removeprefix("simgen ") + " -q") == Done(0, "", "")


def test_every_choice_of_a_build_is_among_them():
    words = {word for line in BUILDS.values() for word in shlex.split(line)}
    assert {flag for each in choices(BuildChoices) for flag in each.flags} <= words


def test_a_bundle_is_the_same_wherever_it_and_its_files_lie(here, simgen, monkeypatch, tmp_path):
    assert simgen("build 'in files/alexnet.dnnmark' --target null -o out/b -q").code == 0
    shutil.copytree(here, tmp_path / "a" / "longer path")
    monkeypatch.chdir(tmp_path / "a" / "longer path")
    shutil.rmtree("out")
    assert simgen("build 'in files/alexnet.dnnmark' --target null -o out/b -q").code == 0
    made = tmp_path / "a" / "longer path" / "out" / "b"
    assert (made / "manifest.json").read_bytes() == (here / "out/b/manifest.json").read_bytes()
    monkeypatch.chdir(tmp_path)  # from elsewhere, the path is another one
    (build, _) = built_from_report(simgen, "work/out/b")
    assert build == ("simgen build 'work/in files/alexnet.dnnmark' --target null -o work/out/b")


def test_a_file_that_has_changed_is_said(here, simgen):
    assert simgen("build 'in files/alexnet.dnnmark' --target null -o b -q").code == 0
    with Path("in files/alexnet.dnnmark").open("a") as file:
        file.write("# more\n")
    assert len(built_from_report(simgen, "b")) == 1  # the run
    assert simgen("run b --on null --replace -q").code == 0
    assert simgen("report b -o page -q").code == 0
    assert "is not any more what it was built from" in Path("page/report.html").read_text()


def test_a_source_beside_a_description_that_has_changed_is_said(here, simgen):
    assert simgen("build 'in files/kernels/reduce.toml' --target cuda -o b -q").code == 0
    made = folder.load(Path("b"))
    assert commands.build(made)
    with Path("in files/kernels/reduce.hip").open("a") as file:
        file.write("// more\n")
    with pytest.raises(UsageError, match=r"kernels/reduce.hip' is not any more what it was built"):
        commands.build(made)


def test_weights_beside_a_model_that_have_changed_are_said(here, simgen):
    onnx = pytest.importorskip("onnx")
    weights = onnx.numpy_helper.from_array(np.ones((3, 2), np.float32), "w")
    types = {name: [2, extent] for name, extent in (("x", 3), ("y", 2))}
    ports = [onnx.helper.make_tensor_value_info(name, 1, shape) for name, shape in types.items()]
    node = onnx.helper.make_node("MatMul", ["x", "w"], ["y"])
    graph = onnx.helper.make_graph([node], "g", ports[:1], ports[1:], [weights])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)])
    onnx.save_model(
        model, "in files/m.onnx", save_as_external_data=True, location="m.data", size_threshold=0
    )
    assert simgen("build 'in files/m.onnx' --target null -o b -q").code == 0
    made = folder.load(Path("b"))
    assert commands.build(made)
    Path("in files/m.data").write_bytes(bytes(24))
    with pytest.raises(UsageError, match=r"m.onnx' is not any more what it was built"):
        commands.build(made)


def test_targets_and_their_settings_are_in_the_commands(here, simgen):
    words = f"{TINY} -o b -q"
    assert simgen(f"build {words} --target null").code == 0
    assert simgen(f"build {words} --target cuda --l1 bypass").code == 0
    first = manifest(here / "b")
    lines = [shlex.join(each[1:]) for each in commands.build(folder.load(here / "b"))]
    shutil.rmtree(here / "b")
    for line in lines:
        assert simgen(f"{line} -q") == Done(0, "", "")
    again = manifest(here / "b")
    assert [again[each] for each in ("files", "targets")] == [first["files"], first["targets"]]


def test_what_the_other_commands_print_runs(here, simgen):
    done = simgen(f"build {TINY} --target null -o 'my b'")
    (run,) = re.findall(r"^next: simgen (.*)$", done.out, re.M)
    done = simgen(run)
    assert (done.code, done.err) == (0, "")
    (diff,) = re.findall(r"^next: simgen (.*)$", done.out, re.M)
    done = simgen(diff)
    assert done.code == 6  # no kernel ran
    (again,) = re.findall(r"^reproduce: simgen (.*)$", done.out, re.M) or [diff]
    assert simgen(again).code == 6
    assert shlex.split(again) == ["diff", "my b"]
    # A sweep over a setting of the build, whose bundles are built beside this one.
    done = simgen("run 'my b' --on null --sweep n=2,4")
    (report,) = re.findall(r"^next: simgen (.*)$", done.out, re.M)
    assert simgen(report).code == 0
    text = html.unescape(Path("report/report.html").read_text())
    lines = [line for line in re.findall(r"simgen build [^<\n]*", text) if "n=4" in line]
    first = {each.name: manifest(each) for each in here.glob("my b@*")}
    for line in set(lines):
        words = shlex.split(line)
        shutil.rmtree(here / words[-1])
        assert simgen(line.removeprefix("simgen ")).code == 0, line
    assert {each.name: manifest(each)["files"] for each in here.glob("my b@*")} == {
        name: each["files"] for name, each in first.items()
    }
    fails(simgen("diff nothing"), 2, "make one with: simgen build")
