"""Lowering: which buffer a port is, where buffers lie, what runs in which order."""

from __future__ import annotations

import re

import numpy as np
import pytest
from census import census
from handmade import BOTH, lowered, lowered_text, small
from hypothesis import given, settings
from hypothesis import strategies as st

from simgen.errors import ConfigError, UnsupportedError
from simgen.frontend import config, descent, network, problem
from simgen.ground.ir import GUARD, PAGE, Fill, Kernel, Launch, Pass, Role, TensorSpec, Workload
from simgen.tensors.random_values import generate
from simgen.workload import lowering

X = "n=2\nc=3\nh=4\nw=5\n"
CHAIN = f"[Activation]\nname=a\n{X}[LAST]\nname=b\nprevious_layer=a\n".replace("LAST", "Softmax")
FORWARD, BACKWARD = BOTH


def steps(planned: Workload) -> list[tuple[str, str, dict[str, str], dict[str, str]]]:
    return [(s.layer, str(s.direction), dict(s.reads), dict(s.writes)) for s in planned.steps]


def names(planned: Workload, role: Role) -> list[str]:
    return [buffer.name for buffer in planned.buffers if buffer.role is role]


# ------------------------------------------------------------------ ports become buffers


def test_a_single_layer_reads_x_and_writes_y():
    assert steps(small()) == [("softmax", "fwd", {"x": "softmax.x"}, {"y": "softmax.y"})]


def test_a_layer_s_x_is_the_y_of_the_one_before():
    assert steps(lowered_text(CHAIN)) == [
        ("a", "fwd", {"x": "a.x"}, {"y": "a.y"}),
        ("b", "fwd", {"x": "a.y"}, {"y": "b.y"}),
    ]


def test_backward_alone_runs_in_reverse_and_reads_y_from_the_data_file():
    planned = lowered_text(CHAIN, [BACKWARD])
    assert steps(planned) == [
        ("b", "bwd", {"y": "b.y", "dy": "b.dy"}, {"dx": "a.dy"}),
        ("a", "bwd", {"y": "a.y", "dy": "a.dy"}, {"dx": "a.dx"}),
    ]
    assert sorted(names(planned, Role.INPUT)) == ["a.y", "b.dy", "b.y"]
    assert names(planned, Role.OUTPUT) == ["a.dy", "a.dx"]


def test_forward_and_backward_share_the_y_of_the_forward_pass():
    planned = lowered_text(CHAIN, BOTH)
    assert [(layer, direction) for layer, direction, _, _ in steps(planned)] == [
        ("a", "fwd"), ("b", "fwd"), ("b", "bwd"), ("a", "bwd"),
    ]  # fmt: skip
    assert dict(planned.steps[2].reads)["y"] == "b.y"
    assert dict(planned.steps[3].reads)["y"] == "a.y"
    assert names(planned, Role.INPUT) == ["a.x", "b.dy"]
    assert names(planned, Role.OUTPUT) == ["a.y", "b.y", "a.dy", "a.dx"]


@pytest.mark.parametrize("given", [BOTH, BOTH[::-1], (BACKWARD, FORWARD, BACKWARD)])
def test_the_order_of_the_passes_is_not_the_user_s(given):
    assert lowered_text(CHAIN, given) == lowered_text(CHAIN, BOTH)


def test_standalone_layers_do_not_share_anything():
    text = f"[DNNMark]\nrun_mode=standalone\n[Softmax]\nname=s\n{X}[Activation]\nname=a\n{X}"
    assert [reads for _, _, reads, _ in steps(lowered_text(text))] == [{"x": "s.x"}, {"x": "a.x"}]


def test_two_layers_may_read_one_output():
    text = CHAIN + "[Activation]\nname=c\nprevious_layer=a\n"
    assert [reads["x"] for _, _, reads, _ in steps(lowered_text(text))] == ["a.x", "a.y", "a.y"]


def test_a_pass_that_a_layer_lacks_is_named_with_its_line_and_those_that_it_has():
    with pytest.raises(UnsupportedError) as caught:
        lowered_text(CHAIN + "[SGD]\nname=step\nprevious_layer=b\n", BOTH)
    message = str(caught.value)
    assert message == (
        "net.dnnmark:10: layer 'step': [SGD] has no pass bwd; "
        "leave it out, or choose of its own: fwd"
    )
    assert message.isprintable()
    assert caught.value.exit_code == 2


# ------------------------------------------------------------------ several inputs and readers

FORK = CHAIN + "[Activation]\nname=c\nactivation_mode=tanh\nprevious_layer=a\n"


