"""Rules that move values between the lanes of a wavefront.

Single lanes are read and written with EXEC cut down to them; it is put back. Other exchanges go
through LDS, of which the kernel gets a word for each work-item behind all that its launches own,
static or dynamic: a wavefront's LDS instructions are executed in order, each for all lanes at once,
so its words need no barrier.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from simgen.isa.legalise.assembly import integer, registers
from simgen.isa.legalise.table import rule

if TYPE_CHECKING:
    from simgen.isa.legalise.site import Site

_ALL = (1 << 64) - 1


# One lane ------------------------------------------------------------------------------------


@rule("v_readlane_b32")
def read_lane(site: Site) -> None:
    """Reads the given lane, whether it is active or not."""
    result, x, lane = site.item.operands
    held = _only(site, lane)
    site.put("v_readfirstlane_b32", result, x)
    site.put("s_mov_b64", "exec", held)


@rule("v_writelane_b32")
def write_lane(site: Site) -> None:
    result, x, lane = site.item.operands
    held = _only(site, lane)
    site.put("v_mov_b32_e32", result, x)
    site.put("s_mov_b64", "exec", held)


def _only(site: Site, lane: str) -> str:
    """Cut EXEC down to a lane. Returns where it is kept."""
    held, _, _ = site.sgpr_pair()
    one, low, high = site.sgpr_pair()
    number = integer(lane)
    if number is not None:
        bit = 1 << (number & 63)
        site.put("s_mov_b32", low, hex(bit & 0xFFFFFFFF))
        site.put("s_mov_b32", high, hex(bit >> 32))
    else:
        lane = site.in_sgpr(lane)
        with site.saving_scc():
            site.put("s_lshl_b64", one, "1", lane)
    site.put("s_mov_b64", held, "exec")
    site.put("s_mov_b64", "exec", one)
    return held


# Exchanges -----------------------------------------------------------------------------------


@rule("ds_bpermute_b32")
def permute_backward(site: Site) -> None:
    result, address, value = site.item.operands
    at = site.vgpr()
    site.add(at, address, site.held(_offset(site)))
    site.put("v_lshrrev_b32_e32", at, "2", at)
    site.put("v_and_b32_e32", at, "63", at)
    _gather(site, result, value, at, "0")


@rule("ds_permute_b32")
def permute_forward(site: Site) -> None:
    """Lanes that receive no value become 0; of several senders, the last lane's value stays."""
    result, address, value = site.item.operands
    offset = (f"offset:{site.lane_words()}",)
    own, to = _own_word(site), site.vgpr()
    site.put("ds_write_b32", own, site.held(0), tail=offset)
    site.add(to, address, site.held(_offset(site)))
    site.put("v_and_b32_e32", to, "252", to)
    site.put("ds_write_b32", _word_of(site, to), value, tail=offset)
    site.put("ds_read_b32", result, own, tail=offset)


def _offset(site: Site) -> int:
    return integer(site.item.modifier("offset") or "0") or 0


@rule("ds_swizzle_b32")
def swizzle(site: Site) -> None:
    result, value = site.item.operands
    _gather(site, result, value, swizzled(site, site.lane()), "0")


def swizzled(site: Site, lane: str) -> str:
    """A register with the lane that each lane gets its value from; `lane` has each one's number."""
    text = (site.item.modifier("offset") or "").replace(" ", "")
    m = re.match(r"swizzle\((\w+),(.*)\)$", text)
    if not m:
        raise site.refusal(
            f"the form with offset:{text} has no replacement", "write the kernel without it"
        )
    kind, words = m[1], m[2].split(",")
    numbers = [integer(word) or 0 for word in words]
    if kind == "QUAD_PERM":
        return _in_quads(site, lane, numbers)
    if kind == "SWAP":
        keep, put, turn = 31, 0, numbers[0]
    elif kind == "REVERSE":
        keep, put, turn = 31, 0, numbers[0] - 1
    elif kind == "BROADCAST":
        keep, put, turn = 32 - numbers[0], numbers[1], 0
    elif kind == "BITMASK_PERM":
        keep, put, turn = _bit_masks(words[0].strip('"'))
    else:
        raise site.refusal(
            f"the form with offset:{text} has no replacement", "write the kernel without it"
        )
    site.put("v_and_b32_e32", lane, str(keep | 32), lane)
    site.put("v_or_b32_e32", lane, str(put), lane)
    site.put("v_xor_b32_e32", lane, str(turn), lane)
    return lane


def _bit_masks(letters: str) -> tuple[int, int, int]:
    """Masks of five letters, the highest bit first: 0, 1, p (unchanged), i (inverted)."""
    keep, put, turn = (
        int("".join("1" if c in of else "0" for c in letters), 2) for of in ("pi", "1", "i")
    )
    return keep, put, turn


def _in_quads(site: Site, lane: str, picks: list[int]) -> str:
    """Lane k of four gets what lane picks[k] of them has."""
    place, result = site.vgpr(), site.vgpr()
    table = sum(pick << 2 * k for k, pick in enumerate(picks))
    site.put("v_and_b32_e32", place, "3", lane)
    site.put("v_lshlrev_b32_e32", place, "1", place)
    site.put("v_lshrrev_b32_e32", place, place, site.held(table))
    site.put("v_and_b32_e32", place, "3", place)
    site.put("v_and_b32_e32", result, "60", lane)
    site.put("v_or_b32_e32", result, result, place)
    return result


# Data-parallel moves -------------------------------------------------------------------------


