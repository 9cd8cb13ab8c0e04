"""The 18 rpcs: each decodes its request, calls the session's service, encodes the response."""

import functools
from collections.abc import Mapping

from xla_contract.errors import InternalError, UnimplementedError, XlaError
from xla_contract.stubs import xla_data_pb2, xla_pb2
from xla_contract.types.layout import Layout
from xla_contract.wire.literals.decoding import LiteralMessage, decode_literal_message
from xla_contract.wire.shape_proto import layout_from_proto, shape_from_proto, shape_to_proto
from xla_server.execution.cancellation import Cancellation
from xla_server.rpc.calls.deferred import Responder
from xla_server.rpc.calls.method_table import Deferred, MethodSpec, Unary
from xla_server.rpc.calls.response_memory import Response, accounted_literal, discard
from xla_server.rpc.decode.common import data_handle, device_in, handle_in, shape_in
from xla_server.rpc.decode.programs import read_compile_request, read_devices, read_program
from xla_server.rpc.encode import data_handles, fill_profile
from xla_server.rpc.methods.feeds import respond_with
from xla_server.rpc.methods.runs import wait_for_execution
from xla_server.rpc.threads.pools import Pool
from xla_server.sessions.feeds.item_conversion import literal_of
from xla_server.sessions.feeds.queue_entries import BorrowedItems
from xla_server.sessions.runs.requests import ExecutionResult, GraphProgram
from xla_server.sessions.session import Session


def _unregister(
    service: Session, request: xla_pb2.UnregisterRequest, _: Cancellation
) -> xla_pb2.UnregisterResponse:
    service.unregister([data.handle for data in request.data])
    return xla_pb2.UnregisterResponse()


def _deconstruct_tuple(
    service: Session, request: xla_pb2.DeconstructTupleRequest, _: Cancellation
) -> xla_pb2.DeconstructTupleResponse:
    elements = service.data.deconstruct(data_handle(request, "tuple_handle"))
    return xla_pb2.DeconstructTupleResponse(element_handles=data_handles(elements))


def _unpack(
    service: Session, request: xla_pb2.UnpackRequest, _: Cancellation
) -> xla_pb2.UnpackResponse:
    elements = service.data.deconstruct(data_handle(request, "data"))
    return xla_pb2.UnpackResponse(tied_data=data_handles(elements))


def _get_shape(
    service: Session, request: xla_pb2.GetShapeRequest, _: Cancellation
) -> xla_pb2.GetShapeResponse:
    shape = service.data.shape(data_handle(request, "data"))
    return xla_pb2.GetShapeResponse(shape=shape_to_proto(shape))


def _get_computation_graph_stats(
    service: Session, request: xla_pb2.ComputationGraphStatsRequest, cancellation: Cancellation
) -> xla_pb2.ComputationStatsResponse:
    program = request.computation if request.HasField("computation") else None
    with service.runner.counted_as_compiling(cancellation):
        cost = service.get_computation_graph_stats(read_program(program))
    return xla_pb2.ComputationStatsResponse(
        stats=xla_data_pb2.ComputationStats(
            flop_count=cost.flops, transcendental_count=cost.transcendentals
        )
    )


def _load_data(
    service: Session, request: xla_pb2.LoadDataRequest, _: Cancellation
) -> xla_pb2.LoadDataResponse:
    raise UnimplementedError(
        "this server has no column store to load rows from, got a request for "
        f"{request.columnio_tablet_path!r:.200}",
        hint="Read the rows on the client and send them with TransferToServer.",
    )


def _transfer_to_client(
    service: Session, request: xla_pb2.TransferToClientRequest, _: Cancellation
) -> Response:
    shape = shape_in(request, "shape_with_layout")
    literal = service.transfer_to_client(data_handle(request, "data"), shape)
    return accounted_literal(service.response_memory, xla_pb2.TransferToClientResponse(), literal)


def _transfer_to_server(
    service: Session,
    received: LiteralMessage[xla_pb2.TransferToServerRequest],
    _: Cancellation,
) -> xla_pb2.TransferToServerResponse:
    handle = service.transfer_to_server(received.literal, device_in(received.message))
    return xla_pb2.TransferToServerResponse(data=xla_data_pb2.GlobalDataHandle(handle=handle))


def _transfer_to_infeed(
    service: Session,
    received: LiteralMessage[xla_pb2.TransferToInfeedRequest],
    cancellation: Cancellation,
    answer: Responder,
) -> None:
    request = received.message
    service.transfer_to_infeed(
        received.literal,
        request.replica_id,
        device_in(request),
        cancellation,
        respond_with(answer, xla_pb2.TransferToInfeedResponse()),
    )


def _transfer_from_outfeed(
    service: Session,
    request: xla_pb2.TransferFromOutfeedRequest,
    cancellation: Cancellation,
    answer: Responder,
) -> None:
    shape = shape_in(request, "shape_with_layout")

    def done(lent: BorrowedItems | XlaError) -> None:
        if isinstance(lent, XlaError):
            answer.failed(lent)
        else:
            answer.later(functools.partial(taken, lent))

    def taken(lent: BorrowedItems) -> Response:
        response: Response = b""
        try:
            message = xla_pb2.TransferFromOutfeedResponse()
            literal = literal_of(lent.items, shape)
            response = accounted_literal(service.response_memory, message, literal)
            cancellation.check()
        except BaseException:
            discard(response)
            lent.release()
            raise
        lent.keep()
        return response

    service.transfer_from_outfeed(shape, request.replica_id, device_in(request), cancellation, done)


