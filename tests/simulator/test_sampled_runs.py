"""Samples of launches on MGPUSim's timing model, beside the whole launches."""

from __future__ import annotations

import pytest

import simgen
from simgen.errors import UsageError
from simgen.targets.mgpusim.target import MGPUSim

pytestmark = pytest.mark.skipif(
    bool(MGPUSim().needs.missing()), reason=" | ".join(map(str, MGPUSim().needs.missing()))
)

# The second layer reads what the first one leaves.
NETWORK = """
[DNNMark]
run_mode=composed

[Activation]
name=first
n=4
c=8
h=32
w=20
previous_layer=null
activation_mode=tanh

[Activation]
name=second
previous_layer=first
"""
FEW = {"num_compute_units": 1, "wfs_per_simd": 1}  # one work-group at a time
TIMED = {"mode": "timing", **FEW}


@pytest.fixture(scope="module", name="bundle")
def built(tmp_path_factory):
    path = tmp_path_factory.mktemp("sampled") / "net"
    path.with_suffix(".dnnmark").write_text(NETWORK)
    machine = ",".join(("mgpusim-mi300a", *(f"{key}={value}" for key, value in FEW.items())))
    return simgen.plan(path.with_suffix(".dnnmark"), plan_for=machine).build(
        path, targets=["mgpusim"]
    )


def test_a_sample_is_extrapolated_and_judged(bundle):
    whole = bundle.run("mgpusim", options=TIMED)
    part = bundle.run("mgpusim", sample=0.05, options=TIMED)
    assert part.name == "mgpusim@mode=timing,num_compute_units=1,wfs_per_simd=1,sample=0.05,sampled"
    first, second = part.provenance["samples"]
    assert first["ranges"] == [[0, 2], [8, 4], [19, 1]]
    for truth, found in zip(whole.launches, part.launches, strict=True):
        for metric in ("instructions", "f32_fma_operations", "vector_memory_reads", "wavefronts"):
            assert found[metric] == truth[metric]
        assert found["work_groups"] == 20
    for sample in (first, second):
        assert sample["errors"]["instructions"] == 0
        assert sample["errors"]["seconds"] > 0
    judged = bundle.diff(part.name)
    assert judged
    compared = [verdict.comparison.elements for verdict in judged.reports[0].verdicts]
    assert compared == [7 * 1024, 7 * 1024]
    pair = bundle.diff(whole.name, part.name)
    assert pair
    assert "nothing is said of it" in " ".join(pair.reports[-1].notes)


def test_a_part_of_the_machine_runs_a_part_of_each_launch(bundle):
    hardware = {"mode": "timing", "num_compute_units": 4, "num_tccs": 4, "cu_per_sa": 2}
    whole = bundle.run("mgpusim", options=hardware)
    part = bundle.run("mgpusim", scale_model=2, options=hardware)
    assert (
        part.name
        == "mgpusim@mode=timing,num_compute_units=4,cu_per_sa=2,num_tccs=4,scale_model=2,scaled"
    )
    assert [each["ranges"] for each in part.provenance["samples"]] == [[[10, 10]]] * 2
    for truth, found in zip(whole.launches, part.launches, strict=True):
        for metric in ("instructions", "f32_fma_operations", "vector_memory_reads", "wavefronts"):
            assert found[metric] == truth[metric]
        assert found["work_groups"] == 20
        assert found["dram_reads"] <= 2 * truth["dram_reads"]
        assert found["seconds"] > 0
    # The second layer reads what the first one left, of which half ran.
    assert part.launches[1]["dram_reads"] < part.launches[0]["dram_reads"] / 4
    judged = bundle.diff(part.name)
    assert judged
    compared = [verdict.comparison.elements for verdict in judged.reports[0].verdicts]
    assert compared == [10 * 1024, 10 * 1024]


def test_what_has_no_time_is_not_sampled(bundle):
    with pytest.raises(UsageError, match=r"sample: mgpusim: the emulator has no time"):
        bundle.run("mgpusim", sample=0.05)
    with pytest.raises(UsageError, match=r"scale_model: mgpusim: the emulator has no time"):
        bundle.run("mgpusim", scale_model=8)
    with pytest.raises(UsageError, match=r"scale_model: mgpusim: the emulator has no time"):
        bundle.run("mgpusim", scale_model=8, representatives=True)


@pytest.mark.parametrize(
    ("said", "options"),
    [
        (
            "scale_model 3: a GPU of 120 compute units and 16 banks .* up to 16",
            {"scale_model": 3},
        ),
        ("scale_model 16: a GPU of 8 .* up to 8", {"scale_model": 16, "num_compute_units": 8}),
        ("scale_model 65: .* up to 16", {"scale_model": 65}),
        ("scale_model '1': write a whole number, 2 or more", {"scale_model": 1}),
        ("scale_model: it is a sample by itself", {"scale_model": 2, "sample": 0.1}),
    ],
)
def test_a_part_that_is_none(bundle, said, options):
    how = {key: options[key] for key in options.keys() & {"scale_model", "sample"}}
    hardware = {key: options[key] for key in options.keys() - how.keys()}
    with pytest.raises(UsageError, match=said):
        bundle.run("mgpusim", options={"mode": "timing", **hardware}, **how)
