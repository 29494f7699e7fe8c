"""The script that forks gem5 for each kernel, in a gem5 that is made up: what ends a child is told,
and ends no other."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from simgen.kernels import render

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="links to /proc/self/cwd")

# A module m5 whose simulation does what the kernel's name says.
GEM5 = """
import os, runpy, sys, types

class Flag:
    on = False
    def enable(self):
        Flag.on = True

def simulate(*_):
    name = os.path.basename(os.getcwd())
    print("simulates", name, *sys.argv[1:], flush=True)
    if Flag.on:
        for pc in (0x7F00, 0x7F04, 0x7F0C):
            print(f"9: gpu: CU0: WF[0][0]: wave[1] Executing inst: s_nop (pc: {pc:#x}; seqNum: 1)")
        print("9: gpu: CU0: WF[1][0]: wave[2] Executing inst: s_nop (pc: 0x7f00; seqNum: 2)")
        sys.stdout.flush()
    if name == "dies":
        os.abort()
    while name == "hangs":
        pass
    marks = open("state.bin", "rb").read()
    with open("outputs.bin", "wb") as file:
        file.write(marks)
    m5.stats.dump()

def dump():
    raise AssertionError("no statistics are wanted")

m5 = types.ModuleType("m5")
m5.simulate, m5.debug = simulate, types.SimpleNamespace(flags={"GPUExec": Flag()})
m5.stats = types.SimpleNamespace(dump=dump, reset=dump)
sys.modules["m5"] = m5
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0])
"""
APU_SE = """
import sys
import m5
print("made once", flush=True)
m5.simulate(1)
m5.simulate(2)
sys.exit(0)
"""


def test_each_kernel_has_a_child(tmp_path: Path):
    target, results = tmp_path / "gem5-se", tmp_path / "results"
    target.mkdir()
    results.mkdir()
    kernels = ["first", "dies", "hangs", "last"]
    (target / "forks.py").write_text(render.text("launchers/gem5_forks.py"))
    (target / "apu_se.path").write_text(f"{target}/apu_se.py\n")
    (target / "apu_se.py").write_text(APU_SE)
    (target / "gem5.py").write_text(GEM5)
    told = {"jobs": 2, "limit": 1, "id": "ab" * 32, "kernels": kernels}
    (target / "forks.json").write_text(json.dumps(told))
    words = [sys.executable, str(target / "gem5.py"), str(target / "forks.py"), "-n1"]
    done = subprocess.run(words, cwd=results, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "made once\n"
    assert os.readlink(results / "here") == "/proc/self/cwd"
    ended = {name: json.loads((results / name / "ended.json").read_text()) for name in kernels}
    for name in ("first", "last"):
        assert ended[name]["code"] == 0
        # Once for each call of simulate, with the arguments of apu_se.py.
        assert (results / name / "log.txt").read_text() == f"simulates {name} -n1\n" * 2
        head, marks = (results / name / "outputs.bin").read_bytes()[:64], kernels.index(name)
        assert head == b"simgenS1" + b"\xab" * 32 + bytes(24)
        left_out = bytearray([2] * 4)
        left_out[marks] = 0
        assert (results / name / "outputs.bin").read_bytes()[64:] == left_out
    assert ended["dies"]["code"] == -signal.SIGABRT
    assert (ended["dies"]["start"], ended["dies"]["last"]) == (0x7F00, 0x7F00)
    assert ended["dies"]["waves"] == [0x7F00, 0x7F0C]
    assert ended["hangs"]["late"]
    assert "start" not in ended["hangs"]
    assert not list(results.glob("*/state.bin")) + list(results.glob("*/trace.txt"))
