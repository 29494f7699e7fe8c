"""Bundles and results that lie in an archive are read for as long as their format is.

`data/archives` has a bundle with a result of each release whose formats were new.
`data/formats.txt` lists what the formats hold: a field that goes, or changes its type, needs
another number, and so does a new one that has no default.
`python tests/plain/test_archives.py` prints the list.
"""

from __future__ import annotations

import dataclasses
import enum
import json
import shutil
import tarfile
import types
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union, get_args, get_origin, get_type_hints

import h5py
import numpy as np
import pytest

from simgen.bundle import manifest, run_record, saved_result
from simgen.ground.ir import Workload

if TYPE_CHECKING:
    from collections.abc import Iterator

DATA = Path(__file__).parent.parent / "data"
ARCHIVES = sorted((DATA / "archives").iterdir())
HELD = {
    manifest.FORMAT: (manifest.Manifest, Workload),
    saved_result.SCHEMA: (saved_result.Provenance, run_record.Run),
}


def listed(kind: Any, seen: set[Any]) -> Iterator[str]:
    """Fields and members, a line each, of a type and of all types in it."""
    if kind in seen:
        return
    seen.add(kind)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        yield from (f"{kind.__name__}.{each.name} = {each.value!r}" for each in kind)
    elif isinstance(kind, type) and dataclasses.is_dataclass(kind):
        hints = get_type_hints(kind)
        for each in dataclasses.fields(kind):
            none = each.default is each.default_factory is dataclasses.MISSING
            told = "" if none else " = default"
            yield f"{kind.__name__}.{each.name}: {_word(hints[each.name])}{told}"
        for each in dataclasses.fields(kind):
            yield from listed(hints[each.name], seen)
    for each in get_args(kind):
        yield from listed(each, seen)


def _word(hint: Any) -> str:
    inside = [_word(each) for each in get_args(hint)]
    if get_origin(hint) in (Union, types.UnionType):
        return " or ".join(inside)
    name = getattr(hint, "__name__", str(hint))
    return f"{name}[{', '.join(inside)}]" if inside else name


def formats() -> list[str]:
    return [
        f"{name}: {line}"
        for name, kinds in HELD.items()
        for line in listed(tuple[kinds], set())  # type: ignore[valid-type]
    ]


def test_a_format_that_changes_has_another_number() -> None:
    known, now = set((DATA / "formats.txt").read_text().splitlines()), set(formats())
    gone = {line for line in known - now if f"{line} = default" not in now}
    assert not gone, "files of this format have what is no more: raise its number"
    new = now - known
    needed = {line for line in new if " = " not in line}
    assert not needed, "files of this format lack what has no default: give it one"
    assert not new, "write the list to formats.txt"


@pytest.fixture(name="old", params=ARCHIVES, ids=lambda path: path.name)
def archived_bundle(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    with tarfile.open(request.param) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path / "bundle"


def test_a_bundle_and_a_result_of_each_release_are_read(simgen, old):
    assert simgen("diff", str(old)).out.endswith("1 result, 1 tensor: all right\n")
    assert "right" in simgen("status", str(old)).out
    assert simgen("report", str(old), "-o", str(old.parent / "page")).code == 0
    (old / "results" / "host" / "results.h5").rename(old.parent / "kept.h5")
    shutil.rmtree(old / "results")
    alone = simgen("diff", str(old), str(old.parent / "kept.h5"))
    assert alone.code == 0, alone.err


@pytest.mark.parametrize("number", [0, 2, 17])
def test_another_format_is_told_with_both_versions(simgen, old, number):
    file = old / "manifest.json"
    told = json.loads(file.read_text())
    file.write_text(json.dumps({**told, "format": f"simgen bundle {number}", "simgen": "9.1.4"}))
    for words in (
        ["run", old], ["diff", old], ["report", old, "-o", old.parent / "page"], ["status", old],
        ["build", "softmax_fwd", "--target", "host", "-o", old],
    ):  # fmt: skip
        done = simgen(*map(str, words))
        assert done.code == 2
        assert f"a bundle of format {number}, which simgen 9.1.4 reads; simgen " in done.err
        assert "reads format 1; " in done.err
    assert not (old.parent / "page").exists()


def test_results_of_another_format_are_told(simgen, old):
    shutil.copy(old / "results" / "host" / "results.h5", old.parent / "kept.h5")
    with h5py.File(old.parent / "kept.h5", "r+") as file:
        file.attrs.modify("schema", np.bytes_("simgen results 1"))
    done = simgen("diff", str(old), str(old.parent / "kept.h5"))
    assert done.code == 7
    assert "of format 1, written by another version; simgen " in done.err
    assert "reads format 2" in done.err


if __name__ == "__main__":
    print("\n".join(formats()))
