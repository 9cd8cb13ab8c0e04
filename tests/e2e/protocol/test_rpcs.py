"""Answers of each of the 18 rpcs to good requests, and the refusals that the contract states."""

import threading

import grpc
import numpy as np
import pytest
from grpc import StatusCode
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from tests.e2e import modules
from tests.e2e.process import Raw, refused
from xla_contract.stubs import xla_data_pb2, xla_pb2

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def _shape(text: str) -> xla_data_pb2.ShapeProto:
    return modules.shape(text)


def _device(handle: int, count: int) -> xla_data_pb2.DeviceHandle:
    return xla_data_pb2.DeviceHandle(handle=handle, device_count=count)


def _options(*devices: xla_data_pb2.DeviceHandle, **fields) -> xla_pb2.ExecutionOptions:
    return xla_pb2.ExecutionOptions(device_handles=devices, **fields)


def _graph(raw: Raw, device, *arguments) -> xla_pb2.ExecuteGraphRequest:
    return xla_pb2.ExecuteGraphRequest(
        computation=modules.axpy(),
        arguments=[raw.upload(argument) for argument in arguments],
        execution_options=_options(device),
    )


class TestValues:
    def test_a_value_comes_back_in_its_layout_and_in_another(self, raw):
        data = raw.upload(X)
        assert data.handle > 0
        kept = raw.GetShape(xla_pb2.GetShapeRequest(data=data)).shape
        assert kept.layout.minor_to_major == [1, 0]
        assert raw.download(data).f32s == [0, 1, 2, 3, 4, 5]
        request = xla_pb2.TransferToClientRequest(
            data=data, shape_with_layout=_shape("f32[2,3]{0,1}")
        )
        turned = raw.TransferToClient(request).literal
        assert turned.f32s == [0, 3, 1, 4, 2, 5]
        assert turned.shape.layout.minor_to_major == [0, 1]

    def test_a_shape_that_cannot_be_given_is_refused(self, raw):
        data = raw.upload(X)
        request = xla_pb2.TransferToClientRequest(data=data, shape_with_layout=_shape("f32[3,2]"))
        message = refused(StatusCode.INVALID_ARGUMENT, raw.TransferToClient, request)
        assert "f32[3,2]" in message
        assert "f32[2,3]" in message
        request.shape_with_layout.CopyFrom(_shape("f32[2,3]"))
        request.shape_with_layout.ClearField("layout")
        refused(StatusCode.INVALID_ARGUMENT, raw.TransferToClient, request)

    def test_an_unknown_handle_is_not_found_and_a_freed_one_invalid(self, raw):
        data = raw.upload(X)
        raw.Unregister(xla_pb2.UnregisterRequest(data=[data]))
        get = xla_pb2.GetShapeRequest(data=data)
        refused(StatusCode.INVALID_ARGUMENT, raw.GetShape, get)
        get.data.handle ^= 1
        refused(StatusCode.NOT_FOUND, raw.GetShape, get)
        refused(StatusCode.INVALID_ARGUMENT, raw.GetShape, xla_pb2.GetShapeRequest())

    def test_unregister_tries_all_and_answers_the_first_error(self, raw):
        raw.Unregister(xla_pb2.UnregisterRequest())
        first, last = raw.upload(X), raw.upload(X)
        unknown = xla_data_pb2.GlobalDataHandle(handle=5)
        request = xla_pb2.UnregisterRequest(data=[first, unknown, first, last])
        refused(StatusCode.NOT_FOUND, raw.Unregister, request)
        request = xla_pb2.UnregisterRequest(data=[last])
        refused(StatusCode.INVALID_ARGUMENT, raw.Unregister, request)

    @pytest.mark.parametrize("rpc", ["DeconstructTuple", "Unpack"])
    def test_elements_outlive_their_tuple(self, raw, rpc):
        data = raw.upload((X, np.int32(7)))
        if rpc == "Unpack":
            parts = raw.Unpack(xla_pb2.UnpackRequest(data=data)).tied_data
        else:
            request = xla_pb2.DeconstructTupleRequest(tuple_handle=data)
            parts = raw.DeconstructTuple(request).element_handles
        raw.Unregister(xla_pb2.UnregisterRequest(data=[data]))
        assert raw.download(parts[0]).f32s == X.ravel().tolist()
        assert raw.download(parts[1]).s32s == [7]

    def test_only_flat_tuples_are_taken_apart(self, raw):
        def request(value):
            return xla_pb2.DeconstructTupleRequest(tuple_handle=raw.upload(value))

        refused(StatusCode.INVALID_ARGUMENT, raw.DeconstructTuple, request(X))
        refused(StatusCode.UNIMPLEMENTED, raw.DeconstructTuple, request((X, (X,))))

    def test_there_is_nothing_to_load_data_from(self, raw):
        request = xla_pb2.LoadDataRequest(columnio_tablet_path="/rows")
        assert "column store" in refused(StatusCode.UNIMPLEMENTED, raw.LoadData, request)


