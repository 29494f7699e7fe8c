"""Memory and disk are compared with what a run needs before it starts."""

from __future__ import annotations

import shutil

import pytest
from handmade import lowered

from simgen.errors import RefusedError
from simgen.running import capacity, pieces
from simgen.targets.gem5.se import Gem5Se
from simgen.targets.host import Host

GIB = 1 << 30


@pytest.fixture(name="machine")
def machine_with_4_gib(tmp_path, monkeypatch):
    """4 GiB are free, and no control group says otherwise."""
    (tmp_path / "meminfo").write_text("MemTotal: 8388608 kB\nMemAvailable:  4194304 kB\n")
    monkeypatch.setattr(capacity, "MEMINFO", tmp_path / "meminfo")
    monkeypatch.setattr(capacity, "GROUPS", tmp_path / "cgroup")
    return tmp_path


def test_free_memory_is_what_linux_says(machine):
    assert capacity.available_memory() == 4 * GIB
    capacity.check_memory("t", 4 * GIB)
    with pytest.raises(RefusedError, match=r"t: it needs 4097 MiB of this machine.s memory and "):
        capacity.check_memory("t", 4 * GIB + 1)


def test_a_control_group_leaves_less(machine, monkeypatch):
    (machine / "cgroup").write_text("0::/a/b\n")
    monkeypatch.setattr(capacity, "CGROUPS", machine / "fs")
    inner = machine / "fs/a/b"
    inner.mkdir(parents=True)
    (inner / "memory.max").write_text("max\n")
    (inner / "memory.current").write_text("5\n")
    assert capacity.available_memory() == 4 * GIB
    (inner.parent / "memory.max").write_text(f"{2 * GIB}\n")
    (inner.parent / "memory.current").write_text(f"{GIB}\n")
    assert capacity.available_memory() == GIB
    (inner.parent / "memory.stat").write_text(f"anon 7\ninactive_file {GIB // 2}\n")
    assert capacity.available_memory() == GIB + GIB // 2  # the system drops what is used no more


def test_the_older_control_groups_count_too(machine, monkeypatch):
    (machine / "cgroup").write_text("4:cpu:/x\n3:memory:/job\n")
    monkeypatch.setattr(capacity, "CGROUPS", machine / "fs")
    group = machine / "fs/memory/job"
    group.mkdir(parents=True)
    (group / "memory.limit_in_bytes").write_text("1000")
    (group / "memory.usage_in_bytes").write_text("400")
    assert capacity.available_memory() == 600


def test_without_proc_nothing_is_refused(machine):
    (machine / "meminfo").unlink()
    assert capacity.available_memory() is None
    capacity.check_memory("t", 1 << 60)


def test_a_full_disk_is_told(tmp_path, monkeypatch):
    usage = shutil._ntuple_diskusage(10 * GIB, 9 * GIB, GIB)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    capacity.check_disk("t", GIB, tmp_path)
    with pytest.raises(RefusedError, match=r"results need 1025 MiB on the disk of .* 1024 MiB are"):
        capacity.check_disk("t", GIB + 1, tmp_path)


def test_gem5_takes_more_than_its_tensors():
    planned = lowered("vgg16")
    assert Host().needs.memory_nbytes(planned) > planned.arena_nbytes
    assert Gem5Se().needs.memory_nbytes(planned) > 12 * planned.arena_nbytes


def test_a_run_that_does_not_fit_is_refused_before_it_starts(simgen, machine, monkeypatch):
    from command_line import CUDA, fails

    from simgen.targets.cuda import NvidiaGpu

    monkeypatch.setattr(NvidiaGpu, "missing", lambda self, bundle=None: [])
    monkeypatch.setattr(NvidiaGpu, "memory_nbytes", lambda self, workload: 5 * GIB)
    assert simgen(f"build softmax_fwd {CUDA}").code == 0
    done = simgen("run softmax_fwd --on cuda")
    fails(done, 4, "cuda: it needs 5120 MiB of this machine's memory and 4096 MiB are free")


def test_runs_side_by_side_need_the_memory_of_each(machine, monkeypatch):
    monkeypatch.setattr(type(Host().needs), "memory_nbytes", lambda self, workload: 2 * GIB)
    small = lowered("softmax_fwd")
    pieces._check_memory(Host(), small, 1)
    pieces._check_memory(Host(), small, 2)
    fact = "host, 3 at a time: take fewer --jobs: it needs 6144 MiB of this machine's memory and"
    with pytest.raises(RefusedError, match=fact):
        pieces._check_memory(Host(), small, 3)
