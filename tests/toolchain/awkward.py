"""Layers of training, texts, masks and time steps in shapes that fit nothing.

On the host, mistakes in kernels of PROBLEMS are seen (test_mistakes.py); simulators run them too.
"""

from __future__ import annotations

from layer_bundles import Problem
from layer_variants import Variant


def problem(kind: str, shape: tuple[int, ...], **keys: str) -> Problem:
    return Problem(Variant(kind, tuple(keys.items())), shape)


ONE = (1, 1, 1, 1)
REST = (3, 5, 5, 5)  # three elements after the last four
FOURS = (3, 4, 5, 5)
ROWS = (301, 3, 1, 1)  # two work-groups of rows, a rest of elements
TABLE = {"vocabulary": "37", "features": "5"}
STATES = {"hidden_size": "5", "initial_state": "true"}
SGD = {"momentum": "0.9", "weight_decay": "0.125", "loss_scale": "1024"}
ADAMW = {"weight_decay": "0.125", "decoupled": "true"}

PROBLEMS: dict[str, Problem] = {
    "adam": problem("adam", REST, weight_decay="0.125"),
    "adamw": problem("adam", FOURS, **ADAMW),
    "momentum": problem("sgd", REST, **SGD),
    "nesterov": problem("sgd", FOURS, **SGD, nesterov="true"),
    "entropy": problem("cross_entropy", ROWS, ignore_index="1"),
    "classes": problem("cross_entropy", REST),
    "squares": problem("squared_error", ROWS),
    "sampled": problem("sampled_softmax", (3, 101, 7), vocabulary="37", samples="9"),
    "text": problem("embedding", (3, 1500), vocabulary="997", features="5"),  # three pieces
    "words": problem("embedding", (1, 2049), **TABLE),  # a piece of one
    "halves": problem("embedding", (3, 11), **TABLE, type="bf16"),
    "causal": problem("mask", (3, 7, 9)),
    "lengths": problem("mask", (5, 3, 1, 130), mask="lengths"),
    "attention": problem("attention_sum", (3, 17), candidates="9", log="true"),
    "grouped": problem(
        "attention",
        (2, 4, 9, 12),
        kv_heads="2",
        keys="41",
        causal="true",
        window="21",
        softcap="1.5",
        algo="flash",
    ),
    "turning": problem("rope", (2, 3, 5, 12), rotary="8", positions="true", scaling="yarn"),
    "neighbours": problem("rope", (2, 3, 5, 9), rotary="6", interleaved="true"),
    "means": problem("reduce_mean", (2, 4, 37)),
    "product": problem("multiply", REST),
    "difference": problem("subtract", REST),
    "quotient": problem("divide", REST),
    "channels": problem("broadcast", REST),
    "rows_added": problem("broadcast", (3, 5, 7, 11), operand="1x1x0x0", operation="add"),
    "columns": problem("broadcast", (3, 5, 7, 12), operand="0x1x0x1", operation="divide"),
    "masked": problem("softmax", (3, 37, 2, 3), softmax_algo="masked"),
    "masked_long": problem("softmax", (2, 1025, 1, 1), softmax_algo="masked"),
    "line": problem("piecewise", REST, piecewise_mode="linear", slope="-0.75"),
    "swish": problem("piecewise", REST, piecewise_mode="swish", slope="1"),
    "turned": problem("transpose", (3, 67, 5)),
    "leaky": problem("piecewise", (3, 7, 11, 9)),  # two work-groups, seven fours, three elements
    "clip": problem("piecewise", FOURS, piecewise_mode="clip"),
    "rms": problem("rms_norm", (3, 7, 11, 9)),
    "hard_sigmoid": problem("piecewise", REST, piecewise_mode="hard_sigmoid"),
    "hard_swish": problem("piecewise", FOURS, piecewise_mode="hard_swish", slope="0.1875"),
    "axes": problem("rearrange", (3, 5, 7, 11), order="2x0x3x1"),
    "rows": problem("rearrange", (3, 5, 23, 4), order="2x0x1x3"),
    "cropped": problem("rearrange", (3, 5, 7, 11), mode="crop", begin="1x0x2x1", step="1x2x2x3"),
    "run": problem("rearrange", (3, 5, 7, 12), mode="crop", begin="0x1x2x4", to="0x3x5x8"),
    "padded": problem(
        "rearrange", (3, 5, 7, 11), mode="pad", before="1x0x2x1", behind="0x3x0x2", value="1.5"
    ),
    "framed": problem(
        "rearrange", (3, 5, 7, 4), mode="pad", before="0x2x3x0", behind="1x0x2x0", value="-2.5"
    ),
    "copies": problem("rearrange", (3, 1, 7, 1), mode="expand", to="0x5x0x11"),
    "cast": problem("cast", REST, type="bf16"),
    "circulant": problem("bcm_fc", (3, 64, 1, 1), num_output="32", block_size="8"),
    "lstm": problem("recurrent", (3, 2, 6), cell="lstm", **STATES),
    "gru": problem("recurrent", (3, 2, 6), cell="gru", **STATES),
}
# What simulators run beside them: single elements, and rows of more than one work-group.
# Weights that pass through local memory, step by step, whatever machine it is planned for.
PASS = {"algo": "steps", "initial_state": "true"}
MORE: dict[str, Problem] = {
    "adam_one": problem("adam", ONE),
    "momentum_one": problem("sgd", ONE, momentum="0.9"),
    "entropy_one": problem("cross_entropy", ONE),
    "entropy_wide": problem("cross_entropy", (2, 2053, 1, 1)),
    "squares_one": problem("squared_error", ONE),
    "squares_wide": problem("squared_error", (2, 4500, 1, 1)),
    "words_one": problem("embedding", (1, 1), **TABLE),
    "mask_one": problem("mask", (1, 1, 1)),
    "attention_one": problem("attention_sum", (1, 1)),
    "attention_wide": problem("attention_sum", (1, 2049)),
    "means_one": problem("reduce_mean", (1, 1, 1)),
    "means_wide": problem("reduce_mean", (2, 2053, 3)),
    "product_one": problem("multiply", ONE),
    "difference_one": problem("subtract", ONE),
    "quotient_one": problem("divide", ONE),
    "sampled_one": problem("sampled_softmax", (1, 1, 1), vocabulary="1", samples="1"),
    "leaky_one": problem("piecewise", ONE),
    "channels_one": problem("broadcast", ONE),
    "fours_once": problem("broadcast", (3, 5, 1, 8), operand="0x0x0x1", operation="subtract"),
    "swish_whole": problem("piecewise", (2, 1, 32, 32), piecewise_mode="hard_swish"),
    "axes_one": problem("rearrange", (1, 1, 1)),
    "copies_by_fours": problem("rearrange", (3, 1, 37, 4), mode="expand", to="0x3x0x0"),
    "circulant_least": problem("bcm_fc", (1, 10, 1, 1), num_output="6", block_size="2"),
    "lstm_one": problem("recurrent", (1, 1, 1), hidden_size="1", **PASS),
    "gru_back": problem("recurrent", (2, 17, 10), cell="gru", hidden_size="20",
                        reverse="true", **PASS),
}  # fmt: skip
# Layers that have no backward pass.
FORWARD: dict[str, Problem] = {
    "paged": problem(
        "attention",
        (2, 6, 1, 8),
        kv_heads="2",
        keys="140",
        page="3",
        lengths="true",
        sinks="true",
        algo="split",
    ),
    "hidden": problem("attention", (2, 3, 5, 7), mask="keep", value_size="5", keys="37"),
}  # fmt: skip
# Weights that stay in local memory: there is no more than a work-group for each compute unit, so
# that one has one sample, four, or sixteen and more results than work-items.
STAY = {"algo": "persistent", "initial_state": "true", "final_state": "true"}
KEPT: dict[str, Problem] = {
    "lstm_kept": problem("recurrent", (3, 3, 5), hidden_size="20", **STAY),
    "gru_kept": problem("recurrent", (3, 269, 3), cell="gru", hidden_size="5", **STAY),
    "tanh_kept": problem("recurrent", (3, 1061, 2), cell="tanh", hidden_size="33", **STAY),
}
KEPT_ON_SIMULATORS: dict[str, Problem] = {
    "kept_one": problem("recurrent", (2, 1, 1), hidden_size="1", **STAY),
    "lstm_kept": KEPT["lstm_kept"],
    "gru_kept": KEPT["gru_kept"],
    "gru_kept_back": problem("recurrent", (3, 5, 6), cell="gru", hidden_size="67", reverse="true",
                             **STAY),
    "tanh_kept": problem("recurrent", (2, 521, 2), cell="tanh", hidden_size="33", **STAY),
}  # fmt: skip
