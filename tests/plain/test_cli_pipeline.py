"""build, run and diff as a user meets them: what they say, and the exit code of each failure."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from command_line import CUDA, Done, fails
from handmade import build, run_by_hand, small, tree

from simgen.bundle import results
from simgen.errors import UsageError
from simgen.targets.base import Lack
from simgen.targets.cuda import Cuda, CudaPackage, NvidiaGpu
from simgen.verdict import judging

# ------------------------------------------------------------------ build


def test_build_says_what_it_made_and_what_to_do_next(simgen):
    done = simgen(f"build softmax_fwd {CUDA}")
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines() == [
        "softmax_fwd: 1 layer, 1 launch, 320 B of tensors; targets: cuda",
        "reproduce: simgen build softmax_fwd --target cuda --set n=4 --set c=10",
        "next: simgen run softmax_fwd",
    ]


def test_updates_of_weights_are_not_counted_as_layers(simgen):
    done = simgen("build lenet5 --target cuda --pass fwd,bwd,sgd")
    assert done.out.startswith("lenet5: 8 layers, ")


@pytest.mark.parametrize(
    "line",
    [
        f"build softmax_fwd {CUDA}",
        f"build softmax_bwd {CUDA} --seed 7 -o 'a folder'",
        "build net.dnnmark --target cuda --pass bwd,fwd --set s.n=4 -o -net",
        "build 'odd name.dnntemplate' --target cuda --set N=4 --set 'V=a' -o o",
    ],
)
def test_the_reproduce_line_makes_the_same_bundle(simgen, line, tmp_path):
    (tmp_path / "net.dnnmark").write_text("[Softmax]\nname=s\nn=2\nc=3\n")
    (tmp_path / "odd name.dnntemplate").write_text("[Softmax]\nname=$V\nn=$N\nc=3\n")
    done = simgen(line)
    assert done.code == 0, done
    (reproduce,) = re.findall(r"^reproduce: simgen (.*)$", done.out, re.MULTILINE)
    made = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    for folder in {p.parent for p in made if p.name == "manifest.json"}:
        subprocess.run(["rm", "-r", folder], check=True)
    again = simgen(reproduce)
    assert again.code == 0
    assert again.out == done.out
    assert {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()} == made


def test_a_bundle_in_place_of_a_workload_is_told(simgen):
    assert simgen(f"build softmax_fwd {CUDA} -o mine").code == 0
    wrong = "workload 'mine': a bundle, not a workload; name what it was built"
    fails(simgen("build mine"), 2, wrong)
    fails(simgen("show mine --set n=4"), 2, wrong)


def test_q_prints_nothing_on_success(simgen):
    for line in (f"build softmax_fwd -q {CUDA}", "new data x.bin --bytes 4K -q"):
        assert simgen(line) == Done(0, "", "")
    fails(simgen("build softmax_fdw -q"), 2)


def test_a_folder_that_is_no_bundle_is_refused(simgen, tmp_path):
    (tmp_path / "softmax_fwd").mkdir()
    (tmp_path / "softmax_fwd" / "mine").write_text("mine")
    fails(simgen(f"build softmax_fwd {CUDA}"), 2, "softmax_fwd: exists and is not a bundle")
    assert (tmp_path / "softmax_fwd" / "mine").read_text() == "mine"


@pytest.mark.parametrize("place", ["/proc/b", "/sys/b", "file/b", "file"])
def test_a_place_that_cannot_be_written_is_one_line(simgen, place, tmp_path):
    (tmp_path / "file").write_text("mine")
    fails(simgen(f"build softmax_fwd {CUDA} -o {place}"), 2, place)


def test_a_missing_compiler_is_told_with_its_cure(simgen, monkeypatch):
    from simgen.isa import toolchain

    monkeypatch.setattr(toolchain.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(toolchain, "zig", toolchain.zig.__wrapped__)
    fails(
        simgen("build softmax_fwd --target host --set n=4 --set c=10"),
        3,
        "python -m pip install ziglang==",
    )


def test_build_removes_no_results_unless_it_is_told_to(simgen, tmp_path):
    run_by_hand(build(tmp_path / "softmax_fwd", small(), Cuda()))
    kept = simgen(f"build softmax_fwd {CUDA}").out
    assert "removed" not in kept
    assert "removed" not in simgen(f"build softmax_fwd {CUDA}").out
    before = tree(tmp_path / "softmax_fwd")
    other = "build softmax_fwd --target cuda --set n=4 --set c=11"
    refused = simgen(other)
    fails(refused, 4, "results of cuda would be lost, because the workload changes", "--replace")
    assert tree(tmp_path / "softmax_fwd") == before
    done = simgen(f"{other} --replace")
    assert "no longer valid, so removed: results of cuda\n" in done.out
    assert not (tmp_path / "softmax_fwd" / "results").exists()
    assert "removed" not in simgen(f"build softmax_fwd {CUDA}").out


def test_a_config_whose_name_is_no_text_leaves_a_manifest_that_is(simgen, tmp_path):
    config = os.fsdecode(b"\xff.dnnmark")
    (tmp_path / config).write_text("[Softmax]\nn=2\nc=3\n")
    assert simgen("build", config, "--target", "cuda", "-o", "b").code == 0
    manifest = json.loads((tmp_path / "b" / "manifest.json").read_text())
    assert manifest["config"]["source"] == r"\udcff.dnnmark"


# ------------------------------------------------------------------ run


def test_a_bundle_without_a_ready_target_tells_what_is_missing(simgen, tmp_path, monkeypatch):
    lacks = [Lack("no GPU", "buy one"), Lack("no CuPy", "install it")]
    monkeypatch.setattr(NvidiaGpu, "missing", lambda self, bundle=None: lacks)
    build(tmp_path / "b", small())
    fails(simgen("run b"), 3, "no target can run on this machine: cuda: no GPU; buy one")
    fails(simgen("run b --on cuda"), 3, "cuda: no GPU; buy one | no CuPy; install it")


def test_no_layers_are_not_all_layers(simgen, tmp_path):
    build(tmp_path / "b", small())
    for sweep in ((), ("--sweep", "repeats=1,2")):
        fails(simgen("run", "b", "--on", "cuda", "--layers", "", *sweep), 2, "--layers")


def test_a_target_that_the_bundle_lacks_is_told(simgen, tmp_path):
    build(tmp_path / "b", small())
    fails(
        simgen("run b --on cudda"),
        2,
        "--on 'cudda': not a target of the bundle; did you mean 'cuda'?",
    )
    fails(simgen("run b --on host"), 2, "add it: build the bundle again with --target host")


@pytest.fixture(name="scripted")
def scripted_bundle(tmp_path, monkeypatch):
    """A bundle whose run.sh is any script, and may run here."""
    monkeypatch.setattr(NvidiaGpu, "missing", lambda self, bundle=None: [])

    def make(script):
        monkeypatch.setattr(
            CudaPackage, "folder", lambda self, job, builder: {"run.sh": cli_file(script)}
        )
        return build(tmp_path / "b", small())

    return make


def cli_file(script):
    from simgen.targets.base import File

    return File(script.encode(), executable=True)


@pytest.mark.parametrize(
    ("script", "code", "words"),
    [
        ("echo 'simgen: error: gone'; exit 3", 3, "cuda: "),
        ("exit 4", 4, "run.sh ended with exit code 4"),
        ("exit 1", 5, "run.sh ended with exit code 1"),
        ("exit 7", 7, ""),
        ("exit 0", 5, "cuda: the run left no result of this workload; build the bundle again"),
        ("echo 'simgen: error: cuda: gone'; exit 5", 5, "error: cuda: gone"),
        ("kill -9 $$", 5, ""),
        ("printf 'a\\nlast words\\n\\n'; exit 5", 5, "cuda: last words"),
        ("printf '\\033[31m\\377'; exit 5", 5, ""),
    ],
)
def test_a_failed_run_ends_in_one_line(simgen, scripted, script, code, words):
    scripted(script)
    done = simgen("run b")
    fails(done, code, words)
    assert done.out == "running on cuda\n"


def test_a_run_that_takes_too_long_is_ended(simgen, scripted):
    scripted("sleep 60")
    fails(simgen("run b --timeout 0.2"), 5, "took longer than 0.2 s; give it more with --timeout")


def test_a_changed_file_is_not_run(simgen, scripted):
    made = scripted("exit 0")
    (made.path / "cuda" / "run.sh").write_text("touch ran")
    fails(simgen("run b"), 7, "run.sh: missing or changed since it was built")
    assert not (made.path.parent / "ran").exists()


@pytest.mark.parametrize(
    ("name", "code"), [("data.h5", 7), ("workload.json", 7), ("manifest.json", 7)]
)
def test_a_truncated_file_is_exit_code_7(simgen, scripted, name, code):
    made = scripted("exit 0")
    os.truncate(made.path / name, (made.path / name).stat().st_size - 3)
    fails(simgen("run b"), code, name)
    fails(simgen("diff b"), code if name != "data.h5" else 2)


def test_a_good_run_says_where_its_results_are(simgen, scripted):
    made = scripted('cp -r "${0%/*}/../made" "${0%/*}/../results/$SIMGEN_RESULT"')
    run_by_hand(made).rename(made.path / "made")
    assert simgen("run b -q") == Done(0, "", "")
    fails(simgen("run b"), 4, "b/results/cuda: has the result of this run, of ", "--replace")
    shutil.rmtree(made.path / "results" / "cuda")
    done = simgen("run b")
    assert (done.code, done.err) == (0, "")
    assert re.search(r"0 +softmax +fwd +softmax_fwd_accurate_4x10x1 +1 us", done.out)
    assert done.out.endswith("results: b/results/cuda\nnext: simgen diff b\n")
    assert (made.path / "results" / "cuda" / "results.h5").is_file()
    assert simgen("diff b -q") == Done(0, "", "")
    assert simgen("diff b b/results/cuda/results.h5").code == 0


def test_run_options_reach_the_script_and_unknown_ones_are_refused(simgen, scripted):
    scripted('echo "repeats $SIMGEN_REPEATS"; exit 5')
    fails(simgen("run b --repeats 9"), 5, "cuda: repeats 9")
    fails(simgen("run b --repeats 0"), 2, "--repeats")
    fails(simgen("run b --num-compute-units 2"), 2, "--num-compute-units: cuda has no such option")
    fails(simgen("run b --num-compute-unit 2"), 2, "did you mean '--num-compute-units'?")
    fails(simgen("run b --tcp-size '4KiB;id'"), 2, "'4KiB;id': write it like 16KiB")


# ------------------------------------------------------------------ diff


def wrong(tensors):
    tensors["probability.y"][2] *= np.float32(1.01)


def test_a_right_result_is_exit_code_0(simgen, ran):
    done = simgen("diff net")
    assert (done.code, done.err) == (0, "")
    assert "cuda against reference" in done.out
    assert len(re.findall(r" same\n", done.out)) == 2
    assert done.out.splitlines()[-2:] == [
        "reproduce: simgen diff net", "1 result, 2 tensors: all right",
    ]  # fmt: skip
    assert "DIFFERENT" not in done.out


def test_a_wrong_result_is_exit_code_6_and_names_the_first_diverging_layer(simgen, ran):
    run_by_hand(ran, wrong)
    done = simgen("diff net")
    fails(done, 6, "cuda and reference differ first in layer probability, probability.y")
    assert "first diverging layer: probability (fwd)" in done.out
    assert "worst points of probability.y" in done.out
    assert "DIFFERENT" in done.out
    assert "probability.y is different: 10 of 80 elements are out of tolerance\n" in done.out
    assert done.out.splitlines()[-1] == (
        "1 result, 2 tensors: 1 differs, first in layer probability, probability.y"
    )
    (again,) = re.findall(r"with: simgen (.*)", done.err)
    assert simgen(again).code == 6


def test_an_equal_result_that_proves_nothing_is_not_said_to_differ(simgen, tmp_path):
    (tmp_path / "zero.dnnmark").write_text("[Dropout]\nn=2\nc=4\ndropout_probability=1\n")
    assert simgen(f"build zero.dnnmark {CUDA}").code == 0
    from simgen.bundle import writing as bundles

    run_by_hand(bundles.load(tmp_path / "zero"))
    done = simgen("diff zero")
    assert (done.code, done.err) == (0, "")
    assert re.search(r" proved nothing\n", done.out)
    assert "  dropout.y proved nothing: every element of the reference is 0\n" in done.out
    assert done.out.splitlines()[-1] == "1 result, 1 tensor: all right, but none proves anything"
    assert simgen("diff zero --json").json()["verdict"] == "proved nothing"
    done = simgen("diff zero --strict")
    fails(done, 6, "layer dropout, dropout.y, proved nothing: every element of the reference is 0")
    assert "differ" not in done.err
    assert simgen("diff zero --strict --json").code == 6
    assert "proved nothing: 1 of 1 rows, zero on cuda\n" in simgen("report zero -o r").out
    assert done.err.rstrip().endswith("simgen diff zero --strict -v")


def test_two_results_that_are_equally_wrong_are_not_right(simgen, ran, tmp_path):
    def nans(tensors):
        for values in tensors.values():
            values[:] = np.nan

    folder = run_by_hand(ran, nans)
    results.save(results.collect(ran, Cuda(), folder), ran.workload, tmp_path / "other.h5")
    done = simgen("diff net cuda other.h5")
    fails(done, 6, "cuda and reference differ first in layer limit, limit.y; other.h5 differs from")
    assert "cuda against other.h5" in done.out
    assert done.out.splitlines()[-1] == (
        "2 results, 4 tensors: 2 differ, first in layer limit, limit.y; 2 prove nothing"
    )


def test_strict_is_no_matter_where_every_tensor_proves_something(simgen, ran):
    assert simgen("diff net --strict").code == 0


@pytest.mark.parametrize("verbose", ["", " -v"])
def test_the_columns_explain_themselves(simgen, ran, verbose):
    out = simgen(f"diff net{verbose}").out
    assert "error /     error /" in out
    assert any("largest value" in line and "tolerance" in line for line in out.splitlines())
    assert ("ULPs" in out) == bool(verbose)


def test_every_result_is_compared_with_the_reference_and_with_each_other(simgen, ran, tmp_path):
    found = simgen("diff net --json").json()
    assert [(p["a"], p["b"]) for p in found["pairs"]] == [("cuda", "reference")]
    collected = results.collect(ran, Cuda(), ran.path / "results" / "cuda")
    results.save(collected, ran.workload, tmp_path / "other.h5")
    found = simgen("diff net cuda other.h5 --json").json()
    assert [(p["a"], p["b"]) for p in found["pairs"]] == [
        ("cuda", "reference"), ("other.h5", "reference"), ("cuda", "other.h5"),
    ]  # fmt: skip
    assert found["summary"] == "2 results, 4 tensors: all right"
    assert {p["verdict"] for p in found["pairs"]} == {"same"}
    assert simgen("diff net other.h5").code == 0
    assert simgen("diff net reference other.h5").code == 0
    assert "ratio" in simgen("diff net cuda other.h5").out
    here = replace(collected, provenance={**collected.provenance, "target": "host"})
    results.save(here, ran.workload, tmp_path / "here.h5")
    assert "ratio" not in simgen("diff net cuda here.h5").out


def test_two_points_of_a_sweep_are_two_rows(simgen, ran):
    for repeats in (2, 10):
        run_by_hand(ran, target=f"cuda@repeats={repeats},warmup=3")
    shutil.rmtree(ran.path / "results" / "cuda")
    told = [line.split() for line in simgen("diff net").out.splitlines()]
    assert told[1] == ["error", "/"]
    assert told[2][:3] == ["result", "repeats", "verdict"]
    assert [line[:3] for line in told[4:6]] == [["cuda", "2", "same"], ["cuda", "10", "same"]]
    assert "cuda@repeats=2,warmup=3 against reference" in simgen("diff net -v").out


def test_diff_of_several_bundles_says_how_to_judge_each(simgen, ran):
    for words in ("net net", "net net net net"):
        cure = f'judge each: for b in {words}; do simgen diff "$b"; done'
        fails(simgen(f"diff {words}"), 2, f"net: a bundle, and diff takes one; {cure}")


def made_pairs(ran, monkeypatch, found):
    """(names of results, pairs of names, what is not compared) of a diff of all results."""
    monkeypatch.setattr(judging, "find_result", lambda bundle, name: found[name])
    monkeypatch.setattr(type(ran), "targets", property(lambda self: {name: {} for name in found}))
    monkeypatch.setattr(type(ran), "ran", lambda self: list(found))
    chosen, pairs, silent = judging._chosen(ran, None, None)
    names = [result.name for result in chosen]
    return names, [(names[one], names[other]) for one, other in pairs], silent


def test_three_results_make_three_pairs(ran, monkeypatch):
    found = {name: results.Result(name, {}, (), {}) for name in "abc"}
    names, pairs, silent = made_pairs(ran, monkeypatch, found)
    assert names == ["a", "b", "c"]
    assert pairs == [("a", "b"), ("a", "c"), ("b", "c")]
    assert silent == []


def test_results_without_outputs_are_not_compared(ran, monkeypatch):
    found = {name: results.Result(name, {}, (), {}) for name in "ab"}
    found["c"] = results.Result("c", {}, (), {results.KERNELS: [(0, "SoftmaxForward")]})
    names, pairs, silent = made_pairs(ran, monkeypatch, found)
    assert (names, pairs) == (["a", "b"], [("a", "b")])
    assert silent == ["c"]
    with pytest.raises(UsageError, match="c leaves only statistics"):
        made_pairs(ran, monkeypatch, {"c": found["c"]})


def test_json_comes_also_where_results_differ(simgen, ran):
    run_by_hand(ran, wrong)
    done = simgen("diff net --json")
    fails(done, 6)
    found = done.json()
    assert found["pairs"][0]["verdict"] == "different"
    assert found["pairs"][0]["first_diverging_layer"] == "probability"


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        ("diff net cudda", 2, "'cudda' is not a target of it; did you mean 'cuda'?"),
        ("diff net refrence", 2, "did you mean 'reference'?"),
        ("diff net reference", 2, "the reference equals itself"),
        ("diff net reference reference", 2, "the reference equals itself"),
        ("diff net none.h5", 2, "none.h5: no such file"),
        ("diff net net/data.h5", 7, "not a results file of simgen"),
        ("diff net net/manifest.json", 7, "damaged"),
    ],
)
def test_what_cannot_be_compared_is_told(simgen, ran, line, code, words):
    fails(simgen(line), code, words)


def test_a_bundle_that_has_not_run_is_told(simgen, tmp_path):
    build(tmp_path / "b", small())
    fails(simgen("diff b"), 2, "nothing has run yet; run it with: simgen run b")
    fails(simgen("diff b cuda"), 2, "cuda has not run yet; run it with: simgen run b --on cuda")


def test_results_of_another_workload_are_not_used(simgen, ran):
    (ran.path / "results" / "cuda" / "complete").write_text("0" * 64)
    fails(simgen("diff net"), 7, "results/cuda: a result of another workload; run it again")


def test_values_that_changed_in_the_data_file_are_noticed(simgen, ran):
    path = ran.path / "data.h5"
    content = bytearray(path.read_bytes())
    from simgen.tensors import data_file

    content[data_file.read_header(path).entries[0].offset] ^= 1
    path.write_bytes(content)
    fails(simgen("diff net"), 7, "data.h5")


@pytest.mark.parametrize("length", [120, 121, 250])
def test_the_default_folder_has_a_name_of_bounded_length(simgen, length):
    text = "[Activation]\nname=a\nn=1\nc=7\nh=1\nw=1\n"
    for first in "ab":
        config = Path(f"{first}{'x' * (length - 1)}"[: 255 - len(".dnnmark")] + ".dnnmark")
        config.write_text(text)
        done = simgen("build", str(config), "--target", "cuda")
        assert done.code == 0, done.err
    folders = [path for path in Path().glob("[ab]*") if path.is_dir()]
    assert len(folders) == 2
    assert all(len(path.name) <= 120 for path in folders)
