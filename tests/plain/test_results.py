"""What a run left, read into one schema; and what is refused because it cannot be right."""

from __future__ import annotations

import json

import h5py
import numpy as np
import pytest
from handmade import BOTH, build, computed, lowered_text, run_by_hand, small

from simgen.bundle import results
from simgen.errors import DamagedError, UsageError
from simgen.ground.ir import GUARD, PAGE, DType
from simgen.ground.storage import hdf5
from simgen.targets.cuda import Cuda

NETWORK = "[Activation]\nname=a\nn=3\nc=7\n[Softmax]\nname=s\nprevious_layer=a\n"


@pytest.fixture(name="made")
def made_bundle(tmp_path):
    """A network of two layers, forward and backward: four outputs of unlike places."""
    return build(tmp_path / "net", lowered_text(NETWORK, BOTH))


def collected(made):
    return results.collect(made, Cuda(), made.path / "results" / "cuda")


# ------------------------------------------------------------------ collecting


def test_every_output_is_read_from_its_place(made):
    run_by_hand(made)
    result = collected(made)
    expected = computed(made)
    assert list(result.outputs) == ["a.y", "s.y", "a.dy", "a.dx"]
    for name, output in result.outputs.items():
        assert output.values.shape == (3, 7, 1, 1)
        assert output.values.dtype == np.float32
        assert (output.values == expected[name]).all()
        assert output.untouched == 0
        assert output.guard_intact


def test_the_target_s_metrics_come_with_it(made):
    run_by_hand(made)
    times = [launch["seconds"] for launch in collected(made).launches]
    assert times == pytest.approx([1e-6, 2e-6, 3e-6, 4e-6])


def test_a_result_tells_where_it_comes_from(made):
    run_by_hand(made)
    origin = collected(made).provenance
    assert set(origin) == {
        "simgen", "compiler", "config", "workload", "data", "target", "settings", "machine",
        "options", "inputs", "gpus", "planned_for", "asked",
    }  # fmt: skip
    assert origin["workload"] == made.digest
    assert origin["data"] == made.manifest["data"]["id"]
    assert origin["target"] == "cuda"
    assert origin["machine"]["gpu"] == "by hand"
    assert set(origin["machine"]) == {"gpu"}  # who ran it by hand has told no more
    json.dumps(origin)


def words_at(made, name, element):
    """Where an element of an output lies in the dumped words."""
    buffer = made.workload.buffer(name)
    return (buffer.offset - made.workload.outputs_offset) // 4 + element


def spoiled(made, name, element, word):
    def spoil(words):
        words[words_at(made, name, element)] = word
        return words

    return spoil


def test_elements_that_hold_the_canary_are_counted(made):
    def spoil(words):
        at = words_at(made, "s.y", 5)
        words[at : at + 4] = DType.F32.canary
        return words

    run_by_hand(made, spoil=spoil)
    found = {name: output.untouched for name, output in collected(made).outputs.items()}
    assert found == {"a.y": 0, "s.y": 4, "a.dy": 0, "a.dx": 0}


