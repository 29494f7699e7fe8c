"""What each version of gem5 takes: GPUs, builds, options, and what a work-group needs of them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from simgen.bundle.planning import chosen_targets
from simgen.errors import UsageError
from simgen.isa.code_object import KernelInfo
from simgen.isa.legalise import history, rewrite
from simgen.targets.gem5.apu_se import ARGUMENTS, GPUS, HARDWARE, VERSIONS, check, knobs, options
from simgen.targets.gem5.needs import TAGS
from simgen.targets.gem5.se import Gem5Se

every_pair = pytest.mark.parametrize(
    ("version", "arch"), [(name, arch) for name, v in VERSIONS.items() for arch in v.gpus]
)


@every_pair
def test_a_version_runs_its_gpus_in_the_build_that_has_their_isa(version: str, arch: str):
    target = Gem5Se(arch=arch, gem5_version=version)
    gcn3 = arch in ("gfx801", "gfx803")
    simulated = target.simulated
    assert simulated.gem5_opt == f"build/{'GCN3' if gcn3 else 'VEGA'}_X86/gem5.opt"
    assert simulated.gem5_opt in simulated.build_cure
    assert not gcn3 or version < "24"
    assert gcn3 or version >= "21.2"


@every_pair
def test_apu_se_is_told_which_gpu_unless_it_has_one_only(version: str, arch: str):
    told = options(version, arch)
    runs_as = "gfx902" if arch in ("gfx90a", "gfx942") else arch
    assert (f"--gfx-version={runs_as}" in told) is (version != "21.0")
    assert ("--dgpu" in told) is (arch in ("gfx803", "gfx900"))


@pytest.mark.parametrize(
    ("version", "arch", "message"),
    [
        ("21.0", "gfx902", "--arch gfx902: gem5 21.0 has no such GPU; take --arch gfx801, or"),
        ("21.1", "gfx900", "take --arch gfx801 or gfx803, or another --gem5-version"),
        ("24.0", "gfx803", "take --arch gfx902 or gfx900 or gfx90a or gfx942, or another"),
        (
            "25.0",
            "gfx90a",
            "gem5 25.0 ends at a matrix instruction of the gfx902 that apu_se.py "
            "simulates: it has no times for those; take --arch gfx902 or gfx900, or another",
        ),
        ("develop", "gfx801", "gem5 develop has no such GPU"),
        ("20.1", "gfx801", "its driver has no events, .*; use 21.0 or later"),
    ],
)
def test_another_gpu_is_refused_in_one_line(version: str, arch: str, message: str):
    with pytest.raises(UsageError, match=message):
        check(version, arch)
    with pytest.raises(UsageError, match=message):
        Gem5Se(arch=arch, gem5_version=version)


@pytest.mark.parametrize("version", VERSIONS)
def test_statistics_per_kernel_come_from_apu_se_or_from_the_launcher(version: str):
    assert VERSIONS[version].dumps is (version >= "24")
    arch = VERSIONS[version].gpus[0]
    if version >= "24":
        assert Gem5Se(arch=arch, gem5_version=version, m5ops=True).m5ops
    else:
        with pytest.raises(UsageError, match=f"apu_se.py of gem5 {version} ignores them"):
            Gem5Se(arch=arch, gem5_version=version, m5ops=True)


def test_images_are_whole_names_with_tags():
    pattern = re.compile(
        r"(?:gcr\.io/gem5-test|ghcr\.io/gem5(?:-test)?)/gcn-gpu:(?:v\d\d-\d|latest)"
    )
    assert all(pattern.fullmatch(version.image) for version in VERSIONS.values())


def test_a_discrete_gpu_is_where_the_driver_says_and_rings_as_it_wants():
    assert {name for name, gpu in GPUS.items() if gpu.dgpu} == {"gfx803", "gfx900"}
    assert {name for name, gpu in GPUS.items() if gpu.doorbell_nbytes == 8} == {"gfx900"}
    assert len({gpu.gpu_id for gpu in GPUS.values() if gpu.dgpu}) == 2


def test_four_words_of_lds_are_read_at_once_where_the_model_does_it():
    frame = "\t.type\tk,@function\nk:\n; %bb.0:\n\tds_read_b128 v[0:3], v4\n\ts_endpgm\n"
    splitting = {
        (name, arch)
        for name, version in VERSIONS.items()
        for arch in version.gpus
        if "b128" not in rewrite(frame, Gem5Se(arch=arch, gem5_version=name).simulated.model).text
    }
    assert splitting == {("21.0", "gfx801"), ("21.2", "gfx902"), ("21.2", "gfx900")}


def test_a_library_of_rocm_runs_code_for_the_gpu_that_it_finds_only():
    with pytest.raises(UsageError, match=r"--arch gfx90a: .*gfx902.*; take --launcher kfd"):
        Gem5Se(arch="gfx90a", launcher="hip")


def kernel(*, lds: int = 0, vgprs: int = 4) -> KernelInfo:
    return KernelInfo(0, lds, 0, 16, 16, vgprs)


def least(*kernels: tuple[int, KernelInfo]) -> dict[str, int]:
    lines = [line.split() for line in knobs(kernels).splitlines()]
    return {flag: int(number) for _, flag, number in lines if number != "0"}


def test_the_least_hardware_is_that_of_the_neediest_work_group():
    # 1024 work-items are 16 wavefronts, 4 on each of 4 SIMD units; 320 are 5: 2 on one of them.
    found = least((64, kernel(lds=4096)), (1024, kernel(vgprs=24)), (320, kernel(vgprs=40)))
    assert found == {"--wfs-per-simd": 4, "--vreg-file-size": 96, "--lds-size": 4096}
    assert least((64, kernel()))["--lds-size"] == 1


def test_every_option_has_a_variable_of_its_own_under_gem5s_name():
    lines = [line.split() for line in knobs([]).splitlines()]
    assert len({variable for variable, _, _ in lines}) == len(lines) == len(HARDWARE)
    assert all(re.fullmatch(r"--[a-z]+(-[a-z]+)+", flag) for _, flag, _ in lines)
    assert HARDWARE.items() <= Gem5Se.run_options.items()


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("tcp_size", ("16KiB", "4kB", "1MiB"), ("16", "0KiB", "1 KiB", "16KiB;id", "-1kB", "1kiB")),
        ("gpu_clock", ("1GHz", "1.5GHz", "750MHz"), ("1", "GHz", "1.GHz", "$(id)", "1GHz --x")),
    ],
)
def test_texts_are_what_gem5_reads_and_nothing_else(
    name: str, good: tuple[str, ...], bad: tuple[str, ...]
):
    pattern = HARDWARE[name].pattern
    assert all(re.fullmatch(pattern, text, re.ASCII) for text in good)
    assert not any(re.fullmatch(pattern, text, re.ASCII) for text in (*bad, good[0] + "\n"))
    assert re.fullmatch(pattern, HARDWARE[name].example, re.ASCII)


@pytest.mark.parametrize(
    ("settings", "arch"),
    [
        ({}, "gfx902"),
        ({"gem5_version": "21.0"}, "gfx801"),
        ({"gem5_version": "21.1"}, "gfx801"),
        ({"gem5_version": "22.0"}, "gfx902"),
        ({"gem5_version": "23.1", "arch": "gfx803"}, "gfx803"),
    ],
)
def test_the_default_gpu_is_one_that_the_version_has(settings, arch):
    (target,) = chosen_targets(["gem5-se"], settings)
    assert target.settings()["arch"] == arch


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("--num-compute-units=8", "simgen sets --num-compute-units; write --num-compute-units"),
        ("-u8", "simgen sets -u; write --num-compute-units"),
        ("--gfx-version=gfx900", "simgen sets --gfx-version; build with another --arch"),
        ("--options=x", "simgen sets --options; leave it out"),
        ("x", "write it like --TCC_latency=8"),
        ("--a b", "write it like --TCC_latency=8"),
        ("--TCC_latency=8\n-cx", "simgen sets -c; leave it out"),
        ("--num-compute=8", "simgen sets --num-compute-units, which --num-compute abbreviates; "),
        (
            "--debug-fl=GPUExec",
            "abbreviates --debug-flags of gem5 itself; write --debug-flags=GPUExec",
        ),
        ("--gfx=gfx902", "simgen sets --gfx-version, which --gfx abbreviates; build with another"),
        ("--mem-size", "it takes a value; write --mem-size=VALUE"),
        ("--cpu-only-mode=yes", "it takes no value; write --cpu-only-mode"),
        ("--outdir=x", "simgen reads what gem5 writes; leave it out"),
        ("--debug-help", "gem5 prints it and ends; start gem5 by yourself for it"),
        ("--debug-flags", "it takes a value; write --debug-flags=VALUE"),
    ],
)
def test_an_argument_that_contradicts_the_bundle_is_refused(text, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        ARGUMENTS["gem5_arg"].read(text)


def test_other_arguments_of_apu_se_are_taken_as_they_are():
    text = (
        "--TCC_latency=8\n--mem-type=DDR4_2400_8x8\n--noL1\n--num-cp=2\n--chiplet-topo=ring\n"
        "--debug-flags=GPUExec\n--debug-start=1000"
    )
    assert ARGUMENTS["gem5_arg"].read(text) == text


def test_how_to_get_it_names_the_tag_and_what_this_machine_lacks(simgen, monkeypatch):
    monkeypatch.delenv("GEM5", raising=False)
    done = simgen("doctor --for gem5-se --gem5-version 22.1 --json")
    assert done.code == 0
    steps = {each["what"]: each for each in json.loads(done.out)["steps"]}
    assert "--branch v22.1.0.0 " in steps["sources"]["command"]
    assert "scons build/VEGA_X86/gem5.opt -j " in steps["build"]["command"]
    assert steps["use"]["found"] == ""
    assert "python" in steps
    assert "python" not in simgen("doctor --for gem5-se").out.split("use ")[-1]


def test_every_version_that_is_built_has_a_tag():
    assert set(TAGS) == {version for version in VERSIONS if version[0].isdigit()}


def test_the_page_says_how_each_version_is_known():
    page = Path(__file__).parents[2] / "docs/gem5.md"
    rows = [line.strip("| ").split(" | ") for line in page.read_text().splitlines()]
    told = {row[0]: (row[1], row[-1]) for row in rows if row[0] in TAGS}
    days = history.of_gem5().run
    assert told == {
        version: (tag, f"run on {days[version]}" if version in days else "its sources alone")
        for version, tag in TAGS.items()
    }


def test_how_to_get_a_full_system_names_the_image_and_its_room(simgen, monkeypatch):
    for name in ("GEM5", "GEM5_DISK_IMAGE", "GEM5_KERNEL"):
        monkeypatch.delenv(name, raising=False)
    done = simgen("doctor --for gem5-fs --gem5-version v24.1.0.0 --json")
    assert done.code == 0
    steps = {each["what"]: each for each in json.loads(done.out)["steps"]}
    assert "--branch v24.1.0.0 " in steps["sources"]["command"]
    assert steps["disk image"]["command"].endswith("src/x86-ubuntu-gpu-ml && ./build.sh")
    assert "GEM5_DISK_IMAGE and GEM5_KERNEL are not set" in steps["disk image"]["found"]
    assert "56 GB" in steps["its time and room"]["command"]
    assert "GEM5_KERNEL=~/gem5-resources/" in steps["use"]["command"]


@pytest.mark.parametrize(
    ("text", "version"),
    [("v24.0.0.1", "24.0"), ("22.1.0.0", "22.1"), ("v21.2.1.1", "21.2"), ("develop", "develop")],
)
def test_a_tag_is_a_version(text, version):
    for name in ("gem5-se",):
        (target,) = chosen_targets([name], {"gem5_version": text})
        assert target.gem5_version == version
    (other,) = chosen_targets(["gem5-fs"], {"gem5_version": "v25.0.0.0"})
    assert other.gem5_version == "25.0"


def test_a_version_between_two_is_told_the_next():
    with pytest.raises(UsageError, match=r"'22\.2': unknown; did you mean '22\.1'\?"):
        chosen_targets(["gem5-se"], {"gem5_version": "22.2"})


def test_no_image_is_of_a_closed_registry():
    assert [name for name, each in VERSIONS.items() if each.image.startswith("gcr.io")] == []


@pytest.mark.parametrize("words", ["--gem5-version 24.0", "--for host --gem5-version 24.0"])
def test_a_version_is_for_gem5(simgen, words):
    done = simgen(f"doctor {words}")
    assert done.code == 2
    assert done.err.count("\n") == 1
