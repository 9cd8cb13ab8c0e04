"""infeed: the next item of the device's infeed queue.

Semantics: XLA's InfeedWithToken.
"""

import dataclasses
from collections.abc import Sequence
from typing import Annotated

from xla_contract.errors import InvalidArgumentError, ShapeError
from xla_contract.ops.attribute_fields import Declared, Scalar
from xla_contract.types.shape import Shape


def _data_in(shape: Shape) -> Shape:
    if len(shape.tuple_shapes) != 2 or not shape.tuple_shapes[1].is_token:
        raise InvalidArgumentError(
            f"the result must be a pair of data and token, got {shape.without_layout()}"
        )
    return shape.tuple_shapes[0].without_layout()


@dataclasses.dataclass(frozen=True, slots=True)
class InfeedAttributes:
    """The shape of the data, without the token and without layout, and free-form bytes."""

    shape: Annotated[Shape, Declared(_data_in)]
    config: Annotated[bytes, Scalar("infeed_config")] = b""


def infer_infeed(operands: Sequence[Shape], attributes: InfeedAttributes) -> Shape:
    """The pair of the data and a token; the operand is a token too."""
    (token,) = operands
    if not token.is_token:
        raise ShapeError(f"the operand must be a token, got {token.without_layout()}")
    for part in attributes.shape.leaves():
        if not part.is_array:
            raise ShapeError(f"only arrays can be fed, got {attributes.shape.without_layout()}")
    return Shape.tuple_of([attributes.shape.without_layout(), Shape.token()])
