"""General matrix product, y = alpha op(A) op(B) + beta c, of one pair of matrices or a batch.

    forward   y(i, j) = alpha * sum over p of  op(A)(i, p) op(B)(p, j)  +  beta * c(i, j)
    backward  dop(A) = alpha dy op(B)^T      dop(B) = alpha op(A)^T dy      dc = beta dy

    op(A)  (m, k)  a lies in memory as (m, k), with transa=true as (k, m)
    op(B)  (k, n)  b lies in memory as (k, n), with transb=true as (n, k)
    y, c   (m, n)  c is read only where beta is not zero

All matrices are stored by rows. BLAS and DeepBench store theirs by columns, which is the same
problem with the two sides exchanged: their (m, n, k, transa, transb) is (n, m, k, transb, transa)
here.

y has the element type of a. Types may differ; alone, the layer reads `type`. If a and b are i8, y
and c are i32, alpha is 1 and beta 0 or 1, as in cublasGemmEx with CUBLAS_COMPUTE_32I, and there is
only a forward pass. With scales, y is i8 (simgen/layers/requantisation.py). 8-bit floats may have
scales.

With float a, b_type selects 8- or 4-bit whole numbers for b, which represent b_scale (b -
b_zero_point). Then y = alpha b_scale sum of a (b - b_zero_point) + beta c. Columns of op(B), or
groups of group_size elements along k, may have their own scales, in b_scales. Groups need
transb=true, so that their elements are adjacent. For i4, b is stored as (n, k / 2) and always has
them (simgen/layers/product/packed.py). Such a product has only a forward pass.

In a network, `previous_layer` names the tensors a and b, and c where beta is not zero. Their last
two axes are matrices; the axes before them are the batch, the same in all. By itself, the layer
takes its extents from m, n, k and batch.

Source: SGEMM of Dongarra et al., "A Set of Level 3 Basic Linear Algebra Subprograms", 1990, and its
batched form in cuBLAS, cublasSgemmStridedBatched; MatMul of ONNX; DeepBench's GEMM tables name the
transpositions a_t and b_t.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from math import frexp, prod
from typing import TYPE_CHECKING, ClassVar

from simgen.ground.arrays import np
from simgen.ground.dtypes import DType
from simgen.ground.ir import Distribution, Fill, Kernel, Launch, Pass, TensorSpec
from simgen.ground.numerics import exactness
from simgen.ground.numerics.integers import wrapped
from simgen.ground.numerics.rounding import TINY, U
from simgen.ground.numerics.spread import Spread
from simgen.layers.base import Choice, Lowering, Port, Sums, key
from simgen.layers.epilogue import NOTHING, Epilogue
from simgen.layers.product import fragment, packed
from simgen.layers.product.elements import Elements
from simgen.layers.product.matrix_product import Product, sum_of
from simgen.layers.requantisation import (
    SCALES,
    Requantisation,
    ScaledTensors,
    factor,
    scale_key,
    zero_key,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from simgen.ground.numerics.rounding import Array
    from simgen.layers.base import Tensors

Shape = tuple[int, ...]
B_SCALES = "b_scales"


class FactorType(StrEnum):
    """Type of the elements of b, if it differs from that of its tensor."""

    OF_A = "of_a"
    I8 = "i8"
    I4 = "i4"


@dataclass(frozen=True)
class PassProduct:
    """One product of a pass: the port that it writes, and those that it multiplies."""

    port: str
    left: str
    right: str
    product: Product
    added: str | None = None

    def sides(self, tensors: Tensors) -> tuple[Array, Array]:
        """The factors as the product takes them: (batch, m, k) and (batch, k, n)."""
        left, right = _matrices(tensors[self.left]), _matrices(tensors[self.right])
        if self.product.a_transposed:
            left = left.swapaxes(1, 2)
        return left, (right.swapaxes(1, 2) if self.product.b_transposed else right)

    @property
    def partial(self) -> str:
        """Port of its workspace."""
        return "partial" if self.port == "y" else f"partial_{self.port}"


@dataclass(frozen=True)
class Gemm(ScaledTensors):
    kind = "gemm"
    section = "Gemm"
    input_names: ClassVar[tuple[str, ...]] = ("a", "b", "c")
    parameters: ClassVar[tuple[str, ...]] = (B_SCALES,)
    scaled = ("a", "b", "y")
    takes_input = False
    input_keys: ClassVar[tuple[str, ...]] = ("m", "n", "k", "batch", "type")
    any_float = True
    integers: ClassVar[tuple[DType, ...]] = (DType.I8, DType.I32)
    sample: ClassVar[Mapping[str, str]] = {"m": "256", "n": "256", "k": "256"}

    m: int = key("m", 256, "rows of y", 1)
    n: int = key("n", 256, "columns of y", 1)
    k: int = key("k", 256, "length of the sums", 1)
    batch: int = key("batch", 1, "number of pairs of matrices", 1)
    type: DType = key("type", DType.F32, "element type of a, b and c")
    transa: bool = key("transa a_t", False, "a is stored transposed")
    transb: bool = key("transb b_t", False, "b is stored transposed")
    alpha: float = key("alpha", 1.0, "factor of the product", -1e6, 1e6)
    beta: float = key("beta", 0.0, "factor of c; c is read only if it is not 0", -1e6, 1e6)
    a_scale: float = scale_key("a")
    a_zero_point: int = zero_key("a")
    b_scale: float = scale_key("b")
    b_zero_point: int = zero_key("b")
    b_type: FactorType = key(
        "b_type",
        FactorType.OF_A,
        "element type of b, where a is f32, f16 or bf16",
        of_integers=True,
    )
    b_scale_per_channel: bool = key(
        "b_scale_per_channel",
        False,
        f"has each column of op(B) a b_scale of its own, in {B_SCALES}, where b_type is i8 or i4?",
        of_integers=True,
    )
    group_size: int = packed.group_key("b")
    y_scale: float = scale_key("y")
    y_zero_point: int = zero_key("y")

    @property
    def _scales(self) -> tuple[float, float]:
        """alpha and beta as float32 numbers."""
        return float(np.float32(self.alpha)), float(np.float32(self.beta))

    @property
    def forward_only(self) -> str:
        if self._stored:
            return f"with b of {self.b_type}"
        return "with scales" if self.y_scale else ""

    @property
    def _stored(self) -> packed.Weights | None:
        """How b lies, where it has integers beside floats."""
        if self.b_type is FactorType.OF_A:
            return None
        return packed.Weights(
            "b",
            8 if self.b_type is FactorType.I8 else 4,
            self.b_scale,
            self.b_zero_point,
            self.group_size,
            self.b_scale_per_channel,
        )

    @property
    def _added(self) -> str | None:
        """The port of what is added, where anything is."""
        return "c" if self._scales[1] != 0 else None

    @property
    def takes(self) -> tuple[str, ...]:
        return self.input_names if self._added else ("a", "b")

    def by_sample(self, inputs: tuple[TensorSpec, ...]) -> bool:
        return bool(inputs) and len(inputs[0].shape) > 2

    def _specs(self, inputs: tuple[TensorSpec, ...]) -> dict[str, TensorSpec]:
        """Specs of a, b, c and y.

        Raises:
            ValueError: the inputs do not fit together.
        """
        shapes = self._shapes(inputs)
        shapes |= {"c": shapes["y"]}
        types = tuple(each.dtype for each in inputs)
        self._check_types(*(self._dtype(name, types) for name in ("a", "b", "c")))
        if self._stored:
            self._check_stored(self._stored, shapes, types[0] if types else self.type)
        else:
            packed.check_unused("b", self.group_size, per_channel=self.b_scale_per_channel)
        return {name: TensorSpec(shapes[name], self._dtype(name, types)) for name in shapes}

    def _check_stored(
        self, stored: packed.Weights, shapes: Mapping[str, Shape], beside: DType
    ) -> None:
        """`beside` is the type of a.

        Raises:
        ValueError: b is stored as no kernel reads it.
        """
        for each in ("a_scale", "a_zero_point", "y_scale", "y_zero_point"):
            if getattr(self, each):
                fact = f"{each} is given beside b_type={self.b_type}, and a is no i8"
                raise ValueError(f"{fact}; leave it out, or take i8")
        k = self._inner(shapes["a"])
        stored.check(k, beside)
        if stored.group(k) and not self.transb:
            fact = "b has scales of groups along k, and transb is false"
            raise ValueError(f"{fact}; give b as (n, k), and transb=true")
        if stored.by_column and prod(shapes["y"][:-2]) > 1:
            fact = f"b_scale_per_channel is given, and there are {prod(shapes['y'][:-2])} products"
            raise ValueError(f"{fact}; leave it out, or let group_size be k, which is {k}")

    def _inner(self, a: Shape) -> int:
        """k, of the shape of a."""
        return a[-2 if self.transa else -1]

    def _dtype(self, name: str, types: tuple[DType, ...]) -> DType:
        """Type of a, b, c or y for given input types; y has the type of products of a."""
        given = dict(zip(self.takes, types))
        if name == "b" and self._stored and not given:
            return DType.I8
        if name == "y":
            a = given.get("a", self.type)
            return Epilogue(requantisation=self.requantisation(a)).result(a)
        return given.get(name, self.type.product if name == "c" else self.type)

    def _check_types(self, a: DType, b: DType, c: DType) -> None:
        """Raises:
        ValueError: some are integers, and no kernel computes with these, or scales them so.
        """
        alpha, beta = self._scales
        if self._stored and a.is_float and b == DType.I8 and c.is_float:
            return
        if self._stored:
            fact = f"b_type is {self.b_type}, a is {a} and b {b}"
            raise ValueError(f"{fact}; let a be f32, f16 or bf16, and b i8, or leave b_type out")
        if all(each.is_float for each in (a, b, c)):
            return
        if (a, b) != (DType.I8, DType.I8) or (self._added and c != DType.I32):
            both = f"a is {a}, b is {b}" + (f", c is {c}" if self._added else "")
            raise ValueError(f"{both}; of integers, a and b are i8, and c is i32")
        if alpha != 1 or beta not in (0, 1):
            fact = f"alpha is {alpha:g} and beta {beta:g}"
            raise ValueError(f"{fact}, but sums of i8 are integers; let alpha be 1, beta 0 or 1")

    def _is_integer(self) -> bool:
        """Whether all are integers."""
        return not self._dtype("a", self.types).is_float

    def requantisation(self, dtype: DType) -> Requantisation:
        """What is done to sums, where a has a type."""
        if self._stored and dtype.is_float:
            return self._stored.requantisation
        return super().requantisation(dtype)

    def _shapes(self, inputs: tuple[TensorSpec, ...]) -> dict[str, Shape]:
        """Shapes of a, b and y (c is like y).

        Raises:
            ValueError: the inputs do not fit together.
        """
        if inputs:
            names = ", ".join(self.takes)
            if len(inputs) != len(self.takes):
                why = "beta is not 0" if len(self.takes) == 3 else "beta is 0"
                raise ValueError(
                    f"as {why}, [{self.section}] needs {names}, and previous_layer names "
                    f"{len(inputs)}; name each of them, such as an [Input]"
                )
            given = {name: each.shape for name, each in zip(self.takes, inputs)}
            return given | {"y": self._result(given)}
        batch: Shape = (self.batch,) if self.batch > 1 else ()
        a = (self.k, self.m) if self.transa else (self.m, self.k)
        b = (self.n, self.k) if self.transb else (self.k, self.n)
        if self._stored:
            b = (*b[:-1], b[-1] // self._stored.per_byte)
        return {"a": (*batch, *a), "b": (*batch, *b), "y": (*batch, self.m, self.n)}

    def _result(self, given: Mapping[str, Shape]) -> Shape:
        """The shape of y for those of the inputs."""
        for name, shape in given.items():
            if len(shape) < 2:
                raise ValueError(f"{name} is {_times(shape)}, no matrix; take another tensor")
        (*batch, a0, a1), (*other, b0, b1) = given["a"], given["b"]
        b1 *= self._stored.per_byte if self._stored else 1
        (m, k), (inner, n) = (
            (a1, a0) if self.transa else (a0, a1),
            (b1, b0) if self.transb else (b0, b1),
        )
        both = f"a is {_times(given['a'])} and b is {_times(given['b'])}"
        if batch != other:
            raise ValueError(f"{both}; give them the same axes before the last two")
        if k != inner:
            cure = "give them the same, or set transa or transb"
            raise ValueError(f"{both}, so that k is {k} in one and {inner} in the other; {cure}")
        y = (*batch, m, n)
        if given.get("c", y) != y:
            raise ValueError(f"c is {_times(given['c'])}, but y is {_times(y)}; make them alike")
        return y

    def _parts(self, specs: Mapping[str, TensorSpec], direction: Pass) -> tuple[PassProduct, ...]:
        """The products of a pass, from a, b, c and y."""
        y = specs["y"]
        *_, m, n = y.shape
        k = self._inner(specs["a"].shape)
        batch = prod(y.shape[:-2])
        ta, tb = self.transa, self.transb
        if direction is Pass.FORWARD:
            sides = (m, n, k, ta, tb)
            return (self._part("y", "a", "b", sides, specs, batch, self._added),)
        # If a side is stored transposed, so is its gradient: it is the transposed product.
        da, db = (m, k, n, False, not tb), (k, n, m, not ta, False)
        from_dy, from_a = ("dy", "b"), ("a", "dy")
        if ta:
            da, from_dy = (k, m, n, tb, True), ("b", "dy")
        if tb:
            db, from_a = (n, k, m, True, ta), ("dy", "a")
        return (
            self._part("da", *from_dy, da, specs, batch),
            self._part("db", *from_a, db, specs, batch),
        )

    def _part(
        self,
        port: str,
        left: str,
        right: str,
        sides: tuple[int, int, int, bool, bool],
        specs: Mapping[str, TensorSpec],
        batch: int,
        added: str | None = None,
    ) -> PassProduct:
        """One product; `sides` are m, n, k and whether its sides lie transposed."""

        def dtype(name: str) -> DType:
            return specs[name.removeprefix("d")].dtype

        alpha, beta = self._scales
        whole = not dtype(left).is_float
        stored = self._stored
        if not whole and port == "y":
            own = stored.alpha if stored else factor(self.scales)
            alpha = float(np.float32(alpha * own))
        more = dtype(left).product if whole else dtype(added or port)
        zeros = (self.a_zero_point, self.b_zero_point) if whole else (0, 0)
        scaled = whole or (stored is not None and port == "y")
        made = Epilogue(requantisation=self.requantisation(dtype(left))) if scaled else NOTHING
        elements = Elements(dtype(left), dtype(right), more, dtype(port), zeros)
        if stored and port == "y":
            elements = stored.beside(elements, sides[2])
        product = Product(
            *sides,
            alpha,
            beta if added else 0.0,
            batch=batch,
            epilogue=made,
            elements=elements,
            machine=self.machine,
        )
        return PassProduct(port, left, right, product, added)

    def output(self, inputs: tuple[TensorSpec, ...]) -> TensorSpec:
        specs = self._specs(inputs)
        whole = not specs["a"].dtype.is_float or self._stored  # which have no gradients
        for direction in (Pass.FORWARD,) if whole else self.passes:
            for part in self._parts(specs, direction):
                part.product.check()
        return specs["y"]

    def work(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[int, int]:
        """2 m n k for each product, and for each result one multiplication by alpha, unless it is
        1; one multiply-add with beta, unless that is 0."""
        specs = self._specs(inputs)
        flops = sum(
            part.product.batch
            * part.product.m
            * part.product.n
            * (2 * part.product.k + (part.product.alpha != 1))
            for part in self._parts(specs, direction)
        )
        size = specs["c"].size if self._added else 0
        return flops + (2 * size if direction is Pass.FORWARD else size), 0

    def ports(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[Port, ...]:
        specs = self._specs(inputs)
        # Results of about one, whatever k is.
        a, b, y = (specs[name] for name in ("a", "b", "y"))
        k = a.shape[-2 if self.transa else -1]
        normal, weights = Fill.usual(a.dtype), Fill.usual(b.dtype, k**-0.5)
        read = (Port("a", a, normal), Port("b", b, weights))
        workspaces = (
            Port(name, spec, scratch=True)
            for part in self._parts(specs, direction)
            for name, spec in part.product.workspaces(part.partial).items()
        )
        if direction is Pass.FORWARD:
            c = (Port("c", specs["c"], self._fill(specs["c"].dtype)),) if self._added else ()
            return (*read, *self._scales_of_b(specs), *c, Port("y", y), *workspaces)
        dc = (Port("dc", specs["c"]),) if self._added else ()
        return (*read, Port("dy", y, normal), Port("da", a), Port("db", b), *dc, *workspaces)

    def _scales_of_b(self, specs: Mapping[str, TensorSpec]) -> tuple[Port, ...]:
        if not self._stored:
            return ()
        a, y = specs["a"], specs["y"]
        rows = (*y.shape[:-2], y.shape[-1])
        made = self._stored.scales(rows, self._inner(a.shape), a.dtype)
        return tuple(Port(B_SCALES, each, self._stored.fill) for each in made)

    def _fill(self, c: DType) -> Fill:
        """Integers that are not narrowed have more than the 24 bits of a factor."""
        if c.is_float or self.y_scale:
            return Fill.usual(c)
        return Fill(Distribution.UNIFORM, -(2.0**28), 2.0**28)

    def lower(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Lowering:
        specs = self._specs(inputs)
        prefix = f"gemm_{direction}"
        kernels: list[Kernel] = []
        launches: list[Launch] = []
        for part in self._parts(specs, direction):
            scales = (B_SCALES,) * bool(part.product.elements.group)
            made = part.product.lower(
                prefix, part.left, part.right, part.added, part.port, part.partial, scales
            )
            kernels += made[0]
            launches += [_with_own_scales(launch) for launch in made[1]]
        beta = self._scales[1]
        if direction is Pass.BACKWARD and beta != 0:
            c, y = specs["c"], specs["y"]
            scaled, grid = sum_of(
                self.machine, f"{prefix}_c", 1, c.size, (beta, 0.0), of=y.dtype, result=c.dtype
            )
            kernels.append(scaled)
            launches.append(Launch(scaled.name, grid, ("dy", "dc")))
        return Lowering(tuple(dict.fromkeys(kernels)), tuple(launches))

    def moves(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[str, ...]:
        parts = self._parts(self._specs(inputs), direction)
        read = ("a", "b", B_SCALES, "c", "dy", "dc")
        return (*read, *(part.port for part in parts if part.product.stores))

    def choices(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[Choice, ...]:
        parts = self._parts(self._specs(inputs), direction)
        return tuple(choice for part in parts for choice in part.product.choices)

    def tiles(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Mapping[str, int]:
        if inputs or direction is not Pass.FORWARD:
            return {}
        (part,) = self._parts(self._specs(inputs), direction)
        steps = zip("mnk", part.product.tiled, strict=True)
        return {key: step for key, step in steps if step}

    def _parts_of(self, tensors: Tensors, direction: Pass) -> tuple[PassProduct, ...]:
        """The products of a pass over these tensors."""
        read = {name: tensors[name].shape for name in ("a", "b")}
        shapes = {**read, "y": self._result(read)}
        shapes |= {"c": shapes["y"]}
        specs = {
            name: TensorSpec(shape, self._dtype(name, self.types)) for name, shape in shapes.items()
        }
        return self._parts(specs, direction)

    def _each(
        self, tensors: Tensors, direction: Pass, method: Callable[..., Array], *more: Tensors
    ) -> dict[str, Array]:
        """Port -> what `method` gives for each matrix, of a part, its factors and `more`."""
        found = {}
        for part in self._parts_of(tensors, direction):
            others = [_matrices(each[part.port]) for each in more]
            left, right = self._sides(part, tensors)
            made = [method(part, *given) for given in zip(left, right, *others, strict=True)]
            found[part.port] = np.stack(made).reshape(self._shape_of(part.port, tensors))
        return found

    def _shape_of(self, port: str, tensors: Tensors) -> Shape:
        """Shape of an output port, from the tensors that the pass reads."""
        read = {name: tensors[name].shape for name in ("a", "b")}
        return self._result(read) if port == "y" else read[port.removeprefix("d")]

    def _sides(self, part: PassProduct, tensors: Tensors) -> tuple[Array, Array]:
        """The factors of a part as numbers, but for scales of all and of columns."""
        if not self._stored:
            return part.sides(tensors)
        b = self._stored.numbers(tensors["b"], tensors.get(B_SCALES), part.product.taken)
        return part.sides({**tensors, "b": b})

    def _columns(self, tensors: Tensors) -> Array | float:
        """The scales of columns of floats; 1 where there are none."""
        return tensors[B_SCALES] if self._stored and self._stored.by_column else 1.0

    def reference(self, tensors: Tensors, direction: Pass) -> Tensors:
        columns = self._columns(tensors)

        def product(part: PassProduct, a: Array, b: Array) -> Array:
            if self._is_integer():
                a, b = a - self.a_zero_point, b - self.b_zero_point
            y: Array = part.product.alpha * columns * (a @ b)
            return y

        made = self._each(tensors, direction, product)
        beta = self._scales[1]
        if beta != 0 and direction is Pass.FORWARD:
            made["y"] = made["y"] + beta * tensors["c"]
        elif beta != 0:
            made["dc"] = beta * tensors["dy"]
        if self._is_integer():
            requantisation = self.requantisation(self._dtype("a", self.types))
            made = {port: requantisation.of(wrapped(each)) for port, each in made.items()}
        return made

    def tolerance(self, tensors: Tensors, direction: Pass) -> Tensors:
        columns = self._columns(tensors)

        def bound(part: PassProduct, a: Array, b: Array, y: Array) -> Array:
            found = part.product.bound(a, b, y, columns)
            if part.added and np.ndim(columns):
                # The scaled sum is rounded before c is added, which may leave less of it; and it
                # is rounded for its column beside alpha.
                found += 2 * U * np.abs(part.product.alpha * columns * (a @ b))
            return found + U * np.abs(y) if np.ndim(columns) else found

        wanted = self.reference(tensors, direction)
        made = self._each(tensors, direction, bound, wanted)
        if "dc" in wanted:  # one product, exact where beta is a power of two
            error = 0.0 if abs(frexp(self._scales[1])[0]) == 0.5 else U
            made["dc"] = error * np.abs(wanted["dc"]) + TINY
        return made

    def spread(self, tensors: Tensors, direction: Pass, tolerance: Tensors) -> Mapping[str, Spread]:
        columns = self._columns(tensors)

        def sigma(part: PassProduct, a: Array, b: Array, y: Array, hard: Array) -> Array:
            return part.product.spread(a, b, y, hard, columns)

        wanted = self.reference(tensors, direction)
        found = {**tolerance, **self._each(tensors, direction, sigma, wanted, tolerance)}
        return {port: Spread(values) for port, values in found.items()}

    def sums(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Sums | None:
        parts = self._parts(self._specs(inputs), direction)
        growth = self._stored.growth if self._stored else 1
        return Sums(max(part.product.k + (part.product.beta != 0) for part in parts), growth)

    def exact(self, tensors: Tensors, direction: Pass) -> Tensors:
        if self._is_integer():
            return self.reference(tensors, direction)
        found = {}
        for part in self._parts_of(tensors, direction):
            a, b = self._sides(part, tensors)
            added = tensors[part.added] if part.added else None
            columns = self._columns(tensors)
            if np.ndim(columns) and (added is not None or part.product.alpha != 1):
                continue  # it is rounded more than once
            c = None if added is None else _matrices(added)
            made = _exact(part.product, a, b, c, columns)
            if made is not None:
                found[part.port] = made.reshape(self._shape_of(part.port, tensors))
        beta = self._scales[1]
        if direction is Pass.BACKWARD and beta != 0 and exactness.grain(tensors["dy"]):
            found["dc"] = exactness.scaled(tensors["dy"], beta)
        return found


def _with_own_scales(launch: Launch) -> Launch:
    """The port that gives channels their scales has the name of b's."""
    return replace(launch, args=tuple(B_SCALES if arg == SCALES else arg for arg in launch.args))


def _exact(
    product: Product, a: Array, b: Array, c: Array | None, columns: Array | float
) -> Array | None:
    """The results that are not rounded, or once, by a factor; NaN elsewhere. None where all are."""
    grain = exactness.grain(a, b)
    if not grain or not fragment.keeps_factors(product.machine, a, b, dtype=product.elements.left):
        return None
    alpha, beta = product.alpha, product.beta
    magnitudes = np.abs(a) @ np.abs(b)
    if c is None:  # the product with alpha is the one that is rounded
        return exactness.scaled(exactness.settled(a @ b, magnitudes, grain), alpha * columns)
    scales = [exactness.grain(np.array([scale])) for scale in (alpha, beta)]
    least = min(grain, grain * scales[0], exactness.grain(c) * scales[1])
    total = np.maximum(1.0, abs(alpha)) * magnitudes + np.abs(beta * c)
    return exactness.settled(alpha * (a @ b) + beta * c, total, least)


def _matrices(tensor: Array) -> Array:
    """(batch, rows, columns): all axes before the last two are one."""
    return tensor.reshape(-1, *tensor.shape[-2:])


def _times(shape: Shape) -> str:
    return " x ".join(map(str, shape))
