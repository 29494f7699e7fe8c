"""The metadata of a code object (NT_AMDGPU_METADATA): MessagePack -> values -> YAML.

Source: https://llvm.org/docs/AMDGPUUsage.html, "Code Object V5 Metadata";
https://github.com/msgpack/msgpack/blob/master/spec.md.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Iterable
from typing import Any

NT_METADATA = 32
DEEPEST = 16
_FIXED = {0xCA: ">f", 0xCB: ">d", 0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q", 0xD0: ">b",
          0xD1: ">h", 0xD2: ">i", 0xD3: ">q"}  # fmt: skip
_WIDTHS = {0xD9: ">B", 0xDA: ">H", 0xDB: ">I", 0xDC: ">H", 0xDD: ">I", 0xDE: ">H", 0xDF: ">I"}
_KEY = re.compile(r"[\w.]+", re.ASCII)
_PLAIN = {0xC0: None, 0xC2: False, 0xC3: True}


def unpacked(data: bytes) -> Any:
    """The value of a MessagePack text.

    Raises:
        ValueError: it is none, or holds what metadata does not.
    """
    try:
        return _value(data, 0, 0)[0]
    except (struct.error, IndexError, UnicodeDecodeError, TypeError) as error:
        raise ValueError(f"metadata: {error}") from None


def of_notes(notes: Iterable[Any]) -> dict[str, Any]:
    """The metadata among an ELF file's notes, as pyelftools gives them; empty where there is none.

    Raises:
        ValueError: it is damaged.
    """
    for note in notes:
        if note["n_type"] in (NT_METADATA, "NT_AMDGPU_METADATA"):
            value = note["n_descdata"]
            found = unpacked(value if isinstance(value, bytes) else value.encode("latin1"))
            return found if isinstance(found, dict) else {}
    return {}


def _value(data: bytes, at: int, depth: int) -> tuple[Any, int]:
    tag = data[at]
    at += 1
    if depth > DEEPEST:
        raise ValueError("metadata: too deep")
    if tag < 0x80 or tag >= 0xE0:
        return (tag if tag < 0x80 else tag - 256), at
    if tag in _PLAIN:
        return _PLAIN[tag], at
    if tag in _FIXED:
        return struct.unpack_from(_FIXED[tag], data, at)[0], at + struct.calcsize(_FIXED[tag])
    if tag in _WIDTHS:
        (count,) = struct.unpack_from(_WIDTHS[tag], data, at)
        at += struct.calcsize(_WIDTHS[tag])
    else:
        count = tag & (0x1F if 0xA0 <= tag < 0xC0 else 0x0F)
    if 0xA0 <= tag < 0xC0 or tag in (0xD9, 0xDA, 0xDB):
        return data[at : at + count].decode(), at + count
    if 0x90 <= tag < 0xA0 or tag in (0xDC, 0xDD):
        items = []
        for _ in range(count):
            item, at = _value(data, at, depth + 1)
            items.append(item)
        return items, at
    if 0x80 <= tag < 0x90 or tag in (0xDE, 0xDF):
        made = {}
        for _ in range(count):
            key, at = _value(data, at, depth + 1)
            made[key], at = _value(data, at, depth + 1)
        return made, at
    raise ValueError(f"metadata: a value of type {tag:#x}")


def text(value: dict[str, Any]) -> list[str]:
    """Lines of the directive .amdgpu_metadata, in the layout that clang prints kernels in; none of
    no metadata.

    Raises:
        ValueError, TypeError: it is no metadata of a code object.
    """
    if not value:
        return []
    kernels = value.get("amdhsa.kernels", [])
    if not all(_KEY.fullmatch(key) for each in (value, *kernels) for key in each):
        raise ValueError("metadata: a key that is no name")
    lines = ["\t.amdgpu_metadata", "---"]
    for key in sorted(value):
        if key == "amdhsa.kernels":
            lines.append("amdhsa.kernels:")
            for kernel in kernels:
                rows = [f"{name}: {json.dumps(kernel[name])}" for name in sorted(kernel)]
                lines += [f"{'    ' if at else '  - '}{row}" for at, row in enumerate(rows)]
        else:
            lines.append(f"{key}: {json.dumps(value[key])}")
    return [*lines, "...", "\t.end_amdgpu_metadata"]
