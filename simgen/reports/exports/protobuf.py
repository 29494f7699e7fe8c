"""Messages in Protocol Buffers' wire format, as far as exports have them.

https://protobuf.dev/programming-guides/encoding: a field is its number and type, then its value.
"""

from __future__ import annotations

import struct

VARINT, FIXED64, LENGTH = 0, 1, 2  # types


def varint(value: int) -> bytes:
    """A whole number of 0 to 2^64 - 1, seven bits in a byte, the lowest first."""
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def _key(number: int, kind: int) -> bytes:
    return varint(number << 3 | kind)


def unsigned_field(number: int, value: int) -> bytes:
    """A field of an unsigned or enumeration type, or of int64 that is not negative; or a bool."""
    return _key(number, VARINT) + varint(value)


def double(number: int, value: float) -> bytes:
    return _key(number, FIXED64) + struct.pack("<d", value)


def held(number: int, value: bytes | str) -> bytes:
    """A field of text, or of another message."""
    content = value.encode("utf-8", "backslashreplace") if isinstance(value, str) else value
    return _key(number, LENGTH) + varint(len(content)) + content


def packed(number: int, values: list[int]) -> bytes:
    """A repeated field of whole numbers; nothing where there are none."""
    return held(number, b"".join(varint(each) for each in values)) if values else b""


def delimited(message: bytes) -> bytes:
    """A message with its length before it, as several lie in one file."""
    return varint(len(message)) + message
