"""What rows that only Python can do may ask of the run they are part of."""

import ctypes
from typing import Any

import numpy as np

from xla_contract.shape import Shape
from xla_server.evaluator.cancellation import Cancellation
from xla_server.evaluator.channels import Channels
from xla_server.evaluator.feeds import Feeds
from xla_server.ir.module import HloInstruction
from xla_server.ops.rng_get_and_update_state import RandomStates

Array = Any


class HostRun:
    """One execution, as host rows see it."""

    def __init__(
        self,
        *,
        feeds: Feeds,
        channels: Channels,
        cancellation: Cancellation,
        random_states: RandomStates,
        seed: int = 0,
    ) -> None:
        self.feeds = feeds
        self.channels = channels
        self.cancellation = cancellation
        self.replica_id = 0
        self.partition_id = 0
        self._random_states = random_states
        self._seed = seed
        self._random: np.random.Generator | None = None

    @property
    def random(self) -> np.random.Generator:
        """The source of the execution's random numbers, made when the first is drawn."""
        if self._random is None:
            self._random = np.random.default_rng(self._seed or None)
        return self._random

    def infeed(self, shape: Shape, instruction: HloInstruction) -> Any:
        """Wait for the next item of the device's infeed queue; it must have this shape."""
        return self.feeds.take_infeed(shape, self.cancellation, instruction.name)

    def outfeed(self, value: Any, shape: Shape, instruction: HloInstruction) -> None:
        """Put a value into the device's outfeed queue, waiting while it is full.

        The value is copied: the memory it is in goes on to other values.
        """
        self.feeds.put_outfeed(_copied(value), shape, self.cancellation, instruction.name)

    def send(self, channel_id: int, value: Any, shape: Shape) -> None:
        """Put a value of this shape on a channel, waiting while the channel is full."""
        self.channels.send(channel_id, _copied(value), shape, self.cancellation)

    def receive(self, channel_id: int, shape: Shape) -> Any:
        """Wait for the next value on a channel; it must have this shape."""
        return self.channels.receive(channel_id, shape, self.cancellation)

    def check_cancelled(self) -> None:
        """Raise when the run is to stop."""
        self.cancellation.checkpoint()

    def advance_state(self, instruction: HloInstruction, delta: int) -> int:
        """The 128-bit state the program keeps for `instruction`, which is moved on by `delta`."""
        return self._random_states.advance(instruction, delta)


def _copied(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_copied, value))
    return value.copy() if isinstance(value, np.ndarray) else value


def array_at(address: int, shape: Shape) -> Array:
    """The dense row-major array of a shape at an address, which must outlive it."""
    dtype = shape.element_type.dtype
    memory: Any = (ctypes.c_char * (shape.element_count * dtype.itemsize)).from_address(address)
    return np.frombuffer(memory, dtype).reshape(shape.dimensions)
