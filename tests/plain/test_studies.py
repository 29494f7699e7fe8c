"""Studies: that their cases can be planned, what their figures show, and what is refused."""

from __future__ import annotations

import csv
import io
from dataclasses import replace

import pytest
from census import census
from command_line import fails

from simgen.cli import studying
from simgen.errors import LossError, MissingError, RefusedError, UsageError
from simgen.frontend.network import make_layer
from simgen.ground import metrics
from simgen.reports.pages import correlation
from simgen.reports.pages.row import Row
from simgen.reports.studies import (
    STUDIES,
    definition,
    drawing,
    explaining,
    machines,
    measuring,
    operating_points,
    reporting,
    statements,
)
from simgen.reports.studies.definition import OF_PLAN, Case, Draws, Figure
from simgen.reports.studies.machines import PLACES
from simgen.reports.studies.measuring import Measured, Scope, StudyListener, StudyPoint

ICPE = STUDIES["icpe18"]
SCOPE = Scope(("mgpusim",), (1, 4), reduced=True)
SLOW, FAST = PLACES["mgpusim"]
CASE = Case("net", "lenet5", (("conv1.n", "{n}"),), "fwd,bwd")


def test_the_three_studies_have_the_figures_of_their_publications():
    numbers = {name: [each.number for each in study.figures] for name, study in STUDIES.items()}
    of_paper = [f"Figure {n}" for n in range(9, 13)]
    assert numbers["dnnmark"] == ["Table 3", *of_paper, "Conclusions"]
    figures = [*range(6, 15), "15a", "15b", "16a", "16b", 17]
    assert numbers["icpe18"] == [
        "Table 1", *(f"Figure {n}" for n in figures), "L1 bypass", "Kernel fusion",
    ]  # fmt: skip


# nvprof's metrics (CUDA 8, Profiler User's Guide), per multiprocessor, in our counts.
NVPROF = {
    "figure-9": ("instructions / cu_active_cycles",),  # ipc
    "figure-10": ("wavefront_cycles / wavefront_slot_cycles",),  # achieved_occupancy
    "figure-11": ("ready_cycles / cu_active_cycles",),  # eligible_warps_per_cycle
}


def test_figures_of_dnnmark_are_the_paper_s_quantities():
    study = STUDIES["dnnmark"]
    for figure in study.figures:
        for name, formula in zip(figure.metrics, NVPROF.get(figure.name, ()), strict=False):
            assert metrics.METRICS[name].formula == formula
    utilized = ("l1", "lds", "l2", "dram", "alu", "ldst")
    (last,) = (each for each in study.figures if each.name == "figure-12")
    assert last.metrics == tuple(f"{unit}_utilization" for unit in utilized)


# As DNNMark's configs of November 2016 have them (config_example at 4bb6aa5).
TABLE_3 = {
    "conv": ((100, 3, 256, 256), (100, 32, 256, 256)),
    "pool": ((100, 3, 256, 256), (100, 3, 128, 128)),
    "lrn": ((100, 32, 256, 256), (100, 32, 256, 256)),
    "activation": ((100, 32, 256, 256), (100, 32, 256, 256)),
    "fc": ((100, 9162, 1, 1), (100, 4096, 1, 1)),
    "softmax": ((100, 1000, 1, 1), (100, 1000, 1, 1)),
}


def test_the_primitives_have_the_sizes_of_the_paper():
    study = STUDIES["dnnmark"]
    assert study.batches == (100,)
    scope = Scope(("mgpusim",), study.batches)
    found = {
        each.case.name.removesuffix("_fwd"): each.workload
        for each in measuring.planned(study, scope)
        if each.case.name.endswith("_fwd")
    }
    assert found.keys() == TABLE_3.keys()
    for kind, workload in found.items():
        node = workload.nodes[0]
        y = make_layer(node, workload.machine).output(node.inputs)
        shapes = (node.inputs[0].shape, y.shape)
        padded = [(*shape, 1, 1)[:4] for shape in shapes]
        assert tuple(padded) == TABLE_3[kind], kind


