"""The workload: plain frozen values that every later stage reads and none changes.

    Workload
      nodes    the layers, with their parameters and input shapes
      buffers  tensors in device memory; every one has its place in one arena
      kernels  what is compiled: a template, an entry point, constants
      steps    what is run, in order: one layer in one pass, with its launches
      machine  what kernels and launches are planned for
      queues   which steps may run at once, and in which order the others do

`to_json` and `from_json` are inverses; `workload.json` in a bundle is `to_json(workload)`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from enum import StrEnum
from functools import cached_property
from math import prod
from typing import Any

from simgen.ground.dtypes import TOGETHER
from simgen.ground.dtypes import DType as DType
from simgen.ground.machine import Machine, fitted
from simgen.ground.storage.schema import from_json as from_json
from simgen.ground.storage.schema import to_json as to_json

PAGE = 4096  # bytes; alignment of buffers in the arena and of datasets in data.h5
GUARD = PAGE  # bytes of canary after each buffer


class Pass(StrEnum):
    """What a step computes. A layer has BACKWARD, or its two parts where they are separate."""

    FORWARD = "fwd"
    BACKWARD = "bwd"
    BACKWARD_WEIGHT = "bwd_weight"
    BACKWARD_DATA = "bwd_data"
    # pass of the `sgd` layers that a workload has in addition; they compute as in FORWARD
    UPDATE = "sgd"


class Role(StrEnum):
    INPUT = "input"  # comes from data.h5
    OUTPUT = "output"  # written by a kernel, dumped after the run and compared
    SCRATCH = "scratch"  # written by a kernel and read by a later one, never dumped


class Distribution(StrEnum):
    UNIFORM = "uniform"  # [a, b)
    NORMAL = "normal"  # mean a, standard deviation b
    WHOLE = "whole"  # float32 whole numbers of [-a, a] without 0, for a share b of all; else 0
    # A random sparse matrix of a rows and b columns (simgen/tensors/sparse_pattern.py): where each
    # row begins in the list of its elements, and the last one ends; the column of each element.
    ROWS = "rows"
    COLUMNS = "columns"
    # 8 pairs of different places of 4 in a word: 2 bits each, the lower place first
    PAIRS = "pairs"
    ZIPF = "zipf"  # whole numbers k of [0, a), as often as 1 / (k + 1)^b (tensors/word_ids.py)
    ROUTES = "routes"  # the same, of which so many that follow each other, `nonzeros`, differ


MOST_WORDS = 2**24  # vocabulary limit of Distribution.ZIPF
STEEPEST = 8.0  # exponent of it: of more, all words but the first are rare


@dataclass(frozen=True)
class TensorSpec:
    """Shape and element type; row-major, densely packed. 4-D tensors are (N, C, H, W).

    Of types narrower than a word, kernels move TOGETHER elements at once: such tensors are filled
    up in memory, with what is nobody's.
    """

    shape: tuple[int, ...]
    dtype: DType = DType.F32

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.nbytes

    @property
    def held(self) -> int:
        """Bytes in memory, with what it is filled up with."""
        each = TOGETHER if self.dtype.is_narrow else 1
        return -(-self.size // each) * each * self.dtype.nbytes


@dataclass(frozen=True)
class Fill:
    """Distribution of an input tensor's values."""

    distribution: Distribution
    a: float
    b: float
    low: float | None = None  # values below are raised to this
    high: float | None = None  # values above are lowered to this
    every: int | None = None  # elements 0, every, 2 every, ... are multiplied, at last,
    times: float | None = None  # with this; `every` is a power of two
    # The buffer whose values these are, before its type rounds them; or of whose pattern they are.
    # In a port, a port of the same layer.
    like: str | None = None
    nonzeros: int | None = None  # elements of the sparse matrix; of routes, choices of a token

    @property
    def end(self) -> float:
        """What all whole numbers of the fill are below."""
        counted = (Distribution.ZIPF, Distribution.ROUTES)
        return self.a if self.distribution in counted else self.b

    @classmethod
    def usual(cls, dtype: DType, deviation: float = 1.0) -> Fill:
        """Normal numbers; of integers all of 8 bits, or sums of a few products of these."""
        if dtype.is_float:
            return cls(Distribution.NORMAL, 0.0, deviation)
        end = 2.0**7 if dtype.is_narrow else 2.0**15
        low, high = (-end, end) if dtype.is_signed else (0.0, 2 * end)
        return cls(Distribution.UNIFORM, low, high)


