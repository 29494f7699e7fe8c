"""Rates from launches: what two times say, and what they cannot."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from simgen.cli import main, rating
from simgen.errors import UsageError
from simgen.frontend import own_kernel
from simgen.ground import machine, resources
from simgen.reports.pages import peaks
from simgen.reports.rates import keeping, measuring, probes
from simgen.reports.rates.probes import PAIRS, MeasuredRate, Sizes


def launches(sizes: Sizes) -> list[tuple[str, str]]:
    """Kernels of rates.toml with what their launches are given, in order."""
    path = resources.folder("data") / "rates" / "rates.toml"
    definition = own_kernel.read_kernel_file(path, sizes.settings).definition
    return [(each.kernel.rpartition(".")[2], str(each)) for each in definition.launches]


@pytest.mark.parametrize("name", ["gem5-gfx902", "mgpusim-mi300a", "mgpusim-r9nano"])
def test_pairs_are_of_one_kernel_and_differ(name: str) -> None:
    found = launches(Sizes.of(machine.find(name, "")))
    for pair in PAIRS:
        (first, one), (second, two) = found[pair.first], found[pair.second]
        assert first == second, pair.name
        assert one != two, pair.name
    assert found[probes.LAUNCH][0] == "nothing" == found[-1][0]
    used = {at for pair in PAIRS for at in (pair.first, pair.second)}
    assert len(used) == 2 * len(PAIRS)


def test_what_pairs_count() -> None:
    """By data/rates/rates.hip: 16 bytes for each of 256 work-items, four loads in flight; 32
    multiply-adds; LDS one word each, 16 loads a round; chases one load after the other."""
    sizes = Sizes(units=5, l2=4096, cold=3, rounds=6)
    counted = {pair.name: pair.more(sizes) for pair in PAIRS}
    lds = 8 * 16 * 4 * 256
    assert counted == {
        "DRAM, latency": 64, "L2, latency": 128, "L1, latency": 128, "LDS, latency": 128,
        "DRAM, bandwidth": 3 * 4 * 16 * 256 * 5, "L2, bandwidth": 4 * 16 * 256 * 5,
        "L1, bandwidth": 2 * 4 * 16 * 256 * 5, "LDS, bandwidth of a unit": lds,
        "LDS, every 2nd word": lds, "LDS, every 32nd word": lds,
        "multiply-adds, f32": 4 * 2 * 32 * 256 * 6 * 5,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("units", "cold", "rounds"), [(1, 16, 64), (4, 16, 32), (16, 4, 8), (64, 1, 4), (128, 1, 4)]
)
def test_few_units_do_more(units: int, cold: int, rounds: int) -> None:
    gem5 = machine.find("gem5-gfx902", "").with_options({"num_compute_units": units}, "")
    sizes = Sizes.of(gem5)
    assert (sizes.units, sizes.cold, sizes.rounds) == (units, cold, rounds)


def test_what_launches_cost_is_not_in_rates() -> None:
    gem5 = machine.find("gem5-gfx902", "")
    sizes = Sizes.of(gem5)
    seconds = [1.0] * (probes.LAUNCH + 1)
    for pair in PAIRS:  # each takes what the machine is configured for, or 2 s a count
        more = pair.more(sizes)
        rate = pair.configured(gem5) if pair.configured else 0.5
        seconds[pair.second] += 2 * more if pair.unit == "s" else more / rate
    for found in probes.rates(seconds, sizes, gem5)[:-1]:
        expected = 2 if found.unit == "s" else 0.5
        assert found.share in (None, pytest.approx(1))
        assert found.value == pytest.approx(found.configured or expected)


LEVELS = {"LDS": 1.0, "L1": 2.0, "L2": 4.0, "DRAM": 8.0}  # how slow they are below


def configured_seconds(of: machine.Machine) -> list[float]:
    """Of launches: a count takes 1 ns, as often as its level says."""
    seconds = [1.0] * (probes.LAUNCH + 1)
    for pair in PAIRS:
        slow = LEVELS.get(pair.name.split(",")[0], 1.0)
        seconds[pair.second] += slow * 1e-9 * pair.more(Sizes.of(of))
    return seconds


@pytest.mark.parametrize(
    ("changed", "notes"),
    [
        ({}, {}),
        ({"L2, bandwidth": 0.0}, {"L2, bandwidth": "more work took no more time"}),
        ({"DRAM, latency": -1.0}, {"DRAM, latency": "more work took no more time"}),
        # With equal times neither is the faster one.
        ({"L2, latency": 2e-9}, {}),
        ({"L2, latency": 1.9e-9}, {"L2, latency": "doubtful: faster than L1"}),
        ({"DRAM, latency": 3e-9}, {"DRAM, latency": "doubtful: faster than L2"}),
        ({"L2, bandwidth": 1e-9}, {"L2, bandwidth": "doubtful: faster than L1"}),
        (
            {"multiply-adds, f32": 1 / 1.1e12},
            {"multiply-adds, f32": "doubtful: more than is configured"},
        ),
        # What was not measured is passed over.
        (
            {"L2, bandwidth": 0.0, "DRAM, bandwidth": 1e-9},
            {
                "L2, bandwidth": "more work took no more time",
                "DRAM, bandwidth": "doubtful: faster than L1",
            },
        ),
    ],
)
def test_a_row_that_tells_nothing_ends_no_table(changed, notes, capsys) -> None:
    gem5 = machine.find("gem5-gfx902", "")
    seconds = configured_seconds(gem5)
    for pair in PAIRS:
        if pair.name in changed:
            seconds[pair.second] = 1.0 + changed[pair.name] * pair.more(Sizes.of(gem5))
    found = probes.rates(seconds, Sizes.of(gem5), gem5)
    assert {each.name: each.note for each in found if each.note} == notes
    unmeasured = {name for name, note in notes.items() if note.startswith("more work")}
    assert {each.name for each in found if each.value is None} == unmeasured
    assert all(each.share is None for each in found if each.value is None)
    told = measuring.RatesOf(gem5, tuple(found))
    rating._print(told)
    lines = capsys.readouterr().out.splitlines()
    assert len([each for each in lines if each.strip()]) == len(PAIRS) + 4  # heads, a launch
    assert lines[2].split()[-1] == ("note" if notes else "share")
    for name, note in notes.items():
        (line,) = (each for each in lines if each.strip().startswith(name))
        assert line.rstrip().endswith(note)
        assert ("not measured" in line) is (name in unmeasured)
    rows = {row["name"]: row for row in told.as_json()["rates"]}
    assert {name for name, row in rows.items() if row["value"] is None} == unmeasured
    assert {name: row["note"] for name, row in rows.items() if row["note"]} == notes


def test_a_target_that_measures_no_time_has_no_rates() -> None:
    gem5 = machine.find("gem5-gfx902", "")
    with pytest.raises(ValueError, match="more work took no more time in any launch"):
        probes.rates([1.0] * 40, Sizes.of(gem5), gem5)


def test_runs_of_l2_are_no_runs_of_l1() -> None:
    for name, each in machine.descriptions().items():
        sizes = Sizes.of(each.machine)
        assert sizes.l2 & (sizes.l2 - 1) == 0, name
        if name.startswith(machine.MODELS):
            assert each.machine.l1_nbytes < 4 * sizes.l2 <= each.machine.l2_nbytes, name


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--on", "mgpusm"), "--on mgpusm: no such target; did you mean 'mgpusim'?"),
        (("--on", "host"), "--on host: it simulates no machine; take gem5-se or mgpusim"),
        (("--on", "mgpusim", "--mode", "emu"), "--mode emu: it measures no time; leave it out"),
    ],
)
def test_what_has_no_rates_is_refused(words: tuple[str, ...], said: str) -> None:
    done = CliRunner().invoke(main.cli, ["rates", *words])
    assert isinstance(done.exception, UsageError)
    assert str(done.exception) == said


FACTS = {"mgpusim_version": "v4.2.0", "mode": "timing", "gpu": "mi300a"}


def kept_rates(share: float) -> list[MeasuredRate]:
    return [
        MeasuredRate("DRAM, bandwidth", share, "B/s", 1.0),
        MeasuredRate("L2, bandwidth", 1.6, "B/s", 1.0),
        MeasuredRate("L1, bandwidth", 1.0, "B/s"),
    ]


def test_rates_are_kept_for_a_machine_and_a_version(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("SIMGEN_CACHE_DIR", str(tmp_path / "cache"))
    mi300a = machine.find("mgpusim-mi300a", "")
    fewer = mi300a.with_options({"num_compute_units": 4}, "")
    assert keeping.find("mgpusim", FACTS, mi300a) is None
    keeping.keep("mgpusim", FACTS, mi300a, kept_rates(0.107))
    keeping.keep("mgpusim", FACTS, fewer, kept_rates(0.6))

    def shortfall(facts, of):
        found = keeping.find("mgpusim", facts, of)
        return found and found.shortfall

    words = "DRAM, bandwidth reaches 11% of what is configured"
    same = mi300a.with_options({"num_compute_units": mi300a.units}, "")
    assert shortfall(FACTS, mi300a) == shortfall(FACTS, same) == words
    assert shortfall({**FACTS, "mode": "emu"}, mi300a) == words
    assert shortfall(FACTS, fewer) == ""
    part = [MeasuredRate("L2, bandwidth", None, "B/s", 1.0), *kept_rates(0.6)[::2]]
    keeping.keep("mgpusim", FACTS, fewer, part)
    assert shortfall(FACTS, fewer) == "L2, bandwidth could not be measured"
    keeping.keep("mgpusim", FACTS, fewer, [*part, *kept_rates(0.1)[:1]])
    assert shortfall(FACTS, fewer) == "DRAM, bandwidth reaches 10% of what is configured"
    assert shortfall({**FACTS, "mgpusim_version": "v5.0.0"}, mi300a) is None
    assert keeping.find("gem5-se", FACTS, mi300a) is None


@pytest.mark.parametrize("damage", [b"", b"{}", b'{"of": "x", "shares": {}}', b"[" * 9000])
def test_damaged_rates_were_never_measured(tmp_path, monkeypatch, damage) -> None:
    monkeypatch.setenv("SIMGEN_CACHE_DIR", str(tmp_path / "cache"))
    mi300a = machine.find("mgpusim-mi300a", "")
    keeping.keep("mgpusim", FACTS, mi300a, kept_rates(0.1))
    (path,) = (tmp_path / "cache" / keeping.FOLDER).iterdir()
    path.write_bytes(damage)
    assert keeping.find("mgpusim", FACTS, mi300a) is None


@pytest.mark.parametrize(("target", "known"), [("cuda", ""), ("host", ""), ("mgpusim", None)])
def test_what_is_not_simulated_falls_short_of_nothing(target: str, known: str | None) -> None:
    result: Any = SimpleNamespace(provenance={"target": target})
    assert peaks.shortfall(result, None) == known
