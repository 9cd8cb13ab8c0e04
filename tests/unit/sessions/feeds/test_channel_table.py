import threading

import numpy as np
import pytest

from tests.unit.sessions.feeds.jobs import Job
from xla_contract.errors import AbortedError, FailedPreconditionError, InvalidArgumentError
from xla_contract.types.shape import Shape
from xla_server.execution.cancellation import Cancellation
from xla_server.execution.channel_protocol import NoChannels
from xla_server.sessions.feeds.channel_table import (
    CallChannels,
    ChannelQueues,
    ChannelTable,
    ChannelType,
)
from xla_server.sessions.values.handles import HandleFactory

SCALAR = Shape.parse("s32[]")
VECTOR = Shape.parse("f32[4]")


def _queues(items: int = 2, size: int = 1000) -> ChannelQueues:
    return ChannelQueues(max_items=items, max_bytes=size)


def _number(value: int) -> np.ndarray:
    return np.array(value, np.int32)


def _send(channels, channel_id: int, value: int) -> None:
    channels.send(channel_id, _number(value), SCALAR, Cancellation())


def _receive(channels, channel_id: int) -> int:
    return int(channels.receive(channel_id, SCALAR, Cancellation()))


def test_each_channel_is_first_in_first_out():
    queues = _queues(items=4)
    for channel_id, value in ((1, 10), (2, 20), (1, 11), (2, 21)):
        _send(queues, channel_id, value)
    assert [_receive(queues, channel_id) for channel_id in (2, 1, 1, 2)] == [20, 10, 11, 21]
    assert len(queues) == 0


def test_more_values_than_there_is_capacity_pass_through():
    queues = _queues()
    threading.Thread(
        target=lambda: [_send(queues, 1, number) for number in range(200)], daemon=True
    ).start()
    assert [_receive(queues, 1) for _ in range(200)] == list(range(200))


@pytest.mark.parametrize(("items", "size"), [(2, 1000), (100, 8)])
def test_a_sender_waits_for_capacity(items, size):
    queues = _queues(items, size)
    for number in range(2):
        _send(queues, 1, number)
    third = Job(queues.send, 2, _number(2), SCALAR)
    assert third.waits()
    assert _receive(queues, 1) == 0
    third.ended()
    assert [_receive(queues, 1), _receive(queues, 2)] == [1, 2]


def test_values_without_a_receiver_do_not_stop_matched_pairs():
    queues = _queues(items=1)
    _send(queues, 1, 0)
    receiver = Job(queues.receive, 2, SCALAR)
    assert receiver.waits()
    _send(queues, 2, 5)
    assert receiver.ended().result == 5
    assert Job(queues.send, 2, _number(6), SCALAR).waits()


def test_what_is_larger_than_all_capacity_goes_in_alone():
    queues = _queues(size=8)
    queues.send(1, np.zeros(4, np.float32), VECTOR, Cancellation())
    assert Job(queues.send, 1, _number(1), SCALAR).waits()


def test_another_shape_fails_the_receiver_and_stays():
    queues = _queues()
    _send(queues, 1, 7)
    with pytest.raises(InvalidArgumentError, match=r"channel 1 .* s32\[\] sent and f32\[4\] rec"):
        queues.receive(1, VECTOR, Cancellation())
    assert _receive(queues, 1) == 7


def test_cancelling_loses_nothing_and_leaves_nothing_behind():
    queues = _queues(items=1)
    Job(queues.receive, 1, SCALAR).cancelled()
    assert len(queues) == 0
    _send(queues, 1, 1)
    Job(queues.send, 1, _number(2), SCALAR).cancelled()
    assert _receive(queues, 1) == 1
    assert Job(queues.receive, 1, SCALAR).waits()


def test_clearing_aborts_senders_and_keeps_receivers():
    queues = _queues(items=1)
    receiver = Job(queues.receive, 2, SCALAR)
    assert receiver.waits()
    _send(queues, 1, 1)
    sender = Job(queues.send, 1, _number(2), SCALAR)
    assert sender.waits()
    queues.clear()
    assert isinstance(sender.ended().error, AbortedError)
    assert receiver.waits()
    assert len(queues) == 1
    _send(queues, 2, 3)
    assert receiver.ended().result == 3


def test_a_waiting_part_does_not_hold_the_whole_it_was_cut_from():
    queues = _queues()
    whole = np.zeros(1000, np.float32)
    pair = Shape.tuple_of([VECTOR, SCALAR])
    queues.send(1, (whole[:4], _number(1)), pair, Cancellation())
    part, number = queues.receive(1, pair, Cancellation())
    assert number == 1
    assert not np.shares_memory(part, whole)


def _server() -> ChannelTable:
    return ChannelTable(HandleFactory(), max_items=2, max_bytes=100)


def test_channels_of_the_server_must_be_made_and_connect_devices():
    channels = _server()
    with pytest.raises(FailedPreconditionError, match=r"CreateChannelHandle, got channel 1$"):
        _send(channels, 1, 0)
    made = {kind: channels.create(kind)[0] for kind in ChannelType}
    between = made[ChannelType.DEVICE_TO_DEVICE]
    _send(channels, between, 5)
    assert _receive(channels, between) == 5
    for kind in (ChannelType.DEVICE_TO_HOST, ChannelType.HOST_TO_DEVICE):
        with pytest.raises(FailedPreconditionError, match=f"{made[kind]} of type {kind.name}"):
            _receive(channels, made[kind])
    for channel_id in (0, -1, between + 1, 2**63 - 1):
        with pytest.raises(FailedPreconditionError, match=f"got channel {channel_id}$"):
            _receive(channels, channel_id)
    with pytest.raises(InvalidArgumentError, match=r"DEVICE_TO_DEVICE = 1.*got 4"):
        channels.create(4)
    _send(channels, between, 6)
    channels.reset()
    assert Job(channels.receive, between, SCALAR).waits()


def _ends(*ends: tuple[set[int], set[int]]) -> list[tuple[frozenset[int], frozenset[int]]]:
    return [(frozenset(sent), frozenset(received)) for sent, received in ends]


def test_a_call_has_the_channels_that_its_programs_have_both_ends_of():
    server = _server()
    made, _ = server.create(ChannelType.DEVICE_TO_DEVICE)
    ends = _ends(({7, made}, set()), (set(), {7}))
    call = CallChannels(ends, server, max_items=2, max_bytes=100)
    _send(call, 7, 70)
    _send(call, made, 10)
    assert _receive(call, 7) == 70
    assert _receive(server, made) == 10
    with pytest.raises(FailedPreconditionError, match="channel 9"):
        _receive(CallChannels([], NoChannels(), max_items=2, max_bytes=100), 9)


def test_a_receiver_does_not_wait_for_programs_that_have_ended():
    ends = _ends(({7}, set()), ({7}, set()), (set(), {7}))
    call = CallChannels(ends, NoChannels(), max_items=2, max_bytes=100)
    _send(call, 7, 1)
    call.ended(0)
    assert _receive(call, 7) == 1
    receiver = Job(call.receive, 7, SCALAR)
    assert receiver.waits()
    call.ended(1)
    error = receiver.ended().error
    assert isinstance(error, FailedPreconditionError)
    assert "no more for s32[] on channel 7" in str(error)
