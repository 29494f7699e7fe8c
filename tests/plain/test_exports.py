"""Exports, read back by the programs that they are for, where these can be installed."""

from __future__ import annotations

import csv
import os
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import fails
from handmade import BOTH, build, lowered, lowered_text, run_by_hand, small

from simgen.bundle.results import Result
from simgen.errors import UsageError
from simgen.frontend.network import make_layer
from simgen.ground.ir import Pass, Queued
from simgen.ground.storage.files import OvertakenError
from simgen.reports.exports import EXPORTS, base

NET = """
[Convolution]
name=convDP1
n=2
c=4
h=9
w=10
num_output=6
kernel_size=3
pad=1
stride=2
[Convolution]
name=each
previous_layer=convDP1
num_output=6
group=6
kernel_size=2
[Convolution]
name=wide
previous_layer=each
num_output=3
kernel_size_h=1
kernel_size_w=3
stride_h=1
stride_w=2
[Activation]
name=relu
previous_layer=wide
[FullyConnected]
name=fc
previous_layer=relu
num_output=5
"""


def result(workload, **told):
    """Launch n takes n + 1.5 microseconds, and half a microsecond where n is 0."""
    launches = tuple(
        {"seconds": 1e-6 * (at + 1.5) if at else 5e-7, "l1_hits": 3.0}
        for at in range(len(workload.launches))
    )
    return Result("sim", {}, launches, {"gpus": 1, **told})


def written(name, made, path, *, result=None):
    found = base.Exported("net", made, (result,) if result else ())
    return EXPORTS[name].write([found], path)


def table(path):
    return list(csv.DictReader(path.read_text().splitlines()))


def nodes(path):
    """A trace as Chakra's own library reads it."""
    messages = pytest.importorskip("chakra.schema.protobuf.et_def_pb2")
    from chakra.src.third_party.utils.protolib import decodeMessage, openFileRd

    found = []
    with openFileRd(path) as file:
        metadata, node = messages.GlobalMetadata(), messages.Node()
        assert decodeMessage(file, metadata)
        while decodeMessage(file, node):
            found.append(node)
            node = messages.Node()
    return metadata, found, messages


def attributes(node):
    return {each.name: getattr(each, each.WhichOneof("value")) for each in node.attr}


def simulated(found, messages, roofline=None):
    """What ASTRA-sim takes for each node, in ns, by the rules of its Workload.cc; it costs nothing.

    `roofline` is the peak and the bandwidth: a node without operations or bytes costs 2^63 ns or
    nothing, one without the attributes ends it. It waits forever for a node that is not there.
    """
    left, done, took = list(found), set(), {}
    while left:
        ready = [n for n in left if {*n.data_deps, *n.ctrl_deps} <= done]
        assert ready, f"{left[0].name} waits forever"
        for node in ready:
            told = attributes(node)
            took[node.name] = node.duration_micros * 1000
            if node.type == messages.COMM_COLL_NODE:
                assert told["comm_size"] > 0
                took[node.name] = 0  # its network says it
            elif roofline:
                peak, bandwidth = roofline
                assert not told["is_cpu_op"]
                assert told["num_ops"] > 0 < told["tensor_size"], node.name
                rate = min(peak, bandwidth * told["num_ops"] / told["tensor_size"])
                took[node.name] = int(told["num_ops"] / rate * 1e9)
        done |= {node.id for node in ready}
        left = [node for node in left if node.id not in done]
    return took


def moving(passes):
    """Layers that compute nothing beside some that do."""
    text = "[Convolution]\nname=a\nn=2\nc=3\nh=6\nw=6\nnum_output=4\nkernel_size=3\nbias=true\n"
    text += "[Pooling]\nname=b\nprevious_layer=a\npool_mode=max\nkernel_size=2\nstride=2\n"
    text += "[Reshape]\nname=c\nprevious_layer=b\n[Concat]\nname=d\nprevious_layer=c,c\n"
    return lowered_text(text, passes)


