"""send and recv: values that go from one computation to another.

Semantics: XLA's Send and Recv. The data leaves with send and arrives with recv-done; until then the
received data is undefined in XLA and zero here.
"""

import re
from collections.abc import Sequence

import numpy as np

from xla_contract.errors import UnimplementedError
from xla_contract.ops.send_recv import ChannelAttributes, RecvAttributes
from xla_contract.types.shape import Shape
from xla_server.ir.module import HloInstruction
from xla_server.ops.evaluation import TOKEN, Frame, Value

_PAIRS = "_xla_send_recv_source_target_pairs"
"""The frontend attribute in which pipelines say which device sends to which."""


def evaluate_send(instruction: HloInstruction, operands: Sequence[Value], frame: Frame) -> Value:
    """Put the data on the channel, waiting while that is full."""
    attributes: ChannelAttributes = instruction.attributes
    data = instruction.operands[0].shape
    frame.send(attributes.channel_id, operands[0], data.without_layout())
    return operands[0], _context(), TOKEN


def evaluate_send_done(
    instruction: HloInstruction, operands: Sequence[Value], frame: Frame
) -> Value:
    """A token; the data left with send."""
    return TOKEN


def evaluate_recv(instruction: HloInstruction, operands: Sequence[Value], frame: Frame) -> Value:
    """Room for the data, which recv-done waits for."""
    attributes: RecvAttributes = instruction.attributes
    return _nothing_yet(attributes.shape), _context(), TOKEN


def evaluate_recv_done(
    instruction: HloInstruction, operands: Sequence[Value], frame: Frame
) -> Value:
    """Wait for the data, and pair it with a token."""
    attributes: ChannelAttributes = instruction.attributes
    data = instruction.shape.tuple_shapes[0]
    return frame.receive(attributes.channel_id, data.without_layout()), TOKEN


def require_evaluated(instruction: HloInstruction) -> None:
    """Raise UnimplementedError for a transfer to the host or to a device that does not exist.

    For send and recv. Devices are named by the frontend attribute of pipelined programs; a
    program runs on one, number 0, so {0,0} is the only pair there can be.
    """
    attributes: ChannelAttributes | RecvAttributes = instruction.attributes
    if attributes.is_host_transfer:
        raise UnimplementedError(
            "programs exchange values with the host by infeed and outfeed, got a transfer with "
            f"is_host_transfer=true on channel {attributes.channel_id}",
            hint="use infeed instead of recv and outfeed instead of send",
        ).at(instruction.opcode, instruction.name)
    pairs = _source_target_pairs(instruction)
    if pairs is not None and re.sub(r"\s", "", pairs) != "{{0,0}}":
        raise UnimplementedError(
            "a program runs on one device and can send to itself only, {{0,0}}, got "
            f"{_PAIRS}={pairs:.100}",
            hint="name a channel and run one program per device with ExecuteGraphParallel",
        ).at(instruction.opcode, instruction.name)


def _source_target_pairs(instruction: HloInstruction) -> str | None:
    if instruction.decoration is None:
        return None
    return instruction.decoration.frontend_attributes.map.get(_PAIRS)


def _context() -> Value:
    return np.zeros((), np.uint32)


def _nothing_yet(shape: Shape) -> Value:
    if shape.is_tuple:
        return tuple(map(_nothing_yet, shape.tuple_shapes))
    return np.broadcast_to(np.zeros((), shape.element_type.dtype), shape.dimensions)
