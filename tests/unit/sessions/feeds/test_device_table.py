"""The device of each handle."""

import pytest

from tests.unit.sessions.feeds.jobs import device_feeds
from xla_contract.errors import (
    FailedPreconditionError,
    InternalError,
    InvalidArgumentError,
    ResourceExhaustedError,
)
from xla_contract.stubs import xla_data_pb2, xla_pb2
from xla_server.backends.platform import Device
from xla_server.rpc.decode.common import checked_device, device_in
from xla_server.sessions.feeds.device_table import DeviceHandle, DeviceTable


def of(count: int = 3) -> DeviceTable:
    return DeviceTable([Device(number, "interpreter") for number in range(count)], device_feeds)


def request(handle: int, count: int) -> xla_pb2.TransferToServerRequest:
    device = xla_data_pb2.DeviceHandle(handle=handle, device_count=count)
    return xla_pb2.TransferToServerRequest(device_handle=device)


def test_a_handle_is_a_position_in_a_set() -> None:
    devices = of()
    assert len(devices) == 3
    assert devices.resolve(None).ordinal == 0
    assert [devices.resolve(DeviceHandle(each, 3)).ordinal for each in range(3)] == [0, 1, 2]
    assert device_in(request(1, 2)) == checked_device(request(1, 2)) == DeviceHandle(1, 2)
    absent = xla_pb2.TransferToServerRequest()
    assert device_in(absent) is checked_device(absent) is None


def test_a_handle_is_below_its_count() -> None:
    rule = "^a device handle must be below its device_count, got handle 2 of 2$"
    with pytest.raises(InternalError, match=rule):
        of().resolve(DeviceHandle(2, 2))
    with pytest.raises(InvalidArgumentError, match=rule):
        checked_device(request(2, 2))


@pytest.mark.parametrize("number", [3, -1])
def test_a_device_must_be_there(number: int) -> None:
    with pytest.raises(
        InvalidArgumentError, match=f"ordinal must be below 3, got {number} from handle {number} of"
    ):
        of().resolve(DeviceHandle(number, 9))


def test_feeds_are_those_of_a_device() -> None:
    devices = of()
    assert devices.all_feeds() == []
    second = devices.resolve(DeviceHandle(1, 2))
    feeds = devices.feeds(second)
    assert devices.feeds(second) is feeds
    assert devices.feeds_of_replica(DeviceHandle(1, 2), 0) is feeds
    assert devices.feeds_of_replica(None, 0) is not feeds
    assert len(devices.all_feeds()) == 2


def test_the_queues_of_replicas_are_those_of_the_devices_behind_the_first() -> None:
    devices = of()
    for first, replica in ((0, 2), (1, 1), (2, 0)):
        feeds = devices.feeds_of_replica(DeviceHandle(first, 3), replica)
        assert feeds is devices.feeds(devices.resolve(DeviceHandle(2, 3)))


@pytest.mark.parametrize(("first", "replica"), [(0, -1), (0, 3), (1, 2), (2, 1)])
def test_a_replica_has_a_device(first: int, replica: int) -> None:
    rule = f"below the {3 - first} devices from device {first} on, got {replica}$"
    with pytest.raises(FailedPreconditionError, match=rule):
        of().feeds_of_replica(DeviceHandle(first, 3), replica)


def test_handles_are_given_for_as_many_devices_as_there_are() -> None:
    assert of().handles(0) == ()
    assert of().handles(2) == (DeviceHandle(0, 2), DeviceHandle(1, 2))
    with pytest.raises(InvalidArgumentError, match=r"must not be negative, got -1$"):
        of().handles(-1)
    with pytest.raises(
        ResourceExhaustedError, match="has 3 devices, got a request for 4"
    ) as caught:
        of().handles(4)
    assert "--devices" in caught.value.hint
