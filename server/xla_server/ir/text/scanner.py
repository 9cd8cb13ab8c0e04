"""The lexical part of HLO text: names, numbers, strings, braces, and where errors are."""

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping
from typing import NoReturn, TypeVar

from xla_contract.errors import InvalidArgumentError
from xla_contract.types.shape import Shape, ShapeReader

T = TypeVar("T")

IDENTIFIER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-]*")
"""A name in HLO text."""

_NAME = re.compile(r"%?([A-Za-z0-9_][A-Za-z0-9_.\-]*)")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_\-]*")
_SIGNED = re.compile(r"-?[0-9]{1,20}")
_FLOAT = re.compile(r"[+-]?(?:nan|inf|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)")
_STRING = re.compile(r'"((?:[^"\\]|\\.)*+)"', re.DOTALL)
_ESCAPE = re.compile(rb"\\([0-7]{1,3}|[xX][0-9a-fA-F]{1,2}|.)", re.DOTALL)
_ESCAPED = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"a": b"\a", b"b": b"\b", b"f": b"\f"}
_STRUCTURE = re.compile(r'[{}\[\](),\n]|"(?:[^"\\]|\\.)*+"', re.DOTALL)
_PLAIN_SHAPE = re.compile(r"[a-z][a-z0-9]*\[[0-9,]*\](?:\{[0-9,]*\})?(?![{:0-9])")


class HloReader(ShapeReader):
    """A recursive descent over HLO text; errors state line:column."""

    subject = "HLO text"

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._shapes: dict[str, Shape] = {}

    def shape(self, depth: int = 0) -> Shape:
        """The shape that begins here; one that came before in the same words is the same."""
        self.space()
        plain = _PLAIN_SHAPE.match(self.text, self.at)
        known = None if plain is None else self._shapes.get(plain[0])
        if plain is not None and known is not None:
            self.at = plain.end()
            return known
        start = self.at
        shape = super().shape(depth)
        if plain is not None and self.at == plain.end():
            self._shapes[self.text[start : self.at]] = shape
        return shape

    def location(self, position: int) -> str:
        """Return a position's text in messages: line:column, both from 1."""
        line = self.text.count("\n", 0, position) + 1
        return f"{line}:{position - self.text.rfind(chr(10), 0, position)}"

    @contextlib.contextmanager
    def locating(self, position: int) -> Iterator[None]:
        """Add to any InvalidArgumentError of the block the text position that it is about."""
        try:
            yield
        except InvalidArgumentError as error:
            raise InvalidArgumentError(f"{error.message} at {self.location(position)}") from error

    def refuse(self, rule: str, got: str, at: int) -> NoReturn:
        """Raise InvalidArgumentError: the rule, what was found, and its location."""
        self.at = at
        self.space()
        raise InvalidArgumentError(f"{rule}, got {got} at {self.location(self.at)}")

    def match(self, pattern: re.Pattern[str], what: str) -> "re.Match[str]":
        """Skip what `pattern` matches here; if nothing does, `what` names it in the error."""
        self.space()
        found = pattern.match(self.text, self.at)
        if found is None:
            self.fail(f"{what} is")
        self.at = found.end()
        return found

    def name(self, what: str) -> str:
        """The name of an instruction or computation, with or without %."""
        return self.match(_NAME, what)[1]

    def word(self, what: str) -> str:
        """A word: an opcode, the name of an attribute."""
        return self.match(_WORD, what)[0]

    def known(self, read: Callable[[str], str], what: str, known: Mapping[str, T], rule: str) -> T:
        """The value of the name that `read` gives; InvalidArgumentError with the rule without."""
        start = self.at
        name = read(what)
        if name not in known:
            self.refuse(rule, repr(name), start)
        return known[name]

    def signed(self, what: str = "a number") -> int:
        """A number of 64 bits, with or without sign."""
        return self._bounded(what, 64)

    def narrow(self) -> int:
        """A number of 32 bits, with or without sign."""
        return self._bounded("a number", 32)

    def _bounded(self, what: str, bits: int) -> int:
        found = self.match(_SIGNED, what)
        number = int(found[0])
        if not -(1 << bits - 1) <= number < 1 << bits - 1:
            self.at = found.start()
            self.fail(f"a number of {bits} bits is")
        return number

    def real(self) -> float:
        """A floating point number."""
        return float(self.match(_FLOAT, "a number")[0])

    def boolean(self) -> bool:
        """true or false; XLA takes 1 and 0 too."""
        found = self.match(IDENTIFIER, "true or false")
        if found[0] not in ("true", "false", "1", "0"):
            self.at = found.start()
            self.fail("true or false is")
        return found[0] in ("true", "1")

    def string(self) -> bytes:
        """A string in double quotes with the escapes of C."""
        quoted = self.match(_STRING, "a string in double quotes")[1]
        return _ESCAPE.sub(_unescaped, quoted.encode(errors="replace"))

    def braced(self, item: Callable[[], T]) -> list[T]:
        """{item, item ...}"""
        return self.listed("{", item, "}")

    def listed(self, opening: str, item: Callable[[], T], closing: str) -> list[T]:
        """Items between two marks, commas between them."""
        self.expect(opening)
        items: list[T] = []
        while not self.skip(closing):
            if items:
                self.expect(",")
            items.append(item())
        return items

    def dictionary(self) -> bytes:
        """The text from a { to the } that closes it, as it stands."""
        self.space()
        start = self.at
        self.expect("{")
        depth = 1
        while depth:
            mark = _STRUCTURE.search(self.text, self.at)
            if mark is None:
                self.at = start
                self.fail("a } for every { is")
            self.at = mark.end()
            depth += (mark[0] == "{") - (mark[0] == "}")
        return self.text[start : self.at].encode(errors="replace")

    def ignore_value(self) -> None:
        """Skip the value of an attribute that does not matter, up to the comma after it."""
        depth = 0
        self.space()
        while True:
            mark = _STRUCTURE.search(self.text, self.at)
            if mark is None:
                self.at = len(self.text)
                return
            if not depth and mark[0] in "}]),\n":
                self.at = mark.start()
                return
            self.at = mark.end()
            depth += (mark[0] in "{[(") - (mark[0] in "}])")


def quoted(data: bytes) -> str:
    """`data` as a string of HLO text."""
    return '"' + "".join(map(_character, data)) + '"'


def _character(byte: int) -> str:
    special = {10: "\\n", 13: "\\r", 9: "\\t", 34: '\\"', 39: "\\'", 92: "\\\\"}.get(byte)
    if special is not None:
        return special
    return chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}"


def _unescaped(escape: "re.Match[bytes]") -> bytes:
    code = escape[1]
    if code[0:1] in b"xX" and len(code) > 1:
        return bytes([int(code[1:], 16)])
    if code[:1].isdigit():
        return bytes([int(code, 8) & 0xFF])
    return _ESCAPED.get(code, code)
