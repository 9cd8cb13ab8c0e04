"""The limits of one server, for all its sessions together, and the quotas of each."""

import dataclasses

from xla_server.sessions.limits.shares.caller_shares import EVERYTHING, CallerShares


@dataclasses.dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one server."""

    max_device_bytes: int
    max_message_bytes: int = 2**31 - 1
    max_executables: int = 1024
    """Programs whose code is kept; that of others is compiled again when they are called."""
    max_executable_bytes: int = 2**32
    """Bytes of their constants and code."""
    max_program_bytes: int = 2**30
    """Bytes of the modules of all programs that handles name."""
    max_idle_executables: int = 32
    max_idle_executable_bytes: int = 2**28
    """Bytes of the constants and code of idle executables."""
    max_answer_bytes: int = 2**32
    """Bytes of responses that clients have not read yet."""
    max_sessions: int = 4096
    max_executions: int = 1024
    """Concurrent executions of all sessions; a session without any may always begin one."""
    max_launches: int = 16_384
    """Executions that were launched and have not ended, of all sessions."""
    max_compile_seconds: float = 4 * 3600.0
    """Seconds of compiling within an hour, of all sessions: an hour for each thread."""
    shares: CallerShares = EVERYTHING
    """The largest shares of all of these for one identity and one connection."""
    execution_wait_seconds: float = 60.0
    """Seconds that an execution may wait for memory."""
    max_replicated_bytes: int = 2**30
    """Bytes of values that each partition of a program may hold whole, between regions."""
    collective_timeout_seconds: float = 60.0
    """Seconds that a participant of a collective waits for the others."""
    shared_memory_bytes: int = 0
    """Memory shared with clients on the same host; 0 for none."""
    session_shared_memory_bytes: int = 2**30
    upload_grace_seconds: float = 60.0
    """Seconds that an upload without a stream waits for its client."""
    upload_silence_seconds: float = 60.0
    """Seconds that the stream of an upload may be silent."""
    spared_device_bytes: int = 0
    """Bytes of `max_device_bytes` that uploads in progress may not use."""


@dataclasses.dataclass(frozen=True, slots=True)
class Quotas:
    """Limits of one session, under the names of the message Quotas."""

    device_bytes: int
    handles: int = 1_000_000
    queued_items: int = 128
    queued_bytes: int = 256 * 2**20
    concurrent_executions: int = 64
    launched_executions: int = 1024
    compile_seconds: float = 1800.0
    answer_bytes: int = 2**30
