"""What the sessions of one server share."""

import threading
from concurrent.futures import ThreadPoolExecutor

from xla_server.backends.backend import Backend
from xla_server.runtime.blocks import BlockPool
from xla_server.sessions.arena_pool import ArenaPool
from xla_server.sessions.device_memory import DeviceMemory
from xla_server.sessions.executables import SharedExecutables
from xla_server.sessions.launched import Launched
from xla_server.sessions.quotas import Quotas
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
        self.launched = Launched()
        self.programs = SharedExecutables(
            max_executables=limits.max_executables, max_idle=limits.max_idle_executables
        )

    def close(self, timeout: float) -> bool:
        """Free what sessions share, when all of them are closed.

        Waits for the threads of executions; False when some are still busy after `timeout`
        seconds.
        """
        closing = threading.Thread(
            target=self.execution_threads.shutdown, kwargs={"cancel_futures": True}, daemon=True
        )
        closing.start()
        closing.join(timeout)
        self.arenas.close()
        return not closing.is_alive()
