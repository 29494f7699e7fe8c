"""Several queues on simulators: the same results, in less time."""

from __future__ import annotations

from math import fsum
from typing import TYPE_CHECKING

import gem5_here
import pytest

import simgen
from simgen.errors import RefusedError, UsageError
from simgen.targets.base import TARGETS
from simgen.targets.gem5 import apu_se

if TYPE_CHECKING:
    from pathlib import Path

lacks = {each: TARGETS[each]().needs.missing() for each in ("mgpusim", "gem5-se")}


def needs(target: str) -> pytest.MarkDecorator:
    reason = " | ".join(map(str, lacks[target]))
    return pytest.mark.skipif(bool(lacks[target]), reason=reason)


TIMING = {"mode": "timing"}
# A module of GoogLeNet (Szegedy et al., CVPR 2015), with few channels.
INCEPTION = """\
[Convolution]
name=stem
n=1
c=4
h=5
w=5
num_output=8
kernel_size=1
pad=0
[Convolution]
name=one
previous_layer=stem
num_output=8
kernel_size=1
pad=0
[Convolution]
name=three
previous_layer=stem
num_output=8
kernel_size=3
pad=1
[Convolution]
name=five
previous_layer=stem
num_output=4
kernel_size=5
pad=2
[Pooling]
name=pool
previous_layer=stem
pool_mode=max
kernel_size=3
pad=1
stride=1
[Concat]
name=joined
previous_layer=one,three,five,pool
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "inception.dnnmark"
    path.write_text(INCEPTION)
    return path


@needs("mgpusim")
def test_branches_run_at_once_and_compute_the_same(tmp_path: Path, config: Path) -> None:
    made, results = {}, {}
    for queues in (1, 2):
        plan = simgen.plan(config, queues=queues)
        made[queues] = plan.build(tmp_path / f"{queues}", "mgpusim")
        results[queues] = made[queues].run("mgpusim", options=TIMING)
    one, two = results[1], results[2]

    for name, output in one.outputs.items():
        assert output.values.tobytes() == two.outputs[name].values.tobytes(), name
    assert made[2].diff()
    alone = fsum(launch["seconds"] for launch in one.launches)
    beside = fsum(launch["seconds"] for launch in two.launches)
    elapsed = fsum(launch["elapsed_seconds"] for launch in two.launches)
    longest = max(launch["seconds"] for launch in two.launches)
    assert longest < elapsed < min(alone, beside)
    for a, b in zip(one.launches, two.launches, strict=True):
        for name in ("instructions", "valu_operations", "wavefronts", "work_groups"):
            assert a[name] == b[name]
        # Wavefronts are told apart by launch, caches are not.
        assert b["wavefront_cycles"] > 0
        assert "l2_hits" in a
        assert "l2_hits" not in b
    again = made[2].run("mgpusim", options=TIMING, replace=True)
    assert [dict(launch) for launch in again.launches] == [dict(each) for each in two.launches]


@needs("mgpusim")
def test_what_needs_one_queue_says_so(tmp_path: Path, config: Path) -> None:
    made = simgen.plan(config, queues=2).build(tmp_path / "b", "mgpusim")
    with pytest.raises(UsageError, match="--keep yes: several queues run layers at once"):
        made.run("mgpusim", options={**TIMING, "keep": "yes"})
    with pytest.raises(UsageError, match="gpus 2: each of several GPUs has one queue"):
        made.run("mgpusim", options={"gpus": 2})
    with pytest.raises(UsageError, match="jobs: a piece is simulated without"):
        made.run("mgpusim", options=TIMING, jobs=2)


@needs("mgpusim")
def test_memory_that_is_used_again_is_read_anew(tmp_path: Path) -> None:
    """Of two chains of layers; their tensors take turns in the same memory."""
    lines = ["[Activation]\nname=first\nn=6\nc=64\nh=2\nw=2\nactivation_mode=tanh"]
    for chain in "ab":
        before = "first"
        for at in range(9):
            lines.append(
                f"[Activation]\nname={chain}{at}\nprevious_layer={before}\nactivation_mode=tanh"
            )
            before = f"{chain}{at}"
    lines.append("[Add]\nname=sum\nprevious_layer=a8,b8")
    config = tmp_path / "chains.dnnmark"
    config.write_text("\n".join(lines))
    made = simgen.plan(config, queues=2, reuse_memory=True).build(tmp_path / "chains", "mgpusim")
    made.run("mgpusim", options={**TIMING, "num_compute_units": 8})
    assert made.diff()


@pytest.mark.gem5
@needs("gem5-se")
def test_gem5_runs_branches_at_once_where_kernels_keep_their_registers(
    place: Path, config: Path
) -> None:
    made = {}
    results = {}
    for queues in (1, 4):
        plan = simgen.plan(config, queues=queues)
        made[queues] = plan.build(place / f"{queues}", "gem5-se")
        options = {"reg_alloc_policy": "simple"}
        results[queues] = made[queues].run("gem5-se", options=options, timeout=1200.0)
    one, four = results[1], results[4]

    for name, output in one.outputs.items():
        assert output.values.tobytes() == four.outputs[name].values.tobytes(), name
    assert made[4].diff()
    if not apu_se.VERSIONS[gem5_here.VERSION].dumps:  # it does not tell when its GPU was active
        return
    alone = fsum(launch["seconds"] for launch in one.launches)
    elapsed = fsum(launch["elapsed_seconds"] for launch in four.launches)
    longest = max(launch["seconds"] for launch in four.launches)
    assert longest < elapsed < alone
    assert all("instructions" not in launch for launch in four.launches)
    with pytest.raises(RefusedError, match="gem5 frees the registers of kernels that run"):
        made[4].run("gem5-se", options={"reg_alloc_policy": "dynamic"})
    with pytest.raises(UsageError, match="--keep yes: 4 queues run layers at once"):
        made[4].run("gem5-se", options={"keep": "yes"})
    # Layers by themselves run in order, as everywhere.
    part = made[4].run("gem5-se", layers="three,pool", timeout=1200.0)
    assert sum("instructions" in launch for launch in part.launches) == 2
