"""Shapes in HLO text: `f32[2,<=3]{1,0}`, `(s32[], token[])`, `(x: f32[2]) -> f32[2]`.

Semantics: XLA's HLO text form. Text is bounded in length and nesting; every error says the
position it is about.
"""

import re
from typing import NoReturn

from xla_contract.element_type import ElementType
from xla_contract.errors import InvalidArgumentError
from xla_contract.layout import COMBINED, Layout
from xla_contract.shape import UNBOUNDED, ProgramShape, Shape

MAX_LENGTH = 1 << 20
"""The longest text that is read, in characters."""

MAX_NESTING = 64
"""How deep tuples may nest, as in messages."""

_SPACE = re.compile(r"(?:\s|/\*.*?\*/)*", re.DOTALL)
_INTEGER = re.compile(r"[0-9]{1,19}")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PARAMETER_NAME = re.compile(r"%?([A-Za-z0-9_][A-Za-z0-9_.\-]*)\s*:")
_LARGEST_SIZE = 2**63 - 1


def parse_shape(text: str) -> Shape:
    """The shape written in HLO text; `parse_shape(str(shape)) == shape` but for padding.

    Raises InvalidArgumentError with the position of what is wrong.
    """
    reader = _Reader(text)
    shape = reader.shape(0)
    reader.end()
    return shape


def parse_program_shape(text: str) -> ProgramShape:
    """The signature written in HLO text, parameter names optional but all or none.

    Raises InvalidArgumentError with the position of what is wrong.
    """
    reader = _Reader(text)
    program = reader.program_shape()
    reader.end()
    return program


class _Reader:
    """A recursive descent over one text."""

    def __init__(self, text: str) -> None:
        if len(text) > MAX_LENGTH:
            raise InvalidArgumentError(
                f"a shape may be {MAX_LENGTH} characters of text, got {len(text)}"
            )
        self._text = text
        self._at = 0

    def shape(self, depth: int) -> Shape:
        if depth > MAX_NESTING:
            self._fail(f"at most {MAX_NESTING} nested tuples are")
        if not self._skip("("):
            return self._array()
        parts: list[Shape] = []
        if not self._skip(")"):
            parts.append(self.shape(depth + 1))
            while self._skip(","):
                parts.append(self.shape(depth + 1))
            self._expect(")")
        return Shape.tuple_of(parts)

    def program_shape(self) -> ProgramShape:
        parameters: list[Shape] = []
        names: list[str] = []
        self._expect("(")
        if not self._skip(")"):
            self._parameter(parameters, names)
            while self._skip(","):
                self._parameter(parameters, names)
            self._expect(")")
        self._expect("->")
        return ProgramShape(tuple(parameters), self.shape(0), tuple(names))

    def end(self) -> None:
        self._space()
        if self._at < len(self._text):
            self._fail("the end is")

    def _parameter(self, parameters: list[Shape], names: list[str]) -> None:
        self._space()
        name = _PARAMETER_NAME.match(self._text, self._at)
        if (name is not None) != (len(names) == len(parameters)) and parameters:
            self._fail("a name for every parameter or for none is")
        if name is not None:
            self._at = name.end()
            names.append(name[1])
        parameters.append(self.shape(0))

    def _array(self) -> Shape:
        self._space()
        start = self._at
        word = _WORD.match(self._text, start)
        element_type = None if word is None else _TYPES.get(word[0])
        if word is None or element_type is None:
            self._fail("an element type or ( is")
        self._at = word.end()
        dimensions, dynamic = self._dimensions()
        layout = self._layout() if self._skip("{") else None
        if not element_type.is_array and (dimensions or layout is not None):
            self._at = start
            self._fail(f"{element_type.text}[] without dimensions is")
        try:
            return Shape(element_type, tuple(dimensions), layout, tuple(dynamic))
        except InvalidArgumentError as error:
            raise InvalidArgumentError(f"{error.message} at position {start}") from error

    def _dimensions(self) -> tuple[list[int], list[bool]]:
        dimensions: list[int] = []
        dynamic: list[bool] = []
        self._expect("[")
        if self._skip("]"):
            return dimensions, dynamic
        while True:
            if self._skip("?"):
                dimensions.append(UNBOUNDED)
                dynamic.append(True)
            else:
                dynamic.append(self._skip("<="))
                dimensions.append(self._integer("a dimension size"))
            if not self._skip(","):
                break
        self._expect("]")
        return dimensions, dynamic

    def _layout(self) -> Layout:
        start = self._at
        order: list[int] = []
        if not self._peek("}") and not self._peek(":"):
            order = self._integers("a dimension number")
        tiles: list[tuple[int, ...]] = []
        numbers: dict[str, int] = {}
        if self._skip(":"):
            while not self._peek("}"):
                self._layout_part(tiles, numbers)
        self._expect("}")
        try:
            return Layout(
                tuple(order),
                tiles=tuple(tiles),
                element_size_in_bits=numbers.get("E", 0),
                memory_space=numbers.get("S", 0),
                tail_padding_alignment_in_elements=numbers.get("L", 1),
            )
        except InvalidArgumentError as error:
            raise InvalidArgumentError(f"{error.message} at position {start}") from error

    def _layout_part(self, tiles: list[tuple[int, ...]], numbers: dict[str, int]) -> None:
        if not tiles and self._skip("T"):
            while self._skip("("):
                tiles.append(self._tile())
            if tiles:
                return
        for letter in "LES":
            if letter not in numbers and self._skip(letter):
                self._expect("(")
                numbers[letter] = self._integer("a number")
                self._expect(")")
                return
        self._fail("T(..), L(..), E(..), S(..) or } is")

    def _tile(self) -> tuple[int, ...]:
        sizes: list[int] = []
        if self._skip(")"):
            return ()
        while True:
            sizes.append(COMBINED if self._skip("*") else self._integer("a tile size"))
            if not self._skip(","):
                break
        self._expect(")")
        return tuple(sizes)

    def _integers(self, what: str) -> list[int]:
        numbers = [self._integer(what)]
        while self._skip(","):
            numbers.append(self._integer(what))
        return numbers

    def _integer(self, what: str) -> int:
        self._space()
        digits = _INTEGER.match(self._text, self._at)
        if digits is None or int(digits[0]) > _LARGEST_SIZE:
            self._fail(f"{what} is")
        self._at = digits.end()
        return int(digits[0])

    def _space(self) -> None:
        space = _SPACE.match(self._text, self._at)
        if space is not None:
            self._at = space.end()

    def _peek(self, token: str) -> bool:
        self._space()
        return self._text.startswith(token, self._at)

    def _skip(self, token: str) -> bool:
        found = self._peek(token)
        if found:
            self._at += len(token)
        return found

    def _expect(self, token: str) -> None:
        if not self._skip(token):
            self._fail(f"{token!r} is")

    def _fail(self, needed: str) -> NoReturn:
        rest = self._text[self._at : self._at + 20]
        got = repr(rest) if rest else "the end"
        raise InvalidArgumentError(f"{needed} needed in a shape, got {got} at position {self._at}")


_TYPES: dict[str, ElementType] = {
    element_type.text: element_type
    for element_type in ElementType
    if element_type.is_array or element_type in (ElementType.TOKEN, ElementType.OPAQUE_TYPE)
}
