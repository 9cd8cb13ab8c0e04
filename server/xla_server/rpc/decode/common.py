"""Decoding and encoding of messages that several rpcs share."""

from collections.abc import Sequence
from typing import Any

from xla_contract.errors import InvalidArgumentError
from xla_contract.stubs import xla_data_pb2
from xla_contract.types.shape import Shape
from xla_contract.wire.shape_proto import shape_from_proto
from xla_server.backends.platform import Profile
from xla_server.sessions.feeds.device_table import DeviceHandle


def profile_to_proto(profile: Profile) -> xla_data_pb2.ExecutionProfile:
    """The message of a profile."""
    message = xla_data_pb2.ExecutionProfile()
    fill_profile(message, profile)
    return message


def fill_profile(message: xla_data_pb2.ExecutionProfile, profile: Profile) -> None:
    """Set a message that is part of another one: copying it there costs more than setting it."""
    (
        message.compilation_cache_hit,
        message.compile_time_ms,
        message.compute_cycle_count,
        message.compute_time_ns,
        message.compute_and_transfer_time_ns,
        message.executable_size_in_bytes,
        message.profile_cache_hit,
        message.warmup_run_executed,
    ) = profile


def shape_in(message: Any, field: str) -> Shape | None:
    """The shape in a field of a message, None where it says none; raises as `shape_from_proto`."""
    return shape_from_proto(getattr(message, field)) if message.HasField(field) else None


def data_handles(handles: Sequence[int]) -> list[xla_data_pb2.GlobalDataHandle]:
    """The messages of data handles."""
    return [xla_data_pb2.GlobalDataHandle(handle=handle) for handle in handles]


def device_in(message: Any) -> DeviceHandle | None:
    """Return the field `device_handle` of a message; None if it is absent."""
    if not message.HasField("device_handle"):
        return None
    return DeviceHandle(message.device_handle.handle, message.device_handle.device_count)


def checked_device(message: Any) -> DeviceHandle | None:
    """Return the device handle of a message of the extension service.

    Raises InvalidArgumentError for a handle that is not below its count; `Devices.resolve` raises
    InternalError then, as the reference does.
    """
    device = device_in(message)
    if device is not None and device.handle >= device.device_count:
        raise InvalidArgumentError(
            "a device handle must be below its device_count, got handle "
            f"{device.handle} of {device.device_count}"
        )
    return device
