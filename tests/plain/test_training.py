"""Training: the loss that a network ends in, optimisers, and several steps in one workload."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from command_line import fails

from simgen.bundle import results
from simgen.errors import UsageError
from simgen.frontend import config, descent, losses, network
from simgen.ground.ir import Pass, Role
from simgen.tensors.random_values import generate
from simgen.verdict import losses as losses_of_steps
from simgen.workload import lowering, reference

if TYPE_CHECKING:
    from command_line import Simgen

    from simgen.ground.ir import Workload

TRAINING = (Pass.FORWARD, Pass.BACKWARD, Pass.UPDATE)
FC = "[FullyConnected]\nname=fc\nn=6\nc=5\nnum_output=3\nbias=false\n"
SOFTMAX = "[Softmax]\nname=out\nprevious_layer=fc\n"
REGRESSION = FC + "[SquaredError]\nname=error\nprevious_layer=fc\n"


def lowered(text: str, steps: int, optimizer: str, rate: float, **other: float) -> Workload:
    net = network.resolve(config.parse(text, "test"))
    how = descent.parse_descent(optimizer, rate)
    return lowering.lower(net, "net", TRAINING, 0, descent=how, steps=steps, **other)


def inputs_of(workload: Workload) -> dict[str, np.ndarray]:
    return {
        b.name: generate(b.name, b.spec, b.fill, workload.seed).reshape(b.spec.shape)
        for b in workload.inputs
        if b.fill
    }


def trained(workload: Workload) -> dict[str, np.ndarray]:
    found: dict[str, np.ndarray] = {}
    for _, made in reference.run(workload, inputs_of(workload)):
        found |= made
    return found


@pytest.mark.parametrize(
    "optimizer",
    [
        "sgd",
        "sgd,momentum=0.5",
        "sgd,momentum=0.5,weight_decay=0.25,nesterov=true",
        "adam",
        "adamw",
    ],
)
def test_steps_are_those_of_the_formulas_one_after_the_other(optimizer: str) -> None:
    """A regression by hand, with the gradient of the mean of squares."""
    rate, steps = 0.125, 4
    workload = lowered(REGRESSION, steps, optimizer, rate)
    given, made = inputs_of(workload), trained(workload)
    w = given["fc.w"].astype(float)
    keys = dict(each.split("=") for each in optimizer.split(",")[1:])
    momentum, decay = (float(keys.get(name, 0)) for name in ("momentum", "weight_decay"))
    first, second, velocity = np.zeros_like(w), np.zeros_like(w), np.zeros_like(w)
    for step in range(1, steps + 1):
        end = f".step{step}" if step > 1 else ""
        x = given[f"fc.x{end}"].reshape(6, 5)
        off = x @ w.T - given[f"error.target{end}"].reshape(6, 3)
        np.testing.assert_allclose(made[f"error.y{end}"], [np.mean(off**2)], rtol=1e-6)
        g = 2 / off.size * off.T @ x + decay * w
        if optimizer.startswith("adam"):
            first, second = 0.9 * first + 0.1 * g, 0.999 * second + 0.001 * g**2
            root = np.sqrt(second / (1 - 0.999**step)) + 1e-8
            w = w * (1 - rate * 0.01 * (optimizer == "adamw"))
            w = w - rate * (first / (1 - 0.9**step)) / root
        else:
            velocity = momentum * velocity + g
            w = w - rate * (g + momentum * velocity if "nesterov" in keys else velocity)
        np.testing.assert_allclose(made[f"fc.new_w{end}"], w, rtol=1e-4)


def test_each_step_reads_what_the_one_before_left_and_inputs_of_its_own() -> None:
    workload = lowered(REGRESSION, 3, "sgd,momentum=0.5", 0.1)
    reads = [dict(step.reads) for step in workload.steps if step.direction is Pass.UPDATE]
    assert [each["x"] for each in reads] == ["fc.w", "fc.new_w", "fc.new_w.step2"]
    assert [each["v"] for each in reads] == [
        "fc_w_sgd.v", "fc_w_sgd.new_v", "fc_w_sgd.new_v.step2",
    ]  # fmt: skip
    forward = [dict(step.reads) for step in workload.steps if step.direction is Pass.FORWARD]
    assert [each["w"] for each in forward if "w" in each] == [each["x"] for each in reads]
    inputs = {b.name for b in workload.buffers if b.role is Role.INPUT}
    batches = {f"{name}{end}" for name in ("fc.x", "error.target", "error.dy")
               for end in ("", ".step2", ".step3")}  # fmt: skip
    assert inputs == {"fc.w", "fc_w_sgd.v", *batches}
    assert not inputs_of(workload)["fc_w_sgd.v"].any()
    assert len({node.name for node in workload.nodes}) == 3, "layers are those of the first step"


def test_masters_and_running_statistics_are_carried() -> None:
    text = "[Convolution]\nname=conv\nn=2\nc=3\nh=4\nw=4\nnum_output=4\nkernel_size=3\ntype=f16\n"
    text += "[BatchNorm]\nname=bn\nbatchnorm_mode=spatial\n"
    text += "exp_avg_factor=0.25\nprevious_layer=conv\n"
    workload = lowered(text, 2, "sgd", 0.1, loss_scale=1024.0)
    read = {(step.layer, port): name for step in workload.steps for port, name in step.reads}
    assert read["conv_w_sgd", "x"] == "conv.new_master_w"
    assert read["conv", "w"] == "conv.new_w"
    assert read["bn", "running_mean"] == "bn.new_running_mean"


def test_a_scale_that_the_first_gradient_has_no_room_for_is_refused() -> None:
    text = "[Convolution]\nname=conv\nn=2\nc=3\nh=4\nw=4\nnum_output=4\nkernel_size=3\ntype=f16\n"
    fact = (
        r"--loss-scale 131072: the backward pass begins with conv\.dy, which is multiplied by it, "
        r"and f16 ends at 65504; choose a smaller one, or another --type"
    )
    with pytest.raises(UsageError, match=f"^{fact}$"):
        lowered(text, 1, "sgd", 0.1, loss_scale=2.0**17)
    cast = "[Cast]\nname=wide\nprevious_layer=conv\ntype=f32\n"
    lowered(text + cast, 1, "sgd", 0.1, loss_scale=2.0**17)


def ended(text: str, loss: str | None, *, training: bool = True) -> list[str]:
    found = losses.ended(config.parse(text, "test"), loss, training=training)
    return [each.node.kind for each in network.resolve(found).layers]


def test_training_ends_in_a_loss_that_is_its_own() -> None:
    assert ended(FC + SOFTMAX, None) == ["fc", "cross_entropy"]
    assert ended(FC + SOFTMAX, "cross_entropy", training=False) == ["fc", "cross_entropy"]
    assert ended(FC + SOFTMAX, "squared_error") == ["fc", "softmax", "squared_error"]
    assert ended(FC, "cross_entropy") == ["fc", "cross_entropy"]
    for text, loss in ((FC, None), (FC + SOFTMAX, "none"), (REGRESSION, None)):
        assert ended(text, loss) == ended(text, None, training=False)
    images = FC + SOFTMAX + "softmax_mode=instance\n"
    assert ended(images, None) == ["fc", "softmax"], "over whole images it is none over classes"


@pytest.mark.parametrize(
    ("text", "loss", "fact"),
    [
        (FC, "cross_entrop", "no such loss; did you mean 'cross_entropy'?"),
        (REGRESSION, "squared_error", "layer 'error' is a loss; leave --loss out"),
        (FC + SOFTMAX + SOFTMAX.replace("out", "b"), "cross_entropy", "ends in out, b; give one"),
    ],
)
def test_a_loss_that_cannot_be_is_one_line(text: str, loss: str, fact: str) -> None:
    with pytest.raises(UsageError, match="--loss") as error:
        ended(text, loss)
    assert fact in str(error.value)


@pytest.mark.parametrize(
    ("words", "fact"),
    [
        ("--training --optimizer sdg", "no such optimizer; did you mean 'sgd'?"),
        ("--training --optimizer sgd,momntum=1", "sgd has no key 'momntum'; did you mean"),
        ("--training --optimizer sgd,nesterov=true", "which is 0; set momentum"),
        ("--training --optimizer adam,beta2=1", "beta2 is 1.0; it must be at most"),
        ("--training --optimizer adam,rate=1", "write --rate 1"),
        ("--training --optimizer adam,beta2", "write KEY=VALUE"),
        ("--optimizer adam", "no weights are updated"),
        ("--steps 2", "no weights are updated between steps; add --training"),
        ("--steps 2 --training --pass fwd", "between steps; add sgd to --pass"),
        ("--training --steps 0", "--steps"),
        ("--inference --loss none", "--loss: inference has none"),
    ],
)
def test_what_training_cannot_be_is_one_line(simgen: Simgen, words: str, fact: str) -> None:
    done = simgen(f"show lenet5 {words}")
    assert done.code == 2
    assert fact in done.err
    assert done.err.count("\n") == 1


def test_the_command_is_told_again(simgen: Simgen) -> None:
    words = "--training --optimizer adam,beta2=0.99 --steps 2 --loss cross_entropy"
    out = simgen(f"show lenet5 {words} --json").json()
    kinds = [node["kind"] for node in out["workload"]["nodes"]]
    assert kinds[-8:] == ["adam"] * 8
    assert "softmax" not in kinds


def test_a_loss_and_an_accuracy_are_reached_after_the_time_of_the_steps_before() -> None:
    """Scores of 3 samples and 3 classes, whose right classes are counted by hand: one in the first
    step, two in the second. Each of a step's launches takes a second."""
    steps = 2
    text = FC.replace("n=6", "n=3") + "[CrossEntropy]\nname=loss\nprevious_layer=fc\n"
    workload = lowered(text, steps, "sgd", 0.125)
    inputs = inputs_of(workload)
    inputs |= {name: np.array([0, 1, 2], np.int32) for name in inputs if "labels" in name}
    scores = {
        "fc.y": [[3.0, 1.0, 2.0], [3.0, 1.0, 2.0], [3.0, 1.0, 2.0]],
        "fc.y.step2": [[3.0, 1.0, 2.0], [1.0, 3.0, 2.0], [3.0, 1.0, 2.0]],
    }
    values = {"loss.y": [1.5], "loss.y.step2": [0.75], **scores}
    outputs = {name: results.Output(np.array(each), 0, True) for name, each in values.items()}
    launches = [{"seconds": 1.0} for step in workload.steps for _ in step.launches]
    found = results.Result("sim", outputs, tuple(launches), {})
    first, second = losses_of_steps.losses_of(workload, inputs, [found])
    assert (first.accuracies, second.accuracies) == (
        {"sim": pytest.approx(1 / 3)}, {"sim": pytest.approx(2 / 3)},
    )  # fmt: skip
    assert second.seconds["sim"] == len(launches) == 2 * first.seconds["sim"]
    both = (first, second)
    assert losses_of_steps.reached(both, loss=1.0) == {"sim": second}
    assert losses_of_steps.reached(both, accuracy=0.3) == {"sim": first}
    assert losses_of_steps.reached(both, loss=0.5) == {"sim": None}


@pytest.mark.parametrize(
    ("words", "fact"),
    [
        (("--price", "2"), "--price: nothing to reach; give --to-loss or --to-accuracy"),
        (("--to-accuracy", "101"), "--to-accuracy '101': write a number, 0 to 100"),
    ],
)
def test_goals_that_are_none_are_one_line(simgen: Simgen, words: list[str], fact: str) -> None:
    fails(simgen("diff", "b", *words), 2, fact)