@dataclass(frozen=True)
class Buffer:
    """A tensor in device memory.

    `offset` is in bytes from the start of the arena and a multiple of PAGE; at least GUARD bytes
    after the tensor belong to nobody.
    """

    name: str  # "layer.port", unique in the workload; the dataset's name in data.h5
    spec: TensorSpec
    role: Role
    offset: int
    fill: Fill | None = None  # values of an input
    values: str | None = None  # SHA-256 of the values that a user gave an input, instead of `fill`


Constants = tuple[tuple[str, int | float | str], ...]  # by name, for a template


@dataclass(frozen=True)
class Windows:
    """For images with channels last: the pixels that a filter's first tap meets, in order; pairs
    are (rows, columns)."""

    extents: tuple[int, int]  # extents of an image
    first: tuple[int, int]  # what the first one begins at
    beyond: tuple[int, int]  # what the last one begins at, from the last row and column on
    strides: tuple[int, int]


@dataclass(frozen=True)
class TensorMap:
    """What NVIDIA's tensor memory accelerator has to know of an argument of a kernel.

    The launcher makes a map of each, and gives the kernel their address behind its arguments.
    """

    argument: int  # number of the parameter, which points to the tensor
    nbytes: int  # bytes of an element
    shape: tuple[int, int, int]  # matrices, rows, elements of a row
    box: tuple[int, int]  # rows, and elements of each, that are moved at once
    # for images: matrices are samples, boxes are pixels and channels
    windows: Windows | None = None


class Language(StrEnum):
    """What the source of a kernel that is not simgen's is written in."""

    HIP = "hip"  # C++ of HIP, or of CUDA where it needs nothing else
    OPENCL = "opencl"  # OpenCL C
    ASSEMBLY = "assembly"  # LLVM assembly for one GPU
    OBJECT = "object"  # a code object, in base64
    TRITON = "triton"  # Python with functions of Triton
    PTX = "ptx"  # text for NVIDIA GPUs


FOR_AMD = tuple(each for each in Language if each is not Language.PTX)


@dataclass(frozen=True)
class TritonBuild:
    """What a Triton function is compiled for."""

    signature: tuple[tuple[str, str], ...]  # parameter, and its type as Triton writes it
    constants: tuple[tuple[str, str], ...]  # parameter of the type `constexpr`, value in Python
    multiples: tuple[str, ...]  # parameters that are multiples of 16
    warps: int  # warps of a work-group
    stages: int  # stages of software pipelines


