"""Tokens of HLO text, and layouts in it: `{1,0:T(8,128)}`. Every error states its position."""

import re
from typing import NoReturn

from xla_contract.errors import InvalidArgumentError
from xla_contract.types.element_type import ElementType
from xla_contract.types.layout import COMBINED, Layout

_SPACE = re.compile(r"(?:\s++|//[^\n]*|/\*.*?\*/)*+", re.DOTALL)
_INTEGER = re.compile(r"[0-9]{1,19}")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LARGEST_SIZE = 2**63 - 1
"""Largest size of a dimension, an int64 as in ShapeProto."""

_TYPES: dict[str, ElementType] = {
    element_type.text: element_type
    for element_type in ElementType
    if element_type.is_array or element_type in (ElementType.TOKEN, ElementType.OPAQUE_TYPE)
}


class TextScanner:
    """Tokens of HLO text, and its layouts, from a position on.

    The next token is read at position `at`, after blanks and comments.
    """

    subject = "a shape"
    """The name of the text in errors."""

    def __init__(self, text: str, at: int = 0) -> None:
        self.text = text
        self.at = at

    def end(self) -> None:
        """Raise InvalidArgumentError unless the text ends here."""
        self.space()
        if self.at < len(self.text):
            self.fail("the end is")

    def element_type(self) -> ElementType:
        """The element type whose name begins here."""
        word = _WORD.match(self.text, self.at)
        found = None if word is None else _TYPES.get(word[0])
        if word is None or found is None:
            self.fail("an element type or ( is")
        self.at = word.end()
        return found

    def layout(self) -> Layout:
        """The layout whose brace was just read."""
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
            raise InvalidArgumentError(f"{error.message} at {self.location(start)}") from error

    def _layout_part(self, tiles: list[tuple[int, ...]], numbers: dict[str, int]) -> None:
        if not tiles and self.skip("T"):
            while self.skip("("):
                tiles.append(self._tile())
            if tiles:
                return
        if "SC" not in numbers and self.skip("SC"):
            # Where the value is split between memories does not matter here.
            numbers["SC"] = 0
            while self.skip("("):
                numbers["SC"] = self.integer("a dimension")
                self.expect(":")
                self._integers("an index")
                self.expect(")")
            return
        for letter in "LEMS":
            if letter not in numbers and self.skip(letter):
                self.expect("(")
                numbers[letter] = self.integer("a number")
                self.expect(")")
                return
        self.fail("T(..), SC(..), L(..), E(..), M(..), S(..) or } is")

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
        """The unsigned number at this position; `what` names it in the error."""
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
        """Return whether `token` comes next."""
        self.space()
        return self.text.startswith(token, self.at)

    def skip(self, token: str) -> bool:
        """Skip `token` if it comes next; return whether it did."""
        found = self.peek(token)
        if found:
            self.at += len(token)
        return found

    def expect(self, token: str) -> None:
        """Go past `token`, which must come next."""
        if not self.skip(token):
            self.fail(f"{token!r} is")

    def location(self, position: int) -> str:
        """Return a position's text in messages."""
        return f"position {position}"

    def fail(self, needed: str) -> NoReturn:
        """Raise InvalidArgumentError: what is needed, what is here, and where here is."""
        rest = self.text[self.at : self.at + 20]
        got = repr(rest) if rest else "the end"
        raise InvalidArgumentError(
            f"{needed} needed in {self.subject}, got {got} at {self.location(self.at)}"
        )
