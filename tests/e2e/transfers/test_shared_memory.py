"""Values through memory shared with a server process on the same host."""

import contextlib
import itertools
import os
import socket
import struct
import threading

import numpy as np
import pytest
from grpc import StatusCode

import xla_client as xc
from tests.e2e.process import serving, start_server
from tests.e2e.transfers.shared_values import call, random_array, use
from tests.fault.plain import until
from tests.in_threads import in_threads
from xla_client.transfers import shared_memory
from xla_contract.errors import FailedPreconditionError, InvalidArgumentError, NotFoundError
from xla_contract.stubs import xla_data_pb2, xla_pb2
from xla_contract.stubs import xla_extension_pb2 as extension_pb2
from xla_contract.types.element_type import ElementType
from xla_contract.types.layout import Layout
from xla_contract.types.literal import Literal
from xla_contract.types.shape import Shape
from xla_contract.wire.shape_proto import shape_to_proto

LARGE = shared_memory.THRESHOLD


server = serving("--session-shared-memory-bytes", str(64 << 20))


@pytest.fixture
def plain(server):
    """A client that leaves the arena of its session to the test."""
    with xc.connect(server.address, shared_memory=False) as connected:
        yield connected


def shared(client):
    return client._session.shared_memory


@contextlib.contextmanager
def arena(client):
    """The arena of a client as a plain program would get it: its connection and descriptor."""
    opened = client._session.transport.session
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.connect(opened.shared_memory_socket)
        connection.send(opened.token.encode() + b"\n")
        data, (descriptor,), _, _ = socket.recv_fds(connection, 8, 1)
        assert struct.unpack("<Q", data)[0] == os.fstat(descriptor).st_size
        try:
            yield descriptor
        finally:
            os.close(descriptor)


