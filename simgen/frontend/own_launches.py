"""Launches of a user's own kernels, as their file writes them."""

from __future__ import annotations

import itertools
import re
import struct
from dataclasses import dataclass, field, replace
from math import ceil, prod
from typing import TYPE_CHECKING, Any

from simgen.errors import did_you_mean, printable
from simgen.frontend import (
    kernel_pieces,
    kernel_text,
    own_arguments,
    own_tensors,
    ptx_text,
    triton_text,
)
from simgen.ground.ir import (
    MOST_STRUCTURE,
    ByValue,
    Kernel,
    Language,
    Launch,
    OwnSource,
    TritonBuild,
)
from simgen.layers.own import OwnTensor, expression
from simgen.layers.own.expression import ExpressionError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from simgen.frontend.kernel_text import Files
    from simgen.ground.dtypes import DType

SCALARS = {
    "i8": "<b", "u8": "<B", "i16": "<h", "u16": "<H", "i32": "<i", "u32": "<I", "i64": "<q",
    "u64": "<Q", "f16": "<e", "f32": "<f", "f64": "<d",
}  # fmt: skip
LOCAL = "local"
ENTRY = re.compile(
    r"(?:[A-Za-z_]\w{0,60}::){0,8}[A-Za-z_$][\w.$]{0,150}(<[\w ,:<>*()-]{1,100}>)?", re.ASCII
)
MOST_ITEMS = 1024  # work-items of a work-group, at most
MOST_LDS = 2**16
MOST_LAUNCHES = 10_000
MOST_ARGS = 64
MOST_VARIABLES = 6  # variables that fit behind the arguments (simgen.targets.kernargs)
POINTER = 8  # bytes


