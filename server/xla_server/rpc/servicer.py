"""The 18 rpcs: each decodes its request, calls the service, encodes the response."""

from collections.abc import Mapping, Sequence

from xla_contract.layout import Layout
from xla_contract.literal import Literal
from xla_contract.literal_proto import literal_to_proto
from xla_contract.shape import Shape
from xla_contract.shape_proto import layout_from_proto, shape_from_proto, shape_to_proto
from xla_contract.stubs import xla_data_pb2, xla_pb2
from xla_server.backends.backend import Profile
from xla_server.evaluator.cancellation import Cancellation
from xla_server.rpc.handlers import Method
from xla_server.rpc.pools import Pool
from xla_server.sessions.devices import DeviceHandle
from xla_server.sessions.records import Executed, GraphRequest
from xla_server.sessions.service import XlaService


class Servicer:
    """The rpcs of one service. `methods` says which threads each runs in."""

    def __init__(self, service: XlaService) -> None:
        self._service = service

    @property
    def methods(self) -> Mapping[str, tuple[Pool, Method]]:
        """Rpc name -> threads and method; `rpc_handlers` refuses it unless it is total."""
        return {
            "Unregister": (Pool.SHORT, self._unregister),
            "DeconstructTuple": (Pool.SHORT, self._deconstruct_tuple),
            "Unpack": (Pool.SHORT, self._unpack),
            "GetShape": (Pool.SHORT, self._get_shape),
            "GetComputationGraphStats": (Pool.COMPILE, self._get_computation_graph_stats),
            "LoadData": (Pool.SHORT, self._load_data),
            "TransferToClient": (Pool.SHORT, self._transfer_to_client),
            "TransferToServer": (Pool.SHORT, self._transfer_to_server),
            "TransferToInfeed": (Pool.INFEED, self._transfer_to_infeed),
            "TransferFromOutfeed": (Pool.OUTFEED, self._transfer_from_outfeed),
            "ResetDevice": (Pool.SHORT, self._reset_device),
            "ComputeConstantGraph": (Pool.COMPILE, self._compute_constant_graph),
            "GetDeviceHandles": (Pool.SHORT, self._get_device_handles),
            "CreateChannelHandle": (Pool.SHORT, self._create_channel_handle),
            "Compile": (Pool.COMPILE, self._compile),
            "Execute": (Pool.EXECUTE, self._execute),
            "ExecuteGraphParallel": (Pool.EXECUTE, self._execute_graph_parallel),
            "WaitForExecution": (Pool.SHORT, self._wait_for_execution),
        }

    def _unregister(
        self, request: xla_pb2.UnregisterRequest, _: Cancellation
    ) -> xla_pb2.UnregisterResponse:
        self._service.unregister([data.handle for data in request.data])
        return xla_pb2.UnregisterResponse()

    def _deconstruct_tuple(
        self, request: xla_pb2.DeconstructTupleRequest, _: Cancellation
    ) -> xla_pb2.DeconstructTupleResponse:
        tuple_handle = request.tuple_handle.handle if request.HasField("tuple_handle") else None
        return xla_pb2.DeconstructTupleResponse(
            element_handles=_data_handles(self._service.deconstruct_tuple(tuple_handle))
        )

    def _unpack(self, request: xla_pb2.UnpackRequest, _: Cancellation) -> xla_pb2.UnpackResponse:
        handle = request.data.handle if request.HasField("data") else None
        return xla_pb2.UnpackResponse(
            tied_data=_data_handles(self._service.deconstruct_tuple(handle))
        )

    def _get_shape(
        self, request: xla_pb2.GetShapeRequest, _: Cancellation
    ) -> xla_pb2.GetShapeResponse:
        handle = request.data.handle if request.HasField("data") else None
        return xla_pb2.GetShapeResponse(shape=shape_to_proto(self._service.get_shape(handle)))

    def _get_computation_graph_stats(
        self, request: xla_pb2.ComputationGraphStatsRequest, _: Cancellation
    ) -> xla_pb2.ComputationStatsResponse:
        program = request.computation if request.HasField("computation") else None
        cost = self._service.get_computation_graph_stats(program)
        return xla_pb2.ComputationStatsResponse(
            stats=xla_data_pb2.ComputationStats(
                flop_count=cost.flops, transcendental_count=cost.transcendentals
            )
        )

    def _load_data(
        self, request: xla_pb2.LoadDataRequest, _: Cancellation
    ) -> xla_pb2.LoadDataResponse:
        self._service.load_data(request.columnio_tablet_path)

    def _transfer_to_client(
        self, request: xla_pb2.TransferToClientRequest, _: Cancellation
    ) -> xla_pb2.TransferToClientResponse:
        handle = request.data.handle if request.HasField("data") else None
        shape = _shape(request)
        literal = self._service.transfer_to_client(handle, shape)
        return xla_pb2.TransferToClientResponse(literal=literal_to_proto(literal))

    def _transfer_to_server(
        self, request: xla_pb2.TransferToServerRequest, _: Cancellation
    ) -> xla_pb2.TransferToServerResponse:
        literal = request.literal if request.HasField("literal") else None
        handle = self._service.transfer_to_server(literal, _device(request))
        return xla_pb2.TransferToServerResponse(data=xla_data_pb2.GlobalDataHandle(handle=handle))

    def _transfer_to_infeed(
        self, request: xla_pb2.TransferToInfeedRequest, cancellation: Cancellation
    ) -> xla_pb2.TransferToInfeedResponse:
        literal = request.literal if request.HasField("literal") else None
        self._service.transfer_to_infeed(
            literal, request.replica_id, _device(request), cancellation
        )
        return xla_pb2.TransferToInfeedResponse()

    def _transfer_from_outfeed(
        self, request: xla_pb2.TransferFromOutfeedRequest, cancellation: Cancellation
    ) -> xla_pb2.TransferFromOutfeedResponse:
        def encode(literal: Literal) -> xla_pb2.TransferFromOutfeedResponse:
            return xla_pb2.TransferFromOutfeedResponse(literal=literal_to_proto(literal))

        return self._service.transfer_from_outfeed(
            _shape(request), request.replica_id, _device(request), cancellation, encode
        )

    def _reset_device(
        self, request: xla_pb2.ResetDeviceRequest, _: Cancellation
    ) -> xla_pb2.ResetDeviceResponse:
        self._service.reset_device()
        return xla_pb2.ResetDeviceResponse()

    def _compute_constant_graph(
        self, request: xla_pb2.ComputeConstantGraphRequest, cancellation: Cancellation
    ) -> xla_pb2.ComputeConstantResponse:
        program = request.computation if request.HasField("computation") else None
        layout: Layout | None = None
        if request.HasField("output_layout"):
            layout = layout_from_proto(request.output_layout)
        literal = self._service.compute_constant_graph(program, layout, cancellation)
        return xla_pb2.ComputeConstantResponse(literal=literal_to_proto(literal))

    def _get_device_handles(
        self, request: xla_pb2.GetDeviceHandlesRequest, _: Cancellation
    ) -> xla_pb2.GetDeviceHandlesResponse:
        handles = self._service.get_device_handles(request.device_count)
        return xla_pb2.GetDeviceHandlesResponse(
            device_handles=[
                xla_data_pb2.DeviceHandle(handle=one.handle, device_count=one.device_count)
                for one in handles
            ]
        )

    def _create_channel_handle(
        self, request: xla_pb2.CreateChannelHandleRequest, _: Cancellation
    ) -> xla_pb2.CreateChannelHandleResponse:
        handle, channel_type = self._service.create_channel_handle(request.channel_type)
        return xla_pb2.CreateChannelHandleResponse(
            channel=xla_data_pb2.ChannelHandle(handle=handle, type=channel_type.name)
        )

    def _compile(
        self, request: xla_pb2.CompileRequest, cancellation: Cancellation
    ) -> xla_pb2.CompileResponse:
        handle = self._service.compile(
            request.computation if request.HasField("computation") else None,
            request.execution_options,
            [shape_from_proto(shape) for shape in request.input_shape_with_layout],
            cancellation,
        )
        return xla_pb2.CompileResponse(handle=xla_data_pb2.ExecutionHandle(handle=handle))

    def _execute(
        self, request: xla_pb2.ExecuteRequest, cancellation: Cancellation
    ) -> xla_pb2.ExecuteResponse:
        handle = request.handle.handle if request.HasField("handle") else None
        arguments = [argument.handle for argument in request.arguments]
        return _execute_response(self._service.execute(handle, arguments, cancellation))

    def _execute_graph_parallel(
        self, request: xla_pb2.ExecuteGraphParallelRequest, cancellation: Cancellation
    ) -> xla_pb2.ExecuteParallelResponse:
        executed = self._service.execute_graph_parallel(
            [_graph_request(part) for part in request.requests], cancellation
        )
        return xla_pb2.ExecuteParallelResponse(responses=map(_execute_response, executed))

    def _wait_for_execution(
        self, request: xla_pb2.WaitForExecutionRequest, _: Cancellation
    ) -> xla_pb2.WaitForExecutionResponse:
        self._service.wait_for_execution(request.execution.handle)


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
    return xla_pb2.ExecuteResponse(
        output=xla_data_pb2.GlobalDataHandle(handle=executed.output),
        profile=_profile(executed.profile),
    )


