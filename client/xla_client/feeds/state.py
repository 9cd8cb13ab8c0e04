"""State of a device's feed queues: their contents, and the calls and programs that wait."""

import dataclasses

from xla_client.display.tables import human_bytes, table
from xla_client.session.session import device_handle
from xla_contract.stubs import xla_extension_pb2 as extension_pb2
from xla_contract.types.shape import Shape
from xla_contract.wire.shape_proto import shape_from_proto


@dataclasses.dataclass(frozen=True, slots=True)
class FeedWaiter:
    """A client or program that waits for a queue.

    `instruction` of the module `name`, in the launched execution with the handle `execution` if
    any; or, without instruction, the rpc `name`. `reason` says all of it in a sentence.
    """

    instruction: str
    name: str
    execution: int | None
    shape: Shape | None
    seconds: float
    reason: str

    def __str__(self) -> str:
        return self.reason


@dataclasses.dataclass(frozen=True, slots=True)
class FeedState:
    """One queue: arrays in it and their bytes, capacity, the first shapes, waiting clients.

    All items up to the number `sequence` were received (infeed) or acknowledged (outfeed).
    """

    items: int
    bytes: int
    max_items: int
    max_bytes: int
    front: tuple[Shape, ...]
    waiters: tuple[FeedWaiter, ...]
    is_streaming: bool
    is_closed: bool
    sequence: int

    def __str__(self) -> str:
        """Describe the queue in a line: contents, first shapes, waiting clients."""
        parts = [
            f"{self.items} of {self.max_items} arrays",
            f"{human_bytes(self.bytes)} of {human_bytes(self.max_bytes)}",
        ]
        if self.front:
            parts.append(f"first {', '.join(map(str, self.front))}")
        parts += ["closed"] * self.is_closed + ["streaming"] * self.is_streaming
        parts += [f"waiting: {waiter}" for waiter in self.waiters]
        return "; ".join(parts)


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class FeedStates:
    """The queues of a device: what programs read, and what they wrote."""

    infeed: FeedState
    outfeed: FeedState

    def __repr__(self) -> str:
        return f"FeedStates(infeed: {self.infeed} | outfeed: {self.outfeed})"

    def _repr_html_(self) -> str:
        return table("Feeds", {"infeed": self.infeed, "outfeed": self.outfeed})


def drain_request(
    device: int, direction: extension_pb2.FeedDirection
) -> extension_pb2.DrainFeedRequest:
    """Return the request that the server answers once a device's queue is empty."""
    return extension_pb2.DrainFeedRequest(device_handle=device_handle(device), direction=direction)


def close_request(
    device: int, direction: extension_pb2.FeedDirection, *, discard: bool
) -> extension_pb2.CloseFeedRequest:
    """Return the request that closes a device's queue and, with `discard`, drops its contents."""
    return extension_pb2.CloseFeedRequest(
        device_handle=device_handle(device), direction=direction, discard=discard
    )


def states_from_proto(response: extension_pb2.DescribeFeedsResponse) -> FeedStates:
    """The states in an answer to DescribeFeeds."""
    return FeedStates(_state(response.infeed), _state(response.outfeed))


def _state(proto: extension_pb2.FeedState) -> FeedState:
    return FeedState(
        items=proto.items,
        bytes=proto.bytes,
        max_items=proto.capacity.items,
        max_bytes=proto.capacity.bytes,
        front=tuple(map(shape_from_proto, proto.front)),
        waiters=tuple(map(_waiter, proto.waiters)),
        is_streaming=proto.is_streaming,
        is_closed=proto.is_closed,
        sequence=proto.sequence,
    )


def _waiter(proto: extension_pb2.FeedWaiter) -> FeedWaiter:
    return FeedWaiter(
        instruction=proto.instruction,
        name=proto.name,
        execution=proto.execution.handle if proto.HasField("execution") else None,
        shape=shape_from_proto(proto.shape) if proto.HasField("shape") else None,
        seconds=proto.seconds,
        reason=proto.reason,
    )