class TestDevicesAndChannels:
    def test_device_handles_name_the_devices_and_reserve_nothing(self, raw):
        for _ in range(2):
            request = xla_pb2.GetDeviceHandlesRequest(device_count=2)
            handles = raw.GetDeviceHandles(request).device_handles
            assert list(handles) == [_device(0, 2), _device(1, 2)]
        assert not raw.GetDeviceHandles(xla_pb2.GetDeviceHandlesRequest()).device_handles
        for count, code in [
            (3, StatusCode.RESOURCE_EXHAUSTED),
            (2**62, StatusCode.RESOURCE_EXHAUSTED),
            (-1, StatusCode.INVALID_ARGUMENT),
        ]:
            request = xla_pb2.GetDeviceHandlesRequest(device_count=count)
            refused(code, raw.GetDeviceHandles, request)

    def test_a_device_handle_must_be_below_its_count_and_exist(self, raw):
        request = xla_pb2.TransferToServerRequest(literal=modules.literal(X))
        request.device_handle.CopyFrom(_device(1, 2))
        raw.TransferToServer(request)
        request.device_handle.CopyFrom(_device(2, 2))
        refused(StatusCode.INTERNAL, raw.TransferToServer, request)
        request.device_handle.CopyFrom(_device(2, 3))
        refused(StatusCode.INVALID_ARGUMENT, raw.TransferToServer, request)

    def test_channels_differ_and_echo_their_type(self, raw):
        numbers = set()
        for channel_type in (1, 2, 3):
            request = xla_pb2.CreateChannelHandleRequest(channel_type=channel_type)
            channel = raw.CreateChannelHandle(request).channel
            assert channel.type == channel_type
            numbers.add(channel.handle)
        assert len(numbers) == 3
        assert min(numbers) > 0
        for channel_type in (0, 4):
            request = xla_pb2.CreateChannelHandleRequest(channel_type=channel_type)
            refused(StatusCode.INVALID_ARGUMENT, raw.CreateChannelHandle, request)


