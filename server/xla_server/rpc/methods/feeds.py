"""The rpcs of feeds: streams into and out of the queues, and operations on the queues."""

import contextlib
import functools
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from xla_contract.errors import InvalidArgumentError, XlaError
from xla_contract.stubs import xla_data_pb2
from xla_contract.stubs import xla_extension_pb2 as extension_pb2
from xla_contract.types.literal import Literal
from xla_contract.types.shape import Shape
from xla_contract.wire.literals.feed_items import (
    FeedItemDecoder,
    FeedItemEncoder,
    array_count,
    data_byte_size,
    items_part,
)
from xla_contract.wire.shape_proto import shape_to_proto
from xla_server.execution.cancellation import Cancellation
from xla_server.execution.start_thread import start_thread
from xla_server.rpc.calls.deferred import Responder
from xla_server.rpc.calls.method_table import Deferred, MethodSpec, Streaming, Unary
from xla_server.rpc.calls.response_memory import Response
from xla_server.rpc.calls.streaming import Stream
from xla_server.rpc.decode.common import checked_device, shape_in
from xla_server.rpc.errors import status_proto_of
from xla_server.rpc.threads.pools import Pool
from xla_server.sessions.feeds.channel_table import ChannelType
from xla_server.sessions.feeds.device_feeds import FeedPair
from xla_server.sessions.feeds.feed_side import FeedSide
from xla_server.sessions.feeds.infeed_stream import (
    Credit,
    InfeedStream,
    ReceivedItem,
    RejectedItem,
    Report,
)
from xla_server.sessions.feeds.outfeed_stream import BATCH_BYTES, OutfeedStream
from xla_server.sessions.feeds.queue_entries import WaitState
from xla_server.sessions.limits.response_memory import SessionResponseMemory
from xla_server.sessions.session import Session
from xla_server.sessions.session_registry import SessionEntry


def respond_with(answer: Responder, response: Response) -> Callable[[XlaError | None], None]:
    """Return a callback that ends a call with `response`, or with the error that it receives."""
    began_in = threading.get_ident()

    def done(error: XlaError | None) -> None:
        if error is not None:
            answer.failed(error)
        elif threading.get_ident() == began_in:
            answer.done(response)
        else:
            # The calling thread serves a program, or another client.
            answer.later(lambda: response)

    return done


# Streams ------------------------------------------------------------------------------------


def _infeed(session: SessionEntry, stream: Stream, cancellation: Cancellation) -> None:
    start = _start_of(stream, "InfeedRequest")
    declared = _declared(start, "shape")
    feeds = _feeds(session.service, start, ChannelType.HOST_TO_DEVICE)
    infeed = feeds.infeed.attach(declared, cancellation)
    # Queued items are for programs alone, so the stream can always be ended.
    stream.serves_others(lambda: True)
    report_all = functools.partial(_report, infeed, stream, cancellation)
    reporter: threading.Thread | None = None
    try:
        stream.send(
            extension_pb2.InfeedResponse(
                started=extension_pb2.InfeedStarted(
                    next_sequence=infeed.next_sequence, credit=_credit_to_proto(infeed.credit)
                )
            )
        )
        reporter = start_thread(report_all, "infeed-reports")
        decoder = FeedItemDecoder(declared)
        while (request := stream.receive()) is not None:
            _receive_into(infeed, request, decoder)
        last = infeed.end()
        # Reports about received items, refusals above all, are sent first.
        reporter.join()
        for report in last:
            stream.send(_report_to_proto(report))
    finally:
        infeed.end()
        # The thread may wait for a client that does not read; there is one per stream.
        if reporter is not None:
            reporter.join()


def _receive_into(
    infeed: InfeedStream, request: extension_pb2.InfeedRequest, decoder: FeedItemDecoder
) -> None:
    part = request.WhichOneof("part")
    if part == "items":
        infeed.accept([_arrival(item, decoder) for item in request.items.items])
    elif part == "flush":
        infeed.flush()
    else:
        raise InvalidArgumentError(
            f"an InfeedRequest after the first must hold items or flush, got {part or 'none'}"
        )


