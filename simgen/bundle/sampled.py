"""Results of runs that simulate a sample of a launch's work-groups: which elements were computed.

Each work-group writes elements that its kernel declares (simgen/layers/written.py). Those of groups
that did not run are NaN in a result, or 0 where the type has none, and are judged by nobody. A
launch that reads a tensor of which elements are missing computes nothing that can be judged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from simgen.layers.written import DECLARED, declaration
from simgen.layers.written_elements import elements, of_groups

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from simgen.ground.ir import Kernel, Launch, Workload
    from simgen.workload.samples import Sample

    Mask = NDArray[np.bool_]

KEY = "samples"  # in the provenance


def computed(workload: Workload, step: int, samples: Mapping[int, Sample]) -> dict[str, Mask]:
    """For a step with sampled launches, the computed elements of each buffer that it writes: flat
    masks. Empty for a step without samples."""
    launches, first = workload.steps[step].launches, workload.first_launches[step]
    if not any(first + at in samples for at in range(len(launches))):
        return {}
    found: dict[str, Mask] = {}
    for at, launch in enumerate(launches):
        spoilt = any(
            not found[name].all() for name in _buffers_read(workload, launch) if name in found
        )
        for name, places in _written(workload, launch, samples.get(first + at)).items():
            mask = found.setdefault(name, np.zeros(workload.buffer(name).spec.size, bool))
            mask[places] = not spoilt
    return {name: found[name] for _, name in workload.steps[step].writes if name in found}


def is_declared(kernel: Kernel) -> bool:
    """Whether it is known which elements its work-groups write."""
    return kernel.template.partition(".")[0] in DECLARED


def _buffers_read(workload: Workload, launch: Launch) -> set[str]:
    """Buffers that a launch reads, as far as it is declared which it only writes."""
    declared = _declared(workload, launch)
    only = {launch.args[each.argument] for each in declared if not each.again}
    return set(launch.args) - only


def _written(
    workload: Workload, launch: Launch, sample: Sample | None
) -> dict[str, NDArray[np.int64]]:
    """Buffer -> the elements that a launch, or a sample of it, writes there."""
    found: dict[str, NDArray[np.int64]] = {}
    for each in _declared(workload, launch):
        name, offset = launch.places[each.argument]
        own = of_groups(each, launch.grid, sample.numbers()) if sample else elements(each)
        own = own + offset // workload.buffer(name).spec.dtype.nbytes
        found[name] = np.concatenate([found[name], own]) if name in found else own
    return found


def _declared(workload: Workload, launch: Launch) -> Sequence[Any]:
    kernel = workload.kernel(launch.kernel)
    return list(declaration(kernel)(dict(kernel.constants), kernel.block))


def blank(values: NDArray[Any], mask: Mask) -> NDArray[Any]:
    """A tensor without what was not computed."""
    flat = values.reshape(-1).copy()
    flat[~mask] = np.nan if flat.dtype.kind not in "iub" else 0
    return flat.reshape(values.shape)
