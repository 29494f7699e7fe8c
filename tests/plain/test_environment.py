"""The table of environment variables has each that any program of simgen reads, and no other.

What is read is found in the text of the programs: Python's syntax trees, `$NAME` of shell scripts
that do not set NAME first, and getenv of C, C++ and Go.
"""

from __future__ import annotations

import ast
import re
from importlib import import_module
from pathlib import Path

import click
from click.testing import CliRunner

from simgen.cli import main, variables
from simgen.cli.defaults import DEFAULTS
from simgen.kernels import triton
from simgen_rocm import gem5_fs

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("simgen", "simgen_examine", "simgen_rocm")
NAME = r"_?[A-Z][A-Z0-9_]+"
# Where Python reads what an expression says, and which these are.
EXPRESSIONS = {
    "variable": [*gem5_fs.FILES, *(each.variable for each in DEFAULTS.values())],
    "DEFAULTS['mode'].variable": [DEFAULTS["mode"].variable],
    "name": [*triton.KEPT, "GEM5_OPTIONS"],  # and Target.said_in
    "v": [],  # RunOption.variable
    "each.name": [],  # the table
}
OF_DOCKER = {"BUNDLES", "SIMGEN_USER", "GEM5_IMAGE", "GEM5_DIGEST", "GEM5_VERSION",
             "PYTHON_VERSION", "UV_VERSION", "UV_DIGEST"}  # fmt: skip


def of_python(path: Path, constants: dict[str, str]) -> set[str]:
    """Names that a file asks os.environ for."""
    found: set[str] = set()
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        match node:
            case (
                ast.Call(ast.Attribute(ast.Attribute(_, "environ"), "get" | "pop"), [key, *_])
                | ast.Subscript(ast.Attribute(_, "environ"), key, ast.Load())
                | ast.Compare(key, [ast.In() | ast.NotIn()], [ast.Attribute(_, "environ")])
                | ast.Call(ast.Attribute(ast.Name("os"), "getenv"), [key, *_])
                | ast.Call(ast.Name("count" | "percent"), [ast.Constant() as key, *_])
            ):
                text = ast.unparse(key)
                if isinstance(key, ast.Constant):
                    found.add(key.value)
                elif (last := text.rpartition(".")[2]) in constants:
                    found.add(constants[last])
                else:
                    assert text in EXPRESSIONS, f"{path}: {text}: which variables are these?"
    return {each for each in found if re.fullmatch(NAME, str(each))}


def read() -> dict[str, set[str]]:
    """Variable -> the files that read it."""
    found: dict[str, set[str]] = {}
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            if re.search(r"environ\b|getenv", path.read_text()) and "templates" not in path.parts:
                module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
                known = vars(import_module(module))
                texts = {name: value for name, value in known.items() if isinstance(value, str)}
                for other in known.values():  # toolchain.OTHER
                    texts = {n: v for n, v in getattr(other, "__dict__", {}).items()
                             if n.isupper() and isinstance(v, str)} | texts  # fmt: skip
                for name in of_python(path, texts):
                    found.setdefault(name, set()).add(path.name)
    for path in [*(ROOT / "templates").rglob("*"), *(ROOT / "simgen_rocm/templates").iterdir()]:
        if not path.is_file() or path.suffix == ".gz":
            continue
        text, names = path.read_text(), set()
        if ".sh" in path.name:
            shell = re.sub(r"^\s*#.*|'[^'\n]*'", "", text, flags=re.M)
            names |= set(re.findall(rf"\$\{{?({NAME})\b", shell))
        elif path.suffix == ".py":
            constants = dict(re.findall(rf'^({NAME}) = "(\w+)"', text, re.M))
            names |= of_python(path, constants)
        else:
            names |= set(re.findall(rf'(?:[gG]etenv|LookupEnv)\("({NAME})"\)', text))
        for name in names:
            found.setdefault(name, set()).add(path.name)
    for names in EXPRESSIONS.values():
        for name in names:
            found.setdefault(name, set()).add("an expression")
    return found


def test_the_table_has_each_variable_that_is_read_and_no_other() -> None:
    listed = {each.name for each in variables.table()} | set(variables.INTERNAL)
    unread = listed - {"_SIMGEN_COMPLETE", "TMPDIR"}  # click and Python's tempfile read them
    made = {each.name for each in variables.table() if each.option}  # {{ variable }} in a template
    found = read().keys()
    assert found - listed == set()
    assert unread - made - found == set()
    names = [each.name for each in variables.table()]
    assert len(names) == len(set(names))


def test_what_the_image_takes_is_on_its_page() -> None:
    files = [ROOT / "docker" / name for name in ("Dockerfile", "compose.yaml")]
    read_there = {n for path in files for n in re.findall(rf"\$\{{({NAME})", path.read_text())}
    page = (ROOT / "docker/README.md").read_text()
    assert read_there - {"GEM5"} == OF_DOCKER
    assert not {name for name in OF_DOCKER if name not in page}


def test_the_list_says_what_is_set(monkeypatch) -> None:
    monkeypatch.setenv("GEM5", "/opt/gem5")
    monkeypatch.delenv("GOPATH", raising=False)
    printed = CliRunner().invoke(main.cli, ["list", "variables"]).output
    rows = {line.split()[0]: line for line in printed.splitlines()[1:] if line.strip()}
    assert "/opt/gem5" in rows["GEM5"]
    assert click.unstyle(rows["GOPATH"]).split()[2:4] == ["-", "-"]
