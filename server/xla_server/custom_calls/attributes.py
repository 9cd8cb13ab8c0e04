"""The attributes of a typed custom call: an MLIR dictionary in text, as in backend_config.

Semantics: MLIR's textual form of builtin attributes, as far as XLA's typed FFI writes them:
`{uplo = 76 : ui8, eps = 1.0e-06 : f32, name = "a\\22b", dims = array<i64: 1, 2>, flag = true}`.
"""

import re
import struct
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import NoReturn, TypeAlias

from xla_contract.errors import InvalidArgumentError

Attribute: TypeAlias = (
    bool | int | float | str | tuple["Attribute", ...] | Mapping[str, "Attribute"]
)
"""An attribute's value; a name without one (a unit attribute) is True."""

MAX_BYTES = 1 << 16
"""The longest dictionary that is read."""

MAX_NESTING = 16
"""Deepest nesting of arrays and dictionaries."""

_TOKEN = re.compile(
    r"""\s*(?:
        (?P<string>"(?:[^"\\]|\\.)*")
      | (?P<hex>0x[0-9A-Fa-f]{1,16}\b)
      | (?P<float>[-+]?[0-9]{1,400}(?:\.[0-9]*(?:[eE][-+]?[0-9]{1,5})?|[eE][-+]?[0-9]{1,5}))
      | (?P<integer>-?[0-9]{1,40})
      | (?P<word>[A-Za-z_][A-Za-z0-9_$.]*)
      | (?P<sign>[{}\[\]<>=:,])
    )""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(rb"\\([0-9A-Fa-f]{2}|.)", re.DOTALL)
_ESCAPED = {b"n": b"\n", b"t": b"\t", b'"': b'"', b"\\": b"\\"}
_INTEGER_TYPE = re.compile(r"(s|u)?i([1-9][0-9]?)\Z")
_FLOAT_FORMATS = {"f16": ("H", "e"), "f32": ("I", "f"), "f64": ("Q", "d")}
_FLOAT_TYPES = (*_FLOAT_FORMATS, "bf16")
_END = ("end", "", 0)


def parse_attributes(text: bytes) -> Mapping[str, Attribute]:
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
    return reader.read()


class _Reader:
    """A recursive descent over the tokens of one text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = self._scan()
        self._next = next(self._tokens)

    def read(self) -> Mapping[str, Attribute]:
        if self._next == _END:
            return MappingProxyType({})
        self._expect("{")
        attributes = self._dictionary(1)
        if self._next[0] != "end":
            self._fail("nothing after the dictionary")
        return attributes

    def _scan(self) -> Iterator[tuple[str, str, int]]:
        at = 0
        end = len(self._text.rstrip())
        while at < end:
            found = _TOKEN.match(self._text, at)
            if found is None or found.lastgroup is None:
                self._fail("a token", at)
            yield found.lastgroup, found[found.lastgroup], found.start(found.lastgroup)
            at = found.end()
        while True:
            yield "end", "", end

    def _take(self) -> tuple[str, str, int]:
        token, self._next = self._next, next(self._tokens)
        return token

    def _accept(self, sign: str) -> bool:
        if self._next[:2] != ("sign", sign):
            return False
        self._take()
        return True

    def _expect(self, sign: str) -> None:
        if not self._accept(sign):
            self._fail(f"'{sign}'")

    def _dictionary(self, depth: int) -> Mapping[str, Attribute]:
        attributes: dict[str, Attribute] = {}
        while not self._accept("}"):
            if attributes:
                self._expect(",")
            kind, text, at = self._take()
            if kind not in ("word", "string"):
                self._fail("a name", at)
            name = self._unquoted(text, at) if kind == "string" else text
            if name in attributes:
                self._fail(f"each name once ('{name}')", at)
            attributes[name] = self._value(depth) if self._accept("=") else True
        return MappingProxyType(attributes)

    def _value(self, depth: int) -> Attribute:
        kind, text, at = self._take()
        if depth >= MAX_NESTING and text in ("{", "["):
            self._fail(f"{MAX_NESTING} levels at most", at)
        if kind == "string":
            return self._unquoted(text, at)
        if kind in ("integer", "float", "hex"):
            return self._number(kind, text, at, self._type() if self._accept(":") else "")
        if text in ("true", "false"):
            return text == "true"
        if text == "unit":
            return True
        if text == "array":
            return self._typed_array()
        if text == "{":
            return self._dictionary(depth + 1)
        if text != "[":
            self._fail("a number, string, array or dictionary", at)
        return self._array(depth + 1)

    def _array(self, depth: int) -> tuple[Attribute, ...]:
        values: list[Attribute] = []
        while not self._accept("]"):
            if values:
                self._expect(",")
            values.append(self._value(depth))
        return tuple(values)

    def _typed_array(self) -> tuple[Attribute, ...]:
        values: list[Attribute] = []
        self._expect("<")
        of = self._type()
        if self._accept(":"):
            while not values or self._accept(","):
                kind, text, at = self._take()
                if of == "i1" and text in ("true", "false"):
                    values.append(text == "true")
                else:
                    values.append(self._number(kind, text, at, of))
        self._expect(">")
        return tuple(values)

    def _type(self) -> str:
        kind, text, at = self._take()
        if kind != "word" or not (
            text in _FLOAT_TYPES or text == "index" or _INTEGER_TYPE.match(text)
        ):
            self._fail("a type of numbers", at)
        return text

    def _number(self, kind: str, text: str, at: int, of: str) -> int | float:
        if of in _FLOAT_TYPES:
            if kind == "hex":
                return self._float_of_bits(int(text, 16), at, of)
            if kind == "float":
                return float(text)
            self._fail(f"a number of type {of}", at)
        if kind == "float" and not of:
            return float(text)
        if kind not in ("integer", "hex"):
            self._fail(f"a number of type {of or 'i64'}", at)
        value = int(text, 16 if kind == "hex" else 10)
        found = _INTEGER_TYPE.match(of)
        sign, width = (found[1] or "", int(found[2])) if found else ("", 64)
        low = 0 if sign == "u" else -(2 ** (width - 1))
        high = 2 ** (width - 1) if sign == "s" else 2**width
        if not low <= value < high:
            self._fail(f"a number of type {of or 'i64'}", at)
        return value

    def _float_of_bits(self, bits: int, at: int, of: str) -> float:
        if of == "bf16":
            bits, of = bits << 16, "f32"
        integer, floating = _FLOAT_FORMATS[of]
        try:
            value: float = struct.unpack(floating, struct.pack(integer, bits))[0]
        except struct.error:
            self._fail(f"the bits of a number of type {of}", at)
        return value

    def _unquoted(self, text: str, at: int) -> str:
        def character(found: re.Match[bytes]) -> bytes:
            code = found[1]
            if len(code) == 2:
                return bytes([int(code, 16)])
            if code not in _ESCAPED:
                self._fail("an escape", at)
            return _ESCAPED[code]

        return _ESCAPE.sub(character, text[1:-1].encode()).decode(errors="replace")

    def _fail(self, wanted: str, at: int | None = None) -> NoReturn:
        at = self._next[2] if at is None else at
        got = self._text[at : at + 20]
        raise InvalidArgumentError(
            f"the attributes of a custom call must have {wanted} at position {at}, got '{got}'"
        )
