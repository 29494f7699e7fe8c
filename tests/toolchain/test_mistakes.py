"""Mistakes in kernels of training, texts, masks and time steps: each alone makes results wrong.

Rounds keep compilations few: in each, every step of every layer has its next mistake.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from awkward import FORWARD, KEPT, PROBLEMS
from layer_bundles import make, plan

from simgen.bundle import results
from simgen.ground.ir import DType, Pass
from simgen.kernels import render
from simgen.targets.host import Host
from simgen.tensors import data_file
from simgen.verdict.diff import diff

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from simgen.ground.ir import Workload
    from simgen.kernels.build import Builder

pytestmark = pytest.mark.skipif(
    bool(Host().needs.missing()), reason="this machine cannot run the host target"
)

F, B, BD, BW = Pass.FORWARD, Pass.BACKWARD, Pass.BACKWARD_DATA, Pass.BACKWARD_WEIGHT
F32, BF16 = DType.F32, DType.table["bf16"]


# (type of the inputs, layer, pass) -> (text of kernels, what stands there instead).
MISTAKES: dict[tuple[DType, str, Pass], list[tuple[str, str]]] = {
    (F32, "adam", F): [
        ("fused(BETA1, c[0], REST1)", "c[0]"),
        ("REST2 * (g * g)", "REST2 * g"),
        ("fused(fast_sqrt(second[k]), of_root, EPSILON)", "fast_sqrt(second[k]) * of_root"),
        ("k < SIZE % VECTOR; k++)\n            to[at", "k + 1 < SIZE % VECTOR; k++)\n  to[at"),
        ("fused(DECAY, value[k]", "fused(0 * DECAY, value[k]"),
    ],
    (F32, "adamw", F): [
        ("fused(BETA2, c[1], REST2)", "fused(BETA1, c[1], REST2)"),
        ("fast_sqrt(fast_rcp(c2))", "1.0f"),
        ("KEPT * value[k]", "value[k]"),
        ("new_c[1] = c2;", "new_c[1] = c1;"),
        ("at + VECTOR <= SIZE", "at + VECTOR < SIZE"),
    ],
    (F32, "momentum", F): [
        ("slope[k] * SCALE", "slope[k]"),
        ("fused(DECAY, value[k]", "fused(0 * DECAY, value[k]"),
        ("fused(MOMENTUM, velocity[k], way);", "MOMENTUM * velocity[k] + (1 - MOMENTUM) * way;"),
        ("put(new_v, at, velocity);", "put(new_v, at, slope);"),
    ],
    (F32, "nesterov", F): [
        ("NESTEROV ? fused(MOMENTUM, velocity[k], way) : velocity[k]", "velocity[k]"),
        ("at + VECTOR <= SIZE", "at + VECTOR < SIZE"),
    ],
    (F32, "entropy", F): [
        (" - peaks[row]);", ");"),
        ("label != IGNORED", "label + 1000 != IGNORED"),
        ("counts[blockIdx.x] = rows", "counts[blockIdx.x] = 0 * rows + BLOCK"),
        ("sums[blockIdx.x] = sum", "sums[0] = sum"),
        ("at < PARTS; at += BLOCK)\n        sum", "at + 1 < PARTS; at += BLOCK)\n        sum"),
    ],
    (F32, "classes", F): [
        ("row % INNER;", "0;"),
        ("? fast_rcp(count)", "? 1.0f / PARTS + 0 * count"),
        ("row < ROWS)", "row + 1 < ROWS)"),
    ],
    (F32, "entropy", B): [
        ("(is_right ? p - 1.0f : p)", "(is_right ? p : p)"),
        ("label == IGNORED ?", "label + 1000 == IGNORED ?"),
        ("dy[0] * share[0]", "dy[0]"),
        ("if (at + k < SIZE)", "if (at + k + 1 < SIZE)"),
    ],
    (F32, "classes", B): [
        (" - log_sums[row])", ")"),
        ("* INNER + place % INNER", "* INNER"),
        ("place / INNER % AXIS", "place % AXIS"),
    ],
    (F32, "squares", F): [
        ("at < SIZE; at += BLOCK", "at + 1 < SIZE; at += BLOCK"),
        ("losses[blockIdx.x] = sum * SHARE", "losses[blockIdx.x] = sum"),
        ("fused(is[k] - should[k], is[k] - should[k], sum)", "fused(is[k], is[k], sum)"),
        ("y[0] = sum * SHARE", "y[0] = sum"),
    ],
    (F32, "squares", B): [
        ("dy[0] * SHARE", "dy[0]"),
        ("k < SIZE; k++", "k < SIZE - 1; k++"),
        ("is.w - should.w", "is.w"),
    ],
    (F32, "text", F): [("* ROW + at % ROW", "* ROW"), ("ids[at / ROW]", "ids[at / ROW / 2]")],
    (F32, "text", BW): [
        ("from_a = of_b >= b_count || ", "from_a = "),
        ("(low < a_count && a[low] < b[of_b])", "(low < a_count && a[low] > b[of_b])"),
        ("(a[middle] < b[before - 1 - middle])", "(a[middle] < b[before - middle])"),
        ("k = first_of(keys, base);", "k = first_of(keys, base) + 1;"),
        ("keys[k] - base < PLACES;", "keys[k] - base < PLACES - 1;"),
    ],
    (F32, "words", BW): [
        ("first + k < PLACES)\n", "first + k + 1 < PLACES)\n"),
        ("(low & length) == 0", "(low & length) != 0"),
        ("length <= CHUNK;", "length < CHUNK;"),
    ],
    (F32, "grouped", F): [
        ("fast_exp2(before - peak[i])", "1.0f"),
        ("fused(sum[i], shrink[i], added)", "sum[i] + added"),
        ("key >= first && key < last", "key < last"),
        ("high + before + 1 < keys ? high + before + 1", "high + before < keys ? high + before"),
        ("low + before + 1 - static_cast<int>(WINDOW)", "low + before - static_cast<int>(WINDOW)"),
    ],
    (F32, "grouped", B): [
        ("fused(-t, t, 1.0f)", "fused(-t, t, 2.0f)"),
        ("weight * (of_value - total)", "weight * of_value"),
        ("sum[i], slice, SCALE)", "sum[i], slice, 1.0f)"),
        ("score_of(product) - lse * LOG2_E", "score_of(product) - lse"),
        ("seen.first >= static_cast<int>(key0 + TILE)", "seen.first >= static_cast<int>(key0)"),
    ],
    (F32, "paged", F): [
        ("key % SIZE) * KV_HEADS + head % KV_HEADS", "key % SIZE) * KV_HEADS"),
        ("sum[i] = slice == 0 ? 1.0f : 0.0f", "sum[i] = 1.0f"),
        ("fast_exp2(peaks[place] - peak)", "1.0f"),
        ("lengths[sample]", "lengths[0]"),
        ("begin == 0", "begin >= 0"),
    ],
    (F32, "hidden", F): [
        ("added != 0.0f ? s : hidden()", "s"),
        ("row < rows ? four_of", "row + 1 < rows ? four_of"),
        ("column + i < LENGTH ? load", "column + i + 1 < LENGTH ? load"),
        ("* MASK_SAMPLE", "* 0"),
    ],
    (F32, "turning", F): [
        ("(quarter + 1) & 2 ? -FACTOR", "(quarter + 1) & 2 ? FACTOR"),
        ("odd ? s : c, sine", "odd ? c : c, sine"),
        ("quarter & 2 ? -FACTOR", "quarter & 1 ? -FACTOR"),
        ("-1.0f / 720", "-1.0f / 700"),
        ("positions[(row) * TOKENS + (token)]", "positions[(token)]"),
    ],
    (F32, "turning", B): [
        ("BACK ? -high : high", "high"),
        ("1.0f / 120", "1.0f / 110"),
        ("TURNS[k + behind]", "TURNS[k]"),
        ("end < DIM", "end + VECTOR < DIM"),
    ],
    (F32, "neighbours", F): [
        ("INTERLEAVED ? 2 * k : k]", "INTERLEAVED ? 2 * k + 1 : k]"),
        ("row % TOKENS", "row"),
        ("end < DIM", "end + 2 < DIM"),
    ],
    (F32, "causal", F): [
        ("<= (at)", "< (at)"),
        (" + (KEYS - QUERIES)", ""),
        ("k < SIZE; k++", "k < SIZE - 1; k++"),
    ],
    (F32, "lengths", F): [("% KEYS <", "% KEYS <="), ("lengths[(at) / SAMPLE]", "lengths[0]")],
    (F32, "causal", B): [("? in.w : HIDDEN", "? in.w : 1.0f"), ("<= (at)", "< (at)")],
    (F32, "lengths", B): [("lengths[(at) / SAMPLE]", "lengths[0]")],
    (F32, "attention", F): [
        ("k < first + PLACES", "k + 1 < first + PLACES"),
        ("sum = EPSILON", "sum = 0.5f * EPSILON"),
        ("at / CANDIDATES * PLACES", "at * 0"),
        ("0.69314718f", "0.6931f"),
    ],
    (F32, "attention", B): [
        (" * fast_rcp(total[k])", ""),
        ("place / PLACES * CANDIDATES", "place * 0"),
        ("k < first + CANDIDATES", "k + 1 < first + CANDIDATES"),
    ],
    (F32, "means", F): [
        ("k < TERMS", "k + 1 < TERMS"),
        ("FACTOR * sum;", "sum;"),
        ("+ at % INNER;", ";"),
    ],
    (F32, "means", B): [("FACTOR * sum;", "sum;"), ("FROM * INNER", "(0 * FROM + TO) * INNER")],
    (F32, "product", F): [("left.z * right.z", "left.z * right.y"), ("load(a, k) *", "")],
    (F32, "difference", F): [("left.z - right.z", "right.z - left.z"), ("load(a, k) -", "")],
    (F32, "difference", B): [
        ("^ 0x80000000u", ""),
        ("store(db, k, opposite(in))", "store(db, k, in)"),
    ],
    (F32, "quotient", F): [("fast_rcp(right.z)", "right.z"), ("* fast_rcp(load(b, k))", "")],
    (F32, "quotient", B): [
        ("-(da * (a * r))", "da * (a * r)"),
        ("(a * r)", "a"),
        ("made.y", "made.x"),
    ],
    (F32, "turned", F): [("row % FIRST", "row / SECOND % FIRST"), ("+ at % INNER", "")],
    (F32, "turned", B): [("/ FIRST % SECOND", "% SECOND")],
    (F32, "sampled", F): [
        ("column != 0 && word == label ? HIT : sum", "sum"),
        ("samples[column - 1]", "samples[column / 2]"),
        ("float>(word + 1)", "float>(word + 2)"),
        ("if (at >= SIZE)", "if (at + 1 >= SIZE)"),
        ("scores[at * COLUMNS] - peaks[at]", "scores[at * COLUMNS]"),
    ],
    (F32, "sampled", B): [
        ("== 0 ? p - 1.0f : p", "== 0 ? p : p"),
        ("if (labels[row] == word)", "if (false)"),
        ("k < COLUMNS; k++)\n        sum", "k + 1 < COLUMNS; k++)\n sum"),
        ("(samples[k - 1] == word)", "(samples[k - 1] == word && word != samples[k % COLUMNS])"),
        ("dy[0] * SHARE", "dy[0]"),
    ],
    (F32, "leaky", F): [
        (": SLOPE * x", ": x"),
        ("k < SIZE; k++", "k + 1 < SIZE; k++"),
    ],
    (F32, "clip", F): [
        ("minimum(maximum(x, LOW), HIGH)", "maximum(x, LOW)"),
        ("minimum(maximum(x, LOW), HIGH)", "minimum(x, HIGH)"),
        ("together<Element>(at, SIZE)", "at + 2 * VECTOR <= SIZE"),
    ],
    (F32, "hard_sigmoid", F): [
        ("fused(SLOPE, x, OFFSET)", "SLOPE * x"),
        (", 0.0f), 1.0f)", ", 0.0f), 2.0f)"),
        ("maximum(fused(SLOPE, x, OFFSET), 0.0f)", "fused(SLOPE, x, OFFSET)"),
    ],
    (F32, "hard_swish", F): [
        ("? x * line : line", "? line : line"),
        ("function(in.w)", "function(in.z)"),
    ],
    (F32, "axes", F): [
        ("from += i * STRIDE", "from = i * STRIDE"),
        ("J > 0", "J > 1"),
        ("at >= SIZE)", "at + 1 >= SIZE)"),
    ],
    (F32, "rows", F): [
        ("load4(x + from)", "load4(x + at)"),
        ("at >= SIZE)", "at + 4 >= SIZE)"),
    ],
    (F32, "cropped", F): [("from = FIRST", "from = 0"), ("i * STRIDE", "i * (STRIDE / 2)")],
    (F32, "run", F): [("from = FIRST", "from = FIRST + 4"), ("from = FIRST", "from = 4")],
    (F32, "padded", F): [
        (": VALUE;", ": 0.0f;"),
        ("% EXTENT - LEFT", "% EXTENT - 0 * LEFT"),
        ("i < LIMIT", "i < LIMIT - 1"),
    ],
    (F32, "framed", F): [
        ("VALUE, VALUE, VALUE, VALUE", "VALUE, VALUE, VALUE, 0.0f"),
        ("% EXTENT - LEFT", "% EXTENT - 0 * LEFT"),
        ("i < LIMIT", "i < LIMIT - 1"),
    ],
    (F32, "copies", F): [("J > 0", "J > 1"), ("at >= SIZE)", "at + 1 >= SIZE)")],
    (F32, "cast", F): [("k < SIZE % VECTOR; k++)\n            last", "k < 1; k++)\n last")],
    (F32, "cast", B): [("k < SIZE % VECTOR; k++)\n                st", "k < 1; k++)\n st")],
    (F32, "circulant", F): [
        ("at / ACROSS * (2 * ACROSS)", "at / ACROSS * ACROSS"),
        ("target[at * SIZE + k] = number[k]", "target[at * SIZE + k] = number[SIZE - 1 - k]"),
    ],
    (F32, "circulant", BD): [
        ("matrix[ACROSS] = im[f];", "matrix[ACROSS] = -im[f];"),
        ("odd_re[K] = -y;", "odd_re[K] = y;"),
    ],
    (F32, "circulant", BW): [
        ("re[f] = matrix[0] + matrix[LOWER + ACROSS];", "re[f] = matrix[0];"),
        ("matrix[LOWER] - matrix[ACROSS]", "matrix[LOWER] + matrix[ACROSS]"),
        ("number[k] * (1.0f / SIZE)", "number[k]"),
    ],
    (F32, "lstm", F): [
        ("FIRST ? input * fresh : fused", "true ? input * fresh : fused"),
        ("+= load(br, gate * HIDDEN + unit)", "+= load(br, gate * HIDDEN)"),
        ("FIRST ? 0 : total", "true ? 0 : total"),
    ],
    (F32, "lstm", BD): [
        ("KNOWN(cell_before, at, GATES + 2)", "0"),
        ("carry[at] = dc * forget;", "carry[at] = dc;"),
        ("FIRST && !WITH_FINAL ? 0 : KNOWN(carry_behind, at, GATES + 3)", "0.0f"),
    ],
    (F32, "gru", F): [
        ("FIRST ? 0 : KNOWN(before, at, GATES)", "0"),
        ("fused(reset, sums[2], inside[2])", "sums[2] + inside[2]"),
        ("candidate[at] = sums[2];", "candidate[at] = inside[2];"),
    ],
    (F32, "gru", BD): [
        ("(START ? 0 : KNOWN(h_before, at, GATES + 2)) - fresh", "0 - fresh"),
        ("made[2] * reset;", "made[2] + 0 * reset;"),
        ("dh += KNOWN(carry_behind", "dh += 0 * KNOWN(carry_behind"),
    ],
    (F32, "lstm_kept", F): [
        ("early[GATES] = cell_before[", "early[GATES] = 0 * cell_before["),
        (f"load(\n{'':20}x, SKIPS ?", "0 * load(x, SKIPS ?"),
        ("__syncthreads();\n        leave_partials", "leave_partials"),
        ("r, 0, weights_at)", "r, 4, weights_at)"),
    ],
    (F32, "lstm_kept", BD): [
        ("early[GATES + 3] = carry_behind[at]", "early[GATES + 3] = 0"),
        ("FIRST && !WITH_FINAL ? 0", "FIRST ? 0"),
        ("dh += dhy[at];", ";"),
        ("GATES + gate) * HIDDEN + unit] : h", "GATES) * HIDDEN + unit] : h"),
        ("held + column * PITCH + k, PITCH", "held + column * PITCH + k, 1"),
    ],
    (F32, "gru_kept", F): [
        ("early[GATES] = before[", "early[GATES] = 0 * before["),
        ("hold_rows<SAMPLES, HIDDEN, WIDTH>(held", "hold_rows<SAMPLES - 1, HIDDEN, WIDTH>(held"),
        ("first_sample + row < BATCH", "first_sample + row + 1 < BATCH"),
    ],
    (F32, "gru_kept", BD): [
        ("cell_before[at] : h_before[at]", "cell_before[at] : 0"),
        ("cell[at] : candidate[at]", "cell[at] : 1"),
        ("dh += dhy[at];", ";"),
        ("early[0] = dy[at]", "early[0] = 0"),
    ],
    (F32, "tanh_kept", F): [
        ("place += BLOCK", "place += SAMPLES * UNITS"),
        ("(p * SAMPLE_LANES + lane) * PITCH", "(lane * HELD + p) * PITCH"),
        ("slice < SLICES;", "slice + 1 < SLICES;"),
    ],
    (F32, "tanh_kept", BD): [
        ("place += BLOCK", "place += SAMPLES * UNITS"),
        ("unit + column < HIDDEN", "unit + column + 1 < HIDDEN"),
        ("dh += dhy[at];", ";"),
    ],
    (BF16, "leaky", F): [(": SLOPE * x", ": x")],
    (BF16, "padded", F): [("at + k < SIZE ? at + k : at", "at")],
    (BF16, "entropy", F): [("labels[row]", "labels[0]")],
    (BF16, "classes", B): [("at + k < SIZE ? at + k : SIZE - 1, values[k]", "at, values[k]")],
    (BF16, "squares", F): [("base + at", "base * 0 + at")],
    (F32, "halves", F): [("ROW + place % ROW", "ROW + at % ROW")],
    (F32, "halves", BW): [("dy, at + k < SIZE ? at + k :", "dy, at + k < SIZE ? at :")],
    (BF16, "means", F): [("_of(x, at + k < SIZE ? at + k :", "_of(x, at + k < SIZE ? at :")],
}  # fmt: skip


@pytest.mark.parametrize(("dtype", "number"), [*((F32, each) for each in range(5)), (BF16, 0)])
def test_each_mistake_is_seen(tmp_path: Path, builder: Builder, dtype: DType, number: int) -> None:
    mistakes = {
        (layer, direction): texts[number]
        for (of, layer, direction), texts in MISTAKES.items()
        if of == dtype and number < len(texts)
    }
    names = {layer for layer, _ in mistakes}
    for passes, known in (((F, B, BD, BW), PROBLEMS | KEPT), ((F,), FORWARD)):
        problems = {name: each for name, each in known.items() if name in names}
        if problems:
            work = plan(problems, *passes, dtype=dtype)
            own = {place: texts for place, texts in mistakes.items() if place[0] in problems}
            each_is_seen(tmp_path / str(len(passes)), builder, work, own, dtype != F32)


def each_is_seen(
    path: Path,
    builder: Builder,
    work: Workload,
    mistakes: Mapping[tuple[str, Pass], tuple[str, str]],
    optimise: bool,
) -> None:
    texts = render.kernels(work)
    mistaken, writes = {}, {}
    for step in work.steps:
        place = step.layer, step.direction
        if place in mistakes:
            right, by = mistakes[place]
            own = {launch.kernel for launch in step.launches if right in texts[launch.kernel]}
            assert own, f"no kernel of {place} holds {right}"
            mistaken |= {name: texts[name].replace(right, by) for name in own}
            writes[place] = {buffer for _, buffer in step.writes}
    made = make(path, work, builder, sources=mistaken, optimise=optimise)
    done = made.run()
    assert done.returncode == 0, done.stderr
    folder = made.bundle.results("host")
    assert folder is not None
    found = results.collect(made.bundle, made.target, folder)
    inputs = data_file.load(made.bundle.path / "data.h5", work)
    judged = diff(work, inputs, found, None).verdicts
    wrong = {verdict.tensor for verdict in judged if not verdict.passed}
    assert [place for place in mistakes if not writes[place] & wrong] == []
