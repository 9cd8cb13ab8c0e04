"""Decoding of requests to run programs."""

import functools
from collections.abc import Iterator

from xla_contract.errors import InvalidArgumentError
from xla_contract.stubs import xla_extension_pb2 as extension_pb2
from xla_contract.types.devices.sharding import Sharding
from xla_contract.types.shape import Shape
from xla_contract.wire.literals.value_proto import value_from_proto
from xla_contract.wire.sharding_proto import sharding_from_proto
from xla_server.rpc.decode.common import checked_device, handle_in, shape_in
from xla_server.rpc.decode.programs import read_assignment
from xla_server.sessions.error_context import part_of_request
from xla_server.sessions.runs.requests import (
    Argument,
    HandleArgument,
    InlineArgument,
    OutputRequest,
    PartRequest,
    ResultArgument,
    RunRequest,
    RunStep,
    ShardedOutput,
    ShardedRequest,
    ShardsArgument,
    WholeArgument,
)


def read_run(request: extension_pb2.RunRequest) -> RunRequest:
    """Decode a run.

    Raises InvalidArgumentError for a device handle or a shape that is malformed.
    """
    device = checked_device(request)
    steps = []
    for number, step in enumerate(request.steps):
        with part_of_request(f"step {number}"):
            steps.append(_step(step))
    return RunRequest(steps, device)


def read_sharded(request: extension_pb2.ExecuteShardedRequest) -> ShardedRequest:
    """Decode an execution on several devices.

    Raises InvalidArgumentError for a device assignment or a sharding that is malformed.
    """
    arguments = []
    for number, argument in enumerate(request.arguments):
        with part_of_request(f"argument {number}"):
            arguments.append(_sharded_argument(argument))
    output = request.output
    with part_of_request("the output"):
        sharded_output = ShardedOutput(output.join, _sharding_in(output), output.flatten)
    return ShardedRequest(
        handle_in(request, "executable"),
        read_assignment(request, "the request's"),
        arguments,
        sharded_output,
    )


def _sharded_argument(
    argument: extension_pb2.ShardedArgument,
) -> WholeArgument | ShardsArgument | None:
    sharding = _sharding_in(argument)
    match argument.WhichOneof("source"):
        case "data":
            return WholeArgument(argument.data.handle, sharding)
        case "shards":
            if sharding is not None:
                raise InvalidArgumentError(
                    f"a sharding is for one value to be cut, got {sharding} for shards"
                )
            return ShardsArgument([shard.handle for shard in argument.shards.shards])
        case _:
            return None


def _sharding_in(
    message: extension_pb2.ShardedArgument | extension_pb2.ShardedOutput,
) -> Sharding | None:
    return sharding_from_proto(message.sharding) if message.HasField("sharding") else None


def named_values(request: extension_pb2.RunRequest) -> Iterator[int]:
    """Yield the handles of the values that are arguments of a run."""
    for step in request.steps:
        for argument in step.arguments:
            if argument.WhichOneof("source") == "data":
                yield argument.data.handle


def _step(step: extension_pb2.RunStep) -> RunStep:
    return RunStep(
        handle_in(step, "executable"),
        [_argument(argument) for argument in step.arguments],
        _output(step.output),
    )


def _argument(argument: extension_pb2.RunArgument) -> Argument:
    match argument.WhichOneof("source"):
        case "data":
            return HandleArgument(argument.data.handle, argument.donate)
        case "value":
            value = argument.value
            return InlineArgument(value.ByteSize(), functools.partial(value_from_proto, value))
        case "result":
            result = argument.result
            return ResultArgument(result.step, tuple(result.index), argument.donate)
        case _:
            return None


def _output(output: extension_pb2.RunOutput) -> OutputRequest:
    return OutputRequest(
        output.keep,
        output.fetch_bytes,
        _layout(output),
        output.flatten,
        [
            PartRequest(tuple(part.index), part.keep, part.fetch_bytes, _layout(part))
            for part in output.parts
        ],
    )


def _layout(output: extension_pb2.RunOutput | extension_pb2.RunPart) -> Shape | None:
    return shape_in(output, "shape_with_layout")
