"""Channels of send and recv.

A channel whose two ends are in one program belongs to each run of it; any other channel connects
runs, and the caller that starts them provides it (`Channels`).
"""

from collections import deque
from collections.abc import Hashable
from typing import Generic, Protocol, TypeVar

from xla_contract.errors import (
    FailedPreconditionError,
    InvalidArgumentError,
    ResourceExhaustedError,
)
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import Shape
from xla_server.execution.cancellation import Cancellation
from xla_server.ir.module import HloComputation
from xla_server.ops.evaluation import Value

V = TypeVar("V")

MAX_ITEMS = 1024
"""Number of values that may wait on the channels inside one run; a loop could send without end."""

MAX_BYTES = 256 * 2**20
"""Bytes of values that may wait behind another one on their channel. The first of each channel do
not count: they are at most as many as the program has transfers."""


class Channels(Protocol):
    """The channels between runs, as one run sees them."""

    def send(self, channel_id: int, value: Value, shape: Shape, cancellation: Cancellation) -> None:
        """Put a value of this shape on a channel, waiting while it is full.

        Raises what `cancellation` raises, and FailedPreconditionError for an unknown channel.
        """

    def receive(self, channel_id: int, shape: Shape, cancellation: Cancellation) -> Value:
        """Wait for the next value on a channel, which must have this shape, and take it.

        Raises as `send`, and InvalidArgumentError for another shape.
        """


class NoChannels:
    """The channels of a run that runs alone, such as the evaluation of a constant."""

    def send(self, channel_id: int, value: Value, shape: Shape, cancellation: Cancellation) -> None:
        """Raise FailedPreconditionError."""
        raise _no_other_end("recv", channel_id, shape)

    def receive(self, channel_id: int, shape: Shape, cancellation: Cancellation) -> Value:
        """Raise FailedPreconditionError."""
        raise _no_other_end("send", channel_id, shape)


class WaitingValues(Generic[V]):
    """Values sent inside one execution and not received yet: a FIFO queue for each wire."""

    def __init__(self) -> None:
        self._wires: dict[Hashable, deque[tuple[V, int]]] = {}
        self._items = self._bytes = 0

    def put(self, wire: Hashable, value: V, byte_size: int, where: str) -> None:
        """Append a value.

        Raises ResourceExhaustedError, which says `where`, beyond MAX_ITEMS or MAX_BYTES.
        """
        waiting = self._wires.setdefault(wire, deque())
        counted = byte_size if waiting else 0
        if self._items >= MAX_ITEMS:
            raise ResourceExhaustedError(
                f"{MAX_ITEMS} values may wait on the channels inside a program, got one more "
                f"{where}"
            )
        if self._bytes + counted > MAX_BYTES:
            raise ResourceExhaustedError(
                f"{MAX_BYTES} bytes may wait behind other values on the channels inside a program, "
                f"got {byte_size} more {where} with {self._bytes} there"
            )
        waiting.append((value, counted))
        self._items += 1
        self._bytes += counted

    def pop(self, wire: Hashable) -> V | None:
        """Remove the first value of a wire; None without any."""
        waiting = self._wires.get(wire)
        if not waiting:
            return None
        value, counted = waiting.popleft()
        self._items -= 1
        self._bytes -= counted
        return value


class OwnChannels:
    """The channels inside one run; other channels are passed on to `others`.

    A run is one thread, so nothing here waits: a value that was not sent before it is received
    never will be.
    """

    def __init__(self, computation: HloComputation, others: Channels) -> None:
        self._computation = computation
        self._others = others
        self._own: frozenset[int] | None = None
        self._values = WaitingValues[tuple[Value, Shape]]()

    def send(self, channel_id: int, value: Value, shape: Shape, cancellation: Cancellation) -> None:
        """Put a value on a channel; raises as `WaitingValues.put`."""
        if not self._is_own(channel_id):
            self._others.send(channel_id, value, shape, cancellation)
            return
        where = f"of {shape} on channel {channel_id}"
        self._values.put(channel_id, (value, shape), shape.byte_size, where)

    def receive(self, channel_id: int, shape: Shape, cancellation: Cancellation) -> Value:
        """Take the next value of a channel; FailedPreconditionError when there is none."""
        if not self._is_own(channel_id):
            return self._others.receive(channel_id, shape, cancellation)
        sent = self._values.pop(channel_id)
        if sent is None:
            raise FailedPreconditionError(
                "a value must be sent before it is received where both ends of the channel are in "
                f"one program, got none for {shape} on channel {channel_id}"
            )
        value, sent_shape = sent
        require_shape(channel_id, sent_shape, shape)
        return value

    def _is_own(self, channel_id: int) -> bool:
        if self._own is None:
            sent, received = channel_ends(self._computation)
            self._own = sent & received
        return channel_id in self._own


def channel_ends(entry: HloComputation) -> tuple[frozenset[int], frozenset[int]]:
    """Return the channels between devices on which a computation sends, and receives.

    Those of all computations that it calls count, too.
    """
    sent: set[int] = set()
    received: set[int] = set()
    for computation in entry.reachable():
        for instruction in computation.instructions:
            if instruction.opcode not in (Opcode.SEND, Opcode.RECV):
                continue
            if instruction.attributes.is_host_transfer:
                continue
            ends = sent if instruction.opcode is Opcode.SEND else received
            ends.add(instruction.attributes.channel_id)
    return frozenset(sent), frozenset(received)


def require_shape(channel_id: int, sent: Shape, received: Shape) -> None:
    """Raise InvalidArgumentError unless the value that was sent has the shape that is received."""
    if not sent.fits(received):
        raise InvalidArgumentError(
            f"both ends of channel {channel_id} must have one shape, got {sent} sent and "
            f"{received} received"
        )


def _no_other_end(end: str, channel_id: int, shape: Shape) -> FailedPreconditionError:
    return FailedPreconditionError(
        f"the {end} at the other end of a channel must run too, got a run on its own for {shape} "
        f"on channel {channel_id}"
    )
