"""The environment of one execution: queues, channels, cancellation and random numbers."""

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np

from xla_contract.types.devices.device_grid import DeviceGrid
from xla_contract.types.shape import Shape
from xla_server.execution.execute_options import ExecuteOptions
from xla_server.ir.module import HloInstruction
from xla_server.ops.evaluation import Crossing, GivenT, Meeting, SharedT, Value
from xla_server.ops.random.rng_get_and_update_state import RandomStates


@dataclasses.dataclass(eq=False, slots=True, kw_only=True)
class Environment:
    """The part of a Frame that evaluators and the host rows of compiled programs share."""

    options: ExecuteOptions
    random_states: RandomStates
    seed: int = 0
    _random: np.random.Generator | None = dataclasses.field(default=None, init=False)

    @property
    def grid(self) -> DeviceGrid:
        """The grid that the program runs on."""
        return self.options.collectives.grid

    @property
    def replica_id(self) -> int:
        """The number of the copy of the program."""
        return self.options.collectives.replica_id

    @property
    def partition_id(self) -> int:
        """The number of the part of the program."""
        return self.options.collectives.partition_id

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
        return self.options.feeds.take_infeed(shape, self.options.cancellation, name, channel_id)

    def outfeed(
        self,
        value: Value,
        shape: Shape,
        instruction: HloInstruction,
        channel_id: int | None = None,
    ) -> None:
        """Put a value into outfeed, or a channel to the host, waiting while it is full."""
        name = instruction.name
        self.options.feeds.put_outfeed(value, shape, self.options.cancellation, name, channel_id)

    def send(self, channel_id: int, value: Value, shape: Shape) -> None:
        """Put a value of this shape on a channel, waiting while the channel is full."""
        self.options.channels.send(channel_id, value, shape, self.options.cancellation)

    def receive(self, channel_id: int, shape: Shape) -> Value:
        """Wait for the next value on a channel; it must have this shape."""
        return self.options.channels.receive(channel_id, shape, self.options.cancellation)

    def exchange(
        self,
        meeting: Meeting,
        given: GivenT,
        share: Callable[[Sequence[GivenT]], SharedT],
        work: Callable[[SharedT, int], None] | None = None,
        crossing: Callable[[], Crossing] | None = None,
    ) -> SharedT:
        """Meet the other members of a group; raises as Collectives.exchange says."""
        return self.options.collectives.exchange(meeting, given, share, work, crossing)

    def post(self, meeting: Meeting, value: Value) -> None:
        """Leave a value for another participant; raises as Collectives.post says."""
        self.options.collectives.post(meeting, value)

    def take(self, meeting: Meeting) -> Value:
        """Wait for a value of another participant; raises as Collectives.exchange says."""
        return self.options.collectives.take(meeting)

    def check_cancelled(self) -> None:
        """Raise CancelledError or DeadlineExceededError when the run is to stop."""
        self.options.cancellation.checkpoint()
