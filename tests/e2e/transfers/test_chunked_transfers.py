"""Chunked transfers over real processes: plain stubs, then the client."""

import zlib
from collections.abc import Iterator

import grpc
import numpy as np
import pytest
from grpc import StatusCode

import xla_client as xc
from tests.e2e import modules
from tests.e2e.process import refused, serving, start_server
from tests.fault.plain import Plain, until
from xla_contract.stubs import xla_data_pb2
from xla_contract.stubs import xla_extension_pb2 as extension_pb2

LIMIT = 48 << 20
X = np.arange(60, dtype=np.float32).reshape(6, 10)


server = serving(
    *("--max-device-bytes", str(LIMIT)), *("--identity-share", "1", "--connection-share", "1")
)


class Stubs(Plain):
    """A client made from the contract alone: messages, streams, metadata."""

    def upload(self, *parts: extension_pb2.UploadRequest) -> xla_data_pb2.GlobalDataHandle:
        stream = self.stream("Upload")
        stream.send(*parts)
        stream.half_close()
        return stream.result().data

    def used(self) -> int:
        return self.describe().use.device_bytes


@pytest.fixture
def stubs(address: str) -> Iterator[Stubs]:
    client = Stubs(address)
    yield client
    client.end_session()


@pytest.fixture
def client(address: str) -> Iterator[xc.Client]:
    with xc.connect(address, shared_memory=False, timeout=60) as connected:
        yield connected


def _start(
    text: str = "f32[6,10]{1,0}", key: bytes = b"u", **fields
) -> extension_pb2.UploadRequest:
    start = extension_pb2.UploadStart(upload_id=key, shape=modules.shape(text), **fields)
    return extension_pb2.UploadRequest(start=start)


def _chunk(start: int, stop: int = X.nbytes, **fields) -> extension_pb2.UploadRequest:
    data = X.tobytes()[start:stop]
    return extension_pb2.UploadRequest(chunk=extension_pb2.Chunk(offset=start, data=data, **fields))


def _download(stubs: Stubs, handle, **fields) -> list[extension_pb2.DownloadResponse]:
    request = extension_pb2.DownloadRequest(data=handle, **fields)
    return list(stubs.stream("Download", request).call)


def _state(stubs: Stubs, key: bytes = b"u") -> extension_pb2.GetUploadResponse:
    return stubs("GetUpload", extension_pb2.GetUploadRequest(upload_id=key))


