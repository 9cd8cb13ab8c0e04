"""Calls that may wait, each in a thread, and the feeds that they wait for."""

import threading
from collections.abc import Callable

from tests.unit.waiting import waits
from xla_contract.errors import CancelledError
from xla_server.execution.cancellation import Cancellation
from xla_server.sessions.feeds.channel_table import ChannelTable
from xla_server.sessions.feeds.device_feeds import DeviceFeeds
from xla_server.sessions.values.handles import HandleFactory


def device_feeds(
    items: int = 2, size: int = 1000, channels: ChannelTable | None = None
) -> DeviceFeeds:
    """Feeds of these limits, with channels of a table of their own."""
    table = channels or ChannelTable(HandleFactory(), max_items=items, max_bytes=size)
    return DeviceFeeds(max_items=items, max_bytes=size, require_channel=table.require)


class Job(threading.Thread):
    """A call that may wait, with its own cancellation."""

    def __init__(self, call: Callable[..., object], *arguments: object) -> None:
        super().__init__(daemon=True)
        self.cancellation = Cancellation()
        self.result: object = None
        self.error: BaseException | None = None
        self._call = call
        self._arguments = arguments
        self.start()

    def run(self) -> None:
        try:
            self.result = self._call(*self._arguments, self.cancellation)
        except BaseException as error:
            self.error = error

    def waits(self) -> bool:
        return waits(self)

    def ended(self) -> "Job":
        self.join(100)
        assert not self.is_alive()
        return self

    def cancelled(self) -> None:
        self.cancellation.cancel()
        assert isinstance(self.ended().error, CancelledError)
