"""gem5-se with DNNMark's own program: command lines, what is looked for first, what comes back.

gem5, Docker and generate_cachefiles.py are scripts here that leave what the real ones would.
"""

from __future__ import annotations

import shlex
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from handmade import BOTH, build, lowered, lowered_text

from simgen.bundle import finding, results
from simgen.bundle import writing as bundles
from simgen.errors import DamagedError, UsageError
from simgen.reports.pages import page, trace
from simgen.targets.cuda import Cuda
from simgen.targets.gem5.se import Gem5Se
from simgen.tensors import mmap_file
from simgen.verdict import diff

# src/gpu/DNNMark/README.md of gem5-resources for gem5 24.0, with the folders as ours lie.
README = """
docker run --rm -v {gem5}:{gem5} -v {bundle}:{bundle} -v {dnnmark}:{dnnmark}
-v {dnnmark}/cachefiles:/root/.cache/miopen/2.9.0 -w {here} ghcr.io/gem5/gcn-gpu:v24-0
{gem5}/build/VEGA_X86/gem5.opt -d . {gem5}/configs/example/apu_se.py -n3 --gfx-version=gfx902
--benchmark-root={dnnmark}/build/benchmarks/test_fwd_softmax -c dnnmark_test_fwd_softmax
--options="-config ../../gem5-se/config.dnnmark -mmap ../../mmap.bin"
"""
GENERATE = """
docker run --rm -v {bundle}:{bundle} -v {dnnmark}:{dnnmark}
-v {dnnmark}/cachefiles:/root/.cache/miopen/2.9.0 -w {bundle}/gem5-se ghcr.io/gem5/gcn-gpu:v24-0
python3 {dnnmark}/generate_cachefiles.py kernels.csv --gfx-version=gfx902 --num-cus={units}
"""
GEM5 = """#!/bin/sh
echo "gem5 version 24.0.0.1"
[ "$3" != which-version ] || exit 2
i=0
while [ "$i" -lt "${{KERNELS:-1}}" ]; do
    i=$((i + 1))
    printf -- '---------- Begin Simulation Statistics ----------\\n'
    printf 'simTicks 5000\\nsystem.cpu3.shaderActiveTicks %d000\\n' "$i"
done >stats.txt
"""
DOCKER = """#!/bin/sh
printf '%s\\037' docker "$@" >>{log}
echo >>{log}
while :; do
    case $1 in
    *:/root/.cache/miopen/2.9.0) export CACHE="${{1%%:*}}" ;;
    ghcr.io/*) break ;;
    esac
    shift
done
shift
exec "$@"
"""
# What the real one leaves, with a text in place of each code object.
GENERATOR = """
import argparse, os, sys
from pathlib import Path
sys.path.insert(0, os.getcwd())
import kernel_database
parser = argparse.ArgumentParser()
for word in ("csv", "--gfx-version", "--num-cus"):
    parser.add_argument(word)
given = parser.parse_args()
keys = kernel_database.wanted(Path(given.csv), given.gfx_version)
keys = keys[int(os.environ.get("FORGET", 0)):]
path = Path(os.environ["CACHE"], f"{given.gfx_version}_{given.num_cus}.ukdb")
kernel_database.write(path, dict.fromkeys(keys, b"code"))
"""
COMPOSED = "[Activation]\nname=a\nn=2\nc=8\n[Softmax]\nname=s\nprevious_layer=a\n"


