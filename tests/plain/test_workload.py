"""Lowering: which buffer a port is, where buffers lie, what runs in which order."""

from __future__ import annotations

import pytest
from handmade import BOTH, lowered, lowered_text, small
from hypothesis import given, settings
from hypothesis import strategies as st

from simgen import config, network, problem, workload
from simgen.errors import ConfigError, UnsupportedError
from simgen.ir import GUARD, PAGE, Fill, Kernel, Launch, Pass, Role, Workload

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


def test_an_unsupported_layer_is_named_with_its_line_and_what_is_supported():
    with pytest.raises(UnsupportedError) as caught:
        lowered_text(CHAIN + "[LRN]\nname=norm\nprevious_layer=b\n")
    message = str(caught.value)
    assert message.startswith("net.dnnmark:10: layer 'norm' ([LRN], pass fwd) is not supported yet")
    assert "softmax_fwd" in message
    assert "activation_bwd" in message
    assert message.isprintable()
    assert caught.value.exit_code == 2


# ------------------------------------------------------------------ kernels and launches


@pytest.mark.parametrize("name", problem.built_in())
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
        workload._check_grid(launch, kernel, "net.dnnmark:1")
    else:
        with pytest.raises(ConfigError, match=r"^net\.dnnmark:1: a grid of .* is too large; make"):
            workload._check_grid(launch, kernel, "net.dnnmark:1")


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
    assert roles == sorted(roles, key=[Role.INPUT, Role.OUTPUT].index)
    assert planned.outputs_offset == min(buffer.offset for buffer in planned.outputs)
    assert all(isinstance(buffer.fill, Fill) for buffer in planned.inputs)
    assert all(buffer.fill is None for buffer in planned.outputs)
    assert len({buffer.name for buffer in planned.buffers}) == len(planned.buffers)


@pytest.mark.parametrize("name", problem.built_in())
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
    assert workload.lower(net, "net", BOTH, 0) == workload.lower(net, "net", BOTH, 0)
