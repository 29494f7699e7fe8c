"""One operation of a library, in the words of libraries and of the lists of problems.

    string ::= FAMILY ":" KEY "=" VALUE { "," KEY "=" VALUE }

    gemm:m=5124,n=700,k=2048,ta=0,tb=0,batch=1,alpha=1,beta=0,type=f16
    conv:n=8,c=64,h=56,w=56,k=64,r=3,s=3,pad=1,stride=1,passes=fwd+bwd_data,type=f16
    rnn:cell=lstm,hidden=512,batch=16,steps=25,input=skip,passes=fwd
    sparse:m=7680,n=1,k=2560,sparsity=0.95
    allreduce:elements=100000

Keys that differ from their defaults are given in any order. `pad`, `stride` and `dilation` stand
for both axes (`pad_h`, `pad_w`, ...). An operation is written one way, by `str`, and that is read
as the same operation again.

A gemm is that of BLAS: c = alpha op(a) op(b) + beta c, with all matrices stored by columns. [Gemm]
stores them by rows, and the transposed of a matrix by columns is the same memory by rows. So the
problem there is c^T = alpha op(b)^T op(a)^T + beta c^T: (m, n, k, ta, tb) is (n, m, k, tb, ta), b
is its tensor a, and a its tensor b.

Nothing here is about kernels: a family whose layer simgen does not have can be read and written.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from enum import StrEnum
from typing import Any, ClassVar, Self, get_type_hints

from simgen.ask.build import Destination
from simgen.ask.choice import option
from simgen.errors import ConfigError, UnsupportedError, did_you_mean, printable
from simgen.frontend.config import Entry, Place, Section
from simgen.ground.ir import Pass
from simgen.layers.all_reduce import Route
from simgen.layers.base import check_range, parse_value
from simgen.layers.layout import FilterLayout, Layout
from simgen.layers.recurrent.cells import RecurrentCell
from simgen.layers.recurrent.recurrent import InputMode

FAMILIES: dict[str, type[LibraryOperation]] = {}  # by name
Passes = tuple[Pass, ...]
TYPES = ("f32", "f16", "bf16", "i8")  # types of libraries' operations; `i8` is summed up in i32


def field_of(default: Any = None, *, least: float | None = 1, most: float | None = None) -> Any:
    """A field of an operation, with its range; without a default, it has to be given."""
    usual = MISSING if default is None else default
    return field(default=usual, metadata={"least": least, "most": most})


@dataclass(frozen=True)
class LibraryOperation(ABC):
    """One operation. Its fields are the keys of problem strings, in their order."""

    family: ClassVar[str]
    title: ClassVar[str]  # for people
    both: ClassVar[Mapping[str, tuple[str, str]]] = {}  # a key that stands for two

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        FAMILIES[cls.family] = cls

    @property
    @abstractmethod
    def type(self) -> str:
        """The element type of what is read: one of TYPES."""

    @property
    def direction(self) -> Passes:
        """The passes that are run."""
        return (Pass.FORWARD,)

    @property
    def flops(self) -> float:
        """Floating-point operations in all passes; a multiply-add counts as two."""
        return 0.0

    @property
    def notes(self) -> tuple[str, ...]:
        """What a user has to know to find the operation's tensors in the workload."""
        return ()

    @abstractmethod
    def section(self, where: Place) -> Section:
        """The layer that does it, as a config says it.

        Raises:
            UnsupportedError: simgen's layer does not do all of it.
        """

    @classmethod
    def read(cls, texts: Iterable[tuple[str, str]], where: object) -> Self:
        """The operation with these keys and values.

        Raises:
            ConfigError: an unknown key, one given twice, a value that it does not take, or no value
                for a key that has no default.
        """
        own = {each.name: each for each in fields(cls)}
        kinds = get_type_hints(cls)
        found: dict[str, Any] = {}
        for key, text in texts:
            targets = cls.both.get(key, (key,))
            for name in targets:
                if name not in own:
                    cure = did_you_mean(key, [*own, *cls.both])
                    raise ConfigError(where, f"{cls.family} has no key {printable(key)}; {cure}")
                if name in found:
                    raise ConfigError(where, f"{name} is given twice; keep one of them")
                found[name] = _value(kinds[name], own[name].metadata, key, text, where)
        lacking = [n for n, each in own.items() if n not in found and not _has_default(each)]
        if lacking:
            fact = f"{cls.family} has no {', '.join(lacking)}"
            raise ConfigError(where, f"{fact}; give what it lacks, as in {cls.sample()}")
        return cls(**found)

    @classmethod
    def sample(cls) -> str:
        """A problem string of what has to be given."""
        needed = [each.name for each in fields(cls) if not _has_default(each)]
        return f"{cls.family}:{','.join(f'{name}=...' for name in needed)}"

    def non_default(self) -> dict[str, str]:
        """Key -> value of all that is not at its default."""
        usual = {each.name: each.default for each in fields(self)}
        given = {n: getattr(self, n) for n in usual if getattr(self, n) != usual[n]}
        for key, (first, second) in self.both.items():
            if first in given and given[first] == given.get(second):
                given = {key if n == first else n: v for n, v in given.items() if n != second}
        return {name: _text(value) for name, value in given.items()}

    def __str__(self) -> str:
        values = ",".join(f"{key}={value}" for key, value in self.non_default().items())
        return f"{self.family}:{values}"


