"""Recurrent weights that stay in local memory: which steps are planned so, and what is refused."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest
from handmade import lowered, lowered_text

import simgen
from simgen.errors import RefusedError, SimgenError
from simgen.ground import resources
from simgen.ground.ir import Pass

if TYPE_CHECKING:
    from pathlib import Path

SHAPE = {"shape": "9x16x1024"}


def kept(plan_for: str, dtype: str = "f32", **settings: str) -> list[bool]:
    made = simgen.plan("recurrent_fwd", set=SHAPE | settings, type=dtype, plan_for=plan_for)
    return [k.chained for k in made.workload.kernels if k.template == "recurrent_step.hip"]


def test_weights_stay_where_a_launch_has_many_steps() -> None:
    assert kept("h200", "f16") == [False, True]  # the first step multiplies nothing
    assert kept("h200", "f16", algo="steps") == [False, False]
    assert kept("h200", "f16", hidden_size="4096") == [False, False]  # 128 MiB
    assert kept("h200") == [False, True]
    assert kept("h200", algo="steps") == [False, False]
    assert kept("h200", hidden_size="2048") == [False, False]  # 64 MiB
    assert kept("mgpusim-mi300a", hidden_size="128") == [False, False]
    assert kept("mgpusim-mi300a", hidden_size="128", algo="persistent") == [False, True]


def test_there_is_no_more_than_one_work_group_for_a_unit() -> None:
    for machine, hidden in (("h200", "1024"), ("mgpusim-mi300a", "256"), ("gem5-gfx902", "40")):
        made = simgen.plan(
            "recurrent_fwd",
            set={**SHAPE, "hidden_size": hidden, "algo": "persistent"},
            plan_for=machine,
        ).workload
        (name,) = (kernel.name for kernel in made.kernels if kernel.chained)
        grids = {launch.grid for launch in made.launches if launch.kernel == name}
        assert all(x * y <= made.machine.units for x, y, _ in grids)
        room = max(made.machine.asked_lds_nbytes, made.machine.group_lds_nbytes)
        assert made.kernel(name).lds_nbytes <= room


def test_weights_that_do_not_fit_are_refused() -> None:
    with pytest.raises(SimgenError, match="does not hold 16777216 bytes of recurrent weights"):
        kept("gem5-gfx902", algo="persistent")


def test_a_machine_with_less_local_memory_refuses_the_kernel(tmp_path: Path) -> None:
    made = simgen.plan("recurrent_fwd", set=SHAPE | {"algo": "persistent"}, plan_for="h200")
    with pytest.raises(RefusedError, match="bytes of LDS, and gem5-gfx902 has 65536; build with"):
        made.build(tmp_path / "bundle", "gem5-se")


def test_launches_that_may_be_one_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """The launcher of NVIDIA's GPUs joins launches whose arguments go on evenly."""
    run = launcher(monkeypatch)
    settings = {**SHAPE, "initial_state": "true"}
    made = simgen.plan("recurrent_fwd", set=settings, type="f16", plan_for="h200").workload
    buffers = {b.name: {"offset": b.offset} for b in made.buffers}
    steps = [
        {"kernel": launch.kernel, "grid": list(launch.grid), "places": launch.places}
        for launch in made.launches
        if made.kernel(launch.kernel).chained
    ]
    addresses = [[buffers[name]["offset"] + at for name, at in each["places"]] for each in steps]
    first, _ = run.chain(steps, addresses, 0)
    count, strides = run.chain(steps, addresses, 1)
    assert len(steps) == 9
    assert first == 2  # from h0 to y, once; further steps go on otherwise
    assert count == 8
    assert (addresses[1] + 7 * strides == addresses[8]).all()


def launcher(monkeypatch: pytest.MonkeyPatch) -> Any:
    """cuda_run.py without CuPy."""
    fakes: dict[str, Any] = {name: ModuleType(name) for name in ("cupy", "cupy.cuda")}
    fakes["cupy.cuda"].nvrtc = fakes["cupy"].cuda = fakes["cupy.cuda"]
    fakes["cupy"].RawKernel = fakes["cupy"].ndarray = object
    for name, module in fakes.items():
        monkeypatch.setitem(sys.modules, name, module)
    made = ModuleType("cuda_run")
    path = resources.folder("templates") / "launchers" / "cuda_run.py"
    made.__file__ = str(path)
    exec(compile(path.read_text(), path, "exec"), made.__dict__)
    return made


NET = "[Recurrent]\nname=a\nshape=3x2x4\nfinal_state=true\n[Recurrent]\nname=b\n"


def test_final_states_go_to_other_layers_and_have_gradients() -> None:
    other = NET + "previous_layer=a,a.hy,a.cy\ninitial_state=true\n"
    planned = lowered_text(other, (Pass.FORWARD, Pass.BACKWARD))
    a, b, of_b, _, of_a, _ = planned.steps
    assert {"hy", "cy"} <= dict(a.writes).keys()
    assert dict(b.reads)["h0"] == "a.hy"
    assert dict(b.reads)["c0"] == "a.cy"
    assert dict(of_a.reads)["dhy"] == dict(of_b.writes)["dh0"]
    assert dict(of_a.reads)["dcy"] == dict(of_b.writes)["dc0"]
    first = of_a.launches[0]
    assert first.kernel.endswith("_final_first")


def test_only_an_lstm_has_a_last_cell_state() -> None:
    settings = (("shape", "3x2x4"), ("cell", "gru"), ("final_state", "true"))
    (step,) = lowered("recurrent_fwd", *settings).steps
    assert "hy" in dict(step.writes)
    assert "cy" not in dict(step.writes)


def test_a_refusal_by_nvidias_compiler_says_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Logs of NVRTC 13.0 and ptxas: warnings come first, and the source is quoted."""
    warned = (
        "error.cu(549): warning #737-D: using-declaration ignored: an error\n  using ::keep4;\n"
        "      ^\n\nRemark: The warnings can be suppressed with \"-diag-suppress <number>\"\n\n"
    )  # fmt: skip
    errors = (
        "ptxas fatal   : Unresolved extern function '_Z5store'",
        "ptxas error   : Entry function 'k' uses too much shared data (0x13880 bytes, 0xc000 max)",
        "ptxas application ptx input, line 23; error   : Unknown modifier '.bar'",
        'k.cu(1): error: identifier "undefined_thing" is undefined',
        'k.cu(1): catastrophic error: could not open source file "nothing.h"',
        "nvrtc: error: invalid value for --gpu-architecture (-arch)",
    )
    run = launcher(monkeypatch)
    for error in errors:
        assert run.refusal(f"{warned}{error}\n  fatal: x\n\n1 error detected.\n") == error
    assert run.refusal("It went wrong\nsomewhere\n") == "somewhere"
