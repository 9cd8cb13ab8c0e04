"""The evaluator of ragged-all-to-all."""

from collections.abc import Sequence
from typing import cast

import numpy as np

from xla_contract.errors import InvalidArgumentError
from xla_contract.ops.ragged_all_to_all import RaggedAllToAllAttributes
from xla_server.ir.module import HloInstruction
from xla_server.ops.collective import my_number, only_one, require_alone
from xla_server.ops.evaluation import Array, Frame, Value


def evaluate_ragged_all_to_all(
    instruction: HloInstruction, operands: Sequence[Value], frame: Frame
) -> Value:
    """The output with each slice of the input at its offset, later updates over earlier ones.

    Raises InvalidArgumentError for a slice outside the input or the output, and for sizes that
    differ between sender and receiver.
    """
    attributes: RaggedAllToAllAttributes = instruction.attributes
    require_alone(attributes.participants, frame, has_global_ids=False)
    given, output, *tables = (cast(Array, operand) for operand in operands)
    if tables[0].ndim == 2 and tables[0].shape[0] != 1:
        me = my_number(attributes.participants.mode(has_global_ids=False), frame)
        raise only_one(me, f"offsets for {tables[0].shape[0]} participants")
    result = np.array(output)
    for start, size, place, received in zip(*(t.reshape(-1).tolist() for t in tables), strict=True):
        if size != received:
            raise InvalidArgumentError(
                f"what one replica receives must be what it sends, got {size} rows sent and "
                f"{received} received"
            )
        if min(start, size, place) < 0 or start + size > len(given) or place + size > len(result):
            raise InvalidArgumentError(
                f"slices must lie in input and output, got {size} rows from {start} of "
                f"{len(given)} to {place} of {len(result)}"
            )
        result[place : place + size] = given[start : start + size]
    return result