@dataclass
class Launches:
    """Reads launches, and collects the kernels that they name."""

    said: Mapping[str, Any]
    parameters: Mapping[str, int | float]
    tensors: Sequence[OwnTensor]
    files: Files
    _kernels: dict[tuple[object, ...], Kernel] = field(default_factory=dict)
    _launches: list[Launch] = field(default_factory=list)
    _checked: set[tuple[object, ...]] = field(default_factory=set)  # arguments for PTX
    # kinds of the arguments by value that were read last
    _kinds: dict[int, str] = field(default_factory=dict)

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        return tuple(self._kernels.values())

    @property
    def launches(self) -> tuple[Launch, ...]:
        return tuple(self._launches)

    def read(self) -> Launches:
        """All launches, in order.

        Raises:
            ExpressionError: one cannot be what it is said to be.
            ConfigError: a source cannot be read.
        """
        given = self.said.get("launch")
        if given is None:
            given = [{k: self.said[k] for k in KEYS if k in self.said}]
        if not isinstance(given, list) or not given or not all(isinstance(g, dict) for g in given):
            raise ExpressionError("launch is no list of tables; write [[launch]] above each")
        for number, each in enumerate(given, 1):
            place = f"launch {number}" if "launch" in self.said else "the launch"
            for key in each:
                if key not in KEYS:
                    raise ExpressionError(
                        f"{place}: unknown key {printable(key)}; {did_you_mean(key, KEYS)}"
                    )
            merged = {**{k: self.said[k] for k in SHARED_KEYS if k in self.said}, **each}
            for known in self._loops(place, merged.get("for", {})):
                self._launch(place, merged, known)
        unused = {t.name for t in self.tensors} - {a for la in self._launches for a in la.args}
        if unused:
            raise ExpressionError(
                f"tensor {min(unused)}: no launch has it among its args; leave it out"
            )
        return self

    def _loops(self, place: str, loops: Any) -> Iterator[dict[str, int | float]]:
        """The parameters with each value of the loops, the last one varying first."""
        if not isinstance(loops, dict):
            raise ExpressionError(f'{place}: for is no table; write for = {{ k = "range(10)" }}')

        def nest(known: dict[str, Any], left: list[tuple[str, Any]]) -> Iterator[dict[str, Any]]:
            if not left:
                yield known
                return
            (name, text), *more = left
            if not own_tensors.NAME.fullmatch(name) or name in known:
                raise ExpressionError(f"{place}: for {printable(name)}: choose another name")
            values = expression.evaluate(str(text), known)
            if not isinstance(values, (range, tuple)):
                raise ExpressionError(f"{place}: for {name} is no range; write range(10)")
            for value in values:
                yield from nest({**known, name: value}, more)

        # One more, so that too many are refused.
        made = nest(dict(self.parameters), list(loops.items()))
        yield from itertools.islice(made, MOST_LAUNCHES + 1)

    def _launch(self, place: str, said: Mapping[str, Any], known: Mapping[str, Any]) -> None:
        if len(self._launches) >= MOST_LAUNCHES:
            raise ExpressionError(
                f"{place}: more than {MOST_LAUNCHES} launches; make loops shorter"
            )
        source = self.files.source(
            str(self.said["source"]),
            self.said.get("arch", ""),
            self._defines(),
            {each.name for each in self.tensors},
            self.said.get("contract"),
        )
        if source.language is Language.TRITON:
            self._triton_launch(place, source, said, known)
            return
        for key in TRITON_KEYS:
            if key in said:
                raise ExpressionError(f"{place}: {key} is of Triton functions; leave it out")
        block = self._extents(f"{place}: block", said.get("block"), known, MOST_ITEMS)
        if prod(block) > MOST_ITEMS:
            raise ExpressionError(
                f"{place}: a work-group of {prod(block)} work-items; {MOST_ITEMS} at most"
            )
        grid = self._grid(place, said, known, block)
        lds = own_tensors.whole_number(f"{place}: lds", said.get("lds", 0), known, 0, MOST_LDS)
        args, values = self._arguments(place, said, known)
        if source.language is Language.PTX and any(value.tensors for value in values):
            raise ExpressionError(f"{place}: a tensor in a structure; give PTX its members")
        lds += sum(-(-v.bits // 16) * 16 for v in values if v.local)
        if lds > MOST_LDS:
            raise ExpressionError(f"{place}: {lds} bytes of LDS; {MOST_LDS} at most")
        kernel = self._kernel(place, source, said, block, lds, values=values)
        assert kernel.source is not None
        if source.language is Language.PTX:
            self._check_ptx(place, kernel, args, values)
        elif source.language in (Language.HIP, Language.OPENCL):
            own, listed = kernel.source, [str(each).strip() for each in said["args"]]
            kinds = {**self._kinds, **{v.at: "structure" for v in values if v.local}}
            types = {each.name: each.spec.dtype.name for each in self.tensors}
            own_arguments.check(own.text, own.entry, dict(own.defines), kinds, place, listed, types)
            given = frozenset(each.name for each in self.tensors if each.fill and not each.output)
            own_arguments.check_inputs(own.text, own.entry, listed, given, place)
        args += kernel.source.variables
        if not args:
            raise ExpressionError(f"{place}: no tensor among its args, so that it can do nothing")
        self._launches.append(Launch(kernel.name, grid, args, values=_placed(values)))

    def _check_ptx(
        self, place: str, kernel: Kernel, args: Sequence[str], values: Sequence[ByValue]
    ) -> None:
        """Refuse arguments that are not the kernel's; the compiler tells of other languages'."""
        given = [(f"the tensor {name} is an address of", POINTER) for name in args]
        for each in values:
            if each.local:
                raise ExpressionError(f"{place}: local is of OpenCL; declare .shared in the PTX")
            given.insert(each.at, (f"{self._kinds[each.at]} has", each.nbytes))
        key = (kernel.name, *(nbytes for _, nbytes in given))
        if key not in self._checked:
            self._checked.add(key)
            assert kernel.source is not None
            file = str(self.said["source"])
            ptx_text.check(kernel.source.text, kernel.source.entry, file, given, place)
            ptx_text.check_launch(
                kernel.source.text, kernel.source.entry, file, kernel.extents, place
            )

    def _triton_launch(
        self, place: str, source: OwnSource, said: Mapping[str, Any], known: Mapping[str, Any]
    ) -> None:
        """A launch of programs, as Triton calls work-groups: warps are the work-items."""
        for key in ("block", "items", "lds"):
            if key in said:
                raise ExpressionError(
                    f"{place}: {key}: a Triton function says that itself; write grid, the number "
                    "of programs, and num_warps"
                )
        args, values = self._arguments(place, said, known)
        tensors, numbers = iter(args), {each.at: each for each in values}
        given = [
            self._argument(place, numbers[at]) if at in numbers else
            triton_text.Argument(self._dtype(next(tensors)))
            for at in range(len(args) + len(values))
        ]  # fmt: skip
        entry = said.get("kernel") or self.files.only_entry(source, place)
        made, kept = triton_text.build(source.text, str(entry), said, known, given)
        block = (made.warps * triton_text.LANES, 1, 1)
        grid = self._grid(place, said, known, block)
        kernel = self._kernel(place, source, said, block, 0, made)
        own = [replace(numbers[at], at=to) for to, at in enumerate(kept) if at in numbers]
        self._launches.append(Launch(kernel.name, grid, args, values=tuple(own)))

    def _dtype(self, tensor: str) -> DType:
        return next(each.spec.dtype for each in self.tensors if each.name == tensor)

    def _argument(self, place: str, value: ByValue) -> triton_text.Argument:
        """A number with its type, which is all that its bits do not say."""
        if value.local:
            raise ExpressionError(f"{place}: local is of OpenCL; a Triton function has its own LDS")
        kind = self._kinds[value.at]
        if kind not in SCALARS:
            raise ExpressionError(f"{place}: a structure; a Triton function takes its members")
        (number,) = struct.unpack(SCALARS[kind], value.bits.to_bytes(value.nbytes, "little"))
        return triton_text.Argument(kind, number)

    def _extents(
        self, place: str, given: Any, known: Mapping[str, Any], most: int
    ) -> tuple[int, int, int]:
        texts = given if isinstance(given, list) else [given]
        if given is None or not 1 <= len(texts) <= 3:
            raise ExpressionError(f"{place}: write one to three extents, as [16, 16]")
        x, y, z = ([own_tensors.whole_number(place, t, known, 1, most) for t in texts] + [1, 1])[:3]
        return x, y, z

    def _grid(
        self, place: str, said: Mapping[str, Any], known: Mapping[str, Any],
        block: tuple[int, int, int],
    ) -> tuple[int, int, int]:  # fmt: skip
        """Work-groups; from work-items, as many as hold them."""
        if ("grid" in said) == ("items" in said):
            raise ExpressionError(
                f"{place}: write grid (work-groups) or items (work-items), one of them"
            )
        if "grid" in said:
            x, y, z = self._extents(f"{place}: grid", said["grid"], known, 2**31 - 1)
        else:
            items = self._extents(f"{place}: items", said["items"], known, 2**31 - 1)
            x, y, z = (ceil(n / b) for n, b in zip(items, block, strict=True))
        if max(y, z) > 0xFFFF or x * block[0] >= 2**32:
            raise ExpressionError(f"{place}: a grid of {x} x {y} x {z} work-groups is too large")
        return x, y, z

    def _arguments(
        self, place: str, said: Mapping[str, Any], known: Mapping[str, Any]
    ) -> tuple[tuple[str, ...], tuple[ByValue, ...]]:
        given = said.get("args")
        if not isinstance(given, list) or not 0 < len(given) <= MOST_ARGS:
            raise ExpressionError(f'{place}: args is no list; write args = ["a", "i32 n"]')
        tensors = {each.name for each in self.tensors}
        self._kinds = {}
        args: list[str] = []
        values: list[ByValue] = []
        held: list[str] = []  # in structures
        for at, each in enumerate(given):
            text = each.strip() if isinstance(each, str) else ""
            kind, _, number = text.partition(" ")
            if text in tensors:
                args.append(text)
            elif number and kind == LOCAL:
                nbytes = own_tensors.whole_number(f"{place}: {text}", number, known, 1, MOST_LDS)
                values.append(ByValue(at, 4, nbytes, local=True))
            elif number and kind in SCALARS:
                self._kinds[at] = kind
                values.append(_value(place, at, kind, number, known))
            elif text.startswith("{") and text.endswith("}"):
                self._kinds[at] = "structure"
                made, inside = _structure(place, at, text[1:-1], known, tensors)
                if inside and made.nbytes == POINTER:  # as an address by itself
                    args.append(inside[0])
                    continue
                first = len(held)
                held += inside
                words = tuple((word, first + n) for n, (word, _) in enumerate(made.tensors))
                values.append(replace(made, tensors=words))
            else:
                names = [*tensors, *(f"{kind} ..." for kind in SCALARS)]
                raise ExpressionError(
                    f"{place}: argument {printable(str(each))}: no tensor, and no number such as "
                    f"'i32 n'; {did_you_mean(text, names)}"
                )
        behind = [
            replace(v, tensors=tuple((word, len(args) + n) for word, n in v.tensors))
            for v in values
        ]
        return (*args, *held), tuple(behind)

    def _kernel(
        self, place: str, source: OwnSource, said: Mapping[str, Any],
        block: tuple[int, int, int], lds: int, triton: TritonBuild | None = None,
        values: Sequence[ByValue] = (),
    ) -> Kernel:  # fmt: skip
        entry = said.get("kernel")
        if entry is None:
            entry = self.files.only_entry(source, place)
        if not isinstance(entry, str) or not ENTRY.fullmatch(entry):
            raise ExpressionError(f"{place}: kernel is {printable(str(entry))}; name a function")
        self.files.check_entry(source, entry, place)
        key = (entry, block, lds, triton, *((v.at, v.tensors) for v in values if v.tensors))
        if key not in self._kernels:
            if source.language is Language.HIP and "." in entry:
                raise ExpressionError(f"{place}: {entry} is no function of C++; name one")
            name = re.sub(r"\W+", "_", entry).strip("_") or "kernel"
            taken = {each.name for each in self._kernels.values()}
            unique = next(
                n for n in (name, *(f"{name}_{i}" for i in range(2, 9999))) if n not in taken
            )
            group = block if block[1:] != (1, 1) else ()
            own = replace(source, entry=entry, triton=triton)
            if source.language in (Language.HIP, Language.OPENCL):
                _check_bounds(place, kernel_text.bounds(own, entry), entry, block)
            if source.language is Language.HIP:
                own = self._cut(place, own)
            self._kernels[key] = Kernel(
                unique, "", prod(block), lds_nbytes=lds, group=group, source=own
            )
        return self._kernels[key]

    def _defines(self) -> tuple[tuple[str, str], ...]:
        """What the build of a source gives it with -D: numbers, parameters, or text."""
        given = self.said.get("defines", {})
        if not isinstance(given, dict):
            raise ExpressionError('defines is no table; write defines = { N = "n", T = "float" }')
        found = []
        for name, value in given.items():
            if not own_tensors.NAME.fullmatch(name):
                raise ExpressionError(f"defines: {printable(name)} is not a name; choose another")
            if type(value) not in (int, float, str) or not str(value).isprintable():
                raise ExpressionError(
                    f"defines {name}: {printable(str(value))} is no number and no line of text"
                )
            known = self.parameters.get(value) if isinstance(value, str) else None
            found.append((name, str(value if known is None else known)))
        return tuple(found)

    def _cut(self, place: str, source: OwnSource) -> OwnSource:
        """What the kernel needs of its source, and the tensors that its variables are."""
        text = kernel_pieces.needed(source.text, source.entry)
        text, used = kernel_pieces.with_variables(text, source.variables)
        known = {each.name for each in self.tensors}
        for name in used:
            if name not in known:
                raise ExpressionError(
                    f"{place}: {name} is a variable of the whole GPU, which no launcher fills; "
                    f"give it as a tensor of this name, such as inputs = {{ {name} = 'f32[9]' }}, "
                    f"or outputs = {{ {name} = 'u32[1] zeros' }} where kernels write it; what the "
                    "source gives a value, and no kernel writes, is __constant__"
                )
        if len(used) > MOST_VARIABLES:
            raise ExpressionError(
                f"{place}: {len(used)} variables of the whole GPU; {MOST_VARIABLES} at most"
            )
        return replace(source, text=text, variables=used)


TRITON_KEYS = ("constexprs", "num_warps", "num_stages")
SHARED_KEYS = ("kernel", "args", *TRITON_KEYS)  # keys that several launches may have in common
KEYS = ("kernel", "args", "grid", "items", "block", "lds", "for", *TRITON_KEYS)


def _value(place: str, at: int, kind: str, text: str, known: Mapping[str, Any]) -> ByValue:
    """A number as its bits.

    Raises:
        ExpressionError: the type has no such number.
    """
    try:
        found = expression.number(text, known)
    except ExpressionError as error:
        raise ExpressionError(f"{place}: argument {kind}: {error}") from None
    code = SCALARS[kind]
    try:
        if kind[0] != "f" and found != int(found):
            raise ValueError
        raw = struct.pack(code, found if kind[0] == "f" else int(found))
    except (struct.error, ValueError, OverflowError):
        raise ExpressionError(
            f"{place}: argument {kind} {text.strip()}: {found} is no {kind}"
        ) from None
    return ByValue(at, len(raw), int.from_bytes(raw, "little"))


def _structure(
    place: str, at: int, text: str, known: Mapping[str, Any], tensors: Collection[str]
) -> tuple[ByValue, list[str]]:
    """A structure of numbers and addresses, each at a multiple of its size, as C lays them out; and
    the tensors that lie at its addresses.

    Raises:
        ExpressionError: it is none.
    """
    content, widest = b"", 1
    words: list[tuple[int, int]] = []
    inside: list[str] = []
    for member in own_tensors.split(text):
        if member.strip() in tensors:
            content += bytes(-len(content) % POINTER)
            words.append((len(content) // POINTER, len(words)))
            inside.append(member.strip())
            content += bytes(POINTER)
            widest = POINTER
            continue
        kind, _, number = member.strip().partition(" ")
        if kind not in SCALARS or not number:
            raise ExpressionError(
                f"{place}: {printable(member.strip())} in a structure: no number and no tensor; "
                f"write it as '{{ f32 0.5, i32 n }}'"
            )
        value = _value(place, at, kind, number, known)
        content += bytes(-len(content) % value.nbytes)
        content += value.bits.to_bytes(value.nbytes, "little")
        widest = max(widest, value.nbytes)
    content += bytes(-len(content) % widest)
    if not 0 < len(content) <= MOST_STRUCTURE:
        raise ExpressionError(
            f"{place}: a structure of {len(content)} bytes; {MOST_STRUCTURE} at most"
        )
    bits, *more = (int.from_bytes(content[n : n + 8], "little") for n in range(0, len(content), 8))
    return ByValue(at, len(content), bits, more=tuple(more), tensors=tuple(words)), inside


def _check_bounds(
    place: str, bounds: kernel_text.Bounds, entry: str, block: tuple[int, int, int]
) -> None:
    """Raises:
    ExpressionError: the function is written for other work-groups.
    """
    items = prod(block)
    if bounds.exactly not in (None, block):
        raise ExpressionError(
            f"{place}: block is {list(block)}, and {entry} is written for another alone "
            f"({bounds.said}); write that block"
        )
    if not bounds.least <= items <= (bounds.most or MOST_ITEMS):
        limit = f"{bounds.most} at most" if items > bounds.least else f"{bounds.least} at least"
        raise ExpressionError(
            f"{place}: a work-group of {items} work-items, and {entry} is written for {limit} "
            f"({bounds.said}); make block fit"
        )


def _placed(values: Sequence[ByValue]) -> tuple[ByValue, ...]:
    """Arrays in LDS one behind the other: sizes become places."""
    found, at = [], 0
    for each in values:
        if each.local:
            found.append(ByValue(each.at, each.nbytes, at, local=True))
            at += -(-each.bits // 16) * 16
        else:
            found.append(each)
    return tuple(found)
