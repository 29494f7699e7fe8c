"""Figures of a report that a browser draws: Plotly's JSON in an element, the same for the same
numbers. Names can be read by hovering, series hidden, axes zoomed: hundreds of layers fit.
"""

from __future__ import annotations

import gzip
import json
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from simgen.ground import resources
from simgen.ground.metrics import quantity
from simgen.reports.pages.series import is_wide, needs_log_axis, outliers, roofs
from simgen.reports.pages.still import COLOURS, HATCHES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simgen.reports.pages.series import (
        Curves,
        Dotted,
        Front,
        Grouped,
        Roofline,
        Series,
        Stacked,
    )  # fmt: skip

HEIGHT = 340  # pixels
UPRIGHT = 16  # so many names below an axis, or more, stand on end where it is narrow
LETTER = 6  # pixels that a letter of such a name takes of the height


def library() -> str:
    """Plotly's JavaScript with the basic kinds of figures, for pages that need no network."""
    path = resources.folder("templates") / "plotly-basic.min.js.gz"
    return gzip.decompress(path.read_bytes()).decode()


@dataclass
class PlotlyFigure:
    """A figure in the words of Plotly's JSON."""

    data: list[dict[str, Any]] = field(default_factory=list)
    layout: dict[str, Any] = field(default_factory=lambda: {"xaxis": {}, "yaxis": {}})

    def add_trace(self, trace: dict[str, Any]) -> None:
        self.data.append(trace)

    def add_hline(self, at: float, line: dict[str, Any]) -> None:
        """A line through the whole width."""
        ends = {"x0": 0, "x1": 1, "xref": "x domain", "y0": at, "y1": at, "yref": "y"}
        self.layout.setdefault("shapes", []).append({"type": "line", "line": line, **ends})

    def update_layout(self, **more: Any) -> None:
        self.layout |= more

    def update_xaxes(self, **more: Any) -> None:
        self.layout["xaxis"] |= more

    def update_yaxes(self, **more: Any) -> None:
        self.layout["yaxis"] |= more


def _scatter(**told: Any) -> dict[str, Any]:
    return {"type": "scatter", **told}


def grouped(of: Grouped) -> str:
    """The element of `figures.Grouped`, and so below."""
    figure = _bars(of.places, of.series, of.unit)
    if of.level is not None:
        figure.add_hline(of.level, line={"color": "#666", "width": 1})
    if of.whole is not None:
        figure.update_yaxes(range=[0, of.whole], tickformat=".0%")
    elif is_wide(of.series):
        figure.update_yaxes(type="log")
    return _element(figure)


def stacked(of: Stacked) -> str:
    figure = _bars(of.places, of.parts, of.unit)
    if of.across:
        figure.update_xaxes(title={"text": _plain(of.across), "standoff": 8})
    for trace in figure.data:
        halves = (of.errors or {}).get(trace["name"], ())
        if any(halves):
            trace["error_y"] = {"type": "data", "array": [half or 0.0 for half in halves]}
    figure.update_layout(barmode="stack")
    return _element(figure)


def curves(of: Curves) -> str:
    figure = _figure()
    at: list[Any] = list(of.sizes) if of.sizes else list(of.values)
    if of.ideal:
        dashed = {"color": "#777", "width": 1, "dash": "dash"}
        figure.add_trace(_scatter(x=at, y=list(of.ideal), name="ideal", mode="lines", line=dashed))
    for label, found in of.series.items():
        y = list(found)
        figure.add_trace(_scatter(x=at, y=y, name=_plain(label), mode="lines+markers"))
    _name(figure, of.across, of.unit)
    figure.update_xaxes(type="linear" if of.sizes else "category")
    if of.sizes:
        figure.update_xaxes(tickvals=at, ticktext=[_plain(value) for value in of.values])
        if needs_log_axis(of.sizes):
            figure.update_xaxes(type="log")
    if of.ideal and of.sizes and needs_log_axis(of.sizes):
        figure.update_yaxes(
            type="log", tickvals=list(of.ideal), ticktext=[f"{n:g}" for n in of.ideal]
        )
    elif is_wide(of.series):
        figure.update_yaxes(type="log")
    else:
        figure.update_yaxes(rangemode="tozero")
    return _element(figure)


