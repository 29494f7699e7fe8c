"""What a user asks for is a value: every choice of it, from the shell and from Python."""

from __future__ import annotations

import ast
import inspect
import json
import re
import shlex
from dataclasses import fields, replace
from pathlib import Path

import click
import pytest
from census import census
from command_line import fails
from handmade import build, lowered

import simgen as package
from simgen.ask.build import BuildChoices, Destination, Making
from simgen.ask.checks import (
    BisectChoices,
    ConformChoices,
    ExportChoices,
    LegaliseChoices,
    LintChoices,
    RatesChoices,
)
from simgen.ask.choice import choices, in_python
from simgen.ask.kinds import Flag, KeyValues, Options, Real, Share, Texts, ValueKind, Whole, Word
from simgen.ask.run import JobChoices, RunChoices, RunCommand
from simgen.cli.main import cli
from simgen.errors import UsageError

ROOT = Path(__file__).parents[2]
VALUES = (
    BuildChoices, Destination, Making, RunChoices, RunCommand, JobChoices, ConformChoices,
    BisectChoices, LintChoices, LegaliseChoices, RatesChoices, ExportChoices,
)  # fmt: skip
OF_API = [(cls, each) for cls in (BuildChoices, RunChoices) for each in choices(cls) if each.flag]


def good(each):
    """A value that is not the usual one, and its text."""
    match each.kind:
        case Flag():
            return True
        case Word(values=values):
            return values[-1]
        case Whole(least=least):
            return least + 1
        case Real(least=least, most=most):
            return (least + min(most, 100.0)) / 2
        case Share():
            return 0.05
        case KeyValues():
            return (("n", "4"), ("conv1.n", "5"))
        case Texts():
            return ("a b", "c")
        case Options():
            return {"num_compute_units": "8", "sim_option": "--x=1\n--y"}
    return "some"


def bad(each):
    """Values that are none: of a number, what is outside of its range, too."""
    match each.kind:
        case Word():
            return ["never"]
        case Whole(least=least, most=most):
            return ["x", "1.5", "", str(least - 1), str(most + 1), "9" * 30, "²"]
        case Real(least=least, most=most):
            beyond = [] if most == float("inf") else [repr(most * 2)]
            return ["x", "", "nan", "inf", "1e999", repr(least - 1), *beyond]
        case Share():
            return ["0", "51%", "x", "nan", "-5%"]
        case KeyValues():
            return ["n", "=4", ""]
    return []


WRONG = [(cls, each, text) for cls, each in OF_API for text in bad(each)]


def in_words(each, text):
    """The refusal of a value, as the command line has it."""
    with pytest.raises(UsageError) as raised:
        each.read((text,) if each.kind.several else text)
    return str(raised.value)


@census("cls, each, text", WRONG)
def test_every_refusal_is_the_same_from_python_and_from_the_shell(simgen, cls, each, text):
    words = "build softmax_fwd" if cls is BuildChoices else "run none"
    shown = in_words(each, text)
    fails(done := simgen(*words.split(), f"{each.flag}={text}"), 2)
    assert done.err == f"simgen: error: {shown}\n"
    value = [text] if isinstance(each.kind, Texts) else text
    bundle = package.api.BuiltBundle(Path("none"))
    call, first = (package.plan, "softmax_fwd") if cls is BuildChoices else (bundle.run, None)
    with pytest.raises(UsageError) as raised:
        call(first, **{each.name: value})
    assert str(raised.value) == shown.replace(each.flag, each.name, 1)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"warm": "none"}, "--warm none"),
        ({"warm": "previous"}, "--warm previous"),
        ({"warm": "none", "scale_model": 8}, "--warm none --scale-model 8"),
        ({"sample": 0.1, "scale_model": 8}, "--sample 10% --scale-model 8"),
        ({"inputs": "host"}, "--inputs host"),
        ({"layers": "a", "inputs": "host", "resume": True}, "--layers a --inputs host --resume"),
        ({"jobs": 2, "resume": True}, "--jobs 2 --resume"),
        ({"representatives": True, "inputs": "host"}, "--representatives --inputs host"),
    ],
)
def test_what_does_not_go_together_is_refused_by_both(simgen, tmp_path, given, words):
    build(tmp_path / "b", lowered("softmax_fwd"))
    done = simgen(f"run b --on cuda {words}")
    fails(done, 2)
    with pytest.raises(UsageError) as raised:
        package.load(tmp_path / "b").run("cuda", **given)
    told = str(raised.value)
    assert "--" not in told
    for each in choices(RunChoices):
        on = f"{each.name}=True" if isinstance(each.kind, Flag) else each.name
        told = re.sub(rf"(?<![\w-]){on}(?![\w=-])", each.flag or on, told)
    shell = done.err.removeprefix("simgen: error: ")
    assert shell.split(":")[0] == told.split(":")[0]
    assert len(shell.split()) == len(told.split())


COMMANDS = {
    RunChoices: "run", RunCommand: "run", JobChoices: "run", ConformChoices: "conform",
    BisectChoices: "bisect", LintChoices: "lint", LegaliseChoices: "legalise",
    RatesChoices: "rates", ExportChoices: "export",
}  # fmt: skip
WHAT = {
    ConformChoices: ["--on", "cuda"],
    BisectChoices: ["b", "x", "y"],
    LintChoices: [__file__],
    LegaliseChoices: [__file__, "-s", "gem5", "-o", "x"],
    RatesChoices: ["--on", "mgpusim"],
    ExportChoices: ["b", "--as", "csv", "-o", "x"],
}


