"""Measurement of one program: compiled by both sides, compared, then run in turns."""

import dataclasses
import functools
import math
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from tests.benchmarks.compilation import Program as Compiled
from tests.benchmarks.harness import timed
from tests.benchmarks.programs import Ours
from tests.benchmarks.sweep.catalogue import program
from tests.benchmarks.sweep.comparing import verdict
from tests.benchmarks.sweep.program import Program
from xla_contract.errors import XlaError
from xla_contract.types.literal import Literal
from xla_server.backends.compiled.cpu import Cpu
from xla_server.execution.cancellation import Cancellation

MAX_PEER_SECONDS = 0.1
"""Time of a run of XLA's from which on a program is left out."""

MAX_OUR_SECONDS = 20.0
"""Time after which our first run of a program is cancelled."""

BATCH_SECONDS = 4e-4
"""Time for which one side runs before the other has its turn, if a run does not take longer."""

MIN_ROUNDS = 5


@dataclasses.dataclass(frozen=True)
class Record:
    """The measurement of a program; times are in seconds, 0 where there is none.

    `status` is `ok`, `chaotic` (differs, as XLA's own results do when last bits of the arguments
    change), `WRONG`, `FAILED`, `CRASHED`, `HUNG` or `skipped`.
    """

    number: int
    family: str
    description: str
    status: str = "ok"
    note: str = ""
    ours: float = 0.0
    peer: float = 0.0
    compile_ours: float = 0.0
    compile_peer: float = 0.0

    @property
    def is_measured(self) -> bool:
        """Return whether there are times of runs."""
        return self.ours > 0 and self.peer > 0

    @property
    def ratio(self) -> float:
        """Our time with XLA's as 1."""
        return self.ours / self.peer if self.is_measured else math.nan

    def merged(self, again: "Record") -> "Record":
        """Return this with the shorter times of this and a second measurement."""
        if not again.is_measured:
            return self
        return dataclasses.replace(
            self, ours=min(self.ours, again.ours), peer=min(self.peer, again.peer)
        )


class Peer:
    """A program compiled by XLA, with its arguments on the device."""

    def __init__(self, function: Callable[..., Any], arguments: tuple[np.ndarray, ...]) -> None:
        self.lowered = jax.jit(function, keep_unused=True).lower(*arguments)
        started = time.perf_counter()
        self.compiled = self.lowered.compile()
        self.compile_seconds = time.perf_counter() - started
        self.arguments = jax.device_put(arguments)
        self._is_array = isinstance(self.compiled(*self.arguments), jax.Array)

    @property
    def serialized(self) -> bytes:
        """The module before XLA's passes."""
        module = self.lowered.compiler_ir("hlo")
        data: bytes = module.as_serialized_hlo_module_proto()
        return data

    def run(self) -> Any:
        """Run it once and wait for the results."""
        result = self.compiled(*self.arguments)
        # Faster than jax.block_until_ready where there is one result.
        return result.block_until_ready() if self._is_array else jax.block_until_ready(result)

    def results(self, arguments: Any = None) -> list[np.ndarray]:
        """Return the results, for other arguments if there are some."""
        return [
            np.asarray(leaf)
            for leaf in jax.tree.leaves(self.compiled(*(arguments or self.arguments)))
        ]


class Guarded(Ours):
    """Our program, whose first run ends after a time."""

    def guarded_results(self) -> list[np.ndarray]:
        """Return the arrays of one run; raises CancelledError if that takes too long."""
        cancellation = Cancellation()
        timer = threading.Timer(MAX_OUR_SECONDS, cancellation.cancel)
        timer.start()
        try:
            run = self.run(cancellation)
        finally:
            timer.cancel()
        return list(_leaves(run.output.literal))


def _leaves(literal: Literal) -> list[np.ndarray]:
    if literal.shape.is_tuple:
        return [array for element in literal.elements for array in _leaves(element)]
    return [literal.to_numpy()]


def measure(seed: int, number: int, cpu: Cpu, seconds: float) -> Record:
    """Measure the program of a number, taking turns for about `seconds`."""
    drawn = program(seed, number)
    with jax.enable_x64(drawn.is_wide):
        return _measured(drawn, number, seed, cpu, seconds)


def _measured(drawn: Program, number: int, seed: int, cpu: Cpu, seconds: float) -> Record:
    record = Record(number, drawn.family, drawn.description)
    arguments = drawn.arguments(seed + number)
    theirs = Peer(drawn.function, arguments)
    record = dataclasses.replace(record, compile_peer=theirs.compile_seconds)
    if min(timed(theirs.run) for _ in range(3)) > MAX_PEER_SECONDS:
        return dataclasses.replace(record, status="skipped", note="XLA takes too long")
    try:
        compile_seconds, executable = Compiled(theirs.serialized).compiled(cpu)
        ours = Guarded(cpu, executable, arguments)
        results = ours.guarded_results()
    except XlaError as error:
        return dataclasses.replace(record, status="FAILED", note=str(error)[:500])
    status, note = verdict(
        results,
        theirs.results(),
        arguments,
        theirs.results,
        None if drawn.is_wide else functools.partial(run_wide, drawn.function),
        functools.partial(run_apart, drawn.function),
    )
    mine, peer = take_turns(ours.run, theirs.run, seconds)
    return dataclasses.replace(
        record,
        status=status,
        note=note,
        ours=mine,
        peer=peer,
        compile_ours=compile_seconds,
    )


def run_wide(function: Callable[..., Any], arguments: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return the results of XLA's program for arguments of 64 bits."""
    with jax.enable_x64(True):
        return [np.asarray(leaf) for leaf in jax.tree.leaves(jax.jit(function)(*arguments))]


def run_apart(function: Callable[..., Any], arguments: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return XLA's results with each operation compiled by itself."""
    with jax.disable_jit():
        return [
            np.asarray(leaf)
            for leaf in jax.tree.leaves(function(*map(jax.numpy.asarray, arguments)))
        ]


def take_turns(
    ours: Callable[[], object], theirs: Callable[[], object], seconds: float
) -> tuple[float, float]:
    """Return the shortest time of a call of each, of several in turns for about `seconds`."""
    sides = (ours, theirs)
    best = [min(timed(side) for _ in range(2)) for side in sides]
    batches = [max(1, min(40, int(BATCH_SECONDS / max(time, 1e-7)))) for time in best]
    until = time.perf_counter() + seconds
    rounds = 0
    while rounds < MIN_ROUNDS or time.perf_counter() < until:
        for side, run in enumerate(sides):
            best[side] = min(best[side], *(timed(run) for _ in range(batches[side] + 1)))
        rounds += 1
    return best[0], best[1]