class TestPlainStubs:
    def test_chunks_go_up_and_come_down(self, stubs):
        handle = stubs.upload(_start(), _chunk(0, 7), _chunk(7, checksum=zlib.crc32(X.tobytes())))
        first, *others = _download(stubs, handle)
        assert not others
        assert first.shape == modules.shape("f32[6,10]{1,0}")
        assert first.chunk.data == X.tobytes()
        assert first.chunk.checksum == zlib.crc32(X.tobytes())
        assert _state(stubs) == extension_pb2.GetUploadResponse(offset=240, size=240, data=handle)

    def test_a_download_begins_anywhere_in_any_layout(self, stubs):
        handle = stubs.upload(_start(), _chunk(0))
        shape = modules.shape("f32[6,10]{0,1}")
        (only,) = _download(stubs, handle, shape_with_layout=shape, offset=100)
        assert (only.chunk.offset, only.chunk.data) == (100, X.T.tobytes()[100:])
        assert only.chunk.checksum == zlib.crc32(X.T.tobytes())

    def test_an_unusual_form_of_a_chunk_is_read(self, stubs):
        # Two messages behind each other are one message: what both say.
        request = extension_pb2.UploadRequest.FromString(
            _chunk(0).SerializeToString() + b"\x12\x02\x08\x00"
        )
        handle = stubs.upload(_start(), request)
        assert _download(stubs, handle)[0].chunk.data == X.tobytes()

    @pytest.mark.parametrize(
        ("parts", "code", "rule"),
        [
            ([], StatusCode.INVALID_ARGUMENT, "begin with a start, got nothing"),
            ([_chunk(0)], StatusCode.INVALID_ARGUMENT, "begin with a start, got a chunk"),
            ([_start(), _start()], StatusCode.INVALID_ARGUMENT, "chunks must follow the start"),
            ([_start(), _chunk(0, 8), _chunk(9)], StatusCode.INVALID_ARGUMENT, "got offset 9"),
            ([_start(), _chunk(0, 8), _chunk(7)], StatusCode.INVALID_ARGUMENT, "got offset 7"),
            ([_start(), _chunk(0, 8)], StatusCode.INVALID_ARGUMENT, "after 8 of 240 bytes"),
            ([_start("f32[1]{0}"), _chunk(0)], StatusCode.INVALID_ARGUMENT, "4 bytes in all"),
            ([_start("(f32[1]{0})")], StatusCode.INVALID_ARGUMENT, "only an array is uploaded"),
            ([_start(), _chunk(0, checksum=5)], StatusCode.DATA_LOSS, "the checksum sent"),
            ([_start("f32[99999999]{0}")], StatusCode.RESOURCE_EXHAUSTED, "may take 50331648"),
        ],
    )
    def test_what_does_not_fit_is_refused_and_frees_its_memory(self, stubs, parts, code, rule):
        assert rule in refused(code, stubs.upload, *parts)
        if code is StatusCode.INVALID_ARGUMENT and len(parts) > 1:
            stubs("AbandonUpload", extension_pb2.AbandonUploadRequest(upload_id=b"u"))
        assert stubs.used() == 0

    def test_what_is_not_there_is_refused(self, stubs):
        for name, message in (("GetUpload", "GetUpload"), ("AbandonUpload", "AbandonUpload")):
            request = getattr(extension_pb2, f"{message}Request")(upload_id=b"none")
            refused(StatusCode.NOT_FOUND, stubs, name, request)
        handle = stubs.upload(_start(), _chunk(0))
        refused(StatusCode.OUT_OF_RANGE, _download, stubs, handle, offset=241)
        wrong = modules.shape("f32[10,6]{1,0}")
        refused(StatusCode.INVALID_ARGUMENT, _download, stubs, handle, shape_with_layout=wrong)

    def test_a_second_stream_takes_the_upload_over(self, stubs):
        first = stubs.stream("Upload")
        first.send(_start(), _chunk(0, 100))
        until(lambda: _offset(stubs) == 100)
        handle = stubs.upload(_start(offset=100), _chunk(100))
        assert first.call.exception(timeout=100).code() is StatusCode.ABORTED
        assert _download(stubs, handle)[0].chunk.data == X.tobytes()

    def test_what_broke_off_goes_after_the_grace_period(self, forgetful):
        stubs = Stubs(forgetful)
        # A stream that says that the client is there: the session lasts, and the upload does not.
        there, upload = stubs.stream("Converse"), stubs.stream("Upload")
        upload.send(_start(), _chunk(0, 100))
        until(lambda: _offset(stubs) == 100)
        assert (_state(stubs).offset, stubs.used()) == (100, 100)
        upload.half_close()
        refused(StatusCode.INVALID_ARGUMENT, upload.result)
        until(lambda: stubs.used() == 0)
        refused(StatusCode.NOT_FOUND, _state, stubs)
        there.call.cancel()
        stubs.close()


def _offset(stubs: Stubs) -> int:
    try:
        return _state(stubs).offset
    except grpc.RpcError:
        return -1


