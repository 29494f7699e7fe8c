"""The grammar of configs: what parses to what, and that everything else is one clear line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from census import census
from hypothesis import example, given
from hypothesis import strategies as st

from simgen.errors import ConfigError
from simgen.frontend import config, problem
from simgen.frontend.config import Config, Entry, Place, Section

if TYPE_CHECKING:
    from collections.abc import Callable

DATA = Path(__file__).parents[1] / "data"
BLOCK = {
    "N": "2", "C": "3", "H": "8", "K": "4", "S": "3", "preference": "fastest",
    "FILTER_ALGO": "algo=fft", "DATA_ALGO": "", "PREFIX": "first",
}  # fmt: skip


def pairs(parsed: Config) -> list[tuple[str, list[tuple[str, str]]]]:
    return [(s.name, [(e.key, e.value) for e in s.entries]) for s in parsed.sections]


def refusal(text: str, variables: dict[str, str] | None = None) -> str:
    with pytest.raises(ConfigError) as caught:
        config.parse(text, "a.dnnmark", variables or {})
    return str(caught.value)


# ------------------------------------------------------------------ what parses


def test_values_of_a_small_config():
    parsed = config.parse("[A]\nx=1\n\ny = 2 3\n[B]\n", "f")
    assert parsed == Config(
        "f",
        (
            Section(
                "A",
                (Entry("x", "1", Place("f", 2)), Entry("y", "2 3", Place("f", 4))),
                Place("f", 1),
            ),
            Section("B", (), Place("f", 5)),
        ),
        (),
    )


def test_white_space_and_comments_do_not_count():
    parsed = config.read_config(DATA / "odd.dnnmark")
    assert pairs(parsed) == [
        ("DNNMark", [("run_mode", "standalone")]),
        (
            "Pooling",
            [
                ("name", "pool"),
                ("n", "4"),
                ("c", "3"),
                ("h", "32"),
                ("w", "16"),
                ("pool_mode", "avg_exclude_padding"),
                ("kernel_size", "3"),
                ("kernel_size_w", "5"),
                ("pad_w", "1"),
            ],
        ),
    ]
    assert parsed.sections[1].where.line == 5
    assert parsed.sections[1].entries[-1].where.line == 16


def test_a_hash_inside_a_word_starts_no_comment():
    assert pairs(config.parse("[A]\nname=a#b\nother=c #d", "f")) == [
        ("A", [("name", "a#b"), ("other", "c")])
    ]


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_line_ends_and_byte_order_mark(tmp_path, newline, mark):
    path = tmp_path / "a.dnnmark"
    path.write_bytes(newline.join([f"{mark}[A]", "", "x=1", ""]).encode())
    parsed = config.read_config(path)
    assert pairs(parsed) == [("A", [("x", "1")])]
    assert parsed.sections[0].entries[0].where == Place(str(path), 3)


def test_a_value_may_be_empty_and_hold_equal_signs():
    assert pairs(config.parse("[A]\nx=\ny=a=b", "f")) == [("A", [("x", ""), ("y", "a=b")])]


def test_sections_may_repeat():
    assert pairs(config.parse("[A]\nx=1\n[A]\nx=2", "f")) == [
        ("A", [("x", "1")]),
        ("A", [("x", "2")]),
    ]


def test_get():
    section = config.parse("[A]\nx=1", "f").sections[0]
    assert section.get("x") == Entry("x", "1", Place("f", 2))
    assert section.get("y") is None


# ------------------------------------------------------------------ variables


def test_variables_stand_for_values_lines_and_parts_of_a_value():
    parsed = config.read_config(DATA / "block.dnntemplate", BLOCK)
    assert parsed.variables == tuple(BLOCK)  # in the order of first use
    conv, norm = parsed.sections[1:]
    assert [(e.key, e.value, e.where.line) for e in conv.entries[1:5]] == [
        ("n", "2", 7), ("c", "3", 8), ("h", "8", 9), ("w", "8", 10),
    ]  # fmt: skip
    assert conv.entries[-1] == Entry("algo", "fft", Place(parsed.source, 15))
    assert norm.entries[0].value == "first_norm"


def test_variables_of_a_comment_are_none():
    assert config.parse("[A] # $X\n# $Y", "f").variables == ()


def test_more_variables_than_used_are_fine():
    assert config.parse("[A]\nx=$X", "f", {"X": "1", "Y": "\n"}).variables == ("X",)


def test_a_value_is_not_expanded_again():
    assert pairs(config.parse("[A]\nx=$X", "f", {"X": "$Y", "Y": "1"})) == [("A", [("x", "$Y")])]


def test_all_missing_variables_are_reported_at_once():
    given_ = {name: value for name, value in BLOCK.items() if name not in ("C", "K", "DATA_ALGO")}
    with pytest.raises(ConfigError) as caught:
        config.read_config(DATA / "block.dnntemplate", given_)
    message = str(caught.value)
    assert message == (
        f"{DATA}/block.dnntemplate:8: no value for the variables C, K, DATA_ALGO; "
        "give them with --set NAME=VALUE"
    )


def test_the_first_use_of_a_variable_is_named():
    assert refusal("[A]\nx=1\ny=$X\nz=$X").startswith("a.dnnmark:3: no value for the variable X;")


@pytest.mark.parametrize("given", ["BACTH", "batch", "$BATCH"])
def test_a_setting_that_is_nearly_a_variable_is_named(given):
    message = refusal("[A]\nx=$BATCH\ny=$C", {given: "4", "C": "1"})
    assert message.endswith(f"variable BATCH; --set {given}: did you mean 'BATCH'?")


def test_a_value_that_ends_in_a_line_break_ends_its_line():
    """As run_dnnmark_template.sh of pyotr777/DNNMark writes them: CUDNN_CBFA="algo=$CBFA"$'\\n'."""
    text = "[A]\nx=1\n${A}${B}${C}\nz=4"
    parsed = config.parse(text, "f", {"A": "algo=2\n", "B": "", "C": "algod=1\r\nw = 3\n\n"})
    assert pairs(parsed) == [
        ("A", [("x", "1"), ("algo", "2"), ("algod", "1"), ("w", "3"), ("z", "4")])
    ]
    assert [entry.where.line for entry in parsed.sections[0].entries] == [2, 3, 3, 3, 4]
    assert config.parse(parsed.text, "f", {"A": "algo=2\n", "B": "", "C": "algod=1\nw=3"}) == parsed


@pytest.mark.parametrize(
    "value", ["1\n[B]", "1\n [B]=2", "1\n2", "1\rx=2", "\x1b[2J", "a\tb", "\0", "\u2028", "\ud800"]
)
def test_values_of_variables_stay_on_their_line(value):
    message = refusal("[A]\nx=$X", {"X": value})
    assert message.startswith("a.dnnmark:2: variable X is ")
    assert message.isprintable()


# ------------------------------------------------------------------ what is refused


@census(
    "text, message",
    [
        ("", "1: no [Section] in the file; write one, such as [DNNMark]"),
        ("\n# only a comment\n", "1: no [Section] in the file; write one, such as [DNNMark]"),
        ("\nn=4\n[A]", "2: key 'n' stands before the first section; write a [Section] above it"),
        ("[A]\nn 4", "2: 'n 4' is neither a section nor an entry; write [NAME] or key=value"),
        ("[A]\n =4", "2: no key before the = of '=4'; write key=value"),
        ("[A]\n[ ]", "2: a section without a name; write [NAME]"),
        ("[A", "1: '[A' is not a section; write [NAME] on a line of its own"),
        ("[A]=3", "1: '[A]=3' is not a section; write [NAME] on a line of its own"),
        ("[A][B]", "1: '[A][B]' is not a section; write [NAME] on a line of its own"),
        ("[A]\nn=1\nc=2\nn=1", "4: key 'n' stands on line 2 already; remove one of the two"),
        ("[A]\nn=$", "2: a $ that starts no variable in 'n=$'; write $NAME or ${NAME}"),
        ("[A]\nn=${x", "2: a $ that starts no variable in 'n=${x'; write $NAME or ${NAME}"),
        ("[A]\nn=$1", "2: a $ that starts no variable in 'n=$1'; write $NAME or ${NAME}"),
        ("[A]\nx=\0", "2: control character '\\x00'; not a text file, check the path"),
        ("[A]\nx=\x1b[2J", "2: control character '\\x1b'; remove it"),
    ],
)
def test_refusals(text, message):
    assert refusal(text) == f"a.dnnmark:{message}"


def test_user_text_is_shortened_in_messages():
    assert len(refusal("[A]\n" + "x" * 10_000)) < 200


def test_file_names_are_escaped_in_messages():
    assert str(Place("a\nb\x1b.dnnmark", 3)) == "a\\nb\\x1b.dnnmark:3"
    assert str(Place("dir/Größe.dnnmark", 3)) == "dir/Größe.dnnmark:3"


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", ":1: no [Section] in the file"),
        (b"[A]\nx=1\n\xff\xfe", ":3: not UTF-8 text"),
        ("[A]\nx=1".encode("utf-16"), ":1: not UTF-8 text"),
        (b"\x7fELF\0\0", ":1: control character '\\x7f'; not a text file, check the path"),
        (b"[A]\n" + b"#" * config.MAX_NBYTES, ": larger than 1048576 bytes"),
    ],
)
def test_files_that_are_no_configs(tmp_path, raw, message):
    path = tmp_path / "a.dnnmark"
    path.write_bytes(raw)
    with pytest.raises(ConfigError) as caught:
        config.read_config(path)
    assert str(caught.value).startswith(f"{path}{message}")
    assert caught.value.exit_code == 2


def test_the_largest_config(tmp_path):
    path = tmp_path / "a.dnnmark"
    path.write_bytes(b"[A]\n" + b"#" * (config.MAX_NBYTES - 4))
    assert pairs(config.read_config(path)) == [("A", [])]


def test_a_name_of_255_characters_is_one_of_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / ("x" * 255)).write_text("[Softmax]\nname=a\nshape=2x3\n")
    assert problem.find("x" * 255, (), None).name


@pytest.mark.parametrize(
    ("name", "fact"),
    [
        ("missing.dnnmark", "no such file; check the path"),
        (".", "a directory, not a config; name a file in it"),
        ("x" * 300, "cannot be read (File name too long); check the path"),
        ("a\0b", "not a file name; check the path"),
    ],
)
def test_unreadable_files(tmp_path, name, fact):
    with pytest.raises(ConfigError) as caught:
        config.read_config(tmp_path / name)
    assert str(caught.value).endswith(f": {fact}")
    assert str(caught.value).isprintable()


def test_a_file_without_permission(tmp_path, monkeypatch):
    def refuse(*_: object) -> None:  # chmod would not stop root
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("simgen.frontend.config.open_regular", refuse)
    with pytest.raises(ConfigError, match="not readable; check its permissions"):
        config.read_config(tmp_path / "a.dnnmark")


# ------------------------------------------------------------------ properties

PLAIN = st.characters(exclude_categories=("C", "Z"), exclude_characters="$=#[]")
WORD = st.lists(st.text(PLAIN, min_size=1, max_size=6), min_size=1, max_size=3).map(" ".join)
VALUE = st.text(st.one_of(PLAIN, st.sampled_from("=[]")), max_size=8).map(str.strip)
SECTIONS = st.lists(
    st.tuples(WORD, st.dictionaries(WORD, VALUE, max_size=4)), min_size=1, max_size=4
)
BLANK = st.text(" \t", max_size=3)
COMMENT = st.text(st.characters(exclude_categories=("C", "Zl", "Zp")), max_size=8).map("#{}".format)
NOISE = st.lists(st.one_of(BLANK, st.tuples(BLANK, COMMENT).map("".join)), max_size=2)


@st.composite
def written(draw: st.DrawFn) -> tuple[list[tuple[str, dict[str, str]]], str, dict[str, str]]:
    """Sections, a config text that means them, and the variables that the text uses."""
    sections = draw(SECTIONS)
    lines: list[str] = []
    variables: dict[str, str] = {}

    def add(*parts: str) -> None:
        lines.extend(draw(NOISE))
        tail = draw(st.sampled_from(["", " ", "\t"])) + draw(st.sampled_from(["", "# $x = [y]"]))
        end = tail if tail[:1].isspace() or not tail else f" {tail}"
        lines.append("".join(draw(BLANK) + part for part in parts) + end)

    for name, entries in sections:
        add("[", name, "]")
        for key, value in entries.items():
            shown = value
            if draw(st.booleans()):
                variable = f"V{len(variables)}"
                variables[variable] = value
                shown = draw(st.sampled_from(["${}", "${{{}}}"])).format(variable)
            add(key, "=", shown)
    lines.extend(draw(NOISE))
    return sections, draw(st.sampled_from(["\n", "\r\n"])).join(lines), variables


@given(written())
def test_what_was_written_is_read(case):
    sections, text, variables = case
    parsed = config.parse(text, "f", variables)
    assert pairs(parsed) == [(name, list(entries.items())) for name, entries in sections]
    assert parsed.variables == tuple(variables)
    lines = text.split("\n")
    for section in parsed.sections:
        assert "[" in lines[section.where.line - 1]
        for entry in section.entries:
            assert entry.key in lines[entry.where.line - 1]


def outcome(action: Callable[[], Config]) -> Config | str:
    """The config, or the message of its refusal."""
    try:
        return action()
    except ConfigError as error:
        return str(error)


GRAMMATICAL = st.text(st.sampled_from(list("[]=#$ {}\n\r\tAb1")), max_size=60)


@given(
    st.one_of(st.text(), GRAMMATICAL, GRAMMATICAL.map("[A]\n{}".format)),
    st.dictionaries(st.sampled_from(["A", "b", "Ab"]), st.text(max_size=5)),
)
@example("[A]\n$A", {"A": "[B]"})
@example("[A]\n$A", {"A": "#"})
@example("\ufeff\ufeff[A]", {})
@example("[A]\n\x85=\x1c", {})
def test_any_text_parses_or_is_refused_in_one_line(text, variables):
    parsed = outcome(lambda: config.parse(text, "f", variables))
    if isinstance(parsed, str):
        assert parsed.isprintable()
        return
    assert parsed.sections
    for section in parsed.sections:
        assert section.name
        assert section.name == section.name.strip()
        keys = [entry.key for entry in section.entries]
        assert len(keys) == len(set(keys))
        assert all(key and key == key.strip() for key in keys)


@given(raw=st.one_of(st.binary(), GRAMMATICAL.map(str.encode)))
def test_any_bytes_are_read_or_refused_in_one_line(tmp_path_factory, raw):
    path = tmp_path_factory.getbasetemp() / "any.dnnmark"
    path.write_bytes(raw)
    parsed = outcome(lambda: config.read_config(path))
    assert parsed.isprintable() if isinstance(parsed, str) else parsed.sections