@dataclass(frozen=True)
class GemmOperation(LibraryOperation):
    family = "gemm"
    title = "a product of matrices"

    m: int = field_of()  # rows of c
    n: int = field_of()  # columns of c
    k: int = field_of()
    ta: bool = field_of(False)  # a is (m, k), with ta (k, m)
    tb: bool = field_of(False)  # b is (k, n), with tb (n, k)
    batch: int = field_of(1)
    alpha: float = field_of(1.0, least=-1e6, most=1e6)
    beta: float = field_of(0.0, least=-1e6, most=1e6)
    type: str = field_of("f32")

    @property
    def flops(self) -> float:
        return 2.0 * self.m * self.n * self.k * self.batch

    @property
    def notes(self) -> tuple[str, ...]:
        return (
            "matrices by columns, as in BLAS: [Gemm], which has them by rows, gets m and n "
            "exchanged, b as its a, and a as its b",
        )

    def section(self, where: Place) -> Section:
        given = {
            "m": self.n,
            "n": self.m,
            "k": self.k,
            "transa": self.tb,
            "transb": self.ta,
            "batch": self.batch,
            "alpha": self.alpha,
            "beta": self.beta,
        }
        return _section("Gemm", self.family, given, where)


class FilterMode(StrEnum):
    CROSS = "cross"  # cross-correlation
    CONV = "conv"  # filters turned by 180 degrees


@dataclass(frozen=True)
class ConvOperation(LibraryOperation):
    family = "conv"
    title = "a convolution"
    both: ClassVar[Mapping[str, tuple[str, str]]] = {
        name: (f"{name}_h", f"{name}_w") for name in ("pad", "stride", "dilation")
    }

    n: int = field_of()  # images
    c: int = field_of()  # channels of the image
    h: int = field_of()
    w: int = field_of()
    k: int = field_of()  # filters
    r: int = field_of()  # rows of a filter
    s: int = field_of()  # columns of a filter
    pad_h: int = field_of(0, least=0)
    pad_w: int = field_of(0, least=0)
    stride_h: int = field_of(1)
    stride_w: int = field_of(1)
    dilation_h: int = field_of(1)
    dilation_w: int = field_of(1)
    group: int = field_of(1)
    mode: FilterMode = field_of(FilterMode.CROSS)
    bias: bool = field_of(False)
    layout: Layout = field_of(Layout.NCHW)  # layout of images and results
    filter_layout: FilterLayout = field_of(FilterLayout.KCRS)
    passes: Passes = field_of((Pass.FORWARD,))
    type: str = field_of("f32")

    PASSES: ClassVar[Passes] = (Pass.FORWARD, Pass.BACKWARD_DATA, Pass.BACKWARD_WEIGHT)

    @property
    def direction(self) -> Passes:
        return self.passes

    @property
    def extents(self) -> tuple[int, int]:
        """Height and width of an image of the result; not above 0 where no filter fits."""
        rows = self.h + 2 * self.pad_h - (self.r - 1) * self.dilation_h - 1
        columns = self.w + 2 * self.pad_w - (self.s - 1) * self.dilation_w - 1
        return rows // self.stride_h + 1, columns // self.stride_w + 1

    @property
    def flops(self) -> float:
        p, q = self.extents
        taps = self.c / self.group * self.r * self.s
        return 2.0 * self.n * self.k * p * q * taps * len(self.passes)

    def section(self, where: Place) -> Section:
        modes = {FilterMode.CROSS: "cross_correlation", FilterMode.CONV: "convolution"}
        given: dict[str, Any] = {
            **{key: getattr(self, key) for key in ("n", "c", "h", "w")},
            "conv_mode": modes[self.mode],
            "num_output": self.k,
            "kernel_size_h": self.r,
            "kernel_size_w": self.s,
        }
        same = ("pad_h", "pad_w", "stride_h", "stride_w", "dilation_h", "dilation_w", "group")
        formats = ("layout", "filter_layout")
        given |= {key: getattr(self, key) for key in (*same, "bias")}
        given |= {key: getattr(self, key) for key in formats if key in self.non_default()}
        return _section("Convolution", self.family, given, where)


