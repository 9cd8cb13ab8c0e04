"""A workload on either side: compiled, with its arguments on the device, ready to run."""

import statistics
import time
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

import xla_client
from tests.benchmarks.harness import timed
from tests.benchmarks.workloads.workload import Workload
from xla_contract.types.literal import Literal
from xla_server.backends.compiled.backend import CompiledBackend
from xla_server.backends.platform import Executable
from xla_server.execution.cancellation import Cancellation
from xla_server.execution.execute_options import ExecuteOptions


class Ours:
    """A program of this compiler's, on its own device."""

    def __init__(
        self, platform: CompiledBackend, executable: Executable, arguments: Sequence[Any]
    ) -> None:
        self._device = platform.devices[0]
        self._executable = executable
        leaves = jax.tree.leaves(arguments)
        self._placed = [
            platform.to_device(Literal.from_numpy(np.asarray(leaf)), self._device)
            for leaf in leaves
        ]

    def run(self, cancellation: Cancellation | None = None) -> Any:
        """One execution; raises what the cancellation was given."""
        return self._executable.execute(
            self._placed,
            device=self._device,
            options=ExecuteOptions(cancellation=cancellation or Cancellation()),
        )

    def results(self) -> list[Any]:
        """The arrays of one execution."""
        return _arrays(self.run().output.to_literal())


class Remote:
    """A program on a server in a process of its own, over TCP, its arguments there already."""

    def __init__(self, client: xla_client.Client, serialized: bytes, arguments: Sequence[Any]):
        self._executable = client.compile(xla_client.Computation.from_serialized(serialized))
        leaves = jax.tree.leaves(arguments)
        self._placed = [client.to_device(np.asarray(leaf)) for leaf in leaves]

    def run(self) -> object:
        """One execution, whose results stay there."""
        return self._executable(*self._placed)


COMPILATIONS = 3
"""Number of compilations of a program on either side; the median counts."""


class Theirs:
    """The program that XLA makes of a workload, and the seconds it took to."""

    def __init__(self, workload: Workload, compilations: int = COMPILATIONS) -> None:
        self._arguments = jax.device_put(workload.arguments)
        self.compile_seconds = statistics.median(
            self._compile(workload) for _ in range(compilations)
        )

    def _compile(self, workload: Workload) -> float:
        # JAX returns the cached program of a function that it has compiled before.
        lowered = jax.jit(lambda *arguments: workload.function(*arguments)).lower(*self._arguments)
        started = time.perf_counter()
        self._compiled = lowered.compile()
        return time.perf_counter() - started

    def run(self) -> Any:
        """One execution."""
        return jax.block_until_ready(self._compiled(*self._arguments))

    def run_together(self, count: int) -> Any:
        """So many executions, the next begun before the one before has ended."""
        found = [self._compiled(*self._arguments) for _ in range(count)]
        return jax.block_until_ready(found)

    def results(self) -> list[Any]:
        """The arrays of one execution."""
        return [np.asarray(leaf) for leaf in jax.tree.leaves(self.run())]

    def seconds(self) -> float:
        """Return the rough seconds of one execution."""
        return timed(self.run)


def _arrays(literal: Literal) -> list[Any]:
    if literal.shape.is_tuple:
        return [array for element in literal.elements for array in _arrays(element)]
    return [literal.to_numpy()]
