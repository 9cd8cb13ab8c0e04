"""Shapes in HLO text: `f32[2,<=3]{1,0}`, `(s32[], token[])`, `(x: f32[2]) -> f32[2]`.

Semantics: XLA's HLO text form. Text is bounded in length and nesting; every error says the
position it is about.
"""

import re
from typing import NoReturn

from xla_contract.errors import InvalidArgumentError
from xla_contract.types.element_type import ElementType
from xla_contract.types.layout import COMBINED, Layout
from xla_contract.types.shape import UNBOUNDED, ProgramShape, Shape

MAX_LENGTH = 1 << 20
"""The longest text that is read, in characters."""

MAX_NESTING = 64
"""How deep tuples may nest, as in messages."""

_SPACE = re.compile(r"(?:\s++|//[^\n]*|/\*.*?\*/)*+", re.DOTALL)
_INTEGER = re.compile(r"[0-9]{1,19}")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PARAMETER_NAME = re.compile(r"%?([A-Za-z0-9_][A-Za-z0-9_.\-]*)\s*:")
_LAYOUT = re.compile(r"\s*\{\s*(?:[0-9]+\s*[,}:]|[:}])")
_LARGEST_SIZE = 2**63 - 1


def parse_shape(text: str) -> Shape:
    """The shape written in HLO text; `parse_shape(str(shape)) == shape` but for padding.

    Raises InvalidArgumentError with the position of what is wrong.
    """
    reader = _whole(text)
    shape = reader.shape(0)
    reader.end()
    return shape


def parse_program_shape(text: str) -> ProgramShape:
    """The signature written in HLO text, parameter names optional but all or none.

    Raises InvalidArgumentError with the position of what is wrong.
    """
    reader = _whole(text)
    program = reader.program_shape()
    reader.end()
    return program


