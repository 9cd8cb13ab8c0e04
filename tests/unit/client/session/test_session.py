"""State that a client's objects share: transport of values, freed handles, the end."""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import numpy as np
import pytest

import xla_client as xc
from tests.fault.plain import until
from tests.unit.client.small_programs import ONES, VECTOR, double, endless
from xla_client.session.session import Session, device_handle
from xla_client.transfers import chunked as transfers
from xla_contract.errors import (
    DeadlineExceededError,
    InvalidArgumentError,
    NotFoundError,
    UnauthenticatedError,
    UnavailableError,
)
from xla_contract.stubs import xla_data_pb2, xla_pb2
from xla_contract.types.literal import Literal

MIB = 1 << 20


class Watched:
    """A session whose transport records its rpcs."""

    def __init__(self, client: xc.Client, monkeypatch: pytest.MonkeyPatch) -> None:
        self.session = client._session
        self.names: list[str] = []
        transport = self.session.transport
        for method in ("call", "start", "stream"):
            monkeypatch.setattr(transport, method, self._telling(getattr(transport, method)))

    def _telling(self, method: Any) -> Any:
        def tell(name: str, *arguments: Any, **named: Any) -> Any:
            self.names.append(name)
            return method(name, *arguments, **named)

        return tell

    def reported(self) -> list[str]:
        names, self.names[:] = list(self.names), []
        return names


@pytest.fixture
def over_the_wire(target: str) -> Iterator[xc.Client]:
    with xc.connect(target, shared_memory=False) as connected:
        yield connected


def there_and_back(session: Session, literal: Literal) -> list[tuple[int, int]]:
    progress: list[tuple[int, int]] = []
    handle = session.upload(literal, 1, None, lambda *now: progress.append(now))
    assert progress[-1] == (literal.shape.byte_size, literal.shape.byte_size)
    progress.append((-1, -1))
    fetched = session.download(handle, literal.shape, None, lambda *now: progress.append(now))
    assert fetched.equal(literal)
    assert progress[-1] == (literal.shape.byte_size, literal.shape.byte_size)
    session.delete(handle)
    return progress


def test_values_go_the_way_that_fits_them(
    client: xc.Client, over_the_wire: xc.Client, plain_client: xc.Client, monkeypatch: Any
) -> None:
    small = Literal.from_numpy(ONES)
    large = Literal.from_numpy(np.arange(1 << 17, dtype=np.float32))
    plain = ["TransferToServer", "TransferToClient", "Unregister"]
    shared = ["AllocateShared", "UploadShared", "DownloadShared", "Unregister"]
    chunked = ["Upload", "Download", "Unregister"]
    monkeypatch.setattr(transfers, "THRESHOLD", large.shape.byte_size)
    for connected, of_small, of_large in (
        (client, plain, shared),
        (over_the_wire, plain, chunked),
        (plain_client, plain, plain),
    ):
        watched = Watched(connected, monkeypatch)
        for literal, expected in ((small, of_small), (large, of_large)):
            there_and_back(watched.session, literal)
            assert watched.reported() == expected


def test_a_tuple_goes_whole(over_the_wire: xc.Client, monkeypatch: Any) -> None:
    watched = Watched(over_the_wire, monkeypatch)
    literal = Literal.from_numpy((ONES, np.int32(7)))
    there_and_back(watched.session, literal)
    assert watched.reported() == ["TransferToServer", "TransferToClient", "Unregister"]


def test_chunks_have_the_time_that_the_client_has(target: str, monkeypatch: Any) -> None:
    monkeypatch.setattr(transfers, "THRESHOLD", 1)
    with xc.connect(target, timeout=1e-9, shared_memory=False) as client:
        for timeout in (None, 1e-9):
            with pytest.raises(DeadlineExceededError, match=r"got none in 1e-09 s"):
                client._session.upload(Literal.from_numpy(ONES), 0, timeout)
        handle = client._session.upload(Literal.from_numpy(ONES), 0, 30)
        with pytest.raises(DeadlineExceededError, match=r"got none in 1e-09 s"):
            client._session.download(handle, VECTOR.with_default_layout())


def test_an_answer_without_its_literal_is_refused() -> None:
    class Empty(grpc.GenericRpcHandler):
        def service(self, details: Any) -> Any:
            if details.method.endswith("OpenSession"):
                return None
            return grpc.unary_unary_rpc_method_handler(lambda request, context: b"")

    with ThreadPoolExecutor(1) as threads:
        server = grpc.server(threads, handlers=[Empty()])
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        with (
            xc.connect(f"127.0.0.1:{port}") as client,
            pytest.raises(
                InvalidArgumentError,
                match=r"^TransferToClient: the response must hold a literal, got none$",
            ),
        ):
            client._session.download(1, VECTOR.with_default_layout())
        server.stop(None).wait()


def test_a_device_is_the_last_of_a_set_that_ends_with_it() -> None:
    assert device_handle(2) == xla_data_pb2.DeviceHandle(handle=2, device_count=3)


# Handles ------------------------------------------------------------------------------------