def _reset_device(
    service: Session, request: xla_pb2.ResetDeviceRequest, _: Cancellation
) -> xla_pb2.ResetDeviceResponse:
    service.reset_device()
    return xla_pb2.ResetDeviceResponse()


def _compute_constant_graph(
    service: Session, request: xla_pb2.ComputeConstantGraphRequest, cancellation: Cancellation
) -> Response:
    program = request.computation if request.HasField("computation") else None
    layout: Layout | None = None
    if request.HasField("output_layout"):
        layout = layout_from_proto(request.output_layout)
    literal = service.compute_constant_graph(read_program(program), layout, cancellation)
    return accounted_literal(service.response_memory, xla_pb2.ComputeConstantResponse(), literal)


def _get_device_handles(
    service: Session, request: xla_pb2.GetDeviceHandlesRequest, _: Cancellation
) -> xla_pb2.GetDeviceHandlesResponse:
    handles = service.devices.handles(request.device_count)
    return xla_pb2.GetDeviceHandlesResponse(
        device_handles=[
            xla_data_pb2.DeviceHandle(handle=one.handle, device_count=one.device_count)
            for one in handles
        ]
    )


def _create_channel_handle(
    service: Session, request: xla_pb2.CreateChannelHandleRequest, _: Cancellation
) -> xla_pb2.CreateChannelHandleResponse:
    handle, channel_type = service.channels.create(request.channel_type)
    return xla_pb2.CreateChannelHandleResponse(
        channel=xla_data_pb2.ChannelHandle(handle=handle, type=channel_type.name)
    )


def _compile(
    service: Session, request: xla_pb2.CompileRequest, cancellation: Cancellation
) -> xla_pb2.CompileResponse:
    handle = service.runner.compile(
        read_compile_request(
            request.computation if request.HasField("computation") else None,
            request.execution_options,
        ),
        [shape_from_proto(shape) for shape in request.input_shape_with_layout],
        cancellation,
    )
    return xla_pb2.CompileResponse(handle=xla_data_pb2.ExecutionHandle(handle=handle))


def _execute(
    service: Session, request: xla_pb2.ExecuteRequest, cancellation: Cancellation
) -> xla_pb2.ExecuteResponse:
    arguments = [argument.handle for argument in request.arguments]
    executed = service.grids.execute(handle_in(request, "handle"), arguments, cancellation)
    return _execute_response(executed)


def _execute_graph_parallel(
    service: Session, request: xla_pb2.ExecuteGraphParallelRequest, cancellation: Cancellation
) -> xla_pb2.ExecuteParallelResponse:
    executed = service.grids.execute_graphs(
        [_graph_request(part) for part in request.requests], cancellation
    )
    return xla_pb2.ExecuteParallelResponse(responses=map(_execute_response, executed))


METHODS: Mapping[str, MethodSpec] = {
    "Unregister": Unary(Pool.SHORT, _unregister),
    "DeconstructTuple": Unary(Pool.SHORT, _deconstruct_tuple),
    "Unpack": Unary(Pool.SHORT, _unpack),
    "GetShape": Unary(Pool.SHORT, _get_shape),
    "GetComputationGraphStats": Unary(
        Pool.COMPILE, _get_computation_graph_stats, is_stateless=True
    ),
    "LoadData": Unary(Pool.SHORT, _load_data, is_stateless=True),
    "TransferToClient": Unary(Pool.SHORT, _transfer_to_client),
    "TransferToServer": Unary(
        Pool.SHORT,
        _transfer_to_server,
        decode=functools.partial(decode_literal_message, xla_pb2.TransferToServerRequest),
    ),
    "TransferToInfeed": Deferred(
        Pool.SHORT,
        _transfer_to_infeed,
        decode=functools.partial(decode_literal_message, xla_pb2.TransferToInfeedRequest),
    ),
    "TransferFromOutfeed": Deferred(Pool.SHORT, _transfer_from_outfeed),
    "ResetDevice": Unary(Pool.SHORT, _reset_device),
    "ComputeConstantGraph": Unary(Pool.EXECUTE, _compute_constant_graph, is_stateless=True),
    "GetDeviceHandles": Unary(Pool.SHORT, _get_device_handles, is_stateless=True),
    "CreateChannelHandle": Unary(Pool.SHORT, _create_channel_handle),
    "Compile": Unary(Pool.COMPILE, _compile),
    "Execute": Unary(Pool.EXECUTE, _execute),
    "ExecuteGraphParallel": Unary(Pool.EXECUTE, _execute_graph_parallel),
    "WaitForExecution": Unary(Pool.SHORT, wait_for_execution),
}
"""Methods by the names of the rpcs; `rpc_handlers` refuses the table unless it is total."""


def _graph_request(request: xla_pb2.ExecuteGraphRequest) -> GraphProgram:
    program = request.computation if request.HasField("computation") else None
    options = request.execution_options
    return GraphProgram(
        functools.partial(read_compile_request, program, options, InternalError),
        [argument.handle for argument in request.arguments],
        read_devices(options),
    )


def _execute_response(executed: ExecutionResult) -> xla_pb2.ExecuteResponse:
    response = xla_pb2.ExecuteResponse()
    response.output.handle = executed.output
    fill_profile(response.profile, executed.profile)
    return response
