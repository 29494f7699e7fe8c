"""What a simulation will take, how that is measured here, and how to stay within a time."""

from __future__ import annotations

import dataclasses
import re
from math import ceil, prod

import pytest
from command_line import fails
from handmade import lowered

from simgen.ask.build import BuildChoices
from simgen.ask.run import RunChoices
from simgen.bundle.planning import Plan
from simgen.cli import costing
from simgen.errors import MissingError, UsageError
from simgen.running import budget, estimates, pieces, probe
from simgen.running.probe import Probe
from simgen.targets.gem5.se import Gem5Se
from simgen.targets.host import Host
from simgen.targets.mgpusim.target import MGPUSim
from simgen.workload import launch_features, samples

TARGET = MGPUSim()
SMALL = (("n", "1"), ("h", "32"), ("w", "32"), ("pool5.kernel_size", "1"))
LARGE = (("n", "256"), ("c", "512"), ("h", "64"), ("w", "64"))


@pytest.fixture(scope="module", name="resnet")
def small_resnet():
    return Plan("resnet18", BuildChoices(set=SMALL), [TARGET])


def test_sums_are_those_of_the_launches(resnet):
    workload = resnet.workload
    found = estimates.estimate(workload, TARGET)
    steps = [found.of(workload, at) for at in range(len(workload.steps))]
    assert sum(step.host for step in steps) + found.start == pytest.approx(found.whole.host)
    assert sum(step.seconds for step in steps) == pytest.approx(found.whole.seconds)
    slow = estimates.estimate(workload, TARGET, 2.0)
    assert slow.whole.host == pytest.approx(2 * found.whole.host)
    assert slow.whole.seconds == found.whole.seconds


@pytest.mark.parametrize("jobs", [1, 4])
def test_representatives_take_what_their_pieces_take(resnet, jobs):
    """Those that a run has: `pieces.plan` is what it cuts by."""
    workload = resnet.workload
    found = estimates.estimate(workload, TARGET)
    survey, cuts = pieces.plan(workload, RunChoices(representatives=True, jobs=jobs))
    warm = sum(found.of(workload, at).host for piece in cuts for at in piece.warm)
    measured = sum(found.of(workload, at).host for at in survey.steps)
    whole = len(cuts) * found.start + warm + measured
    assert warm
    assert sum(found.of_piece(workload, piece) for piece in cuts) == pytest.approx(whole)
    took = found.by_pieces(workload, cuts, jobs)
    assert whole / jobs <= took * (1 + 1e-9)
    assert took <= whole / jobs + max(found.of_piece(workload, piece) for piece in cuts)
    if jobs == 1:
        assert took == pytest.approx(whole)


def test_what_was_measured_is_foretold():
    """Instructions that MGPUSim counted: all that a fit without errors of its own can miss."""
    relu = lowered("activation_fwd", ("n", "16"), ("c", "16"), ("h", "16"), ("w", "16"))
    assert estimates.estimate(relu, TARGET).whole.instructions == pytest.approx(4352, rel=0.1)
    resnet = Plan("resnet50", BuildChoices(set=(("n", "1"),)), [Gem5Se()]).workload
    found = estimates.estimate(resnet, Gem5Se()).whole
    assert found.instructions == pytest.approx(105e6, rel=0.1)  # gem5's, benchmarks/pieces
    assert found.seconds == pytest.approx(122e-3, rel=0.2)
    lenet = Plan("lenet5", BuildChoices(), [TARGET]).workload
    found = estimates.estimate(lenet, TARGET).whole
    assert found.instructions == pytest.approx(129_120, rel=0.5)
    assert found.seconds == pytest.approx(47.0e-6, rel=0.5)


@pytest.mark.parametrize(
    ("m", "n", "k", "instructions", "seconds"),
    [
        (64, 64, 64, 7104, 9.384e-6),
        (35, 100, 128, 29_702, 9.659e-6),
        (128, 256, 512, 396_672, 16.78e-6),
        (512, 512, 256, 1_472_512, 27.66e-6),
        (768, 768, 768, 8_414_064, 96.16e-6),
    ],
)
def test_products_of_matrices_are_foretold(m, n, k, instructions, seconds):
    """As MGPUSim counted them, from small ones to those whose wavefronts work for long."""
    settings = (("m", str(m)), ("n", str(n)), ("k", str(k)))
    made = Plan("gemm_fwd", BuildChoices(set=settings), [TARGET]).workload
    found = estimates.estimate(made, TARGET).whole
    assert found.instructions == pytest.approx(instructions, rel=0.2)
    assert found.seconds == pytest.approx(seconds, rel=0.3)


