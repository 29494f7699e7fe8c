"""Writes of a program of torch.export: what tensors are after one, and all that share its memory.

A view remembers the call that gives it. What is written to it is put into what it is a view of, and
so on to its base; whatever else is seen of this base is read from it again, by its own calls, once
somebody asks. Where it cannot be told whether memory is shared, or where a part cannot be put back,
who reads it then reads what no layer computes, and is refused.

Source: native_functions.yaml of PyTorch (aliases and writes in the operators' schemas).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from simgen.frontend.importing.aten import (
    AS_IT_IS,
    ATEN,
    OPERATORS,
    RESHAPED,
    Call,
    outputs_of,
    tensors_of,
)

IN_PLACE = ("__iand__", "__ior__", "__ixor__", "__ilshift__", "__irshift__")
TURNED = ("permute", "transpose", "t", "numpy_T", "mT")
PARTS = ("select", "slice", "narrow", "unbind", "split", "split_with_sizes", "chunk")
ROWS = ("select", "unbind")  # parts of one element, whose axis is gone
MAYBE = ("reshape", "flatten", "contiguous")  # views where strides allow it
END = 2**63 - 1  # end of a slice without an end
NOTHING = "no layer computes it"
CURE = "export it with .run_decompositions()"


@dataclass
class _View:
    """A tensor that shares the memory of another."""

    parent: str
    node: Any  # the call that gives it
    at: int  # which of its outputs
    kind: str  # "" where it is not known whether it is a view, or of which elements


class Effects:
    """The calls of a program, translated in their order."""

    def __init__(self, call: Call, strides: Mapping[str, Sequence[Any]]) -> None:
        self.call, self.strides = call, strides
        self.values: dict[str, str] = {}  # tensor -> the value that it is, if not its own name
        self.views: dict[str, _View] = {}
        self.same: dict[str, str] = {}  # what a write gives -> what is written
        self.writes: Counter[str] = Counter()  # by base
        self.seen: dict[str, int] = {}  # view -> writes of its base when its value was read

    # ---- Calls ----

    def meet(self, node: Any) -> None:
        """Translates a call."""
        target, outputs = str(node["target"]), outputs_of(node)
        name = target.removeprefix(ATEN).partition(".")[0]
        written = self._written(node, target, name)
        if not outputs and not written:
            return  # an extent, which sizes of tensors say
        if not outputs:
            outputs = [self.call.fresh(f"{written[0]}_{name}")]
        if written and name.endswith("_") and name not in IN_PLACE:
            name = name.removesuffix("_")
        plain = target.replace(f".{name}_.", f".{name}.")
        known = self._made({**node, "target": plain}, outputs) and len(written) < 2
        known = known and not (written and name in (*RESHAPED, *TURNED))  # other extents
        if not written:
            self._views(node, name, outputs, known)
            return
        for each in written:
            value = (
                outputs[0] if known else self._lost(node, each, f"{NOTHING}, and it writes {each}")
            )
            self._write(each, value)
        self.same |= dict.fromkeys(outputs, written[0])

    def _written(self, node: Any, target: str, name: str) -> list[str]:
        """The tensors that a call writes; of operators of others, all that it reads."""
        arguments = [(each["name"], tensors_of(each["arg"])) for each in node["inputs"]]
        if not target.startswith(ATEN):
            found = [each for _, names in arguments for each in names]
        elif name in IN_PLACE or (name.endswith("_") and not name.endswith("__")):
            found = arguments[0][1] if arguments else []
        else:
            found = [each for called, names in arguments if called.startswith("out")
                     for each in names]  # fmt: skip
        return list(dict.fromkeys(self._one(each) for each in found))

    def _views(self, node: Any, name: str, outputs: Sequence[str], known: bool) -> None:
        """Notes what the outputs of a call share memory with."""
        first = [name for each in node["inputs"] for name in tensors_of(each["arg"])][:1]
        if not first:
            return
        parent, kind = self._one(first[0]), name if known else ""
        if known:
            types = [self.call.types.get(each) for each in (parent, outputs[0])]
            if name == "to" and (types[0] != types[1] or self.call.get("copy")):
                return
            dense = self._dense(parent)
            if name == "contiguous" and dense is False:
                return
            if self.call.get("memory_format") or (name in MAYBE and not dense):
                kind = ""
            elif name not in (*AS_IT_IS, *RESHAPED, *TURNED, *PARTS, "expand"):
                return
        for at, each in enumerate(outputs):
            self.views[each] = _View(parent, node, at, kind)
            self.seen[each] = self.writes[self._base(each)]

    def _dense(self, name: str) -> bool | None:
        """Whether a tensor's elements lie in their order; None: extents that are open decide."""
        behind: int | None = 1
        pairs = zip(self.call.sizes[name], self.strides.get(name, ()), strict=True)
        for extent, stride in list(pairs)[::-1]:
            if extent == 1:
                continue
            if behind is None or not isinstance(stride, int):
                return None
            if stride != behind:
                return False
            behind = behind * extent if isinstance(extent, int) else None
        return True

    def _made(self, node: Any, outputs: list[str]) -> bool:
        """Whether there is a translation of a call, which is made with what its tensors are now."""
        call = self.call
        read = [name for each in node["inputs"] for name in tensors_of(each["arg"])]
        values = {name: self.now(name) for name in read}  # before the call is another
        call.read(node, outputs, values.__getitem__)
        made = OPERATORS.get(call.target)
        if made:
            made(call)
        else:
            call.unknown(NOTHING)
        return made is not None

    # ---- What tensors are ----

    def _one(self, name: str) -> str:
        return self.same.get(name, name)

    def _base(self, name: str) -> str:
        while name in self.views:
            name = self.views[name].parent
        return name

    def _set(self, name: str, value: str) -> None:
        self.values[name] = value
        self.call.like(value, name)

    def now(self, name: str) -> str:
        """The value that a tensor is."""
        name = self._one(name)
        view, writes = self.views.get(name), self.writes[self._base(name)]
        if view is None or self.seen[name] == writes:
            return self.values.get(name, name)
        if not view.kind:
            value = self._lost(
                view.node, name, f"may share memory with {view.parent}, which is written"
            )
            self._set(name, value)
        else:
            outputs = outputs_of(view.node)
            again = [self.call.fresh(each) for each in outputs]
            for each, value in zip(outputs, again, strict=True):
                self.call.like(value, each)
            self._made(view.node, again)
            self._set(name, again[view.at])
        self.seen[name] = writes
        return self.values[name]

    def _lost(self, node: Any, tensor: str, reason: str) -> str:
        """What a tensor is behind a call, where no layer computes that."""
        call = self.call
        call.read(node, [call.fresh(f"{tensor}_lost")], str)
        call.like(call.output, tensor)
        call.reads = []
        call.unknown(f"{reason}; {CURE}", outputs_of(node)[0] if outputs_of(node) else call.output)
        return call.output

    def _write(self, name: str, value: str) -> None:
        view = self.views.get(name)
        if view is None:
            self.writes[name] += 1
        else:
            self._write(view.parent, self._put_back(name, view, value))
            self.seen[name] = self.writes[self._base(name)]
        self._set(name, value)

    def _put_back(self, name: str, view: _View, value: str) -> str:
        """The value of what a view is of, once the view has this one."""
        call, parent = self.call, view.parent
        before = self.now(parent)
        call.like(value, name)
        if view.kind in AS_IT_IS:
            return value
        call.read(view.node, [call.fresh(f"{name}_in_{parent}")], str)
        made, extents = call.output, call.sizes[parent]
        call.like(made, parent)
        if view.kind in RESHAPED:
            call.reshape(value, made)
            return made
        if view.kind in TURNED:
            order = call.order(len(extents))
            call.node("Transpose", value, perm=[order.index(at) for at in range(len(order))])
            return made
        part = self._part(view, extents) if view.kind in PARTS else None
        if part is None:
            shares = "gives a part of" if view.kind else "may share memory with"
            return self._lost(view.node, parent, f"{shares} {parent}, which is written by it")
        axis, begin, end = part
        whole = extents[axis]
        if view.kind in ROWS:
            one = [1 if at == axis else each for at, each in enumerate(extents)]
            value = call.reshape(value, call.fresh(f"{made}_row"), one)
        if (begin, end) == (0, whole):
            return value
        call.put(before, value, axis, begin, end)
        return made

    def _part(self, view: _View, extents: Sequence[Any]) -> tuple[int, int, int] | None:
        """The axis and the elements along it that a view has of these; None: not in a row."""
        call = self.call
        axis = int(call.get("dim", 0)) % len(extents)
        whole = extents[axis]
        if not isinstance(whole, int):
            all_of_it = (call.get("start", 0), call.get("end", END)) == (0, END)
            return (axis, 0, whole) if view.kind == "slice" and all_of_it else None
        if view.kind in ROWS:
            at = int(call.get("index", view.at)) % whole
            return axis, at, at + 1
        if view.kind == "slice":
            ends = call.ends(whole)
            return (axis, *ends) if ends else None
        if view.kind == "narrow":
            begin = int(call.get("start")) % whole
            return axis, begin, begin + int(call.get("length"))
        sizes = [call.sizes[each][axis] for each in outputs_of(view.node)]
        if not all(isinstance(each, int) for each in sizes):
            return None
        begin = sum(int(each) for each in sizes[: view.at])
        return axis, begin, begin + int(sizes[view.at])
