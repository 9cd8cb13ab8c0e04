"""Thread pools: a call that waits must not hold up one that does not."""

import dataclasses
import enum
import itertools
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from xla_server.rpc.arrivals import Arrivals
from xla_server.rpc.threads import Threads

_numbers = itertools.count(1)


class Pool(enum.StrEnum):
    """Kinds of calls by what they wait for; each kind has threads of its own."""

    SHORT = "short"
    """Answers from what is there."""
    COMPILE = "compile"
    """Computes, but waits for nobody."""
    EXECUTE = "execute"
    """Runs programs, which may wait for feeds."""
    STREAM = "stream"
    """Serves one stream as long as it lasts."""


@dataclasses.dataclass(frozen=True, slots=True)
class PoolSizes:
    """Threads per kind. Calls beyond them wait in line, in order."""

    short: int = 16
    compile: int = 4
    execute: int = 256
    stream: int = 1024


class Pools:
    """The thread pools of one server."""

    def __init__(self, sizes: PoolSizes) -> None:
        self._prefix = f"xla-{next(_numbers)}-"
        self._executors: Mapping[Pool, Threads] = {
            pool: Threads(getattr(sizes, str(pool)), f"{self._prefix}{pool}") for pool in Pool
        }
        self._arrivals = {pool: Arrivals(threads) for pool, threads in self._executors.items()}

    def executor(self, pool: Pool) -> ThreadPoolExecutor:
        """The executor of a kind of calls."""
        return self._executors[pool]

    def arrivals(self, pool: Pool) -> ThreadPoolExecutor:
        """The same threads, for grpc: a call has one when its request is there."""
        return self._arrivals[pool]

    def close(self, timeout: float) -> bool:
        """Stop taking calls and wait for the threads; False when some are still busy."""
        for executor in self._executors.values():
            executor.shutdown(wait=False, cancel_futures=True)
        deadline = time.monotonic() + timeout
        threads = [
            thread for thread in threading.enumerate() if thread.name.startswith(self._prefix)
        ]
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        return not any(thread.is_alive() for thread in threads)