def _profile(profile: Profile) -> xla_data_pb2.ExecutionProfile:
    return xla_data_pb2.ExecutionProfile(
        compilation_cache_hit=profile.compilation_cache_hit,
        compile_time_ms=profile.compile_time_ms,
        compute_cycle_count=profile.compute_cycle_count,
        compute_time_ns=profile.compute_time_ns,
        compute_and_transfer_time_ns=profile.compute_and_transfer_time_ns,
        executable_size_in_bytes=profile.executable_size_in_bytes,
        profile_cache_hit=profile.profile_cache_hit,
        warmup_run_executed=profile.warmup_run_executed,
    )


def _data_handles(handles: Sequence[int]) -> list[xla_data_pb2.GlobalDataHandle]:
    return [xla_data_pb2.GlobalDataHandle(handle=handle) for handle in handles]


def _shape(
    request: xla_pb2.TransferToClientRequest | xla_pb2.TransferFromOutfeedRequest,
) -> Shape | None:
    if not request.HasField("shape_with_layout"):
        return None
    return shape_from_proto(request.shape_with_layout)


def _device(
    request: xla_pb2.TransferToServerRequest
    | xla_pb2.TransferToInfeedRequest
    | xla_pb2.TransferFromOutfeedRequest,
) -> DeviceHandle | None:
    if not request.HasField("device_handle"):
        return None
    return DeviceHandle(request.device_handle.handle, request.device_handle.device_count)
