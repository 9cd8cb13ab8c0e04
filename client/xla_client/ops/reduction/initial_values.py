"""Initial values of reductions, one for each operand."""

import itertools
from collections.abc import Sequence

from xla_client.programs.arguments.operands import values
from xla_client.programs.builder import Op, Values, builder_of, promoted
from xla_contract.errors import ShapeError


def initial_values(operands: Sequence[Op], given: Values) -> list[Op]:
    """Return the values as Ops; numbers take the element type of their operand.

    Raises:
        ShapeError: The operands are not arrays, or not as many as the values.
    """
    builder = builder_of(*operands)
    likes = itertools.chain((operand.shape for operand in operands), itertools.repeat(None))
    initial = [
        promoted(builder, value, like)
        for value, like in zip(values("init_values", given), likes, strict=False)
    ]
    if len(initial) != len(operands):
        shapes = ", ".join(str(each.shape) for each in (*operands, *initial))
        raise ShapeError(f"operands must be arrays and as many initial values, got ({shapes})")
    return initial
