"""The wheel is all of simgen: installed elsewhere, it builds, runs and compares."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from simgen.cli import manuals
from simgen.targets.host import Host

ROOT = Path(__file__).parents[2]
FOLDERS = ("templates", "cachefiles", "data")  # beside the package here, inside it in a wheel
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "-q")


def checked(*command: str, **options: object) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, **options)  # type: ignore[call-overload]
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return str(done.stdout)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy, so that nothing is left in this checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    skip = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for name in ("simgen", "simgen_examine", "simgen_rocm", *FOLDERS):
        shutil.copytree(ROOT / name, source / name, ignore=skip)
    for name in ("pyproject.toml", "README.md", "LICENSE", "NOTICE", "hatch_build.py"):
        shutil.copy(ROOT / name, source / name)
    isolation = ["--no-build-isolation"] if _has_hatchling() else []
    checked(*PIP, "wheel", "--no-deps", *isolation, "-w", str(folder), str(source))
    (made,) = folder.glob("gpu_simgen-*.whl")
    return made


def _has_hatchling() -> bool:
    return (
        subprocess.run([sys.executable, "-c", "import hatchling"], capture_output=True).returncode
        == 0
    )


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with the wheel, which takes the dependencies from this Python.

    A path in a .pth file is searched after the environment's own packages, and .pth files that lie
    there are not read: the simgen that may be installed here for development is out of sight.
    """
    venv = tmp_path_factory.mktemp("venv")
    checked(sys.executable, "-m", "venv", "--without-pip", str(venv))
    python = venv / "bin" / "python"
    checked(*PIP, "--python", str(python), "install", "--no-deps", "--no-index", str(wheel))
    (packages,) = venv.glob("lib/python*/site-packages")
    paths = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    (packages / "dependencies.pth").write_text("".join(f"{path}\n" for path in sorted(paths)))
    return venv


def clean() -> dict[str, str]:
    """This environment without what would lead back to the checkout."""
    dropped = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "SIMGEN_CACHE_DIR")
    return {name: value for name, value in os.environ.items() if name not in dropped}


def test_the_wheel_holds_templates_kernels_and_networks(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        held = {name: archive.read(name) for name in archive.namelist()}
    for folder in FOLDERS:
        files = [path for path in (ROOT / folder).rglob("*") if path.is_file()]
        files = [path for path in files if path.parent.name != "__pycache__"]
        assert files
        for path in files:
            assert held[f"simgen/{path.relative_to(ROOT)}"] == path.read_bytes()
    for path in (ROOT / "simgen").rglob("*.py"):
        assert held[str(path.relative_to(ROOT))] == path.read_bytes()
    assert "simgen/py.typed" in held
    assert not [name for name in held if name.startswith(("tests/", "benchmarks/", "examples/"))]
    (home,) = {name.partition("/")[0] for name in held if ".dist-info/" in name}
    for name in ("licenses/LICENSE", "licenses/NOTICE"):
        assert held[f"{home}/{name}"] == (ROOT / name.partition("/")[2]).read_bytes()


def test_the_bill_lists_each_code_object_with_its_digest(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [n for n in archive.namelist() if n.endswith("/sboms/simgen.cdx.json")]
        parts = json.loads(archive.read(name))["components"]
        blobs = {n for n in archive.namelist() if n.endswith("/blob")}
        listed = {each["properties"][0]["value"]: each["hashes"][0]["content"] for each in parts}
        assert blobs < listed.keys()
        for path, digest in listed.items():
            assert hashlib.sha256(archive.read(path)).hexdigest() == digest


def test_the_wheel_is_for_one_machine_and_has_a_man_page_of_each_command(wheel: Path) -> None:
    assert wheel.name.endswith("-py3-none-manylinux2014_x86_64.whl")
    with zipfile.ZipFile(wheel) as archive:
        pages = {n.rpartition("/")[2] for n in archive.namelist() if "/share/man/man1/" in n}
    assert pages == manuals.pages("").keys()


def test_the_wheel_asks_for_the_pinned_compiler(wheel: Path) -> None:
    from simgen.isa.toolchain import PINNED

    with zipfile.ZipFile(wheel) as archive:
        (name,) = [n for n in archive.namelist() if n.endswith(".dist-info/METADATA")]
        metadata = archive.read(name).decode()
    assert f"Requires-Dist: ziglang=={PINNED}" in metadata


def test_the_installed_package_is_the_wheel(installed: Path, tmp_path: Path) -> None:
    ask = "import simgen.ground.resources as r; print(r.__file__, r.folder('templates'), sep='\\n')"
    python = str(installed / "bin" / "python")
    for path in checked(python, "-c", ask, cwd=tmp_path, env=clean()).split():
        assert Path(path).is_relative_to(installed)


@pytest.mark.skipif(bool(Host().needs.missing()), reason="this machine cannot run the host target")
def test_build_run_and_diff_from_another_folder(installed: Path, tmp_path: Path) -> None:
    simgen = str(installed / "bin" / "simgen")
    env = {**clean(), "SIMGEN_CACHE_DIR": str(tmp_path / "cache")}
    work = tmp_path / "work"
    work.mkdir()
    checked(simgen, "build", "softmax_fwd", cwd=work, env=env)
    manifest = json.loads((work / "softmax_fwd" / "manifest.json").read_text())
    assert sorted(manifest["targets"]) == ["gem5-se", "host"]
    checked(simgen, "run", "softmax_fwd", "--on", "host", cwd=work, env=env)
    report = json.loads(checked(simgen, "diff", "softmax_fwd", "--json", cwd=work, env=env))
    assert report["verdict"] == "same"
    assert "simgen" not in os.listdir(work)
