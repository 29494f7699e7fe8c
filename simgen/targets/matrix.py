"""Whether a target's machine has the matrix instructions that a workload is planned with.

A plan is for one machine, and a bundle may have targets of others. What multiplies by matrix
instructions there runs nowhere else: the order of its sums and its places in LDS are theirs. The
host emulates them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simgen.compile.legalise import as_it_says, support
from simgen.errors import RefusedError
from simgen.ir import DType
from simgen.machine import TF32, Matrix, named

if TYPE_CHECKING:
    from simgen.ir import Kernel, Workload
    from simgen.machine import ProductRounding
    from simgen.targets.base import Target

LANES = 64  # of an AMD wavefront; half as many of a warp
SCALARS = "scalars"  # constant `multiply` of kernels without
# Constants of kernels: the type of factors in C++, where it is not float.
STORED = ("leftelement", "filterelement", "resultelement")
NIBBLES = "Nibbles<"  # how the type of factors of i4 starts


def instruction(kernel: Kernel) -> Matrix | None:
    """The matrix instruction of a kernel, or None."""
    constants = dict(kernel.constants)
    types = {dtype.c: dtype for dtype in DType.table.values()}
    if constants.get("with_matrix"):  # a time step's, mma.sync of 16-bit floats
        factors = types[str(constants["weightelement"])]
        return Matrix(16, 8, 16, factors.name, factors.accumulation.name)
    if constants.get("multiply", SCALARS) == SCALARS:
        return None
    side, each = int(constants["matrix_side"]), int(constants["matrix_each"])
    shape = side, side, each * LANES // side
    if constants["multiply"] == "wmma":  # whose lanes may hold the same elements twice
        shape = side, side, side
    if constants["multiply"] == "mma":  # 16 x 8, of whose first factor a lane gives EACH elements
        shape = 16, 8, each * LANES // 2 // 16
    if constants.get("tensor_maps"):  # wgmma, 64 x N, whose first factor lies in LDS
        shape = 64, int(constants["tile_n"]), each * LANES // 2 // 64
    stored = [str(constants[name]) for name in STORED if name in constants]
    factors = types.get(stored[0], DType.F32) if stored else DType.F32
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
                f"{form}; build with --matrix no, or with --plan-for {machine.name}"
            )
        if target.model and target.model.simulator == "gem5" and ends_gem5(kernel):
            constants = dict(kernel.constants)
            tile = f"{constants['tile_m']}x{constants['tile_n']}x{constants['tile_k']}"
            raise RefusedError(
                f"{target.name}: kernel {kernel.name}: with weights of i4 on matrix instructions, "
                f"tiles of {tile} leave a wavefront nothing to load, and gem5 may end at the next "
                "launch; build with --matrix no"
            )


def ends_gem5(kernel: Kernel) -> bool:
    """Whether a kernel multiplies weights of i4 by MFMA, in tiles of which one has a load in which
    a wavefront of the work-group has no part.

    Seen to panic at the next launch ("LM write counter for wavefront non-zero") with a tile of
    16x64x32: 128 loads of the first factor for 256 work-items (the second has two for each). Of
    f16 beside i4, kernels in which all wavefronts load were seen to run. The cause, a write to LDS
    that no lane makes and that stays counted, is inferred, not proven.
    """
    constants = dict(kernel.constants)
    if constants.get("multiply") != "mfma":
        return False
    if not str(constants.get("rightelement", "")).startswith(NIBBLES):
        return False
    rows, columns = int(constants["tile_m"]), int(constants["tile_n"])
    items = rows // int(constants["item_m"]) * (columns // int(constants["item_n"]))
    loads = (
        extent * int(constants["tile_k"]) // int(constants[width])
        for extent, width in ((rows, "left_width"), (columns, "right_width"))
    )
    # The last of a work-item's loads is made by the first `each % items`: whole wavefronts are left
    # out where those are no more than all wavefronts but one.
    return any(0 < each % items <= items - LANES for each in loads)