def test_what_has_gathered_is_freed_before_a_call(client: xc.Client, monkeypatch: Any) -> None:
    session = client._session
    request = xla_pb2.GetDeviceHandlesRequest(device_count=1)
    for make in (session.call, lambda *call: session.start(*call).result()):
        handle = session.upload(Literal.from_numpy(ONES), 0)

        class Owner:
            pass

        owner = Owner()
        # The size is worth a message of its own.
        session.hold(owner, handle, 1 << 40)
        make("GetDeviceHandles", request)
        client.adopt(handle).give_up(is_freed=True)
        del owner
        make("GetDeviceHandles", request)
        with pytest.raises(InvalidArgumentError, match="unregistered"):
            client.adopt(handle)


def test_handles_that_a_server_does_not_know_are_no_concern(client: xc.Client) -> None:
    session = client._session

    class Owner:
        pass

    owner = Owner()
    session.hold(owner, 12345, 1)
    del owner
    client.free_unused()
    # A second deletion is an error.
    with pytest.raises(NotFoundError, match="12345"):
        session.delete(12345)


# Coroutines ---------------------------------------------------------------------------------


def test_a_call_of_a_coroutine_is_given_up_with_it(client: xc.Client) -> None:
    run = client.compile(endless())
    argument = client.to_device(ONES)
    request = xla_pb2.ExecuteRequest(
        handle=xla_data_pb2.ExecutionHandle(handle=run.handle),
        arguments=[xla_data_pb2.GlobalDataHandle(handle=argument.handle)],
    )

    def running() -> int:
        return client.describe().use.concurrent_executions

    async def give_up() -> None:
        task = asyncio.create_task(client._session.acall("Execute", request))
        await asyncio.to_thread(until, running)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(give_up())
    until(lambda: running() == 0)
    # The loop may be closed when the end of the call is reported.

    async def answer() -> Any:
        described = xla_pb2.GetDeviceHandlesRequest(device_count=2)
        return await client._session.acall("GetDeviceHandles", described)

    assert len(asyncio.run(answer()).device_handles) == 2

    async def refused() -> None:
        await client._session.acall("GetShape", xla_pb2.GetShapeRequest())

    with pytest.raises(InvalidArgumentError, match="must hold a data handle"):
        asyncio.run(refused())


# The end ------------------------------------------------------------------------------------


def test_closing_ends_the_session(target: str) -> None:
    client = xc.connect(target)
    token = client.session_token
    buffer = client.to_device(ONES)
    client.close()
    client.close()
    with pytest.raises(UnavailableError, match="the client must be open, got a closed one"):
        buffer.to_numpy()
    with pytest.raises(NotFoundError, match="session"):
        xc.connect(target, session=token)


def test_calls_of_a_session_that_has_ended_all_say_so(target: str) -> None:
    client = xc.connect(target)
    buffer, executable = client.to_device(ONES), client.compile(double())
    xc.connect(target, session=client.session_token).close()
    calls: list[Callable[[], object]] = [
        lambda: executable.run(ONES),
        lambda: executable(buffer),
        lambda: executable.submit(ONES),
        buffer.to_numpy,
    ]
    for call in calls:
        with pytest.raises(UnauthenticatedError, match="token of a live session"):
            call()
    client.close()


def test_leaving_keeps_the_session_and_frees_garbage(target: str) -> None:
    client = xc.connect(target)
    kept, dropped = client.to_device(ONES), client.to_device(2 * ONES)
    handles = kept.handle, dropped.handle
    del dropped
    token = client.detach()
    client._session.detach()
    with pytest.raises(UnavailableError, match="closed"):
        kept.to_numpy()
    with xc.connect(target, session=token) as again:
        assert [each.handle for each in again.describe().values] == [handles[0]]
        np.testing.assert_array_equal(again.adopt(handles[0]).to_numpy(), ONES)


def test_a_session_of_a_connection_is_left_with_nothing_in_it(plain_target: str) -> None:
    """It ends when the server notices that the connection is closed."""
    client = xc.connect(plain_target)
    held = client.to_device(ONES), client.compile(endless())
    handles = [each.handle for each in held]
    freed: list[int] = []
    call = client._session.transport.call

    def telling(name: str, request: Any, timeout: float | None = None) -> Any:
        assert name == "Unregister"
        freed.extend(each.handle for each in request.data)
        return call(name, request, timeout)

    client._session.transport.call = telling  # type: ignore[method-assign]
    client.close()
    assert sorted(freed) == sorted(handles)


def test_a_server_that_is_gone_needs_no_word() -> None:
    """Closing, and what is freed meanwhile, raise nothing."""

    class Silent(grpc.GenericRpcHandler):
        def service(self, details: Any) -> Any:
            return None

    with ThreadPoolExecutor(1) as threads:
        server = grpc.server(threads, handlers=[Silent()])
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        client = xc.connect(f"127.0.0.1:{port}")

        class Owner:
            pass

        owner = Owner()
        client._session.hold(owner, 7, 1)
        server.stop(None).wait()
        del owner
        client.free_unused()
        client.close()
        assert client._session.transport.closed
