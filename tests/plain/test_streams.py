"""`-` is a stream, or is refused; no file or folder is called so."""

from __future__ import annotations

import io
import subprocess
import sys

import pytest
from command_line import fails, process
from handmade import build, run_by_hand, small

TEXT = b"[Softmax]\nname=s\nn=2\nc=4\nh=1\nw=1\nsoftmax_algo=accurate\n"


@pytest.fixture(name="stdin")
def given_stdin(monkeypatch):
    def give(content):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))

    return give


def test_a_config_is_read_from_stdin(simgen, stdin, tmp_path):
    stdin(TEXT)
    assert simgen("build - --target cuda -o b --json").json()["layers"] == 1
    stdin(TEXT)
    assert simgen("show - --json").json()["layers"][0]["name"] == "s"
    stdin(b"no config\n")
    fails(simgen("show -"), 2, "stdin.dnnmark:1")
    assert not [each for each in tmp_path.iterdir() if "stdin" in each.name or each.name == "-"]


def test_tables_are_written_to_stdout_and_results_read_from_stdin(simgen, tmp_path):
    def through(*words, given=b""):
        run = process(*words, cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert run.stdin
        assert run.stdout
        run.stdin.buffer.write(given)
        run.stdin.close()
        said = run.stdout.buffer.read()
        assert run.wait() == 0
        run.stdout.close()
        return said

    assert simgen("build softmax_fwd --set n=2 --set c=4 --target host --run -o b -q").code == 0
    assert simgen("export b --as csv -o t.csv -q").code == 0
    assert through("export", "b", "--as", "csv", "-o", "-") == (tmp_path / "t.csv").read_bytes()
    kept = (tmp_path / "b/results/host/results.h5").read_bytes()
    assert b"all right" in through("diff", "b", "-", "reference", given=kept)
    fails(simgen("export b --as chakra -o -"), 2, "-o -: chakra: a folder")
    fails(simgen("export b --as csv -o - --json"), 2, "both for stdout")


@pytest.mark.parametrize(
    "line",
    [
        "build softmax_fwd -o -",
        "quick softmax_fwd -o -",
        "report b -o -",
        "sweep s.toml -o -",
        "new data - --bytes 4K",
        "cache pack -o -",
        "study icpe18 -o - --targets host --reduced",
    ],
)
def test_what_is_no_stream_is_refused(simgen, tmp_path, line):
    run_by_hand(build(tmp_path / "b", small()))
    (tmp_path / "s.toml").write_text('workload = ["softmax_fwd"]\ntarget = ["cuda"]\n')
    before = {each.name for each in tmp_path.iterdir()}
    fails(simgen(line), 2)
    assert {each.name for each in tmp_path.iterdir()} == before


def test_nothing_is_asked_of_a_terminal(simgen, monkeypatch):
    terminal = io.TextIOWrapper(io.BytesIO())
    monkeypatch.setattr(terminal, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys, "stdin", terminal)
    fails(simgen("build -"), 2, "stdin is a terminal")
