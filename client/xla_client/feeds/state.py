"""A device's feed queues: their addresses, their contents, and the calls and programs that wait."""

import dataclasses
from typing import Any

from xla_client.display.tables import human_bytes, table
from xla_client.session.session import Session, device_handle
from xla_contract.errors import UnimplementedError
from xla_contract.stubs import xla_data_pb2
from xla_contract.stubs import xla_extension_pb2 as extension_pb2
from xla_contract.types.shape import Shape
from xla_contract.wire.shape_proto import shape_from_proto


@dataclasses.dataclass(frozen=True, slots=True)
class FeedAddress:
    """A device, and the number of a channel from or to the host; without one infeed or outfeed."""

    device: int
    channel_id: int | None = None

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of requests that name the queue."""
        fields: dict[str, Any] = {"device_handle": device_handle(self.device)}
        if self.channel_id is not None:
            fields["channel"] = xla_data_pb2.ChannelHandle(handle=self.channel_id)
        return fields

    def require(self, session: Session) -> None:
        """Raise UnimplementedError if the server has no streams of channels."""
        capabilities = session.transport.capabilities
        if self.channel_id is None or extension_pb2.CAPABILITY_HOST_CHANNELS in capabilities:
            return
        raise UnimplementedError("a server must have CAPABILITY_HOST_CHANNELS, got one without")

    def __str__(self) -> str:
        channel = "" if self.channel_id is None else f", channel {self.channel_id}"
        return f"device {self.device}{channel}"


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
    address: FeedAddress, direction: extension_pb2.FeedDirection
) -> extension_pb2.DrainFeedRequest:
    """Return the request that the server answers once a queue is empty."""
    return extension_pb2.DrainFeedRequest(direction=direction, **address.fields)


def close_request(
    address: FeedAddress, direction: extension_pb2.FeedDirection, *, discard: bool
) -> extension_pb2.CloseFeedRequest:
    """Return the request that closes a queue and, with `discard`, drops its contents."""
    return extension_pb2.CloseFeedRequest(direction=direction, discard=discard, **address.fields)


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