def test_gradients_of_a_branch_are_summed_before_the_layer_that_it_leaves():
    planned = lowered_text(FORK, BOTH)
    assert steps(planned)[3:] == [
        ("c", "bwd", {"y": "c.y", "dy": "c.dy"}, {"dx": "c.dx"}),
        ("b", "bwd", {"y": "b.y", "dy": "b.dy"}, {"dx": "b.dx"}),
        ("a_grad", "fwd", {"x0": "c.dx", "x1": "b.dx"}, {"y": "a.dy"}),
        ("a", "bwd", {"y": "a.y", "dy": "a.dy"}, {"dx": "a.dx"}),
    ]
    node = planned.node("a_grad")
    assert (node.kind, node.inputs) == ("add", (TensorSpec((2, 3, 4, 5)),) * 2)


def test_a_chain_has_no_sums():
    assert {node.kind for node in lowered_text(CHAIN, BOTH).nodes} == {"activation", "softmax"}


def test_a_synthetic_layer_takes_no_name_of_the_config_s():
    text = FORK.replace("name=c\n", "name=a_grad\n")
    planned = lowered_text(text, BOTH)
    assert [name for name, *_ in steps(planned)[3:]] == ["a_grad", "b", "a_grad_", "a"]
    assert len({node.name for node in planned.nodes}) == len(planned.nodes)


def test_inputs_of_a_join_are_the_layers_in_the_order_of_previous_layer():
    planned = lowered_text(FORK + "[Add]\nname=sum\nprevious_layer=c, b\n", BOTH)
    found = {
        (layer, direction): (reads, writes) for layer, direction, reads, writes in steps(planned)
    }
    assert found["sum", "fwd"] == ({"x0": "c.y", "x1": "b.y"}, {"y": "sum.y"})
    assert found["sum", "bwd"] == ({"dy": "sum.dy"}, {"dx0": "c.dy", "dx1": "b.dy"})
    assert found["a_grad", "fwd"] == ({"x0": "c.dx", "x1": "b.dx"}, {"y": "a.dy"})


def test_a_join_may_read_one_layer_twice():
    planned = lowered_text(CHAIN + "[Add]\nname=twice\nprevious_layer=b,b\n", BOTH)
    found = {
        (layer, direction): (reads, writes) for layer, direction, reads, writes in steps(planned)
    }
    assert found["twice", "fwd"][0] == {"x0": "b.y", "x1": "b.y"}
    assert found["twice", "bwd"][1] == {"dx0": "twice.dx0", "dx1": "twice.dx1"}
    assert found["b_grad", "fwd"] == ({"x0": "twice.dx0", "x1": "twice.dx1"}, {"y": "b.dy"})


def test_a_join_by_itself_has_all_its_inputs_in_the_data_file():
    planned = lowered_text(f"[Concat]\nname=j\ninputs=3\n{X}")
    assert names(planned, Role.INPUT) == ["j.x0", "j.x1", "j.x2"]
    assert planned.buffer("j.y").spec.shape == (2, 9, 4, 5)


@pytest.mark.parametrize(
    ("join", "fact"),
    [
        ("[Add]\nname=j\nprevious_layer=a,wide", "x0 is 2 x 3 x 4 x 5, but x1 is 2 x 7 x 4 x 5"),
        ("[Concat]\nname=j\nprevious_layer=a,low", "x0 is 2 x 3 x 4 x 5, but x1 is 2 x 3 x 2 x 5"),
        ("[Add]\nname=j\nprevious_layer=a", "[Add] has one input; name two or more"),
        (
            "[Concat]\nname=j\nprevious_layer=" + ",".join("a" * 17),
            "names 17, but [Concat] takes 16",
        ),
    ],
)
def test_inputs_that_do_not_fit_together_are_refused(join, fact):
    wide, low = X.replace("c=3", "c=7"), X.replace("h=4", "h=2")
    text = CHAIN + f"[Bypass]\nname=wide\n{wide}[Bypass]\nname=low\n{low}{join}\n"
    with pytest.raises(ConfigError, match=re.escape(fact)):
        lowered_text(text)


BLOCK = f"""[Bypass]
name=stem
{X}[BatchNorm]
name=norm
batchnorm_mode=spatial
epsilon=0.125
previous_layer=stem
[Activation]
name=act
activation_mode=sigmoid
previous_layer=norm
[Concat]
name=wide
previous_layer=act,stem,norm
[Dropout]
name=drop
previous_layer=wide
[Softmax]
name=soft
previous_layer=norm
[Add]
name=sum
previous_layer=soft,stem,act
"""


