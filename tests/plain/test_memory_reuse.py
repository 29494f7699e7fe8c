"""Memory that is used again after its last reader, and what is judged when tensors are gone."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from handmade import build
from hypothesis import given, settings
from hypothesis import strategies as st

from simgen.bundle import results
from simgen.bundle import writing as bundles
from simgen.errors import UsageError
from simgen.frontend import config, network
from simgen.ground.ir import GUARD, PAGE, Buffer, Pass, Role, TensorSpec, Workload
from simgen.tensors import data_file
from simgen.verdict.diff import diff
from simgen.workload import lowering
from simgen.workload import reference as chain

X = "n=4\nc=6\nh=5\nw=3\n"
LONG = f"[Activation]\nname=l0\n{X}activation_mode=tanh\n" + "".join(
    f"[Activation]\nname=l{at}\nprevious_layer=l{at - 1}\nactivation_mode=tanh\n"
    for at in range(1, 6)
)


def lowered(text: str, passes: tuple[Pass, ...] = (Pass.FORWARD,), reuse: bool = True) -> Workload:
    net = network.resolve(config.parse(text, "net.dnnmark"))
    return lowering.lower(net, "net", passes, 0, reuse_memory=reuse)


def check_places(planned: Workload) -> None:
    """Buffers that any one step touches lie apart, each with its guard; outputs come last."""
    for buffer in planned.buffers:
        assert buffer.offset % PAGE == 0
        assert buffer.offset + buffer.spec.nbytes + GUARD <= planned.arena_nbytes
        assert (buffer.role is Role.OUTPUT) == (buffer.offset >= planned.outputs_offset)
    written_at: dict[str, int] = {}
    read_at: dict[str, int] = {}
    for at, step in enumerate(planned.steps):
        for name in (name for launch in step.launches for name in launch.args):
            written_at.setdefault(name, at)
            read_at[name] = at
    for a, b in itertools.combinations(planned.buffers, 2):
        if Role.SCRATCH is a.role is b.role and not (
            written_at[a.name] <= read_at[b.name] and written_at[b.name] <= read_at[a.name]
        ):
            continue
        first, second = sorted((a, b), key=lambda buffer: buffer.offset)
        assert first.offset + first.spec.nbytes + GUARD <= second.offset, (a.name, b.name)


def test_a_chain_needs_two_places():
    planned = lowered(LONG)
    roles = {buffer.name: buffer.role for buffer in planned.buffers}
    assert roles.pop("l0.x") is Role.INPUT
    assert roles.pop("l5.y") is Role.OUTPUT
    assert set(roles.values()) == {Role.SCRATCH}
    assert len({b.offset for b in planned.buffers if b.role is Role.SCRATCH}) == 2
    check_places(planned)
    assert planned.arena_nbytes == 4 * (PAGE + GUARD)


def test_without_it_every_tensor_is_kept():
    planned = lowered(LONG, reuse=False)
    assert len(planned.outputs) == 6
    assert not chain.reuses_memory(planned)
    assert chain.reuses_memory(lowered(LONG))


def test_a_tensor_lives_until_its_last_reader():
    text = LONG + "[Add]\nname=sum\nprevious_layer=l0,l5\n"
    planned = lowered(text)
    check_places(planned)
    places = [planned.buffer(f"l{at}.y").offset for at in range(6)]
    assert places[0] not in places[1:], "l0.y is read at the end"


@pytest.mark.parametrize("passes", [(Pass.BACKWARD,), (Pass.FORWARD, Pass.BACKWARD)])
def test_a_backward_pass_is_refused(passes):
    with pytest.raises(UsageError, match="leave it out, or build pass fwd alone"):
        lowered(LONG, passes)


LIFE = st.tuples(st.integers(0, 9), st.integers(0, 4), st.integers(1, 5000))


@settings(deadline=None)
@given(st.lists(LIFE, min_size=1, max_size=12))
def test_tensors_that_live_together_lie_apart(lives):
    spans = {f"t{at}": (first, first + more) for at, (first, more, _) in enumerate(lives)}
    buffers = [
        Buffer(f"t{at}", TensorSpec((size,)), Role.SCRATCH, 0)
        for at, (_, _, size) in enumerate(lives)
    ]
    placed, nbytes, outputs_offset = lowering.arena(buffers, spans)
    assert sorted(b.name for b in placed) == sorted(spans)
    assert nbytes == outputs_offset

    def extent(buffer: Buffer) -> int:
        return -(-buffer.spec.nbytes // PAGE) * PAGE + GUARD

    for a, b in itertools.combinations(placed, 2):
        (a_first, a_last), (b_first, b_last) = spans[a.name], spans[b.name]
        if a_first <= b_last and b_first <= a_last:
            assert a.offset + extent(a) <= b.offset or b.offset + extent(b) <= a.offset
    alive = [sum(extent(b) for b in placed if spans[b.name][0] <= at <= spans[b.name][1])
             for at in range(14)]  # fmt: skip
    assert max(alive) <= nbytes <= sum(extent(b) for b in placed)


# ------------------------------------------------------------------ what is judged


@pytest.fixture(name="made")
def reusing_bundle(tmp_path):
    return build(tmp_path / "net", lowered(LONG))


def outcome(made, change=1.0, noise=0.0):
    """A result whose last tensor is the reference's in float32, with an error of one kind."""
    inputs = data_file.load(made.path / bundles.DATA, made.workload)
    values = chain.expected(made.workload, inputs)["l5.y"][0]
    moved = values * (1 + noise * np.where(np.arange(values.size).reshape(values.shape) % 2, 1, -1))
    moved.flat[7] *= change
    output = results.Output(moved.astype(np.float32), 0, True)
    launches = tuple({} for _ in made.workload.launches)
    provenance = {"data": data_file.data_id(made.workload).hex()}
    return inputs, results.Result("by hand", {"l5.y": output}, launches, provenance)