def test_operations_of_a_product_are_those_of_whole_tiles():
    made = lowered("gemm_fwd", ("m", "35"), ("n", "100"), ("k", "100"))
    first = launch_features.features_of(made)[0]
    tile = dict(made.kernels[0].constants)
    depths = [
        ceil(min(tile["chunk"], 100 - at) / tile["tile_k"]) * tile["tile_k"]
        for at in range(0, 100, tile["chunk"])
    ]
    rows, columns = (ceil(x / tile[t]) * tile[t] for x, t in ((35, "tile_m"), (100, "tile_n")))
    assert first.template == "gemm.hip"
    assert first.operations == 2 * rows * columns * sum(depths) / 64
    assert first.operations > 2 * 35 * 100 * 100 / 64


def test_a_target_without_costs_is_told():
    with pytest.raises(UsageError, match="no costs were fitted for host"):
        estimates.estimate(lowered("softmax_fwd"), Host())


def test_a_budget_gives_up_as_little_as_it_must(resnet):
    whole = estimates.estimate(resnet.workload, TARGET)
    rich = budget.choose(resnet, TARGET, 1.0, whole.whole.host + 1)
    assert (rich.settings, rich.run.representatives, rich.given_up) == ((), False, ())
    assert rich.untaken == ()
    _, cuts = pieces.plan(resnet.workload, RunChoices(representatives=True))
    alone = whole.by_pieces(resnet.workload, cuts, 1)
    once = budget.choose(resnet, TARGET, 1.0, (alone + whole.whole.host) / 2)
    assert once.run.representatives
    assert not once.settings
    assert once.untaken == ()
    assert any("are inferred from like ones" in line for line in once.given_up)
    conv = Plan("conv_fwd", BuildChoices(), [TARGET])
    small = budget.choose(conv, TARGET, 1.0, 10.0)
    assert small.seconds <= 10.0
    assert small.scale_to
    assert any(line.startswith("operations 3.96e+10 -> ") for line in small.given_up)
    # What is one picture already is not asked for again.
    smaller = [dict(settings) for settings, _, _ in budget._sizes(resnet) if settings]
    assert smaller
    assert all("n" not in settings for settings in smaller)
    with pytest.raises(UsageError, match="--budget: the smallest that can be planned takes"):
        budget.choose(resnet, TARGET, 1.0, 0.001)


def test_a_budget_takes_samples_before_it_makes_a_launch_smaller():
    relu = Plan("activation_fwd", BuildChoices(set=LARGE), [TARGET])
    whole = estimates.estimate(relu.workload, TARGET).whole.host
    groups = prod(relu.workload.launches[0].grid)
    rates = []
    for part in (0.5, 0.15, 0.03):
        found = budget.choose(relu, TARGET, 1.0, part * whole)
        assert (found.settings, found.scale_to) == ((), None)
        assert found.seconds <= part * whole
        (told,) = found.given_up
        ran = int(told.removeprefix("of 1 launch, about ").split()[0])
        assert told.endswith(f" of {groups} work-groups run")
        assert ran / groups == pytest.approx(found.run.sample, rel=0.15)
        assert found.seconds == pytest.approx(whole * ran / groups, rel=0.05)
        rates.append(found.run.sample)
    assert rates == [0.25, 0.1, 0.02]
    again = budget.choose(relu, TARGET, 1.0, 0.005 * whole)
    assert again.settings
    assert not again.run.sample


