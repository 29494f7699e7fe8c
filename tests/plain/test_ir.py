"""The values between the stages, and their JSON."""

from __future__ import annotations

import copy
import json

import pytest
from census import census
from handmade import BOTH, lowered, lowered_text
from hypothesis import given
from hypothesis import strategies as st

from simgen.frontend import problem
from simgen.ground.ir import (
    Buffer,
    Distribution,
    DType,
    Fill,
    Kernel,
    Launch,
    Node,
    OpCount,
    Pass,
    Role,
    Step,
    TensorSpec,
    Workload,
    from_json,
    to_json,
)

TEXT = st.text(max_size=8)
COUNTS = st.integers(0, 2**63)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
SPECS = st.builds(
    TensorSpec, st.lists(COUNTS, max_size=4).map(tuple), st.sampled_from(list(DType.table.values()))
)
FILLS = st.builds(
    Fill,
    st.sampled_from(Distribution),
    FLOATS,
    FLOATS,
    st.none() | FLOATS,
    st.none() | FLOATS,
)
PAIRS = st.lists(st.tuples(TEXT, TEXT), max_size=3).map(tuple)
CONSTANTS = st.lists(st.tuples(TEXT, st.integers(-(2**64), 2**64) | FLOATS | TEXT), max_size=3).map(
    tuple
)
LAUNCHES = st.builds(
    Launch, TEXT, st.tuples(COUNTS, COUNTS, COUNTS), st.lists(TEXT, max_size=3).map(tuple)
)


def several(strategy):
    return st.lists(strategy, max_size=2).map(tuple)


WORKLOADS = st.builds(
    Workload,
    name=TEXT,
    seed=COUNTS,
    nodes=several(st.builds(Node, TEXT, TEXT, PAIRS, several(SPECS))),
    buffers=several(
        st.builds(Buffer, TEXT, SPECS, st.sampled_from(Role), COUNTS, st.none() | FILLS)
    ),
    kernels=several(st.builds(Kernel, TEXT, TEXT, COUNTS, CONSTANTS)),
    steps=several(st.builds(Step, TEXT, st.sampled_from(Pass), PAIRS, PAIRS, several(LAUNCHES))),
    arena_nbytes=COUNTS,
    outputs_offset=COUNTS,
)
CHAIN = "[Activation]\nname=a\nn=2\nc=3\n[Softmax]\nname=s\nprevious_layer=a\n"


def through_text(value):
    return json.loads(json.dumps(to_json(value)))


@given(WORKLOADS)
def test_from_json_is_the_inverse_of_to_json(workload):
    back = from_json(Workload, through_text(workload))
    assert back == workload
    assert json.dumps(to_json(back)) == json.dumps(to_json(workload))


@census("name", problem.built_in())
def test_every_built_in_workload_survives_its_json(name):
    workload = lowered(name)
    assert from_json(Workload, through_text(workload)) == workload


def test_types_survive_not_only_values():
    kernel = Kernel("k", "t", 64, (("whole", 1), ("real", 1.0), ("word", "1")))
    back = from_json(Kernel, through_text(kernel))
    assert [type(value) for _, value in back.constants] == [int, float, str]
    buffer = Buffer("a.x", TensorSpec((1,)), Role.INPUT, 0, Fill(Distribution.NORMAL, 0, 1))
    back = from_json(Buffer, through_text(buffer))
    assert isinstance(back.role, Role)
    assert isinstance(back.spec.dtype, DType)
    assert isinstance(back.spec.shape, tuple)
    assert isinstance(back.fill.a, float)


def places(value, path=()):
    """Paths of all values in a JSON tree."""
    yield path
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(item, (*path, key))


REAL = through_text(lowered_text(CHAIN, BOTH))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
) | st.just(10**400)


def put(tree, path, value):
    """`tree` with `value` at `path`."""
    if not path:
        return value
    tree = copy.deepcopy(tree)
    at = tree
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return tree


@given(st.sampled_from(list(places(REAL))), JSON)
def test_wrong_json_raises_value_error_and_nothing_else(path, value):
    try:
        workload = from_json(Workload, put(REAL, path, value))
    except ValueError:
        return
    assert isinstance(workload, Workload)  # the value fits at that place


@given(JSON)
def test_any_json_is_a_workload_or_a_value_error(value):
    with pytest.raises(ValueError, match=r"."):
        from_json(Workload, value)


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (("seed",), "0", r"Workload.seed: expected int, got '0'"),
        (("seed",), True, r"Workload.seed: expected int"),
        (("nodes",), {}, r"Workload.nodes: expected a list"),
        (("nodes", 0), {"name": "a"}, r"Workload.nodes\[0\]: expected the fields name, kind"),
        (("steps", 0, "direction"), "up", "'up' is not a valid Pass"),
        (("steps", 0, "direction"), [], "not a valid Pass"),
        (("steps", 0, "launches", 0, "grid"), [1, 1], "expected 3 items, got 2"),
        (("buffers", 0, "fill", "a"), 10**400, "buffers"),
        (("kernels", 0, "constants", 0), ["x", None], "unexpected None"),
    ],
)
def test_the_message_says_where_it_is_wrong(path, value, words):
    with pytest.raises(ValueError, match=words):
        from_json(Workload, put(REAL, path, value))


def test_a_field_too_many_or_too_few_is_refused():
    with pytest.raises(ValueError, match="expected the fields"):
        from_json(Workload, {**REAL, "more": 1})
    with pytest.raises(ValueError, match="expected the fields"):
        from_json(Workload, {k: v for k, v in REAL.items() if k != "seed"})


def test_operation_counts_add_up():
    assert OpCount(1, 2, 3, 4) + OpCount(10, 20, 30, 40) == OpCount(11, 22, 33, 44)


def test_sizes_are_elements_and_bytes():
    spec = TensorSpec((2, 3, 4, 5))
    assert (spec.size, spec.nbytes) == (120, 480)
    assert TensorSpec((7,), DType.I32).nbytes == 28
