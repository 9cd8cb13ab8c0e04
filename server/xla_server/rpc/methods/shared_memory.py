"""The rpcs of shared memory."""

import contextlib
from collections.abc import Mapping

from xla_contract.errors import XlaError
from xla_contract.stubs import xla_data_pb2, xla_extension_pb2
from xla_contract.wire.shape_proto import shape_to_proto
from xla_server.execution.cancellation import Cancellation
from xla_server.rpc.calls.method_table import MethodSpec, Unary
from xla_server.rpc.decode.common import checked_device, handle_in, shape_in
from xla_server.rpc.threads.pools import Pool
from xla_server.sessions.session import Session


def _allocate(
    service: Session, request: xla_extension_pb2.AllocateSharedRequest, _: Cancellation
) -> xla_extension_pb2.AllocateSharedResponse:
    offset, size = service.shared_memory.allocate(request.bytes)
    return xla_extension_pb2.AllocateSharedResponse(
        allocation=xla_extension_pb2.SharedAllocation(offset=offset, bytes=size)
    )


def _free(
    service: Session, request: xla_extension_pb2.FreeSharedRequest, _: Cancellation
) -> xla_extension_pb2.FreeSharedResponse:
    service.shared_memory.free(request.offsets)
    return xla_extension_pb2.FreeSharedResponse()


def _upload(
    service: Session, request: xla_extension_pb2.UploadSharedRequest, _: Cancellation
) -> xla_extension_pb2.UploadSharedResponse:
    handle = service.shared_memory.upload(
        request.offset, shape_in(request, "shape"), checked_device(request)
    )
    return xla_extension_pb2.UploadSharedResponse(data=xla_data_pb2.GlobalDataHandle(handle=handle))


def _upload_pieces(
    service: Session,
    request: xla_extension_pb2.UploadSharedPiecesRequest,
    cancellation: Cancellation,
) -> xla_extension_pb2.UploadSharedPiecesResponse:
    with contextlib.suppress(XlaError):
        service.unregister([data.handle for data in request.unregister])
    handle = service.shared_memory.upload_pieces(
        request.offset,
        request.piece_bytes,
        shape_in(request, "shape"),
        checked_device(request),
        cancellation,
    )
    return xla_extension_pb2.UploadSharedPiecesResponse(
        data=xla_data_pb2.GlobalDataHandle(handle=handle)
    )


def _download(
    service: Session,
    request: xla_extension_pb2.DownloadSharedRequest,
    cancellation: Cancellation,
) -> xla_extension_pb2.DownloadSharedResponse:
    handle = handle_in(request, "data")
    shape = shape_in(request, "shape_with_layout")
    # A client that cancelled may already use the allocation for something else.
    cancellation.check()
    written, sizes = service.shared_memory.download(handle, request.offset, shape)
    return xla_extension_pb2.DownloadSharedResponse(
        shape=shape_to_proto(written), bytes=written.byte_size, dynamic_sizes=sizes
    )


METHODS: Mapping[str, MethodSpec] = {
    "AllocateShared": Unary(Pool.SHORT, _allocate),
    "FreeShared": Unary(Pool.SHORT, _free),
    "UploadShared": Unary(Pool.SHORT, _upload),
    # The call waits for the client as a stream does, so it has a stream's thread.
    "UploadSharedPieces": Unary(Pool.STREAM, _upload_pieces),
    "DownloadShared": Unary(Pool.SHORT, _download),
}
"""Methods by the names of the rpcs."""
