"""Command lines of apu_se.py as they stand in public README files and scripts, read by `show`.

What each option means is gem5's: argparse takes a beginning for the option, `-u60` for `-u 60`.
"""

from __future__ import annotations

import json

import pytest

from simgen.errors import UsageError
from simgen.frontend import dnnmark, problem
from simgen.layers.conv.convolution import Convolution
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
        ("gem5.opt se.py -c x", "has no apu_se.py; the script of the line simulates no GPU"),
        ("gem5.opt mi300.py --app x", "a full system is the target gem5-fs of simgen build"),
        ("gem5.opt my.py -c x", "has no apu_se.py; write the line from gem5 on"),
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


GEM5 = "build/VEGA_X86/gem5.opt configs/example/apu_se.py"


@pytest.mark.parametrize(
    "line",
    [
        f"sudo docker run x bash -c 'cd /gem5 && {GEM5} -n3 -ctest_fwd_pool 2>&1 | tee log'",
        f"scons build/GCN3_X86/gem5.opt; {GEM5} -c test_fwd_pool; cat m5out/stats.txt",
        f"# a run\n{GEM5} -n3 -c test_fwd_pool\ncat m5out/stats.txt",
        f"{GEM5} \\ \n -n3 \\\r\n -c test_fwd_pool\r\n",
        f'OUT=a/b\nmkdir -p "$OUT"\n\n{GEM5} \\\n-c test_fwd_pool \\\n> "$OUT/log" 2>&1 &',
        f"{GEM5}\u00a0-n3 \u2013c test_fwd_pool \u2014options=\u201c-mmap x\u201d > log &",
        f"{GEM5} -c test_bwd_pool -u8 --cmd=test_fwd_pool",  # argparse: the last one counts
    ],
)
def test_what_stands_around_a_line_is_no_part_of_it(line):
    found = posted.read(line, problem.is_known)
    assert found.workload == "test_fwd_pool"
    assert (found.version, found.arch) == ("24.0", "gfx902")
    assert "not an option of apu_se.py" not in dict(found.rows).values()


@pytest.mark.parametrize("end", ["--gfx-version", "-n", "-u -n3", "--cmd"])
def test_an_option_may_lack_its_value(end):
    assert "left out: its value is missing" in dict(posted.read(f"{GEM5} {end}").rows).values()


def test_repeated_options_are_passed_on_as_argparse_has_them():
    found = posted.read(f"{GEM5} -u4 --tcc-size 4MB --num-compute=8 -c test_fwd_pool")
    assert found.run == ["--tcc-size", "4MB", "--num-compute-units", "8"]


@pytest.mark.parametrize("program", ["dnnmark_test_composed_model", "test_fwd_relu"])
def test_no_command_is_printed_for_what_simgen_does_not_have(simgen, program):
    found = json.loads(simgen("show", f"{GEM5} -c {program}", "--json").out)
    assert found["commands"] == []
    assert "the file of its -config" in found["becomes"][f"-c {program}"]


def test_dnnmark_s_networks_go_by_the_names_of_its_programs():
    for program, name in (("dnnmark_test_VGG", "vgg_dnnmark"), ("test_alexnet", "alexnet_dnnmark")):
        of_program, of_name = (problem.find(each, (), None).config for each in (program, name))
        assert [(each.name, [e.value for e in each.entries]) for each in of_program.sections] == [
            (each.name, [e.value for e in each.entries]) for each in of_name.sections
        ]


def test_primitives_of_dnnmark_s_paper_go_by_name_and_number():
    for at, kind in enumerate(dnnmark.SIZES, 1):
        named, numbered = (problem.find(f"dnnmark/{word}", (), None) for word in (kind, at))
        assert named == numbered
        (section,) = named.config.sections
        assert ("n", "100") in {(each.key, each.value) for each in section.entries}
    with pytest.raises(UsageError, match="dnnmark/1 to dnnmark/6"):
        problem.find("dnnmark/7", (), None)


CONFIG = """[DNNMark]
run_mode=standalone
[Convolution]
name=conv1
n=1
c=2
h=8
w=8
conv_fwd_pref=specify_workspace_limit
conv_fwd_limit=4096
"""


def test_a_line_of_a_program_of_dnnmark_is_its_config_and_pass(tmp_path):
    (tmp_path / "c.dnnmark").write_text(CONFIG)
    line = f"./build/dnnmark_test_bwd_conv -config {tmp_path}/c.dnnmark -debuginfo 1 -warmup=1"
    found = problem.find(line, (), None)
    assert [str(each) for each in found.passes] == ["bwd"]
    assert [note.partition(":")[0] for note in found.notes] == ["-debuginfo 1", "-warmup 1"]
    meant = "did you mean 'dnnmark_test_fwd_softmax'"
    for wrong, told in (
        (f"{line} -iter 3", "no such flag"),
        ("test_fwd_fc -warmup 1", "no -conf"),
        (f"dnnmark_test_fwd_sofmax -config {tmp_path}/c.dnnmark", meant),
        ("dnmark_test_fwd_softmax -config x.dnnmark", meant),
        ("dnnmark_test_nosuch -config x.dnnmark", "^'dnnmark_test_nosuch': no such program"),
        ("dnnmark_test_fwd_sofmax", meant),
    ):
        with pytest.raises(UsageError, match=told):
            problem.find(wrong, (), None)


