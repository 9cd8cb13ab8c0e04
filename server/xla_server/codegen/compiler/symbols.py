"""Undefined symbols of object code."""

import struct
from collections.abc import Iterator

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_MAGIC = b"\x7fELF\x02\x01"
_SYMBOL_TABLE = 2
_UNDEFINED = 0
"""SHT_SYMTAB and SHN_UNDEF of ELF."""

_LINKERS_OWN = frozenset({"_GLOBAL_OFFSET_TABLE_"})
"""Symbols that LLVM's loader defines itself."""


def undefined_symbols(code: bytes) -> frozenset[str]:
    """Return the symbols that object code refers to and does not define.

    The code is ELF of 64 bits, little-endian: what LLVM's just-in-time compiler emits on Linux.
    The result is empty for other formats.
    """
    return frozenset(_undefined(code)) - _LINKERS_OWN


def _undefined(code: bytes) -> Iterator[str]:
    if not code.startswith(_MAGIC):
        return
    fields = _HEADER.unpack_from(code)
    first, count = fields[6], fields[12]
    sections = [_SECTION.unpack_from(code, first + n * _SECTION.size) for n in range(count)]
    for _, kind, _, _, offset, size, link, *_ in sections:
        if kind == _SYMBOL_TABLE:
            names = sections[link][4]
            for name, _, _, section, _, _ in _SYMBOL.iter_unpack(code[offset : offset + size]):
                if name and section == _UNDEFINED:
                    start = names + name
                    yield code[start : code.index(b"\0", start)].decode()
