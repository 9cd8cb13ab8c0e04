"""What a client's objects share: the transport and the handles they hold."""

import atexit
import contextlib
import weakref
from collections.abc import Sequence
from typing import Any

from google.protobuf.message import Message

from xla_client._reclaim import Reclaimer
from xla_client._transport import Pending, Transport
from xla_contract.errors import XlaError
from xla_contract.literal import Literal
from xla_contract.literal_proto import literal_from_proto, literal_to_proto
from xla_contract.stubs import xla_data_pb2, xla_pb2

CLOSE_TIMEOUT = 5.0
"""Seconds that closing may spend on telling the server what is free."""


_OPEN: "weakref.WeakSet[Session]" = weakref.WeakSet()


@atexit.register
def _close_open_sessions() -> None:
    """Free on the servers what a program leaves behind that never closed its client."""
    for session in list(_OPEN):
        session.close()


class Session:
    """Calls to one server, with the handles they gave out."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        self.reclaimer = Reclaimer(self._free)
        _OPEN.add(self)

    def call(self, name: str, request: Message, timeout: float | None = None) -> Any:
        """Make a call, after freeing what has gathered; raises XlaError."""
        self.reclaimer.free_if_due()
        return self.transport.call(name, request, timeout)

    def start(self, name: str, request: Message, timeout: float | None = None) -> Pending[Any]:
        """Make a call without waiting, after freeing what has gathered."""
        self.reclaimer.free_if_due()
        return self.transport.start(name, request, timeout)

    def upload(self, literal: Literal, device: int, timeout: float | None = None) -> int:
        """Keep a literal on a device; gives its data handle."""
        request = xla_pb2.TransferToServerRequest(
            literal=literal_to_proto(literal), device_handle=device_handle(device)
        )
        handle: int = self.call("TransferToServer", request, timeout).data.handle
        return handle

    def download(
        self, handle: int, shape: xla_data_pb2.ShapeProto, timeout: float | None = None
    ) -> Literal:
        """The value of a data handle in the layout of `shape`."""
        request = xla_pb2.TransferToClientRequest(
            data=xla_data_pb2.GlobalDataHandle(handle=handle), shape_with_layout=shape
        )
        return literal_from_proto(self.call("TransferToClient", request, timeout).literal)

    def hold(self, owner: object, handle: int, byte_size: int) -> "weakref.finalize[..., Any]":
        """Free `handle` after `owner` is collected."""
        return self.reclaimer.hold(owner, handle, byte_size)

    def delete(self, handle: int, timeout: float | None = None) -> None:
        """Free a held handle now; raises XlaError."""
        self.reclaimer.forget(handle)
        self.call("Unregister", _unregister([handle]), timeout)

    def close(self) -> None:
        """Free every handle and close the transport; harmless when closed."""
        if not self.transport.closed:
            try:
                self.reclaimer.free_everything()
            finally:
                self.transport.close()
                _OPEN.discard(self)

    def _free(self, handles: Sequence[int]) -> None:
        # A server that has restarted does not know the handles, one that is gone needs no word.
        with contextlib.suppress(XlaError):
            self.transport.call("Unregister", _unregister(handles), CLOSE_TIMEOUT)


def device_handle(ordinal: int) -> xla_data_pb2.DeviceHandle:
    """The handle of the device with this ordinal: the last of a set that ends with it."""
    return xla_data_pb2.DeviceHandle(handle=ordinal, device_count=ordinal + 1)


def _unregister(handles: Sequence[int]) -> xla_pb2.UnregisterRequest:
    return xla_pb2.UnregisterRequest(
        data=[xla_data_pb2.GlobalDataHandle(handle=handle) for handle in handles]
    )
