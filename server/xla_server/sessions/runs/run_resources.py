"""Resources that the runs of all sessions share."""

from xla_server.backends.platform import Backend
from xla_server.sessions.limits.compile_share import CompileShare
from xla_server.sessions.limits.memory_budget import MemoryBudget
from xla_server.sessions.limits.server_limits import Limits, Quotas
from xla_server.sessions.programs.executable_table import ExecutableCache
from xla_server.sessions.runs.hosts import Hosts
from xla_server.sessions.runs.memory_queue import MemoryQueue
from xla_server.sessions.runs.time_slicing import TimeSlicer


class RunResources:
    """A platform, its compiled programs, the memory of its devices, and the time slicer.

    `quotas` limit each session; by default a session may have all memory of the devices.
    """

    def __init__(
        self, backend: Backend, limits: Limits, quotas: Quotas | None, hosts: Hosts | None
    ) -> None:
        self.backend = backend
        self.hosts = hosts
        """The processes that own devices; None if this process owns all."""
        self.limits = limits
        self.quotas = quotas or Quotas(device_bytes=limits.max_device_bytes)
        self.memory = MemoryBudget(
            limits.max_device_bytes, limits.shares, limits.spared_device_bytes
        )
        self.queue = MemoryQueue(self.memory, limits.execution_wait_seconds)
        """Executions that wait for memory."""
        self.compiling = CompileShare(limits.max_compile_seconds, limits.shares)
        self.time_slicer = TimeSlicer()
        self.programs = ExecutableCache(limits)