def test_a_budget_takes_no_sample_of_what_would_be_refused(monkeypatch):
    relu = Plan("activation_fwd", BuildChoices(set=LARGE), [TARGET])
    limit = estimates.estimate(relu.workload, TARGET).whole.host / 2
    monkeypatch.setattr(budget.sampled, "is_declared", lambda kernel: False)
    found = budget.choose(relu, TARGET, 1.0, limit)
    assert found.settings
    assert not found.run.sample
    assert found.untaken[0].endswith("nothing says which elements its work-groups write")
    monkeypatch.undo()
    gem5 = Gem5Se()
    limit = estimates.estimate(relu.workload, gem5).whole.host / 2
    found = budget.choose(relu, gem5, 1.0, limit)
    assert not found.run.sample
    assert [each.split(":")[:2] for each in found.untaken] == [
        ["--sample", " gem5-se"], ["--scale-model", " gem5-se"]
    ]  # fmt: skip


def test_a_budget_says_where_nothing_can_be_sampled(resnet):
    limit = estimates.estimate(resnet.workload, TARGET).whole.host / 6
    found = budget.choose(resnet, TARGET, 1.0, limit)
    assert found.run.scale_model
    (told,) = found.untaken
    assert told.startswith("--sample: no launch has enough work-groups: the largest would fill ")
    assert samples.ranges(samples.MIN_WAVES * 8 + 8, 8, 0.01) is not None
    assert samples.ranges(samples.MIN_WAVES * 8, 8, 0.01) is None


def test_a_sample_is_of_the_launches_that_run_uncounted_too():
    """So a run of representatives with a sample takes a part of all that its pieces run."""
    settings = (("n", "512"), ("h", "112"), ("w", "112"), ("pool5.kernel_size", "4"))
    workload = Plan("resnet18", BuildChoices(set=settings), [TARGET]).workload
    whole = estimates.estimate(workload, TARGET)
    survey, cuts = pieces.plan(workload, RunChoices(representatives=True))
    assert any(piece.warm for piece in cuts)
    steps = {at for piece in cuts for at in piece.all}
    both, own = (budget._shares(workload, 0.02, each) for each in (steps, survey.steps))
    assert own.items() < both.items()
    took = [whole.sampled(each).by_pieces(workload, cuts, 1) for each in (both, own)]
    assert took[0] < took[1]


@pytest.mark.parametrize("option", ["reuse_memory", "queues"])
def test_a_budget_takes_no_pieces_that_a_run_would_refuse(option):
    value = {"reuse_memory": True, "queues": 2}[option]
    plan = Plan("cifar_quick", BuildChoices(set=(("n", "2"),), **{option: value}), [TARGET])
    limit = 0.7 * estimates.estimate(plan.workload, TARGET).whole.host
    found = budget.choose(plan, TARGET, 1.0, limit)
    assert (found.run.representatives, found.run.jobs) == (False, None)
    assert found.settings == (("n", "1"),)
    assert len(found.untaken) == 1
    assert found.untaken[0].startswith("--representatives: ")


def test_a_budget_keeps_means_of_whole_images():
    """Of 224 x 224, the last pooling has 7 x 7; of a half, its rows are still one window."""
    resnet = Plan("resnet18", BuildChoices(set=(("n", "1"),)), [TARGET])
    limit = estimates.estimate(resnet.workload, TARGET).whole.host / 60
    found = budget.choose(resnet, TARGET, 1.0, limit)
    made = Plan("resnet18", BuildChoices(set=(("n", "1"), *found.settings)), [TARGET])
    height = int(dict(found.settings)["h"])
    assert height < 224
    (pool,) = [each for each in made.network.layers if each.node.name == "pool5"]
    assert pool.node.inputs[0].shape[2:] == (ceil(height / 32),) * 2
    assert pool.layer.output(pool.node.inputs).shape[2:] == (1, 1)


def test_a_budget_of_a_product_by_itself():
    """Its sizes are keys: it has no input that says a batch."""
    gemm = Plan(
        "gemm_fwd", BuildChoices(set=(("m", "2048"), ("n", "2048"), ("k", "512"))), [TARGET]
    )
    found = budget.choose(gemm, TARGET, 1.0, 0.8)
    assert found.scale_to
    per_byte = 2 * 2048 * 512 / (4 * (512 + 512 + 2048))
    assert f"operations per byte {per_byte:.3g} -> " in "; ".join(found.given_up)


