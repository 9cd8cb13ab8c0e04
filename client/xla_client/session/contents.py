"""Requests about what a server and a session of it have: devices, handles, use of quotas."""

from collections.abc import Callable

from xla_client.session.description import SessionDescription, descriptions_of, quotas_of
from xla_client.session.session import Session
from xla_contract.errors import InvalidArgumentError, ResourceExhaustedError
from xla_contract.stubs import xla_extension_pb2 as extension_pb2
from xla_contract.stubs import xla_pb2

MAX_DEVICES = 1 << 16
"""Largest number of devices that is looked for."""


def describe_session(session: Session, timeout: float | None) -> SessionDescription:
    """Return what a session has; raises UnimplementedError if the server cannot tell."""
    described = session.call("DescribeSession", extension_pb2.DescribeSessionRequest(), timeout)
    handles: list[extension_pb2.HandleDescription] = []
    request = extension_pb2.DescribeHandlesRequest()
    while True:
        page = session.call("DescribeHandles", request, timeout)
        handles += page.handles
        if not page.has_more or not page.handles:
            break
        request.after = page.handles[-1].handle
    quotas, use = quotas_of(described.quotas), quotas_of(described.use)
    return SessionDescription(quotas, use, *descriptions_of(handles))


def describe_handle(
    session: Session, handle: int, kind: str, timeout: float | None
) -> extension_pb2.HandleDescription:
    """Return what a handle names; raises InvalidArgumentError unless it is of this kind."""
    request = extension_pb2.DescribeHandlesRequest(handles=[handle])
    found: extension_pb2.HandleDescription
    (found,) = session.call("DescribeHandles", request, timeout).handles
    got = found.WhichOneof("kind")
    if got != kind:
        raise InvalidArgumentError(f"the handle of an {kind} is needed, got that of a {got}")
    return found


def count_devices(has: Callable[[int], bool]) -> int:
    """Return how many devices a server has, where `has` says whether it has as many.

    A server without sessions has no rpc that counts them, only one that refuses to name too many.
    """
    most = 1
    while most < MAX_DEVICES and has(most * 2):
        most *= 2
    too_many = most * 2
    while too_many - most > 1:
        middle = (most + too_many) // 2
        if has(middle):
            most = middle
        else:
            too_many = middle
    return most


def has_devices(session: Session, count: int) -> bool:
    """Return whether a server has as many devices."""
    try:
        session.call("GetDeviceHandles", xla_pb2.GetDeviceHandlesRequest(device_count=count))
    except ResourceExhaustedError:
        return False
    return True
