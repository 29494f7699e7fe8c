"""Data flows one way, and so do imports; importing anything does no work."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "simgen"

# A module may import those before it and none after it, wherever in it the import stands.
ORDER = (
    "errors",
    "files",
    "locks",
    "seal",
    "resources",
    "arrays",
    "schema",
    "hdf5",
    "ir",
    "spread",
    "config",
    "layers",
    "network",
    "fuse",
    "problem",
    "workload",
    "work",
    "chain",
    "shard",
    "stored",
    "render",
    "toolchain",
    "legalise",
    "origin",
    "cache",
    "build",
    "random_values",
    "blocks",
    "data_header",
    "data_digest",
    "data",
    "exact_values",
    "own_values",
    "mapped",
    "state",
    "code_object",
    "gem5_stats",
    "targets",
    "sweep",
    "result_folders",
    "manifest",
    "bundle_folder",
    "bundle",
    "planning",
    "runs",
    "room",
    "pace",
    "launch",
    "result_digest",
    "saved",
    "results",
    "verdict_file",
    "parts",
    "finding",
    "running",
    "sweeping",
    "compare",
    "verdict",
    "diff",
    "judging",
    "correlation",
    "figures",
    "sweep_figures",
    "report_page",
    "trace",
    "reporting",
    "api",
    "precompute",
    "doctor",
    "present",
    "commands",
    "cli",
    "__main__",
)
# The same inside the packages. All that is not named is of one rank, between these and __init__:
# plugins do not know each other.
WITHIN = {
    "layers": (
        "window",
        "rounding",
        "pooled",
        "base",
        "exactness",
        "elementwise",
        "epilogue",
        "several",
        "features",
        "batch_norm_errors",
        "batch_norm_spread",
        "batch_norm_kernels",
        "pooling_tile",
        "tile",
        "matrix_product",
        "conv_geometry",
        "conv_reference",
        "conv_bias",
        "conv_direct",
        "conv_gemm",
        "conv_tiles",
        "conv_winograd",
        "conv_fft",
        "conv_spread",
        "conv_transform_spread",
        "conv_algorithms",
        "activation",
        "batch_norm",
        "convolution",
        "fully_connected",
    ),
    "legalise": (
        "assembly",
        "roles",
        "flow",
        "site",
        "halves",
        "overlap",
        "table",
        "vector_integer",
        "vector_float",
        "doubles",
    ),
    "targets": (
        "base",
        "launch_rows",
        "legalised",
        "apu_se",
        "miopen_key",
        "miopen_norm",
        "miopen",
        "dnnmark",
        "gem5_launcher",
        "gem5_kfd",
        "gem5_dnnmark",
        "hip_program",
        "gem5_hip",
        "gem5_se",
    ),
    "commands": ("numbers", "options", "following", "sweeps", "comparing"),
}


def modules():
    """Every module of simgen as (dotted name, path)."""
    for path in sorted(PACKAGE.rglob("*.py")):
        yield ".".join(("simgen", *path.relative_to(PACKAGE).with_suffix("").parts)), path


NAMES = {name for name, _ in modules()}


def rank(module):
    """(place of the stage, place inside of its package)."""
    _, stage, *rest = (*module.split("."), "__init__")
    if stage not in WITHIN:
        return ORDER.index(stage), 0
    first = WITHIN[stage]
    within = {"__init__": len(first) + 1} | {name: at for at, name in enumerate(first)}
    return ORDER.index(stage), within.get(rest[0], len(first))


def imported(source):
    """The modules of simgen that a source imports, at any depth: (line, dotted name)."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "simgen":
                    yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: a relative import"
            base = node.module or ""
            if base.split(".")[0] != "simgen":
                continue
            for alias in node.names:
                whole = f"{base}.{alias.name}"
                is_module = whole in NAMES or f"{whole}.__init__" in NAMES
                yield node.lineno, whole if is_module else base


def backwards(module, source):
    """The imports that go against the order."""
    return [
        f"{module}:{line} imports {name}"
        for line, name in imported(source)
        if name != "simgen" and rank(name) >= rank(module)
    ]


def test_every_stage_has_its_place():
    stages = {name.split(".")[1] for name in NAMES} - {"__init__"}
    assert stages == set(ORDER), "a new stage belongs into ORDER, where data reaches it"


@pytest.mark.parametrize(("module", "path"), list(modules()))
def test_a_module_imports_only_what_comes_before_it(module, path):
    if module != "simgen.__init__":
        assert backwards(module, path.read_text()) == []


def test_the_package_itself_imports_its_interface_for_types_only():
    source = (PACKAGE / "__init__.py").read_text()
    assert {name for _, name in imported(source)} == {"simgen.api", "simgen.errors"}
    loaded = python("import sys, simgen; print(*sys.modules)")
    assert [name for name in loaded if name.startswith("simgen")] == ["simgen"]


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("simgen.config", "from simgen.network import resolve"),
        ("simgen.config", "from simgen import ir, network"),
        ("simgen.config", "import simgen.network"),
        ("simgen.config", "import simgen.layers.base as b"),
        ("simgen.config", "def f():\n    from simgen import cli"),
        ("simgen.config", "if TYPE_CHECKING:\n    from simgen.layers import Layer"),
        ("simgen.layers.base", "from simgen.layers import softmax"),
        ("simgen.layers.base", "from simgen.layers import LAYERS"),
        ("simgen.layers.softmax", "from simgen.layers.pooling import Mode"),
        ("simgen.targets.cuda", "from simgen.targets.host import Host"),
        ("simgen.targets.base", "from simgen.bundle import Bundle"),
        ("simgen.render", "from simgen.render import text"),
    ],
)
def test_the_check_sees_every_form_of_import(module, source):
    assert len(backwards(module, source)) == 1


def test_relative_imports_are_refused():
    with pytest.raises(AssertionError, match="relative"):
        backwards("simgen.config", "from . import cli")


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
    loaded = python("import sys, simgen.cli; print(*sys.modules)")
    assert "simgen.cli" in loaded
    assert heavy & {name.split(".")[0] for name in loaded} == set()
    stages = {name.split(".")[1] for name in loaded if name.startswith("simgen.")}
    assert stages == {"cli", "commands", "errors"}


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
    names = sorted(n.removesuffix(".__init__") for n in NAMES - {"simgen.__main__"})
    assert python(f"NAMES = {names!r}\n{AUDIT}") == []