@pytest.mark.parametrize("study", STUDIES.values(), ids=str)
def test_figures_show_metrics_that_a_target_can_give(study):
    names = [each.name for each in study.figures]
    assert len(set(names)) == len(names)
    for figure in study.figures:
        shown = explaining.of_figure(figure)
        assert set(shown) <= metrics.METRICS.keys()
        assert shown or figure.draws in OF_PLAN
        for target in ("gem5-se", "mgpusim"):
            given = explaining.explanations(study, [target])
            had = [e.name for e in given if e.on[target] != explaining.NOT_THERE]
            assert set(shown) & set(had) or figure.draws in OF_PLAN


@census("reduced", [True, False])
@census("case", [case for study in STUDIES.values() for case in study.cases])
def test_every_case_is_a_workload_of_the_batch_that_is_asked_for(case, reduced):
    scope = replace(SCOPE, reduced=reduced)
    made = [measuring._plan(case, n, scope, measuring.BASE, ()).network for n in (1, 3)]
    batches = [{spec.shape[0] for spec in each.layers[0].node.inputs} for each in made]
    assert batches == [{1}, {3}]


def test_settings_of_a_case_stand_before_the_study_s():
    case = Case("one", "fc_fwd", (("n", "{n}"),), reduced=(("c", "8"),))
    given = (("c", "5"), ("one:num_output", "2"), ("other:num_output", "9"))
    found = dict(definition.settings_of(case, 4, given, reduced=True))
    assert found == {"n": "4", "c": "5", "num_output": "2"}


def test_memory_against_sizes_is_the_sum_of_its_kinds():
    study = replace(STUDIES["workloads"], cases=STUDIES["workloads"].cases[:1])
    scope = replace(SCOPE, batches=(1, 2))
    planned = measuring.planned(study, scope)
    figures = {each.name: each for each in study.figures}
    lines = {
        name: drawing.draw(figures[name], [], planned, scope).lines
        for name in ("memory", "sizes", "extents")
    }
    kinds = sum(line[-1] for line in lines["memory"])
    found = {line[3]: line[-1] for line in lines["sizes"]}
    assert found[2] == kinds
    # Activations and their gradients double with the batch, parameters do not.
    assert found[1] < found[2] < 2 * found[1]
    usual, *larger = (line[-1] for line in lines["extents"])
    assert usual == found[1] < min(larger)


def test_images_and_sentences_grow_by_a_factor():
    case = Case("one", "vgg16", (("n", "{n}"), ("words.shape", "{n}x20")),
                extents=("h", "words.shape"), settings=(("h", "32"),))  # fmt: skip
    found = dict(definition.settings_of(case, 4, (), reduced=False, factor=1.5))
    assert found == {"n": "4", "h": "48", "words.shape": "4x30"}


def row(layer: str, way: str, seconds: float, **counts: float) -> Row:
    return Row(
        "b", "net", "m", layer, way, "f32", "mgpusim", 100, 50, {"seconds": seconds, **counts},
        {"line_bytes": 64.0, "peak_l1_rate": 64.0}, "convolution",
    )  # fmt: skip


def measured(place, batch: int, factor: float, variant: str = "") -> Measured:
    rows = (
        row("conv1", "fwd", 2 * factor, f32_fma_operations=640.0, l1_hits=3.0, l1_misses=1.0),
        row("conv1", "bwd", 6 * factor, f32_fma_operations=320.0, f32_add_operations=5.0),
    )
    return Measured(StudyPoint(CASE, batch, place, variant), rows)


def drawn(draws: Draws, *found: Measured, **more):
    figure = Figure("f", "Figure", "t", "s", draws, **more)
    made = drawing.draw(figure, found, [], SCOPE)
    lines = list(csv.DictReader(io.StringIO(made.csv)))
    return made, {(x["batch"], x["place"], x["quantity"]): float(x["value"]) for x in lines}


def test_a_speed_up_is_the_time_of_a_by_that_of_b():
    runs = [measured(SLOW, 4, 3.0), measured(FAST, 4, 1.5), measured(SLOW, 1, 1.0)]
    made, values = drawn(Draws.SPEED_UP, *runs, metrics=("seconds",))
    assert values == {("4", place, "speed_up"): 2.0 for place in ("conv1 fwd", "conv1 bwd", "all")}
    assert len(made.pictures) == 1
    assert "+100.0 %" in made.notes[0]


