"""The environment of one execution: queues, channels, cancellation and random numbers."""

import dataclasses
from contextlib import AbstractContextManager

import numpy as np

from xla_contract.types.shape import Shape
from xla_server.execution.collectives_protocol import Collectives
from xla_server.execution.execute_options import ExecuteOptions
from xla_server.execution.feed_protocol import FeedUse
from xla_server.ir.module import HloInstruction
from xla_server.ops.evaluation import Value
from xla_server.ops.random.rng_get_and_update_state import RandomStates


@dataclasses.dataclass(eq=False, slots=True, kw_only=True)
class Environment:
    """The part of a Frame that evaluators share with the host steps of compiled programs."""

    options: ExecuteOptions
    random_states: RandomStates
    seed: int = 0
    _random: np.random.Generator | None = dataclasses.field(default=None, init=False)

    @property
    def participants(self) -> Collectives:
        """The participants of the execution."""
        return self.options.collectives

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
        use = FeedUse(instruction.name, channel_id)
        return self.options.feeds.take_infeed(shape, self.options.cancellation, use)

    def outfeed(
        self,
        value: Value,
        shape: Shape,
        instruction: HloInstruction,
        channel_id: int | None = None,
    ) -> None:
        """Put a value into outfeed, or a channel to the host, waiting while it is full."""
        use = FeedUse(instruction.name, channel_id)
        self.options.feeds.put_outfeed(value, shape, self.options.cancellation, use)

    def send(self, channel_id: int, value: Value, shape: Shape) -> None:
        """Put a value of this shape on a channel, waiting while the channel is full."""
        self.options.channels.send(channel_id, value, shape, self.options.cancellation)

    def receive(self, channel_id: int, shape: Shape) -> Value:
        """Wait for the next value on a channel; it must have this shape."""
        return self.options.channels.receive(channel_id, shape, self.options.cancellation)

    def outside(self) -> AbstractContextManager[None]:
        """Mark a block that executes code of others, as `Cancellation.outside`."""
        return self.options.cancellation.outside()

    def check_cancelled(self) -> None:
        """Raise CancelledError or DeadlineExceededError if the run must stop."""
        self.options.cancellation.checkpoint()