# Which products and sums become one instruction that rounds once: all, those of one expression, or
# none; and what vendors' compilers do where nothing else is said (hipcc, nvcc: all).
CONTRACTS = {"fast": "fused", "on": "fused within an expression", "off": "not fused"}
USUAL_CONTRACT = {Language.HIP: "fast", Language.OPENCL: "on"}
WAVEFRONT = 64  # lanes of AMD's GPUs that are simulated
CUDA_WARP = 32  # lanes that sources in CUDA C++ count on
# What nvcc defines for CUDA and hipcc for HIP, by which sources tell them apart.
CUDA_MACROS: tuple[tuple[str, str], ...] = (
    ("__CUDACC__", "1"), ("__NVCC__", "1"), ("__CUDACC_VER_MAJOR__", "12"),
    ("__CUDACC_VER_MINOR__", "0"), ("__CUDA_ARCH__", "700"), ("CUDART_VERSION", "12000"),
    ("CUDA_VERSION", "12000"),
)  # fmt: skip
HIP_MACROS: tuple[tuple[str, str], ...] = (
    ("__HIP__", "1"), ("__HIPCC__", "1"), ("__HIP_PLATFORM_AMD__", "1"),
    ("__HIP_DEVICE_COMPILE__", "1"), ("USE_ROCM", "1"), ("HIP_VERSION_MAJOR", "6"),
    ("HIP_VERSION_MINOR", "2"), ("HIP_VERSION", "60200000"),
    *((f"__HIP_ARCH_HAS_{what}__", "1") for what in (
        "GLOBAL_INT32_ATOMICS", "GLOBAL_INT64_ATOMICS", "SHARED_INT32_ATOMICS",
        "SHARED_INT64_ATOMICS", "GLOBAL_FLOAT_ATOMIC_EXCH", "SHARED_FLOAT_ATOMIC_EXCH",
        "FLOAT_ATOMIC_ADD", "DOUBLES", "WARP_VOTE", "WARP_BALLOT", "WARP_SHUFFLE", "3DGRID",
        "THREAD_FENCE_SYSTEM",
    )),
)  # fmt: skip
# What hipcc defines beside nvcc's macros for NVIDIA's GPUs, and lanes as sources may ask for them.
NVIDIA_HIP_MACROS: tuple[tuple[str, str], ...] = (
    ("__HIPCC__", "1"), ("__HIP_PLATFORM_NVIDIA__", "1"),
    *((name, str(CUDA_WARP)) for name in ("__AMDGCN_WAVEFRONT_SIZE", "__AMDGCN_WAVEFRONT_SIZE__")),
)  # fmt: skip
OF_SYSTEM = "#pragma simgen_of_system "  # before the name of an include of the system
NOT_THERE = "#pragma simgen_not_there "  # before the name of an include that is not beside a source
MOST_STRUCTURE = 256  # bytes of an argument by value
VARIABLE = "simgen_the_"  # begins what stands for a variable of the whole GPU in a source
VARIABLE_TYPE = "simgen_type_"  # begins the type that stands in the place of a source's variable


@dataclass(frozen=True)
class OwnSource:
    """The source of a kernel that a user brings."""

    language: Language
    text: str
    entry: str  # as the text calls it: `add`, `add<float, 4>`, or a symbol
    arch: str = ""  # architecture that assembly and code objects are for
    triton: TritonBuild | None = None
    # Variables of the whole GPU, whose names stand for tensors: those of the last arguments of each
    # launch, which are no parameters of the kernel.
    variables: tuple[str, ...] = ()
    defines: tuple[tuple[str, str], ...] = ()  # macros that its build gives it
    warp: int = WAVEFRONT  # lanes that `warpSize` and functions of lanes are of
    contract: str = ""  # which multiply-adds become one (CONTRACTS); "": nobody compiles it here
    headers: tuple[str, ...] = ()  # system headers that a source in CUDA includes


@dataclass(frozen=True)
class Kernel:
    """What is compiled: one entry point of one rendered template, or of a user's own source.

    `name` is the entry point's symbol (HSA adds ".kd" for its descriptor) and the stem of the
    rendered file, unique in the workload.
    """

    name: str
    template: str  # file under templates/kernels/
    block: int  # work-items in a work-group
    constants: Constants = ()
    lds_nbytes: int = 0  # LDS per work-group that launches request besides what the text declares
    maps: tuple[TensorMap, ...] = ()  # for code of sm_90a, which wgmma needs too
    movers: int = 0  # work-items beside `block`, that move tiles by the maps (warpgroups.h)
    # Tiles that all work-groups share, whatever their number: a GPU starts as many work-groups as
    # it holds. 0: each work-group has its own.
    tiles: int = 0
    # Launches of it that follow each other may be one, in which all work-groups wait for each
    # other in between: the text has that for CHAIN (templates/kernels/chain.h).
    chained: bool = False
    group: tuple[int, ...] = ()  # extents of a work-group; none: it has one dimension
    source: OwnSource | None = None  # a user's own, in place of the template

    @property
    def symbol(self) -> str:
        """The entry point in its code object."""
        machine_code = (Language.ASSEMBLY, Language.OBJECT)
        own = self.source is not None and self.source.language in machine_code
        return self.source.entry if own and self.source else self.name

    @property
    def extents(self) -> tuple[int, int, int]:
        """Work-items of a work-group in each dimension."""
        x, y, z = self.group or (self.block, 1, 1)
        return x, y, z


