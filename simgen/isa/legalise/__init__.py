"""Assembly that a simulator executes wrongly or not at all -> assembly that it executes right.

Stands between compiler and assembler. The table of `simulators` says, for each version of a
simulator and each architecture, which rewritings its assembly text goes through; they are all
here, by name, those of a target's settings (cache policy, version of code objects) too. What no
rewriting helps is refused before anything runs.

May import: isa.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache

from simgen.errors import RefusedError
from simgen.isa.legalise import (
    cache_policy,
    code_object_version,
    empty_exec,
    facts,
    gem5,
    gem5_rules,
    instruction_rules,
    private_memory,
)
from simgen.isa.legalise.assembly import (
    Instruction,
    parse,
    registers,
    source_modifiers,
)
from simgen.isa.legalise.rewritten import Legalised as Legalised
from simgen.isa.legalise.simulators import Model as Model
from simgen.isa.legalise.simulators import as_it_says as as_it_says
from simgen.isa.legalise.simulators import lacking
from simgen.isa.legalise.simulators import support as support
from simgen.isa.legalise.simulators import versions as versions
from simgen.isa.legalise.site import NoRuleError as NoRuleError

Rewriting = Callable[[str, Model], Legalised]

_LABEL_OR_MNEMONIC = re.compile(r"^(?:(\w+):|\t([a-z]\w+))", re.MULTILINE)

WRONG, EDGES = "gem5_wrong", "gem5_edges"  # the rules by data/lint: what is wrong, for whom
PRIVATE = "private_memory"  # which a launcher has to know of
BYPASS_L1 = "bypass_l1"
CODE_OBJECT_4 = "code_object_4"


def _text(function: Callable[[str, str], str]) -> Rewriting:
    """A rewriting that tells nothing but the text, of (text, arch)."""
    return lambda text, model: Legalised(function(text, model.arch))


def _lines(function: Callable[[list[str]], None]) -> Rewriting:
    """A rewriting of a text's lines, each of which becomes one or several."""

    def made(text: str, model: Model) -> Legalised:
        before = text.split("\n")
        lines = list(before)
        function(lines)
        return Legalised.counted(before, lines)

    return made


def _by_sources(*, edges: bool) -> Rewriting:
    """The rules for what the sources of a version of gem5 say that it does."""

    def made(text: str, model: Model) -> Legalised:
        if (table := facts.table_of(model)) is None:
            return Legalised(text)
        return gem5_rules.rewrite(text, table, model.arch, edges=edges)

    return made


REWRITINGS: dict[str, Rewriting] = {
    "instruction_rules": instruction_rules.rewrite,  # MGPUSim
    WRONG: _by_sources(edges=False),
    EDGES: _by_sources(edges=True),
    PRIVATE: lambda text, model: private_memory.rewrite(text, model.arch),
    "upper_halves": _lines(gem5.upper_halves),
    "late_stores": _lines(gem5.late_stores),
    "lds_three_words": _lines(gem5.lds_three_words),
    "lds_four_words": _lines(gem5.lds_four_words),
    "scalar_offset": _lines(gem5.scalar_offset),
    "shift_add": _lines(gem5.shift_add),
    "packed_floats": _lines(gem5.packed_floats),
    "reserved_registers": _lines(gem5.reserved_registers),
    "empty_exec": _lines(empty_exec.guard),
    "empty_exec_scalar": lambda text, _model: empty_exec.guard_scalar(text),
    BYPASS_L1: _text(cache_policy.bypass),
    CODE_OBJECT_4: _text(code_object_version.four),
}


def names(
    model: Model,
    *,
    l1: str = cache_policy.CACHED,
    code_object: int = 5,
    edges: bool = False,
    private: bool = False,
) -> tuple[str, ...]:
    """The rewritings for a model, in order, and for a target's settings.

    `l1` is the cache policy of vector loads, `code_object` the version of code objects; `edges`:
    whether what gem5 does wrongly for a few values only is replaced too. Kernels of simgen keep
    such values out. `private`: whether the launcher gives kernels private memory as
    `private_memory` wants it.

    Raises:
        UsageError: the table has no such model.
    """
    own = support(model).rewritings
    if facts.table_of(model):
        own = (EDGES if edges else WRONG, *own)
    if private and model.simulator == facts.GEM5 and model.arch.startswith("gfx9"):
        own = (PRIVATE, *own)
    abi = (CODE_OBJECT_4,) if code_object == 4 else ()
    return (*own, *abi, *((BYPASS_L1,) if l1 == cache_policy.BYPASS else ()))


def rewrite(text: str, model: Model, chosen: Sequence[str] | None = None) -> Legalised:
    """Rewrite the kernels of a module (clang's assembly text): by `chosen`, or as the table says.

    Raises:
        NoRuleError: an instruction is not there in the simulator and has no rule, or its rule needs
            more registers than there are. Its `item` tells the source line, if `text` has lines.
        RefusedError: gem5 would execute it wrongly or end there, and there is nothing to put in
            its place.
        UsageError: the table has no such model.
    """
    made = Legalised(text, _count(text) if model.simulator else 0)
    for name in names(model) if chosen is None else chosen:
        made = made.then(REWRITINGS[name](made.text, model))
    _refuse_what_it_lacks(made.text, model)
    if made.text != text:
        _check_owned(made.text)
    return made


def _check_owned(text: str) -> None:
    """Fail where a replacement has borrowed a register that the kernel does not own."""
    for kernel in parse(text.split("\n")):
        owned = {"v": kernel.vgprs, "s": kernel.sgprs}
        for item in kernel.items.values():
            for operand in item.operands if isinstance(item, Instruction) else ():
                kind, last = _last_register(operand)
                most = owned.get(kind)
                if most and last >= most:
                    raise RuntimeError(f"kernel {kernel.name}: {item}: {kind}{last} of {most}")


@lru_cache(maxsize=1 << 12)
def _last_register(operand: str) -> tuple[str, int]:
    """The file and the number of the last register of an operand that has some of them."""
    found = registers(source_modifiers(operand)[2])
    last = found[-1] if found else ""
    return (last[0], int(last[1:])) if last[1:].isdigit() else ("", 0)


def _count(text: str) -> int:
    items = (item for kernel in parse(text.split("\n")) for item in kernel.items.values())
    return sum(isinstance(item, Instruction) for item in items)


def _refuse_what_it_lacks(text: str, model: Model) -> None:
    lacks = lacking(model)
    kernel = ""
    for label, mnemonic in _LABEL_OR_MNEMONIC.findall(text) if lacks else ():
        kernel = label or kernel
        if mnemonic in lacks:
            later = facts.later(mnemonic, model.version, model.arch)
            raise RefusedError(
                f"kernel {kernel}: {mnemonic} ({model.arch}): {model.simulator} {model.version} "
                f"ends there{later}; use another algorithm (--algo), or another target"
            )
