"""`simgen new layer`: what it refuses, and that it writes all of its files or none.

That the layer works, toolchain/test_recipes.py sees in a copy of the sources.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from command_line import fails
from handmade import tree

from simgen.cli import layer_files
from simgen.ground import resources

ROOT = resources.folder("templates").parent
PRELUDE = ("common.h", "host.h")
PARTS = {"simgen_barrier"}  # what functions of the prelude are made of


@pytest.fixture(name="checkout")
def a_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The two files that are changed, and the folders of those that are new."""
    for path in (layer_files.TABLE, layer_files.TESTS):
        (tmp_path / path).parent.mkdir(parents=True)
        shutil.copy(ROOT / path, tmp_path / path)
    (tmp_path / "simgen/layers/conv").mkdir()
    monkeypatch.setattr(layer_files, "_checkout", lambda: tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_all_files_are_written_and_never_again(checkout, simgen):
    before = tree(checkout)
    done = simgen("new layer leaky_square")
    assert (done.code, done.err) == (0, "")
    after = tree(checkout)
    assert set(after) - set(before) >= {path.format("leaky_square") for path in layer_files.NEW}
    assert "class LeakySquare(Layer)" in (checkout / "simgen/layers/leaky_square.py").read_text()
    lines = (checkout / layer_files.TABLE).read_text().splitlines()
    at = lines.index('    "leaky_square": ("LeakySquare", "leaky_square"),')
    assert lines[at - 1] < lines[at] < lines[at + 1]
    assert all(str(path) in done.out for path in (layer_files.TABLE, layer_files.TESTS))
    fails(simgen("new layer leaky_square"), 2, ": it is there already; remove it")
    assert tree(checkout) == after


@pytest.mark.parametrize(
    ("name", "fact"),
    [
        ("Square", "not a name of a layer; write at most 24 small letters"),
        ("../square", "not a name"), ("a__b", "not a name"), ("2d", "not a name"),
        ("x" * 25, "not a name"), ("é", "not a name"),
        ("square_fwd", "fwd and bwd are passes"), ("softmax", "has one of this name"),
        ("soft_max", "has one of this name"), ("lenet5", "has one of this name"),
        ("conv", "has one of this name"), ("lambda", "the layer's file uses this word"),
        ("port", "the layer's file uses this word"),
    ],
)  # fmt: skip
def test_names_that_cannot_be_are_refused(checkout, simgen, name, fact):
    before = tree(checkout)
    fails(simgen(f"new layer {name}"), 2, f"new layer {name!r}: ", fact)
    assert tree(checkout) == before


@pytest.mark.parametrize("lacks", [layer_files.TESTS, layer_files.TABLE])
def test_a_file_without_the_place_is_told_and_nothing_is_written(checkout, simgen, lacks):
    (checkout / lacks).write_text("")
    before = tree(checkout)
    fails(simgen("new layer square"), 7, f"{lacks}: ", "restore the file")
    assert tree(checkout) == before


def test_a_disk_that_is_full_leaves_nothing(checkout, simgen, monkeypatch):
    before, write = tree(checkout), layer_files.write_atomic

    def fail_once(path, content):
        if path.name == "__init__.py" and b"square" in content:
            raise OSError(28, "No space left on device", str(path))
        write(path, content)

    monkeypatch.setattr(layer_files, "write_atomic", fail_once)
    fails(simgen("new layer square"), 3, "free some space")
    files = {path: text for path, text in tree(checkout).items() if Path(path).suffix}
    assert files == {path: text for path, text in before.items() if Path(path).suffix}


def test_a_wheel_says_what_it_needs(simgen, monkeypatch, tmp_path):
    monkeypatch.setattr(resources, "_PACKAGE", tmp_path / "simgen")
    fails(simgen("new layer square"), 3, "it is no checkout of simgen; clone the repository")


def test_the_guide_lists_every_function_of_the_prelude():
    """What a kernel may call is there, or is a bug of the guide."""
    text = "".join((ROOT / "templates" / "prelude" / name).read_text() for name in PRELUDE)
    functions = set(re.findall(r"^(?:static|extern) [^(\n]*?(\w+)\(", text, re.M)) - PARTS
    assert {"absolute", "fused", "fast_rcp", "load4", "together"} <= functions
    guide = (ROOT / "docs" / "contributing" / "adding-a-layer.md").read_text()
    assert {name for name in functions if not re.search(rf"\b{name}\b", guide)} == set()
