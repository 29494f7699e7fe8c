"""The files in docker/, as far as they can be judged without Docker."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from simgen.targets.gem5.apu_se import VERSIONS

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = (ROOT / "docker/Dockerfile").read_text()
COMPOSE = (ROOT / "docker/compose.yaml").read_text()

# Lines that go on are joined; comments are left out.
STEPS = [
    line
    for line in re.sub(r"\\\n\s*", "", DOCKERFILE).splitlines()
    if line and not line.startswith("#")
]
ARGUMENTS = re.findall(r"^ARG (\w+)=(\S*)$", DOCKERFILE, re.MULTILINE)
SERVICES = {
    name: dict(re.findall(r"^ +(\w+): (.+)$", text, re.MULTILINE))
    for name, text in re.findall(
        r"^  (gem5-[\w.]+):\n((?:    .*\n)+)", COMPOSE[COMPOSE.index("\nservices:") :], re.MULTILINE
    )
}


def test_every_step_is_an_instruction():
    known = {"ARG", "FROM", "COPY", "ENV", "RUN", "USER", "WORKDIR", "ENTRYPOINT", "CMD"}
    assert {step.split()[0] for step in STEPS} == known


@pytest.mark.parametrize("name", [name for name, _ in ARGUMENTS])
def test_every_argument_has_a_default_and_is_used_after_it(name: str):
    at = DOCKERFILE.index(f"ARG {name}=")
    assert f"${{{name}}}" in DOCKERFILE[at:]


def test_all_arguments_are_declared():
    declared = [name for name, _ in ARGUMENTS]
    assert len(set(declared)) == len(declared)
    assert set(re.findall(r"\$\{(\w+)\}", DOCKERFILE)) == set(declared)


def test_an_argument_of_an_image_name_stands_before_the_first_image():
    # One that stands after a FROM is not seen by the next.
    first = DOCKERFILE.index("\nFROM ")
    for image in re.findall(r"^FROM \S*\$\{(\w+)\}", DOCKERFILE, re.MULTILINE):
        assert DOCKERFILE.index(f"ARG {image}=") < first


def test_images_have_tags_and_digests_or_an_argument_for_one():
    defaults = dict(ARGUMENTS)
    images = re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE)
    pinned = 0
    for image in images:
        assert re.search(r"\$\{\w+_DIGEST\}\Z", image)
        whole = re.sub(r"\$\{(\w+)\}", lambda found: defaults[found[1]], image)
        found = re.fullmatch(r"[\w./-]+:[\w.-]+(@sha256:[0-9a-f]{64})?", whole)
        assert found
        pinned += bool(found[1])
    assert (len(images), pinned) == (2, 1)
    assert all(entries["GEM5_DIGEST"] == '"${GEM5_DIGEST:-}"' for entries in SERVICES.values())


def test_it_does_not_run_as_root_and_builds_no_gem5():
    users = [step for step in STEPS if step.startswith("USER ")]
    assert users == ["USER simgen"]
    runs = [step.split()[0] for step in STEPS[STEPS.index("USER simgen") :]]
    assert "RUN" not in runs
    assert "scons" not in DOCKERFILE
    assert "sudo" not in DOCKERFILE


def test_the_default_is_the_default_version():
    from simgen.targets.gem5.se import Gem5Se

    defaults = dict(ARGUMENTS)
    assert defaults["GEM5_VERSION"] == Gem5Se().gem5_version
    assert defaults["GEM5_IMAGE"] == Gem5Se().simulated.version.image


def test_what_is_copied_holds_all_that_the_wheel_is_made_of():
    project = (ROOT / "pyproject.toml").read_text()
    kept = re.findall(r"^!(\S+)$", (ROOT / "docker/Dockerfile.dockerignore").read_text(), re.M)
    section = project[project.index("force-include]") :].partition("\n\n")[0]
    forced = re.findall(r'^(\w+) = "simgen/', section, re.MULTILINE)
    assert len(forced) == 3
    assert {
        *forced,
        "simgen",
        "pyproject.toml",
        "hatch_build.py",
        "README.md",
        "LICENSE",
        "NOTICE",
    } <= set(kept)
    assert all((ROOT / name).exists() for name in kept)


def test_there_is_a_service_for_every_version_with_its_image():
    assert list(SERVICES) == [f"gem5-{version}" for version in VERSIONS]
    for name, entries in SERVICES.items():
        version = entries["GEM5_VERSION"].strip('"')
        assert name == f"gem5-{version}"
        assert entries["image"] == f"simgen:{name}"
        assert entries["GEM5_IMAGE"] == VERSIONS[version].image
        assert (ROOT / "docker" / entries["context"] / entries["dockerfile"]).is_file()


def test_versions_are_texts_and_every_service_has_the_same_frame():
    # Unquoted, YAML reads 23.0 as a number.
    assert not re.search(r"GEM5_VERSION: [^\"]", COMPOSE)
    assert COMPOSE.count("<<: *simgen") == len(SERVICES) == COMPOSE.count("    build:")
    assert COMPOSE.count("&simgen") == 1
    assert "\t" not in COMPOSE
    assert re.search(r'^  user: "\$\{SIMGEN_USER:-\d+:\d+\}"$', COMPOSE, re.MULTILINE)


def test_arguments_of_services_are_arguments_of_the_dockerfile():
    given = set(re.findall(r"^        ([A-Z]\w+):", COMPOSE, re.MULTILINE))
    assert given == {"GEM5_DIGEST", "GEM5_IMAGE", "GEM5_VERSION"}
    assert given < {name for name, _ in ARGUMENTS}


def test_the_readme_names_every_argument_and_version():
    readme = (ROOT / "docker/README.md").read_text()
    assert all(f"`{name}`" in readme for name, _ in ARGUMENTS)
    assert all(version in readme for version in VERSIONS)
    assert VERSIONS["24.0"].image in readme