def test_batches_are_set_side_by_side_on_the_machine_of_the_figure():
    runs = [measured(SLOW, 1, 1.0), measured(SLOW, 4, 3.0), measured(FAST, 4, 9.0)]
    _, values = drawn(Draws.BATCHES, *runs, metrics=("seconds",))
    assert values[("1", "conv1 fwd", "seconds")] == 2.0
    assert values[("4", "conv1 bwd", "seconds")] == 18.0
    assert len(values) == 4
    _, values = drawn(Draws.BATCHES, *runs, metrics=("seconds",), machine="B")
    assert values == {("4", "conv1 fwd", "seconds"): 18.0, ("4", "conv1 bwd", "seconds"): 54.0}


def test_layers_have_what_was_counted_and_what_follows():
    made, values = drawn(
        Draws.LAYERS, measured(SLOW, 4, 1.0), metrics=("l1_hit_rate", "l1_bytes_per_second")
    )
    assert values[("4", "conv1 fwd", "l1_hit_rate")] == 0.75
    assert values[("4", "conv1 fwd", "l1_bytes_per_second")] == 4 * 64 / 2.0
    assert len(values) == 2  # the backward pass was not counted
    assert len(made.pictures) == 2  # one for each unit


def test_a_case_is_the_sum_over_its_layers():
    _, values = drawn(Draws.CASES, measured(SLOW, 4, 1.0), metrics=("operations_per_second",))
    assert values == {("4", "all", "operations_per_second"): 200 / 8.0}


def test_parts_and_types_and_phases():
    _, values = drawn(Draws.PARTS, measured(SLOW, 4, 1.0), part="floats")
    assert values[("4", "conv1 bwd", "f32_add_operations")] == 5.0
    _, values = drawn(Draws.TYPES, measured(SLOW, 4, 1.0), metrics=("seconds",))
    assert values == {("4", "convolution", "time_of_type"): 8.0}
    _, values = drawn(Draws.PHASES, measured(SLOW, 4, 1.0), metrics=("seconds",))
    assert values == {
        ("4", "forward", "time_of_phase"): 2.0, ("4", "backward", "time_of_phase"): 6.0,
    }  # fmt: skip


def test_a_figure_shows_its_passes_and_places():
    _, values = drawn(Draws.LAYERS, measured(SLOW, 4, 1.0), metrics=("seconds",), direction="bwd")
    assert values == {("4", "conv1 bwd", "seconds"): 6.0}
    more = {"metrics": ("seconds",), "places": ("conv1 fwd",)}
    _, values = drawn(Draws.LAYERS, measured(SLOW, 4, 1.0), **more)
    assert values == {("4", "conv1 fwd", "seconds"): 2.0}


def test_two_machines_stand_in_one_picture_or_follow_each_other():
    runs = [measured(SLOW, 4, 1.0), measured(FAST, 4, 0.5)]
    made, _ = drawn(Draws.MACHINES, *runs, metrics=("seconds",), machine="AB")
    assert len(made.pictures) == 1
    assert [line[1] for line in made.lines] == ["A", "A", "B", "B"]
    assert list(made.pictures[0][1].shown.series) == [
        f"{place.machine}: {place.title}" for place in (SLOW, FAST)
    ]
    made, _ = drawn(Draws.LAYERS, *runs, metrics=("seconds",), machine="AB")
    assert [caption for caption, _ in made.pictures] == [
        f"{place.title}, batch 4" for place in (SLOW, FAST)
    ]


def test_the_kernel_of_most_time_stands_beside_all():
    longest = ("conv1_bwd", {"seconds": 6.0, "instructions": 30.0, "cu_active_cycles": 100.0})
    made, values = drawn(
        Draws.KERNELS,
        replace(measured(SLOW, 4, 1.0), longest=longest),
        metrics=("unit_instructions_per_cycle",),
    )
    assert values == {("4", "conv1_bwd", "unit_instructions_per_cycle"): 0.3}
    assert made.cells[1] == ("net", "mgpusim", "conv1_bwd", "75%", "0.3")


