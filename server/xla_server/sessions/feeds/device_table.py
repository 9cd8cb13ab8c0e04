"""Table from device handles to devices."""

import dataclasses
import threading
from collections.abc import Callable, Sequence

from xla_contract.errors import (
    FailedPreconditionError,
    InternalError,
    InvalidArgumentError,
    ResourceExhaustedError,
)
from xla_server.backends.platform import Device
from xla_server.sessions.feeds.device_feeds import DeviceFeeds, FeedPair


@dataclasses.dataclass(frozen=True, slots=True)
class DeviceHandle:
    """Position `handle` in a set of `device_count` virtual devices."""

    handle: int = 0
    device_count: int = 1


DEFAULT_DEVICE = DeviceHandle()


class DeviceTable:
    """The devices of the platform with the feeds that one session has there."""

    def __init__(self, devices: Sequence[Device], make_feeds: Callable[[], DeviceFeeds]) -> None:
        self._devices = tuple(devices)
        self.default = self._devices[0]
        """The device of a call without a handle: that of the handle {0, 1}."""
        self._make_feeds = make_feeds
        self._feeds: dict[int, DeviceFeeds] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._devices)

    def resolve(self, handle: DeviceHandle | None) -> Device:
        """The device of a handle, by default the handle {0, 1}.

        Raises InternalError when the handle is not below its count and InvalidArgumentError when
        the platform has no such device.
        """
        handle = DEFAULT_DEVICE if handle is None else handle
        if handle.handle >= handle.device_count:
            raise InternalError(
                "a device handle must be below its device_count, got handle "
                f"{handle.handle} of {handle.device_count}"
            )
        ordinal = handle.handle
        if not 0 <= ordinal < len(self._devices):
            raise InvalidArgumentError(
                f"a device ordinal must be below {len(self._devices)}, got {ordinal} from handle "
                f"{handle.handle} of {handle.device_count}"
            )
        return self._devices[ordinal]

    def feeds(self, device: Device) -> DeviceFeeds:
        """The queues of a device, made at the first request."""
        feeds = self._feeds.get(device.ordinal)
        if feeds is None:
            with self._lock:
                feeds = self._feeds.setdefault(device.ordinal, self._make_feeds())
        return feeds

    def all_feeds(self) -> list[FeedPair]:
        """The queues that were requested, those of host channels included."""
        with self._lock:
            feeds = list(self._feeds.values())
        return [pair for each in feeds for pair in each.pairs()]

    def feeds_of_replica(self, handle: DeviceHandle | None, replica_id: int) -> DeviceFeeds:
        """The queues of a replica: that many devices behind the one of a device handle.

        For replicas of one partition on the first devices, these are each replica's own. Raises
        FailedPreconditionError for a replica without a device, and as `resolve`.
        """
        first = self.resolve(handle).ordinal
        count = len(self._devices) - first
        if not 0 <= replica_id < count:
            raise FailedPreconditionError(
                f"replica_id must be below the {count} devices from device {first} on, got "
                f"{replica_id}"
            )
        return self.feeds(self._devices[first + replica_id])

    def at(self, ordinals: Sequence[int]) -> tuple[Device, ...]:
        """The devices of these ordinals, which are below `len`."""
        return tuple(self._devices[ordinal] for ordinal in ordinals)

    def handles(self, device_count: int) -> tuple[DeviceHandle, ...]:
        """The handles of a set of virtual devices; nothing is reserved.

        Raises InvalidArgumentError for a negative count, ResourceExhaustedError for more than the
        platform has.
        """
        if device_count < 0:
            raise InvalidArgumentError(f"device_count must not be negative, got {device_count}")
        if device_count > len(self._devices):
            raise ResourceExhaustedError(
                f"the server has {len(self._devices)} devices, got a request for {device_count}",
                hint="Start the server with more --devices.",
            )
        return tuple(DeviceHandle(number, device_count) for number in range(device_count))

    def reset(self) -> None:
        """Empty the feeds and host channels of all devices."""
        for feeds in self.all_feeds():
            feeds.reset()
