"""The interface of a run to thunks of the host, which are executed in Python."""

import ctypes
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from xla_contract.types.shape import Shape
from xla_server.evaluator.interpret import Run
from xla_server.evaluator.plan import PlanCache
from xla_server.execution.environment import Environment
from xla_server.execution.execute_options import ExecuteOptions
from xla_server.ir.module import HloComputation, HloInstruction
from xla_server.ops.evaluation import Value
from xla_server.runtime.thunk_times import ThunkTimes

Array = Any


class HostRun(Environment):
    """The environment of thunks of the host.

    It copies values that it hands out: runs reuse memory.
    """

    __slots__ = ()

    def call_lifted(self, computation: HloComputation, arguments: Sequence[Array]) -> Value:
        """Evaluate a computation of scalars elementwise on whole arrays."""
        run = Run(options=self.options, random_states=self.random_states, plans=PlanCache())
        return run.call_lifted(computation, arguments)

    def outfeed(
        self, value: Any, shape: Shape, instruction: HloInstruction, channel_id: int | None = None
    ) -> None:
        """Put a copy of a value into outfeed, or on the channel `channel_id` to the host."""
        super().outfeed(_copied(value), shape, instruction, channel_id)

    def send(self, channel_id: int, value: Any, shape: Shape) -> None:
        """Put a copy of a value on a channel, waiting while the channel is full."""
        super().send(channel_id, _copied(value), shape)


@dataclasses.dataclass(eq=False, slots=True)
class RunContext:
    """Context of one run of a program: its options, and the interface for thunks of the host.

    The times of thunks are written to `times` unless it is None. `launched`, if the program calls
    it, receives what the run would return.
    """

    options: ExecuteOptions
    _make_host: Callable[[ExecuteOptions], HostRun]
    times: ThunkTimes | None = None
    launched: Callable[[Mapping[int, Any]], None] | None = None
    _host: HostRun | None = None

    @property
    def host(self) -> HostRun:
        """The interface for thunks of the host, made on first use: few programs have any."""
        if self._host is None:
            self._host = self._make_host(self.options)
        return self._host


def _copied(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_copied, value))
    return value.copy() if isinstance(value, np.ndarray) else value


def arrays_of(shape: Shape) -> Callable[[int], Array]:
    """Return a function that views an address as a dense row-major array of this shape."""
    dtype, sizes = shape.element_type.dtype, shape.dimensions
    memory: Any = ctypes.c_char * (shape.element_count * dtype.itemsize)
    at = memory.from_address
    return lambda address: np.ndarray(sizes, dtype, at(address))