@pytest.mark.parametrize(
    ("over", "under", "relation", "bound", "verdict", "value"),
    [
        ("conv", "", ">", 0.7, statements.HOLDS, 0.75),  # 6 of 8 seconds
        ("conv", "", "<", 0.7, statements.NOT, 0.75),
        ("conv", "", "~", 0.4, statements.HOLDS, 0.75),
        ("conv", "", "about", 0.51, statements.HOLDS, 0.75),
        ("conv", "", "about", 0.49, statements.NOT, 0.75),
        ("conv", "", "=", 0.75, statements.HOLDS, 0.75),
        ("fc", "", ">", 0.1, statements.UNSAID, None),
    ],
)
def test_a_sentence_is_read_from_a_figure(over, under, relation, bound, verdict, value):
    figure = Figure("f", "Figure", "t", "s", Draws.LAYERS, ("seconds",))
    made = drawing.draw(figure, [measured(SLOW, 4, 1.0)], [], SCOPE)
    read = definition.Read("f", "seconds", f"^{over}1 bwd")
    told = definition.Sentence("x", "p", read, replace(read, places=under), relation, bound)
    study = replace(ICPE, figures=(figure,), statements=(told,))
    (judged,) = statements.judge(study, [made], SCOPE)
    assert (judged.verdict, judged.value) == (verdict, value)
    factor = {"about": "within a factor of 1.5 of", "~": "within a factor of 2 of"}.get(relation)
    assert judged.cells[5] == f"{factor or relation} {bound:g}"


def test_every_sentence_is_read_from_a_figure_of_its_study():
    for study in STUDIES.values():
        names = {each.name for each in study.figures}
        for each in study.statements:
            reads = [read for read in (each.over, each.under) if read]
            assert {read.figure for read in reads} <= names
            assert reads or each.unsaid


def test_primitives_take_much_computing_or_much_data():
    """By hand: 2 x 5 x 5 x 3 x 32 operations for 3 + 32 floats of a pixel; 2 x 100 x 9162 x 4096
    for the weights, inputs and results of FC; 8 comparisons of 3 x 3 for each of 128 x 128."""
    study, scope = STUDIES["dnnmark"], Scope(("mgpusim",), (100,))
    planned = measuring.planned(study, scope)
    drawn = [drawing.draw(each, [], planned, scope) for each in study.figures]
    found = [each for each in statements.judge(study, drawn, scope) if each.target == "plan"]
    by_hand = (
        4800 / 140,
        2 * 100 * 9162 * 4096 / 4 / (9162 * 4096 + 100 * (9162 + 4096)),
        8 * 128**2 / 4 / (256**2 + 128**2),
    )
    assert [each.value for each in found] == pytest.approx(by_hand, rel=0.01)
    assert {each.verdict for each in found} == {statements.HOLDS}
    k40 = 15 * 192 * 2 * 745e6 / 288e9
    assert [each.statement.bound for each in found] == pytest.approx([k40] * 3, rel=0.001)


def test_the_host_gives_rates_of_operations_alone_for_the_figure_of_counters():
    figure = next(each for each in definition.find("workloads").figures if each.name == "counters")
    given = {*figure.metrics} - {*drawing._lacking(figure, "host")}
    assert given == {"operations_per_second"}
    assert figure.title.endswith("operations per second")


def test_what_limits_a_primitive_is_drawn_with_its_numbers():
    """1e9 bytes of a DRAM of 4e9 bytes per second take a quarter of a second, of 0.4."""
    found = row("conv1", "fwd", 0.4)
    rows = (replace(found, operations=0, bytes=10**9, roof=(1e12, 4e9)),)
    made, values = drawn(
        Draws.LIMITS, Measured(StudyPoint(CASE, 4, SLOW, ""), rows), metrics=("occupancy",)
    )
    assert values[("4", "conv1 fwd", "bandwidth")] == 0.625
    assert made.cells[1][:3] == ("conv1 fwd", "mgpusim", "bandwidth 62%")


def test_fusion_is_of_the_whole_pass():
    runs = [measured(SLOW, 4, 1.0, "fwd"), measured(SLOW, 4, 0.5, "fused"), measured(SLOW, 4, 9.0)]
    _, values = drawn(Draws.FUSION, *runs, metrics=("seconds",))
    assert values[("4", "forward pass", "speed_up")] == 2.0