class TestClient:
    @pytest.fixture(autouse=True)
    def _chunks_for_small_arrays(self, monkeypatch):
        monkeypatch.setattr("xla_client.transfers.chunked.THRESHOLD", 1 << 20)

    @pytest.mark.parametrize("dtype", [np.float32, np.bool_, xc.ElementType.S4.dtype, np.int64])
    def test_large_arrays_travel_in_chunks(self, client, dtype):
        assert client._session.chunks is not None
        random = np.random.default_rng(0)
        array = random.integers(0, 2, (3 << 20,)).astype(dtype)
        seen: list[tuple[int, int]] = []
        buffer = client.to_device(array, progress=lambda *now: seen.append(now))
        assert seen[0] == (1 << 20, array.nbytes)
        assert seen[-1] == (array.nbytes, array.nbytes)
        seen.clear()
        back = buffer.to_numpy(progress=lambda *now: seen.append(now))
        assert seen[0] == (1 << 20, array.nbytes)
        assert np.array_equal(back, array)
        assert back.ctypes.data % 64 == 0

    def test_layouts_and_views_are_as_in_one_message(self, client):
        array = np.random.default_rng(0).standard_normal((1000, 1100)).astype(np.float32)
        fortran = xc.Literal.from_numpy(array, xc.Shape.parse("f32[1000,1100]{0,1}"))
        buffer = client.to_device(fortran)
        assert buffer.to_literal() == xc.Literal.from_numpy(array)
        assert buffer.to_literal(fortran.shape.layout) == fortran
        view = array[::-1, 3:]
        assert np.array_equal(client.to_device(view).to_numpy(), view)

    def test_small_values_and_scalars_tell_progress_too(self, client):
        seen: list[tuple[int, int]] = []
        buffer = client.to_device(np.float32(3), progress=lambda *now: seen.append(now))
        assert buffer.to_numpy(progress=lambda *now: seen.append(now)) == 3
        assert seen == [(4, 4), (4, 4)]

    def test_arguments_of_programs_travel_in_chunks(self, client):
        builder = xc.Builder("double")
        x = builder.parameter(0, xc.Shape.parse("f32[1000000]"), "x")
        program = client.compile(builder.build(x + x))
        array = np.arange(1_000_000, dtype=np.float32)
        assert np.array_equal(program.run(array), 2 * array)

    def test_a_value_without_memory_is_refused(self, client):
        array = np.zeros(LIMIT // 4 + 1, np.float32)
        with pytest.raises(xc.ResourceExhaustedError, match="may take"):
            client.to_device(array)

    def test_large_tuples_travel_by_their_elements(self, client, monkeypatch):
        monkeypatch.setattr("xla_client.transfers.tuple_elements.LEAST_BYTES", 1 << 20)
        value = (np.ones((3, 1 << 20), np.float32), (np.arange(5), np.float64(2)))
        seen: list[tuple[int, int]] = []
        buffer = client.to_device(value, progress=lambda *now: seen.append(now))
        assert seen[-1] == (buffer.shape.byte_size, buffer.shape.byte_size)
        back = buffer.to_numpy()
        assert np.array_equal(back[0], value[0])
        assert np.array_equal(back[1][0], value[1][0])
        flat = client.to_device((value[0], np.arange(5)))
        seen.clear()
        ones, five = flat.to_numpy(progress=lambda *now: seen.append(now))
        assert seen[-1] == (flat.shape.byte_size, flat.shape.byte_size)
        assert np.array_equal(ones, value[0])
        assert five.tolist() == [0, 1, 2, 3, 4]
        used = client._session.call("DescribeSession", extension_pb2.DescribeSessionRequest()).use
        assert used.handles == 2
        assert used.device_bytes == buffer.shape.byte_size + flat.shape.byte_size

    def test_a_server_of_small_messages_gets_small_chunks(self, tmp_path):
        flags = ("--platform", "interpreter", "--max-message-bytes", "65536")
        array = np.arange(100_000, dtype=np.float32)
        with (
            start_server(tmp_path, *flags) as running,
            xc.connect(running.address, shared_memory=False) as client,
        ):
            assert np.array_equal(client.to_device(array).to_numpy(), array)