def test_a_right_result_passes_and_only_the_last_tensor_is_judged(made):
    inputs, result = outcome(made)
    found = diff(made.workload, inputs, result, None)
    assert [verdict.tensor for verdict in found.verdicts] == ["l5.y"]
    assert found.passed
    assert diff(made.workload, inputs, result, result).passed


@pytest.mark.parametrize(("change", "noise"), [(1.0001, 0.0), (-1.0, 0.0), (1.0, 3e-5)])
def test_a_wrong_result_fails(made, change, noise):
    inputs, result = outcome(made, change, noise)
    assert not diff(made.workload, inputs, result, None).passed


def test_the_bound_covers_the_float32_roundings_of_all_layers(made):
    """Each layer computed in float64 and rounded to float32: what a good machine does."""
    inputs = data_file.load(made.path / bundles.DATA, made.workload)
    rounded = chain.run(
        made.workload, inputs,
        lambda layer, step, read, written: {
            port: values.astype(np.float32).astype(np.float64) for port, values in written.items()
        },
    )  # fmt: skip
    (last,) = [found["l5.y"] for step, found in rounded if step.layer == "l5"]
    reference, bound = chain.expected(made.workload, inputs)["l5.y"]
    assert (np.abs(last - reference) <= bound).all()
    assert bound.max() < 1e-4


def test_a_build_leaves_the_last_tensors(simgen, tmp_path):
    done = simgen("build classifier --reuse-memory --target cuda")
    assert done.code == 0
    assert "--reuse-memory" in done.out
    made = bundles.load(tmp_path / "classifier")
    assert [buffer.name for buffer in made.workload.outputs] == ["probability.y"]


def test_the_passes_of_a_layer_have_workspaces_of_their_own():
    """im2col writes its windows in the forward pass and again in the backward pass."""
    text = f"[Convolution]\nname=c\n{X}kernel_size=3\npad=1\nalgo=im2col\n"
    planned = lowered(text, (Pass.FORWARD, Pass.BACKWARD), reuse=False)
    names = [b.name for b in planned.buffers if b.role is Role.SCRATCH]
    assert {"c.windows_fwd", "c.windows_bwd_weight"} <= set(names)
