"""The judges of `simgen diff`, on this machine's GPU.

What layers say of their results (reference, bound of each element, spread of whole tensors) is
written against `simgen.ground.arrays`, which is NumPy. Here it is CuPy, in float64: a product of
2.3e12 operations takes a moment there. So what is judged has the bounds that are derived from its
kernels' order of summation, step by step where a layer has steps, and nothing is chosen for this
benchmark.
"""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from simgen.frontend.network import make_layer
from simgen.ground import arrays
from simgen.ground.numerics.spread import peak_limit, statistic_limit
from simgen.layers.product import matrix_product
from simgen.verdict import shares

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from simgen.ground.ir import Workload

PANEL = 2**28  # results of a product that a bound is computed for at a time


@contextmanager
def computing_with(library: Any) -> Iterator[None]:
    """Have references and bounds computed with another library of NumPy's interface."""
    before, panel = arrays.__getattr__, matrix_product.PANEL
    own = {"errstate": lambda **_: nullcontext()}  # a GPU raises nothing
    arrays.__getattr__ = lambda name: own[name] if name in own else getattr(library, name)
    matrix_product.PANEL = PANEL
    try:
        yield
    finally:
        arrays.__getattr__, matrix_product.PANEL = before, panel


def fault(library: Any, workload: Workload, tensors: Mapping[str, Any]) -> str:
    """What is wrong with what the one step of a workload has written, in words; "" if nothing is.

    `tensors` are arrays of the library, by buffer.
    """
    (step,) = workload.steps
    layer = make_layer(workload.node(step.layer), workload.machine)
    specs = {port: workload.buffer(name).spec for port, name in step.writes}
    carried = layer.carried(step.direction)
    with computing_with(library):
        known = {
            port: tensors[name].astype(library.float64)
            for port, name in (*step.reads, *(p for p in step.writes if p[0] in carried))
        }
        given = (port for port in specs if port in layer.shape_given)
        known |= {port: library.full(specs[port].shape, library.nan) for port in given}
        expected = shares.expected(layer, known, step.direction, 1, specs)
        for port, name in step.writes:
            reference, bound, spread = expected[port]
            error = abs(tensors[name].astype(library.float64) - reference)
            told = _fault(library, error, bound, spread)
            if told:
                return f"{port}: {told}"
    return ""


def _fault(library: Any, error: Any, bound: Any, spread: Any) -> str:
    outside = ~(error <= bound)
    if bool(outside.any()):
        worst = float(library.where(outside, error / bound, 0.0).max())
        return f"{int(outside.sum())} of {error.size} beyond their bound, {worst:.3g} times at most"
    z = library.where(error > 0, error / spread.sigma, 0.0)
    peak, limit = float(z.max()), peak_limit(error.size)
    if not peak <= limit:
        return f"an error of {peak:.3g} proxy standard deviations, where {limit:.3g} is the most"
    mean, limit = float((z * z).mean() ** 0.5), statistic_limit(error.size, spread.shared)
    if not mean <= limit:
        return f"errors of {mean:.3g} proxy standard deviations, where {limit:.3g} is the most"
    return ""
