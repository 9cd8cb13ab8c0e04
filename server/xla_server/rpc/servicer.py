"""The 18 rpcs: each decodes its request, calls the session's service, encodes the response."""

import functools
from collections.abc import Mapping
from types import MappingProxyType

from xla_contract.errors import XlaError
from xla_contract.stubs import xla_data_pb2, xla_pb2
from xla_contract.types.layout import Layout
from xla_contract.wire.literals.decoding import LiteralMessage, decode_literal_message
from xla_contract.wire.shape_proto import layout_from_proto, shape_from_proto, shape_to_proto
from xla_server.evaluator.cancellation import Cancellation
from xla_server.rpc.deferred import Answer
from xla_server.rpc.extension_feeds import answering
from xla_server.rpc.extension_run import wait_for_execution
from xla_server.rpc.held_answers import Response, discard, held_literal
from xla_server.rpc.messages import data_handles, fill_profile, shape_in
from xla_server.rpc.methods import Deferred, Row, Unary
from xla_server.rpc.pools import Pool
from xla_server.sessions.devices import DeviceHandle
from xla_server.sessions.feeds import LentLiteral
from xla_server.sessions.records import Executed, GraphRequest
from xla_server.sessions.service import XlaService


def _unregister(
    service: XlaService, request: xla_pb2.UnregisterRequest, _: Cancellation
) -> xla_pb2.UnregisterResponse:
    service.unregister([data.handle for data in request.data])
    return xla_pb2.UnregisterResponse()


def _deconstruct_tuple(
    service: XlaService, request: xla_pb2.DeconstructTupleRequest, _: Cancellation
) -> xla_pb2.DeconstructTupleResponse:
    tuple_handle = request.tuple_handle.handle if request.HasField("tuple_handle") else None
    return xla_pb2.DeconstructTupleResponse(
        element_handles=data_handles(service.deconstruct_tuple(tuple_handle))
    )


def _unpack(
    service: XlaService, request: xla_pb2.UnpackRequest, _: Cancellation
) -> xla_pb2.UnpackResponse:
    handle = request.data.handle if request.HasField("data") else None
    return xla_pb2.UnpackResponse(tied_data=data_handles(service.deconstruct_tuple(handle)))


def _get_shape(
    service: XlaService, request: xla_pb2.GetShapeRequest, _: Cancellation
) -> xla_pb2.GetShapeResponse:
    handle = request.data.handle if request.HasField("data") else None
    return xla_pb2.GetShapeResponse(shape=shape_to_proto(service.get_shape(handle)))


def _get_computation_graph_stats(
    service: XlaService, request: xla_pb2.ComputationGraphStatsRequest, _: Cancellation
) -> xla_pb2.ComputationStatsResponse:
    program = request.computation if request.HasField("computation") else None
    cost = service.get_computation_graph_stats(program)
    return xla_pb2.ComputationStatsResponse(
        stats=xla_data_pb2.ComputationStats(
            flop_count=cost.flops, transcendental_count=cost.transcendentals
        )
    )


def _load_data(
    service: XlaService, request: xla_pb2.LoadDataRequest, _: Cancellation
) -> xla_pb2.LoadDataResponse:
    service.load_data(request.columnio_tablet_path)


def _transfer_to_client(
    service: XlaService, request: xla_pb2.TransferToClientRequest, _: Cancellation
) -> Response:
    handle = request.data.handle if request.HasField("data") else None
    shape = shape_in(request, "shape_with_layout")
    literal = service.transfer_to_client(handle, shape)
    return held_literal(service.answers, xla_pb2.TransferToClientResponse(), literal)


def _transfer_to_server(
    service: XlaService,
    received: LiteralMessage[xla_pb2.TransferToServerRequest],
    _: Cancellation,
) -> xla_pb2.TransferToServerResponse:
    handle = service.transfer_to_server(received.literal, DeviceHandle.of(received.message))
    return xla_pb2.TransferToServerResponse(data=xla_data_pb2.GlobalDataHandle(handle=handle))


def _transfer_to_infeed(
    service: XlaService,
    received: LiteralMessage[xla_pb2.TransferToInfeedRequest],
    cancellation: Cancellation,
    answer: Answer,
) -> None:
    request = received.message
    service.transfer_to_infeed(
        received.literal,
        request.replica_id,
        DeviceHandle.of(request),
        cancellation,
        answering(answer, xla_pb2.TransferToInfeedResponse()),
    )