def test_a_layer_gets_the_slowest_clock_that_costs_it_little():
    words = ("500MHz", "1GHz", "1.5GHz")
    scope = replace(SCOPE, clocks=words)
    clocks = [p for p in measuring.points(ICPE, scope) if p.options]
    assert [p.options for p in clocks] == [(("gpu_clock", word),) for word in words]
    # One bundle for all clocks, and machine A alone.
    assert {(p.bundle, p.place.machine) for p in clocks} == {("alexnet-n4-mgpusim-gfx803", "A")}
    assert [scope.options(p)["gpu_clock"] for p in clocks] == list(words)
    other = measuring.points(STUDIES["dnnmark"], replace(scope, set_machine="B"))
    assert {p.place.machine for p in other if p.options} == {"B"}
    assert {p.place.machine for p in other if not p.options} == {"A"}

    # Memory holds up the first layer, the second takes as many cycles at any clock.
    seconds = {"500MHz": (1.04, 3.0), "1GHz": (1.01, 1.5), "1.5GHz": (1.0, 1.0)}
    runs = []
    for word, (bound, busy) in seconds.items():
        rows = (row("conv1", "fwd", bound), row("fc1", "fwd", busy))
        name = operating_points.variant(operating_points.CLOCKS, word)
        runs.append(Measured(StudyPoint(CASE, 4, SLOW, name), rows))
    made = drawing.draw(operating_points.CLOCKS.figure, runs, [], scope)
    found = {x["place"]: float(x["value"]) for x in csv.DictReader(io.StringIO(made.csv))
             if x["quantity"] == "least within 5%"}  # fmt: skip
    assert found == {"conv1 fwd": 500e6, "fc1 fwd": 1500e6}
    # 2.04 of 2 seconds; 0.52 and 1.5 of 3 thousand million cycles.
    assert made.notes == [
        "mgpusim, net: each layer at its own, against all at 1.5GHz: time +2.0%, cycles of the "
        "clock -32.7%"
    ]
    assert made.cells[1] == ("mgpusim conv1 fwd", "1.04 s", "1.01 s", "1 s", "500MHz")


def test_efficiency_is_the_time_of_one_gpu_by_that_of_n_and_n():
    scope = replace(SCOPE, gpus=("1", "2", "4"))
    points = [p for p in measuring.points(ICPE, scope) if p.options and p.case.name == "alexnet"]
    assert [p.options for p in points] == [(("gpus", n),) for n in (1, 2, 4)]
    # Two GPUs halve it; with four, layers take as long as with two, and all-reduces come to it.
    runs = []
    for word, seconds, reduced in (("1", 8.0, 0.0), ("2", 4.0, 0.0), ("4", 2.5, 1.5)):
        name = operating_points.variant(operating_points.GPUS, word)
        rows = (row("conv1", "fwd", seconds, all_reduce_seconds=reduced),)
        runs.append(Measured(StudyPoint(CASE, 4, SLOW, name), rows))
    made = drawing.draw(operating_points.GPUS.figure, runs, [], scope)
    found = {line[4]: line[-1] for line in made.lines if line[5] == "efficiency"}
    assert found == {"1 GPU": 1.0, "2 GPUs": 1.0, "4 GPUs": 0.5}
    assert [cells[-1] for cells in made.cells] == ["what keeps it low", "", "", "all-reduces"]
    with pytest.raises(UsageError, match="does not divide the batch of 4"):
        operating_points.parse_settings(operating_points.GPUS, ["1", "3"], ["mgpusim"], 4)


@pytest.mark.parametrize(
    ("draws", "more", "why"),
    [
        (
            Draws.LAYERS,
            {"metrics": ("control_utilization",)},
            "does not count what it takes: contr",
        ),
        (Draws.SPEED_UP, {"metrics": ("seconds",)}, "a speed-up takes two"),
        (Draws.BYPASS, {"metrics": ("seconds",)}, "as it does the others"),
        (Draws.BATCHES, {"metrics": ("seconds",), "machine": "B"}, "does not count"),
    ],
)
def test_what_a_target_cannot_give_is_said(draws, more, why):
    made, values = drawn(draws, measured(SLOW, 4, 1.0), **more)
    assert not values
    assert not made.pictures
    if more.get("machine") != "B":
        assert why in made.notes[0]


