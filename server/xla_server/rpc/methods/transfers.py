"""The rpcs of chunked transfers."""

from collections.abc import Mapping

from xla_contract.errors import InvalidArgumentError
from xla_contract.stubs import xla_data_pb2, xla_extension_pb2
from xla_contract.wire.chunk_codec import ChunkView, encode_chunk, scan_chunk, view_of
from xla_contract.wire.shape_proto import shape_to_proto
from xla_server.execution.cancellation import Cancellation
from xla_server.rpc.calls.method_table import MethodSpec, Streaming, Unary
from xla_server.rpc.calls.streaming import Stream
from xla_server.rpc.decode.common import checked_device, data_handle, shape_in
from xla_server.rpc.threads.pools import Pool
from xla_server.sessions.session import Session
from xla_server.sessions.session_registry import SessionEntry
from xla_server.sessions.transfers.download import Download, downloading
from xla_server.sessions.values.futures import ValuePendingError


def _upload(session: SessionEntry, stream: Stream, cancellation: Cancellation) -> None:
    first = stream.receive()
    if first is None or first.WhichOneof("part") != "start":
        raise InvalidArgumentError(
            f"an upload must begin with a start, got {'nothing' if first is None else 'a chunk'}"
        )
    start = first.start
    incoming = session.service.uploads.begin(
        start.upload_id,
        shape_in(start, "shape"),
        checked_device(start),
        start.offset,
        cancellation.cancel,
    )
    try:
        while (message := stream.receive_bytes()) is not None:
            incoming.write(scan_chunk(message) or _parsed(stream, message))
        handle = incoming.finish()
    finally:
        incoming.leave()
    stream.send(xla_extension_pb2.UploadResponse(data=_data(handle)))


def _parsed(stream: Stream, message: bytes) -> ChunkView:
    """A chunk in an encoding that only protobuf's parser reads."""
    request = stream.parse(message)
    if request.WhichOneof("part") != "chunk":
        raise InvalidArgumentError(
            "chunks must follow the start of an upload, got a message of none"
        )
    return view_of(request.chunk)


def _get_upload(
    service: Session, request: xla_extension_pb2.GetUploadRequest, _: Cancellation
) -> xla_extension_pb2.GetUploadResponse:
    state = service.uploads.state(request.upload_id)
    data = None if state.handle is None else _data(state.handle)
    return xla_extension_pb2.GetUploadResponse(offset=state.offset, size=state.size, data=data)


def _abandon_upload(
    service: Session, request: xla_extension_pb2.AbandonUploadRequest, _: Cancellation
) -> xla_extension_pb2.AbandonUploadResponse:
    service.uploads.abandon(request.upload_id)
    return xla_extension_pb2.AbandonUploadResponse()


def _download(session: SessionEntry, stream: Stream, cancellation: Cancellation) -> None:
    service = session.service
    request = stream.receive()
    handle, limit = data_handle(request, "data"), service.limits.max_message_bytes
    shape = shape_in(request, "shape_with_layout")
    while True:
        try:
            with downloading(service.data, handle, shape, request.offset, limit) as download:
                _send_chunks(download, stream, cancellation)
            return
        except ValuePendingError as error:
            cancellation.wait_for(error.awaited)


def _send_chunks(download: Download, stream: Stream, cancellation: Cancellation) -> None:
    head = xla_extension_pb2.DownloadResponse(
        shape=shape_to_proto(download.shape), dynamic_sizes=download.dynamic_sizes
    ).SerializeToString()
    for chunk in download.chunks(cancellation):
        # Concatenated serialized messages are one message with the fields of all.
        stream.send(head + encode_chunk(*chunk))
        head = b""


def _data(handle: int) -> xla_data_pb2.GlobalDataHandle:
    return xla_data_pb2.GlobalDataHandle(handle=handle)


METHODS: Mapping[str, MethodSpec] = {
    "Upload": Streaming(_upload),
    "GetUpload": Unary(Pool.SHORT, _get_upload),
    "AbandonUpload": Unary(Pool.SHORT, _abandon_upload),
    "Download": Streaming(_download),
}
"""Methods by the names of the rpcs."""