@pytest.mark.parametrize("gpus", [1, 2])
@pytest.mark.parametrize(
    "make", [moving, lambda passes: lowered("lenet5", ("n", "4"), passes=passes)]
)
def test_astra_sim_simulates_every_node(tmp_path, make, gpus):
    workload = make((*BOTH, Pass.UPDATE))
    made = build(tmp_path / "net", workload)
    ran = result(workload, gpus=gpus)
    written("chakra", made, tmp_path / "out", result=ran)
    steps = [f"{each.layer} {each.direction}" for each in workload.steps]
    for path in sorted((tmp_path / "out").iterdir()):
        _, found, messages = nodes(path)
        replayed = simulated(found, messages)
        counted = {n.name: 1e9 * attributes(n)["seconds"] for n in found}
        for name in steps:
            assert replayed[name] == pytest.approx(max(counted[name], 1000), abs=500)
        modelled = simulated(found, messages, (1e12, 1e11))
        assert set(modelled) == set(replayed) >= set(steps)
        # By bytes or by operations: the slower of the two.
        told = {n.name: attributes(n) for n in found}
        for name in steps:
            slower = max(told[name]["num_ops"] / 1e12, told[name]["tensor_size"] / 1e11)
            assert modelled[name] == pytest.approx(1e9 * slower, abs=2)
    assert len(list((tmp_path / "out").iterdir())) == gpus


def test_a_chakra_trace_has_the_steps_their_times_and_dependencies(tmp_path):
    workload = lowered("lenet5", ("n", "2"), passes=(*BOTH, Pass.UPDATE))
    made = build(tmp_path / "net", workload)
    lines = written("chakra", made, tmp_path / "out", result=result(workload))
    assert any("1 of" in line and "microsecond" in line for line in lines)
    metadata, found, messages = nodes(tmp_path / "out" / "net.0.et")
    assert metadata.version == "1.0.0"
    assert [n.name for n in found] == [f"{s.layer} {s.direction}" for s in workload.steps]
    assert {n.type for n in found} == {messages.COMP_NODE}
    assert sum(attributes(n)["seconds"] for n in found) == pytest.approx(
        sum(each["seconds"] for each in result(workload).launches)
    )
    assert all(n.duration_micros >= 1 for n in found)
    assert len({n.id for n in found}) == len(found)
    writers = {}
    for node, step in zip(found, workload.steps, strict=True):
        of = workload.node(step.layer)
        work = make_layer(of, workload.machine).count(of.inputs, step.direction)
        told = attributes(node)
        assert told["num_ops"] == max(1, work.flops + work.transcendentals)
        assert told["tensor_size"] == work.read_bytes + work.written_bytes > 0
        assert told["is_cpu_op"] is False
        assert set(node.data_deps) == {writers[b] for _, b in step.reads if b in writers}
        assert list(node.ctrl_deps) == ([node.id - 1] if node.id else [])
        writers |= {name: node.id for _, name in step.writes}
    assert any(len(n.data_deps) > 1 for n in found)


def test_steps_of_several_queues_wait_for_what_their_queue_waits_for(tmp_path):
    workload = lowered("lenet5", ("n", "2"))
    queues = tuple(Queued(at % 2, (at - 1,) if at % 3 == 1 else ()) for at in range(8))
    made = replace(build(tmp_path / "net", workload), workload=replace(workload, queues=queues))
    written("chakra", made, tmp_path / "out", result=result(workload))
    _, found, _ = nodes(tmp_path / "out" / "net.0.et")
    assert [list(n.ctrl_deps) for n in found] == [[], [0], [0], [1], [2, 3], [3], [4], [5, 6]]


def test_gpus_that_share_a_batch_have_a_trace_each_with_all_reduces(tmp_path):
    workload = lowered_text(
        "[FullyConnected]\nname=a\nn=4\nc=8\nnum_output=6\nbias=true\n"
        "[FullyConnected]\nname=b\nprevious_layer=a\nnum_output=3\n",
        (*BOTH, Pass.UPDATE),
    )
    made = build(tmp_path / "net", workload)
    written("chakra", made, tmp_path / "out", result=result(workload, gpus=2))
    paths = sorted((tmp_path / "out").iterdir())
    assert [path.name for path in paths] == ["net.0.et", "net.1.et"]
    _, found, messages = nodes(paths[1])
    collectives = [each for each in found if each.type == messages.COMM_COLL_NODE]
    sizes = {each.name.split()[-1]: attributes(each)["comm_size"] for each in collectives}
    assert sizes == {"b.dw": 4 * 18, "a.dw": 4 * 48, "a.db": 4 * 6}
    assert {attributes(each)["comm_type"] for each in collectives} == {messages.ALL_REDUCE}
    by_id = {each.id: each for each in found}
    updates = [each for each in found if each.name.endswith(" sgd")]
    for update in updates:
        assert {by_id[at].type for at in update.data_deps} == {messages.COMM_COLL_NODE}
    assert len(updates) == len(collectives)
    whole = workload.node("a").inputs[0].nbytes
    first = attributes(found[0])["tensor_size"]
    assert first == (whole + 4 * 24 * 1) // 2 + 4 * (48 + 6)  # half of x and y, all of w and b


