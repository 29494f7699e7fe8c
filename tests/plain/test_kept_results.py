"""Results of several runs of one target lie side by side, and none goes unasked."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from command_line import Done, fails
from handmade import build, run_by_hand, small, tree

import simgen
from simgen.ask.run import RunChoices, RunCommand
from simgen.bundle import commands, result_names, results
from simgen.errors import RefusedError
from simgen.running import runs
from simgen.targets.base import File
from simgen.targets.cuda import Cuda, CudaPackage, NvidiaGpu
from simgen.targets.mgpusim.target import MGPUSim

# What a run.sh does that leaves a whole result.
GOOD = """cd "${0%/*}/.."
[ ! -e "results/$SIMGEN_RESULT" ] || mv "results/$SIMGEN_RESULT" "$SIMGEN_OLD"
cp -r made "results/$SIMGEN_RESULT" || exit
mv "$SIMGEN_START/run.json" "results/$SIMGEN_RESULT"
rm -rf "$SIMGEN_START"
"""


@pytest.fixture(name="made")
def a_bundle(own_folder, tmp_path, monkeypatch):
    """A bundle whose run.sh leaves a copy of `made`, and may run here."""
    monkeypatch.setattr(NvidiaGpu, "missing", lambda self, bundle=None: [])
    script = File(GOOD.encode(), executable=True)
    monkeypatch.setattr(CudaPackage, "folder", lambda self, job, builder: {"run.sh": script})
    made = build(tmp_path / "b", small())
    run_by_hand(made).rename(made.path / "made")
    return made


def kept(made):
    return sorted(path.name for path in (made.path / "results").iterdir())


def test_runs_with_other_options_lie_side_by_side(made, simgen, monkeypatch):
    for words in ("", "--repeats 9", "--repeats 9 --warmup 2"):
        assert simgen(f"run b --on cuda -q {words}") == Done(0, "", ""), words
    monkeypatch.setenv("SIMGEN_REPEATS", "3")  # the same option, by its variable
    assert simgen("run b --on cuda -q") == Done(0, "", "")
    monkeypatch.delenv("SIMGEN_REPEATS")
    names = ["cuda", "cuda@repeats=3", "cuda@repeats=9", "cuda@warmup=2,repeats=9"]
    assert kept(made) == names
    told = json.loads(simgen("status b --json").out)["results"]
    assert [each["result"] for each in told] == ["cuda", *sorted(names[1:], key=result_names.rank)]
    out = simgen("diff b -v").out
    assert all(f"{name} against reference" in out for name in names)
    assert simgen("report b -o page -q").code == 0
    assert all(name in (made.path.parent / "page/metrics.csv").read_text() for name in names)
    assert len(re.findall(r"(?m)^ cuda( +\d+){0,2} +finished", simgen("show b").out)) == len(names)


@pytest.mark.parametrize("words", ["", "--repeats 1", "--warmup 0 --repeats 1", "--repeats 9"])
def test_the_same_options_again_are_refused_and_nothing_changes(made, simgen, words):
    assert simgen(f"run b --on cuda -q {words}") == Done(0, "", "")
    before = tree(made.path)
    done = simgen(f"run b --on cuda {words}")
    fails(done, 4, "has the result of this run", "run it anew with --replace")
    assert tree(made.path) == before
    assert simgen(f"run b --on cuda -q {words} --unless-done") == Done(0, "", "")
    assert tree(made.path) == before
    fails(simgen(f"run b --on cuda {words} --unless-done --replace"), 2, "leave one out")
    assert simgen(f"run b --on cuda -q {words} --replace") == Done(0, "", "")
    assert len(kept(made)) == 1


def test_a_damaged_result_is_made_again(made, simgen):
    assert simgen("run b --on cuda -q").code == 0
    (made.path / "results/cuda/results.h5").write_bytes(b"")
    fails(simgen("diff b"), 7, "changed since the run; run it again")
    done = simgen("run b --on cuda")
    assert (done.code, done.err) == (0, "")
    assert "replaced: b/results/cuda/results.h5: changed since the run" in done.out
    assert simgen("diff b -q") == Done(0, "", "")


@pytest.mark.parametrize(
    "spoil",
    [
        lambda made: (made / "outputs.bin").write_bytes(b""),
        lambda made: (made / "launches.csv").write_text("launch,kernel,seconds\n"),
        lambda made: (made / "outputs.bin").unlink(),
        lambda made: (made / "complete").unlink(),
        lambda made: shutil.rmtree(made) or made.mkdir(),
    ],
)
def test_a_result_that_is_not_whole_leaves_the_one_before(made, simgen, spoil):
    assert simgen("run b --on cuda -q").code == 0
    before = tree(made.path / "results/cuda")
    spoil(made.path / "made")
    fails(simgen("run b --on cuda --replace"), 5, "cuda: ")
    assert tree(made.path / "results/cuda") == before
    assert [name for name in kept(made) if not name.startswith(("failed-", ".lock"))] == ["cuda"]
    assert simgen("diff b -q") == Done(0, "", "")


def test_a_script_that_does_nothing_is_no_run(made, simgen):
    assert simgen("run b --on cuda -q").code == 0
    before = tree(made.path / "results/cuda")
    (made.path / "made").rename(made.path / "made2")
    fails(simgen("run b --on cuda --replace"), 5, "cuda: ")
    assert tree(made.path / "results/cuda") == before


def test_the_name_of_a_target_stands_for_its_only_result(made, simgen):
    assert simgen("run b --on cuda -q --repeats 9").code == 0
    assert simgen("diff b cuda reference -q") == Done(0, "", "")
    assert simgen("run b --on cuda -q --repeats 7").code == 0
    fails(simgen("diff b cuda reference"), 2, "cuda has 2 results", "cuda@repeats=7")


def test_python_has_the_same_rule(made):
    bundle = simgen.load(made.path)
    first = bundle.run("cuda", options={"repeats": 9})
    assert first.name == "cuda@repeats=9"
    assert first.provenance["options"] == {"repeats": "9"}
    with pytest.raises(RefusedError, match="run it anew with replace=True"):
        bundle.run("cuda", options={"repeats": 9})
    assert bundle.run("cuda", options={"repeats": 9}, replace=True).name == first.name
    assert bundle.run("cuda").name == "cuda"
    assert bundle.ran == ["cuda", "cuda@repeats=9"]


CUTS = [
    ({"sample": 0.05}, "mgpusim@mode=timing,sample=0.05,sampled"),
    ({"sample": 0.1}, "mgpusim@mode=timing,sample=0.1,sampled"),
    (
        {"representatives": True, "sample": 0.1},
        "mgpusim@mode=timing,sample=0.1,representatives,sampled",
    ),
    ({"representatives": True, "warm": "none"}, "mgpusim@mode=timing,warm=none,representatives"),
    ({"representatives": True}, "mgpusim@mode=timing,representatives"),
    ({"scale_model": 4}, "mgpusim@mode=timing,scale_model=4,scaled"),
]


@pytest.mark.parametrize(("cutting", "name"), CUTS, ids=[name for _, name in CUTS])
def test_runs_that_are_cut_in_other_ways_have_other_names(cutting, name):
    """And the words that make one again ask for the same."""
    target, asked = MGPUSim(), RunChoices("mgpusim", options={"mode": "timing"}, **cutting)
    assert runs.name_of(target, asked) == name
    record = SimpleNamespace(variables={}, choices=runs._recorded(target, asked, swept=False))
    words = commands.run(Path("b"), target, name, record)
    assert words == ["simgen", "run", "b", *asked.words()]
    assert words[3:7] == ["--on", "mgpusim", "--mode", "timing"]


def test_values_that_no_folder_can_be_called_get_a_digest():
    names = [
        result_names.of_run("gem5-se", {"gem5_arg": value})
        for value in ("--a=1", "--a=1\n--b=2", "--a=/x y", "--a=/x_y", "--a=1,2")
    ]
    assert names[0] == "gem5-se@gem5_arg=--a=1"
    assert len(set(names)) == len(names)
    for name in names:
        assert set(result_names.options_of(name)) == {"gem5_arg"}, name
        assert not set(name) & set("\n/ ")
    long = result_names.of_run("mgpusim", {f"option{n}": "x" * 30 for n in range(20)})
    assert len(long) <= result_names.LONGEST


def test_what_was_asked_for_is_the_same_value_in_both_files(made, simgen):
    """As the command line said it, and a run by hand by its name."""
    assert simgen("run b --on cuda -q --repeats 9 --warmup 1").code == 0
    (name,) = kept(made)
    folder = made.path / "results" / name
    found = results.load(folder / results.FILE)
    told = json.loads((folder / "run.json").read_text())["asked"]
    assert found.provenance["asked"] == told
    assert found.asked == RunCommand("cuda", options={"repeats": "9", "warmup": "1"})
    assert found.asked.words() == ["--on", "cuda", "--repeats", "9", "--warmup", "1"]
    assert found.options == {"repeats": "9", "warmup": "1"}
    by_hand = run_by_hand(made, target="cuda@l2=cold,mine")
    found = results.collect(made, Cuda(), by_hand, by_hand.name)
    assert found.asked == RunCommand("cuda", options={"l2": "cold"})
