"""Thread pools: a call that waits must not hold up one that does not."""

import contextlib
import dataclasses
import enum
import itertools
import threading
import time
from collections.abc import Mapping

from xla_server.rpc.grpc_internals import EndableCalls
from xla_server.rpc.limits.call_admission import CallAdmission
from xla_server.rpc.limits.concurrency_limit import (
    STREAM_LIMITS,
    ConcurrencyLimit,
    ConcurrencyLimits,
)
from xla_server.rpc.limits.idle_streams import IdleTimer
from xla_server.rpc.peers.gate import Gate
from xla_server.rpc.threads.request_threads import RequestThreadPool
from xla_server.rpc.threads.thread_pool import ThreadPool
from xla_server.sessions.limits.shares.caller_shares import EVERYTHING, CallerShares

_numbers = itertools.count(1)

_THREADS_OF_A_STREAM = 3
"""Threads of a stream: one reads, one sends, one waits for the end. Long calls lend slots."""

_REFUSAL_THREADS = 2
"""Threads that refuse calls: two, so that a blocked one does not stop the other."""


class Pool(enum.StrEnum):
    """Kinds of calls by what they wait for; each kind has a thread pool."""

    SHORT = "short"
    """Calls that are answered from the server's state, without running or compiling a program."""
    COMPILE = "compile"
    """Calls that compute and never block."""
    EXECUTE = "execute"
    """Calls that run programs, which may wait for feeds."""
    STREAM = "stream"
    """Streams, each with a thread while it lasts."""


@dataclasses.dataclass(frozen=True, slots=True)
class PoolSizes:
    """Number of threads per kind. Further calls wait, and callers take turns."""

    short: int = 16
    compile: int = 4
    execute: int = 256
    stream: int = 64
    """Threads of streams, beside those of the streams in progress."""
    lent: int = 1 << 13
    """Additional threads of each kind, for programs that wait or run for long."""
    shares: CallerShares = EVERYTHING
    """The largest shares of the threads that compile for one identity and one connection."""


class Pools:
    """The thread pools of one server."""

    def __init__(
        self,
        sizes: PoolSizes,
        streams: ConcurrencyLimits | None = None,
        calls: CallAdmission | None = None,
        gate: Gate | None = None,
    ) -> None:
        self.calls = calls or CallAdmission()
        self.streams = ConcurrencyLimit(
            streams or STREAM_LIMITS, "streams", "End streams that are not used, or wait."
        )
        self._prefix = f"xla-{next(_numbers)}-"
        self.threads: Mapping[Pool, ThreadPool] = {
            pool: ThreadPool(
                getattr(sizes, pool),
                f"{self._prefix}{pool}",
                max_lent=sizes.lent,
                # These calls take long, and their threads wait for no client.
                shares=sizes.shares if pool is Pool.COMPILE else None,
            )
            for pool in Pool
        }
        self.refusals = ThreadPool(_REFUSAL_THREADS, f"{self._prefix}refusals")
        """Threads for refused calls, which are no work in progress."""
        self.expected = EndableCalls()
        """The calls whose requests have not arrived yet."""
        self.begun = EndableCalls()
        """The unary calls that threads are answering."""
        self.silences: dict[IdleTimer, None] = {}
        """Timers of grpc's open streams, the oldest first."""
        self._arrivals = {
            (pool, is_streamed): RequestThreadPool(
                threads,
                self.expected,
                self.calls,
                is_streamed=is_streamed,
                begun=self.begun,
                gate=gate,
            )
            for pool, threads in self.threads.items()
            for is_streamed in (False, True)
        }

    def serving_stream(self) -> contextlib.AbstractContextManager[None]:
        """Add the threads of a stream for the block, which runs in one of STREAM's threads."""
        return self.threads[Pool.STREAM].larger(_THREADS_OF_A_STREAM)

    def arrivals(self, pool: Pool, *, is_streamed: bool = False) -> RequestThreadPool:
        """A pool's executor for grpc: a call gets a thread when its request has arrived.

        A call with a stream of requests (`is_streamed`) gets one at once.
        """
        return self._arrivals[pool, is_streamed]

    def is_idle(self, *, besides: Pool | None = None) -> bool:
        """Return whether no thread of any pool, except `besides`, is busy."""
        return all(
            threads.is_idle() for pool, threads in self.threads.items() if pool is not besides
        )

    def close(self, timeout: float) -> bool:
        """Stop taking calls and wait for the threads; False when some are still busy."""
        for executor in (*self.threads.values(), self.refusals):
            executor.shutdown(wait=False, cancel_futures=True)
        deadline = time.monotonic() + timeout
        threads = [
            thread for thread in threading.enumerate() if thread.name.startswith(self._prefix)
        ]
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        return not any(thread.is_alive() for thread in threads)
