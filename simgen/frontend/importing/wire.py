"""What a message of protocol buffers takes once it is read: a message of two bytes takes hundreds.

The content is walked through without being read, by the fields that its type has.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor  # type: ignore[import-untyped]

# Bytes that the reader takes, about; measured with onnx's messages.
MESSAGE, TEXT, NUMBER = 350, 64, 8
PLENTY = 2**29  # bytes that any message may take
TIMES = 4  # a larger one may take so many times its own size
DEPTH = 100  # nesting limit of messages; no reader goes further
VARINT, FIXED, HELD = 0, {1: 8, 5: 4}, 2  # kinds of fields


def is_too_large(content: bytes, kind: Descriptor) -> bool:
    """Whether a message of this type takes much more memory than `content`.

    What is damaged is looked at up to the damage.
    """
    most = max(PLENTY, TIMES * len(content))
    taken, at, end, fields = 0, 0, len(content), _fields(kind)
    outer: list[tuple[int, dict[int, Descriptor | int]]] = []
    try:
        while taken <= most:
            while at >= end:
                if not outer:
                    return False
                end, fields = outer.pop()
            key, at = _number(content, at)
            if key & 7 == VARINT:
                _, at = _number(content, at)
                taken += NUMBER
            elif key & 7 in FIXED:
                at += FIXED[key & 7]
                taken += NUMBER
            elif key & 7 == HELD:
                nbytes, at = _number(content, at)
                held = fields.get(key >> 3, 1)
                if isinstance(held, int):
                    taken += TEXT + held * nbytes
                    at += nbytes
                    continue
                taken += MESSAGE
                if len(outer) == DEPTH:
                    return False
                outer.append((end, fields))
                end, fields = at + nbytes, _fields(held)
            else:
                return False
    except IndexError:
        return False
    return True


def _number(content: bytes, at: int) -> tuple[int, int]:
    """A number in groups of 7 bits, and where it ends."""
    number = content[at]
    if number < 128:
        return number, at + 1
    number, shift = number & 127, 7
    for place in range(at + 1, at + 10):
        number |= (content[place] & 127) << shift
        if content[place] < 128:
            return number, place + 1
        shift += 7
    raise IndexError


@cache
def _fields(kind: Descriptor) -> dict[int, Descriptor | int]:
    """Number of a field -> its type, if that is a message; else how many times its size it takes,
    if it holds numbers."""
    found: dict[int, Descriptor | int] = {}
    for field in kind.fields:
        if field.message_type is not None:
            found[field.number] = field.message_type
        elif field.cpp_type in (field.CPPTYPE_INT64, field.CPPTYPE_UINT64):
            found[field.number] = 8
        elif field.cpp_type in (field.CPPTYPE_INT32, field.CPPTYPE_UINT32, field.CPPTYPE_ENUM):
            found[field.number] = 4
    return found
