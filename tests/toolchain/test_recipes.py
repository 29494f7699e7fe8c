"""The recipes of docs/ are done as they are written, in a copy of the sources.

A block of code below a file's name is that file, or is added to it where it is there; blocks of
shell without a file are run.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from simgen.targets.host import Host

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.skipif(
    bool(Host().needs.missing()), reason="this machine cannot run the host target"
)
ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PER_LAYER = ("layers", "launch_geometry", "kernel_constants", "exactness", "render")
NAMED = re.compile(r"`((?:simgen|templates|tests|blank)/[\w./-]+)`:\n\n\Z")  # right before a block


def copied(place: Path) -> Path:
    """The sources; what no recipe changes is linked."""
    root = place / "simgen-sources"
    root.mkdir()
    skip = shutil.ignore_patterns("__pycache__")
    for name in ("simgen", "templates", "tests"):
        shutil.copytree(ROOT / name, root / name, ignore=skip)
    for name in ("data", "cachefiles", "pyproject.toml"):
        (root / name).symlink_to(ROOT / name)
    return root


def shell(text: str, root: Path, place: Path) -> str:
    """What commands print that are given in `place`, with the sources in `root`."""
    commands = place / "bin"
    commands.mkdir(exist_ok=True)
    for name, words in (("python", ""), ("simgen", "-m simgen ")):
        program = commands / name
        program.write_text(f'#!/bin/sh\nexec {sys.executable} {words}"$@"\n')
        program.chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{commands}:{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(map(str, dict.fromkeys((root, ROOT)))),
        "PYTHONPYCACHEPREFIX": str(place / "bytecode"),  # not in the sources
        "PYTEST_ADDOPTS": "",  # those of this run are not the page's
        "SIMGEN_CACHE_DIR": str(place / "cache"),
    }
    run = subprocess.run(
        ["sh", "-ec", text], cwd=place, env=environment, capture_output=True, text=True, timeout=120
    )
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


def done(
    page: str, root: Path, place: Path, install: Callable[[Path, Path], None] | None = None
) -> tuple[list[str], list[str]]:
    """(the files that a recipe names, what its commands printed); an error where one fails."""
    text = (ROOT / "docs" / "contributing" / page).read_text()
    files, printed = [], []
    for block in BLOCK.finditer(text):
        named = NAMED.search(text[: block.start()])
        if named:
            path = root / named[1]
            old = path.read_text() if path.exists() else ""
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(old + block[2])
            files.append(named[1])
        elif block[1] == "console" and install:  # python -m pip install ./FOLDER
            install(root / block[2].split()[-1], root)
        elif block[1] == "sh":
            printed.append(shell(block[2], root, place))
    return files, printed


def test_a_new_layer_runs_as_its_page_says_and_keeps_the_contract(tmp_path: Path) -> None:
    """`.ci/layer` has the tests that concern all layers together, too."""
    root = copied(tmp_path)
    _, (printed,) = done("adding-a-layer.md", root, tmp_path)
    assert "next: .ci/layer square" in printed
    assert "1 result, 1 tensor: all right" in printed
    plain = " ".join(f"plain/test_{name}.py" for name in PER_LAYER)
    chosen = f"-k 'square and not squared' {plain} toolchain/test_contract.py"
    words = f"cd {root}/tests; python -m pytest -q -p no:cacheprovider {chosen}"
    tested = shell(words, root, tmp_path)
    assert re.search(r"^[1-9]\d* passed", tested, re.MULTILINE)


MISTAKES = [  # in the layer (py) or a kernel (hip), and what is said of it
    ("hip", "(x[at] * x[at])", "fabsf(x[at])",
     "templates/kernels/square_fwd.hip:10: use of undeclared identifier 'fabsf'; known: absolute"),
    ("hip", "x[at]);", "x[at])", "templates/kernels/square_fwd.hip:10: expected ';'"),
    ("hip", "constants/square.h", "constants/sqare.h",
     "templates/kernels/constants/sqare.h: a kernel includes it, and it is not there; write it"),
    ("py", ', ("size", x.size)', ",", "p1 has no constant size; Kernel(...) of"),
    ("py", '= ("x", "y")', '= ("x", "z")',
     "simgen.layers.square: a launch names port 'z', which the pass lacks; known: x, y"),
    ("py", 'kind = "square"', 'kind = "add"', "simgen.layers.square: kind 'add' is that of "),
    ("py", "BLOCK, constants", "BLOK, constants", "simgen/layers/square.py:57: bug: NameError: "),
]  # fmt: skip


def test_a_mistake_is_told_with_its_place(tmp_path: Path) -> None:
    """What a contributor may do to the layer: place, fact and cure, and no traceback."""
    root = copied(tmp_path)
    shell("simgen new layer square", root, tmp_path)
    files = {"py": "simgen/layers/square.py", "hip": "templates/kernels/square_fwd.hip"}
    for suffix, old, new, said in MISTAKES:
        path = root / files[suffix]
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))
        printed = shell("simgen build square_fwd -t host --set n=2 2>&1 || true", root, tmp_path)
        assert printed.startswith("simgen: error: "), printed
        assert said in printed
        path.write_text(text)


def installed(package: Path, place: Path) -> None:
    """What pip would leave of a package there, which needs no building."""
    about = tomllib.loads((package / "pyproject.toml").read_text())["project"]
    (name,) = about["entry-points"]["simgen.targets"].values()
    shutil.copytree(package / name, place / name)
    metadata = place / f"{name}-{about['version']}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Name: {about['name']}\nVersion: {about['version']}\n")
    lines = [
        f"[{group}]\n" + "".join(f"{word} = {what}\n" for word, what in points.items())
        for group, points in about["entry-points"].items()
    ]
    (metadata / "entry_points.txt").write_text("".join(lines))


def test_a_target_of_a_package_elsewhere_is_added_as_its_page_says(tmp_path: Path) -> None:
    place = tmp_path / "elsewhere"
    place.mkdir()
    files, (printed,) = done("adding-a-target.md", place, tmp_path, installed)
    assert files == [
        "blank/pyproject.toml",
        "blank/simgen_blank/__init__.py",
        "blank/simgen_blank/templates/blank.run.sh.j2",
    ]
    assert "leaves a word in every element" in printed
    assert "1 result, 1 tensor: 1 differs" in printed


def test_what_cannot_be_loaded_is_one_line(tmp_path: Path) -> None:
    package = tmp_path / "package"
    (package / "broken_target").mkdir(parents=True)
    (package / "broken_target/__init__.py").write_text("import nothing_of_that_name\n")
    (package / "pyproject.toml").write_text(
        '[project]\nname = "broken"\nversion = "1"\n'
        '[project.entry-points."simgen.targets"]\nbroken = "broken_target"\n'
    )
    installed(package, tmp_path)
    paths = os.pathsep.join(map(str, (tmp_path, ROOT)))
    run = subprocess.run(
        [sys.executable, "-m", "simgen", "list", "targets"],
        env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True,
    )  # fmt: skip
    assert (run.returncode, run.stdout) == (3, "")
    assert run.stderr.startswith("simgen: error: broken: simgen.targets: broken: cannot be loaded")
    assert run.stderr.endswith("mend or uninstall broken\n")
    assert run.stderr.count("\n") == 1


def test_a_broken_command_leaves_the_others_alone(tmp_path: Path) -> None:
    """The help and the shell's completion name it; it itself says what is wrong."""
    (tmp_path / "guest.py").write_text(
        "import click\n@click.command()\ndef hello():\n    'Say hello.'\n    print('hello')\n"
        "show = hello\n"
    )
    (tmp_path / "ends.py").write_text("raise SystemExit(9)\n")
    metadata = tmp_path / "guest-1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Name: guest\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text(
        "[simgen.commands]\nhello = guest:hello\nshow = guest:show\ncache greet = guest:hello\n"
        "absent = nothing_of_that_name:x\nends = ends:x\nnone = guest:__name__\n"
        "cache absent = nothing_of_that_name:x\n"
    )
    paths = os.pathsep.join(map(str, (tmp_path, ROOT)))

    def simgen(*words: str, **more: str) -> tuple[int, str, str]:
        run = subprocess.run(
            [sys.executable, "-m", "simgen", *words],
            env={**os.environ, "PYTHONPATH": paths, **more}, capture_output=True, text=True,
        )  # fmt: skip
        return run.returncode, run.stdout, run.stderr

    code, out, err = simgen("--help")
    assert (code, err) == (0, "")
    assert "hello   Say hello." in out
    assert "absent  guest: simgen.commands: absent: cannot be loaded" in out
    assert simgen("hello") == (0, "hello\n", "")
    assert simgen("cache", "greet") == (0, "hello\n", "")
    assert simgen("show", "softmax_fwd")[0] == 0  # simgen's own
    assert "cannot be loaded" in simgen("cache", "--help")[1]
    for name, why in (
        ("absent", "cannot be loaded: ModuleNotFoundError"),
        ("ends", "cannot be loaded: SystemExit: 9"),
        ("none", "guest:__name__ is no command of click"),
    ):
        code, out, err = simgen(name, "--help", "more")
        assert (code, out) == (3, "")
        assert err.startswith(f"simgen: error: guest: simgen.commands: {name}: {why}")
        assert err.count("\n") == 1
