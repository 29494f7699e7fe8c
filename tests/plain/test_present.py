"""What people see: tables that stay readable in a narrow terminal, and only what is known."""

from __future__ import annotations

import io

import pytest
from handmade import small
from rich.console import Console

from simgen import present
from simgen.results import Result

ROWS = [("softmax", "1.8 MiB", "2.99e-08"), ("pool", "273.4 KiB", "-0.5")]


@pytest.fixture
def narrow(monkeypatch):
    """What is printed on a terminal of 20 columns."""
    printed = io.StringIO()
    terminal = Console(width=20, file=printed, highlight=False)
    monkeypatch.setattr(present, "_console", lambda: terminal)
    return printed


def test_a_narrow_terminal_breaks_no_word_and_no_quantity(narrow):
    present.table("host against reference", ("layer", "bytes", "largest error of all"), ROWS)
    lines = narrow.getvalue().splitlines()
    assert lines[0] == "host against reference"
    for row in ROWS:
        assert any(all(cell in line for cell in row) for line in lines)
    assert not any("largest error of all" in line for line in lines), "heads do break"
    assert any("largest" in line for line in lines)


def test_a_narrow_terminal_breaks_long_names_and_free_text(narrow):
    name, text = "pool_fwd_" + "3x" * 40, "one two three four"
    present.table(None, ("kernel", "what"), [(name, text)])
    printed = narrow.getvalue()
    assert max(map(len, printed.splitlines())) < len(name)
    assert all(word in printed for word in text.split())


@pytest.mark.parametrize(("metrics", "lines"), [({}, 0), ({"seconds": 1e-6}, 5)])
def test_times_are_shown_where_they_were_counted(metrics, lines, capsys):
    workload = small()
    counted = tuple(metrics for _ in workload.launches)
    result = Result("mgpusim", {}, counted, {})
    present.launches(workload, [result])
    assert len(capsys.readouterr().out.splitlines()) == lines


@pytest.mark.parametrize("terminal", [False, True])
def test_progress_tells_what_is_done_of_all(monkeypatch, capsys, terminal):
    monkeypatch.setattr(present, "PLAIN_INTERVAL", 0.0)
    monkeypatch.setattr("sys.stderr.isatty", lambda: terminal)
    with present.progress(quiet=False) as progress:
        kernels, data = progress("kernels", str), progress("data", present.size)
        kernels(3, 8)
        data(2**20, 2**21)
    told = capsys.readouterr()
    assert told.out == ""
    if terminal:
        assert all(text in told.err for text in ("kernels", "3 of 8", "1.0 MiB of 2.0 MiB"))
    else:
        assert told.err.splitlines() == ["kernels: 3 of 8", "data: 1.0 MiB of 2.0 MiB"]


def test_who_wants_quiet_sees_no_progress(capsys):
    with present.progress(quiet=True) as progress:
        assert progress("kernels", str) is None
    assert capsys.readouterr() == ("", "")