def test_a_probe_is_kept_for_what_it_was_made_of(monkeypatch, tmp_path):
    monkeypatch.setenv("SIMGEN_CACHE_DIR", str(tmp_path / "cache"))
    assert probe.kept_probe(TARGET) is None
    told = probe._machine_text(TARGET)
    path = probe._path(told)
    path.parent.mkdir(parents=True)
    path.write_text(f'{{"factor": 2.5, "of": {probe.json.dumps(told)}}}')
    assert probe.kept_probe(TARGET) == Probe(2.5, told)
    assert probe.kept_probe(MGPUSim(arch="gfx803")) is None
    known = estimates.table()
    costs = dataclasses.replace(known[TARGET.name], issue=2 * known[TARGET.name].issue)
    with monkeypatch.context() as other:  # another fit, which it was not compared with
        other.setattr(estimates, "table", lambda: {**known, TARGET.name: costs})
        assert probe.kept_probe(TARGET) is None
    path.write_text('{"factor": "fast", "of": ""}')
    assert probe.kept_probe(TARGET) is None

    def missing(target):
        raise MissingError("there is no Go")

    monkeypatch.setattr(probe, "measured", missing)
    assert str(probe.probe_of(TARGET)) == "there is no Go"


@pytest.mark.parametrize(
    ("text", "seconds"), [("10m", 600.0), ("90s", 90.0), ("1.5h", 5400.0), ("2min", 120.0)]
)
def test_times_are_read(text, seconds):
    assert costing.seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["10", "m", "0m", "-1h", "1e9h", "1y", "\n5m"])
def test_what_is_no_time_is_told(text):
    with pytest.raises(UsageError, match="not a time; write it like 10m"):
        costing.seconds_of(text)


def test_the_command_prints_what_it_takes_and_how_to_stay_within_a_time(simgen, monkeypatch):
    monkeypatch.setattr(probe, "probe_of", lambda target, again: Probe(2.0, ""))
    options = "show conv_fwd --target mgpusim --cost"
    found = simgen(f"{options} --budget 10s --json").json()["targets"]["mgpusim"]
    assert found["factor"] == 2.0
    assert found["budget"]["host_seconds"] <= 10
    assert "--scale-to" in found["budget"]["build"]
    assert found["budget"]["run"].startswith("simgen run conv_fwd --on mgpusim --mode timing")
    huge = (
        "show activation_fwd --set n=256 --set c=512 --set h=64 --set w=64 --target mgpusim --cost"
    )
    assert "--representatives --sample 1%" in simgen(f"{huge} --budget 80s --json").out
    few_waves = "show resnet50 --set n=1 --target mgpusim --cost --budget 12m --json"
    found = simgen(few_waves).json()["targets"]["mgpusim"]["budget"]
    assert "--scale-model" in found["run"]
    assert "--sample" not in found["run"]
    assert found["not_taken"][0].startswith("--sample: no launch has enough work-groups")
    assert "of each launch runs, on as much of the machine" in str(found["given_up"])
    again = "show conv_fwd --set n=2 --set n=64 --scale-to 1e9 --target mgpusim --cost"
    build = simgen(f"{again} --budget 20s --json").json()["targets"]["mgpusim"]["budget"]["build"]
    assert build.count("--scale-to") == build.count("--set n=") == 1
    again = "show resnet18 --set n=2 --set h=64 --set w=64 --set pool5.kernel_size=2"
    again = f"{again} --target mgpusim --cost --budget 12s"
    printed = simgen(again).out
    (build,) = re.findall(r"^build: .*", printed, re.MULTILINE)
    keys = re.findall(r"--set ([\w.]+)=", build)
    assert sorted(keys) == ["h", "n", "pool5.kernel_size", "w"]
    assert "--set n=1 " in build
    assert "not taken: --sample: no launch has enough" in printed
    assert re.search(r"with --representatives [\d a-z]+: \d+ of \d+ launches are meas", printed)
    printed = simgen(options).out
    assert "--representatives" not in printed  # of one launch
    assert "instructions of wavefronts" in printed
    monkeypatch.setattr(probe, "probe_of", lambda target, again: MissingError("no Go"))
    assert "not measured here (no Go)" in simgen(options).err
    fails(simgen("show softmax_fwd --cost --target host"), 2, "--cost: no costs are known for host")
    fails(simgen(f"{options} --budget soon"), 2, "--budget 'soon': not a time")