class TestPrograms:
    def test_a_program_runs_and_its_arguments_stay(self, raw):
        handle = raw.compile(modules.axpy())
        arguments = [raw.upload(np.float32(2)), *(raw.upload(X[row]) for row in (0, 1))]
        request = xla_pb2.ExecuteRequest(handle=handle, arguments=arguments)
        answers = [raw.Execute(request) for _ in range(2)]
        assert answers[0].output != answers[1].output
        assert answers[0].profile.compute_time_ns > 0
        for answer in answers:
            assert raw.download(answer.output).f32s == [3, 6, 9]

    def test_compile_checks_what_it_is_given(self, raw):
        def code(expected, **fields):
            request = xla_pb2.CompileRequest(computation=modules.axpy())
            request.input_shape_with_layout.extend(map(_shape, ("f32[]", "f32[3]", "f32[3]")))
            for name, value in fields.items():
                request.ClearField(name)
                if value is not None:
                    request.MergeFrom(xla_pb2.CompileRequest(**{name: value}))
            return refused(expected, raw.Compile, request)

        invalid = StatusCode.INVALID_ARGUMENT
        assert "computation" in code(invalid, computation=None)
        bare = modules.axpy()
        bare.ClearField("host_program_shape")
        assert "host_program_shape" in code(invalid, computation=bare)
        few = [_shape("f32[]")]
        assert "got 1 for 3" in code(invalid, input_shape_with_layout=few)
        wrong = [_shape("f32[]"), _shape("f32[4]"), _shape("f32[3]")]
        message = code(invalid, input_shape_with_layout=wrong)
        assert "argument 1" in message
        assert "f32[4]" in message
        assert "f32[3]" in message
        two = _options(_device(0, 2), _device(1, 2))
        code(invalid, execution_options=two)
        output = _options(shape_with_output_layout=_shape("f32[4]"))
        assert "f32[4]" in code(invalid, execution_options=output)
        exhausted = StatusCode.RESOURCE_EXHAUSTED
        assert "for 3: 3 replicas" in code(exhausted, execution_options=_options(num_replicas=3))
        code(exhausted, execution_options=_options(num_replicas=2, num_partitions=2))
        assert "num_replicas" in code(invalid, execution_options=_options(num_replicas=-1))

    def test_without_shapes_the_arguments_are_those_that_the_module_says(self, raw):
        handle = raw.compile(modules.axpy(), input_shape_with_layout=[])
        arguments = [raw.upload(np.float32(2)), *(raw.upload(X[row]) for row in (0, 1))]
        request = xla_pb2.ExecuteRequest(handle=handle, arguments=arguments)
        assert raw.download(raw.Execute(request).output).f32s == [3, 6, 9]
        # Values have their own shapes: there it takes one for each parameter still.
        graph = _graph(raw, _device(0, 2), np.float32(1), X[0], X[1])
        graph.ClearField("arguments")
        message = refused(
            StatusCode.INVALID_ARGUMENT,
            raw.ExecuteGraphParallel,
            xla_pb2.ExecuteGraphParallelRequest(requests=[graph]),
        )
        assert "got 0 for 3" in message

    def test_the_wanted_result_layout_is_given(self, raw):
        options = _options(shape_with_output_layout=_shape("(f32[2,3]{0,1}, f32[2,3])"))
        handle = raw.compile(modules.pair(), execution_options=options)
        request = xla_pb2.ExecuteRequest(handle=handle, arguments=[raw.upload(X)])
        first, second = raw.download(raw.Execute(request).output).tuple_literals
        assert first.f32s == [0, 3, 1, 4, 2, 5]
        assert second.f32s == [0, -1, -2, -3, -4, -5]

    def test_equal_programs_have_handles_of_their_own(self, raw):
        first, second = raw.compile(modules.pair()), raw.compile(modules.pair())
        assert first.handle != second.handle
        free = xla_pb2.UnregisterRequest()
        free.data.add(handle=first.handle)
        raw.Unregister(free)
        request = xla_pb2.ExecuteRequest(handle=second, arguments=[raw.upload(X)])
        raw.Execute(request)
        request.handle.CopyFrom(first)
        refused(StatusCode.INVALID_ARGUMENT, raw.Execute, request)

    def test_execute_checks_its_arguments(self, raw):
        handle = raw.compile(modules.axpy())
        scalar, vector = raw.upload(np.float32(2)), raw.upload(X[0])

        def code(expected, *arguments, handle=handle):
            request = xla_pb2.ExecuteRequest(handle=handle, arguments=arguments)
            return refused(expected, raw.Execute, request)

        invalid = StatusCode.INVALID_ARGUMENT
        code(invalid, handle=None)
        code(StatusCode.NOT_FOUND, handle=xla_data_pb2.ExecutionHandle())
        assert "got 2 for 3" in code(invalid, scalar, vector)
        message = code(invalid, scalar, raw.upload(X), vector)
        assert "argument 1" in message
        assert "f32[2,3]" in message
        assert "f32[3]" in message
        unknown = xla_data_pb2.GlobalDataHandle(handle=vector.handle ^ 1)
        assert "argument 2" in code(StatusCode.NOT_FOUND, scalar, vector, unknown)

    def test_execute_takes_an_argument_in_another_layout(self, raw):
        shapes = [_shape("f32[2,3]{0,1}")]
        handle = raw.compile(modules.pair(), input_shape_with_layout=shapes)
        request = xla_pb2.ExecuteRequest(handle=handle, arguments=[raw.upload(X)])
        first, _ = raw.download(raw.Execute(request).output).tuple_literals
        assert first.f32s == X.ravel().tolist()

    def test_graphs_run_together_each_on_its_device(self, raw):
        requests = [
            _graph(raw, _device(number, 2), np.float32(number), X[0], X[1]) for number in (0, 1)
        ]
        request = xla_pb2.ExecuteGraphParallelRequest(requests=requests)
        responses = raw.ExecuteGraphParallel(request).responses
        values = [list(raw.download(response.output).f32s) for response in responses]
        assert values == [[3, 4, 5], [3, 5, 7]]
        responses = raw.ExecuteGraphParallel(request).responses
        assert all(response.profile.compilation_cache_hit for response in responses)

    def test_graphs_meet_on_their_devices(self, raw):
        """Each of two programs ends only after the other has begun."""
        requests = [
            xla_pb2.ExecuteGraphRequest(
                computation=modules.echo_feed(), execution_options=_options(_device(number, 2))
            )
            for number in (0, 1)
        ]
        call = raw.ExecuteGraphParallel.future(
            xla_pb2.ExecuteGraphParallelRequest(requests=requests), timeout=30
        )
        for number in (1, 0):
            value = np.full(2, number, np.float32)
            raw.TransferToInfeed(
                xla_pb2.TransferToInfeedRequest(
                    literal=modules.literal(value), device_handle=_device(number, 2)
                )
            )
            request = xla_pb2.TransferFromOutfeedRequest(
                shape_with_layout=_shape("f32[2]"), device_handle=_device(number, 2)
            )
            assert raw.TransferFromOutfeed(request, timeout=30).literal.f32s == [number] * 2
        assert len(call.result().responses) == 2

    def test_graph_requests_are_checked(self, raw):
        def code(expected, *requests):
            request = xla_pb2.ExecuteGraphParallelRequest(requests=requests)
            return refused(expected, raw.ExecuteGraphParallel, request)

        good = _graph(raw, _device(0, 1), np.float32(1), X[0], X[1])

        def changed(**fields):
            request = xla_pb2.ExecuteGraphRequest()
            request.CopyFrom(good)
            for name, value in fields.items():
                request.ClearField(name)
                if value is not None:
                    request.MergeFrom(xla_pb2.ExecuteGraphRequest(**{name: value}))
            return request

        code(StatusCode.INVALID_ARGUMENT)
        none = changed(execution_options=_options())
        assert "request 1" in code(StatusCode.FAILED_PRECONDITION, good, none)
        code(StatusCode.FAILED_PRECONDITION, good, good, good)
        both = changed(execution_options=_options(_device(0, 2), _device(1, 2)))
        code(StatusCode.INVALID_ARGUMENT, good, both)
        alone = _options(_device(0, 2), _device(1, 2), num_replicas=3)
        code(StatusCode.INVALID_ARGUMENT, changed(execution_options=alone))
        code(StatusCode.INTERNAL, changed(computation=None))
        assert "got 2 for 3" in code(
            StatusCode.INVALID_ARGUMENT, changed(arguments=good.arguments[:2])
        )

    def test_a_constant_is_computed_in_the_wanted_layout(self, raw):
        request = xla_pb2.ComputeConstantGraphRequest(computation=modules.constant_sum())
        plain = raw.ComputeConstantGraph(request).literal
        expected = np.exp(2 * np.arange(1, 7, dtype=np.float32)).reshape(2, 3)
        np.testing.assert_allclose(plain.f32s, expected.ravel(), rtol=1e-6)
        request.output_layout.minor_to_major.extend([0, 1])
        turned = raw.ComputeConstantGraph(request).literal
        np.testing.assert_allclose(turned.f32s, expected.T.ravel(), rtol=1e-6)
        request.output_layout.minor_to_major.append(2)
        refused(StatusCode.INVALID_ARGUMENT, raw.ComputeConstantGraph, request)

    def test_what_is_not_constant_is_refused(self, raw):
        def code(expected, program):
            request = xla_pb2.ComputeConstantGraphRequest(computation=program)
            return refused(expected, raw.ComputeConstantGraph, request)

        code(StatusCode.INVALID_ARGUMENT, None)
        code(StatusCode.INVALID_ARGUMENT, modules.axpy())
        assert "infeed" in code(StatusCode.INVALID_ARGUMENT, modules.echo_feed())
        call = modules.Computation("main", 1)
        call.add("custom-call", "f32[]", custom_call_target="their_function")
        assert "their_function" in code(StatusCode.UNIMPLEMENTED, modules.module(call))

    def test_the_cost_of_a_program_is_counted(self, raw):
        request = xla_pb2.ComputationGraphStatsRequest(computation=modules.constant_sum())
        stats = raw.GetComputationGraphStats(request).stats
        assert (stats.flop_count, stats.transcendental_count) == (6, 6)
        empty = xla_pb2.ComputationGraphStatsRequest()
        refused(StatusCode.INVALID_ARGUMENT, raw.GetComputationGraphStats, empty)

    def test_there_is_no_execution_to_wait_for(self, raw):
        executable = raw.compile(modules.pair())
        for handle in (executable.handle, 1):
            request = xla_pb2.WaitForExecutionRequest(
                execution=xla_data_pb2.ExecutionHandle(handle=handle)
            )
            refused(StatusCode.NOT_FOUND, raw.WaitForExecution, request)


