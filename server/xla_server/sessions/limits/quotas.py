"""Quotas of a session."""

import dataclasses


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