@pytest.mark.parametrize("cls", VALUES)
def test_words_and_json_give_the_value_back(cls):
    """By click, which is another reader than what composes them."""
    made = [(each, cls.__new__(cls)) for each in choices(cls)]
    for each, _ in made:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(cls, "__post_init__", lambda self: None, raising=False)
            asked = cls(**{each.name: good(each)})
            assert cls.from_json(json.loads(json.dumps(asked.to_json()))) == asked
            words = asked.words()
            assert words, each
            if isinstance(each.kind, Options):
                assert words == ["--num-compute-units", "8", "--sim-option=--x=1",
                                 "--sim-option=--y"]  # fmt: skip
                continue
            command = cli.all()[COMMANDS.get(cls, "build")]
            given = command.make_context("x", [*WHAT.get(cls, ["what"]), *words]).params
            known = {each.name: given[each.name] for each in choices(cls) if each.flag}
            # What has to be given, and is not what is asked here, stays as it was.
            needed = [e.name for e in choices(cls) if {*e.flags} & {*WHAT.get(cls, ())}]
            known |= {name: getattr(asked, name) for name in needed}
            assert cls(**known) == asked


def test_off_is_a_word_of_its_own():
    assert BuildChoices(inference=False).words() == ["--training"]
    assert BuildChoices(inference=True).words() == ["--inference"]
    assert BuildChoices.from_json({"inference": False}) == BuildChoices(inference=False)


def test_a_value_cannot_be_changed_and_equals_another_like_it():
    asked = BuildChoices(set={"n": 4}, passes=["fwd", "bwd"], seed="3")
    assert asked == BuildChoices(set=["n=4"], passes="fwd,bwd", seed=3)
    with pytest.raises(AttributeError):
        asked.seed = 4
    assert replace(asked, seed=0).to_json() == {"settings": ["n=4"], "passes": "fwd,bwd"}
    assert BuildChoices(set=["n=1", "m=2", "n=3"]).set == (("m", "2"), ("n", "3"))


@pytest.mark.parametrize(("function", "value"), [
    (package.plan, BuildChoices), (package.api.BuiltBundle.run, RunChoices),
    (package.api.BuiltBundle.sweep, RunChoices),
])  # fmt: skip
def test_signatures_and_their_documentation_are_those_of_the_choices(function, value):
    known = inspect.signature(function).parameters
    documented = inspect.getdoc(function)
    for each in choices(value):
        assert known[each.name].default == each.default
        assert f"    {each.name}: " in documented
    assert "--" not in documented
    with pytest.raises(UsageError, match=r"queue: .* has no such argument; "):
        function(None, queue=2)


def test_a_context_of_python_ends_with_it():
    with in_python():
        assert (str(RunChoices.warm), str(RunChoices.resume)) == ("warm", "resume=True")
    assert (str(RunChoices.warm), RunChoices.warm.flag) == ("--warm", "--warm")


def test_every_option_of_the_commands_is_a_choice_or_of_a_target():
    """And none is written twice: the values share no spelling where one command has both."""
    for name, values in (("build", (Destination, BuildChoices, Making)),
                         ("run", (RunCommand, JobChoices))):  # fmt: skip
        flags = [flag for value in values for each in choices(value) for flag in each.flags]
        assert len(flags) == len(set(flags))
        options = [each for each in cli.all()[name].params if isinstance(each, click.Option)]
        own = {opt for each in options for opt in (*each.opts, *each.secondary_opts)}
        assert own - {"--json", "-q", "--quiet", "-v", "--verbose"} == set(flags)


ROOMS = ("bundle", "running", "workflow", "frontend", "tensors", "workload", "study", "check")


def test_rooms_below_the_command_line_spell_no_choice():
    """Of texts that they make: docstrings, and words of other programs, are not meant."""
    flags = {
        flag
        for value in VALUES
        for each in choices(value)
        for flag in each.flags
        if flag[:2] == "--"
    }
    pattern = re.compile(rf"(?<![\w-])({'|'.join(map(re.escape, flags))})(?![\w-])")
    found = []
    for path in (path for room in ROOMS for path in (ROOT / "simgen" / room).rglob("*.py")):
        if {"drivers", "importing"} & {*path.parts}:
            continue
        tree = ast.parse(path.read_text())
        docs = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Expr)}
        found += [
            f"{path.name}:{node.lineno}: {node.value}"
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
            and id(node) not in docs and pattern.search(node.value)
        ]  # fmt: skip
    other = ("engine.py", "exporting.py:64: --as ")  # Snakemake's words, and what `show` has
    assert [each for each in found if not each.startswith(other)] == []


def test_kinds_of_choices_are_those_that_are_tried_here():
    kinds = {type(each.kind) for value in VALUES for each in choices(value)}
    assert {each for each in kinds if not issubclass(each, ValueKind)} == set()
    assert len({each.name for each in fields(BuildChoices)}) == len(choices(BuildChoices))


def test_a_recipe_line_is_words_that_a_shell_takes():
    asked = BuildChoices(set={"n": "a b"}, values=["x y.npz"])
    assert shlex.split(shlex.join(asked.words())) == asked.words()
