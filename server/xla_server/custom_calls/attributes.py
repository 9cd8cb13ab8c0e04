"""The attributes of a typed custom call: an MLIR dictionary in text, as in backend_config.

Semantics: MLIR's textual form of builtin attributes, as far as XLA's typed FFI writes them:
`{uplo = 76 : ui8, eps = 1.0e-06 : f32, name = "a\\22b", dims = array<i64: 1, 2>, flag = true}`.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import NoReturn, TypeAlias

import numpy as np

from xla_contract.errors import InvalidArgumentError
from xla_contract.types.element_type import ElementType
from xla_server.ir.text.scanner import HloReader

AttributeValue: TypeAlias = (
    bool | int | float | str | tuple["AttributeValue", ...] | Mapping[str, "AttributeValue"]
)
"""An attribute's value; a name without one (a unit attribute) is True."""

MAX_BYTES = 1 << 16
"""The longest dictionary that is read."""

MAX_NESTING = 16
"""Deepest nesting of arrays and dictionaries."""

_NUMBER = re.compile(
    r"""(?P<hex>0x[0-9A-Fa-f]{1,16}\b)
      | (?P<float>[-+]?[0-9]{1,400}(?:\.[0-9]*(?:[eE][-+]?[0-9]{1,5})?|[eE][-+]?[0-9]{1,5}))
      | (?P<integer>-?[0-9]{1,40})""",
    re.VERBOSE,
)
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_$.]*")
_STRING = re.compile(r'"((?:[^"\\]|\\.)*+)"', re.DOTALL)
_ESCAPE = re.compile(rb"\\([0-9A-Fa-f]{2}|.)", re.DOTALL)
_ESCAPED = {b"n": b"\n", b"t": b"\t", b'"': b'"', b"\\": b"\\"}
_INTEGER_TYPE = re.compile(r"(s|u)?i([1-9][0-9]?)\Z")
_FLOAT_TYPES = {
    kind.text: kind.dtype
    for kind in (ElementType.F16, ElementType.BF16, ElementType.F32, ElementType.F64)
}


def parse_attributes(text: bytes) -> Mapping[str, AttributeValue]:
    """The attributes a dictionary in text names; an empty text is an empty dictionary.

    Raises InvalidArgumentError with the position of what is wrong, for a dictionary that is too
    long or too deep, and for values that are neither numbers, strings, arrays nor dictionaries.
    """
    if len(text) > MAX_BYTES:
        raise InvalidArgumentError(
            f"the attributes of a custom call may be {MAX_BYTES} bytes of text, got {len(text)}"
        )
    try:
        reader = _Reader(text.decode())
    except UnicodeDecodeError as error:
        raise InvalidArgumentError(
            f"the attributes of a custom call must be UTF-8, got another byte at {error.start}"
        ) from None
    if not text.strip():
        return MappingProxyType({})
    attributes = reader.dictionary_of(1)
    reader.end()
    return attributes


def integer(attributes: Mapping[str, AttributeValue], name: str) -> int:
    """An attribute that is an integer; raises InvalidArgumentError if it is none."""
    number = attributes.get(name)
    if type(number) is not int:
        raise InvalidArgumentError(f"attribute {name} must be an integer, got {number!r:.40}")
    return number


class _Reader(HloReader):
    """A recursive descent over the text of one dictionary; errors state the position."""

    subject = "the attributes of a custom call"

    def location(self, position: int) -> str:
        return f"position {position}"

    def dictionary_of(self, depth: int) -> Mapping[str, AttributeValue]:
        attributes: dict[str, AttributeValue] = {}

        def entry() -> None:
            is_quoted, start = self.peek('"'), self.at
            name = self._quoted() if is_quoted else self.match(_WORD, "a name")[0]
            if name in attributes:
                self._fail_at(start, f"each name once ('{name}')")
            attributes[name] = self._value(depth) if self.skip("=") else True

        self.listed("{", entry, "}")
        return MappingProxyType(attributes)

    def _value(self, depth: int) -> AttributeValue:
        is_dictionary, is_array = self.peek("{"), self.peek("[")
        if depth >= MAX_NESTING and (is_dictionary or is_array):
            self.fail(f"{MAX_NESTING} levels at most are")
        if is_dictionary:
            return self.dictionary_of(depth + 1)
        if is_array:
            return tuple(self.listed("[", lambda: self._value(depth + 1), "]"))
        if self.peek('"'):
            return self._quoted()
        if _NUMBER.match(self.text, self.at):
            return self._number()
        start = self.at
        word = self.match(_WORD, "a number, string, array or dictionary")[0]
        if word not in ("true", "false", "unit", "array"):
            self._fail_at(start, "a number, string, array or dictionary")
        return self._typed_array() if word == "array" else word != "false"

    def _typed_array(self) -> tuple[AttributeValue, ...]:
        values: list[AttributeValue] = []
        self.expect("<")
        of = self._type()
        if self.skip(":"):
            while not values or self.skip(","):
                is_flag = of == "i1" and (self.peek("true") or self.peek("false"))
                values.append(self.boolean() if is_flag else self._number(of))
        self.expect(">")
        return tuple(values)

    def _type(self) -> str:
        self.space()
        start = self.at
        text = self.match(_WORD, "a type of numbers")[0]
        if text not in _FLOAT_TYPES and text != "index" and not _INTEGER_TYPE.match(text):
            self._fail_at(start, "a type of numbers")
        return text

    def _number(self, of: str | None = None) -> int | float:
        """The number that begins here, of the type after it unless a type is passed."""
        self.space()
        start = self.at
        found = self.match(_NUMBER, "a number")
        if of is None:
            of = self._type() if self.skip(":") else ""
        number = _number_of(found, of)
        if number is None:
            self._fail_at(start, f"a number of type {of or 'i64'}")
        return number

    def _quoted(self) -> str:
        start = self.at

        def character(found: re.Match[bytes]) -> bytes:
            code = found[1]
            if len(code) == 2:
                return bytes([int(code, 16)])
            if code not in _ESCAPED:
                self._fail_at(start, "an escape")
            return _ESCAPED[code]

        quoted = self.match(_STRING, "a string in double quotes")[1]
        return _ESCAPE.sub(character, quoted.encode()).decode(errors="replace")

    def _fail_at(self, start: int, needed: str) -> NoReturn:
        self.at = start
        self.fail(f"{needed} is")


def _number_of(found: re.Match[str], of: str) -> int | float | None:
    """Return a number of a type, of i64 where that is empty; None if the type has none such."""
    if found.lastgroup == "float":
        return float(found[0]) if not of or of in _FLOAT_TYPES else None
    number = int(found[0], 16 if found.lastgroup == "hex" else 10)
    if of in _FLOAT_TYPES:
        dtype = _FLOAT_TYPES[of]
        if found.lastgroup != "hex" or number >> 8 * dtype.itemsize:
            return None
        return float(np.array(number, f"u{dtype.itemsize}").view(dtype))
    kind = _INTEGER_TYPE.match(of)
    sign, width = (kind[1], int(kind[2])) if kind else (None, 64)
    low = 0 if sign == "u" else -(2 ** (width - 1))
    high = 2 ** (width - 1) if sign == "s" else 2**width
    return number if low <= number < high else None