def run(planned: Workload, tensors: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """All tensors after all steps, in float64."""
    tensors = dict(tensors)
    for step in planned.steps:
        layer = network.make_layer(planned.node(step.layer), planned.machine)
        given = {port: tensors[name] for port, name in step.reads}
        given |= {
            port: np.broadcast_to(np.nan, planned.buffer(name).spec.shape)
            for port, name in step.writes
            if port in layer.shape_given
        }
        made = layer.reference(given, step.direction)
        tensors |= {name: made[port] for port, name in step.writes}
    return tensors


def test_the_backward_pass_of_a_network_of_branches_is_its_derivative():
    planned = lowered_text(BLOCK, BOTH)
    inputs = {
        b.name: generate(b.name, b.spec, b.fill, 5).astype(np.float64).reshape(b.spec.shape)
        for b in planned.inputs
    }
    ends = ("drop", "sum")
    assert {f"{end}.dy" for end in ends} <= set(inputs)

    def loss(name: str, at: int, step: float) -> float:
        moved = inputs[name].copy()
        moved.reshape(-1)[at] += step
        found = run(planned, inputs | {name: moved})
        return sum(float((found[f"{end}.y"] * found[f"{end}.dy"]).sum()) for end in ends)

    made = run(planned, inputs)
    for name, gradient in (("stem.x", "stem.dx"), ("norm.w", "norm.dw"), ("norm.b", "norm.db")):
        size, step = inputs[name].size, 1e-5
        slopes = [loss(name, at, step) - loss(name, at, -step) for at in range(size)]
        wanted = np.array(slopes).reshape(inputs[name].shape) / (2 * step)
        np.testing.assert_allclose(made[gradient], wanted, rtol=1e-7, atol=1e-7)


# ------------------------------------------------------------------ updates of parameters


def test_pass_sgd_updates_each_parameter_from_its_gradient():
    text = f"[BatchNorm]\nname=n\n{X}"
    planned = lowered_text(text, (Pass.UPDATE, *BOTH))
    assert steps(planned)[2:] == [
        ("n_w_sgd", "sgd", {"x": "n.w", "dx": "n.dw"}, {"y": "n.new_w"}),
        ("n_b_sgd", "sgd", {"x": "n.b", "dx": "n.db"}, {"y": "n.new_b"}),
    ]
    assert planned.buffer("n.new_w").spec == planned.buffer("n.w").spec
    assert planned.steps[2].launches[0].kernel == planned.steps[3].launches[0].kernel


def test_the_learning_rate_is_that_of_all_updates():
    net = network.resolve(config.parse(f"[BatchNorm]\nname=n\n{X}", "net.dnnmark"))
    planned = lowering.lower(
        net, "net", (*BOTH, Pass.UPDATE), 0, descent=descent.parse_descent("sgd", 0.25)
    )
    assert [planned.node(f"n_{port}_sgd").parameters for port in "wb"] == [(("rate", "0.25"),)] * 2
    rng = np.random.default_rng(1)
    tensors = {b.name: rng.standard_normal(b.spec.shape) for b in planned.inputs}
    made = run(planned, tensors)
    for port in "wb":
        after = tensors[f"n.{port}"] - 0.25 * made[f"n.d{port}"]
        np.testing.assert_array_equal(made[f"n.new_{port}"], after)


@pytest.mark.parametrize("given", [(FORWARD, Pass.UPDATE)])
def test_pass_sgd_needs_gradients(given):
    with pytest.raises(ConfigError, match=r"updates n\.w from its gradient; add pass bwd"):
        lowered_text(f"[BatchNorm]\nname=n\n{X}", given)


def test_layers_without_parameters_have_no_updates():
    assert lowered_text(CHAIN, (*BOTH, Pass.UPDATE)).steps == lowered_text(CHAIN, BOTH).steps


# ------------------------------------------------------------------ workspaces


def test_workspaces_are_in_memory_but_no_results():
    text = "[BatchNorm]\nname=n\nn=2\nc=3\nh=64\nw=64\nbatchnorm_mode=spatial\n"
    planned = lowered_text(text, BOTH)
    parts = names(planned, Role.SCRATCH)
    assert parts == ["n.part_mean_fwd", "n.part_squares_fwd", "n.part_db_bwd", "n.part_dot_bwd"]
    check_memory(planned)
    tied = {name for s in planned.steps for _, name in (*s.reads, *s.writes)}
    assert not tied & set(parts)
    assert set(parts) < {name for launch in planned.launches for name in launch.args}


# ------------------------------------------------------------------ kernels and launches


@census("name", problem.built_in())
def test_every_argument_is_a_buffer_and_every_kernel_is_launched(name):
    planned = lowered(name)
    known = {buffer.name for buffer in planned.buffers}
    assert all(set(launch.args) <= known for launch in planned.launches)
    assert {launch.kernel for launch in planned.launches} == {k.name for k in planned.kernels}
    for step in planned.steps:
        touched = {arg for launch in step.launches for arg in launch.args}
        bound = {buffer for _, buffer in (*step.reads, *step.writes)}
        assert bound <= touched
    for launch in planned.launches:
        assert min(launch.grid) >= 1


def test_equal_layers_share_one_kernel():
    text = f"[Activation]\nname=a\n{X}[Activation]\nname=b\n{X}"
    planned = lowered_text(text)
    assert len(planned.kernels) == 1
    assert [launch.args for launch in planned.launches] == [("a.x", "a.y"), ("b.x", "b.y")]


def test_different_layers_have_different_kernels():
    text = f"[Activation]\nname=a\n{X}[Activation]\nname=b\nactivation_mode=tanh\n{X}"
    assert len(lowered_text(text).kernels) == 2


@pytest.mark.parametrize(
    ("block", "grid", "fits"),
    [
        (256, (2**24 - 1, 1, 1), True),
        (256, (2**24, 1, 1), False),  # 2**32 work-items
        (64, (2**24, 0xFFFF, 0xFFFF), True),
        (64, (1, 0x10000, 1), False),
        (64, (1, 1, 0x10000), False),
    ],
)
def test_a_launch_must_fit_a_dispatch_packet(block, grid, fits):
    launch, kernel = Launch("k", grid, ()), Kernel("k", "t", block)
    if fits:
        lowering._check_grid(launch, kernel, "net.dnnmark:1")
    else:
        with pytest.raises(ConfigError, match=r"^net\.dnnmark:1: a grid of .* is too large; make"):
            lowering._check_grid(launch, kernel, "net.dnnmark:1")


# ------------------------------------------------------------------ memory


def check_memory(planned: Workload) -> None:
    """Page-aligned, disjoint with a guard after each, inputs first, all inside the arena."""
    at = 0
    for buffer in planned.buffers:
        assert buffer.offset % PAGE == 0
        assert buffer.offset >= at
        at = buffer.offset + buffer.spec.nbytes + GUARD
    assert at <= planned.arena_nbytes
    assert planned.arena_nbytes % PAGE == 0
    roles = [buffer.role for buffer in planned.buffers]
    assert roles == sorted(roles, key=[Role.INPUT, Role.SCRATCH, Role.OUTPUT].index)
    assert planned.outputs_offset == min(buffer.offset for buffer in planned.outputs)
    assert all(isinstance(buffer.fill, Fill) for buffer in planned.inputs)
    assert all(buffer.fill is None for buffer in planned.outputs)
    assert len({buffer.name for buffer in planned.buffers}) == len(planned.buffers)


@census("name", problem.built_in())
def test_built_in_workloads_are_well_laid_out(name):
    check_memory(lowered(name))


EXTENT = st.sampled_from([1, 2, 3, 5, 31, 32, 33, 1024])
LAYER = st.tuples(
    st.sampled_from(["Softmax", "Activation"]), st.tuples(EXTENT, EXTENT, EXTENT), st.booleans()
)


@settings(deadline=None)
@given(st.lists(LAYER, min_size=1, max_size=5), st.sampled_from([(FORWARD,), (BACKWARD,), BOTH]))
def test_every_workload_is_well_laid_out(layers, passes):
    text = ""
    for at, (section, (n, c, h), chained) in enumerate(layers):
        shape = f"n={n}\nc={c}\nh={h}\nw=1\n"
        text += f"[{section}]\nname=l{at}\n"
        text += f"previous_layer=l{at - 1}\n" if chained and at else shape
    planned = lowered_text(text, passes)
    check_memory(planned)
    assert len(planned.steps) == len(layers) * len(passes)
    written: set[str] = set()
    for step in planned.steps:
        for _, name in step.reads:
            assert name in written or planned.buffer(name).role is Role.INPUT
        written |= {name for _, name in step.writes}


def test_seed_and_name_are_kept_and_nothing_else_depends_on_them():
    one, other = small(seed=1), small(seed=2)
    assert (one.seed, other.seed) == (1, 2)
    assert (one.buffers, one.kernels, one.steps) == (other.buffers, other.kernels, other.steps)


def test_lookups_by_name():
    planned = small()
    assert planned.buffer("softmax.x").name == "softmax.x"
    assert planned.kernel(planned.kernels[0].name) is planned.kernels[0]
    assert planned.node("softmax") is planned.nodes[0]


def test_the_pass_is_taken_from_the_name_of_a_built_in():
    assert problem.find("softmax_bwd", (), None).passes == (Pass.BACKWARD,)
    with pytest.raises(Exception, match="softmax_bwd is pass bwd already; leave --pass out"):
        problem.find("softmax_bwd", (), [FORWARD])


def test_lowering_is_pure():
    net = network.resolve(config.parse(CHAIN, "net.dnnmark"))
    assert lowering.lower(net, "net", BOTH, 0) == lowering.lower(net, "net", BOTH, 0)