@rule("v_mov_b32_dpp")
def move_across(site: Site) -> None:
    """Lanes that the row and bank masks leave out keep what they have; those whose source is not
    there or not active as well, or they get 0 (bound_ctrl)."""
    result, value = site.item.operands
    words = dict(w.split(":", 1) for w in site.item.tail if ":" in w)
    words |= {w: "" for w in site.item.tail if ":" not in w}
    rows, banks = (integer(words.pop(name, "0xf")) or 0 for name in ("row_mask", "bank_mask"))
    filled = words.pop("bound_ctrl", None) is not None
    if len(words) != 1:
        raise site.refusal(
            f"the form with {' '.join(site.item.tail)} has no replacement", "use another exchange"
        )
    ((control, argument),) = words.items()
    source, there = _across(site, control, argument)
    chosen = sum(
        1 << lane for lane in range(64) if rows >> lane // 16 & 1 and banks >> lane % 16 // 4 & 1
    )
    moved = site.vgpr()
    site.put("v_and_b32_e32", source, "63", source)
    _gather(site, moved, value, source, "0" if filled else result, there)
    if chosen == _ALL:
        site.put("v_mov_b32_e32", result, moved)
    else:
        site.select(result, result, moved, _mask(site, chosen))


def _across(site: Site, control: str, argument: str) -> tuple[str, int]:
    """A register with each lane's source, and the lanes that have one."""
    lane, number = site.lane(), integer(argument) or 0
    if control == "quad_perm":
        picks = [integer(word) or 0 for word in argument.strip("[]").split(",")]
        return _in_quads(site, lane, picks), _ALL
    if control in ("row_mirror", "row_half_mirror"):
        site.put("v_xor_b32_e32", lane, "15" if control == "row_mirror" else "7", lane)
        return lane, _ALL
    if control in ("row_shl", "row_shr"):
        step = number if control == "row_shl" else -number
        site.add(lane, lane, site.held(step & 0xFFFFFFFF))
        return lane, sum(1 << k for k in range(64) if 0 <= k % 16 + step < 16)
    if control == "row_ror":
        turned = site.vgpr()
        site.add(turned, lane, site.held(16 - number))
        site.put("v_and_b32_e32", turned, "15", turned)
        site.put("v_and_b32_e32", lane, "48", lane)
        site.put("v_or_b32_e32", lane, lane, turned)
        return lane, _ALL
    if control == "row_newbcast":
        site.put("v_and_b32_e32", lane, "48", lane)
        site.put("v_or_b32_e32", lane, str(number), lane)
        return lane, _ALL
    if control in ("wave_shl", "wave_rol", "wave_shr", "wave_ror"):
        left = control in ("wave_shl", "wave_rol")
        site.add(lane, lane, site.held(1 if left else 63))
        site.put("v_and_b32_e32", lane, "63", lane)
        lost = 0 if control.startswith("wave_ro") else 1 << (63 if left else 0)
        return lane, _ALL & ~lost
    if control == "row_bcast" and number in (15, 31):
        site.put("v_and_b32_e32", lane, str(48 if number == 15 else 32), lane)
        site.subtract(lane, lane, site.held(1))
        return lane, _ALL & ~((1 << number + 1) - 1)
    raise site.refusal(
        f"the form with {control}:{argument} has no replacement", "use another exchange"
    )


# Through LDS ---------------------------------------------------------------------------------


def _own_word(site: Site) -> str:
    """A register with the place of the work-item's word."""
    own = site.vgpr()
    site.put("v_lshlrev_b32_e32", own, "2", site.thread())
    return own


def _word_of(site: Site, lane_times_4: str) -> str:
    """A register with the place of another lane's word."""
    first = _own_word(site)
    site.put("v_and_b32_e32", first, "0xffffff00", first)
    site.put("v_or_b32_e32", first, first, lane_times_4)
    return first


def _gather(
    site: Site, result: str, value: str, lane: str, otherwise: str, there: int = _ALL
) -> None:
    """result = the value that another lane has if that one is active and there, else `otherwise`.

    `there` says of each lane whether it has a source at all.
    """
    offset = (f"offset:{site.lane_words()}",)
    at, found, active, other = (site.vgpr() for _ in range(4))
    mask, _, _ = site.sgpr_pair()
    exec_, low, high = site.sgpr_pair()
    site.put("ds_write_b32", _own_word(site), value, tail=offset)
    site.put("v_lshlrev_b32_e32", at, "2", lane)
    site.put("ds_read_b32", found, _word_of(site, at), tail=offset)
    # Whether that lane's bit is set in EXEC. Shifts use the lower five bits of the lane.
    site.put("s_mov_b64", exec_, "exec")
    site.put("v_mov_b32_e32", active, low)
    site.put("v_mov_b32_e32", other, high)
    site.put("v_cmp_gt_u32_e64", mask, "32", lane)
    site.select(active, other, active, mask)
    site.put("v_lshrrev_b32_e32", active, lane, active)
    site.put("v_and_b32_e32", active, "1", active)
    if there != _ALL:
        site.select(active, "0", active, _mask(site, there))
    if not otherwise.startswith("v"):
        otherwise = site.held(integer(otherwise) or 0)
    site.put("v_cmp_ne_u32_e64", mask, "0", active)
    site.put("s_waitcnt", "lgkmcnt(0)")
    site.select(result, otherwise, found, mask)


def _mask(site: Site, bits: int) -> str:
    """A pair of scalars with a bit for each lane."""
    pair, low, high = site.sgpr_pair()
    site.put("s_mov_b32", low, hex(bits & 0xFFFFFFFF))
    site.put("s_mov_b32", high, hex(bits >> 32))
    assert registers(pair)
    return pair
