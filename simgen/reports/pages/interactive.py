"""Figures of a report that a browser draws: Plotly's JSON in an element, the same for the same
numbers. Names can be read by hovering, series hidden, axes zoomed: hundreds of layers fit.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from simgen.ground.metrics import quantity
from simgen.reports.pages.series import is_wide, needs_log_axis

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from plotly.graph_objects import Figure

    from simgen.reports.pages.series import Series

HEIGHT = 340  # pixels
UPRIGHT = 16  # so many names below an axis, or more, stand on end where it is narrow
LETTER = 6  # pixels that a letter of such a name takes of the height
NAMED = 3  # outliers of a correlation that have their names beside them
COLOURS = (
    "#3b6fb6", "#e08a1e", "#3f9b5f", "#c44e52", "#8064a2", "#8c6d46", "#d98cb3", "#7f7f7f",
    "#b5b02c", "#3aa6b9",
)  # fmt: skip


def library() -> str:
    """Plotly's JavaScript, for pages that need no network."""
    from plotly.offline import get_plotlyjs

    return str(get_plotlyjs())


def grouped(places: Sequence[str], series: Series, unit: str, whole: float | None = None) -> str:
    """A group of bars at each place, one for each of the series; None leaves a gap.

    The axis is logarithmic where linear bars would hide the small ones, but not where values are
    shares of a `whole`: it goes from 0 to that.
    """
    figure = _bars(places, series, unit)
    if whole is not None:
        figure.update_yaxes(range=[0, whole], tickformat=".0%")
    elif is_wide(series):
        figure.update_yaxes(type="log")
    return _element(figure)


def stacked(places: Sequence[str], parts: Series, unit: str, errors: Series | None = None) -> str:
    """One bar at each place, of the parts from below to above; `errors` are half of the interval
    of a part, at its end."""
    figure = _bars(places, parts, unit)
    for trace in figure.data:
        halves = (errors or {}).get(trace.name, ())
        if any(halves):
            trace.error_y = {"type": "data", "array": [half or 0.0 for half in halves]}
    figure.update_layout(barmode="stack")
    return _element(figure)


def lines(
    values: Sequence[str], sizes: Sequence[float] | None, series: Series, across: str, unit: str
) -> str:
    """A line for each of the series over the values of an option, placed by what they measure,
    or one after the other where that is None; doublings have the same distance."""
    from plotly.graph_objects import Scatter

    figure = _figure()
    at: list[Any] = list(sizes) if sizes else list(values)
    for label, found in series.items():
        y = list(found)
        figure.add_trace(Scatter(x=at, y=y, name=_plain(label), mode="lines+markers"))
    _name(figure, across, unit)
    figure.update_xaxes(type="linear" if sizes else "category")
    if sizes:
        figure.update_xaxes(tickvals=at, ticktext=[_plain(value) for value in values])
        if needs_log_axis(sizes):
            figure.update_xaxes(type="log")
    if is_wide(series):
        figure.update_yaxes(type="log")
    return _element(figure)


def against(
    points: Mapping[str, tuple[float, float]], across: str, up: str, scale: float | None
) -> str:
    """A dot for each name's (x, y), x and y above 0, on logarithmic axes, with the lines y = x and
    x = `scale` y. The dots farthest from that line have their names beside them."""
    from plotly.graph_objects import Scatter

    names = list(points)
    ends = [value for point in points.values() for value in point]
    span = [10.0 ** math.floor(math.log10(min(ends))), 10.0 ** math.ceil(math.log10(max(ends)))]
    figure = _figure(height=440)
    line = {"color": "#bbb", "width": 1}
    figure.add_trace(Scatter(x=span, y=span, mode="lines", name="equal", line=line))
    if scale:
        fit = [end / scale for end in span]
        figure.add_trace(Scatter(x=span, y=fit, mode="lines", name=f"x = {scale:.3g} y"))
    off = {
        n: abs(math.log(scale or 1.0) + math.log(y) - math.log(x)) for n, (x, y) in points.items()
    }
    worst = sorted(names, key=lambda name: -off[name])[:NAMED]
    figure.add_trace(
        Scatter(
            x=[points[name][0] for name in names],
            y=[points[name][1] for name in names],
            mode="markers+text",
            name="layers",
            text=[_plain(name) if name in worst else "" for name in names],
            textposition="top center",
            hovertext=[_plain(name) for name in names],
            marker={"size": 8},
        )
    )
    _name(figure, across, up)
    figure.update_xaxes(type="log")
    figure.update_yaxes(type="log")
    return _element(figure)


