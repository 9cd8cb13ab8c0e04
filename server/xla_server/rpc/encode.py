"""Encoding of parts of responses that several rpcs share."""

from collections.abc import Sequence

from xla_contract.stubs import xla_data_pb2
from xla_server.backends.platform import Profile


def fill_profile(message: xla_data_pb2.ExecutionProfile, profile: Profile) -> None:
    """Set a profile that is part of another message: copying one there would cost more."""
    (
        message.compilation_cache_hit,
        message.compile_time_ms,
        message.compute_cycle_count,
        message.compute_time_ns,
        message.compute_and_transfer_time_ns,
        message.executable_size_in_bytes,
    ) = profile


def data_handles(handles: Sequence[int]) -> list[xla_data_pb2.GlobalDataHandle]:
    """The messages of data handles."""
    return [xla_data_pb2.GlobalDataHandle(handle=handle) for handle in handles]