# Its reader leaves files to the collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_topology_is_read_by_scale_sim(tmp_path):
    module = pytest.importorskip("scalesim.topology_utils")
    workload = lowered_text(NET, BOTH)
    lines = written("scale-sim", build(tmp_path / "net", workload), tmp_path / "out")
    assert lines[1].endswith("2 convolutions of one image")
    assert lines[-1] == "in gemm.csv only: wide fwd"
    gemm, conv = module.topologies(), module.topologies()
    gemm.load_arrays(str(tmp_path / "out" / "gemm.csv"), mnk_inputs=True)
    gemm.topo_calc_hyperparams()
    macs = {}
    for entry, (*_, count, _) in zip(gemm.topo_arrays, gemm.layers_calculated_hyperparams):
        layer = next(n for n in ("conv", "each", "wide", "fc") if entry[0].startswith(n))
        macs[layer] = macs.get(layer, 0) + count
    for layer, count in macs.items():
        steps = [s for s in workload.steps if s.layer.startswith(layer)]
        for_each = []
        for step in steps:
            of = workload.node(step.layer)
            for_each.append(
                make_layer(of, workload.machine).count(of.inputs, step.direction).flops // 2
            )
        assert count == sum(for_each), layer
    conv.load_arrays(str(tmp_path / "out" / "conv.csv"))
    conv.topo_calc_hyperparams()
    first, *depthwise = zip(conv.topo_arrays, conv.layers_calculated_hyperparams)
    assert first[0][0] == "convdp1"
    _, name = workload.steps[0].writes[0]
    assert tuple(first[1][:2]) == workload.buffer(name).spec.shape[2:]
    assert len(depthwise) == 6, "its reader makes one layer of each channel"
    layouts = pytest.importorskip("scalesim.layout_utils").layouts
    for topology in (gemm, conv):
        layout = layouts()
        name = topology.topo_file_name.replace(".csv", "-layout.csv")
        layout.load_arrays(str(tmp_path / "out" / name))
        assert [row[0] for row in layout.layout_arrays] == [row[0] for row in topology.topo_arrays]
        assert {len(row) for row in layout.layout_arrays} == {21}


def test_operators_have_times_and_shapes_and_tables_of_others_their_columns(tmp_path):
    text = "[FullyConnected]\nname=up\nn=8\nc=16\nnum_output=32\ntype=bf16\n"
    sources = []
    for n in (8, 4):
        workload = lowered_text(text.replace("n=8", f"n={n}"))
        made = build(tmp_path / str(n), workload)
        sources.append(base.Exported(f"net-{n}", made, (result(workload),)))
    out = tmp_path / "out"
    EXPORTS["latency"].write(sources, out)
    rows = table(out / "aiconfigurator" / "gemm_perf.csv")
    assert [(r["gemm_dtype"], r["m"], r["n"], r["k"]) for r in rows] == [
        ("bfloat16", "8", "32", "16"),
        ("bfloat16", "4", "32", "16"),
    ]
    assert float(rows[0]["latency"]) == pytest.approx(
        1e3 * sum(x["seconds"] for x in sources[0].result.launches)
    )
    dense = table(out / "llmservingsim" / "dense.csv")
    assert [(r["layer"], r["tokens"]) for r in dense] == [("up", "4"), ("up", "8")]
    assert float(dense[1]["time_us"]) == pytest.approx(1e3 * float(rows[0]["latency"]))
    first = table(out / "operators.csv")[0]
    assert first["inputs"].startswith("x=8x16x1x1 w=32x16")
    assert int(first["operations"]) == 2 * 8 * 16 * 32
    assert int(first["bytes"]) == 2 * (8 * 16 + 32 * 16 + 8 * 32)  # bf16
    assert float(first["time_us"]) == pytest.approx(1e3 * float(rows[0]["latency"]))
    parquet = pytest.importorskip("pyarrow.parquet")
    read = parquet.read_table(out / "aiconfigurator" / "gemm_perf.parquet")
    assert [str(each) for each in read.schema.types] == ["string"] * 6 + ["int64"] * 3 + ["double"]
    assert read.to_pylist()[1]["m"] == 4


