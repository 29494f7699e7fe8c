"""What a simulation will take, how that is measured here, and how to stay within a time."""

from __future__ import annotations

from math import ceil, prod

import pytest
from command_line import fails
from handmade import lowered

from simgen.bundle.planning import Choices, Plan
from simgen.cli import costing
from simgen.errors import MissingError, UsageError
from simgen.running import budget, estimates, probe
from simgen.running.probe import Probe
from simgen.targets.gem5.se import Gem5Se
from simgen.targets.host import Host
from simgen.targets.mgpusim.target import MGPUSim

TARGET = MGPUSim()
SMALL = (("n", "1"), ("h", "32"), ("w", "32"), ("pool5.kernel_size", "1"))
LARGE = (("n", "256"), ("c", "512"), ("h", "64"), ("w", "64"))


@pytest.fixture(scope="module", name="resnet")
def small_resnet():
    return Plan("resnet18", Choices(settings=SMALL), [TARGET])


def test_sums_are_those_of_the_launches(resnet):
    workload = resnet.workload
    found = estimates.estimate(workload, TARGET)
    steps = [found.of(workload, at) for at in range(len(workload.steps))]
    assert sum(step.host for step in steps) + found.start == pytest.approx(found.whole.host)
    assert sum(step.seconds for step in steps) == pytest.approx(found.whole.seconds)
    slow = estimates.estimate(workload, TARGET, 2.0)
    assert slow.whole.host == pytest.approx(2 * found.whole.host)
    assert slow.whole.seconds == found.whole.seconds
    assert found.by_pieces(workload, 1) < found.whole.host
    assert found.by_pieces(workload, 4) < found.by_pieces(workload, 1)


def test_what_was_measured_is_foretold():
    """Instructions that MGPUSim counted: all that a fit without errors of its own can miss."""
    relu = lowered("activation_fwd", ("n", "16"), ("c", "16"), ("h", "16"), ("w", "16"))
    assert estimates.estimate(relu, TARGET).whole.instructions == pytest.approx(4352, rel=0.1)
    lenet = Plan("lenet5", Choices(), [TARGET]).workload
    found = estimates.estimate(lenet, TARGET).whole
    assert found.instructions == pytest.approx(129_120, rel=0.5)
    assert found.seconds == pytest.approx(47.0e-6, rel=0.5)


def test_a_target_without_costs_is_told():
    with pytest.raises(UsageError, match="no costs were fitted for host"):
        estimates.estimate(lowered("softmax_fwd"), Host())


def test_a_budget_gives_up_as_little_as_it_must(resnet):
    whole = estimates.estimate(resnet.workload, TARGET)
    rich = budget.choose(resnet, TARGET, 1.0, whole.whole.host + 1)
    assert (rich.settings, rich.representatives, rich.given_up) == ((), False, ())
    pieces = whole.by_pieces(resnet.workload, 1)
    once = budget.choose(resnet, TARGET, 1.0, (pieces + whole.whole.host) / 2)
    assert once.representatives
    assert not once.settings
    assert any("are inferred from like ones" in line for line in once.given_up)
    conv = Plan("conv_fwd", Choices(), [TARGET])
    small = budget.choose(conv, TARGET, 1.0, 60.0)
    assert small.seconds <= 60.0
    assert small.scale_to
    assert any(line.startswith("operations 3.96e+10 -> ") for line in small.given_up)
    # What is one picture already is not asked for again.
    smaller = [dict(settings) for settings, _, _ in budget._sizes(resnet) if settings]
    assert smaller
    assert all("n" not in settings for settings in smaller)
    with pytest.raises(UsageError, match="--budget: the smallest that can be planned takes"):
        budget.choose(resnet, TARGET, 1.0, 0.001)


def test_a_budget_takes_samples_before_it_makes_a_launch_smaller():
    relu = Plan("activation_fwd", Choices(settings=LARGE), [TARGET])
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
        assert ran / groups == pytest.approx(found.sample, rel=0.15)
        assert found.seconds == pytest.approx(whole * ran / groups, rel=0.05)
        rates.append(found.sample)
    assert rates == [0.25, 0.1, 0.02]
    again = budget.choose(relu, TARGET, 1.0, 0.005 * whole)
    assert again.settings
    assert not again.sample


