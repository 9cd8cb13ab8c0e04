"""The environment of one execution: queues, channels, cancellation and random numbers."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import NotRequired, TypedDict

import numpy as np

from xla_contract.types.device_grid import DeviceGrid
from xla_contract.types.shape import Shape
from xla_server.execution.cancellation import Cancellation
from xla_server.execution.channel_protocol import Channels
from xla_server.execution.collectives_protocol import ALONE_RUN, Collectives
from xla_server.execution.feed_protocol import Feeds
from xla_server.ir.module import HloInstruction
from xla_server.ops.evaluation import Crossing, GivenT, Meeting, SharedT, Value
from xla_server.ops.random.rng_get_and_update_state import RandomStates


class Surroundings(TypedDict):
    """The arguments of Environment."""

    feeds: Feeds
    channels: Channels
    cancellation: Cancellation
    random_states: RandomStates
    seed: NotRequired[int]
    collectives: NotRequired[Collectives]


@dataclasses.dataclass(kw_only=True, eq=False, slots=True)
class Environment:
    """The part of a Frame that evaluators and the host rows of compiled programs share."""

    feeds: Feeds
    channels: Channels
    cancellation: Cancellation
    random_states: RandomStates
    seed: int = 0
    collectives: Collectives = ALONE_RUN
    _random: np.random.Generator | None = dataclasses.field(default=None, init=False)

    @property
    def grid(self) -> DeviceGrid:
        """The grid that the program runs on."""
        return self.collectives.grid

    @property
    def replica_id(self) -> int:
        """The number of the copy of the program."""
        return self.collectives.replica_id

    @property
    def partition_id(self) -> int:
        """The number of the part of the program."""
        return self.collectives.partition_id

    @property
    def random(self) -> np.random.Generator:
        """The source of the execution's random numbers, made when the first is drawn."""
        if self._random is None:
            self._random = np.random.default_rng(self.seed or None)
        return self._random

    def advance_state(self, instruction: HloInstruction, delta: int) -> int:
        """The 128-bit state the program keeps for `instruction`, which is moved on by `delta`."""
        return self.random_states.advance(instruction, delta)

    def infeed(
        self, shape: Shape, instruction: HloInstruction, channel_id: int | None = None
    ) -> Value:
        """Wait for the next item of infeed, or of a channel from the host."""
        name = instruction.name
        return self.feeds.take_infeed(shape, self.cancellation, name, channel_id)

    def outfeed(
        self,
        value: Value,
        shape: Shape,
        instruction: HloInstruction,
        channel_id: int | None = None,
    ) -> None:
        """Put a value into outfeed, or a channel to the host, waiting while it is full."""
        name = instruction.name
        self.feeds.put_outfeed(value, shape, self.cancellation, name, channel_id)

    def send(self, channel_id: int, value: Value, shape: Shape) -> None:
        """Put a value of this shape on a channel, waiting while the channel is full."""
        self.channels.send(channel_id, value, shape, self.cancellation)

    def receive(self, channel_id: int, shape: Shape) -> Value:
        """Wait for the next value on a channel; it must have this shape."""
        return self.channels.receive(channel_id, shape, self.cancellation)

    def exchange(
        self,
        meeting: Meeting,
        given: GivenT,
        share: Callable[[Sequence[GivenT]], SharedT],
        work: Callable[[SharedT, int], None] | None = None,
        crossing: Callable[[], Crossing] | None = None,
    ) -> SharedT:
        """Meet the other members of a group; raises as Collectives.exchange says."""
        return self.collectives.exchange(meeting, given, share, work, crossing)

    def post(self, meeting: Meeting, value: Value) -> None:
        """Leave a value for another participant; raises as Collectives.post says."""
        self.collectives.post(meeting, value)

    def take(self, meeting: Meeting) -> Value:
        """Wait for a value of another participant; raises as Collectives.exchange says."""
        return self.collectives.take(meeting)

    def check_cancelled(self) -> None:
        """Raise CancelledError or DeadlineExceededError when the run is to stop."""
        self.cancellation.checkpoint()
