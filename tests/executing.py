"""One execution of an executable, which has no feeds and no channels."""

from collections.abc import Sequence
from typing import Any

from xla_server.backends.platform import Executable, Execution
from xla_server.execution.cancellation import Cancellation
from xla_server.execution.channel_protocol import NoChannels
from xla_server.execution.feed_protocol import NoFeeds


def execute(
    executable: Executable,
    device: Any,
    arguments: Sequence[Any],
    cancellation: Cancellation | None = None,
    donated: Sequence[int] = (),
) -> Execution:
    """Return the execution on arguments that are on the device."""
    return executable.execute(
        list(arguments),
        device=device,
        feeds=NoFeeds(),
        channels=NoChannels(),
        cancellation=cancellation or Cancellation(),
        donated=tuple(donated),
    )