def _arrival(item: extension_pb2.FeedItem, decoder: FeedItemDecoder) -> ReceivedItem:
    value = item.value
    literal: Literal | XlaError
    try:
        literal = decoder.literal(value)
    except XlaError as error:
        literal = error
    if not value.elements:
        return ReceivedItem(item.sequence, literal, 1, len(value.data))
    return ReceivedItem(item.sequence, literal, array_count(value), data_byte_size(value))


def _report(infeed: InfeedStream, stream: Stream, cancellation: Cancellation) -> None:
    """Send reports until the stream ends. Runs in a thread of its own."""
    try:
        for report in infeed.reports():
            stream.send(_report_to_proto(report))
    except XlaError as error:
        # Usually the call has ended already; otherwise this ends it.
        cancellation.cancel(error)


def _report_to_proto(report: Report) -> extension_pb2.InfeedResponse:
    if isinstance(report, RejectedItem):
        return extension_pb2.InfeedResponse(
            refused=extension_pb2.ItemRefused(
                sequence=report.sequence,
                status=status_proto_of(report.error.at("Infeed")).SerializeToString(),
            )
        )
    return extension_pb2.InfeedResponse(
        progress=extension_pb2.InfeedProgress(
            received=report.received,
            consumed=report.consumed,
            credit=_credit_to_proto(report.credit),
        )
    )


def _outfeed(session: SessionEntry, stream: Stream, cancellation: Cancellation) -> None:
    start = _start_of(stream, "OutfeedRequest")
    declared = _declared(start, "shape_with_layout")
    if start.next_sequence < 0:
        raise InvalidArgumentError(f"next_sequence must not be negative, got {start.next_sequence}")
    if declared is not None:
        session.service.check_sendable(declared)
    credit = Credit(start.credit.items, start.credit.bytes)
    feeds = _feeds(session.service, start, ChannelType.DEVICE_TO_HOST)
    outfeed = feeds.outfeed.attach(declared, start.next_sequence, credit, cancellation)
    # Queued values are for the client, even without a program.
    stream.serves_others(lambda: not feeds.outfeed.queue.size[0])
    listen = functools.partial(_listen, outfeed, stream, cancellation)
    try:
        stream.send(
            extension_pb2.OutfeedResponse(
                started=extension_pb2.OutfeedStarted(next_sequence=outfeed.next_sequence)
            )
        )
        start_thread(listen, "outfeed-progress")
        encoder = FeedItemEncoder(outfeed.declared)
        while (batch := outfeed.next_batch()) is not None:
            with _reserved(session.service.response_memory, batch):
                stream.send(items_part((number, encoder.value(value)) for number, value in batch))
            cancellation.check()
    finally:
        outfeed.end()


def _reserved(
    answers: SessionResponseMemory, batch: Sequence[tuple[int, Literal]]
) -> contextlib.AbstractContextManager[None]:
    """Reserve memory for a message of more than BATCH_BYTES, which has one item."""
    size = batch[0][1].shape.byte_size if len(batch) == 1 else 0
    return answers.reserving(size) if size > BATCH_BYTES else contextlib.nullcontext()


def _listen(outfeed: OutfeedStream, stream: Stream, cancellation: Cancellation) -> None:
    """Handle the client's messages until the last. Runs in a thread of its own."""
    try:
        while (request := stream.receive()) is not None:
            part = request.WhichOneof("part")
            if part != "progress":
                raise InvalidArgumentError(
                    f"an OutfeedRequest after the first must hold progress, got {part or 'none'}"
                )
            progress = request.progress
            outfeed.acknowledge(progress.acknowledged)
            outfeed.add_credit(Credit(progress.credit.items, progress.credit.bytes))
    except XlaError as error:
        outfeed.fail(error)
    else:
        outfeed.end()


# Operations on queues -----------------------------------------------------------------------