def test_a_target_without_results_says_so():
    made, _ = drawn(Draws.LAYERS, metrics=("seconds",))
    assert made.notes == ["mgpusim has no results"]


def test_points_are_all_that_the_figures_need():
    scope = Scope(("gem5-se",), (1, 4))
    found = [(p.batch, p.place.machine, p.variant) for p in measuring.points(ICPE, scope)]
    assert found == [
        (1, "A", ""), (4, "A", ""), (4, "A", "bypass"), (4, "A", "fwd"), (4, "A", "fused"),
        (1, "B", ""), (4, "B", ""),
    ]  # fmt: skip
    assert {p.place.machine for p in measuring.points(STUDIES["workloads"], scope)} == {"A"}
    assert not any(p.variant == "bypass" for p in measuring.points(ICPE, SCOPE))


def test_two_gpus_of_other_machines_are_a_and_b():
    scope = Scope(("cuda",), (1,), elsewhere=("cuda=old", "cuda=new"))
    places = [p.place for p in measuring.points(ICPE, scope) if not p.variant]
    assert [(each.machine, each.where) for each in places] == [
        ("A", "cuda-old"), ("B", "cuda-new"),
    ]  # fmt: skip
    assert len({each.bundle for each in places}) == 2
    usual = Scope(("cuda",), (1,), elsewhere=("cuda",))
    assert {p.place.machine for p in measuring.points(ICPE, usual)} == {"A"}


def test_gpgpusim_has_the_families_of_the_paper_s_gpus():
    """Kepler and Pascal: compute capabilities 3.5 and 6.1."""
    found = [each.made().simulated.arch for each in PLACES["gpgpusim"]]
    assert found == ["sm_35", "sm_61"]


def test_formulas_are_of_what_a_target_counts():
    counted = {"l2_hits", "l2_misses", "cycles"}
    assert metrics.expressed("l2_hit_rate", counted) == "1 - l2_misses / (l2_hits + l2_misses)"
    assert metrics.expressed("l2_accesses", {*counted, "l2_mshr_hits"}) == (
        "l2_hits + l2_mshr_hits + l2_misses"
    )
    assert metrics.expressed("dram_bytes", counted) is None
    assert metrics.terms("l2_hits * line_bytes / (cycles * peak_l2_rate)") == ["l2_hits", "cycles"]


# ------------------------------------------------------------------ refusals


@pytest.mark.parametrize("error", [RefusedError("x: too big; less"), LossError("x: lost; -o")])
def test_a_refused_run_is_named_and_a_clash_ends_the_study(tmp_path, monkeypatch, error):
    def refuse(*_, **__):
        raise error

    monkeypatch.setattr(measuring.Plan, "write", refuse)
    scope = replace(SCOPE, batches=(1,))
    run = (STUDIES["workloads"], scope, tmp_path, StudyListener())
    if isinstance(error, LossError):
        with pytest.raises(UsageError, match="of a study with other settings"):
            measuring.measure(*run)
    else:
        done = measuring.measure(*run)
        assert not done.measured
        assert set(done.failed.values()) == {"x: too big; less"}
        assert len(done.failed) == len(measuring.points(run[0], scope))


