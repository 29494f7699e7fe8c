"""A cache of keys and values in pages: the tokens of a step go to the slots that a list says.

    key_pages[s]    = k[t] / k_scale    where slots[t] = s, else what `key_cache` has there
    value_pages[s]  = v[t] / v_scale    where slots[t] = s, else what `value_cache` has there

    k  (T, G, D)      v  (T, G, E)      slots  (T) int32, of a slot s = page P + place; -1: nowhere
    key_cache, key_pages  (pages, P, G, D)      value_cache, value_pages  (pages, P, G, E)

Both caches may have another type than k and v, such as an 8-bit float. A scale is a product with
its reciprocal in float32. No two tokens have one slot. Without atomics, each page looks for its
tokens in the list: a work-group has a page.

Source: W. Kwon et al., "Efficient Memory Management for Large Language Model Serving with
PagedAttention", 2023, section 4; reshape_and_cache_flash of vLLM.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Any, ClassVar

from simgen.ground.arrays import np
from simgen.ground.ir import Distribution, DType, Fill, Kernel, Launch, Pass, TensorSpec
from simgen.ground.numerics.rounding import TINY, U, float32, identifier
from simgen.layers import elementwise
from simgen.layers.base import Layer, Lowering, Port, Sums, key
from simgen.layers.elementwise import BLOCK, VECTOR
from simgen.layers.indices import outside
from simgen.layers.written import Places, Writes, cut_by, writes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from simgen.layers.base import Tensors
    from simgen.layers.written import Values

F = Pass.FORWARD
NAMES = ("key", "value")


@dataclass(frozen=True)
class KVCache(Layer):
    kind = "cache"
    section = "Cache"
    passes: ClassVar[tuple[Pass, ...]] = (F,)
    input_names: ClassVar[tuple[str, ...]] = ("k", "v", "slots", "key_cache", "value_cache")
    output_names: ClassVar[tuple[str, ...]] = ("key_pages", "value_pages")
    indices: ClassVar[tuple[str, ...]] = ("slots",)
    any_float = True
    sample: ClassVar[Mapping[str, str]] = {"shape": "64x4x32", "pages": "6"}

    page: int = key("page", 16, "tokens of a page", 1, 1024)
    pages: int = key("pages", 0, "pages, if no layer provides them; 0: as many as tokens fill", 0)
    value_size: int = key("value_size", 0, "elements of a value; 0: as many as of a key", 0)
    stored: DType = key("cache_type", DType.F32, "type of random pages; f32: that of k and v")
    k_scale: float = key("k_scale", 1.0, "what keys are divided by", 1e-6, 1e6)
    v_scale: float = key("v_scale", 1.0, "what values are divided by", 1e-6, 1e6)

    def workload_inputs(self, x: TensorSpec) -> tuple[TensorSpec, ...]:
        tokens, *heads = x.shape
        dtype = x.dtype if self.stored == DType.F32 else self.stored
        pages = self.pages or ceil(tokens / self.page)
        v = (*heads[:-1], self.value_size or heads[-1]) if heads else ()
        return (
            x,
            TensorSpec((tokens, *v), x.dtype),
            TensorSpec((tokens,), DType.I32),
            *(TensorSpec((pages, self.page, *each), dtype) for each in (heads, v)),
        )

    def output(self, inputs: tuple[TensorSpec, ...]) -> TensorSpec:
        return next(iter(self.outputs(inputs).values()))

    def outputs(self, inputs: tuple[TensorSpec, ...]) -> dict[str, TensorSpec]:
        if len(inputs) != len(self.input_names):
            names = ", ".join(self.input_names)
            fact = f"it has {len(inputs)} inputs, and wants {names}"
            raise ValueError(f"{fact}; name them in previous_layer")
        k, v, _, *caches = inputs
        if len(k.shape) != 3 or len(v.shape) != 3:
            told = " x ".join(map(str, k.shape))
            raise ValueError(f"k is {told}; give it tokens, heads and elements: 64x4x32")
        pages, page = caches[0].shape[0], self.page
        wanted = {
            "v": (*k.shape[:2], v.shape[2]),
            "slots": k.shape[:1],
            "key_cache": (pages, page, *k.shape[1:]),
            "value_cache": (pages, page, *v.shape[1:]),
        }
        for name, given in zip(self.input_names[1:], inputs[1:]):
            if given.shape != wanted[name]:
                told, right = (" x ".join(map(str, s)) for s in (given.shape, wanted[name]))
                raise ValueError(f"{name} is {told}; give it {right}")
        if k.dtype != v.dtype or caches[0].dtype != caches[1].dtype:
            fact = "k and v, or the two caches, have different element types"
            raise ValueError(f"{fact}; insert [Cast] before one")
        if pages * page < k.shape[0]:
            fact = f"{k.shape[0]} tokens have no room in {pages} pages of {page}"
            raise ValueError(f"{fact}; make pages {ceil(k.shape[0] / page)} or more")
        return dict(zip(self.output_names, caches))

    def fault(self, given: Mapping[str, NDArray[Any]], inputs: tuple[TensorSpec, ...]) -> str:
        slots = given.get("slots")
        last = inputs[3].shape[0] * self.page - 1
        if slots is None or (wrong := outside("slots", slots, -1, last)):
            return "" if slots is None else wrong
        found, counts = np.unique(slots[slots >= 0], return_counts=True)
        twice = found[counts > 1]
        return f"slots has {twice[0]} twice; give each token its own" if twice.size else ""

    @property
    def _factors(self) -> tuple[float, float]:
        return float32(1 / self.k_scale), float32(1 / self.v_scale)

    def work(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[int, int]:
        """A product with a scale for each element."""
        return inputs[0].size + inputs[1].size, 0

    def ports(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[Port, ...]:
        _, _, slots, *caches = inputs
        outputs = self.outputs(inputs)
        normal = Fill(Distribution.NORMAL, 0.0, 1.0)
        room = float(caches[0].shape[0] * self.page)
        each = Fill(Distribution.ROUTES, room, 0.0, nonzeros=slots.size)
        fills = (normal, normal, each, normal, normal)
        read = zip(self.input_names, inputs, fills)
        return (
            *(Port(*one) for one in read),
            *(Port(name, spec) for name, spec in outputs.items()),
        )

    def _whole(self, inputs: tuple[TensorSpec, ...]) -> bool:
        return not any(spec.shape[1] * spec.shape[2] % VECTOR for spec in inputs[:2])

    def moves(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> tuple[str, ...]:
        return super().moves(inputs, direction) if self._whole(inputs) else ()

    def lower(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Lowering:
        k, v, _, cache, _ = inputs
        tokens, heads, size = k.shape
        whole = self._whole(inputs)
        types = [each.dtype if whole else DType.F32 for each in (k, cache)]
        constants = (
            ("tokens", tokens),
            ("page", self.page),
            ("pages", cache.shape[0]),
            ("key_row", heads * size),
            ("value_row", heads * v.shape[2]),
            ("vector", VECTOR if whole else 1),
            ("key_factor", self._factors[0]),
            ("value_factor", self._factors[1]),
            *elementwise.element(types[0]),
            *((("stored", types[1].c),) if types[1].is_narrow else ()),
        )
        of = f"{cache.shape[0]}x{self.page}_{tokens}x{heads}x{size}x{v.shape[2]}"
        scales = "_".join(map(identifier, self._factors))
        kinds = "".join(elementwise.suffix(each) or "_f32" for each in types)
        kernel = Kernel(f"cache_{of}_{scales}{kinds}", "cache.hip", BLOCK, constants)
        args = (*self.input_names, *self.output_names)
        return Lowering((kernel,), (Launch(kernel.name, (cache.shape[0], 1, 1), args),))

    def _stored(self, tensors: Tensors) -> tuple[NDArray[Any], NDArray[Any]]:
        """(tokens that go somewhere, their slots)."""
        slots = tensors["slots"].astype(np.int64)
        tokens = np.flatnonzero(slots >= 0)
        return tokens, slots[tokens]

    def reference(self, tensors: Tensors, direction: Pass) -> Tensors:
        tokens, slots = self._stored(tensors)
        made = {}
        for what, factor in zip(NAMES, self._factors):
            pages = tensors[f"{what}_cache"].copy()
            flat = pages.reshape(-1, *pages.shape[2:])
            flat[slots] = tensors[what[0]][tokens] * factor
            made[f"{what}_pages"] = pages
        return made

    def tolerance(self, tensors: Tensors, direction: Pass) -> Tensors:
        """A product with a scale."""
        made = self.reference(tensors, direction)
        _, slots = self._stored(tensors)
        bounds = {name: np.zeros_like(pages) for name, pages in made.items()}
        for (name, pages), factor in zip(made.items(), self._factors):
            if factor != 1:
                flat = bounds[name].reshape(-1, *pages.shape[2:])
                flat[slots] = U * np.abs(pages.reshape(flat.shape)[slots]) + TINY
        return bounds

    def sums(self, inputs: tuple[TensorSpec, ...], direction: Pass) -> Sums | None:
        return Sums() if self._factors == (1.0, 1.0) else None


@writes("cache")
def _pages(c: Values, block: int) -> list[Writes]:
    rows = (c["page"] * c["key_row"], c["page"] * c["value_row"])
    return [
        Writes(at, cut_by(Places(c["pages"], row)), inside=(Places(row),))
        for at, row in zip((-2, -1), rows)
    ]