@dataclass(frozen=True)
class ByValue:
    """An argument of a kernel that is passed by value."""

    at: int  # its number among the kernel's parameters
    nbytes: int
    bits: int  # as an unsigned number, little-endian; of a structure, its first 8 bytes
    local: bool = False  # OpenCL: an address in LDS, counted from the end of the kernel's own
    more: tuple[int, ...] = ()  # the structure's later words of 8 bytes
    # In a structure: words that are addresses, with their numbers among the launch's `args`.
    tensors: tuple[tuple[int, int], ...] = ()

    @property
    def words(self) -> tuple[int, ...]:
        """Its words of 8 bytes, the last one filled up."""
        return (self.bits, *self.more)


@dataclass(frozen=True)
class Launch:
    """One dispatch of a kernel.

    Arguments are addresses in buffers; kernels of a user's own may have numbers among them.
    """

    kernel: str  # name of a Kernel
    grid: tuple[int, int, int]  # work-groups, as in CUDA; an AQL packet wants grid * block
    args: tuple[str, ...]  # names of buffers, in the order of the kernel's parameters
    # Bytes from the start of each argument's buffer to where the kernel gets it, whole words; none:
    # all are 0. An offset does not change the kernel, which may ask for a larger alignment.
    offsets: tuple[int, ...] = ()
    values: tuple[ByValue, ...] = ()  # arguments by value, in the order of the parameters

    @property
    def places(self) -> tuple[tuple[str, int], ...]:
        """(buffer, offset in it in bytes) of each argument."""
        return tuple(zip(self.args, self.offsets or (0,) * len(self.args), strict=True))


@dataclass(frozen=True)
class OpCount:
    """Work the algorithm needs; a kernel may do more, never less."""

    flops: int = 0  # add, subtract, multiply, compare: one each; fused multiply-add: two
    transcendentals: int = 0  # exp, log, tanh, reciprocal, square root: one each
    read_bytes: int = 0  # compulsory traffic: each byte counted once
    written_bytes: int = 0

    def __add__(self, other: OpCount) -> OpCount:
        return OpCount(
            self.flops + other.flops,
            self.transcendentals + other.transcendentals,
            self.read_bytes + other.read_bytes,
            self.written_bytes + other.written_bytes,
        )


@dataclass(frozen=True)
class Node:
    """A layer of the workload: enough to make the layer object again."""

    name: str
    kind: str  # key of LAYERS
    parameters: tuple[tuple[str, str], ...]  # config keys and values, as text
    inputs: tuple[TensorSpec, ...]


@dataclass(frozen=True)
class Step:
    """One layer in one pass. `reads` and `writes` tie the layer's ports to buffers."""

    layer: str  # name of a Node
    direction: Pass
    reads: tuple[tuple[str, str], ...]  # (port, buffer)
    writes: tuple[tuple[str, str], ...]
    launches: tuple[Launch, ...]


@dataclass(frozen=True)
class Left:
    """A tensor that a step leaves, with the guard behind it: a range of the arena, in bytes."""

    step: int  # index in the workload
    name: str  # name of the buffer
    offset: int
    nbytes: int


@dataclass(frozen=True)
class Queued:
    """Where a step runs, if several queues do (simgen/workload/queues.py)."""

    queue: int  # from 0 on; steps of a queue follow each other in the workload's order
    after: tuple[int, ...]  # steps of other queues that end before it begins