class Place:
    """A machine with gem5, DNNMark and Docker, in a folder whose name has a space."""

    def __init__(self, root, monkeypatch):
        self.root, self.monkeypatch = root / "a b", monkeypatch
        self.gem5, self.dnnmark = self.root / "gem5", self.root / "DNN Mark"
        self.log = self.root / "docker.log"
        self.file("gem5/configs/example/apu_se.py", "")
        self.file("gem5/build/VEGA_X86/gem5.opt", GEM5.format())
        for name in ("softmax", "composed_model", "fc", "conv"):
            program = f"test_fwd_{name}/dnnmark_test_fwd_{name}"
            self.file(f"DNN Mark/build/benchmarks/{program}", "")
        self.file("DNN Mark/generate_cachefiles.py", GENERATOR)
        self.file("bin/docker", DOCKER.format(log=shlex.quote(str(self.log))))
        self.file("bin/id", "#!/bin/sh\necho 0\n")  # root in Docker and out of it
        monkeypatch.setenv("PATH", f"{self.root / 'bin'}:/usr/bin:/bin")
        monkeypatch.setenv("GEM5", str(self.gem5))
        monkeypatch.setenv("DNNMARK", str(self.dnnmark))
        monkeypatch.setenv("SIMGEN_PYTHON", sys.executable)
        for name in ("SIMGEN_DOCKER", "GEM5_OPTIONS", "GEM5_BINARY"):
            monkeypatch.delenv(name, raising=False)

    def file(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def run(self, made, **environment):
        for name, value in environment.items():
            self.monkeypatch.setenv(name, value)
        return subprocess.run(
            ["sh", "run.sh"], cwd=made.path / "gem5-se", capture_output=True, text=True, check=False
        )

    def commands(self):
        """The command lines that Docker was given to run something."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        words = [line.split("\037")[:-1] for line in lines]
        return [each for each in words if each[1:3] != ["image", "inspect"]]

    def expected(self, text, made, **more):
        """The words of a command line of the README, with folders of this place."""
        folders = {"gem5": self.gem5, "dnnmark": self.dnnmark, "bundle": made.path, **more}
        spaced = {name: str(path).replace(" ", "\\ ") for name, path in folders.items()}
        return shlex.split(text.format(**spaced))


@pytest.fixture(name="place")
def a_place(monkeypatch):
    # apu_se.py redirects /tmp, where pytest's own folders lie.
    with tempfile.TemporaryDirectory(dir="/var/tmp") as root:
        if Gem5Se().needs.refusal(Path(root)):
            pytest.skip("/var/tmp is a link to a place that gem5 redirects")
        yield Place(Path(root), monkeypatch)


def bundle(place, work, **settings):
    return build(place.root / "bun dle", work, Gem5Se(launcher="dnnmark", **settings))


@pytest.fixture(name="softmax")
def softmax_bundle(place):
    return bundle(place, lowered("softmax_fwd", ("n", "4"), ("c", "100")))


# ------------------------------------------------------------------ the folder


def test_the_folder_holds_all_that_a_run_needs(softmax):
    names = {path.name for path in (softmax.path / "gem5-se").iterdir()}
    assert names == {"run.sh", "config.dnnmark", "kernels.csv", "kernel_database.py"}
    assert (softmax.path / "mmap.bin").stat().st_size == 4 * 100 * 4
    told = dict(softmax.manifest[mmap_file.KEY])
    assert len(told.pop(mmap_file.DIGEST)) == 64
    assert told == {"file": "mmap.bin", "nbytes": 1600, "seed": 0}


def test_damaged_values_are_told_and_a_build_repairs_them(place):
    made = bundle(place, lowered("softmax_fwd", ("n", "4"), ("c", "100")))
    path = made.path / "mmap.bin"
    whole = path.read_bytes()
    bundles.verify_values(made)
    for damage in (whole[:-1] + b"?", whole[:-4], None):
        path.unlink()
        if damage is not None:
            path.write_bytes(damage)
        with pytest.raises(DamagedError, match=r"mmap\.bin: missing or changed since it was built"):
            bundles.verify_values(made)
        again = bundle(place, made.workload)
        assert path.read_bytes() == whole
        assert again.manifest == made.manifest


def test_values_lie_between_0_and_1(softmax):
    values = np.fromfile(softmax.path / "mmap.bin", "<f4")
    assert values.min() >= 0
    assert values.max() < 1
    assert len(np.unique(values)) > 300


def test_no_kernel_of_ours_is_compiled(place):
    folder = bundle(place, lowered("softmax_fwd")).path / "gem5-se"
    assert not list(folder.glob("**/*.img"))


def test_a_build_without_it_takes_the_mapped_file_away(place, softmax):
    again = build(softmax.path, softmax.workload, Cuda())
    assert again.manifest[mmap_file.KEY]["nbytes"] == 1600  # gem5-se is still there
    elsewhere = build(place.root / "other", softmax.workload, Cuda())
    assert mmap_file.KEY not in elsewhere.manifest
    assert not (elsewhere.path / "mmap.bin").exists()


def test_another_seed_has_other_values(place):
    first = bundle(place, lowered("softmax_fwd", ("n", "4"), seed=1))
    values = (first.path / "mmap.bin").read_bytes()
    second = bundle(place, lowered("softmax_fwd", ("n", "4"), seed=2))
    assert (second.path / "mmap.bin").read_bytes() != values
    assert len(values) == (second.path / "mmap.bin").stat().st_size


def test_a_mapped_file_that_was_cut_is_damage(softmax):
    (softmax.path / "mmap.bin").write_bytes(b"short")
    with pytest.raises(DamagedError, match=r"mmap\.bin: missing or cut short; build it again"):
        bundles.verify(softmax, "gem5-se")


@pytest.mark.parametrize(
    ("settings", "fact"),
    [({"m5ops": True}, "--m5ops"), ({"l1": "bypass"}, "--l1 bypass")],
)
def test_what_does_not_reach_its_kernels_is_refused(settings, fact):
    with pytest.raises(UsageError, match=fact):
        Gem5Se(launcher="dnnmark", **settings)


def test_gem5_without_statistics_per_kernel_takes_one_layer(place):
    old = {"gem5_version": "23.1", "arch": "gfx902"}
    bundle(place, lowered("softmax_fwd"), **old)
    with pytest.raises(UsageError, match="one table of statistics for all kernels"):
        bundle(place, lowered_text(COMPOSED), **old)


def test_what_dnnmark_does_otherwise_is_told_when_it_is_built(place):
    made = bundle(place, lowered("pool_fwd", ("h", "8"), ("w", "8"), ("round_mode", "floor")))
    (note,) = Gem5Se(launcher="dnnmark").package.notes(made.path / "gem5-se")
    assert note.startswith("pool: DNNMark's results are 4 x 4")


# ------------------------------------------------------------------ the command lines


def test_they_are_those_of_its_readme(place, softmax):
    done = place.run(softmax)
    assert (done.returncode, done.stderr) == (0, "")
    generate, simulate = place.commands()
    here = simulate[simulate.index("-w") + 1]
    assert here.startswith(f"{softmax.path}/results/.part-gem5-se.")
    assert simulate == place.expected(README, softmax, here=here)
    assert generate == place.expected(GENERATE, softmax, units=4)


def test_root_s_files_are_given_to_the_user(place, softmax):
    place.file("bin/id", "#!/bin/sh\necho 1000\n")
    place.file("bin/chown", "#!/bin/sh\n")
    assert place.run(softmax).returncode == 0
    *_, simulate, give = place.commands()
    here = simulate[simulate.index("-w") + 1]
    assert give[-4:] == ["chown", "-R", "1000:1000", here]
    assert place.run(softmax, KERNELS="0").returncode == 5
    assert place.commands()[-1][-4:-1] == ["chown", "-R", "1000:1000"]


def test_the_printed_command_is_the_same(place, softmax):
    here = softmax.path / "results" / "m5out"
    line = Gem5Se(launcher="dnnmark").package.commands(softmax.path, softmax.workload)["docker"]
    words = shlex.split(line.replace("$DNNMARK", str(place.dnnmark)))
    assert words[words.index("&&", 5) + 1 :] == place.expected(README, softmax, here=here)


def test_the_launches_of_the_workload_do_not_count(place, softmax):
    assert place.run(softmax, SIMGEN_LAUNCHES="3").returncode == 0
    target = Gem5Se(launcher="dnnmark")
    assert target.watcher.watch(softmax.path / "results", softmax.workload) is None


def test_a_database_that_has_the_kernels_is_left_alone(place, softmax):
    assert place.run(softmax).returncode == 0
    assert place.run(softmax).returncode == 0
    assert [line.count("generate") for line in map(" ".join, place.commands())] == [1, 0, 0]


def test_layers_without_kernels_of_miopen_need_no_database(place):
    made = bundle(place, lowered("fc_fwd", ("n", "2"), ("c", "5"), ("num_output", "3")))
    assert place.run(made).returncode == 0
    assert len(place.commands()) == 1


@pytest.mark.parametrize(
    ("environment", "units"),
    [
        ({"SIMGEN_NUM_COMPUTE_UNITS": "8"}, 8),
        ({"GEM5_OPTIONS": "--cpu-type=X86O3CPU"}, 4),
    ],
)
def test_the_database_is_of_the_simulated_gpu(place, softmax, environment, units):
    assert place.run(softmax, **environment).returncode == 0
    assert place.commands()[0] == place.expected(GENERATE, softmax, units=units)


def test_a_large_gpu_finds_its_kernels_under_miopen_s_name(place, softmax):
    assert place.run(softmax, SIMGEN_NUM_COMPUTE_UNITS="80").returncode == 0
    assert (place.dnnmark / "cachefiles" / "gfx90250.ukdb").is_file()


def test_large_tensors_get_more_simulated_memory(place):
    made = bundle(place, lowered("softmax_fwd", ("n", "4000"), ("c", "4000")))
    assert " -n3 --mem-size=1GiB --gfx-version" in (made.path / "gem5-se" / "run.sh").read_text()


# ------------------------------------------------------------------ what is refused


def test_a_kernel_that_is_not_there_is_named_before_the_run(place, softmax):
    done = place.run(softmax, FORGET="1")
    assert done.returncode == 4
    assert "lacks 1 of 1 kernels for gfx902 with 4 compute units, the first is" in done.stderr
    assert "MIOpenSoftmax.cl.o -DNUM_BATCH=2 " in done.stderr
    assert done.stderr.count("\n") == 1
    assert len(place.commands()) == 1  # gem5 has not started


def test_a_damaged_database_is_refused(place, softmax):
    place.run(softmax)
    path = place.dnnmark / "cachefiles" / "gfx902_4.ukdb"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE kern_db SET kernel_hash = 'x'")
        connection.commit()
    done = place.run(softmax)
    assert done.returncode == 7
    assert "gfx902_4.ukdb" in done.stderr
    assert "remove the file" in done.stderr


@pytest.mark.parametrize(
    ("dnnmark", "code", "fact"),
    [
        ("", 3, "DNNMARK is not set; get src/gpu/DNNMark"),
        ("relative", 2, "write the whole path"),
        ("/tmp/DNNMark", 4, "apu_se.py redirects"),
        ("/nowhere", 3, "dnnmark_test_fwd_softmax is missing"),
    ],
)
def test_dnnmark_must_be_there(place, softmax, dnnmark, code, fact):
    done = place.run(softmax, DNNMARK=dnnmark)
    assert done.returncode == code
    assert fact in done.stderr


def test_all_lacks_are_told_at_once(place, monkeypatch):
    monkeypatch.setenv("DNNMARK", str(place.root / "nothing"))
    monkeypatch.setenv("PATH", "/nowhere")
    facts = [lack.fact for lack in Gem5Se(launcher="dnnmark").needs.missing()]
    assert facts[0].endswith("nothing/build/benchmarks is missing")
    assert facts[1].startswith("there is no docker")
    monkeypatch.setenv("SIMGEN_DOCKER", "0")
    assert len(Gem5Se(launcher="dnnmark").needs.missing()) == 1


@pytest.mark.parametrize("kernels", ["0", "2"])
def test_another_number_of_kernels_is_a_failure(place, softmax, kernels):
    done = place.run(softmax, KERNELS=kernels)
    assert done.returncode == 5
    assert f"{kernels} kernels ran, of 1" in done.stderr


# ------------------------------------------------------------------ what comes back


def collected(made):
    return results.collect(
        made, finding.target_of(made, "gem5-se"), made.path / "results" / "gem5-se"
    )


def test_statistics_are_those_of_miopen_s_kernels(place, softmax):
    place.run(softmax)
    result = collected(softmax)
    assert result.outputs == {}
    assert result.kernels(softmax.workload) == [(0, "SoftmaxForward")]
    assert result.launches[0]["seconds"] == pytest.approx(1e-9)
    path = softmax.path / "results.h5"
    results.save(result, softmax.workload, path)
    read = results.load(path)
    assert read.kernels(softmax.workload) == [(0, "SoftmaxForward")]
    assert read.is_statistics_only


def test_kernels_belong_to_their_layers(place):
    made = bundle(place, lowered_text(COMPOSED))
    assert place.run(made, KERNELS="2").returncode == 0
    rows = page.rows(made, [collected(made)])
    assert [(row.step, row.metrics["shader_active_ticks"]) for row in rows] == [
        ("a fwd", 1000),
        ("s fwd", 2000),
    ]


def test_kernels_of_rocblas_are_counted_where_they_must_be_of_one_layer(place):
    made = bundle(place, lowered("fc_fwd", ("n", "2"), ("c", "5"), ("num_output", "3")))
    assert place.run(made, KERNELS="2").returncode == 0
    result = collected(made)
    assert result.kernels(made.workload) == [(0, "kernel 1"), (0, "kernel 2")]
    assert page.rows(made, [result])[0].metrics["shader_active_ticks"] == 3000


def test_kernels_that_may_be_of_any_layer_are_refused(place):
    made = bundle(
        place,
        lowered_text(
            "[FullyConnected]\nname=f\nn=2\nc=5\nnum_output=3\n"
            "[Softmax]\nname=s\nprevious_layer=f\n"
        ),
    )
    assert place.run(made, KERNELS="3").returncode == 0
    with pytest.raises(DamagedError, match=r"statistics of 3 kernels, where MIOpen 2\.9\.0"):
        collected(made)


def test_there_is_nothing_to_compare(place, softmax):
    place.run(softmax)
    with pytest.raises(UsageError, match="only statistics"):
        diff.diff(softmax.workload, {}, collected(softmax), None)


def test_the_trace_has_their_launches_beside_the_workload_s(place, softmax):
    place.run(softmax)
    path = place.root / "trace.sqlite3"
    run = trace.TracedRun(collected(softmax), datetime.now(UTC))
    trace.write(path, [("softmax", softmax, [run])])
    with closing(sqlite3.connect(path)) as connection:
        query = "SELECT position, kernel, work_group_size FROM launch"
        launches = connection.execute(query).fetchall()
        times = connection.execute("SELECT layer, kernel, value FROM launch_metric").fetchall()
    assert launches[-1] == (1, "SoftmaxForward", None)
    assert ("softmax", "SoftmaxForward", pytest.approx(1e-9)) in times


def test_both_passes_of_one_layer_run_in_one_program(place):
    made = bundle(place, lowered("softmax_fwd", ("n", "4"), ("c", "100"), passes=None))
    assert "test_fwd_softmax" in (made.path / "gem5-se" / "run.sh").read_text()
    made = bundle(place, lowered_text("[Softmax]\nname=s\nn=4\nc=100\n", BOTH))
    assert "test_composed_model" in (made.path / "gem5-se" / "run.sh").read_text()
