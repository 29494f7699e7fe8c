"""Cases of structural fuzzing; benchmarks/fuzz/run.py runs as many more as one likes."""

from __future__ import annotations

import shutil
import time
import warnings

import fuzzing
import pytest

SEED = 11
EACH = 20  # cases of a kind


@pytest.fixture(scope="module", name="base")
def template_folder(tmp_path_factory):
    return fuzzing.template(tmp_path_factory.mktemp("fuzz") / "base")


@pytest.fixture(name="folder")
def case_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("SIMGEN_CACHE_DIR", str(tmp_path / ".cache"))
    return tmp_path / "case"


COMMANDS = [
    *((words, 0) for words in (*fuzzing.READING, fuzzing.REPORT, fuzzing.AGAIN)),
    *((words, 0) for words in (fuzzing.STORED, fuzzing.COLLECT, fuzzing.SWEPT)),
    (["diff", "net", "other.h5", "reference"], 0),
    (["diff", "net", "gem5-se"], 0),
    # Their run.sh says that there is no program: all that they read was right.
    (fuzzing.RESUME, 5),
    (fuzzing.INPUTS, 5),
    ([*fuzzing.INPUTS, "--inputs", "other.h5"], 5),
]


@pytest.mark.parametrize(("words", "code"), COMMANDS, ids=lambda value: str(value)[:40])
def test_the_commands_read_what_is_whole(base, folder, words, code):
    shutil.copytree(base, folder)
    with fuzzing.drawing(False):
        found, _, err = fuzzing.call(words, folder)
    assert found == code, err


@pytest.mark.parametrize("kind", fuzzing.KINDS)
def test_whatever_is_in_a_file_a_command_ends_as_it_should(base, folder, kind):
    bad, codes = [], set()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of h5py and NumPy, as they make the odd files
        for number in range(EACH):
            case = fuzzing.run_case(SEED, number, base, folder, kind, figures=0)
            shutil.rmtree(folder)
            codes.add(case.code)
            if case.wrong:
                bad.append(case)
    assert not bad
    assert codes & {2, 7}, "some of the changes are damage"


def test_a_command_that_hangs_is_ended(base, monkeypatch):
    monkeypatch.setattr(fuzzing, "SECONDS", 1)
    monkeypatch.setattr(fuzzing.main, "main", lambda: time.sleep(60))
    with pytest.raises(fuzzing.Hanging):
        fuzzing.call(["show"], base)


def test_the_campaign_sees_what_is_wrong(base, folder, monkeypatch):
    """A command that ends with a traceback, with two lines, or not at all, is told."""

    def outcome(code, err):
        monkeypatch.setattr(fuzzing, "call", lambda words, folder: (code, "", err))
        try:
            return fuzzing.run_case(SEED, 0, base, folder, "manifest.json").wrong
        finally:
            shutil.rmtree(folder)

    def hang(words, folder):
        raise fuzzing.Hanging

    assert outcome(7, "simgen: error: x: y; z\n") == ""
    assert outcome(1, "simgen: error: bug: KeyError: 'x'\n") == "exit code 1"
    assert outcome(7, "one\ntwo\n") == "2 lines on stderr"
    assert outcome(7, "") == "no error message"
    assert outcome(0, "h5py says\n") == "a message without an error"
    assert outcome(7, f"simgen: error: {'x' * 10**5}\n").startswith("a line of")
    assert outcome(7, "simgen: error: \x1b[31m\n").startswith("a line of")
    monkeypatch.setattr(fuzzing, "call", hang)
    assert fuzzing.run_case(SEED, 0, base, folder, "manifest.json").wrong == "hangs"
