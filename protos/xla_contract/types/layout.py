"""Layout of an array in linear memory: minor-to-major order and padding.

Semantics: XLA's "Shapes and layout". The padding part is retired in today's XLA but still
written by old clients, so it is read and honoured.
"""

import dataclasses
import enum

from xla_contract.errors import InvalidArgumentError

COMBINED = -(2**63)
"""The size written in a tile for a dimension joined with the next one, `*` in text."""


class PaddingValue(enum.IntEnum):
    """Value of the padding elements of a padded layout."""

    INVALID_PAD = 0
    ZERO_PAD = 1
    ONE_PAD = 2
    LOWEST_PAD = 3
    HIGHEST_PAD = 4
    UNKNOWN_PAD = 5


@dataclasses.dataclass(frozen=True, slots=True)
class Layout:
    """A layout of an array of rank `len(minor_to_major)`.

    `minor_to_major` lists logical dimensions from the fastest varying to the slowest.
    `padded_dimensions`, empty or one width per logical dimension, gives the widths in memory.
    `tiles`, `element_size_in_bits` and `memory_space` are carried, not interpreted: they belong
    to the hardware that wrote them.
    """

    minor_to_major: tuple[int, ...]
    padded_dimensions: tuple[int, ...] = ()
    padding_value: PaddingValue = PaddingValue.INVALID_PAD
    tiles: tuple[tuple[int, ...], ...] = ()
    element_size_in_bits: int = 0
    memory_space: int = 0
    tail_padding_alignment_in_elements: int = 1

    def __post_init__(self) -> None:
        rank = len(self.minor_to_major)
        if sorted(self.minor_to_major) != list(range(rank)):
            raise InvalidArgumentError(
                "minor_to_major must be a permutation of the dimension numbers, got "
                f"{{{','.join(map(str, self.minor_to_major))}}} for rank {rank}"
            )
        if self.padded_dimensions and len(self.padded_dimensions) != rank:
            raise InvalidArgumentError(
                f"padded_dimensions must have one entry per dimension, got "
                f"{len(self.padded_dimensions)} entries for rank {rank}"
            )

    @classmethod
    def descending(cls, rank: int) -> "Layout":
        """The default layout, row major: the last dimension varies fastest."""
        return cls(tuple(range(rank - 1, -1, -1)))

    @property
    def is_descending(self) -> bool:
        """True if memory order is the default row-major order, without padding."""
        rank = len(self.minor_to_major)
        return not self.is_padded and self.minor_to_major == tuple(range(rank - 1, -1, -1))

    @property
    def is_padded(self) -> bool:
        """True if memory holds more than the logical elements."""
        return bool(self.padded_dimensions)

    @property
    def major_to_minor(self) -> tuple[int, ...]:
        """Logical dimensions from the slowest varying to the fastest."""
        return self.minor_to_major[::-1]

    def __str__(self) -> str:
        """Return HLO text: `{1,0}`, with tiles `T(8,128)`, size `E(4)` and memory space `S(1)`.

        Padding is left out: HLO text has no notation for it.
        """
        tail = ""
        if self.tiles:
            tail += "T" + "".join(f"({','.join(map(_tile_text, tile))})" for tile in self.tiles)
        if self.tail_padding_alignment_in_elements > 1:
            tail += f"L({self.tail_padding_alignment_in_elements})"
        if self.element_size_in_bits:
            tail += f"E({self.element_size_in_bits})"
        if self.memory_space:
            tail += f"S({self.memory_space})"
        order = ",".join(map(str, self.minor_to_major))
        return f"{{{order}:{tail}}}" if tail else f"{{{order}}}"


def _tile_text(size: int) -> str:
    return "*" if size == COMBINED else str(size)
