"""One rule for all that commands write: nothing into a bundle, nothing over what is a user's."""

from __future__ import annotations

import click
import pytest
from census import census
from command_line import fails
from handmade import build, run_by_hand, small, tree

from simgen.bundle import outputs
from simgen.cli.main import cli

# Each command that writes where the user says -> its words, in which OUT is the place.
WRITERS = {
    "build": "softmax_fwd --target cuda -o OUT",
    "sweep": "sweep.toml -o OUT --workflow-only",
    "report": "b -o OUT",
    "export": "b --as csv -o OUT",
    "study": "workloads -o OUT --targets host --reduced",
    "quick": "softmax_fwd --on host --set n=2 --set c=4 -o OUT",
    "new network": "alexnet -o OUT.dnnmark",
    "legalise": "kernel.s --simulator mgpusim -o OUT",
    "conform": "--on mgpusim -o OUT",
    "cache miopen": "softmax_fwd -o OUT",
    "cache pack": "-o OUT",
    "new data": "OUT --bytes 4K",
    "new kernel": "OUT",
}
NO_OPTION = {"new data", "new kernel"}  # the place is an argument
SHOWS = {"show"}  # has the options of build, and writes nothing
NAMES = (  # of files that commands write, here somebody's own
    "metrics.csv", "report.html", "study.html", "Snakefile", "page.md", "manifest.json", "notes.md",
)  # fmt: skip


def commands(group, before=""):
    for name, command in group.all().items():
        if isinstance(command, click.Group):
            yield from commands(command, f"{before}{name} ")
        else:
            yield f"{before}{name}", command


def test_all_commands_that_write_are_here():
    found = {
        name for name, command in commands(cli) if any("-o" in each.opts for each in command.params)
    }
    assert found - SHOWS == set(WRITERS) - NO_OPTION


@pytest.fixture(name="place")
def a_place(tmp_path, monkeypatch):
    """A bundle `b` with a result, a user's folder `mine`, and what commands read."""
    monkeypatch.chdir(tmp_path)
    run_by_hand(build(tmp_path / "b", small()))
    (tmp_path / "mine").mkdir()
    for name in NAMES:
        (tmp_path / "mine" / name).write_text("mine\n")
    for name in ("sweep.toml", "kernel.s"):
        (tmp_path / name).write_text('workloads = ["softmax_fwd"]\ntargets = ["host"]\n')
    for name in ("mine/x", "mine/x.dnnmark", "mine/x.hip"):
        (tmp_path / name).write_text("mine\n")
    return tmp_path


@census("name", WRITERS)
@census("out", ["mine", "mine/x", "b", "b/inner", "b/results/inner"])
def test_nothing_is_written_over_what_is_there(place, simgen, name, out):
    words = WRITERS[name]
    if name == "build" and out == "b":
        words = "alexnet --target cuda -o OUT"  # another one: it has a result of the first
    if name in ("new network", "new kernel") and out in ("mine", "b"):
        out += "/x"  # their names have endings
    before = tree(place)
    done = simgen(f"{name} {words.replace('OUT', out)}")
    if name == "new kernel":
        fails(done, 2)  # its names are no paths
    else:
        code = 4 if name in ("build", "quick") and out == "b" else 2
        fails(done, code, out.partition("/")[0])
    assert tree(place) == before


@pytest.mark.parametrize("name", ["report", "sweep", "build"])
def test_what_simgen_has_written_is_written_again(place, simgen, name):
    for out in ("new", "empty", "new", "link"):
        if out == "empty":
            (place / out).mkdir()
        if out == "link":
            (place / out).symlink_to("new")
        words = (
            WRITERS[name]
            .replace("OUT", out)
            .replace("softmax_fwd --target cuda", "lrn_fwd --set n=1 -t null")
        )
        done = simgen(f"{name} {words}")
        assert (done.code, done.err) == (0, ""), out
        (place / out / "notes.md").write_text("mine\n") if name != "build" else None
    assert name == "build" or (place / "new/notes.md").read_text() == "mine\n"


def test_a_folder_of_one_kind_is_none_of_another(place, simgen):
    assert simgen("report b -o out -q").code == 0
    before = tree(place / "out")
    fails(
        simgen("sweep sweep.toml -o out --workflow-only"), 2, "holds a report, and not a workflow"
    )
    assert tree(place / "out") == before
    assert (place / "out" / outputs.MARK).read_text() == "report\n"


def test_a_sweep_named_as_a_bundle_is_refused(place, simgen):
    (place / "sweep.toml").rename(place / "b.toml")
    before = tree(place / "b")
    fails(simgen("sweep b.toml --workflow-only"), 2, "-o b: is a bundle")
    assert tree(place / "b") == before


def test_a_report_says_what_is_of_an_earlier_one(place, simgen):
    """Somebody may have changed it, so it stays; figures are replaced by figures."""
    done = simgen("report b --as tex --figures svg -o page")
    assert done.code == 0, done.err
    assert "LaTeX: page/report.tex" in done.out
    first = place / "page"
    assert {each.suffix for each in (first / "figures").iterdir()} == {".pdf", ".svg"}
    assert ".pdf}" in (first / "report.tex").read_text()
    assert "earlier" not in done.out
    (first / "figures/10-mine.txt").write_text("mine")
    again = simgen("report b -o page")
    assert "of an earlier report: page/report.tex; remove it, or write it with" in again.out
    assert "of an earlier report: page/figures; remove it" in again.out
    assert (first / "report.tex").exists()
    assert simgen("report b --figures png -o page").code == 0
    names = {each.suffix for each in (first / "figures").iterdir()}
    assert names == {".png", ".txt"}
