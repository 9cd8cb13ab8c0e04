"""rng-get-and-update-state: each instruction of an executable has a state of its own.

Semantics: XLA's CPU backend, RngState: it starts at 0x7012395 with each compilation.
"""

import threading
from collections.abc import Sequence

import numpy as np

from xla_contract.ops.random.rng_get_and_update_state import RngGetAndUpdateStateAttributes
from xla_server.ir.module import HloInstruction
from xla_server.ops.evaluation import Frame, Value

_START = 0x7012395
"""The first state, that of XLA."""


class RandomStates:
    """The states of a program's instructions, kept from one run to the next.

    Threads may share one: no two readers get the same state.
    """

    __slots__ = ("_lock", "_states")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._states: dict[HloInstruction, int] = {}

    def advance(self, instruction: HloInstruction, delta: int) -> int:
        """The 128-bit state of `instruction`, which is moved on by `delta`."""
        with self._lock:
            state = self._states.get(instruction, _START)
            self._states[instruction] = (state + delta) % 2**128
        return state


def evaluate_rng_get_and_update_state(
    instruction: HloInstruction, operands: Sequence[Value], frame: Frame
) -> Value:
    """The state before it moves on, the low half first."""
    attributes: RngGetAndUpdateStateAttributes = instruction.attributes
    high, low = divmod(frame.advance_state(instruction, attributes.delta), 2**64)
    return np.array([low, high], np.uint64)