@pytest.mark.parametrize("distance", [0, 1, GUARD // 4 - 1])
def test_a_word_in_the_guard_is_noticed(made, distance):
    run_by_hand(made, spoil=spoiled(made, "a.dy", 21 + distance, 0))
    found = {name: output.guard_intact for name, output in collected(made).outputs.items()}
    assert found == {"a.y": True, "s.y": True, "a.dy": False, "a.dx": True}


def test_what_lies_behind_the_guard_is_nobody_s(made):
    assert (
        made.workload.buffer("a.dx").offset - made.workload.buffer("a.dy").offset > PAGE + GUARD - 1
    )
    run_by_hand(made, spoil=spoiled(made, "a.dy", 21 + GUARD // 4, 0))
    assert all(output.guard_intact for output in collected(made).outputs.values())


@pytest.mark.parametrize(
    "spoil",
    [lambda w: w[:-1], lambda w: w[:0], lambda w: np.append(w, w[:1]), lambda w: w[: w.size // 2]],
)
def test_a_dump_of_the_wrong_size_is_damaged(made, spoil):
    run_by_hand(made, spoil=spoil)
    with pytest.raises(DamagedError, match=r"outputs\.bin: \d+ bytes instead of \d+; run it again"):
        collected(made)


@pytest.mark.parametrize("name", ["outputs.bin", "launches.csv", "machine.json"])
def test_a_missing_file_is_named(made, name):
    (run_by_hand(made) / name).unlink()
    with pytest.raises(
        DamagedError,
        match=rf"{name}: .*; (run (it|the bundle) again|build the bundle again and run it)$",
    ):
        collected(made)


@pytest.mark.parametrize("lines", [0, 3, 4])
def test_metrics_must_fit_the_launches(made, lines):
    path = run_by_hand(made) / "launches.csv"
    kept = path.read_text().splitlines(keepends=True)[:lines]
    path.write_text("".join(kept))
    with pytest.raises(DamagedError, match="launches that are not the workload's 4; run the bun"):
        collected(made)


@pytest.mark.parametrize("value", ["nan", "-1", "inf", "-inf", "x", ""])
def test_a_metric_is_a_finite_number_that_is_not_negative(made, value):
    path = run_by_hand(made) / "launches.csv"
    lines = path.read_text().splitlines()
    cells = lines[2].split(",")
    cells[2] = value
    path.write_text("\n".join([*lines[:2], ",".join(cells), *lines[3:]]) + "\n")
    with pytest.raises(DamagedError, match=r"launches\.csv: cannot be read \(.*\); run the bundle"):
        collected(made)


# ------------------------------------------------------------------ results.h5


@pytest.fixture(name="saved")
def saved_result(made):
    folder = run_by_hand(made, spoil=spoiled(made, "a.y", 21, 0))
    results.save(collected(made), made.workload, folder / results.FILE)
    return folder / results.FILE


def test_a_saved_result_comes_back_whole(made, saved):
    ours, back = collected(made), results.load(saved)
    assert back.name == str(saved)
    assert sorted(back.outputs) == sorted(ours.outputs)
    for name, output in ours.outputs.items():
        assert back.outputs[name].values.tobytes() == output.values.tobytes()
        assert back.outputs[name].values.dtype == output.values.dtype
        assert back.outputs[name].untouched == output.untouched
        assert back.outputs[name].guard_intact == output.guard_intact
    assert not back.outputs["a.y"].guard_intact
    assert back.launches == ours.launches
    assert [list(each) for each in back.launches] == [list(each) for each in ours.launches]
    assert back.provenance == ours.provenance


def test_other_programs_can_read_it(saved):
    with h5py.File(saved) as h5:
        assert h5.attrs["schema"] == b"simgen results 2"
        assert h5["tensors/s.y"].shape == (3, 7, 1, 1)
        columns = {name: column[...] for name, column in h5["launches"].items()}
    assert columns["order"].tolist() == [0, 1, 2, 3]
    assert [v.decode() for v in columns["layer"]] == ["a", "s", "s", "a"]
    assert [v.decode() for v in columns["pass"]] == ["fwd", "fwd", "bwd", "bwd"]
    assert all(v.decode().startswith(("activation_", "softmax_")) for v in columns["kernel"])


def test_a_metric_that_a_launch_lacks_is_nan_in_the_file_and_absent_in_memory(made, tmp_path):
    run_by_hand(made)
    ours = collected(made)
    launches = ({"cycles": 7.0}, {}, {"misses": 1.0, "cycles": 9.0, "accesses": 2.0}, {})
    some = results.Result("x", ours.outputs, launches, ours.provenance)
    results.save(some, made.workload, tmp_path / "r.h5")
    assert results.load(tmp_path / "r.h5").launches == launches
    assert list(results.load(tmp_path / "r.h5").launches[2]) == ["cycles", "misses", "accesses"]
    with h5py.File(tmp_path / "r.h5") as h5:
        assert np.isnan(h5["launches/cycles"][1])


def test_saving_is_atomic(made, saved, monkeypatch):
    before = saved.read_bytes()

    def fail(result, workload):
        raise KeyboardInterrupt

    monkeypatch.setattr(results, "_columns", fail)
    with pytest.raises(KeyboardInterrupt):
        results.save(collected(made), made.workload, saved)
    assert saved.read_bytes() == before
    assert not [p for p in saved.parent.iterdir() if p.name.startswith(".part-")]


def test_no_file_is_a_wrong_argument(tmp_path):
    with pytest.raises(UsageError, match="no such file; name a target that has run"):
        results.load(tmp_path / "r.h5")
    with pytest.raises(UsageError, match=": a folder, not a file; name a target that has run"):
        results.load(tmp_path)


@pytest.mark.parametrize("nbytes", [0, 100, 2000, -1])
def test_a_truncated_file_is_damaged(saved, nbytes):
    content = saved.read_bytes()
    saved.write_bytes(content[:nbytes])
    with pytest.raises(DamagedError, match=r"results\.h5: .*; run the target again"):
        results.load(saved)


def replace_by_group(h5):
    del h5["tensors/a.y"]
    h5.create_group("tensors/a.y").attrs.update({"untouched": 0, "guard_intact": True})


def shorten(h5):
    del h5["launches/seconds"]
    h5["launches/seconds"] = [1.0]


def remake(name, shape, dtype="<f4", **how):
    def edit(h5):
        attributes = dict(h5[name].attrs) if name in h5 else {}
        if name in h5:
            del h5[name]
        h5.create_dataset(name, shape, dtype, **how).attrs.update(attributes)

    return edit


def relink(name, link):
    def edit(h5):
        del h5[name]
        h5[name] = link

    return edit


def virtual(h5):
    layout = h5py.VirtualLayout((3, 7, 1, 1), "<f4")
    layout[...] = h5py.VirtualSource("other.h5", "x", (3, 7, 1, 1))
    del h5["tensors/a.y"]
    h5.create_virtual_dataset("tensors/a.y", layout).attrs.update(
        {"untouched": 0, "guard_intact": True}
    )


def tell(**changes):
    def edit(h5):
        told = json.loads(hdf5.document(h5, "provenance"))
        document("provenance", json.dumps({**told, **changes}))(h5)

    return edit


def document(name, text):
    def edit(h5):
        del h5[name]
        hdf5.write_document(h5, name, text)

    return edit


EDITS = {
    "a provenance that is a list": document("provenance", "[]"),
    "a provenance that is a number": remake("provenance", (), "<i8"),
    "a provenance that is no text": lambda h5: h5["provenance"].write_direct(
        np.full(h5["provenance"].shape, 255, np.uint8)
    ),
    "a machine that is none": tell(machine=None),
    "a machine that is a text": tell(machine="x"),
    "no number of GPUs": tell(gpus=0),
    "GPUs that cannot share the batch": tell(gpus=2),
    "settings that are a list": tell(settings=[1]),
    "a part without steps": tell(part={"layers": "a", "inputs": ""}),
    "a part of other steps": tell(part={"layers": "a", "inputs": "", "steps": [99]}),
    "kernels of other steps": tell(kernels=[[99, "k"]]),
    "fewer kernels than launches": tell(kernels=[[0, "k"]]),
    "complex numbers": remake("tensors/a.y", (3, 7, 1, 1), "c8"),
    "a huge shape": remake("tensors/a.y", (2**20, 2**20, 2**10)),
    "a huge shape that is compressed": remake(
        "tensors/a.y", (2**20, 2**20), chunks=(1, 1), compression="gzip"
    ),
    "a huge column": remake("launches/order", (2**40,), "<i8"),
    "external storage": remake("tensors/a.y", (3, 7, 1, 1), external=[("other.bin", 0, 84)]),
    "a virtual dataset": virtual,
    "a link to another file": relink("tensors/a.y", h5py.ExternalLink("other.h5", "x")),
    "tensors in another file": relink("tensors", h5py.ExternalLink("other.h5", "/")),
    "a link to nowhere": relink("tensors/a.y", h5py.SoftLink("/none")),
    "more elements untouched than there are": lambda h5: h5["tensors/a.y"].attrs.modify(
        "untouched", 22
    ),
    "a list of untouched elements": lambda h5: h5["tensors/a.y"].attrs.create("untouched", [1, 2]),
    "negative times": lambda h5: h5["launches/seconds"].write_direct(np.full(4, -1.0)),
    "another schema": lambda h5: hdf5.write_text(h5, "schema", "simgen results 9"),
    "text of variable length": lambda h5: h5.attrs.create("schema", "simgen results 2"),
    "no schema": lambda h5: h5.attrs.pop("schema"),
    "no tensors": lambda h5: h5.pop("tensors"),
    "no launches": lambda h5: h5.pop("launches"),
    "no order": lambda h5: h5.pop("launches/order"),
    "no provenance": lambda h5: h5.pop("provenance"),
    "no digests": lambda h5: h5.pop("digests"),
    "a provenance that is no JSON": document("provenance", "{"),
    "no attributes": lambda h5: h5["tensors/a.y"].attrs.pop("untouched"),
    "a group for a tensor": replace_by_group,
    "a short column": shorten,
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_a_file_of_another_kind_is_damaged(made, saved, edit):
    with h5py.File(saved, "r+") as h5:
        edit(h5)
    with h5py.File(saved.parent / "other.h5", "w") as h5:
        h5["x"] = np.zeros((3, 7, 1, 1), "<f4")
    (saved.parent / "other.bin").write_bytes(bytes(84))
    with pytest.raises(DamagedError, match="run the target again") as caught:
        results.load(saved, made.workload)
    assert str(caught.value).isprintable()


def test_a_soft_link_in_the_file_is_followed(made, saved):
    with h5py.File(saved, "r+") as h5:
        h5.move("tensors/a.y", "elsewhere")
        h5["tensors/a.y"] = h5py.SoftLink("/elsewhere")
    back = results.load(saved, made.workload).outputs["a.y"].values
    assert back.tobytes() == collected(made).outputs["a.y"].values.tobytes()


def test_a_result_of_another_workload_is_a_wrong_argument(saved):
    """Its tensors would be taken for the inputs of a part."""
    with pytest.raises(UsageError, match="a result of another workload"):
        results.load(saved, small())


def test_small_results_are_small(made, saved):
    assert saved.stat().st_size < 64 * 1024
    assert small().arena_nbytes < 64 * 1024
