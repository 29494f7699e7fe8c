"""Figures of operating points: the time of each layer at each, and which of them it can do with."""

from __future__ import annotations

from simgen.reports.pages import figures
from simgen.reports.pages.series import Curves, Grouped
from simgen.reports.studies import operating_points
from simgen.reports.studies.drawn import Drawn, DrawnFrom, add_line, halves, table_of, whole_of
from simgen.reports.studies.operating_points import AXES, CLOCKS, GPUS, SLACK, Axis, value


def draw(of: DrawnFrom, made: Drawn, target: str) -> None:
    """Times at all settings, and what each layer does with."""
    axis = AXES[of.figure.draws]
    words = of.scope.clocks if axis is CLOCKS else of.scope.units
    machine = of.scope.set_machine
    found = {word: of.at(target, machine, operating_points.variant(axis, word)) for word in words}
    for runs in zip(*found.values(), strict=False):
        case = runs[0].point.case.name
        times: dict[str, dict[str, float]] = {}  # place -> setting -> seconds
        for word, each in zip(found, runs, strict=True):
            for place, values in table_of(of, [each], ["seconds"]).items():
                if seconds := values.get("seconds"):
                    times.setdefault(place, {})[word] = seconds
                    add_line(made, each, case, place, f"seconds at {word}", "seconds", seconds)
        times = {place: at for place, at in times.items() if len(at) == len(words)}
        if not times:
            continue
        least = {place: enough(at) for place, at in times.items()}
        for place, word in least.items():
            quantity = f"least within {SLACK:.0%}"
            add_line(made, runs[0], case, place, quantity, axis.unit, value(word))
        head = ("layer and pass", *words, f"least within {SLACK:.0%}")
        made.cells += [head] if not made.cells else []
        made.cells += [
            (f"{target} {place}", *(f"{seconds:.4g} s" for seconds in at.values()), least[place])
            for place, at in times.items()
        ]
        made.notes.append(f"{target}, {case}: {_sum(axis, times, least)}")
        series = {word: [at[word] for at in times.values()] for word in words}
        caption = f"{runs[0].point.place.title}, batch {runs[0].point.batch}"
        for title, shown, cut in halves(caption, list(times), dict(series)):
            made.pictures.append((title, figures.Plot(Grouped(shown, cut, "seconds"))))


def scaling(of: DrawnFrom, made: Drawn, target: str) -> None:
    """The time of each case on several numbers of GPUs, the efficiency, and what keeps it low."""
    words = of.scope.gpus
    at = {
        word: of.at(target, of.scope.set_machine, operating_points.variant(GPUS, word))
        for word in words
    }
    names = ["seconds", "all_reduce_seconds"]
    efficiency: dict[str, list[float | None]] = {}
    made.cells += [("case", "GPUs", "time", "efficiency", "all-reduces", "what keeps it low")]
    for runs in zip(*at.values(), strict=False):
        case = runs[0].point.case.name
        sums = [whole_of(each, names) for each in runs]
        if not all("seconds" in each for each in sums):
            continue
        least = value(words[0])
        times = [sum(each.values()) for each in sums]
        for word, each, run, time in zip(words, sums, runs, times, strict=True):
            ratio = times[0] * least / (time * value(word))
            reduced = each.get("all_reduce_seconds", 0.0)
            # What the layers take beyond their part, and what all-reduces add.
            layers = each["seconds"] - sums[0]["seconds"] * least / value(word)
            cause = "all-reduces" if reduced > layers else "layers too small for so many GPUs"
            why = cause if ratio < ENOUGH else ""
            for quantity, unit, number in (
                ("seconds", "seconds", time),
                ("efficiency", "share", ratio),
                ("all_reduce_seconds", "seconds", reduced),
            ):
                place = "1 GPU" if value(word) == 1 else f"{word} GPUs"
                add_line(made, run, case, place, quantity, unit, number)
            cells = (case, word, f"{time:.4g} s", f"{ratio:.0%}", f"{reduced:.4g} s", why)
            made.cells.append(cells)
            efficiency.setdefault(case, []).append(ratio)
    if efficiency:
        first = next(run for runs in at.values() for run in runs)
        caption = f"{first.point.place.title}, batch {first.point.batch}"
        sizes = [value(word) for word in words]
        plot = figures.Plot(Curves(list(words), sizes, efficiency, "GPUs", "efficiency"))
        made.pictures.append((caption, plot))


ENOUGH = 0.9  # efficiency from which on nothing is asked


def enough(at: dict[str, float]) -> str:
    """The smallest setting whose time is within SLACK of the least."""
    fastest = min(at.values())
    return min((word for word in at if at[word] <= (1 + SLACK) * fastest), key=value)


def _sum(axis: Axis, times: dict[str, dict[str, float]], least: dict[str, str]) -> str:
    """Time and what is spent, of each layer at its own setting against all at the largest."""
    largest = max(next(iter(times.values())), key=value)
    whole = sum(at[largest] for at in times.values())
    own = sum(at[least[place]] for place, at in times.items())
    spent = sum(at[least[place]] * value(least[place]) for place, at in times.items())
    return (
        f"each layer at its own, against all at {largest}: time {own / whole - 1:+.1%}, "
        f"{axis.spent} {spent / (whole * value(largest)) - 1:+.1%}"
    )
