"""ragged-all-to-all: slices of rows sent to where the receiver keeps them.

Member i sends rows `input_offsets[j]` of its input to rows `output_offsets[j]` of the output of
member j, with as many updates for each peer as the tables have entries divided by members.
"""

from collections.abc import Sequence

from xla_contract.errors import InvalidArgumentError
from xla_server.ir.module import HloInstruction
from xla_server.ops.collectives.collective import Collective, Group
from xla_server.ops.evaluation import Array, Route


def _fill(group: Group, position: int) -> None:
    """Write the output and into it each slice, later updates over earlier ones.

    Raises InvalidArgumentError for a slice outside the input or the output, and for sizes that
    differ between sender and receiver.
    """
    _, output, _, _, _, received_sizes = group.parts[position].operands
    (result,) = group.parts[position].results
    result[...] = output
    expected = received_sizes.reshape(len(group.parts), -1).tolist()
    for part, received in zip(group.parts, expected, strict=True):
        given, _, *tables = part.operands
        rows = [table.reshape(len(group.parts), -1)[position].tolist() for table in tables[:3]]
        for start, size, row, wanted in zip(*rows, received, strict=True):
            if size != wanted:
                raise InvalidArgumentError(
                    f"what one participant receives must be what another sends, got {size} rows "
                    f"sent and {wanted} received"
                )
            if min(start, size, row) < 0 or start + size > len(given) or row + size > len(result):
                raise InvalidArgumentError(
                    f"slices must lie in input and output, got {size} rows from {start} of "
                    f"{len(given)} to {row} of {len(result)}"
                )
            result[row : row + size] = given[start : start + size]


def _sizes(
    instruction: HloInstruction, operands: Sequence[Array], count: int
) -> list[tuple[int, ...]]:
    return [operands[1].shape]


RAGGED_ALL_TO_ALL = Collective(_fill, Route.WHOLE, sizes=_sizes, keeps=False)
