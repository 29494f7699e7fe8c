"""`import simgen`: the same as the commands, with the same words, and nothing printed."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from command_line import fails
from handmade import run_by_hand, tree

import simgen as package
from simgen import api
from simgen.ask.build import BuildChoices, Destination
from simgen.ask.choice import choices
from simgen.ask.kinds import Flag
from simgen.ask.run import RunCommand
from simgen.bundle import writing as bundles
from simgen.cli.pipeline import build
from simgen.errors import (
    ConfigError,
    DamagedError,
    MismatchError,
    MissingError,
    RefusedError,
    UsageError,
)
from simgen.frontend import descent
from simgen.ground.ir import Pass
from simgen.targets.cuda import Cuda
from simgen.targets.gem5.se import Gem5Se
from simgen.targets.host import Host

SMALL = {"n": 4, "c": 10}


@pytest.fixture(autouse=True)
def silence(own_folder, capsys):
    """Nothing is printed by any of it; tests that call a command read what that prints."""
    yield
    assert capsys.readouterr() == ("", "")


@pytest.fixture(name="made")
def a_bundle():
    """`./made`, for the target that needs no compiler."""
    return package.plan("softmax_fwd", set=SMALL).build("made", ["cuda"])


def ran(made, change=lambda tensors: None):
    """The bundle, and a result in it."""
    run_by_hand(bundles.load(made.path), change)
    return made


def python(code):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()


# ------------------------------------------------------------------ import


def test_import_loads_nothing_until_a_name_is_used():
    loaded = python("import sys, simgen; simgen.errors; dir(simgen); print(*sys.modules)")
    assert {name for name in loaded if name.startswith("simgen")} == {"simgen", "simgen.errors"}
    assert {"numpy", "h5py", "jinja2", "click", "rich"}.isdisjoint(loaded)


def test_all_names_are_there_whatever_was_imported_before():
    code = (
        "import simgen.cli.main, simgen.cli.comparing, simgen.reports.pages.reporting\n"
        "import simgen.verdict.judging, simgen\n"
        "print(*(type(getattr(simgen, name)).__name__ for name in simgen.__all__))\n"
        "print(set(simgen.__all__) <= set(dir(simgen)))"
    )
    *kinds, listed = python(code)
    assert Counter(kinds) == {"type": 10, "ABCMeta": 7, "str": 1, "module": 1, "function": 10}
    assert listed == "True"


def test_other_names_are_none():
    with pytest.raises(AttributeError, match="'simgen' has no attribute 'plans'"):
        package.plans  # noqa: B018


def test_types_travel_with_the_package():
    assert (Path(package.__file__).parent / "py.typed").is_file()


# ------------------------------------------------------------------ the same as the commands


def test_a_plan_has_all_choices_of_the_command(simgen, tmp_path):
    line = (
        "build lenet5 --target cuda --set n=2 --pass fwd,bwd,sgd --layers conv1..pool1 "
        "--algo direct --rate 0.5 --training --values exact --seed 3 -o a"
    )
    plan = package.plan(
        "lenet5",
        set={"n": 2},
        passes=["fwd", "bwd", "sgd"],
        layers="conv1..pool1",
        algo="direct",
        rate=0.5,
        inference=False,
        values="exact",
        seed=3,
    )
    assert plan.name == "lenet5"
    assert {step.direction for step in plan.workload.steps} >= {Pass.FORWARD, Pass.UPDATE}
    assert simgen(line).code == 0
    plan.build("b", Cuda())
    assert tree(tmp_path / "a") == tree(tmp_path / "b")


def test_fused_in_memory_that_is_reused_as_the_command_does(simgen, tmp_path):
    assert simgen("build lenet5 --target cuda --fuse --reuse-memory -q -o a").code == 0
    package.plan("lenet5", fuse=True, reuse_memory=True).build("b", "cuda")
    assert tree(tmp_path / "a") == tree(tmp_path / "b")


def test_the_whole_way_there(made, simgen):
    assert (made.path, list(made.targets), made.ran) == (Path("made"), ["cuda"], [])
    ran(made)
    assert made.ran == ["cuda"]
    told = []
    verdict = made.diff(progress=lambda *each: told.append(each))
    assert verdict
    assert verdict.outcome == "same"
    assert verdict.summary == "1 result, 1 tensor: all right"
    assert {what for what, _, _ in told} == {"checking data", "comparing steps"}
    assert all(0 <= done <= total for _, done, total in told)
    (values,) = [each.values for each in made.result("cuda").outputs.values()]
    assert np.allclose(values.sum(axis=1), 1)
    told = {"schema": "simgen.diff/1", **verdict.as_json()}
    assert told == simgen("diff made --json").json()
    report = package.report([package.load("made")], "out")
    assert report.page.is_file()
    assert [(row.layer, row.result, row.verdict) for row in report.rows] == [
        ("softmax", "cuda", "same")
    ]


def test_a_build_tells_how_it_goes_on():
    told = []
    plan = package.plan("softmax_fwd", set=SMALL)
    plan.build("made", ["cuda"], progress=lambda *each: told.append(each))
    what, done, total = told[-1]
    assert (what, done) == ("data", total)
    assert total >= sum(buffer.spec.nbytes for buffer in plan.workload.inputs)


def test_a_wrong_result_makes_a_false_verdict(made, simgen):
    def spoil(tensors):
        tensors["softmax.y"][0, 0] += 0.5

    ran(made, spoil)
    verdict = made.diff("cuda")
    assert not verdict
    assert verdict.outcome == "different"
    assert "softmax.y" in verdict.failure
    with pytest.raises(MismatchError) as wrong:
        verdict.check()
    fails(simgen("diff made cuda -q"), 6, str(wrong.value))


def test_what_proves_nothing_is_a_failure_only_if_strict():
    made = package.plan("softmax_fwd", set={"n": 4, "c": 1}).build("one", ["cuda"])
    ran(made)
    assert made.diff()
    verdict = made.diff(strict=True)
    assert not verdict
    assert "proved nothing" in verdict.failure
    verdict = made.diff("cuda", "reference", strict=True)
    assert verdict.words == ("simgen", "diff", "one", "cuda", "reference", "--strict")


def test_targets_are_names_or_objects_with_their_settings():
    chosen = Gem5Se(arch="gfx900")
    assert api._targets(["host", chosen], {"sanitize": True}) == [Host(sanitize=True), chosen]
    assert api._targets(["host", "host"], {}) == [Host()]
    with pytest.raises(UsageError, match="--target 'gem5-se': given twice"):
        api._targets(["gem5-se", chosen, Gem5Se(arch="gfx902")], {})
    with pytest.raises(UsageError, match="--arch: no target is given by name"):
        api._targets([chosen], {"arch": "gfx902"})


# ------------------------------------------------------------------ errors


@pytest.mark.parametrize(
    ("call", "line"),
    [
        (lambda: package.plan("softmax_fvd"), "show softmax_fvd"),
        (lambda: package.plan("softmax_fwd", set={"q": 1}), "show softmax_fwd --set q=1"),
        (lambda: package.plan("softmax_fwd", set={"n": True}), "show softmax_fwd --set n=true"),
        (lambda: package.plan("lenet5", passes="fwd,bkd"), "show lenet5 --pass fwd,bkd"),
        (lambda: package.plan("lenet5", rate=0.1), "show lenet5 --rate 0.1"),
        (
            lambda: package.plan("lenet5", passes=("fwd", "bwd"), inference=True),
            "show lenet5 --pass fwd,bwd --inference",
        ),
        (
            lambda: package.plan("softmax_fwd").build("made", ["cud"]),
            "build softmax_fwd -t cud -o made",
        ),
        (
            lambda: package.plan("softmax_fwd").build("x", ["cuda"], settings={"arch": "gfx900"}),
            "build softmax_fwd -t cuda --arch gfx900 -o x",
        ),
        (lambda: package.load("nowhere"), "run nowhere"),
        (lambda: package.load("made").run("cud"), "run made --on cud"),
        (
            lambda: package.load("made").run("cuda", options={"keep": "yes"}),
            "run made --on cuda --keep yes",
        ),
        (
            lambda: package.load("made").run("cuda", inputs="cuda"),
            "run made --on cuda --inputs cuda",
        ),
        (lambda: package.load("made").run("cuda", layers=["a"]), "run made --on cuda --layers a"),
        (lambda: package.load("made").diff(), "diff made"),
        (lambda: package.load("made").diff("reference"), "diff made reference"),
        (lambda: package.report(["made"], "out"), "report made -o out"),
        (lambda: package.report(["made", "./made"], "out"), "report made ./made -o out"),
    ],
)
def test_errors_have_the_words_of_the_command(made, simgen, call, line):
    """But for options, whose names are those of keywords."""
    with pytest.raises(package.errors.SimgenError) as raised:
        call()
    done = simgen(line)
    assert spelled_alike(done.err) == spelled_alike(f"simgen: error: {raised.value}\n")
    assert "--" not in str(raised.value)
    assert done.code == raised.value.exit_code


def spelled_alike(message):
    """With options as keywords."""
    for each in (*choices(BuildChoices), *choices(Destination), *choices(RunCommand)):
        flag, *others = each.flags or ["-"]
        on = f"{each.name}=True" if isinstance(each.kind, Flag) else each.name
        for word, name in ((flag, on), *((other, f"{each.name}=False") for other in others)):
            message = re.sub(rf"(?<![\w-]){word}(?![\w-])", name, message)
    return re.sub(r"(?<![\w-])--(?=\w)", "", message)


@pytest.mark.parametrize(
    ("call", "fact"),
    [
        (
            lambda: package.plan("lenet5", passes="fwd,sgd", rate=float("nan")),
            "rate 'nan': not a fin",
        ),
        (
            lambda: package.plan("lenet5", passes="fwd,sgd", rate=-1),
            "rate '-1': write a number",
        ),
        (
            lambda: package.plan("softmax_fwd", seed=-1),
            "seed '-1': write a whole n",
        ),
        (lambda: package.plan("softmax_fwd", seed=2**63), "0 or more, below 2.63"),
        (lambda: package.plan("softmax_fwd", seed=1.5), "seed '1.5': write a whole number"),
        (
            lambda: package.load("made").run("cuda", timeout=0),
            "timeout '0': write a num",
        ),
        (
            lambda: package.load("made").run("cuda", timeout=float("inf")),
            "timeout 'inf': not",
        ),
        (lambda: package.load("made").run("cuda", options={"repeats": 0}), "repeats '0': write"),
        (
            lambda: package.load("made").run("cuda", repeats=2),
            "repeats: run has no .*; an option of a",
        ),
        (lambda: package.load("made").run("cuda", layer="fc"), "layer: .* .did you mean 'layers'"),
        (lambda: package.load("made").diff(b="cuda"), "b is given without a"),
        (lambda: package.plan("softmax_fwd").build("x", []), "targets: none is given"),
        (
            lambda: package.plan("softmax_fwd").build("x", ["host"], settings={"sanitise": True}),
            "sanitise: not a setting of any target; did you mean 'sanitize'",
        ),
        (
            lambda: package.plan("softmax_fwd").build("x", ["host"], settings={"sanitize": 1}),
            "sanitize '1': write yes or no",
        ),
        (lambda: package.report([], "out"), "no bundle is given"),
    ],
)
def test_what_the_command_line_would_not_let_through_is_refused(made, tmp_path, call, fact):
    before = tree(tmp_path)
    with pytest.raises(UsageError, match=f"^.*{fact}"):
        call()
    assert tree(tmp_path) == before, "nothing half-written"


@pytest.mark.parametrize(
    ("call", "fact"),
    [
        (lambda: package.plan(5), "workload: 5 is not a path or a name"),
        (lambda: package.plan(None), "workload: None is not a path"),
        (lambda: package.load(5), "path: 5 is not a path"),
        (lambda: package.plan("softmax_fwd").build(5), "path: 5 is not a path"),
        (lambda: package.plan("softmax_fwd").build("x", 3), "targets: 3 is not a name or a target"),
        (lambda: package.plan("softmax_fwd").build("x", [3]), "targets: 3 is not a name"),
        (
            lambda: package.plan("softmax_fwd").build("x", "host", settings=["arch"]),
            r"settings: \['arch'\] is not a mapping",
        ),
        (
            lambda: package.plan("softmax_fwd").build("x", "host", replace="no"),
            "replace: 'no' is not True or False",
        ),
        (lambda: package.load("made").run(5), "target '5': write a text"),
        (lambda: package.load("made").sweep("cuda", grid=3), "grid: 3 is not a mapping"),
        (
            lambda: package.load("made").sweep("cuda", grid={"n": [None]}),
            "grid 'n': None is not a value",
        ),
        (lambda: package.load("made").diff(5), "a: 5 is not a path"),
        (lambda: package.load("made").diff(["host"]), r"a: \['host'\] is not a path"),
        (lambda: package.load("made").result(5), "name: 5 is not a result's name"),
        (lambda: package.report(5, "x"), "report: 5 is not a bundle"),
        (lambda: package.report(["made"], 5), "output: 5 is not a path"),
        (lambda: package.report(["made"], "x", 5), "baseline: 5 is not a result's name"),
        (lambda: package.rows([5]), "rows: 5 is not a bundle"),
    ],
)
def test_a_value_of_another_type_is_named(made, call, fact):
    with pytest.raises(UsageError, match=f"^{fact}"):
        call()


def test_a_result_answers_by_layer_with_typed_values():
    made = package.plan("lenet5", set={"n": 2}, layers="conv1..pool1").build("made", "cuda")
    ran(made)
    result = made.result("cuda")
    kernels = [each.kernel for each in made.workload.launches]
    assert [each.kernel for each in result.launches] == kernels
    assert [(each.layer, each.pass_) for each in result.by_layer()] == [
        ("conv1", "fwd"), ("pool1", "fwd"),
    ]  # fmt: skip
    assert result.seconds == pytest.approx(sum(each.seconds for each in result.by_layer()))
    assert result.seconds == pytest.approx(sum(each["seconds"] for each in result.launches))
    assert (result.target, result.settings["n"]) == ("cuda", 2)
    rows = package.rows(made)
    assert [(row.layer, row.pass_, row.type, row.target, row.result) for row in rows] == [
        ("conv1", "fwd", "f32", "cuda", "cuda"), ("pool1", "fwd", "f32", "cuda", "cuda"),
    ]  # fmt: skip
    assert rows[0].seconds == result.by_layer()[0].seconds
    assert rows.columns()["bytes"] == [row.bytes for row in rows]


def test_tables_are_frames_of_pandas_and_polars(made, monkeypatch):
    ran(made)
    result, verdict = made.result("cuda"), made.diff()
    for library in ("pandas", "polars"):
        pytest.importorskip(library) if library == "pandas" else monkeypatch.setitem(
            sys.modules, library, SimpleNamespace(DataFrame=dict)
        )
    frame = result.to_pandas()
    assert list(frame.columns)[:5] == ["result", "launch", "layer", "pass", "kernel"]
    assert list(verdict.to_pandas()["verdict"]) == ["same"]
    assert result.to_polars() == result.columns()
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(MissingError, match="polars: not installed; install it: python -m pip"):
        result.to_polars()


def test_a_config_that_cannot_be_accepted_says_where(tmp_path):
    (tmp_path / "net.dnnmark").write_text("[Softmax]\nname=s\nn=2\nc=x\n")
    with pytest.raises(ConfigError, match=r"^net\.dnnmark:4: "):
        package.plan("net.dnnmark")


def test_results_are_not_lost_without_replace(made):
    ran(made)
    other = package.plan("softmax_fwd", set={"n": 8, "c": 10})
    with pytest.raises(RefusedError, match=r"^made: .*would be lost"):
        other.build("made", ["cuda"])
    assert made.ran == ["cuda"]
    assert other.build("made", ["cuda"], replace=True).gone
    assert made.ran == []


def test_damage_is_found(made):
    ran(made)
    data = made.path / "data.h5"
    data.write_bytes(data.read_bytes()[:-1] + b"!")
    with pytest.raises(DamagedError, match=r"data\.h5"):
        made.diff()


def test_the_help_names_the_learning_rates_that_are_used():
    (rate,) = (each for each in build.params if each.name == "rate")
    usual = {name: rate for name, (_, _, rate) in descent.NAMES.items()}
    assert usual["adamw"] == usual["adam"]
    assert f"[default: {usual['sgd']}; for adam {usual['adam']}]" in rate.help
