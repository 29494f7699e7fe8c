"""The version names the commit: in a checkout, a clone without tags, an archive and a package."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from simgen.ground import version as module

ROOT = Path(__file__).resolve().parents[2]
ASK = "import simgen; print(simgen.__version__)"


def run(*command: str | Path, cwd: Path, **variables: str) -> str:
    names = ("AUTHOR", "COMMITTER")
    who = {f"GIT_{n}_{k}": v for n in names for k, v in (("NAME", "a"), ("EMAIL", "a@b.example"))}
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    done = subprocess.run(
        command, cwd=cwd, env={**kept, **who, **variables}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def version_in(folder: Path, **variables: str) -> str:
    return run(sys.executable, "-c", ASK, cwd=folder, PYTHONPATH=str(folder), **variables)


@pytest.fixture(name="checkout")
def small_checkout(tmp_path: Path) -> Path:
    """A repository that has what tells the version, and one commit."""
    folder = tmp_path / "checkout"
    (folder / "simgen" / "ground").mkdir(parents=True)
    for name in (
        "simgen/ground/version.py",
        "simgen/ground/__init__.py",
        "simgen/__init__.py",
        ".gitattributes",
    ):
        shutil.copy(ROOT / name, folder / name)
    (folder / ".gitignore").write_text("__pycache__\n")
    run("git", "init", "-q", cwd=folder)
    run("git", "add", ".", cwd=folder)
    run("git", "commit", "-q", "-m", "one", cwd=folder)
    return folder


def test_a_commit_is_told_with_and_without_tags(checkout: Path, tmp_path: Path) -> None:
    commit = run("git", "rev-parse", "HEAD", cwd=checkout)
    told = f"{module.RELEASE}+g{commit[:10]}"
    assert version_in(checkout) == told
    assert version_in(checkout, GIT_DIR=str(tmp_path / "another")) == told
    run("git", "clone", "-q", "--depth=1", checkout.as_uri(), tmp_path / "shallow", cwd=tmp_path)
    assert version_in(tmp_path / "shallow") == told
    (checkout / ".gitignore").write_text("*.pyc\n__pycache__\n")
    assert version_in(checkout) == f"{told}.dirty"
    run("git", "tag", "v0.0.9", cwd=checkout)
    assert version_in(checkout) == f"{told}.dirty"


def test_the_tagged_commit_is_the_release(checkout: Path, tmp_path: Path) -> None:
    tag = f"v{module.RELEASE}"
    run("git", "tag", "-a", tag, "-m", tag, cwd=checkout)
    assert version_in(checkout) == module.RELEASE
    run("git", "archive", "-o", tmp_path / "a.tar", tag, cwd=checkout)
    shutil.unpack_archive(tmp_path / "a.tar", tmp_path / "archive", filter="data")
    assert version_in(tmp_path / "archive") == module.RELEASE
    (checkout / "new").touch()
    run("git", "add", ".", cwd=checkout)
    run("git", "commit", "-q", "-m", "two", cwd=checkout)
    commit = run("git", "rev-parse", "HEAD", cwd=checkout)
    assert version_in(checkout) == f"{module.RELEASE}+g{commit[:10]}"
    run("git", "archive", "-o", tmp_path / "b.tar", "HEAD", cwd=checkout)
    shutil.unpack_archive(tmp_path / "b.tar", tmp_path / "later", filter="data")
    assert version_in(tmp_path / "later") == f"{module.RELEASE}+g{commit[:10]}"


def test_a_package_has_what_was_found_when_it_was_built(checkout: Path) -> None:
    shutil.rmtree(checkout / ".git")
    assert version_in(checkout) == module.RELEASE
    (checkout / "simgen" / module.BUILT.name).write_text("0.2.0+g0123456789\n")
    assert version_in(checkout) == "0.2.0+g0123456789"


def test_a_checkout_without_git_has_a_version(checkout: Path, tmp_path: Path) -> None:
    """Its commit is read from files, packed and in a worktree, too; changes are not known."""
    commit = run("git", "rev-parse", "HEAD", cwd=checkout)
    told = f"{module.RELEASE}+g{commit[:10]}"
    assert version_in(checkout, PATH=str(tmp_path)) == told
    run("git", "pack-refs", "--all", cwd=checkout)
    assert version_in(checkout, PATH=str(tmp_path)) == told
    run("git", "worktree", "add", "-q", "--detach", tmp_path / "other", cwd=checkout)
    assert version_in(tmp_path / "other", PATH=str(tmp_path)) == told
    (checkout / ".git" / "HEAD").write_text("ref: refs/heads/none\n")
    assert version_in(checkout, PATH=str(tmp_path)) == f"{module.RELEASE}+unknown"


def test_all_that_is_kept_has_it(simgen, tmp_path: Path) -> None:
    assert simgen("build softmax_fwd --set n=1 --set c=4 --target host --run -o b").code == 0
    assert json.loads((tmp_path / "b/results/host/run.json").read_text())["simgen"] == (
        module.version(exactly=True)
    )
    from simgen.bundle import results

    told = results.load(tmp_path / "b/results/host/results.h5").provenance
    assert told["simgen"] == told["ran_by"] == module.version(exactly=True)
    assert simgen("report b -o page").code == 0
    page = (tmp_path / "page/report.html").read_text()
    assert module.version(exactly=True) in page


def test_what_is_cited_is_the_release() -> None:
    assert f"\nversion: {module.RELEASE}\n" in (ROOT / "CITATION.cff").read_text()
    newest = re.search(r"^## \[(\d+\.\d+\.\d+)\]", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert newest
    assert newest[1] == module.RELEASE
