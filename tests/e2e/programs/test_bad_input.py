"""Requests that are wrong are refused in a sentence, and the server goes on serving."""

from pathlib import Path

import grpc
import numpy as np
import pytest
from grpc import StatusCode

from tests.e2e import modules
from tests.e2e.process import Raw, refused, start_server
from xla_contract.descriptors import RPCS
from xla_contract.stubs import hlo_pb2, xla_data_pb2, xla_pb2

INVALID = StatusCode.INVALID_ARGUMENT
EXHAUSTED = StatusCode.RESOURCE_EXHAUSTED
HUGE = 2**40


@pytest.fixture(autouse=True)
def _serves_on(raw):
    """Check that values outlive the bad request, and that programs still run."""
    data = raw.upload(np.float32([1, 2, 3]))
    yield
    handle = raw.compile(modules.axpy())
    arguments = [raw.upload(np.float32(2)), data, data]
    answer = raw.Execute(xla_pb2.ExecuteRequest(handle=handle, arguments=arguments), timeout=30)
    assert raw.download(answer.output).f32s == [3, 6, 9]


def _compile(raw: Raw, program: hlo_pb2.HloModuleProto, code: StatusCode = INVALID) -> str:
    return refused(code, raw.compile, program)


@pytest.mark.parametrize("rpc", RPCS, ids=lambda rpc: rpc.name)
def test_bytes_that_are_no_message_are_named(raw, rpc):
    for data in (b"\xff\xff\xff", b"\x0a\x7f"):
        message = refused(INVALID, raw.send_bytes, rpc.path, data)
        assert rpc.name in message
        assert rpc.request.DESCRIPTOR.full_name in message


def test_a_path_outside_of_the_contract_is_unimplemented(raw):
    with pytest.raises(grpc.RpcError) as caught:
        raw.send_bytes("/xla.XlaService/Nothing", b"")
    assert caught.value.code() is StatusCode.UNIMPLEMENTED


@pytest.mark.parametrize(
    "rpc",
    [
        "DeconstructTuple",
        "Unpack",
        "GetShape",
        "GetComputationGraphStats",
        "TransferToClient",
        "TransferToServer",
        "TransferToInfeed",
        "TransferFromOutfeed",
        "ComputeConstantGraph",
        "CreateChannelHandle",
        "Compile",
        "Execute",
        "ExecuteGraphParallel",
    ],
)
def test_what_is_mandatory_may_not_be_left_out(raw, rpc):
    request = next(one.request for one in RPCS if one.name == rpc)()
    refused(INVALID, getattr(raw, rpc), request)


class TestLiterals:
    @staticmethod
    def _send(raw: Raw, literal: xla_data_pb2.LiteralProto, code: StatusCode = INVALID) -> str:
        messages = {
            refused(code, raw.TransferToServer, xla_pb2.TransferToServerRequest(literal=literal)),
            refused(code, raw.TransferToInfeed, xla_pb2.TransferToInfeedRequest(literal=literal)),
        }
        return " ".join(messages)

    @pytest.mark.parametrize("text", [f"f32[{HUGE}]", f"(f32[2], pred[{HUGE}])"])
    def test_a_claim_of_many_elements_allocates_nothing(self, raw, text):
        literal = xla_data_pb2.LiteralProto(shape=modules.shape(text), f32s=[1, 2])
        assert str(HUGE) in self._send(raw, literal, EXHAUSTED)

    def test_sizes_must_agree_and_both_are_named(self, raw):
        literal = xla_data_pb2.LiteralProto(shape=modules.shape("f32[2,3]"), f32s=[1, 2, 3, 4])
        message = self._send(raw, literal)
        assert "f32[2,3]" in message
        assert "4" in message

    @pytest.mark.parametrize("field", ["shape", "layout"])
    def test_shape_and_layout_are_mandatory(self, raw, field):
        literal = modules.literal(np.float32([1, 2]))
        (literal if field == "shape" else literal.shape).ClearField(field)
        assert field in self._send(raw, literal)

    def test_shapes_must_be_possible(self, raw):
        for change in (
            {"dimensions": [-1]},
            {"dimensions": [HUGE, HUGE], "layout": {"minor_to_major": [1, 0]}},
            {"element_type": 99},
            {"layout": {"minor_to_major": [0, 1]}},
            {"layout": {"minor_to_major": [7]}},
            {"layout": {"minor_to_major": [0], "padded_dimensions": [1]}},
            {"tuple_shapes": [modules.shape("f32[2]")]},
        ):
            literal = modules.literal(np.float32([1, 2]))
            for name in change:
                literal.shape.ClearField(name)
            literal.shape.MergeFrom(xla_data_pb2.ShapeProto(**change))
            self._send(raw, literal)

    def test_a_padding_asked_for_is_bounded(self, raw):
        data = raw.upload(np.float32([1, 2]))
        for padded, code in ((HUGE, EXHAUSTED), (1, INVALID), (-1, INVALID)):
            shape = modules.shape("f32[2]")
            shape.layout.padded_dimensions.append(padded)
            request = xla_pb2.TransferToClientRequest(data=data, shape_with_layout=shape)
            refused(code, raw.TransferToClient, request)


