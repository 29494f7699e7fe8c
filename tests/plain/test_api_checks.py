"""lint, legalise, conform, bisect, rates, export and sweeps from Python: what the commands say."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from command_line import fails
from handmade import run_by_hand

import simgen as package
from simgen.bundle import writing as bundles
from simgen.errors import MismatchError, RefusedError, SimgenError, UsageError
from simgen.ground import machine, resources
from simgen.reports.rates import measuring
from simgen.reports.rates.probes import MeasuredRate
from simgen.targets.mgpusim.target import MGPUSim
from simgen_examine import bisecting, builds, conforming
from simgen_examine.bisect.searching import Divergence
from simgen_examine.conform import lint_table, page, probe
from simgen_examine.conform.judging import Found

SWEEP = 'workloads = ["softmax_fwd"]\ntargets = ["cuda"]\n[build]\nn = [2, 3]\n'


@pytest.fixture(name="code")
def _code(own_folder):
    """`code.co`, for gfx902 as gem5 24.1 gets it, which older versions do not run right."""
    for path in sorted(resources.folder("cachefiles").glob("*/*/inputs.txt"))[::2]:
        if "code object gfx902 " in path.read_text()[:300]:
            Path("code.co").write_bytes(path.with_name("blob").read_bytes())
            return Path("code.co")
    raise AssertionError


@pytest.fixture(name="made")
def _made(own_folder):
    made = package.plan("softmax_fwd", set={"n": 4, "c": 10}).build("made", ["cuda"])
    run_by_hand(bundles.load(made.path))
    return made


REFUSALS = [  # call, command, spellings in both
    (lambda: package.lint("code.co", "gem6"), "lint code.co -s gem6", "simulator"),
    (lambda: package.lint("code.co", "gem5@9"), "lint code.co -s gem5@9", "simulator"),
    (lambda: package.lint("code.co"), "lint code.co", "simulator table"),
    (lambda: package.lint("code.co", "mgpusim"), "lint code.co -s mgpusim", ""),
    (lambda: package.lint("code.co", table="code.co"), "lint code.co --table code.co", "table"),
    (lambda: package.lint("code.co", table="no"), "lint code.co --table no", "table"),
    (lambda: package.lint("made", "gem5"), "lint made -s gem5", ""),
    (lambda: package.legalise("code.co", "gem5@9"), "legalise code.co -s gem5@9 -o x", "simulator"),
    (lambda: package.legalise("code.co", "mgpusim"), "legalise code.co -s mgpusim -o x", ""),
    (lambda: package.legalise("code.co", "gem5", dynamic_lds=-1),
     "legalise code.co -s gem5 -o x --dynamic-lds=-1", "dynamic-lds:dynamic_lds"),
    (lambda: package.legalise("code.co", "gem5", output="code.co"),
     "legalise code.co -s gem5 -o code.co", "-o:output"),
    (lambda: package.conform("mgpusm"), "conform --on mgpusm", "on"),
    (lambda: package.conform("mgpusim", mode="tming"), "conform --on mgpusim --mode tming", "mode"),
    (lambda: package.conform("mgpusim", only="("), "conform --on mgpusim --only (", "only"),
    (lambda: package.conform("mgpusim", timeout=-1), "conform --on mgpusim --timeout=-1",
     "timeout"),
    (lambda: package.conform("mgpusim", against="no"), "conform --on mgpusim --against no",
     "against"),
    (lambda: package.conform("cuda", all=True), "conform --on cuda --all", "all:all=True"),
    (lambda: package.conform("gpgpusim@x"), "conform --on gpgpusim@x", "on"),
    (lambda: package.conform("mgpusim@no"), "conform --on mgpusim@no", ""),
    (lambda: package.conform("mgpusim", gem5_version="24.0"),
     "conform --on mgpusim --gem5-version 24.0", "gem5-version:gem5_version"),
    (lambda: package.rates("host"), "rates --on host", "on:target"),
    (lambda: package.rates("gem"), "rates --on gem", "on:target"),
    (lambda: package.rates("mgpusim", {"num_compute_units": "x"}),
     "rates --on mgpusim --num-compute-units x", "num-compute-units:num_compute_units"),
    (lambda: package.rates("mgpusim", timeout="x"), "rates --on mgpusim --timeout x", "timeout"),
    (lambda: package.export("made", "csvv", "x"), "export made --as csvv -o x", "as:form"),
    (lambda: package.export("made", "csv", "code.co"), "export made --as csv -o code.co", ""),
    (lambda: package.export("made", "csv", "x", result="host"),
     "export made --as csv -o x --result host", "result"),
    (lambda: package.export("made", "csv", "x", model="n_head=1"),
     "export made --as csv -o x --model n_head=1", "model as:form"),
    (lambda: package.export("none", "csv", "x"), "export none --as csv -o x", ""),
    (lambda: package.sweep("no.toml"), "sweep no.toml", ""),
    (lambda: package.sweep("bad.toml"), "sweep bad.toml", ""),
    (lambda: package.sweep("spec", dry_run=True), "sweep spec --dry-run", "-o:output"),
    (lambda: package.sweep("good.toml", executor="slrm", workflow_only=True, jobs=0),
     "sweep good.toml --executor slrm --workflow-only --jobs 0", "jobs"),
    (lambda: package.load("made").bisect("cuda", "host"), "bisect made cuda host", ""),
    (lambda: package.load("made").bisect("cuda", "cuda:x"), "bisect made cuda cuda:x", ""),
    (lambda: package.load("made").bisect("cuda", "cuda", ulps=-1),
     "bisect made cuda cuda --ulps=-1", "ulps"),
]  # fmt: skip


def test_refusals_are_those_of_the_command(simgen, code, made):
    Path("bad.toml").write_text('workloads = ["softmx_fwd"]\ntargets = ["cuda"]\n')
    Path("good.toml").write_text(SWEEP)
    Path("spec").write_text(SWEEP)
    before = sorted(Path().rglob("*"))
    for call, command, spelled in REFUSALS:
        with pytest.raises(SimgenError) as raised:
            call()
        done = simgen(command)
        fails(done, raised.value.exit_code)
        told = done.err.removeprefix("simgen: error: ").removesuffix("\n")
        for word in spelled.split():
            flag, _, name = word.partition(":")
            told = told.replace(flag if flag[0] == "-" else f"--{flag}", name or flag)
        assert str(raised.value) == told, command
    assert sorted(Path().rglob("*")) == before


def test_lint_has_the_findings_of_the_command(simgen, code):
    found = package.lint(code, "gem5@21.1")
    done = simgen("lint code.co -s gem5@21.1 --json")
    assert {"schema": "simgen.lint/1", **found.as_json()} == done.json()
    assert found.refused
    assert not found
    with pytest.raises(RefusedError) as raised:
        found.check()
    assert f"simgen: error: {raised.value}\n" == done.err
    assert json.loads(found.sarif()) == json.loads(
        simgen("lint code.co -s gem5@21.1 --as sarif -v").out
    )
    table = found.to_pandas()
    assert len(table) == len(found.findings)
    assert set(table[table.refused].finding) <= {"ends", "wrong"}
    assert found.refused[0].reason in found._repr_html_()
    assert f"{len(found.refused)} instructions refused" in repr(found)
    assert package.lint([code], "gem5@24.1")


def test_legalise_makes_the_file_of_the_command(simgen, code):
    made = package.legalise(code, "gem5@24.0", output="python.co")
    assert simgen("legalise code.co -s gem5@24.0 -o shell.co").out.startswith(
        f"shell.co: {made.before} instructions became {made.after}"
    )
    assert Path("python.co").read_bytes() == Path("shell.co").read_bytes() == made.code
    assert package.lint("python.co", "gem5@24.0")


def test_export_writes_the_file_of_the_command(simgen, made):
    done = package.export(made, "csv", "python.csv")
    assert simgen("export made --as csv -o shell.csv").code == 0
    assert Path("python.csv").read_bytes() == Path("shell.csv").read_bytes()
    assert [
        row["layer"] for row in csv.DictReader(Path("python.csv").read_text().splitlines())
    ] == ["softmax"]
    assert (done.format, done.output) == ("csv", Path("python.csv"))


def test_a_sweep_s_file_has_the_points_of_the_command(simgen, own_folder):
    Path("good.toml").write_text(SWEEP)
    found = package.sweep("good.toml", dry_run=True)
    told = simgen("sweep good.toml --dry-run --json").json()["points"]
    assert [{"point": name, "done": done} for name, done in found.points.items()] == told
    assert len(told) == 2
    assert not found.folder.exists()
    said = []
    package.sweep("good.toml", "there", workflow_only=True, notice=said.append)
    assert said[0].startswith("workflow: there: 2 points")
    assert Path("there/Snakefile").is_file()


def test_rates_are_those_that_were_measured(monkeypatch, simgen):
    rate = MeasuredRate("DRAM, bandwidth", 1e9, "B/s", 4e9)
    measured = measuring.RatesOf(machine.find("mgpusim-mi300a", ""), (rate,))
    asked = []
    monkeypatch.setattr(measuring, "measure", lambda *all, **_: asked.append(all) or measured)
    found = package.rates("mgpusim", {"num_compute_units": 2}, timeout=5)
    assert (asked[0][1], asked[0][3]) == ({"num_compute_units": 2}, 5)
    assert found.columns()["share"] == [0.25]
    assert "25%" in found._repr_html_()
    told = simgen("rates --on mgpusim --json").json()
    assert {"schema": "simgen.rates/1", "target": "mgpusim", **found.as_json()} == told


def test_conform_is_false_when_a_form_is_wrong_or_worse_than_before(monkeypatch, simgen):
    def seen(text, found):
        form = SimpleNamespace(what="usual", text=text, instruction=SimpleNamespace(name=text))
        return SimpleNamespace(
            form=form, found=found, reason="", lanes=64, wrong=int(found is Found.WRONG),
            examples=(),
        )  # fmt: skip

    made = [seen("v_a", Found.RIGHT), seen("v_b", Found.WRONG)]
    monkeypatch.setattr(probe.Trial, "findings", lambda self: made)
    monkeypatch.setattr(conforming, "_print", lambda *_: None)
    words = {"consequence": lambda form: "", "reproducer": lambda seen: []}
    monkeypatch.setattr(page, "AMD", replace(page.AMD, **words))
    monkeypatch.setattr(lint_table, "rows", lambda *_: {})
    monkeypatch.setattr(page, "text", lambda told: "")
    found = package.conform("mgpusim", output="findings")
    assert (bool(found), found.counts["wrong"]) == (False, 1)
    assert found.columns()["finding"] == ["right", "wrong"]
    with pytest.raises(MismatchError, match="1 of 2 forms of instructions are wrong"):
        found.check()
    again = package.conform("mgpusim", against="findings/findings.json")
    assert again
    assert again.before
    made[0] = seen("v_a", Found.ENDS)
    worse = package.conform("mgpusim", against="findings/findings.json")
    assert worse.worse == {"usual: v_a": ("right", "ends")}
    assert not worse
    fails(
        simgen("conform --on mgpusim -q --against findings/findings.json"), 6, "worse than before"
    )


def test_bisect_is_true_when_nothing_differs(monkeypatch, made):
    sides = [SimpleNamespace(name=name, runs=1, seconds=0.5) for name in "ab"]
    run = SimpleNamespace(of=made.workload, a=sides[0], b=sides[1], arch="gfx942")
    place = Divergence(0, "softmax.y", 3, 2, (1, 2), said="why")
    monkeypatch.setattr(bisecting, "_searched", lambda *_: (None, run))
    assert made.bisect("a", "b")
    monkeypatch.setattr(bisecting, "_searched", lambda *_: (place, run))
    found = made.bisect("a", "b")
    assert (found.launch, found.tensor, found.element, found.runs) == (0, "softmax.y", 3, 2)
    assert found.lines[0].startswith("launch 0 (softmax fwd), kernel softmax_fwd")
    assert found.lines[0] in found._repr_html_()
    with pytest.raises(MismatchError, match=f"a and b differ: kernel {found.kernel}"):
        found.check()


def test_all_of_them_are_typed_and_told(own_folder):
    for name in ("lint", "legalise", "conform", "rates", "export", "sweep"):
        call = getattr(package, name)
        assert "CHOICES" not in call.__doc__
        assert "--" not in call.__doc__.replace("`--", "")
    with pytest.raises(UsageError, match="no such file"):
        package.legalise("made", "gem5")
    with pytest.raises(UsageError, match="give one or more"):
        package.lint([], "gem5")


def test_a_build_is_put_into_a_bundle_and_go_s_last_words_are_told(own_folder):
    checkout = Path("checkout")
    checkout.mkdir()
    (checkout / "go.mod").write_text("module github.com/sarchlab/mgpusim/v4\n")
    (checkout / "a.go").write_text("package a")
    target = MGPUSim(arch="gfx942")
    if target.needs.missing():
        pytest.skip("no Go")
    texts = []
    for _ in range(2):
        build, _ = builds.of("mgpusim@checkout", target, "checkout")
        (text,) = build.files.values()
        texts.append(text.decode())
        (checkout / "a.go").write_text("package b")
    assert f"replace github.com/sarchlab/mgpusim/v4 => {checkout.resolve()} // " in texts[0]
    assert texts[0] != texts[1]  # by which run.sh tells builds apart
    log = Path("b/results/failed-mgpusim")
    log.mkdir(parents=True)
    (log / "log.txt").write_text("a\nb.go:3: undefined: x\n")
    last = "mgpusim: the simulator cannot be built; read the log"
    said = build.said(last, Path("b"), "mgpusim")
    assert said == "mgpusim: the simulator cannot be built (b.go:3: undefined: x)"