class TestFeeds:
    @pytest.fixture(autouse=True)
    def _empty_queues(self, raw):
        yield
        raw.ResetDevice(xla_pb2.ResetDeviceRequest())

    @staticmethod
    def _feed(raw, value, **fields):
        request = xla_pb2.TransferToInfeedRequest(literal=modules.literal(value), **fields)
        return raw.TransferToInfeed(request, timeout=30)

    def test_a_tuple_goes_in_whole_or_in_parts_and_comes_out(self, raw):
        handle = raw.compile(modules.echo_feed("(f32[2], s32[])"))
        request = xla_pb2.TransferFromOutfeedRequest(shape_with_layout=_shape("(f32[2], s32[])"))
        for whole in (True, False):
            call = raw.Execute.future(xla_pb2.ExecuteRequest(handle=handle), timeout=30)
            parts = np.float32([1, 2]), np.int32(3)
            for value in [parts] if whole else parts:
                self._feed(raw, value)
            vector, scalar = raw.TransferFromOutfeed(request, timeout=30).literal.tuple_literals
            assert (list(vector.f32s), list(scalar.s32s)) == ([1, 2], [3])
            call.result()

    def test_outfeed_may_be_asked_first(self, raw):
        handle = raw.compile(modules.echo_feed())
        request = xla_pb2.TransferFromOutfeedRequest(shape_with_layout=_shape("f32[2]"))
        requested = raw.TransferFromOutfeed.future(request, timeout=30)
        self._feed(raw, np.float32([5, 6]))
        raw.Execute(xla_pb2.ExecuteRequest(handle=handle), timeout=30)
        assert requested.result().literal.f32s == [5, 6]

    def test_a_value_of_another_shape_fails_the_taker_and_stays(self, raw):
        handle = raw.compile(modules.echo_feed())
        self._feed(raw, np.float32([1, 2, 3]))
        message = refused(
            StatusCode.INVALID_ARGUMENT, raw.Execute, xla_pb2.ExecuteRequest(handle=handle)
        )
        assert "f32[2]" in message
        assert "f32[3]" in message
        assert "infeed" in message
        handle = raw.compile(modules.echo_feed("f32[3]"))
        raw.Execute(xla_pb2.ExecuteRequest(handle=handle), timeout=30)
        request = xla_pb2.TransferFromOutfeedRequest(shape_with_layout=_shape("f32[2]"))
        refused(StatusCode.INVALID_ARGUMENT, raw.TransferFromOutfeed, request)
        request.shape_with_layout.CopyFrom(_shape("f32[3]"))
        assert raw.TransferFromOutfeed(request, timeout=30).literal.f32s == [1, 2, 3]

    def test_a_full_queue_makes_the_transfer_wait(self, raw):
        value = np.float32([1, 2])
        for _ in range(4):
            self._feed(raw, value)
        with pytest.raises(grpc.RpcError) as caught:
            raw.TransferToInfeed(
                xla_pb2.TransferToInfeedRequest(literal=modules.literal(value)), timeout=0.5
            )
        assert caught.value.code() is StatusCode.DEADLINE_EXCEEDED
        waiting = threading.Thread(target=self._feed, args=(raw, value))
        waiting.start()
        raw.Execute(xla_pb2.ExecuteRequest(handle=raw.compile(modules.echo_feed())), timeout=30)
        waiting.join(100)
        assert not waiting.is_alive()

    def test_what_cannot_be_fed_is_refused(self, raw):
        def code(expected, value, **fields):
            request = xla_pb2.TransferToInfeedRequest(literal=modules.literal(value), **fields)
            return refused(expected, raw.TransferToInfeed, request)

        code(StatusCode.FAILED_PRECONDITION, X, replica_id=2)
        code(StatusCode.FAILED_PRECONDITION, X, replica_id=1, device_handle=_device(1, 2))
        code(StatusCode.FAILED_PRECONDITION, X, replica_id=-1)
        code(StatusCode.UNIMPLEMENTED, (X, (X,)))
        code(StatusCode.INVALID_ARGUMENT, np.zeros((2, 0), np.float32))
        code(StatusCode.INVALID_ARGUMENT, ())
        empty = xla_pb2.TransferFromOutfeedRequest()
        refused(StatusCode.INVALID_ARGUMENT, raw.TransferFromOutfeed, empty)

    def test_reset_empties_the_queues_and_keeps_the_values(self, raw):
        data = raw.upload(X)
        self._feed(raw, np.float32([1, 2, 3]))
        raw.ResetDevice(xla_pb2.ResetDeviceRequest())
        self._feed(raw, np.float32([4, 5]))
        raw.Execute(xla_pb2.ExecuteRequest(handle=raw.compile(modules.echo_feed())), timeout=30)
        assert raw.download(data).f32s == X.ravel().tolist()


def test_the_server_tells_its_health_and_describes_itself(address):
    with grpc.insecure_channel(address) as channel:
        check = health_pb2_grpc.HealthStub(channel).Check
        for name in ("", "xla.XlaService"):
            status = check(health_pb2.HealthCheckRequest(service=name)).status
            assert status == health_pb2.HealthCheckResponse.SERVING
        ask = reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo
        symbol = reflection_pb2.ServerReflectionRequest(file_containing_symbol="xla.XlaService")
        (answer,) = ask(iter([symbol]))
        assert answer.file_descriptor_response.file_descriptor_proto