class TestPrograms:
    def test_values_too_large_are_refused_before_they_are_made(self, raw):
        main = modules.Computation("main", 1)
        main.add("broadcast", f"f32[{HUGE}]", [main.constant("f32[]", 1)], dimensions=[])
        program = modules.module(main)
        assert "broadcast" in _compile(raw, program, EXHAUSTED)
        request = xla_pb2.ComputeConstantGraphRequest(computation=program)
        refused(EXHAUSTED, raw.ComputeConstantGraph, request)

    def test_a_constant_that_lies_about_its_size_is_refused(self, raw):
        main = modules.Computation("main", 1)
        literal = xla_data_pb2.LiteralProto(shape=modules.shape(f"f32[{HUGE}]"), f32s=[1])
        main.add("constant", f"f32[{HUGE}]", literal=literal)
        assert "constant" in _compile(raw, modules.module(main), EXHAUSTED)

    def test_a_long_message_arrives_cut(self, raw):
        program = modules.axpy()
        program.computations[0].instructions[-1].opcode = "no-such-\u20ac" * 20_000
        message = _compile(raw, program)
        assert len(message) < 4096


def test_limits_are_said_with_their_use(tmp_path: Path):
    flags = ("--max-device-bytes", "100", "--max-program-bytes", "6000", "--max-handles", "3")
    flags += ("--identity-share", "1", "--connection-share", "1")
    with start_server(tmp_path, *flags) as server:
        raw = Raw(server.address)
        kept = [raw.upload(np.zeros(10, np.float32)) for _ in range(2)]
        message = refused(EXHAUSTED, raw.upload, np.zeros(10, np.float32))
        assert all(word in message for word in ("100", "40", "80"))
        raw.compile(modules.pair())
        message = refused(EXHAUSTED, raw.compile, modules.constant_sum())
        assert "programs of at most 6000 bytes, got one more of" in message
        handle = raw.compile(modules.pair())
        arguments = [raw.upload(np.float32(1))]
        assert "3 data handles" in refused(EXHAUSTED, raw.upload, np.float32(1))
        raw.Unregister(xla_pb2.UnregisterRequest(data=[*kept, *arguments]))
        x = raw.upload(np.zeros((2, 3), np.float32))
        execute = xla_pb2.ExecuteRequest(handle=handle, arguments=[x])
        raw.Execute(execute)
        assert "the result" in refused(EXHAUSTED, raw.Execute, execute)
        raw.close()


def test_a_value_that_fits_in_no_message_is_refused(tmp_path: Path):
    with start_server(tmp_path, "--max-message-bytes", "2048") as server:
        raw = Raw(server.address)
        main = modules.Computation("main", 1)
        main.add("broadcast", "f32[1000]", [main.constant("f32[]", 1)], dimensions=[])
        program = modules.module(main)
        answer = raw.Execute(xla_pb2.ExecuteRequest(handle=raw.compile(program)))
        message = refused(EXHAUSTED, raw.download, answer.output)
        assert "2048" in message
        assert "4000" in message
        raw.close()
