"""The options of one execution: feeds, channels, cancellation and the other participants."""

import dataclasses
from collections.abc import Callable, Collection
from typing import Any

from xla_server.execution.cancellation import Cancellation
from xla_server.execution.channel_protocol import Channels, NoChannels, OwnChannels
from xla_server.execution.collectives_protocol import ALONE_RUN, Collectives
from xla_server.execution.feed_protocol import Feeds, NoFeeds
from xla_server.ir.module import HloComputation


@dataclasses.dataclass(eq=False, slots=True, kw_only=True)
class ExecuteOptions:
    """The options of one execution. `collectives` are the other participants, on the grid.

    `donated` are numbers of arguments that the caller gives up, whatever comes of the run: they
    must not be used any more, and a platform may write results where they were. The aliases that a
    module states are no more than the wish for that: handles of the protocol stay valid, so no rpc
    donates. The defaults are for one that runs alone, on no device with feeds, and is never
    cancelled.

    `launched` is called with the result, once at most, when all work is enqueued on the device and
    may not be done. Other executions may have the result as an argument from then on: the platform
    executes them after this one. If this one fails they must fail, too, which their callers see to.
    Platforms that compute results before they answer do not call it.
    """

    feeds: Feeds = dataclasses.field(default_factory=NoFeeds)
    channels: Channels = dataclasses.field(default_factory=NoChannels)
    cancellation: Cancellation = dataclasses.field(default_factory=Cancellation)
    collectives: Collectives = ALONE_RUN
    donated: Collection[int] = ()
    launched: Callable[[Any], None] | None = None

    def inside(self, computation: HloComputation) -> "ExecuteOptions":
        """The options for a program, whose channels with both ends in it are its own."""
        return dataclasses.replace(self, channels=OwnChannels(computation, self.channels))
