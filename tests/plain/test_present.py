"""What people see: tables that stay readable in a narrow terminal, and only what is known."""

from __future__ import annotations

import numpy as np
import pytest
from handmade import small

from simgen.bundle.results import Result
from simgen.cli import present
from simgen.errors import kernel_name
from simgen.verdict.compare import Comparison
from simgen.verdict.losses import StepLoss
from simgen.verdict.verdict import Diff, Verdict

ROWS = [("softmax", "1.8 MiB", "2.99e-08"), ("pool", "273.4 KiB", "-0.5")]


def printed(capsys, room, monkeypatch, *table):
    monkeypatch.setattr(present, "_room", lambda: room)
    present.table(*table)
    return capsys.readouterr().out


def test_a_narrow_terminal_breaks_no_word_and_no_quantity(capsys, monkeypatch):
    heads = ("layer", "bytes", "largest error of all")
    lines = printed(capsys, 40, monkeypatch, "host against reference", heads, ROWS).splitlines()
    assert lines[0] == "host against reference"
    for row in ROWS:
        assert any(all(cell in line for cell in row) for line in lines)
    assert not any("largest error of all" in line for line in lines), "heads do break"
    assert any("largest" in line for line in lines)
    assert max(map(len, lines)) <= 40


def test_a_narrow_terminal_breaks_long_names_and_free_text(capsys, monkeypatch):
    name, text = "pool_fwd_" + "3x" * 40, "one two three four"
    out = printed(capsys, 40, monkeypatch, None, ("kernel", "what"), [(name, text)])
    assert max(map(len, out.splitlines())) <= 40
    assert all(word in out for word in text.split())


def test_columns_are_dropped_in_order_and_named(capsys, monkeypatch):
    rows = [("conv1", "12345678", "0.25", "same")]
    heads, drop = ("layer", "elements", "error /\ntolerance", "verdict"), ("elements", "verdict")
    whole = printed(capsys, 60, monkeypatch, None, heads, rows, drop)
    assert "12345678" in whole
    assert "left out" not in whole
    less = printed(capsys, 40, monkeypatch, None, heads, rows, drop)
    assert "12345678" not in less
    assert "same" in less
    assert "left out, as the terminal is narrow:" in less.replace("\n", " ")
    assert "elements" in less.splitlines()[-1]


def test_what_has_no_room_as_a_table_is_cards(capsys, monkeypatch):
    heads = tuple(f"column{at}" for at in range(9))
    rows = [tuple(f"value{at}" for at in range(9)), tuple(f"other{at}" for at in range(9))]
    lines = printed(capsys, 40, monkeypatch, None, heads, rows).splitlines()
    assert max(map(len, lines)) <= 40
    assert "value0" in lines
    assert "  column8  value8" in lines


@pytest.mark.parametrize(("columns", "most"), [("", present.PIPED), ("72", 72), ("x", 160)])
def test_a_table_in_a_pipe_is_as_wide_as_columns_says(capsys, monkeypatch, columns, most):
    monkeypatch.setenv("COLUMNS", columns)
    text = " ".join(["word"] * 100)
    present.table(None, ("kernel", "what"), [("k", text)])
    lines = capsys.readouterr().out.splitlines()
    assert most - 10 < max(map(len, lines)) <= most
    assert not any(line.endswith(" ") for line in lines)


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


@pytest.mark.parametrize(
    ("ratio", "shown"),
    [
        (None, ""),
        (0.0, "0.00%"),
        (0.17237, "17.24%"),
        (1.0, "100.00%"),
        (12.345, "12.3 x"),
        (float("inf"), "inf"),
    ],
)
def test_a_share_of_a_limit(ratio, shown):
    assert present._share(ratio) == shown


@pytest.mark.parametrize(
    ("tensors", "shown"),
    [(("loss.y", "loss.y.step2"), False), (("a.y", "b.y"), True)],
)
def test_losses_have_names_where_there_are_several(capsys, tensors, shown):
    present.losses([StepLoss(1, name, 0.5, {"host": 0.25}) for name in tensors])
    out = capsys.readouterr().out
    assert (tensors[0] in out) is shown
    assert out.split().count("0.500000") == out.split().count("0.250000") == 2


def test_a_difference_tells_each_tensor_and_why(capsys):
    def compared(values, bound, overflowed=False):
        made = Comparison((4,))
        reference = np.array([1.0, 2.0, 4.0, 1e39 if overflowed else 3.0])
        made.add(0, np.array(values, np.float32), reference, reference, np.full(4, bound))
        return made

    made = {
        "a.y": compared([1.0, 2.0, 4.0, 3.0], 1e-6),
        "b.y": compared([1.0, 2.0, 4.0, np.inf], 1e-6, overflowed=True),
        "c.y": compared([1.0, 2.0, 4.5, 3.0], 0.0),
    }
    verdicts = tuple(Verdict(name[0], "fwd", name, one, ()) for name, one in made.items())
    present.difference(Diff("host", "reference", verdicts), details=False)
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert lines[5].split() == ["a", "fwd", "a.y", "4", "0", "0.00%", "same"]
    assert lines[7].split() == ["c", "fwd", "c.y", "4", "0.12", "inf", "DIFFERENT"]
    assert lines[7].index("inf") + 3 == lines[5].index("%") + 1, "figures stand below each other"
    assert "  b.y: 1 element overflows float32, as it must" in lines
    assert "  c.y is different: 1 of 4 elements are out of tolerance" in lines
    assert "first diverging layer: c (fwd)" in lines
    assert lines.count("worst points of c.y") == 1
    assert "worst points of a.y" not in lines


def test_a_narrow_table_leaves_out_empty_columns_and_folds_paths_behind_a_slash(
    capsys, monkeypatch
):
    heads = ("file", "mode", "num_compute_units", "state")
    rows = [("a_folder/another_folder/a_file_of_it", "", "", "finished")]
    lines = printed(capsys, 40, monkeypatch, None, heads, rows).splitlines()
    assert lines[1].split() == ["file", "state"]
    assert [line.split()[0] for line in lines[3:] if line] == [
        "a_folder/another_folder/", "a_file_of_it",
    ]  # fmt: skip


def test_a_card_of_a_number_says_what_it_counts(capsys, monkeypatch):
    heads = ("launch", *(f"column{at}" for at in range(9)))
    lines = printed(capsys, 40, monkeypatch, None, heads, [("0", *"abcdefghi")]).splitlines()
    assert lines[1] == "launch 0"


def test_kernels_are_shown_without_the_digests_in_their_names():
    """Adam's numbers, a broadcast's constants, and the rows of many parts."""
    names = {
        "adam_500_0123456789abcdef_f32": "adam_500_f32",
        "broadcast_add_0123456789ab": "broadcast_add",
        "concat_0123456789abcdef0123456789abcdef_4": "concat_4",
        "conv_gemm_fwd_1x3_4f8b580000000pm17_f16": "conv_gemm_fwd_1x3_4f8b580000000pm17_f16",
    }
    assert {name: kernel_name(name) for name in names} == names
