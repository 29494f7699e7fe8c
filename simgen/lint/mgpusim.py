"""What MGPUSim makes of instructions: by the opcodes that it has, and the rules of `legalise`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simgen.compile.legalise import implemented, instruction_rules
from simgen.lint import disassembly, naming
from simgen.lint.verdicts import EDGES, ENDS, LEGALISE, NO_CONTROLS, OTHERWISE, WRONG

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from simgen.compile.legalise.machine_code import Decoded
    from simgen.compile.legalise.simulators import Model
    from simgen.lint.verdicts import Judged

# Right but for such values, which the rules keep out where they make these of others:
_NANS = "gives another result where operands are NaN"
_COUNTS = "does not cut the count to six bits"
_CARRY = "loses the carry where a source is 0xffffffff"
_BUT_FOR = {
    "v_addc_u32_e32": _CARRY,
    **dict.fromkeys(("v_med3_f32", "v_max3_f32", "v_min3_f32"), _NANS),
    **dict.fromkeys(("v_max_f32_e32", "v_min_f32_e32"), _NANS),
    **dict.fromkeys(("v_ashrrev_i64", "v_lshlrev_b64"), _COUNTS),
}


def judged(model: Model, items: Sequence[Decoded]) -> Iterator[tuple[Decoded, Judged]]:
    """What is to be said of a function's instructions."""
    known = implemented.implemented(model)
    lines, of_line = disassembly.listing(items, model.arch)
    changed = {
        of_line[at].offset: why
        for at, why in instruction_rules.changes("\n".join(lines), model).items()
    }
    told = {item.offset for item in of_line.values()}
    title = f"MGPUSim {model.version}"
    for item in items:
        format_, opcode = implemented.named(item)
        has = opcode in known.get(format_, {}) and item.form != "scratch"
        if item.offset not in told:  # of no text that the rules could read
            if not has:
                yield item, (ENDS, f"{title} has no such instruction and panics", OTHERWISE)
            else:
                cure = NO_CONTROLS.get(item.form, OTHERWISE)
                yield item, (WRONG, f"{title} is not known to execute this form right", cure)
        elif has and item.offset in changed and naming.name(item, model.arch) in _BUT_FOR:
            reason = _BUT_FOR[naming.name(item, model.arch)]
            yield item, (EDGES, f"{title} {reason}", LEGALISE)
        elif item.offset in changed or not has:
            cure = OTHERWISE if changed.get(item.offset, "no rule") else LEGALISE
            if has:
                yield item, (WRONG, f"{title} does not execute it right, or not in this form", cure)
            else:
                yield item, (ENDS, f"{title} has no such instruction and panics", cure)
