"""Whether a target's machine has the matrix instructions that a workload is planned with.

A plan is for one machine, and a bundle may have targets of others. What multiplies by matrix
instructions there runs nowhere else: the order of its sums and its places in LDS are theirs. The
host emulates them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simgen.ask.build import BuildChoices
from simgen.errors import RefusedError
from simgen.ground.ir import DType, Kernel, Workload
from simgen.ground.machine import TF32, Matrix, ProductRounding, named
from simgen.isa.legalise import as_it_says, support
from simgen.layers.product import fragment

if TYPE_CHECKING:
    from simgen.targets.base import Target

LANES = 64  # lanes of an AMD wavefront; a warp has half as many
SCALARS = "scalars"  # constant `multiply` of kernels without
ATTENTION = "attention_matrix.hip"
# Constants of kernels: the type of factors in C++, where it is not float.
STORED = ("leftelement", "filterelement", "resultelement")


def instruction(kernel: Kernel) -> Matrix | None:
    """The matrix instruction of a kernel, or None."""
    constants = dict(kernel.constants)
    types = {dtype.c: dtype for dtype in DType.table.values()}
    if constants.get("with_matrix"):  # a time step's, mma.sync of 16-bit floats
        factors = types[str(constants["weightelement"])]
        return Matrix(16, 8, 16, factors.name, factors.accumulation.name)
    if kernel.template == ATTENTION:
        factors = types[str(constants["element"])]
        return Matrix(16, 8, 16, factors.name, factors.accumulation.name)
    if constants.get("multiply", SCALARS) == SCALARS:
        return None
    side, each = int(constants["matrix_side"]), int(constants["matrix_each"])
    shape = side, side, each * LANES // side
    if constants["multiply"] == "wmma":  # WMMA lanes may hold the same elements twice
        shape = side, side, side
    if constants["multiply"] == "mma":  # 16 x 8, of whose first factor a lane gives EACH elements
        shape = 16, 8, each * LANES // 2 // 16
    stored = [str(constants[name]) for name in STORED if name in constants]
    factors = types.get(stored[0], DType.F32) if stored else DType.F32
    if constants.get("tensor_maps"):  # wgmma, 64 x N, whose first factor lies in LDS
        columns = fragment.multiplied_at_once(int(constants["tile_n"]), factors.name)
        shape = 64, columns, each * LANES // 2 // 64
    if constants["multiply"] == "mma" and factors == DType.F32:
        return Matrix(*shape, TF32, factors.name)
    return Matrix(*shape, factors.name, factors.accumulation.name)


def rounds_products(
    target: Target, workload: Workload, said: str = ""
) -> tuple[ProductRounding, ...]:
    """How the target's simulator rounds products of the workload's matrix instructions to the type
    of their factors, before it adds them up. A GPU keeps them exact.

    `said` is the version that the simulator says it is, if it has run.
    """
    if target.model is None:
        return ()
    used = {found.factors for kernel in workload.kernels if (found := instruction(kernel))}
    wrong = support(as_it_says(target.model, said)).rounds_products
    return tuple(each for each in wrong if each.factors in used)


def notes(target: Target, workload: Workload) -> list[str]:
    """What a build tells of a target, in lines."""
    model = target.model
    return [
        f"{target.name}: {model.simulator} {model.version} rounds each product of {each.factors} "
        f"matrix instructions to {each.factors}, which GPUs do not; diff allows for that in its "
        "results"
        for each in rounds_products(target, workload)
        if model
    ]


def check(target: Target, workload: Workload) -> None:
    """Refuse a workload whose matrix instructions the target's machine lacks, or that would end
    its simulator.

    Raises:
        RefusedError: it lacks one, or ends at a kernel.
    """
    if target.machine is None:
        return
    machine = named(target.machine)
    for kernel in workload.kernels:
        found = instruction(kernel)
        if found and found not in machine.matrix:
            form = f"{found.m}x{found.n}x{found.k} {found.factors}"
            raise RefusedError(
                f"{target.name}: kernel {kernel.name}: {machine.name} has no matrix instruction "
                f"{form}; build with {BuildChoices.matrix} no, or with "
                f"{BuildChoices.plan_for} {machine.name}"
            )
