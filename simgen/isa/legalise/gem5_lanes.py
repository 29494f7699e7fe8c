"""Exchanges between lanes that gem5 does wrongly, in its own other instructions.

* ds_swizzle_b32 (all versions) takes v0 for its source: ds_bpermute_b32
* ds_bpermute_b32, ds_permute_b32: before 22.0 (gfx9; gfx8: 21.1) their result stays busy, and to
  23.0 (gfx9) a request stays counted in the wavefront's place, whose accesses to LDS wait for good
  behind 256 of them: words of LDS (`lanes`)
* v_readfirstlane_b32 (gfx9, to 22.0; gfx8) ends the simulation where the number of its scalar
  result is none of a vector register: v_readlane_b32 of the first active lane
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simgen.isa.legalise import lanes

if TYPE_CHECKING:
    from collections.abc import Callable

    from simgen.isa.legalise.site import Site


def swizzle(site: Site) -> None:
    result, value = site.item.operands
    lane = site.vgpr()
    site.put("v_mbcnt_lo_u32_b32", lane, "-1", "0")
    site.put("v_mbcnt_hi_u32_b32", lane, "-1", lane)
    lane = lanes.swizzled(site, lane)
    site.put("v_lshlrev_b32_e32", lane, "2", lane)
    site.put("ds_bpermute_b32", result, lane, value)


def first_lane(site: Site) -> None:
    """Where no lane is active, the last one in place of the first."""
    result, value = site.item.operands
    site.put("s_ff1_i32_b64", result, "exec")
    site.put("v_readlane_b32", result, value, result)


RULES: dict[str, Callable[[Site], None]] = {
    "ds_swizzle_b32": swizzle,
    "ds_bpermute_b32": lanes.permute_backward,
    "ds_permute_b32": lanes.permute_forward,
    "v_readfirstlane_b32": first_lane,
}