class Cell(StrEnum):
    VANILLA = "vanilla"  # with ReLU
    TANH = "tanh"
    LSTM = "lstm"
    GRU = "gru"

    @property
    def of_layer(self) -> RecurrentCell:
        return RecurrentCell("relu" if self is Cell.VANILLA else self)


@dataclass(frozen=True)
class RnnOperation(LibraryOperation):
    family = "rnn"
    title = "a recurrent layer"

    cell: Cell = field_of()
    hidden: int = field_of()  # units
    batch: int = field_of()  # sequences
    steps: int = field_of()  # time steps
    features: int = field_of(0, least=0)  # features of the input; 0: as many as units
    input: InputMode = field_of(InputMode.SKIP)
    bias: bool = field_of(True)
    passes: Passes = field_of((Pass.FORWARD,))
    type: str = field_of("f32")

    PASSES: ClassVar[Passes] = ConvOperation.PASSES

    @property
    def direction(self) -> Passes:
        return self.passes

    @property
    def flops(self) -> float:
        """Operations of the products with the weights, including those of zero states, as DeepBench
        counts."""
        features = 0 if self.input is InputMode.SKIP else self.features or self.hidden
        weights = self.cell.of_layer.gates * self.hidden * (self.hidden + features)
        return 2.0 * weights * self.batch * self.steps * len(self.passes)

    @property
    def notes(self) -> tuple[str, ...]:
        begin = "the state before its only step is given"
        if self.steps > 1:
            begin = "states begin with zero"
        skips = "; x goes into the sums of all gates as it is"
        return (begin + (skips if self.input is InputMode.SKIP else ""),)

    def section(self, where: Place) -> Section:
        given: dict[str, Any] = {
            "shape": f"{self.steps}x{self.batch}x{self.features or self.hidden}",
            "cell": self.cell.of_layer,
            "input_mode": self.input,
            "bias": self.bias,
        }
        given |= {"hidden_size": self.hidden} if self.features else {}
        given |= {"initial_state": True} if self.steps == 1 else {}
        return _section("Recurrent", self.family, given, where)


@dataclass(frozen=True)
class SparseOperation(LibraryOperation):
    family = "sparse"
    title = "a product with a sparse matrix"

    m: int = field_of()
    n: int = field_of()
    k: int = field_of()
    sparsity: float = field_of(least=0.0, most=1.0)  # share of the elements of a that are zero
    side: int = field_of(1)  # side of the blocks that a is stored in
    ta: bool = field_of(False)
    tb: bool = field_of(False)
    type: str = field_of("f32")

    @property
    def flops(self) -> float:
        return 2.0 * self.m * self.n * self.k * (1 - self.sparsity)

    @property
    def notes(self) -> tuple[str, ...]:
        stored = "blocks in compressed rows (BSR)" if self.side > 1 else "compressed rows (CSR)"
        return (
            f"a in {stored}, with elements in random places; b and y lie by rows, where "
            "DeepBench's programs have them by columns",
        )

    def section(self, where: Place) -> Section:
        if self.ta or self.tb:
            raise UnsupportedError(
                where, "ta or tb is 1, but [SparseGemm] transposes nothing; write 0"
            )
        given = {key: getattr(self, key) for key in ("m", "n", "k", "sparsity", "side")}
        return _section("SparseGemm", "sparse_gemm", given, where)


