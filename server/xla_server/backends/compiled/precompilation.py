"""Compilation of shared routines before a program needs them.

XLA's CPU backend links the routines that its programs call; ours are compiled on first use. A
background thread compiles them ahead, and pauses while a program is compiled. It has normal
priority: it holds locks that other threads need, such as the GIL, and would hold them for long at a
low priority.
"""

import contextlib
import functools
import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence

from xla_server.codegen.kernel import Kernels
from xla_server.codegen.namespace import vocabulary
from xla_server.runtime.native import copy_range
from xla_server.runtime.threads import KernelThreads

_LOG = logging.getLogger(__name__)

_LOOK_SECONDS = 0.1
"""Seconds between two polls of `is_over` while urgent compilations hold a preparation up."""


class Preparation:
    """Steps of compilation that run while no program is compiled. Thread-safe."""

    def __init__(self, steps: Sequence[Callable[[], object]]) -> None:
        self._steps = steps
        self._urgent = 0
        self._changed = threading.Condition()

    @contextlib.contextmanager
    def interrupted(self) -> Iterator[None]:
        """Begin no step during the block. A step that has begun takes some milliseconds at most."""
        with self._changed:
            self._urgent += 1
        try:
            yield
        finally:
            with self._changed:
                self._urgent -= 1
                self._changed.notify_all()

    def run(self, is_over: Callable[[], bool]) -> bool:
        """Run one step after the other; return False if `is_over` returned True, or a step failed.

        The failure is logged only: a program that needs the code fails with the same error.
        """
        started = time.perf_counter()
        try:
            for step in self._steps:
                with self._changed:
                    while self._urgent and not is_over():
                        self._changed.wait(_LOOK_SECONDS)
                if is_over():
                    return False
                step()
        except Exception:
            _LOG.warning("what programs share cannot be compiled ahead", exc_info=True)
            return False
        seconds = round(time.perf_counter() - started, 3)
        _LOG.info("prepared", extra={"steps": len(self._steps), "seconds": seconds})
        return True


def preparation(kernels: Kernels, pool: KernelThreads) -> Preparation:
    """Return the steps that compile helpers, shared functions and code for the first kernel."""
    prepared = by_likelihood(vocabulary(kernels.machine).prepared)
    loads = [functools.partial(kernels.load_shared, symbol) for symbol in prepared]
    return Preparation([pool.prepare, *loads, lambda: kernels.native(copy_range), kernels.prepare])


def by_likelihood(symbols: Iterable[str]) -> list[str]:
    """Sort symbols of shared functions, those that most programs call first.

    Fourier transforms are last, functions of f64, i16 and i32 after others, and products first
    among equals.
    """

    def rank(symbol: str) -> tuple[bool, bool, bool]:
        is_rare = any(other in symbol for other in ("f64", "i16", "i32"))
        return "fourier" in symbol, is_rare, "gemm" not in symbol

    return sorted(symbols, key=rank)