def test_a_product_that_aiconfigurator_has_no_line_for_is_named(tmp_path):
    fc = "[FullyConnected]\nname=up\nn=8\nc=128\nnum_output=32\n"
    texts = {
        "half": f"{fc}type=f16\n",
        "int4": f"{fc}type=f16\nw_type=i4\nw_scale=.01\n",
        "brain": f"{fc}type=bf16\n",
        "float": fc,
        "scaled": "[Gemm]\nname=g\nm=8\nn=32\nk=128\ntype=f16\nalpha=0.5\n",
        "batch": "[Gemm]\nname=g\nm=8\nn=32\nk=128\ntype=f16\nbatch=3\n",
    }
    sources = []
    for name, text in texts.items():
        workload = lowered_text(text)
        made = build(tmp_path / name, workload)
        sources.append(base.Exported(name, made, (result(workload),)))
    said = EXPORTS["latency"].write(sources, tmp_path / "out")
    (row,) = table(tmp_path / "out" / "aiconfigurator" / "gemm_perf.csv")
    alone = sum(x["seconds"] for x in sources[0].result.launches)
    assert float(row["latency"]) == pytest.approx(1e3 * alone)
    for name, layer, why in [
        ("int4", "up", "w_type=i4"), ("float", "up", "f32"), ("batch", "g", "3 matrices"),
        ("brain", "up", "its line is of gemm:m=32,n=8,k=128,ta=1,type=f16"),
        ("scaled", "g", "alpha=0.5 beta=0.0"),
    ]:  # fmt: skip
        assert f"not in gemm_perf: {layer} fwd of {name} ({why})" in said
    (dense,) = [r for r in table(tmp_path / "out/llmservingsim/dense.csv") if r["layer"] == "up"]
    assert float(dense["time_us"]) == pytest.approx(1e6 * alone)
    assert any("dense.csv: up fwd of int4, up fwd of brain" in line for line in said)


def test_a_table_of_products_is_read_by_aiconfigurator(tmp_path):
    core = pytest.importorskip("aiconfigurator_core")
    from aiconfigurator_core.sdk.operations.gemm import GEMM
    from aiconfigurator_core.sdk.perf_database import PerfDatabase

    workload = lowered_text("[FullyConnected]\nname=up\nn=8\nc=16\nnum_output=32\ntype=bf16\n")
    source = base.Exported("net", build(tmp_path / "net", workload), (result(workload),))
    EXPORTS["latency"].write([source], tmp_path / "out")
    # A machine of its own, with its table where docs/files.md says.
    systems = Path(core.__file__).parent / "systems"
    spec = (systems / "h200_sxm.yaml").read_text().replace("data/h200_sxm", "data/simulated")
    folder = tmp_path / "systems/data/simulated/gemm/vllm/0.1"
    folder.mkdir(parents=True)
    (tmp_path / "systems/simulated.yaml").write_text(spec)
    (tmp_path / "out/aiconfigurator/gemm_perf.parquet").rename(folder / "gemm_perf.parquet")
    database = PerfDatabase("simulated", "vllm", "0.1", str(tmp_path / "systems"))
    GEMM.load_data(database)
    ((kind, found),) = database._gemm_data.items()
    assert kind.name == "bfloat16"
    seconds = sum(each["seconds"] for each in source.result.launches)
    assert found[8][32][16]["latency"] == pytest.approx(1e3 * seconds)


DECODER = """[DNNMark]
run_mode=composed
[FullyConnected]
name=mlp_up_proj
n=8
c=16
num_output=64
[Activation]
name=mlp_act
previous_layer=mlp_up_proj
activation_mode=relu
[FullyConnected]
name=mlp_down_proj
previous_layer=mlp_act
num_output=16
"""