def dotted(of: Dotted) -> str:
    names = list(of.points)
    ends = [value for point in of.points.values() for value in point]
    span = [10.0 ** math.floor(math.log10(min(ends))), 10.0 ** math.ceil(math.log10(max(ends)))]
    figure = _figure(height=440)
    line = {"color": "#bbb", "width": 1}
    figure.add_trace(_scatter(x=span, y=span, mode="lines", name="equal", line=line))
    if of.scale:
        fit = [end / of.scale for end in span]
        figure.add_trace(_scatter(x=span, y=fit, mode="lines", name=f"x = {of.scale:.3g} y"))
    worst = outliers(of.points, of.scale)
    figure.add_trace(
        _scatter(
            x=[of.points[name][0] for name in names],
            y=[of.points[name][1] for name in names],
            mode="markers+text",
            name="layers",
            text=[_plain(name) if name in worst else "" for name in names],
            textposition="top center",
            hovertext=[_plain(name) for name in names],
            marker={"size": 8},
        )
    )
    _name(figure, of.across, of.up)
    figure.update_xaxes(type="log")
    figure.update_yaxes(type="log")
    return _element(figure)


def front(of: Front) -> str:
    figure = _figure(height=400)
    ends = sorted((of.points[name], name) for name in of.best)
    for label, names in (
        ("on the front", [name for _, name in ends]),
        ("the others", [name for name in of.points if name not in of.best]),
    ):
        figure.add_trace(
            _scatter(
                x=[of.points[name][0] for name in names],
                y=[of.points[name][1] for name in names],
                mode="lines+markers" if label == "on the front" else "markers",
                name=label,
                hovertext=[_plain(name) for name in names],
                marker={"size": 9},
            )
        )
    _name(figure, of.across, of.up)
    for axis, at in ((figure.update_xaxes, 0), (figure.update_yaxes, 1)):
        if is_wide({"": [point[at] for point in of.points.values()]}):
            axis(type="log")
    return _element(figure)


def roofline(of: Roofline) -> str:
    shown, (low, ridge, high) = roofs(of.points, of.operations, of.rate)
    figure = _figure(height=440)
    figure.add_trace(
        _scatter(
            x=[low, ridge, high],
            y=[low * of.rate, of.operations, of.operations],
            mode="lines",
            name=f"{quantity(of.operations, 'op/s')}, {quantity(of.rate, 'B/s')}",
            line={"color": "#444"},
        )
    )
    shares = [of.points[name][2] / sum(t for _, _, t in of.points.values()) for name in shown]
    figure.add_trace(
        _scatter(
            x=[x for x, _ in shown.values()],
            y=[y for _, y in shown.values()],
            mode="markers",
            name="layers",
            hovertext=[
                f"{_plain(name)}, {part:.1%} of the time" for name, part in zip(shown, shares)
            ],
            marker={"size": [7 + 30 * math.sqrt(part) for part in shares], "opacity": 0.7},
        )
    )
    _name(figure, "operations per byte that must be moved", "operations/s")
    figure.update_xaxes(type="log")
    figure.update_yaxes(type="log")
    return _element(figure)


def _plain(text: str) -> str:
    """A name as it is: Plotly reads a few elements of HTML in texts."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _name(figure: PlotlyFigure, across: str = "", up: str = "") -> None:
    """The titles of the axes, clear of their ticks."""
    figure.update_xaxes(title={"text": _plain(across), "standoff": 8})
    figure.update_yaxes(title={"text": _plain(up), "standoff": 12})


def _figure(height: int = HEIGHT) -> PlotlyFigure:
    figure = PlotlyFigure()
    figure.update_layout(
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


def _bars(places: Sequence[str], series: Series, unit: str) -> PlotlyFigure:
    shown = [_plain(place) for place in places]
    longest = max(map(len, shown), default=0) if len(shown) >= UPRIGHT else 0
    figure = _figure(HEIGHT + LETTER * longest)
    for nth, (label, values) in enumerate(series.items()):
        pattern = HATCHES[nth // len(COLOURS) % len(HATCHES)][:1]  # where colours come again
        figure.add_trace(
            {
                "type": "bar",
                "x": shown,
                "y": list(values),
                "name": _plain(label),
                "marker": {"pattern": {"shape": pattern}},
            }
        )
    figure.update_xaxes(type="category")
    _name(figure, up=unit)
    return figure


def _finite(told: Any) -> Any:
    """The same, with null for what JSON does not have."""
    if isinstance(told, dict):
        return {name: _finite(value) for name, value in told.items()}
    if isinstance(told, list | tuple):
        return [_finite(value) for value in told]
    return None if isinstance(told, float) and not math.isfinite(told) else told


def _element(figure: PlotlyFigure) -> str:
    """What the page's script draws when it is scrolled to."""
    kept = _finite({"data": figure.data, "layout": figure.layout})
    text = json.dumps(kept, separators=(",", ":"), sort_keys=True)
    text = text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    height = figure.layout.get("height", HEIGHT)
    spec = f'<script type="application/json">{text}</script>'
    return f'<div class="plot" style="min-height:{height}px">{spec}</div>'
