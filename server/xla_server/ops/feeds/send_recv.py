"""send and recv: values that go from one computation to another.

Semantics: XLA's Send and Recv. The data leaves with send and arrives with recv-done; until then the
received data is undefined in XLA and zero here. On a grid of several participants a frontend
attribute of pipelined programs gives the pairs of sender and receiver; a participant that is the
receiver of no pair gets zeros. A transfer with the host goes through a queue of the channel on the
device, as infeed and outfeed do.
"""

from collections.abc import Sequence

import numpy as np

from xla_contract.errors import UnimplementedError
from xla_contract.ops.feeds.send_recv import ChannelAttributes, RecvAttributes
from xla_contract.types.devices.device_grid import Pairs
from xla_server.ir.analysis.participants import transfer_pairs, transfers_of
from xla_server.ir.module import HloInstruction
from xla_server.ops.evaluation import TOKEN, Frame, GroupCollective, Value, zeros


def evaluate_send(instruction: HloInstruction, operands: Sequence[Value], frame: Frame) -> Value:
    """Put the data on the channel, waiting while that is full."""
    attributes: ChannelAttributes = instruction.attributes
    data = instruction.operands[0].shape.without_layout()
    if attributes.is_host_transfer:
        frame.outfeed(operands[0], data, instruction, attributes.channel_id)
    elif (pairs := _transfers(instruction, frame)) is None:
        frame.send(attributes.channel_id, operands[0], data)
    else:
        for pair in pairs:
            if pair[0] == _number(frame):
                collective = _collective(instruction, attributes.channel_id, pair)
                frame.participants.post(collective, np.array(operands[0]))
    return operands[0], _context(), TOKEN


def evaluate_send_done(
    instruction: HloInstruction, operands: Sequence[Value], frame: Frame
) -> Value:
    """A token; the data left with send."""
    return TOKEN


def evaluate_recv(instruction: HloInstruction, operands: Sequence[Value], frame: Frame) -> Value:
    """Buffer of the data, which recv-done waits for."""
    attributes: RecvAttributes = instruction.attributes
    if frame.participants.grid.size == 1 and not attributes.is_host_transfer:
        require_own(instruction)
    return zeros(attributes.shape), _context(), TOKEN


def evaluate_recv_done(
    instruction: HloInstruction, operands: Sequence[Value], frame: Frame
) -> Value:
    """Wait for the data, and pair it with a token."""
    attributes: ChannelAttributes = instruction.attributes
    data = instruction.shape.tuple_shapes[0]
    if attributes.is_host_transfer:
        value = frame.infeed(data.without_layout(), instruction, attributes.channel_id)
        return value, TOKEN
    pairs = _transfers(instruction, frame)
    if pairs is not None:
        for pair in pairs:
            if pair[1] == _number(frame):
                collective = _collective(instruction, attributes.channel_id, pair)
                return frame.participants.receive(collective), TOKEN
        return zeros(data), TOKEN
    return frame.receive(attributes.channel_id, data.without_layout()), TOKEN


def require_own(instruction: HloInstruction) -> None:
    """Raise UnimplementedError for a transfer between devices of a program that runs on one."""
    pairs = transfer_pairs(instruction)
    if pairs is not None and pairs != ((0, 0),):
        shown = ",".join(f"{{{source},{target}}}" for source, target in pairs[:8])
        raise UnimplementedError(
            f"a program on one device can send to itself only, {{{{0,0}}}}, got pairs {{{shown}}}",
            hint="run the program on as many replicas or partitions as the pairs name",
        ).at(instruction.opcode, instruction.name)


def _transfers(instruction: HloInstruction, frame: Frame) -> Pairs | None:
    """The pairs of participants, where a transfer has some on a grid of several."""
    if frame.participants.grid.size == 1:
        require_own(instruction)
        return None
    return transfers_of(instruction, frame.participants.grid)


def _collective(
    instruction: HloInstruction, channel_id: int, members: tuple[int, int]
) -> GroupCollective:
    return GroupCollective(instruction.name, instruction.opcode, channel_id, members)


def _number(frame: Frame) -> int:
    own = frame.participants
    return own.grid.flattened(own.replica_id, own.partition_id)


def _context() -> Value:
    return np.zeros((), np.uint32)
