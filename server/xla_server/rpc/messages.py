"""Messages that several rpcs answer with."""

from collections.abc import Sequence

from xla_contract.stubs import xla_data_pb2
from xla_server.backends.backend import Profile


def profile_to_proto(profile: Profile) -> xla_data_pb2.ExecutionProfile:
    """The message of a profile."""
    return xla_data_pb2.ExecutionProfile(
        compilation_cache_hit=profile.compilation_cache_hit,
        compile_time_ms=profile.compile_time_ms,
        compute_cycle_count=profile.compute_cycle_count,
        compute_time_ns=profile.compute_time_ns,
        compute_and_transfer_time_ns=profile.compute_and_transfer_time_ns,
        executable_size_in_bytes=profile.executable_size_in_bytes,
        profile_cache_hit=profile.profile_cache_hit,
        warmup_run_executed=profile.warmup_run_executed,
    )


def data_handles(handles: Sequence[int]) -> list[xla_data_pb2.GlobalDataHandle]:
    """The messages of data handles."""
    return [xla_data_pb2.GlobalDataHandle(handle=handle) for handle in handles]