def test_layers_with_vidur_s_names_are_its_table_of_a_decoder_layer(tmp_path):
    sources = []
    for n in (8, 4):
        workload = lowered_text(DECODER.replace("n=8", f"n={n}"))
        found = base.Exported(f"b{n}", build(tmp_path / f"b{n}", workload), (result(workload),))
        sources.append(found)
    said = EXPORTS["latency"].write(sources, tmp_path / "none")
    cure = "add --model n_head=N,n_kv_head=N,vocab_size=N"
    assert f"no vidur/mlp.csv: layers do not tell all of the model; {cure}" in said
    export = base.with_model(EXPORTS["latency"], "n_head=4, n_kv_head=2,vocab_size=100")
    said = export.write(sources, tmp_path / "out")
    asked = "attn_pre_proj, attn_rope, attn_post_proj"
    assert f"vidur/mlp.csv: no layers {asked}, which Vidur asks for" in said
    first, second = table(tmp_path / "out" / "vidur" / "mlp.csv")
    assert first == {
        "time_stats.mlp_up_proj.median": "0.0005", "time_stats.mlp_act.median": "0.0025",
        "time_stats.mlp_down_proj.median": "0.0035", "n_head": "4", "n_kv_head": "2",
        "n_embd": "16", "n_expanded_embd": "64", "vocab_size": "100", "use_gated_mlp": "False",
        "num_tokens": "8", "num_tensor_parallel_workers": "1",
    }  # fmt: skip
    assert second["num_tokens"] == "4"
    half = lowered_text(DECODER.replace("n=8", "n=8\ntype=f16", 1))
    sources.append(base.Exported("half", build(tmp_path / "half", half), (result(half),)))
    said = export.write(sources, tmp_path / "three")
    assert "not in mlp.csv: half with 8 tokens (its line is of b8)" in said
    assert table(tmp_path / "three" / "vidur" / "mlp.csv") == [first, second]


@pytest.mark.parametrize(
    ("facts", "name", "words"),
    [
        ("n_heads=4", "latency", "no fact of a model; did you mean 'n_head'?"),
        ("n_head=0", "latency", "--model 'n_head=0': not a number of 1 to 999999999; write"),
        ("n_head", "latency", "not a number"),
        ("n_head=4", "csv", "--as csv has no use for it; leave it out"),
    ],
)
def test_facts_of_a_model_that_are_none_are_refused(facts, name, words):
    with pytest.raises(UsageError) as raised:
        base.with_model(EXPORTS[name], facts)
    assert words in str(raised.value)


@pytest.mark.parametrize(
    ("name", "cure"),
    [
        ("ASTRA-sim", "take --as chakra, which"),
        ("AIConfigurator", "take --as latency, which"),
        ("vidur", "take --as latency, which"),
        ("perfetto", "simgen report writes timeline.json"),
        ("scalesim", "did you mean 'scale-sim'?"),
    ],
)
def test_names_of_tools_lead_to_what_they_read(name, cure):
    with pytest.raises(UsageError, match=re.escape(cure)):
        base.find(name)


def test_what_gpus_added_up_is_a_table_for_vidur(tmp_path):
    workload = lowered("all_reduce_fwd", ("n", "4"), ("c", "100"))
    counted = result(workload, gpus=2)
    more = {"all_reduce_seconds": 2e-6, "all_reduce_bytes": 400.0}
    found = Result("sim", {}, ({**counted.launches[0], **more},), counted.provenance)
    written("latency", build(tmp_path / "net", workload), tmp_path / "out", result=found)
    assert table(tmp_path / "out" / "vidur" / "all_reduce.csv") == [
        {
            "size": "400",
            "num_workers": "2",
            "devices_per_node": "2",
            "collective": "all_reduce",
            "time_stats.all_reduce.median": "0.002",
        }
    ]


def test_a_table_has_every_launch_and_its_metrics(simgen, tmp_path):
    for name in ("one", "two"):
        run_by_hand(build(tmp_path / name, small()))
    assert simgen("export one two --as csv -o out.csv -q").out == ""
    rows = table(tmp_path / "out.csv")
    assert [(r["bundle"], r["result"], r["layer"], r["pass"], r["launch"]) for r in rows] == [
        (name, "cuda", "softmax", "fwd", "0") for name in ("one", "two")
    ]
    assert {r["seconds"] for r in rows} == {"1e-06"}
    parquet = pytest.importorskip("pyarrow.parquet")
    assert simgen("export one two --as parquet -o out.parquet").code == 0
    read = parquet.read_table(tmp_path / "out.parquet")
    assert read.schema.field("seconds").metadata == {b"unit": b"seconds"}
    assert read.column("seconds").to_pylist() == [1e-6, 1e-6]
    assert read.column_names == list(rows[0])