@census(
    "words, code, fact",
    [
        ("study icpe17 -o out", 2, "icpe18"),
        ("study icpe18 -o out --targets mgpusin", 2, "mgpusim"),
        ("study icpe18 -o out --targets host --batch 16,x", 2, "write them like 16,64,128"),
        ("study icpe18 -o out --targets host --batch ,", 2, "write them like 16,64,128"),
        ("study icpe18 -o out --targets host --set conv1.m=2", 2, "conv1"),
        ("study icpe18 -o out --targets host --set conv1", 2, "KEY=VALUE"),
        ("study dnnmark -o out --targets host", 2, "counts nothing that figures of dnnmark show"),
        ("study icpe18 -o out --targets host --set n=4", 2, "give --batch"),
        ("study icpe18 -o out --targets host --set alexne:conv1.c=4", 2, "no such case"),
        ("study icpe18 -o out --targets hip", 3, "/dev/kfd"),
        ("study icpe18 -o out --targets host --clocks 1GHz,2GHz", 3, "not simgen's to set"),
        ("study icpe18 -o out --targets host --gpus 1,2", 3, "one GPU here"),
        (
            "study icpe18 -o out --elsewhere mgpusim --gpus 1,2 --batch 1",
            2,
            "give --batch a multiple of",
        ),
        ("study icpe18 -o out --targets host --units 1,2", 3, "no mask of compute units"),
        ("study icpe18 -o out --targets mgpusim --machine B", 2, "--clocks, --units"),
        ("study icpe18 -o out --elsewhere cudo", 2, "cuda"),
        ("study icpe18 -o out --elsewhere cuda=a", 2, "write two"),
        ("study icpe18 -o out --elsewhere cuda=a,cuda", 2, "write two"),
        ("study icpe18 -o out --elsewhere cuda=a,cuda=b,cuda=c", 2, "write two"),
        ("study icpe18 -o out --elsewhere cuda=a,cuda=/", 2, "not a name"),
        ("study icpe18 -o out --elsewhere mgpusim=a,mgpusim=b", 2, "A and B already"),
        ("study icpe18", 2, "--output"),
    ],
)
def test_wrong_words_are_one_line(simgen, tmp_path, words, code, fact):
    fails(simgen(words), code, fact)
    assert not (tmp_path / "out").exists()


def test_a_study_that_no_target_can_run_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr(machines, "DEFAULT", ("hip",))
    with pytest.raises(MissingError, match=r"no target can run here: hip: there is no /dev/kfd"):
        machines.chosen([], tmp_path)


def test_a_name_that_is_a_file_is_refused(simgen, tmp_path):
    (tmp_path / "out").write_text("x")
    fails(simgen("study icpe18 -o out --targets host"), 2, "out")


def test_find_names_what_was_meant():
    with pytest.raises(UsageError, match="dnnmark"):
        definition.find("dnmark")


@pytest.mark.parametrize(
    ("targets", "said"),
    [
        (("mgpusim", "gem5-se"), "no GPU took part, so nothing says how right mgpusim and gem5-se"),
        (("mgpusim",), "nothing says how right mgpusim is: add"),
        (("cuda", "mgpusim"), "compared with"),
        (("host",), "host: its times are this computer's"),
    ],
)
def test_simulators_are_compared_with_a_gpu_alone(tmp_path, capsys, targets, said):
    """Times of this computer's CPU are no measure of a GPU's."""
    seconds = {"cuda": [1.0, 2.0, 3.0, 4.0], "mgpusim": [2.0, 4.1, 6.0, 30.0]}
    points = {
        target: {
            ("net", f"l{at}"): {"seconds": value}
            for at, value in enumerate(seconds.get(target, [1.0] * 4))
        }
        for target in (*targets, "host")
    }
    found = tuple(
        each for each in correlation.correlations_of(points) if correlation.is_of_gpu(each)
    )
    made = reporting.Made(tmp_path / "study.html", (), {}, {}, 0, found)
    studying._agreement(made, targets)
    out = capsys.readouterr().out
    assert said in out
    assert len(found) == ("cuda" in targets)
    assert ("l3" in out) == ("cuda" in targets)  # the outlier


@pytest.mark.parametrize(
    ("axis", "words", "fact"),
    [
        (operating_points.CLOCKS, ["1GHz", "2kHz"], "write it like 1.5GHz"),
        (operating_points.CLOCKS, ["1GHz", "1000MHz"], "takes two or more"),
        (operating_points.CLOCKS, [], "takes two or more"),
        (operating_points.UNITS, ["0", "1"], "1 or more"),
    ],
)
def test_settings_that_are_none_are_refused(axis, words, fact):
    with pytest.raises(UsageError, match=fact):
        operating_points.parse_settings(axis, words, ["host", "mgpusim"])
    assert operating_points.parse_settings(operating_points.UNITS, ["16", "4"], ["mgpusim"]) == (
        "4",
        "16",
    )
