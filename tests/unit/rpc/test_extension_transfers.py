"""Downloads of values that an execution is still to give."""

import threading
import types

import numpy as np
import pytest

from xla_contract.errors import CancelledError
from xla_contract.literal import Literal
from xla_contract.stubs import xla_data_pb2
from xla_contract.stubs import xla_extension_pb2 as extension_pb2
from xla_server.backends.interpreter import Interpreter
from xla_server.evaluator.cancellation import Cancellation
from xla_server.rpc.extension_transfers import ROWS
from xla_server.rpc.methods import Streaming
from xla_server.sessions.engine import Engine
from xla_server.sessions.records import Limits
from xla_server.sessions.service import XlaService

VALUE = Literal.from_numpy(np.arange(5, dtype=np.float32))


class Call:
    """A download of a value to come, in a thread of its own."""

    def __init__(self) -> None:
        self.service = XlaService(Engine(Interpreter(), Limits(max_device_bytes=1000)))
        ((self.handle, self.pending),) = self.service.data.expect([VALUE.shape])
        self.cancellation = Cancellation()
        self.sent: list[bytes] = []
        self.error: BaseException | None = None
        self._has_begun = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        assert self._has_begun.wait(10)

    def receive(self) -> extension_pb2.DownloadRequest:
        self._has_begun.set()
        data = xla_data_pb2.GlobalDataHandle(handle=self.handle)
        return extension_pb2.DownloadRequest(data=data)

    def send(self, message: bytes) -> None:
        self.sent.append(message)

    def _run(self) -> None:
        row = ROWS["Download"]
        assert isinstance(row, Streaming)
        session = types.SimpleNamespace(service=self.service)
        try:
            row.method(session, self, self.cancellation)  # type: ignore[arg-type]
        except BaseException as error:
            self.error = error

    def join(self) -> None:
        self._thread.join(10)
        assert not self._thread.is_alive()


def test_a_value_to_come_is_waited_for():
    call = Call()
    backend = call.service.engine.backend
    buffer = backend.to_device(VALUE, backend.devices[0])
    call.service.data.fulfil(call.handle, call.pending, buffer)
    call.join()
    assert call.error is None
    (message,) = call.sent
    assert extension_pb2.DownloadResponse.FromString(message).chunk.data == VALUE.value.tobytes()
    call.service.unregister([call.handle])
    assert call.service.engine.memory.used_bytes == 0


def test_waiting_for_a_value_ends_with_the_call():
    call = Call()
    call.cancellation.cancel()
    call.join()
    assert isinstance(call.error, CancelledError)
    assert call.sent == []


def test_the_error_of_the_execution_is_told():
    call = Call()
    call.pending.fail(CancelledError("the execution was cancelled"))
    call.join()
    with pytest.raises(CancelledError, match="the execution was cancelled"):
        raise call.error or AssertionError
