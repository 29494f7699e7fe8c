"""A study on the host target: runs, figures, and that it goes on where it was."""

from __future__ import annotations

import csv
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from simgen.errors import UsageError
from simgen.reports.studies import STUDIES, reporting
from simgen.reports.studies.definition import Case, Draws, Figure, Study
from simgen.reports.studies.measuring import Scope, StudyListener
from simgen.targets.host import Host

if TYPE_CHECKING:
    from pathlib import Path

    from simgen.running.runs import Ended

pytestmark = pytest.mark.skipif(bool(Host().needs.missing()), reason="no host target here")


class Counting(StudyListener):
    """Counts the runs that were made."""

    ran = 0

    def ended(self, bundle: object, ended: Ended) -> None:
        self.ran += 1


@pytest.fixture
def study():
    made = Study(
        "small", "Small", "Nobody", "Nothing",
        (Case("classes", "softmax_fwd", (("n", "{n}"),), reduced=(("c", "10"),)),),
        (
            Figure("times", "1", "Times", "it says", Draws.BATCHES, ("seconds",)),
            Figure("memory", "2", "Memory", "it says", Draws.MEMORY),
            Figure("hits", "3", "Hits", "it says", Draws.LAYERS, ("l1_hit_rate",)),
        ),
    )  # fmt: skip
    yield made
    del STUDIES["small"]


def test_a_study_is_run_drawn_and_continued(study: Study, tmp_path: Path) -> None:
    def make(
        *batches: int, settings: tuple[tuple[str, str], ...] = ()
    ) -> tuple[int, reporting.Made]:
        counting = Counting()
        scope = Scope(("host",), batches, settings, reduced=True)
        made = reporting.make(study, scope, tmp_path, counting)
        made.check()
        return counting.ran, made

    assert make(1)[0] == 1
    ran, made = make(1, 4)
    assert ran == 1  # the other one was there
    assert make(1, 4)[0] == 0
    lines = list(csv.DictReader((tmp_path / "figures/times.csv").read_text().splitlines()))
    assert [(x["target"], x["batch"], x["place"]) for x in lines] == [
        ("host", "1", "softmax fwd"), ("host", "4", "softmax fwd"),
    ]  # fmt: skip
    assert all(float(x["value"]) > 0 for x in lines)
    assert (tmp_path / "figures/times-1.svg").read_text().startswith("<svg")
    assert "does not count what it takes: l1_hit_rate" in made.figures[2].notes[0]
    page = made.page.read_text()
    assert page.count("<svg") == 2
    assert "has not found right" not in page  # every result was compared with the reference
    with pytest.raises(UsageError, match="of a study with other settings"):
        make(4, settings=(("c", "12"),))


def test_what_ran_elsewhere_is_taken_as_if_it_had_run_here(study: Study, tmp_path: Path) -> None:
    home, there = tmp_path / "home", tmp_path / "there"
    scope = Scope(("host",), (1, 4), reduced=True, elsewhere=("host",))

    def make() -> reporting.Made:
        made = reporting.make(study, scope, home, StudyListener())
        made.check()
        return made

    assert "2 of its runs wait for another machine" in make().waiting["host"]
    assert not list(home.glob("runs/*/results/host"))
    shutil.copytree(home, there)
    for again in ("classes-n1-host: host\n", "classes-n1-host: host is there\n"):
        told = subprocess.run([there / "host.sh"], capture_output=True, text=True, check=True)
        assert again in told.stdout
    packed = there / "host-results.tar.gz"
    subprocess.run(["tar", "-xzf", packed, "-C", home], check=True)
    made = make()
    assert not made.waiting
    lines = list(csv.DictReader((home / "figures/times.csv").read_text().splitlines()))
    assert [x["batch"] for x in lines] == ["1", "4"]
    assert "has not found right" not in made.page.read_text()  # compared with the reference
    assert list(home.glob("runs/*/results/host"))
    shutil.rmtree(there / "runs" / "classes-n1-host")
    shutil.rmtree(there / "runs" / "classes-n4-host")
    told = subprocess.run([there / "host.sh"], capture_output=True, text=True)
    assert told.returncode == 5
    assert "all 2 runs failed" in told.stderr