def test_a_budget_takes_no_sample_of_what_would_be_refused(monkeypatch):
    relu = Plan("activation_fwd", Choices(settings=LARGE), [TARGET])
    limit = estimates.estimate(relu.workload, TARGET).whole.host / 2
    monkeypatch.setattr(budget.sampled, "is_declared", lambda kernel: False)
    found = budget.choose(relu, TARGET, 1.0, limit)
    assert found.settings
    assert not found.sample
    monkeypatch.undo()
    gem5 = Gem5Se()
    limit = estimates.estimate(relu.workload, gem5).whole.host / 2
    assert not budget.choose(relu, gem5, 1.0, limit).sample


def test_a_budget_keeps_means_of_whole_images():
    """Of 224 x 224, the last pooling has 7 x 7; of a half, its rows are still one window."""
    resnet = Plan("resnet18", Choices(settings=(("n", "1"),)), [TARGET])
    limit = estimates.estimate(resnet.workload, TARGET).whole.host / 60
    found = budget.choose(resnet, TARGET, 1.0, limit)
    made = Plan("resnet18", Choices(settings=(("n", "1"), *found.settings)), [TARGET])
    height = int(dict(found.settings)["h"])
    assert height < 224
    (pool,) = [each for each in made.network.layers if each.node.name == "pool5"]
    assert pool.node.inputs[0].shape[2:] == (ceil(height / 32),) * 2
    assert pool.layer.output(pool.node.inputs).shape[2:] == (1, 1)


def test_a_budget_of_a_product_by_itself():
    """Its sizes are keys: it has no input that says a batch."""
    gemm = Plan("gemm_fwd", Choices(settings=(("m", "2048"), ("n", "2048"))), [TARGET])
    assert budget.choose(gemm, TARGET, 1.0, 15.0).scale_to


def test_a_probe_is_kept_for_what_it_was_made_of(monkeypatch, tmp_path):
    monkeypatch.setenv("SIMGEN_CACHE_DIR", str(tmp_path / "cache"))
    assert probe.kept(TARGET) is None
    told = probe._told(TARGET)
    path = probe._path(told)
    path.parent.mkdir(parents=True)
    path.write_text(f'{{"factor": 2.5, "of": {probe.json.dumps(told)}}}')
    assert probe.kept(TARGET) == Probe(2.5, told)
    assert probe.kept(MGPUSim(arch="gfx803")) is None
    path.write_text('{"factor": "fast", "of": ""}')
    assert probe.kept(TARGET) is None

    def missing(target):
        raise MissingError("there is no Go")

    monkeypatch.setattr(probe, "measured", missing)
    assert str(probe.of(TARGET)) == "there is no Go"


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
    monkeypatch.setattr(probe, "of", lambda target, again: Probe(2.0, ""))
    options = "show conv_fwd --target mgpusim --cost"
    found = simgen(f"{options} --budget 1m --json").json()["mgpusim"]
    assert found["factor"] == 2.0
    assert found["budget"]["host_seconds"] <= 60
    assert "--scale-to" in found["budget"]["build"]
    assert found["budget"]["run"].startswith("simgen run conv_fwd --on mgpusim --mode timing")
    huge = (
        "show activation_fwd --set n=256 --set c=512 --set h=64 --set w=64 --target mgpusim --cost"
    )
    assert "--representatives --sample 1%" in simgen(f"{huge} --budget 10m --json").out
    few_waves = "show resnet50 --set n=1 --target mgpusim --cost --budget 12m --json"
    found = simgen(few_waves).json()["mgpusim"]["budget"]
    assert "--scale-model" in found["run"]
    assert "--sample" not in found["run"]
    assert "of each launch runs, on as much of the machine" in str(found["given_up"])
    printed = simgen(options).out
    assert "instructions of wavefronts" in printed
    monkeypatch.setattr(probe, "of", lambda target, again: MissingError("no Go"))
    assert "not measured here (no Go)" in simgen(options).err
    fails(simgen("show softmax_fwd --cost --target host"), 2, "--cost: no costs are known for host")
    fails(simgen(f"{options} --budget soon"), 2, "--budget 'soon': not a time")