def front(
    points: Mapping[str, tuple[float, float]], best: Collection[str], across: str, up: str
) -> str:
    """A dot for each name's (x, y), and a line through the `best` of them, on logarithmic axes
    where values are wide apart."""
    from plotly.graph_objects import Scatter

    figure = _figure(height=400)
    ends = sorted((points[name], name) for name in best)
    for label, names in (
        ("on the front", [name for _, name in ends]),
        ("the others", [name for name in points if name not in best]),
    ):
        figure.add_trace(
            Scatter(
                x=[points[name][0] for name in names],
                y=[points[name][1] for name in names],
                mode="lines+markers" if label == "on the front" else "markers",
                name=label,
                hovertext=[_plain(name) for name in names],
                marker={"size": 9},
            )
        )
    _name(figure, across, up)
    for axis, at in ((figure.update_xaxes, 0), (figure.update_yaxes, 1)):
        if is_wide({"": [point[at] for point in points.values()]}):
            axis(type="log")
    return _element(figure)


def roofline(
    points: Mapping[str, tuple[float, float, float]], operations: float, rate: float
) -> str:
    """A dot for each name's (operations, bytes, seconds) below the roof of a machine that does
    `operations` and moves `rate` bytes in a second; larger ones take more of the time.

    Williams, Waterman, Patterson: Roofline, CACM 52 (2009).
    """
    from plotly.graph_objects import Scatter

    shown = {n: (o / b, o / t, t) for n, (o, b, t) in points.items() if o and b and t}
    figure = _figure(height=440)
    if not shown:
        return ""
    ridge = operations / rate
    low = min(ridge / 4, *(x for x, _, _ in shown.values())) / 2
    high = max(ridge * 4, *(x for x, _, _ in shown.values())) * 2
    figure.add_trace(
        Scatter(
            x=[low, ridge, high],
            y=[low * rate, operations, operations],
            mode="lines",
            name=f"{quantity(operations, 'op/s')}, {quantity(rate, 'B/s')}",
            line={"color": "#444"},
        )
    )
    total = sum(t for _, _, t in shown.values())
    figure.add_trace(
        Scatter(
            x=[x for x, _, _ in shown.values()],
            y=[y for _, y, _ in shown.values()],
            mode="markers",
            name="layers",
            hovertext=[
                f"{_plain(name)}, {t / total:.1%} of the time" for name, (_, _, t) in shown.items()
            ],
            marker={
                "size": [7 + 30 * math.sqrt(t / total) for _, _, t in shown.values()],
                "opacity": 0.7,
            },
        )
    )
    _name(figure, "operations per byte that must be moved", "operations/s")
    figure.update_xaxes(type="log")
    figure.update_yaxes(type="log")
    return _element(figure)


def _plain(text: str) -> str:
    """A name as it is: Plotly reads a few elements of HTML in texts."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _name(figure: Figure, across: str = "", up: str = "") -> None:
    """The titles of the axes, clear of their ticks."""
    figure.update_xaxes(title={"text": _plain(across), "standoff": 8})
    figure.update_yaxes(title={"text": _plain(up), "standoff": 12})


def _figure(height: int = HEIGHT) -> Figure:
    from plotly.graph_objects import Figure

    figure = Figure()
    figure.update_layout(
        template="none",
        height=height,
        colorway=COLOURS,
        margin={"l": 70, "r": 20, "t": 30, "b": 50},
        font={"family": "system-ui, sans-serif", "size": 12},
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        hovermode="closest",
        showlegend=True,
    )
    figure.update_xaxes(automargin=True, gridcolor="#eee", zerolinecolor="#ddd")
    figure.update_yaxes(
        automargin=True, gridcolor="#eee", zerolinecolor="#ddd", exponentformat="SI"
    )
    return figure


def _bars(places: Sequence[str], series: Series, unit: str) -> Figure:
    from plotly.graph_objects import Bar

    shown = [_plain(place) for place in places]
    longest = max(map(len, shown), default=0) if len(shown) >= UPRIGHT else 0
    figure = _figure(HEIGHT + LETTER * longest)
    for label, values in series.items():
        figure.add_trace(Bar(x=shown, y=list(values), name=_plain(label)))
    figure.update_xaxes(type="category")
    _name(figure, up=unit)
    return figure


def _element(figure: Figure) -> str:
    """What the page's script draws when it is scrolled to."""
    told = json.loads(figure.to_json(validate=False))
    kept = {"data": told["data"], "layout": told["layout"]}
    text = json.dumps(kept, separators=(",", ":"), sort_keys=True)
    text = text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    height = told["layout"].get("height", HEIGHT)
    spec = f'<script type="application/json">{text}</script>'
    return f'<div class="plot" style="min-height:{height}px">{spec}</div>'
