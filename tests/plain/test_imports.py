"""Data flows one way, and so do imports; importing anything does no work.

The map is the tree: the docstring of each room (package) says what it may import, `May import: a,
b.c.`, names below simgen. An inner room may import what its outer room may, and what it names.
"""

from __future__ import annotations

import ast
import graphlib
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from census import census

PACKAGE = Path(__file__).resolve().parents[2] / "simgen"
# Layers do not know each other, nor do targets; but for those that are made of others.
PLUGINS = ("layers", "targets")
COMPOSED = {"layers.fused", "layers.loss.cross_entropy", "layers.loss.sampled_softmax"}
BESIDE = ("simgen_examine", "simgen_rocm")  # packages that stand on simgen


def modules():
    """Every module of simgen: its dotted name below simgen, a package by its own, and its path."""
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


PATHS = dict(modules())
ROOMS = sorted(name for name, path in PATHS.items() if path.name == "__init__.py" and name)


def lies_in(module, room):
    return module == room or module.startswith(f"{room}.")


def rooms_of(module):
    """The rooms that a module lies in, the outermost first."""
    return [room for room in ROOMS if lies_in(module, room)]


def named(room):
    """What a room's docstring says that it may import."""
    text = ast.get_docstring(ast.parse(PATHS[room].read_text())) or ""
    found = re.search(r"^May import: (.+)\.\Z", text, re.MULTILINE | re.DOTALL)
    assert found, f"{room}: the docstring of a room ends with `May import: a, b.c.`"
    return found[1].replace("\n", " ").split(", ")


@cache
def imported(source):
    """The modules of simgen that a source imports, at any depth: (line, name below simgen)."""
    return tuple(_imported(source))


def _imported(source):
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "simgen":
                    yield node.lineno, alias.name.partition(".")[2]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: a relative import"
            top, _, base = (node.module or "").partition(".")
            if top == "simgen":
                for alias in node.names:
                    whole = f"{base}.{alias.name}".removeprefix(".")
                    yield node.lineno, whole if whole in PATHS else base


def refused(module, source):
    """The imports that the rooms of a module do not allow."""
    rooms = rooms_of(module)
    home = rooms[-1] if rooms else ""
    may = [each for room in rooms for each in named(room)]
    found = []
    for line, name in imported(source):
        inside = rooms_of(name)[-1:] == [home] and name not in ROOMS
        outer_file = module in ROOMS or PATHS.get(module, PACKAGE).parent.name == home
        below = outer_file and bool(home) and lies_in(name, home)  # an inner room, from its outer
        free = not name or not rooms or inside or below
        if not free and not any(lies_in(name, each) for each in may):
            found.append(f"{module}:{line} imports {name}")
    return found


def arrows():
    """Module -> the modules that it imports."""
    return {
        name: {other for _, other in imported(path.read_text()) if other and other != name}
        for name, path in PATHS.items()
        if name
    }


def test_there_is_no_circle_of_modules_nor_of_rooms():
    graphlib.TopologicalSorter(arrows()).prepare()
    between = {}
    for module, others in arrows().items():
        room = module.split(".")[0]
        between.setdefault(room, set()).update({o.split(".")[0] for o in others} - {room})
    graphlib.TopologicalSorter(between).prepare()


def test_what_rooms_may_import_is_there_and_makes_no_circle():
    for room in ROOMS:
        assert [name for name in named(room) if name not in PATHS] == []
    outermost = {
        room: {name.split(".")[0] for name in named(room)} for room in ROOMS if "." not in room
    }
    graphlib.TopologicalSorter(outermost).prepare()


def test_the_architecture_lists_the_rooms_from_top_to_bottom():
    page = (PACKAGE.parent / "ARCHITECTURE.md").read_text()
    listed = re.findall(r"^      (\w+)/ ", page, re.MULTILINE)
    assert sorted(listed) == [room for room in ROOMS if "." not in room]
    for at, room in enumerate(listed):
        assert not set(named(room)) & set(listed[:at]), f"{room} may import what is above it"


@census("module", [name for name in PATHS if name])
def test_a_module_imports_only_what_its_rooms_say(module):
    assert refused(module, PATHS[module].read_text()) == []


@pytest.mark.parametrize("room", PLUGINS)
def test_plugins_do_not_know_each_other(room):
    plugins = {name for _, name in imported(PATHS[room].read_text())} - {f"{room}.base"}
    known = arrows()
    for plugin in plugins - COMPOSED:
        assert known[plugin] & plugins == set()


