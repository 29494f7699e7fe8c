"""Operations of AlexNet's layers for one image, beside those that the DNNMark paper prints.

    python benchmarks/operation_counts/run.py

Those are table 1 of S. Dong, X. Gong, Y. Sun, T. Baruah, D. Kaeli, "Characterizing the
Microarchitectural Implications of a Convolutional Neural Network (CNN) Execution on GPUs", ICPE
2018. RULES says what explains each of them.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from simgen.frontend import network, problem
from simgen.ground.ir import Pass

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simgen.frontend.network import Placed

PRINTED = {  # table 1, as it is printed there
    "conv1": "210M", "relu1": "290K", "lrn1": "4M", "pool1": "630K",
    "conv2": "896M", "relu2": "186K", "lrn2": "3M", "pool2": "389K",
    "conv3": "299M", "relu3": "65K", "conv4": "448M", "relu4": "65K",
    "conv5": "299M", "relu5": "43K", "pool5": "83K",
    "fc6": "75M", "relu6": "4K", "fc7": "33M", "relu7": "4K", "fc8": "8M", "softmax": "1M",
}  # fmt: skip
UNITS = {"K": 10**3, "M": 10**6}
RULES = {
    "conv": "2 K C R S P Q",
    "activation": "1 per element",
    "lrn": "15 per element",
    "pool": "R S per output",
    "fc": "2 I K",
    "softmax": "C per element",
}
GROUPED = ("conv2", "conv4", "conv5")
BIASED = ("conv1", "conv2", "conv3", "conv4", "conv5", "fc6", "fc7", "fc8")


def main() -> None:
    one_tower = [(f"{name}.group", "1") for name in GROUPED]
    no_bias = [(f"{name}.bias", "false") for name in BIASED]
    as_built, as_printed = layers([]), layers([*one_tower, *no_bias])
    print("| layer | paper | rule | by the rule | off | simgen, one tower | simgen, alexnet |")
    print("|---|---|---|---|---|---|---|")
    for name, text in PRINTED.items():
        placed = as_printed[name]
        found = by_rule(placed)
        units = (found - value(text)) / UNITS[text[-1]]
        print(
            f"| {name} | {text} | {RULES[placed.node.kind]} | {found:,} | {units:+.2f} "
            f"| {operations(placed):,} | {operations(as_built[name]):,} |"
        )
    worst = max(abs(by_rule(as_printed[n]) - value(t)) / UNITS[t[-1]] for n, t in PRINTED.items())
    print(f"\nlargest distance: {worst:.2f} units of the last printed digit")


def layers(settings: list[tuple[str, str]]) -> Mapping[str, Placed]:
    """The layers of simgen's AlexNet for one image."""
    found = problem.find("alexnet", [("n", "1"), *settings], None)
    net = network.resolve(found.config, found.settings)
    return {placed.node.name: placed for placed in net.layers}


def value(text: str) -> int:
    """ "210M" -> 210000000."""
    return int(text[:-1]) * UNITS[text[-1]]


def operations(placed: Placed) -> int:
    """What `simgen show` prints: floating-point operations and special functions."""
    count = placed.layer.count(placed.node.inputs, Pass.FORWARD)
    return count.flops + count.transcendentals


def by_rule(placed: Placed) -> int:
    """The forward pass's operations by the rule that explains the paper's number."""
    (x,) = placed.node.inputs
    y, settings = placed.output, dict(placed.node.parameters)
    match placed.node.kind:
        case "conv":
            return 2 * y.size * x.shape[1] * int(settings["kernel_size"]) ** 2
        case "activation":
            return y.size
        case "lrn":
            # Each window squares and adds its L elements (2 L - 1), then alpha, k, the power as
            # log, multiply and exp, and the product with x: 6.
            return y.size * (2 * int(settings["local_size"]) - 1 + 6)
        case "pool":
            return y.size * int(settings["kernel_size"]) ** 2
        case "fc":
            return 2 * prod(x.shape[1:]) * y.size
        case _:
            return y.size * y.shape[1]  # each probability sums its denominator for itself


if __name__ == "__main__":
    main()
