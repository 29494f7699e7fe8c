"""state.bin: what finished steps leave."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from handmade import lowered, lowered_text, small
from hypothesis import given
from hypothesis import strategies as st

from simgen.errors import DamagedError
from simgen.ground.ir import GUARD, PAGE, DType
from simgen.tensors import state_file
from simgen.tensors.state_file import Mark

ID = bytes(range(32))
NET = (
    "[Bypass]\nname=a\nn=2\nc=3\n"
    "[Activation]\nname=b\nprevious_layer=a\n"
    "[Softmax]\nname=c\nprevious_layer=b\n"
)
WORKLOAD = lowered_text(NET)


def tensors(workload):
    generator = np.random.default_rng(0)
    return {
        each.name: generator.random(workload.buffer(each.name).spec.shape, np.float32)
        for each in workload.left
    }


@given(marks=st.lists(st.sampled_from(Mark), min_size=3, max_size=3))
def test_what_is_written_is_read(marks, tmp_path_factory):
    path = tmp_path_factory.mktemp("state") / state_file.FILE
    values = tensors(WORKLOAD)
    state_file.write(path, WORKLOAD, ID, marks, values)
    assert state_file.read_marks(path, WORKLOAD, ID) == marks
    assert state_file.finished(path, WORKLOAD) == marks.count(Mark.FINISHED)
    content = path.read_bytes()
    assert len(content) <= state_file.nbytes(WORKLOAD)
    for each in WORKLOAD.left:
        at = state_file.head_nbytes(WORKLOAD) + each.offset - WORKLOAD.state_offset
        found = content[at : at + each.nbytes]
        expected = (
            values[each.name].tobytes() + np.full(GUARD // 4, DType.F32.canary, "<u4").tobytes()
        )
        assert (found == expected) is (marks[each.step] in (Mark.GIVEN, Mark.FILLED))
    state_file.mark(path, [Mark.TO_RUN] * 3)
    assert state_file.read_marks(path, WORKLOAD, ID) == [Mark.TO_RUN] * 3
    assert path.read_bytes()[state_file.MARKS + 3 :] == content[state_file.MARKS + 3 :]


def test_what_is_no_state_of_this_run_is_refused(tmp_path):
    path = tmp_path / state_file.FILE
    with pytest.raises(DamagedError, match="run it without --resume"):
        state_file.read_marks(path, WORKLOAD, ID)
    state_file.write(path, WORKLOAD, ID, [Mark.TO_RUN] * 3, {})
    with pytest.raises(DamagedError, match="not the state of a run of this bundle"):
        state_file.read_marks(path, WORKLOAD, ID[::-1])
    good = path.read_bytes()
    for bad in (
        b"",
        good[: state_file.MARKS + 2],
        b"x" + good[1:],
        good[:64] + b"\x07" + good[65:],
    ):
        path.write_bytes(bad)
        with pytest.raises(DamagedError, match="not the state"):
            state_file.read_marks(path, WORKLOAD, ID)


def test_nothing_is_left_by_a_workload_of_one_step():
    assert small().left == ()
    assert small().state_offset == small().outputs_offset


def test_each_output_is_left_by_the_step_that_writes_it():
    workload = lowered("lenet5")
    assert [each.name for each in workload.left] == [
        name for step in workload.steps for _, name in step.writes
    ]
    assert {each.name for each in workload.left} == {b.name for b in workload.outputs}
    assert all(each.offset % PAGE == 0 for each in workload.left)
    assert workload.state_offset == workload.outputs_offset


def test_the_head_has_room_for_all_marks():
    steps = WORKLOAD.steps * 1400
    assert state_file.head_nbytes(WORKLOAD) == PAGE
    many = replace(WORKLOAD, steps=steps)
    assert state_file.head_nbytes(many) == 2 * PAGE