@dataclass(frozen=True)
class Workload:
    name: str
    seed: int
    nodes: tuple[Node, ...]
    buffers: tuple[Buffer, ...]
    kernels: tuple[Kernel, ...]
    steps: tuple[Step, ...]
    arena_nbytes: int
    outputs_offset: int  # the arena from here to its end is dumped after a run
    machine: Machine = field(default_factory=fitted)  # machine that it is planned for
    queues: tuple[Queued, ...] = ()  # queue of each step; empty: one queue, all in order

    @cached_property
    def is_own(self) -> bool:
        """Whether it has kernels that are a user's own."""
        return any(kernel.source for kernel in self.kernels)

    @property
    def contract(self) -> str:
        """Which multiply-adds of a user's source become one (CONTRACTS); "": nobody says so."""
        return next((each.source.contract for each in self.kernels if each.source), "")

    @cached_property
    def launches(self) -> tuple[Launch, ...]:
        """All launches in order."""
        return tuple(launch for step in self.steps for launch in step.launches)

    @cached_property
    def first_launches(self) -> tuple[int, ...]:
        """Index of each step's first launch."""
        firsts, at = [], 0
        for step in self.steps:
            firsts.append(at)
            at += len(step.launches)
        return tuple(firsts)

    @cached_property
    def inputs(self) -> tuple[Buffer, ...]:
        return tuple(b for b in self.buffers if b.role is Role.INPUT)

    @cached_property
    def outputs(self) -> tuple[Buffer, ...]:
        return tuple(b for b in self.buffers if b.role is Role.OUTPUT)

    @cached_property
    def left(self) -> tuple[Left, ...]:
        """What each step leaves for those after it and for the result, in the order of the steps.

        Empty where there is one step: then nothing comes after it.
        """
        if len(self.steps) < 2:
            return ()
        return tuple(
            Left(at, name, self.buffer(name).offset, self.buffer(name).spec.held + GUARD)
            for at, step in enumerate(self.steps)
            for _, name in step.writes
        )

    @cached_property
    def state_offset(self) -> int:
        """Where in the arena the first tensor lies that a step leaves."""
        return min((each.offset for each in self.left), default=self.outputs_offset)

    @cached_property
    def canary(self) -> int:
        """The word that memory holds before a kernel writes it: the narrowest type's."""
        types = [buffer.spec.dtype for buffer in self.buffers]
        return min(types, key=lambda dtype: dtype.nbytes, default=DType.F32).canary

    def types(self, step: Step) -> str:
        """Element types of the tensors of a step, each once: "f16", or "f32, i32"."""
        names = (name for _, name in (*step.reads, *step.writes))
        return ", ".join(dict.fromkeys(str(self.buffer(name).spec.dtype) for name in names))

    def buffer(self, name: str) -> Buffer:
        return self._buffers[name]

    def kernel(self, name: str) -> Kernel:
        return self._kernels[name]

    def kernel_index(self, name: str) -> int:
        """Its place in `kernels`."""
        return self._kernel_indices[name]

    def node(self, name: str) -> Node:
        return self._nodes[name]

    @cached_property
    def _buffers(self) -> dict[str, Buffer]:
        return {buffer.name: buffer for buffer in self.buffers}

    @cached_property
    def _kernels(self) -> dict[str, Kernel]:
        return {kernel.name: kernel for kernel in self.kernels}

    @cached_property
    def _kernel_indices(self) -> dict[str, int]:
        return {kernel.name: at for at, kernel in enumerate(self.kernels)}

    @cached_property
    def _nodes(self) -> dict[str, Node]:
        return {node.name: node for node in self.nodes}

    def __getstate__(self) -> dict[str, Any]:
        """What is pickled: the fields, not what was derived from them."""
        return {each.name: getattr(self, each.name) for each in fields(self)}