def test_a_table_says_which_launches_stand_for_others_and_what_did_not_run(tmp_path):
    workload = lowered("lenet5", ("n", "2"))
    made = build(tmp_path / "net", workload)
    whole = result(workload, inferred=[[2, 1]])
    launches = ({}, *whole.launches[1:3], {"seconds": float("nan"), "l1_hits": 2.0},
                *whole.launches[4:])  # fmt: skip
    written("csv", made, tmp_path / "out.csv", result=replace(whole, launches=launches))
    rows = table(tmp_path / "out.csv")
    assert [row["launch"] for row in rows] == [str(at) for at in range(1, len(launches))]
    assert [row["inferred"] for row in rows][:4] == ["false", "true", "false", "false"]
    assert [float(row["seconds"]) for row in rows[:2]] == pytest.approx([2.5e-6, 3.5e-6])
    assert rows[2]["seconds"] == ""
    assert rows[2]["l1_hits"] == "2"
    for row, launch in zip(rows, workload.launches[1:], strict=True):
        x, y, z = launch.grid
        assert int(row["work_groups"]) == x * y * z
        assert int(row["work_group_size"]) == workload.kernel(launch.kernel).block


def test_csv_and_parquet_have_the_same_types_and_values(tmp_path):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    workload = lowered("lenet5", ("n", "2"))
    made = build(tmp_path / "net", workload)
    whole = result(workload, inferred=[[2, 1]])
    launches = tuple({**each, "host_seconds": at / 3, "cycles": 3.0 * at}
                     for at, each in enumerate(whole.launches))  # fmt: skip
    sources = [
        base.Exported(name, made, (replace(whole, launches=launches, name=f"{whole.name}@k=2"),))
        for name in ("net@n=2", "net@n=4")
    ]
    EXPORTS["csv"].write(sources, tmp_path / "out.csv")
    EXPORTS["parquet"].write(sources, tmp_path / "out.parquet")
    text, binary = (
        pandas.read_csv(tmp_path / "out.csv"),
        pandas.read_parquet(tmp_path / "out.parquet"),
    )
    pandas.testing.assert_frame_equal(text, binary, check_exact=True)
    kinds = {name: text[name].dtype.kind for name in ("inferred", "n", "cycles", "host_seconds")}
    assert kinds == {"inferred": "b", "n": "i", "cycles": "i", "host_seconds": "f"}


def test_a_table_has_what_follows_from_the_metrics(tmp_path):
    workload = lowered("softmax_fwd")
    made = build(tmp_path / "net", workload)
    counted = {"seconds": 2e-6, "l1_hits": 3.0, "l1_misses": 1.0}
    found = replace(result(workload), launches=(counted,))
    written("csv", made, tmp_path / "out.csv", result=found)
    (row,) = table(tmp_path / "out.csv")
    assert float(row["l1_hit_rate"]) == 0.75
    needs = make_layer(workload.nodes[0], workload.machine).count(
        workload.nodes[0].inputs, Pass.FORWARD
    )
    operations = needs.flops + needs.transcendentals
    assert int(row["operations"]) == operations
    assert float(row["operations_per_second"]) == pytest.approx(operations / 2e-6)


def test_one_launch_is_counted_as_one(tmp_path):
    workload = lowered("softmax_fwd")
    made = build(tmp_path / "net", workload)
    told = written("csv", made, tmp_path / "out.csv", result=result(workload))
    assert told == [f"{tmp_path}/out.csv: 1 launch"]


def test_operations_of_a_table_are_sums_and_functions(tmp_path):
    workload = lowered_text("[Activation]\nn=4\nc=8\nactivation_mode=tanh\n")
    source = base.Exported("net", build(tmp_path / "net", workload), (result(workload),))
    EXPORTS["latency"].write([source], tmp_path / "out")
    (row,) = table(tmp_path / "out" / "operators.csv")
    count = make_layer(workload.nodes[0], workload.machine).count(
        workload.nodes[0].inputs, Pass.FORWARD
    )
    assert count.transcendentals > 0
    assert int(row["operations"]) == count.flops + count.transcendentals