@pytest.mark.parametrize("element_type", [each for each in ElementType if each.is_array])
def test_values_of_every_type_pass_unchanged(client, element_type):
    array = random_array(element_type, (64, LARGE // 64))
    buffer = client.to_device(array)
    assert shared(client).is_connected
    back = buffer.to_numpy()
    assert back.dtype == array.dtype
    assert back.tobytes() == array.tobytes()


def test_values_of_every_layout_pass_unchanged(client):
    array = random_array(ElementType.S32, (40, 50, 60))
    orders = list(itertools.permutations(range(3)))
    for order, back in zip(orders, reversed(orders), strict=True):
        shape = Shape.array(ElementType.S32, array.shape, order)
        buffer = client.to_device(Literal.from_numpy(array, shape))
        assert client.adopt(buffer.handle).shape == shape
        literal = buffer.to_literal(Layout(back))
        assert literal.shape.layout == Layout(back)
        assert np.array_equal(literal.value, array)
    assert shared(client).is_connected


def test_small_values_and_tuples_take_the_other_way(client):
    small = client.to_device(np.zeros(8, np.float32))
    assert not small.to_numpy().any()
    pair = client.to_device((np.ones(LARGE, np.uint8), np.float32(2)))
    assert pair.to_numpy()[0].all()
    assert not shared(client).is_connected


def test_a_result_never_changes_and_its_memory_comes_back(client):
    arrays = [np.full(LARGE, number, np.uint8) for number in range(5)]
    buffers = [client.to_device(array) for array in arrays]
    results = [buffer.to_numpy() for buffer in buffers]
    parts = [result[: LARGE // 2] for result in results]
    del results
    for _ in range(3):
        for buffer in buffers:
            buffer.to_numpy()
    for number, part in enumerate(parts):
        assert (part == number).all()
        assert not part.flags.writeable
    assert shared(client).leased_bytes == 5 * LARGE
    del part, parts
    assert shared(client).leased_bytes == 0


def test_results_that_are_kept_leave_memory_for_transfers(client):
    array = random_array(ElementType.S32, (8 << 18,))
    buffer = client.to_device(array)
    kept = [buffer.to_numpy() for _ in range(12)]
    assert shared(client).leased_bytes == 32 << 20
    assert all(np.array_equal(each, array) for each in kept)
    client.close()
    assert all(np.array_equal(each, array) for each in kept)


def test_what_is_larger_than_the_arena_takes_the_other_way(client):
    array = np.arange(18 << 20, dtype=np.int32)
    assert np.array_equal(client.to_device(array).to_numpy(), array)
    assert use(client).server_shared_bytes < array.nbytes


def test_transfers_of_several_threads_share_the_arena(client):
    def transfer(number):
        for turn in range(6):
            array = np.full(LARGE + 4096 * number, number * 10 + turn, np.uint8)
            assert np.array_equal(client.to_device(array).to_numpy(), array), (number, turn)

    in_threads(transfer, range(8))


@pytest.mark.parametrize("reason", ["argument", "environment", "other host", "other user"])
def test_where_anything_is_missing_values_pass_all_the_same(server, monkeypatch, reason):
    if reason == "environment":
        monkeypatch.setenv("XLA_CLIENT_SHARED_MEMORY", "0")
    with xc.connect(
        server.address, shared_memory=False if reason == "argument" else None
    ) as client:
        if reason == "other host":
            shared(client)._path = "/tmp/nothing/is/here"
        if reason == "other user":
            monkeypatch.setattr(os, "geteuid", lambda: 12345)
        array = np.arange(LARGE, dtype=np.float32)
        for _ in range(2):
            assert np.array_equal(client.to_device(array).to_numpy(), array)
        assert shared(client) is None or not shared(client).is_connected


def test_a_server_without_shared_memory_is_used_without(tmp_path):
    flags = ("--platform", "interpreter", "--shared-memory-bytes", "0")
    with start_server(tmp_path, *flags) as running, xc.connect(running.address) as client:
        assert shared(client) is None
        assert extension_pb2.CAPABILITY_SHARED_MEMORY not in client._session.transport.capabilities
        array = np.arange(LARGE, dtype=np.float32)
        assert np.array_equal(client.to_device(array).to_numpy(), array)


def test_a_connection_that_ends_is_no_end_of_transfers(client):
    array = np.arange(LARGE, dtype=np.float32)
    client.to_device(array)
    with arena(client):  # It replaces the client's own.
        buffer = client.to_device(array)
        assert not shared(client).is_connected
    assert np.array_equal(buffer.to_numpy(), array)


def test_two_sessions_never_see_each_other_s_bytes(server, client):
    secret = np.full(LARGE, 0x5A, np.uint8)
    with xc.connect(server.address) as other, arena(other) as kept:
        request = extension_pb2.AllocateSharedRequest(bytes=LARGE)
        offset = call(other, "AllocateShared", request).allocation.offset
        os.pwrite(kept, secret.tobytes(), offset)
        # Offsets mean nothing outside their session.
        with pytest.raises((FailedPreconditionError, NotFoundError)):
            call(client, "FreeShared", extension_pb2.FreeSharedRequest(offsets=[offset]))
        kept = os.dup(kept)
    with arena(client) as descriptor:
        offset = call(client, "AllocateShared", request).allocation.offset
        assert os.pread(descriptor, LARGE, offset) == bytes(LARGE)
        os.pwrite(kept, secret.tobytes(), offset)
        assert os.pread(descriptor, LARGE, offset) == bytes(LARGE)
    os.close(kept)


def test_a_client_that_spoils_its_memory_harms_no_other(plain):
    shape = Shape.array(ElementType.PRED, (LARGE,), (0,))
    with arena(plain) as descriptor:
        for size in (0, 1 << 40):
            with pytest.raises(PermissionError):
                os.ftruncate(descriptor, size)
        allocation = call(
            plain, "AllocateShared", extension_pb2.AllocateSharedRequest(bytes=LARGE)
        ).allocation
        stop = threading.Event()

        def spoil():
            while not stop.is_set():
                for byte in (b"\0", b"\xff", b"\1"):
                    os.pwrite(descriptor, byte * LARGE, allocation.offset)

        thread = threading.Thread(target=spoil)
        thread.start()
        upload = extension_pb2.UploadSharedRequest(
            offset=allocation.offset, shape=shape_to_proto(shape)
        )
        try:
            for _ in range(20):
                with contextlib.suppress(InvalidArgumentError):
                    buffer = plain.adopt(call(plain, "UploadShared", upload).data.handle)
                    assert set(np.unique(buffer.to_numpy().view(np.uint8))) <= {0, 1}
        finally:
            stop.set()
            thread.join()
        os.pwrite(descriptor, b"\2" * LARGE, allocation.offset)
        with pytest.raises(InvalidArgumentError, match="0 or 1, got 2"):
            call(plain, "UploadShared", upload)


def test_wrong_requests_are_reported(plain):
    values = np.arange(LARGE, dtype=np.uint8)
    upload = extension_pb2.UploadSharedRequest
    whole = shape_to_proto(Shape.array(ElementType.U8, (LARGE,), (0,)))
    with pytest.raises(FailedPreconditionError, match="connected"):
        call(plain, "AllocateShared", extension_pb2.AllocateSharedRequest(bytes=1))
    with arena(plain) as descriptor:
        allocation = call(
            plain, "AllocateShared", extension_pb2.AllocateSharedRequest(bytes=LARGE)
        ).allocation
        os.pwrite(descriptor, values.tobytes(), allocation.offset)
        handle = call(plain, "UploadShared", upload(offset=allocation.offset, shape=whole)).data

        def refused(kind, words, name, request):
            with pytest.raises(kind, match=words) as caught:
                call(plain, name, request)
            return caught.value.code

        for offset in (allocation.offset + 4096, 1, -1, 2**62):
            for name, request in (
                ("UploadShared", upload(offset=offset, shape=whole)),
                ("DownloadShared", extension_pb2.DownloadSharedRequest(data=handle, offset=offset)),
                ("FreeShared", extension_pb2.FreeSharedRequest(offsets=[offset])),
            ):
                code = refused(NotFoundError, f"got {offset}", name, request)
                assert code == StatusCode.NOT_FOUND.value[0]
        for text, words in (
            ("u8[262145]{0}", "fit into its allocation"),
            ("u8[2199023255552]{0}", "fit into its allocation"),
            ("u8[4]", "layout"),
            ("u8[<=4]{0}", "static"),
            ("(u8[4]{0})", "array"),
            ("token[]", "array"),
        ):
            request = upload(offset=allocation.offset, shape=shape_to_proto(Shape.parse(text)))
            refused(InvalidArgumentError, words, "UploadShared", request)
        refused(InvalidArgumentError, "none", "UploadShared", upload(offset=allocation.offset))
        for text, words in (("u8[4]{0}", "compatible"), ("s8[262144]{0}", "compatible")):
            request = extension_pb2.DownloadSharedRequest(
                data=handle,
                offset=allocation.offset,
                shape_with_layout=shape_to_proto(Shape.parse(text)),
            )
            refused(InvalidArgumentError, words, "DownloadShared", request)
        small = call(
            plain, "AllocateShared", extension_pb2.AllocateSharedRequest(bytes=1)
        ).allocation
        request = extension_pb2.DownloadSharedRequest(data=handle, offset=small.offset)
        refused(InvalidArgumentError, "fit into its allocation", "DownloadShared", request)
        for size in (0, -5):
            request = extension_pb2.AllocateSharedRequest(bytes=size)
            refused(InvalidArgumentError, f"got {size}", "AllocateShared", request)
        request = extension_pb2.FreeSharedRequest(offsets=[allocation.offset] * 4097)
        refused(InvalidArgumentError, "4096 allocations, got 4097", "FreeShared", request)
        request = extension_pb2.DownloadSharedRequest(
            data=xla_data_pb2.GlobalDataHandle(handle=1), offset=allocation.offset
        )
        refused(NotFoundError, "handle", "DownloadShared", request)
        # All of it was refused without harm to what is there.
        request = extension_pb2.DownloadSharedRequest(data=handle, offset=allocation.offset)
        response = call(plain, "DownloadShared", request)
        assert response.bytes == LARGE
        assert os.pread(descriptor, LARGE, allocation.offset) == values.tobytes()
    call(plain, "Unregister", xla_pb2.UnregisterRequest(data=[handle]))


def test_it_works_over_a_unix_socket_too(tmp_path):
    target = f"unix:{tmp_path}/socket"
    flags = ("--platform", "interpreter", "--listen", target)
    with start_server(tmp_path, *flags) as running, xc.connect(target) as client:
        assert running.ready["addresses"][1] == target
        array = np.arange(LARGE, dtype=np.float32)
        assert np.array_equal(client.to_device(array).to_numpy(), array)
        assert shared(client).is_connected


def test_memory_that_a_client_writes_and_never_allocated_counts(tmp_path):
    # A server of its own: what other tests left is given back now and then, and hides what comes.
    flags = ("--platform", "interpreter", "--session-shared-memory-bytes", str(64 << 20))
    with (
        start_server(tmp_path, *flags) as server,
        xc.connect(server.address) as client,
        xc.connect(server.address) as other,
    ):
        client.to_device(np.ones(LARGE, np.uint8)).delete()
        memory = client._session.shared_memory._memory
        assert memory is not None
        stray = memory[-(16 << 20) :]
        before = use(other).server_shared_bytes
        # It is taken back now and then, and counts as long as it is there.
        counted = 0
        while counted < stray.size:
            stray[:] = 1
            counted = use(other).server_shared_bytes - before
        until(lambda: use(other).server_shared_bytes <= before)
        assert not stray.any()
        assert client.to_device(np.ones(LARGE, np.uint8)).to_numpy().all()
