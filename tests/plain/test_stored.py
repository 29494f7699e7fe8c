"""What a bundle's workload.json may hold, beyond the types of its fields."""

from __future__ import annotations

import copy
import json

import pytest
from census import census
from handmade import BOTH, lowered, lowered_text

from simgen.bundle import stored_workload
from simgen.frontend import fusion, network, problem
from simgen.ground.ir import Pass, to_json
from simgen.ground.storage import schema
from simgen.workload import lowering

CHAIN = "[Activation]\nname=a\nn=2\nc=3\n[Softmax]\nname=s\nprevious_layer=a\n"
TRAINING = (*BOTH, Pass.UPDATE)


def through_text(value):
    return schema.parse(json.dumps(to_json(value)))


REAL = through_text(lowered_text(CHAIN, BOTH))


MAP = {"argument": 0, "nbytes": 4, "shape": [1, 1, 1], "box": [1, 1]}


@census("name", problem.built_in())
def test_what_is_lowered_is_accepted(name):
    made = lowered(name, passes=None if "_" in name else TRAINING)
    assert stored_workload.workload(through_text(made)) == made


def test_what_is_fused_and_what_reuses_memory_is_accepted():
    found = problem.find("vgg16", (), None)
    resolved = network.resolve(found.config, found.settings)
    fused = fusion.fuse(resolved, (Pass.FORWARD,))
    for each, reuse in ((fused, False), (fused, True), (resolved, True)):
        made = lowering.lower(each, "net", (Pass.FORWARD,), 0, reuse_memory=reuse)
        assert stored_workload.workload(through_text(made)) == made


def changed(*changes):
    made = copy.deepcopy(REAL)
    for path, value in changes:
        at = made
        for key in path[:-1]:
            at = at[key]
        at[path[-1]] = value
    return made


@census(
    "path, value, fact",
    [
        (("arena_nbytes",), 2**60, "arena_nbytes: out of range"),
        (("arena_nbytes",), 4096, "outputs_offset: no page of the arena"),
        (("outputs_offset",), 17, "outputs_offset: no page of the arena"),
        (("steps",), [], "steps: there is none"),
        (("seed",), -1, "seed: -1 is out of range"),
        (("buffers", 0, "spec", "shape"), [2**31, 2**31], "shape is out of range"),
        (("buffers", 0, "spec", "shape"), [0], "shape is out of range"),
        (("buffers", 0, "spec", "shape"), [3, 2, 1, 1], "not the tensors of layer a"),
        (("buffers", 0, "offset"), 3, "outside of its part of the arena"),
        (("buffers", 0, "offset"), -4096, "outside of its part of the arena"),
        (("buffers", -1, "offset"), 0, "outside of its part of the arena"),
        (("buffers", 0, "name"), "../x", "'../x' is not a name"),
        (("buffers", 0, "name"), "a.y", "a.y stands twice"),
        (("buffers", 0, "values"), "x", "not a SHA-256"),
        (("nodes", 0, "kind"), "x", "not a layer of this version"),
        (("nodes", 0, "parameters"), [["mode", "x"]], "not a layer of this version"),
        (("nodes", 0, "inputs"), [], "not a layer of this version"),
        (("nodes", 0, "inputs", 0, "shape"), [2**40], "not a layer of this version"),
        (("nodes", 0, "inputs", 0, "shape"), [2, 3, 1, 2], "not the tensors of layer a"),
        (("steps", 0, "layer"), "x", "no node 'x'"),
        (("steps", 0, "writes"), [], "not the tensors of layer a"),
        (("steps", 0, "reads"), [["x", "none"]], "port 'x' has no buffer"),
        (("steps", 0, "launches", 0, "kernel"), "x", "a launch of a kernel"),
        (("steps", 0, "launches", 0, "args"), ["x"], "a launch of a kernel"),
        (("steps", 0, "launches", 0, "offsets"), [0], "without an offset for each"),
        (("steps", 0, "launches", 0, "offsets"), [0, -4], "points out of its buffer"),
        (("steps", 0, "launches", 0, "offsets"), [2**20, 0], "points out of its buffer"),
        (("steps", 0, "launches", 0, "offsets"), [2, 0], "or into a word"),
        (("steps", 0, "launches", 0, "grid"), [0, 1, 1], "no grid of 0 x 1 x 1"),
        (("kernels", 0, "block"), 10**6, "no such work-group"),
        (("kernels", 0, "lds_nbytes"), -1, "no such LDS"),
        (("kernels", 0, "movers"), 128, "no such movers"),  # without maps
        (("kernels", 0, "movers"), -1, "no such movers"),
        (("kernels", 0, "tiles"), -1, "no such tiles"),
        (("kernels", 0, "maps"), [{**MAP, "nbytes": 3}], "no such tensor map"),
        (("kernels", 0, "maps"), [{**MAP, "box": [0, 1]}], "no such tensor map"),
        (("kernels", 0, "maps"), [{**MAP, "argument": 9}], "an argument that there is not"),
        (("kernels", 0, "maps"), [{**MAP, "shape": [1, 1, 2**20]}], "larger than its buffer"),
    ],
)
def test_what_cannot_be_is_told(path, value, fact):
    with pytest.raises(schema.SchemaError) as caught:
        stored_workload.workload(changed((path, value)))
    assert fact in str(caught.value)
    assert str(caught.value).startswith("Workload.")


def test_steps_read_what_is_written_before_them():
    steps = REAL["steps"]
    with pytest.raises(schema.SchemaError, match="reads what nobody has written"):
        stored_workload.workload(changed((("steps",), [steps[1], steps[0], *steps[2:]])))
    with pytest.raises(schema.SchemaError, match="writes what is written already"):
        stored_workload.workload(changed((("steps",), [steps[0], steps[0], *steps[1:]])))
