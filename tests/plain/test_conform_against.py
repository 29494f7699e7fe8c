"""A build of a simulator against an earlier one: only what is worse is new."""

import json
from types import SimpleNamespace

import pytest

from simgen.errors import DamagedError, MismatchError
from simgen_examine import conforming
from simgen_examine.conform import page
from simgen_examine.conform.judging import Found


def seen(text, found):
    form = SimpleNamespace(what="usual", text=text, instruction=SimpleNamespace(name=text))
    return SimpleNamespace(form=form, found=found, reason="", lanes=64, wrong=0, examples=())


def told(**forms):
    found = tuple(seen(text, Found(word)) for text, word in forms.items())
    words = SimpleNamespace(manual=lambda arch: "", consequence=lambda form: "")
    return SimpleNamespace(title="gem5", arch="gfx902", seconds=1.0, findings=found, words=words)


def compared(now, before):
    """What is printed, and the error, if any."""
    found = page.conformance(now, before)
    conforming._compare(found)
    assert bool(found) is not bool(found.worse)
    found.check()


@pytest.fixture
def before(tmp_path):
    forms = {"a": "right", "b": "wrong", "c": "missing", "d": "right"}
    rows = [{"form": "usual", "text": text, "finding": word} for text, word in forms.items()]
    path = tmp_path / "findings.json"
    path.write_text(json.dumps({"forms": rows}))
    return page.read_findings(path)


def test_what_is_worse_or_new_and_not_right_is_told_with_exit_code_6(before, capsys):
    with pytest.raises(MismatchError, match="3 forms of instructions are worse than before"):
        compared(told(a="wrong", b="ends", c="right", d="right", e="missing"), before)
    out = capsys.readouterr().out
    assert "worse: usual: a: right, now wrong" in out
    assert "worse: usual: e: not tried, now missing" in out
    assert "better: usual: c: missing, now right" in out
    assert out.splitlines()[-1].startswith("1 as before; 1 right, now wrong")


def test_known_findings_are_no_failure(before, capsys):
    compared(told(a="right", b="wrong", c="missing", e="right"), before)
    assert capsys.readouterr().out == "4 as before\n"


def test_another_file_is_damaged(tmp_path):
    path = tmp_path / "x.json"
    for text in ("[]", "{", '{"forms": [{"form": "a", "text": "b", "finding": "odd"}]}'):
        path.write_text(text)
        with pytest.raises(DamagedError):
            page.read_findings(path)
