"""The rpcs of shared memory."""

import contextlib
from collections.abc import Mapping
from types import MappingProxyType

from xla_contract.errors import XlaError
from xla_contract.stubs import xla_data_pb2
from xla_contract.stubs import xla_extension_pb2 as extension_pb2
from xla_contract.wire.shape_proto import shape_to_proto
from xla_server.evaluator.cancellation import Cancellation
from xla_server.rpc.messages import shape_in
from xla_server.rpc.methods import Row, Unary
from xla_server.rpc.pools import Pool
from xla_server.sessions import shared_memory
from xla_server.sessions.devices import checked_device
from xla_server.sessions.service import XlaService


def _allocate(
    service: XlaService, request: extension_pb2.AllocateSharedRequest, _: Cancellation
) -> extension_pb2.AllocateSharedResponse:
    offset, size = shared_memory.of(service).allocate(request.bytes)
    return extension_pb2.AllocateSharedResponse(
        allocation=extension_pb2.SharedAllocation(offset=offset, bytes=size)
    )


def _free(
    service: XlaService, request: extension_pb2.FreeSharedRequest, _: Cancellation
) -> extension_pb2.FreeSharedResponse:
    shared_memory.of(service).free(request.offsets)
    return extension_pb2.FreeSharedResponse()


def _upload(
    service: XlaService, request: extension_pb2.UploadSharedRequest, _: Cancellation
) -> extension_pb2.UploadSharedResponse:
    handle = shared_memory.of(service).upload(
        request.offset, shape_in(request, "shape"), checked_device(request)
    )
    return extension_pb2.UploadSharedResponse(data=xla_data_pb2.GlobalDataHandle(handle=handle))


def _upload_pieces(
    service: XlaService,
    request: extension_pb2.UploadSharedPiecesRequest,
    cancellation: Cancellation,
) -> extension_pb2.UploadSharedPiecesResponse:
    with contextlib.suppress(XlaError):
        service.unregister([data.handle for data in request.unregister])
    handle = shared_memory.of(service).upload_pieces(
        request.offset,
        request.piece_bytes,
        shape_in(request, "shape"),
        checked_device(request),
        cancellation,
    )
    return extension_pb2.UploadSharedPiecesResponse(
        data=xla_data_pb2.GlobalDataHandle(handle=handle)
    )


def _download(
    service: XlaService, request: extension_pb2.DownloadSharedRequest, cancellation: Cancellation
) -> extension_pb2.DownloadSharedResponse:
    handle = request.data.handle if request.HasField("data") else None
    shape = shape_in(request, "shape_with_layout")
    # A client that gave up may use the allocation for something else by now.
    cancellation.check()
    written, sizes = shared_memory.of(service).download(handle, request.offset, shape)
    return extension_pb2.DownloadSharedResponse(
        shape=shape_to_proto(written), bytes=written.byte_size, dynamic_sizes=sizes
    )


ROWS: Mapping[str, Row] = MappingProxyType(
    {
        "AllocateShared": Unary(Pool.SHORT, _allocate),
        "FreeShared": Unary(Pool.SHORT, _free),
        "UploadShared": Unary(Pool.SHORT, _upload),
        # It waits for the client as a stream does, so it has a stream's thread.
        "UploadSharedPieces": Unary(Pool.STREAM, _upload_pieces),
        "DownloadShared": Unary(Pool.SHORT, _download),
    }
)
"""Rpc name -> how it is answered."""