def test_nothing_in_simgen_knows_the_packages_beside_it():
    known = re.compile(rf"^\s*(?:import|from) (?:{'|'.join(BESIDE)})\b", re.MULTILINE)
    assert [name for name, path in PATHS.items() if known.search(path.read_text())] == []
    for each in BESIDE:  # whose own imports it sees
        sources = [path.read_text() for path in (PACKAGE.parent / each).rglob("*.py")]
        assert any(map(known.search, sources))


def test_a_class_name_stands_for_one_class():
    homes = {}
    for module, path in PATHS.items():
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef):
                homes.setdefault(node.name, []).append(module)
    assert {name: found for name, found in homes.items() if len(found) > 1} == {}


PLACEHOLDERS = re.compile(r"[A-Z]{2,}|\*|SIMULATOR|/(blank|one|sums)\.")  # NAME, and examples
FILES = re.compile(
    r"(?<![\w/.-])((?:simgen|simgen_examine|simgen_rocm|templates|tests|data)/[\w./*-]+\.(?:py|h|hip|j2|go|json))\b"
)


def test_files_that_texts_name_are_there():
    root = PACKAGE.parent
    listed = [root / "NOTICE", *root.glob("*.md")]
    for folder in ("simgen", "templates", "docs", "benchmarks"):
        listed += [path for path in (root / folder).rglob("*") if path.suffix in READ]
    missing = {
        (str(path.relative_to(root)), name)
        for path in listed
        for name in FILES.findall(path.read_text())
        if not PLACEHOLDERS.search(name) and not (root / name).exists()
    }
    assert missing == set()


READ = {".py", ".md", ".h", ".hip", ".j2", ".go", ".c", ".cpp"}


def test_the_package_itself_imports_its_interface_for_types_only():
    source = (PACKAGE / "__init__.py").read_text()
    assert {name for _, name in imported(source)} == {"api", "errors"}
    loaded = python("import sys, simgen; print(*sys.modules)")
    assert [name for name in loaded if name.startswith("simgen")] == ["simgen"]


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("ground.storage.files", "from simgen.frontend.network import resolve"),
        ("frontend.config", "from simgen import errors, api"),
        ("frontend.config", "import simgen.workload.lowering"),
        ("frontend.config", "import simgen.targets.base as b"),
        ("frontend.config", "def f():\n    from simgen.cli import main"),
        ("frontend.config", "if TYPE_CHECKING:\n    from simgen.bundle import folder"),
        ("layers.norm.lrn", "from simgen.layers.pool import pooling"),
        ("layers.norm.lrn", "from simgen.layers import LAYERS"),
        ("targets.gem5.se", "from simgen.targets.host import Host"),
        ("targets.gem5.se", "from simgen.targets import cuda"),
        ("targets.base", "from simgen.bundle.folder import Bundle"),
    ],
)
def test_the_check_sees_every_form_of_import(module, source):
    assert len(refused(module, source)) == 1


def test_relative_imports_are_refused():
    with pytest.raises(AssertionError, match="relative"):
        refused("frontend.config", "from . import cli")


def python(code):
    environment = {
        **os.environ,
        "PYTHONPATH": str(PACKAGE.parent),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    return subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    ).stdout.split()


def test_the_command_line_starts_without_the_heavy_packages():
    heavy = {"numpy", "h5py", "jinja2", "rich", "elftools", "cupy", "ziglang", "platformdirs"}
    loaded = python("import sys, simgen.cli.main; print(*sys.modules)")
    assert "simgen.cli.main" in loaded
    assert heavy & {name.split(".")[0] for name in loaded} == set()
    stages = {name.split(".")[1] for name in loaded if name.startswith("simgen.")}
    assert stages == {"ask", "cli", "errors"}


AUDIT = """
import os, sys
import numpy, h5py, click, jinja2, rich  # what they do at import is their own business
seen = []
WORK = ("subprocess", "os.system", "os.mkdir", "os.remove", "os.rename", "os.link", "socket")
def hook(event, args):
    writes = event == "open" and isinstance(args[2], int) and args[2] & (os.O_WRONLY | os.O_RDWR)
    if writes or event.startswith(WORK):
        seen.append(f"{event}{args!r}".replace(" ", ""))
sys.addaudithook(hook)
import importlib
for name in sys.argv[1:] or NAMES:
    importlib.import_module(name)
print(*seen)
"""


def test_importing_starts_no_program_and_writes_no_file():
    names = sorted(f"simgen.{name}".rstrip(".") for name in PATHS if not name.endswith("__main__"))
    assert python(f"NAMES = {names!r}\n{AUDIT}") == []
