"""send, recv and their second halves: a value that goes through a channel to another computation.

Semantics: XLA's Send and Recv, SendToHost and RecvFromHost. The value between the halves is (data,
u32[] context, token[]).
"""

import dataclasses
from collections.abc import Sequence
from typing import Annotated

from xla_contract.errors import InvalidArgumentError, ShapeError
from xla_contract.ops.attribute_fields import Declared, Scalar, Special
from xla_contract.types.element_type import ElementType
from xla_contract.types.shape import Shape

_CONTEXT = Shape.scalar(ElementType.U32)

_ChannelId = Annotated[
    int,
    # XLA reads an id that is not positive as no channel.
    Special(lambda proto, _: max(proto.channel_id, 0), Scalar("channel_id").write),
]


def _received(shape: Shape) -> Shape:
    if len(shape.tuple_shapes) != 3:
        raise InvalidArgumentError(
            f"the result must be (data, u32[], token[]), got {shape.without_layout()}"
        )
    return shape.tuple_shapes[0].without_layout()


@dataclasses.dataclass(frozen=True, slots=True)
class ChannelAttributes:
    """The channel, and whether its other end is the host and not another computation.

    A `channel_id` of 0 means that the writer named none.
    """

    channel_id: _ChannelId = 0
    is_host_transfer: Annotated[bool, Scalar("is_host_transfer")] = False


@dataclasses.dataclass(frozen=True, slots=True)
class RecvAttributes:
    """The shape of the data, without layout, and the channel as in ChannelAttributes."""

    shape: Annotated[Shape, Declared(_received)]
    channel_id: _ChannelId = 0
    is_host_transfer: Annotated[bool, Scalar("is_host_transfer")] = False


def infer_send(operands: Sequence[Shape], attributes: ChannelAttributes) -> Shape:
    """The data, a context and a token; the operands are data and a token."""
    data, token = operands
    if not token.is_token:
        raise ShapeError(f"the second operand must be a token, got {token.without_layout()}")
    return _between(data)


def infer_recv(operands: Sequence[Shape], attributes: RecvAttributes) -> Shape:
    """The data, a context and a token; the operand is a token."""
    (token,) = operands
    if not token.is_token:
        raise ShapeError(f"the operand must be a token, got {token.without_layout()}")
    return _between(attributes.shape)


def infer_send_done(operands: Sequence[Shape], attributes: ChannelAttributes) -> Shape:
    """A token; the operand is what send gives."""
    _data_of(operands)
    return Shape.token()


def infer_recv_done(operands: Sequence[Shape], attributes: ChannelAttributes) -> Shape:
    """The pair of the data and a token; the operand is what recv gives."""
    return Shape.tuple_of([_data_of(operands), Shape.token()])


def _between(data: Shape) -> Shape:
    data = data.without_layout()
    for part in data.leaves():
        if not part.is_array:
            raise ShapeError(f"only arrays can go through a channel, got {data}")
    return Shape.tuple_of([data, _CONTEXT, Shape.token()])


def _data_of(operands: Sequence[Shape]) -> Shape:
    (start,) = operands
    start = start.without_layout()
    parts = start.tuple_shapes
    if len(parts) != 3 or parts[1] != _CONTEXT or not parts[2].is_token:
        raise ShapeError(
            f"the operand must be the first half's (data, u32[], token[]), got {start}"
        )
    return parts[0]