@dataclass(frozen=True)
class AllReduceOperation(LibraryOperation):
    family = "allreduce"
    title = "an all-reduce over several GPUs"

    elements: int = field_of()
    ranks: int = field_of(4, least=2)  # vectors; the number of GPUs divides it
    route: Route = field_of(Route.RING)
    type: str = field_of("f32")

    @property
    def flops(self) -> float:
        return float(self.elements * (self.ranks - 1))

    @property
    def notes(self) -> tuple[str, ...]:
        nbytes, flag = 4 * self.elements, Destination.targets.flag
        return (
            f"for {flag} mgpusim {option('gpus')} {self.ranks}, or a number that divides that",
            f"bandwidth of the algorithm: {nbytes} bytes by the time; of the bus, with n GPUs: "
            "2 (n - 1) / n times that",
        )

    def section(self, where: Place) -> Section:
        given = {"n": self.ranks, "c": self.elements, "h": 1, "w": 1, "route": self.route}
        return _section("AllReduce", "all_reduce", given, where)


def parse_operation(word: str) -> LibraryOperation | None:
    """The operation that a problem string says; None where the word is no problem string.

    Raises:
        ConfigError: as `LibraryOperation.read`; or there is no such family.
    """
    name, colon, rest = word.partition(":")
    if not colon or not name.isidentifier():
        return None
    where = f"workload {printable(word)}"
    if name not in FAMILIES:
        raise ConfigError(where, f"no family {printable(name)}; {did_you_mean(name, FAMILIES)}")
    texts = []
    for item in rest.split(","):
        key, equals, value = item.partition("=")
        if not equals:
            fact = f"{printable(item)} is not a setting"
            raise ConfigError(where, f"{fact}; write {FAMILIES[name].sample()}")
        texts.append((key.strip(), value.strip()))
    return FAMILIES[name].read(texts, where)


def checked_type(text: str, where: object) -> str:
    """An element type that operations of libraries have.

    Raises:
        ConfigError: it is none.
    """
    if text not in TYPES:
        raise ConfigError(where, f"type is {printable(text)}; {did_you_mean(text, TYPES)}")
    return text


def _has_default(each: Any) -> bool:
    return each.default is not MISSING


def _value(kind: Any, limits: Mapping[str, Any], key: str, text: str, where: object) -> Any:
    if kind is bool:
        if text not in ("0", "1"):
            raise ConfigError(where, f"{key} is {printable(text)}; write 0 or 1")
        return text == "1"
    if kind is str:
        return checked_type(text, where)
    if kind == Passes:
        return _passes(key, text, where)
    value = parse_value(kind, key, text, where)
    if not isinstance(value, int | float):
        return value
    return check_range(key, value, limits["least"], limits["most"], where)


def _passes(key: str, text: str, where: object) -> Passes:
    """Passes with + between them, in the order in which they are run."""
    known = ConvOperation.PASSES
    words = text.split("+")
    for word in words:
        if word not in known:
            cure = did_you_mean(word, [str(each) for each in known])
            raise ConfigError(where, f"{key} is {printable(text)}; {cure}")
    return tuple(each for each in known if str(each) in words)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, tuple):
        return "+".join(value)
    return repr(value).removesuffix(".0") if isinstance(value, float) else str(value)


def _section(name: str, layer: str, given: Mapping[str, Any], where: Place) -> Section:
    texts = {k: str(v).lower() if isinstance(v, bool) else str(v) for k, v in given.items()}
    entries = (Entry(key, text, where) for key, text in {"name": layer, **texts}.items())
    return Section(name, tuple(entries), where)
