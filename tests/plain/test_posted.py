"""Command lines of apu_se.py as they stand in public README files and scripts, read by `show`.

What each option means is gem5's: argparse takes a beginning for the option, `-u60` for `-u 60`.
"""

from __future__ import annotations

import json

import pytest

from simgen.errors import UsageError
from simgen.frontend import problem
from simgen.targets.gem5 import posted

RESOURCES = (
    "docker run --rm -v ${PWD}:${PWD} -v ${PWD}/cachefiles:/root/.cache/miopen/2.9.0 -w ${PWD} "
    "ghcr.io/gem5/gcn-gpu:v24-0 gem5/build/VEGA_X86/gem5.opt gem5/configs/example/apu_se.py -n3 "
    "--benchmark-root=DNNMark/build/benchmarks/test_fwd_softmax -c dnnmark_test_fwd_softmax "
    '--options="-config DNNMark/config_example/softmax_config.dnnmark -mmap DNNMark/mmap.bin"'
)
ARTIFACT = (
    "gem5_multigpu/build/GCN3_X86/gem5.opt --debug-flags=GPUKernelInfo --debug-file=run.log "
    "--outdir=results configs/example/apu_se.py -n80 -u60 --cu-per-sa=60 --num-gpu-complex=1 "
    "--reg-alloc-policy=dynamic --tcc-size=8192kB --mem-size 16GB --num-gpus=4 "
    "--gpu-clock=1801MHz --benchmark-root=pennant/build/ -c pennant"
)


def test_the_line_of_gem5_resources_becomes_three_commands():
    found = posted.read(RESOURCES)
    assert found.commands() == [
        "simgen build dnnmark_test_fwd_softmax --target gem5-se --gem5-version 24.0 --arch gfx902",
        "simgen run dnnmark_test_fwd_softmax --on gem5-se",
        "simgen diff dnnmark_test_fwd_softmax",
    ]
    assert dict(found.rows)["-n 3"].startswith("left out")


def test_its_config_is_the_workload_where_it_lies(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    place = tmp_path / "DNNMark/config_example/softmax_config.dnnmark"
    place.parent.mkdir(parents=True)
    place.write_text("[Softmax]\nn=4\nc=10\n")
    build, run, _ = posted.read(RESOURCES).commands()
    assert build.startswith("simgen build DNNMark/config_example/softmax_config.dnnmark --target")
    assert build.endswith("--pass fwd")
    assert run == "simgen run softmax_config --on gem5-se"


def test_each_option_of_an_artifact_says_what_it_becomes():
    found = posted.read(ARTIFACT)
    becomes = dict(found.rows)
    assert found.commands() == []
    assert becomes["-u 60"] == "--num-compute-units 60 of simgen run"
    assert becomes["--mem-size=16GB"] == "--gem5-arg=--mem-size=16GB"
    assert becomes["--num-gpu-complexes=1"] == "--gem5-arg=--num-gpu-complexes=1"
    assert becomes["--debug-flags=GPUKernelInfo"] == "--gem5-arg=--debug-flags=GPUKernelInfo"
    assert becomes["--outdir results"] == "simgen reads what gem5 writes; leave it out"
    assert "no gem5 up to 24.1 has it" in becomes["--num-gpus=4"]
    assert becomes["-c pennant"].startswith("no workload: describe the launches")
    assert (found.version, found.arch) == ("23.1", "gfx801")


@pytest.mark.parametrize(
    ("line", "version", "arch"),
    [
        ("build/VEGA_X86/gem5.opt apu_se.py -c test_bwd_pool", "24.0", "gfx902"),
        ("build/VEGA_X86/gem5.opt apu_se.py --dgpu --gfx-version gfx900 -c x", "24.0", "gfx900"),
        ("build/GCN3_X86/gem5.debug apu_se.py --dgpu -c x", "23.1", "gfx803"),
        ("docker run gcr.io/gem5-test/gcn-gpu:v21-2 gem5.opt apu_se.py -c x", "21.2", "gfx902"),
        ("docker run ghcr.io/gem5/gcn-gpu:v99-0 gem5.opt apu_se.py -c x", "24.0", "gfx902"),
    ],
)
def test_version_and_gpu(line, version, arch):
    found = posted.read(line)
    assert (found.version, found.arch) == (version, arch)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("gem5.opt apu_se.py -c 'x", r"No closing quotation\); check its quotes"),
        ("gem5.opt se.py -c x", "has no apu_se.py; write the line from gem5 on"),
    ],
)
def test_what_is_no_line_is_refused(line, told):
    with pytest.raises(UsageError, match=told):
        posted.read(line)


def test_show_prints_it_and_build_names_show(simgen):
    done = simgen("show", ARTIFACT, "--json")
    assert done.code == 0
    assert json.loads(done.out)["becomes"]["-u 60"] == "--num-compute-units 60 of simgen run"
    refused = simgen("build", ARTIFACT)
    assert refused.code == 2
    assert "a command line of gem5; simgen show LINE says" in refused.err


@pytest.mark.parametrize(
    ("program", "kind", "direction"),
    [
        ("dnnmark_test_fwd_softmax", "softmax", "fwd"),
        ("test_bwd_pool", "pool", "bwd"),
        ("dnnmark_test_bwd_bn", "bn", "bwd"),
    ],
)
def test_a_program_of_dnnmark_is_a_workload(program, kind, direction):
    found = problem.find(program, (), None)
    assert [str(each) for each in found.passes] == [direction]
    assert found.config.sections == problem.find(f"{kind}_{direction}", (), None).config.sections


def test_networks_of_dnnmark_have_neither_groups_nor_biases(simgen):
    """The second convolution of its AlexNet has 896 million operations (ICPE'18, Table 1)."""
    for name in problem.DNNMARK_NETWORKS:
        found = problem.find(name, (), None)
        keys = {each.key for section in found.config.sections for each in section.entries}
        assert not keys & {"bias", "group"}
    shown = json.loads(simgen("show alexnet_dnnmark --json").out)
    (conv2,) = [each for each in shown["work"] if each["layer"] == "conv2"]
    assert round(conv2["flops"] / 1e6) == 896


@pytest.mark.parametrize("name", sorted(problem.DNNMARK_NETWORKS))
def test_they_go_with_dnnmark_s_own_programs(simgen, tmp_path, name):
    done = simgen(
        "build", name, "--pass", "fwd,bwd", "--target", "gem5-se", "--launcher", "dnnmark",
        "-o", str(tmp_path / "b"), "--quiet",
    )  # fmt: skip
    assert done.code == 0, done.err
