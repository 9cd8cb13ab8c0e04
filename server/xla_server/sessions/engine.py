"""What the sessions of one server share."""

from concurrent.futures import ThreadPoolExecutor

from xla_server.backends.backend import Backend
from xla_server.runtime.blocks import BlockPool
from xla_server.sessions.arena_pool import ArenaPool
from xla_server.sessions.device_memory import DeviceMemory
from xla_server.sessions.executables import SharedExecutables
from xla_server.sessions.quotas import Count, Quotas
from xla_server.sessions.records import Limits


class Engine:
    """A platform, the programs compiled for it, and the memory of its devices.

    `quotas` are what each session may have; by default a session may have all there is.
    """

    def __init__(self, backend: Backend, limits: Limits, quotas: Quotas | None = None) -> None:
        self.backend = backend
        self.limits = limits
        self.quotas = quotas or Quotas(device_bytes=limits.max_device_bytes)
        self.memory = DeviceMemory(limits.max_device_bytes)
        self.blocks = BlockPool()
        """Memory that values arrive in."""
        self.arenas = ArenaPool(
            max_bytes=limits.shared_memory_bytes, session_bytes=limits.session_shared_memory_bytes
        )
        self.execution_threads = ThreadPoolExecutor(
            limits.max_execution_threads, thread_name_prefix="xla-execution"
        )
        """Threads of executions that no call waits for; they start when they are needed."""
        self.launched = Count()
        """Executions of all sessions that were launched and have not ended."""
        self.programs = SharedExecutables(
            max_executables=limits.max_executables, max_idle=limits.max_idle_executables
        )