def _describe(
    service: Session, request: extension_pb2.DescribeFeedsRequest, _: Cancellation
) -> extension_pb2.DescribeFeedsResponse:
    feeds = _feeds(service, request, *_TYPES.values())
    return extension_pb2.DescribeFeedsResponse(
        infeed=_state_to_proto(feeds.infeed),
        outfeed=_state_to_proto(feeds.outfeed),
    )


def _drain(
    service: Session,
    request: extension_pb2.DrainFeedRequest,
    cancellation: Cancellation,
    answer: Responder,
) -> None:
    _side(service, request).drain(
        cancellation, respond_with(answer, extension_pb2.DrainFeedResponse())
    )


def _close(
    service: Session, request: extension_pb2.CloseFeedRequest, _: Cancellation
) -> extension_pb2.CloseFeedResponse:
    discarded = _side(service, request).close(discard=request.discard)
    return extension_pb2.CloseFeedResponse(discarded=discarded)


METHODS: Mapping[str, MethodSpec] = {
    "Infeed": Streaming(_infeed),
    "Outfeed": Streaming(_outfeed),
    "DescribeFeeds": Unary(Pool.SHORT, _describe),
    "DrainFeed": Deferred(Pool.SHORT, _drain),
    "CloseFeed": Unary(Pool.SHORT, _close),
}
"""Methods by the names of the rpcs."""


def _start_of(stream: Stream, name: str) -> Any:
    request = stream.receive()
    part = None if request is None else request.WhichOneof("part")
    if part != "start":
        raise InvalidArgumentError(f"the first {name} must hold start, got {part or 'none'}")
    return request.start


def _declared(start: Any, field: str) -> Shape | None:
    shape = shape_in(start, field)
    return None if shape is None else shape.with_default_layout()


_TYPES = {
    extension_pb2.FEED_DIRECTION_INFEED: ChannelType.HOST_TO_DEVICE,
    extension_pb2.FEED_DIRECTION_OUTFEED: ChannelType.DEVICE_TO_HOST,
}
"""Type of the channels that have a queue of each direction."""


def _feeds(service: Session, request: Any, *types: ChannelType) -> FeedPair:
    """The feeds of a request's device, or of its channel, of one of these types, there."""
    feeds = service.devices.feeds_of_replica(checked_device(request), 0)
    if not request.HasField("channel"):
        return feeds
    return feeds.channel(request.channel.handle, *types)


def _side(
    service: Session, request: extension_pb2.DrainFeedRequest | extension_pb2.CloseFeedRequest
) -> FeedSide[Any]:
    """The queue of the direction that a request names."""
    direction = request.direction
    if direction not in _TYPES:
        raise InvalidArgumentError(
            f"direction must be that of infeed or outfeed, got number {int(direction)}"
        )
    feeds = _feeds(service, request, _TYPES[direction])
    is_infeed = direction == extension_pb2.FEED_DIRECTION_INFEED
    return feeds.infeed if is_infeed else feeds.outfeed


def _credit_to_proto(credit: Credit) -> extension_pb2.Credit:
    return extension_pb2.Credit(items=credit.items, bytes=credit.bytes)


def _state_to_proto(side: FeedSide[Any]) -> extension_pb2.FeedState:
    queue = side.queue
    items, byte_size = queue.size
    return extension_pb2.FeedState(
        items=items,
        bytes=byte_size,
        capacity=extension_pb2.Credit(items=queue.max_items, bytes=queue.max_bytes),
        front=[shape_to_proto(shape) for shape in side.front()],
        waiters=[_waiting_to_proto(waiting) for waiting in side.waiting()],
        is_streaming=side.stream is not None,
        is_closed=queue.is_closed,
        sequence=side.sequence,
    )


def _waiting_to_proto(waiting: WaitState) -> extension_pb2.FeedWaiter:
    user = waiting.user
    return extension_pb2.FeedWaiter(
        instruction=user.instruction,
        name=user.name,
        execution=xla_data_pb2.ExecutionHandle(handle=user.execution) if user.execution else None,
        shape=None if waiting.shape is None else shape_to_proto(waiting.shape),
        seconds=waiting.seconds,
        reason=waiting.reason,
    )
