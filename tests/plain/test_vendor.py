"""What single instructions compute (simgen_examine/conform) is what AMD's pseudocode computes.

The texts are CDNA3's and CDNA4's, read by tests/vendor.py: another hand wrote them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import vendor
from vendor import Bits

from simgen_examine.conform import atomics, description, movements, values
from simgen_examine.conform.arithmetic import ALL_LANES, BITS, KEPT, LITERAL, Computed
from simgen_examine.conform.description import Described

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simgen_examine.conform.arithmetic import Wanted

ARCH = "gfx942"
EVERY = 16  # tuples of values, of which one is taken
# What is not code there, or what this reads no text of.
UNREAD = {
    "v_exp_legacy_f32": "no text",
    "v_log_legacy_f32": "no text",
    "v_cvt_off_f32_i4": "a table is left out",
    "v_perm_b32": "a function within the text",
    "v_cvt_pkrtz_f16_f32": "sets the mode of rounding",
    "v_div_fixup_f32": "names of constants",
    "v_div_fixup_f64": "names of constants",
    "v_div_scale_f32": "names of constants",
    "v_div_scale_f64": "names of constants",
}
# Where the vendor's text disagrees with what the same manuals say in words.
DISAGREE = {
    "v_rndne_f16": "the text takes -0 and -0.25 to 0",
    "v_rndne_f32": "the text takes -0 and -0.25 to 0",
    "v_rndne_f64": "the text adds 0.5, which is rounded: 2^52 + 1 becomes 2^52 + 2",
    "v_frexp_exp_i16_f16": "the text has the exponent of 0 as that of subnormals, not 0",
    "v_frexp_exp_i32_f32": "the text has the exponent of 0 as that of subnormals, not 0",
    "v_frexp_exp_i32_f64": "the text has the exponent of 0 as that of subnormals, not 0",
    "v_ldexp_f16": "the text rounds the power of two to f16, so that 2^20 is infinite",
    "v_sin_f16": "the text rounds 2 pi x to f16",
    "v_cos_f16": "the text rounds 2 pi x to f16",
}


def described() -> Iterator[Described]:
    for each in description.instructions(ARCH):
        if each.format != "SOPK":
            yield each


def found(of: Described, want: list[Wanted], words: Any) -> list[Any]:
    """What the vendor's text leaves, as the words of each result."""
    run, count = vendor.program(vendor.texts()[of.name]), words.shape[2]
    made = [np.zeros((each.words, count), np.uint32) for each in want]
    for i in range(count):
        env, lane, scalar = vendor.environment(), i % 64, int(words[2, 0, i] != 0)
        env |= {"laneId": Bits(lane), "SCC": Bits(scalar, 1), "SIMM32": Bits(LITERAL)}
        env |= {"VCC": Bits(BITS, 64), "D1": Bits(0, 64), "EXEC": Bits(ALL_LANES, 64)}
        env["S2"] = env["VCC"]
        planes = [each for each in of.sources if "vcc" not in each and each[0] not in "#@"]
        for at, source in enumerate(planes):
            whole = int(words[at, 0, i]) | int(words[at, 1, i]) << 32
            if source[0] == "=":
                env["D0"] = Bits(whole, 64)
            else:
                env[f"S{at}"] = Bits(whole, max(32, values.bits(source)))
        with np.errstate(all="ignore"):
            run(env)
        for at, each in enumerate(want):
            if each.type == "scc":
                made[at][0, i] = env["SCC"].bits & 1
            elif each.type == "mask":
                name = ("D0", "EXEC")[at] if of.format == "VOPC" else "VCC"
                if "D1" in run.__code__.co_consts:
                    name = "D1"
                bit = env[name].bits >> (lane if env[name].width > 1 else 0) & 1
                made[at][lane // 32, i - lane : i - lane + 64] |= np.uint32(bit << lane % 32)
            else:
                for word in range(each.words):
                    made[at][word, i] = env["D0"].bits >> 32 * word & 0xFFFFFFFF
    return made


def test_arithmetic_is_what_the_text_says() -> None:
    told, wrong = 0, {}
    for of in described():
        if of.name in UNREAD:
            continue
        words = values.tuples(of.types)[:, :, ::EVERY]
        want = Computed(of).outcome(words, ALL_LANES)
        got = found(of, want, words)
        good = all(each.right(now).all() for each, now in zip(want, got, strict=True))
        told += 1
        if not good:
            wrong[of.name] = [each.expected.value for each in want]
    assert set(wrong) == set(DISAGREE)
    assert told >= 470


def changes() -> Iterator[tuple[str, str, bool]]:
    """Mnemonic, operation, whether of 64 bits."""
    for name in atomics.IN_MEMORY:
        yield f"global_atomic_{name}", name, False
        yield f"global_atomic_{name}_x2", name, True
    for word, kind, name in atomics._LDS:
        yield f"ds_{word}_rtn_{kind}32", name, False
        yield f"ds_{word}_rtn_{kind}64", name, True
    for name in atomics._LDS_FLOATS:
        if "16" not in name:
            word, _, type_ = name.partition("_")
            yield f"ds_{word}_rtn_{type_}", name, type_ == "f64"


@pytest.mark.parametrize(("mnemonic", "change", "wide"), [*changes()])
def test_atomics_are_what_the_text_says(mnemonic: str, change: str, wide: bool) -> None:
    type_ = atomics.float_type(change) or ("b64" if wide else "b32")
    words = values.tuples([type_] * 3)[:, :, ::EVERY]
    like = Described(mnemonic, "DS", (), (type_,) * 3, "")
    want = atomics.Atomic(like, change=change, wide=wide).outcome(words, ALL_LANES)
    run, size, got = vendor.program(vendor.texts()[mnemonic]), 64 if wide else 32, []
    for i in range(words.shape[2]):
        old, a, b = (int(words[at, 0, i]) | (int(words[at, 1, i]) << 32) * wide for at in range(3))
        env = vendor.environment() | {"ADDR": Bits(0), "MEM": {0: Bits(old, size)}}
        env |= {"DATA": Bits(a | b << size, 2 * size), "DATA2": Bits(b, size)}
        run(env)
        got.append(env["MEM"][0].bits)
    now = [np.array([each >> 32 * word & 0xFFFFFFFF for each in got], np.uint32) for word in (0, 1)]
    whole = np.stack(now[: 1 + wide])
    parts = [whole] if atomics.float_type(change) else [each[None] for each in whole]
    for each, left in zip(want, parts, strict=False):  # behind them is what has to stay
        assert each.right(left).all()


@pytest.mark.parametrize(
    "mnemonic", ["ds_bpermute_b32", "v_readlane_b32", "v_readfirstlane_b32", "v_writelane_b32"]
)
def test_lanes_are_what_the_text_says(mnemonic: str) -> None:
    (form,) = [each for each in movements._lanes() if each.mnemonic == mnemonic]
    words = values.tuples(form.signature)[:, :, :64]
    (want,) = form.plan.outcome(words, form.lanes)
    held = {i: {0: Bits(int(words[1, 0, i]) << 2), 1: Bits(int(words[0, 0, i]))} for i in range(64)}
    env = vendor.environment(Bits(0x12345678), Bits(37 if "read" in mnemonic else 9))
    env |= {"VGPR": held, "OUT": dict.fromkeys(range(64), Bits(KEPT)), "EXEC": Bits(ALL_LANES, 64),
          "ADDR": Bits(0), "DATA0": Bits(1), "SRC0": Bits(1), "OFFSET": Bits(0, 16)}  # fmt: skip
    vendor.program(vendor.texts()[mnemonic])(env)
    one = [env["D0"].bits] * 64 if "read" in mnemonic else [env["OUT"][i].bits for i in range(64)]
    assert want.right(np.array([one], np.uint32)).all()
