"""Decoding of messages that several rpcs share."""

from typing import Any

from xla_contract.errors import InvalidArgumentError
from xla_contract.types.shape import Shape
from xla_contract.wire.shape_proto import shape_from_proto
from xla_server.sessions.feeds.device_table import DeviceHandle
from xla_server.sessions.values.handles import require_handle


def shape_in(message: Any, field: str) -> Shape | None:
    """The shape in a field of a message; None if absent; raises as `shape_from_proto`."""
    return shape_from_proto(getattr(message, field)) if message.HasField(field) else None


def handle_in(message: Any, field: str) -> int | None:
    """The handle in a field of a message; None if absent."""
    handle: int | None = getattr(message, field).handle if message.HasField(field) else None
    return handle


def data_handle(message: Any, field: str) -> int:
    """The handle of a value in a field of a message; raises as `require_handle`."""
    return require_handle(handle_in(message, field))


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