def _transfer_from_outfeed(
    service: XlaService,
    request: xla_pb2.TransferFromOutfeedRequest,
    cancellation: Cancellation,
    answer: Answer,
) -> None:
    def done(lent: LentLiteral | XlaError) -> None:
        if isinstance(lent, XlaError):
            answer.failed(lent)
        else:
            answer.later(functools.partial(taken, lent))

    def taken(lent: LentLiteral) -> Response:
        response: Response = b""
        try:
            message = xla_pb2.TransferFromOutfeedResponse()
            response = held_literal(service.answers, message, lent.literal())
            cancellation.check()
        except BaseException:
            discard(response)
            lent.give_back()
            raise
        lent.keep()
        return response

    service.transfer_from_outfeed(
        shape_in(request, "shape_with_layout"),
        request.replica_id,
        DeviceHandle.of(request),
        cancellation,
        done,
    )


def _reset_device(
    service: XlaService, request: xla_pb2.ResetDeviceRequest, _: Cancellation
) -> xla_pb2.ResetDeviceResponse:
    service.reset_device()
    return xla_pb2.ResetDeviceResponse()


def _compute_constant_graph(
    service: XlaService, request: xla_pb2.ComputeConstantGraphRequest, cancellation: Cancellation
) -> Response:
    program = request.computation if request.HasField("computation") else None
    layout: Layout | None = None
    if request.HasField("output_layout"):
        layout = layout_from_proto(request.output_layout)
    literal = service.compute_constant_graph(program, layout, cancellation)
    return held_literal(service.answers, xla_pb2.ComputeConstantResponse(), literal)


def _get_device_handles(
    service: XlaService, request: xla_pb2.GetDeviceHandlesRequest, _: Cancellation
) -> xla_pb2.GetDeviceHandlesResponse:
    handles = service.devices.handles(request.device_count)
    return xla_pb2.GetDeviceHandlesResponse(
        device_handles=[
            xla_data_pb2.DeviceHandle(handle=one.handle, device_count=one.device_count)
            for one in handles
        ]
    )


def _create_channel_handle(
    service: XlaService, request: xla_pb2.CreateChannelHandleRequest, _: Cancellation
) -> xla_pb2.CreateChannelHandleResponse:
    handle, channel_type = service.channels.create(request.channel_type)
    return xla_pb2.CreateChannelHandleResponse(
        channel=xla_data_pb2.ChannelHandle(handle=handle, type=channel_type.name)
    )


def _compile(
    service: XlaService, request: xla_pb2.CompileRequest, cancellation: Cancellation
) -> xla_pb2.CompileResponse:
    handle = service.runner.compile(
        request.computation if request.HasField("computation") else None,
        request.execution_options,
        [shape_from_proto(shape) for shape in request.input_shape_with_layout],
        cancellation,
    )
    return xla_pb2.CompileResponse(handle=xla_data_pb2.ExecutionHandle(handle=handle))


def _execute(
    service: XlaService, request: xla_pb2.ExecuteRequest, cancellation: Cancellation
) -> xla_pb2.ExecuteResponse:
    handle = request.handle.handle if request.HasField("handle") else None
    arguments = [argument.handle for argument in request.arguments]
    return _execute_response(service.runner.execute(handle, arguments, cancellation))


def _execute_graph_parallel(
    service: XlaService, request: xla_pb2.ExecuteGraphParallelRequest, cancellation: Cancellation
) -> xla_pb2.ExecuteParallelResponse:
    executed = service.runner.execute_together(
        [_graph_request(part) for part in request.requests], cancellation
    )
    return xla_pb2.ExecuteParallelResponse(responses=map(_execute_response, executed))


ROWS: Mapping[str, Row] = MappingProxyType(
    {
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
)
"""By the names of the rpcs; `rpc_handlers` refuses it unless it is total."""


def _graph_request(request: xla_pb2.ExecuteGraphRequest) -> GraphRequest:
    return GraphRequest(
        program=request.computation if request.HasField("computation") else None,
        arguments=[argument.handle for argument in request.arguments],
        options=request.execution_options,
        devices=[
            DeviceHandle(device.handle, device.device_count)
            for device in request.execution_options.device_handles
        ],
    )


def _execute_response(executed: Executed) -> xla_pb2.ExecuteResponse:
    response = xla_pb2.ExecuteResponse()
    response.output.handle = executed.output
    fill_profile(response.profile, executed.profile)
    return response