class ShapeReader:
    """A recursive descent over one text that begins at a position of it.

    `at` is the position of what is read next; blanks and comments before it are skipped.
    """

    def __init__(self, text: str, at: int = 0) -> None:
        self.text = text
        self.at = at

    def shape(self, depth: int = 0) -> Shape:
        """The shape that begins here, `depth` tuples deep."""
        if depth > MAX_NESTING:
            self.fail(f"at most {MAX_NESTING} nested tuples are")
        if not self.skip("("):
            return self._array()
        parts: list[Shape] = []
        if not self.skip(")"):
            parts.append(self.shape(depth + 1))
            while self.skip(","):
                parts.append(self.shape(depth + 1))
            self.expect(")")
        return Shape.tuple_of(parts)

    def program_shape(self) -> ProgramShape:
        """The signature that begins here."""
        parameters: list[Shape] = []
        names: list[str] = []
        self.expect("(")
        if not self.skip(")"):
            self._parameter(parameters, names)
            while self.skip(","):
                self._parameter(parameters, names)
            self.expect(")")
        self.expect("->")
        return ProgramShape(tuple(parameters), self.shape(0), tuple(names))

    def end(self) -> None:
        """Nothing more may follow."""
        self.space()
        if self.at < len(self.text):
            self.fail("the end is")

    def _parameter(self, parameters: list[Shape], names: list[str]) -> None:
        self.space()
        name = _PARAMETER_NAME.match(self.text, self.at)
        if (name is not None) != (len(names) == len(parameters)) and parameters:
            self.fail("a name for every parameter or for none is")
        if name is not None:
            self.at = name.end()
            names.append(name[1])
        parameters.append(self.shape(0))

    def _array(self) -> Shape:
        self.space()
        start = self.at
        word = _WORD.match(self.text, start)
        element_type = None if word is None else _TYPES.get(word[0])
        if word is None or element_type is None:
            self.fail("an element type or ( is")
        self.at = word.end()
        dimensions, dynamic = self._dimensions()
        layout = None
        # Behind a result shape, a brace with anything else in it is a computation.
        if _LAYOUT.match(self.text, self.at):
            self.expect("{")
            layout = self._layout()
        if not element_type.is_array and (dimensions or layout is not None):
            self.at = start
            self.fail(f"{element_type.text}[] without dimensions is")
        try:
            return Shape(element_type, tuple(dimensions), layout, tuple(dynamic))
        except InvalidArgumentError as error:
            raise InvalidArgumentError(f"{error.message} at {self.place(start)}") from error

    def _dimensions(self) -> tuple[list[int], list[bool]]:
        dimensions: list[int] = []
        dynamic: list[bool] = []
        self.expect("[")
        if self.skip("]"):
            return dimensions, dynamic
        while True:
            if self.skip("?"):
                dimensions.append(UNBOUNDED)
                dynamic.append(True)
            else:
                dynamic.append(self.skip("<="))
                dimensions.append(self.integer("a dimension size"))
            if not self.skip(","):
                break
        self.expect("]")
        return dimensions, dynamic

    def _layout(self) -> Layout:
        start = self.at
        order: list[int] = []
        if not self.peek("}") and not self.peek(":"):
            order = self._integers("a dimension number")
        tiles: list[tuple[int, ...]] = []
        numbers: dict[str, int] = {}
        if self.skip(":"):
            while not self.peek("}"):
                self._layout_part(tiles, numbers)
        self.expect("}")
        try:
            return Layout(
                tuple(order),
                tiles=tuple(tiles),
                element_size_in_bits=numbers.get("E", 0),
                memory_space=numbers.get("S", 0),
                tail_padding_alignment_in_elements=numbers.get("L", 1),
            )
        except InvalidArgumentError as error:
            raise InvalidArgumentError(f"{error.message} at {self.place(start)}") from error

    def _layout_part(self, tiles: list[tuple[int, ...]], numbers: dict[str, int]) -> None:
        if not tiles and self.skip("T"):
            while self.skip("("):
                tiles.append(self._tile())
            if tiles:
                return
        for letter in "LES":
            if letter not in numbers and self.skip(letter):
                self.expect("(")
                numbers[letter] = self.integer("a number")
                self.expect(")")
                return
        self.fail("T(..), L(..), E(..), S(..) or } is")

    def _tile(self) -> tuple[int, ...]:
        sizes: list[int] = []
        if self.skip(")"):
            return ()
        while True:
            sizes.append(COMBINED if self.skip("*") else self.integer("a tile size"))
            if not self.skip(","):
                break
        self.expect(")")
        return tuple(sizes)

    def _integers(self, what: str) -> list[int]:
        numbers = [self.integer(what)]
        while self.skip(","):
            numbers.append(self.integer(what))
        return numbers

    def integer(self, what: str) -> int:
        """The number without sign that begins here; `what` names it where there is none."""
        self.space()
        digits = _INTEGER.match(self.text, self.at)
        if digits is None or int(digits[0]) > _LARGEST_SIZE:
            self.fail(f"{what} is")
        self.at = digits.end()
        return int(digits[0])

    def space(self) -> None:
        """Go past blanks and comments."""
        space = _SPACE.match(self.text, self.at)
        if space is not None:
            self.at = space.end()

    def peek(self, token: str) -> bool:
        """Whether `token` comes next."""
        self.space()
        return self.text.startswith(token, self.at)

    def skip(self, token: str) -> bool:
        """Go past `token` if it comes next, and say whether it did."""
        found = self.peek(token)
        if found:
            self.at += len(token)
        return found

    def expect(self, token: str) -> None:
        """Go past `token`, which must come next."""
        if not self.skip(token):
            self.fail(f"{token!r} is")

    def place(self, position: int) -> str:
        """How messages call a position."""
        return f"position {position}"

    def fail(self, needed: str, subject: str = "a shape") -> NoReturn:
        """Raise InvalidArgumentError: what is needed, what is here, and where here is."""
        rest = self.text[self.at : self.at + 20]
        got = repr(rest) if rest else "the end"
        raise InvalidArgumentError(
            f"{needed} needed in {subject}, got {got} at {self.place(self.at)}"
        )


def _whole(text: str) -> ShapeReader:
    if len(text) > MAX_LENGTH:
        raise InvalidArgumentError(
            f"a shape may be {MAX_LENGTH} characters of text, got {len(text)}"
        )
    return ShapeReader(text)


_TYPES: dict[str, ElementType] = {
    element_type.text: element_type
    for element_type in ElementType
    if element_type.is_array or element_type in (ElementType.TOKEN, ElementType.OPAQUE_TYPE)
}
