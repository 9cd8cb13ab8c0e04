"""Resources that the sessions of one server share."""

import contextlib
from collections.abc import Callable
from typing import Any, Protocol

from xla_contract.errors import ResourceExhaustedError
from xla_server.backends.platform import Backend
from xla_server.execution.cancellation_set import CancellationSet
from xla_server.execution.start_thread import start_thread
from xla_server.runtime.blocks import BlockPool
from xla_server.sessions.limits.response_memory import ResponseMemory
from xla_server.sessions.limits.server_limits import Limits, Quotas
from xla_server.sessions.limits.shares.caller import Flow
from xla_server.sessions.limits.shares.fair_share import FairShare
from xla_server.sessions.runs.hosts import Hosts
from xla_server.sessions.runs.run_resources import RunResources
from xla_server.sessions.transfers.arena_pool import ArenaPool


class ExecutionThreads(Protocol):
    """A pool of threads for jobs of many callers."""

    def submit_for(self, flow: Flow, do: Callable[..., object], /, *arguments: Any) -> None:
        """Call `do` in a thread, at the turn of `flow`; raises RuntimeError after `shutdown`."""

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Refuse new jobs; as `Executor.shutdown`."""


class SharedResources(RunResources):
    """Resources of all sessions: those of runs, memory of responses and transfers, threads.

    `execution_threads` run the executions that no call waits for; the engine closes them.
    """

    def __init__(
        self,
        backend: Backend,
        limits: Limits,
        execution_threads: ExecutionThreads,
        quotas: Quotas | None = None,
        hosts: Hosts | None = None,
    ) -> None:
        super().__init__(backend, limits, quotas, hosts)
        self.response_memory = ResponseMemory(limits.max_answer_bytes, limits.shares)
        self.blocks = BlockPool()
        """Memory that values arrive in."""
        self.arenas = ArenaPool(
            max_bytes=limits.shared_memory_bytes,
            session_bytes=limits.session_shared_memory_bytes,
            shares=limits.shares,
        )
        self.execution_threads = execution_threads
        self.executing = FairShare(limits.max_executions, limits.max_sessions, limits.shares)
        """The slots of the executions of all sessions."""
        self.launching = FairShare(limits.max_launches, limits.max_sessions, limits.shares)
        """The slots of executions that were launched and have not ended."""
        self.launched = CancellationSet()
        """The executions that were launched and have not ended."""

    def close(self, timeout: float) -> bool:
        """Free the resources, after all sessions were closed.

        Waits for the threads of executions; False when some are still busy after `timeout`
        seconds, or if the system refuses the thread that waits for them.
        """
        threads, is_over = self.execution_threads, False
        threads.shutdown(wait=False, cancel_futures=True)
        with contextlib.suppress(ResourceExhaustedError):
            closing = start_thread(threads.shutdown, "executions' end")
            closing.join(timeout)
            is_over = not closing.is_alive()
        self.arenas.close()
        return is_over