@pytest.mark.parametrize(("name", "file"), [("csv", ""), ("latency", "operators.csv")])
def test_a_base_bundle_has_the_setting_that_a_sweep_of_it_changed(tmp_path, name, file):
    made = build(tmp_path / "net", small())
    given = replace(made, manifest={**made.manifest, "config": {"settings": ["beta=0.5"]}})
    sources = [base.Exported(n, given, (result(small()),)) for n in ("net", "net@beta=0.75")]
    EXPORTS[name].write(sources, tmp_path / "out")
    assert [row["beta"] for row in table(tmp_path / "out" / file)] == ["0.5", "0.75"]


def test_a_suite_has_each_program_once_and_a_folder_of_its_own(tmp_path):
    made = build(tmp_path / "net", small())
    twice = [base.Exported(name, made, ()) for name in ("a b", "a_b")]
    with pytest.raises(UsageError, match="another program is called a_b; rename the folder"):
        EXPORTS["accel-sim"].write(twice, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    with pytest.raises(UsageError, match=r"another program is called define-simgen\.yml"):
        EXPORTS["accel-sim"].write([base.Exported("define-simgen.yml", made, ())], tmp_path / "out")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").touch()
    with pytest.raises(OvertakenError):
        EXPORTS["accel-sim"].write(twice[:1], tmp_path / "out")
    assert (tmp_path / "out" / "mine").exists()


def test_a_suite_is_as_accel_sims_launcher_reads_it(tmp_path):
    yaml = pytest.importorskip("yaml")
    made = build(tmp_path / "a b", small())
    EXPORTS["accel-sim"].write([base.Exported("a b", made, ())], tmp_path / "out")
    (tmp_path / "a b" / "cuda" / "run.sh").write_text('#!/bin/sh\necho "$SIMGEN_REPEATS at $0"\n')
    # As parse_app_definition_yaml and run_hw_trace.py go through it.
    for suite in yaml.safe_load((tmp_path / "out" / "define-simgen.yml").read_text()).values():
        assert Path(suite["data_dirs"]).is_dir()
        ((program, runs),) = suite["execs"][0].items()
        assert runs == [{"args": None, "accel-sim-mem": "4G"}]
        path = os.path.join(suite["exec_dir"], program)
        done = subprocess.run([path], capture_output=True, text=True, check=True)
    assert done.stdout == f"1 at {tmp_path / 'a b' / 'cuda' / 'run.sh'}\n"


def test_exports_are_listed(simgen):
    assert [each["format"] for each in simgen("list exports --json").json()["rows"]] == sorted(
        EXPORTS
    )


def test_what_cannot_be_exported_is_one_line(simgen, tmp_path):
    made = build(tmp_path / "net", small())
    fails(simgen("export net --as charka -o out"), 2, "did you mean 'chakra'?")
    fails(simgen("export net --as chakra -o out"), 2, "nothing has run yet", "simgen run net")
    fails(simgen("export net --as scale-sim -o out"), 2, "no layer is a product or a convolution")
    fails(simgen("export net --as accel-sim --result cuda -o out"), 2, "leave it out")
    fails(simgen("export net net --as scale-sim -o out"), 2, "takes one bundle")
    run_by_hand(made)
    fails(simgen("export net --as chakra --result cude -o out"), 2, "did you mean 'cuda'?")
    fails(simgen("export net --as csv -o net"), 2, "-o net: is a bundle")
    assert not (tmp_path / "out").exists()


def test_a_result_without_times_is_one_line(tmp_path):
    workload = small()
    made = build(tmp_path / "net", workload)
    silent = Result("emu", {}, ({"instructions": 1.0},), {"gpus": 1})
    for name in ("chakra", "latency"):
        with pytest.raises(Exception, match=r"emu counted no times.*--mode timing"):
            written(name, made, tmp_path / "out", result=silent)
    part = lowered_text(NET)
    launches = ({"seconds": 1.0}, *({},) * (len(part.launches) - 1))
    with pytest.raises(Exception, match="has no times of 4 of 5 layers"):
        written(
            "chakra",
            build(tmp_path / "part", part),
            tmp_path / "out",
            result=Result("sim", {}, launches, {}),
        )
