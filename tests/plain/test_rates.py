"""Rates from launches: what two times say, and what they cannot."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from simgen import machine, resources
from simgen.cli import main
from simgen.errors import UsageError
from simgen.frontend import own_kernel
from simgen.rates import probes
from simgen.rates.probes import PAIRS, Sizes


def launches(sizes: Sizes) -> list[tuple[str, str]]:
    """Kernels of rates.toml with what their launches are given, in order."""
    path = resources.folder("data") / "rates" / "rates.toml"
    definition = own_kernel.read(path, sizes.settings).definition
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


def test_times_that_do_not_grow_are_no_rates() -> None:
    gem5 = machine.find("gem5-gfx902", "")
    with pytest.raises(ValueError, match="DRAM, latency: more work took no more time"):
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