def test_a_config_of_this_folder_goes_without_its_suffix(tmp_path, monkeypatch):
    """As `simgen synthesise -o mix.dnnmark` leaves it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mix.dnnmark").write_text(CONFIG)
    assert problem.find("mix", (), None) == problem.find("mix.dnnmark", (), None)


def test_a_limit_of_a_workspace_holds_for_its_pass_alone():
    keys = {"conv_fwd_pref": "specify_workspace_limit", "conv_fwd_limit": "4096"}
    layer = Convolution.from_config([(k, v, None) for k, v in keys.items()])
    rooms = {
        each: layer._room(getattr(layer, f"{each}_preference"), getattr(layer, f"{each}_limit"))
        for each in ("forward", "filter", "data")
    }
    assert rooms == {"forward": 4096, "filter": None, "data": None}


def test_a_config_may_have_a_name_that_no_file_can_have():
    for name in ("x" * 5000, "x\0y"):
        found = posted.read(f"{GEM5} -c test_fwd_pool -o '-config {name}'", problem.is_known)
        assert found.workload == "test_fwd_pool"


def test_a_driver_s_line_is_named():
    rows = dict(posted.read(f"{GEM5} -c MIOpenDriver -o 'conv -W 32 -H 32'").rows)
    assert rows["-c MIOpenDriver"] == "simgen build 'MIOpenDriver conv -W 32 -H 32' makes the layer"


@pytest.mark.parametrize("script", ["se.py", "gpufs/mi300.py"])
def test_other_scripts_are_named_by_build(simgen, script):
    line = f"build/VEGA_X86/gem5.opt configs/example/{script} -c x"
    assert "a command line of gem5" in simgen("build", line).err
    assert "has no apu_se.py" in simgen("show", line).err


# Lines of public scripts and pages: what of them is told, and what simgen run gets.
PUBLIC = [
    (  # a course's batch script
        "srun -n1 --output=log_${i}.txt apptainer exec $IMG $GEM5_PATH/gem5.opt --outdir=${1}_s "
        "$GEM5_ROOT/configs/example/apu_se.py -n 3 --num-compute-units ${i} --gfx-version=gfx902 "
        "-c ./histogram/bin/histogram_$1 &",
        "--num-compute-units NUMBER of simgen run: write what ${i} is", [],
    ),
    (  # a fork's options
        "./build/VEGA_X86/gem5.opt -d out configs/example/apu_se.py --cpu-type X86O3CPU -n 4 "
        "--CPUClock 2GHz --network garnet --chiplet-topo --latency-path latency.txt -c square",
        "--gem5-arg=--chiplet-topo; no gem5 up to 24.1 has it, so set GEM5 to yours",
        ["--gem5-arg=--cpu-type=X86O3CPU", "--gem5-arg=--CPUClock=2GHz",
         "--gem5-arg=--network=garnet", "--gem5-arg=--chiplet-topo",
         "--gem5-arg=--latency-path=latency.txt"],
    ),
    (  # an old Makefile
        "./build/HSAIL_X86/gem5.debug --debug-flags=SFIFO ./configs/example/apu_se.py -u 8 -c "
        "gpu-hello --TCC_latency 24",
        "gem5 to 19, whose GPU runs no machine code: build VEGA_X86 of a later one",
        ["--gem5-arg=--debug-flags=SFIFO", "--num-compute-units", "8",
         "--gem5-arg=--TCC_latency=24"],
    ),
    (  # a fork's README
        "/gem5/build/cxl_apu/gem5.opt /gem5/configs/example/apu_se.py -c <BINARY-PATH> -u "
        "<NUMBER_CUS> -n <NUMBER_CORES>",
        "--num-compute-units NUMBER of simgen run: write what <NUMBER_CUS> is", [],
    ),
    (
        "/gem5/build/cxl_apu/gem5.opt /gem5/configs/example/apu_se.py -c x",
        "GEM5=FOLDER, of the checkout that it is built in, and GEM5_BINARY=PATH of this build", [],
    ),
    (
        "build/ARM/gem5.opt configs/example/apu_se.py -c x",
        "a gem5 without a GPU: build VEGA_X86", [],
    ),
    (  # a repository's script
        "docker run amd_vega build/VEGA_X86/gem5.opt --debug-flag=RubyHitMiss "
        "--debug-start=$start_time configs/example/apu_se.py -n 3 --dgpu --gfx-version=gfx900 "
        "--num-gpu-complex=1 --tcc-size=4MB --mem-req-latency=69 -c square",
        "--gem5-arg=--debug-start=VALUE: write what $start_time is",
        ["--gem5-arg=--debug-flags=RubyHitMiss", "--gem5-arg=--num-gpu-complexes=1", "--tcc-size",
         "4MB", "--gem5-arg=--mem-req-latency=69"],
    ),
    (  # #1093 and the like: versions that deadlock there
        "build/GCN3_X86/gem5.opt configs/example/apu_se.py -n3 --WB_L2 -c test_fwd_softmax",
        "gem5 23.1 deadlocks in a write-back L2 (--WB_L2) with atomics; leave --WB_L2 out with "
        "kernels that have atomics, or take gem5 24.0 or later", [],
    ),
    (
        f'{GEM5} -n3 -c test_fwd_pool --options="" -m 70000000000', "--gem5-arg=-m=70000000000",
        ["--gem5-arg=-m=70000000000"],
    ),
    (
        f"for cu in 4 8; do {GEM5} -n3 -u $cu -c test_fwd_pool; done",
        "--num-compute-units NUMBER of simgen run: write what $cu is", [],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("line", "told", "run"), PUBLIC)
def test_public_lines(line: str, told: str, run: list[str]) -> None:
    found = posted.read(line, problem.is_known)
    assert told in dict(found.rows).values()
    assert found.run == run
