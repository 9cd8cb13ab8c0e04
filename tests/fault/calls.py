"""Calls that run the programs of `programs`, begun by hand."""

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.fault.plain import Plain
from tests.fault.programs import ONES, double
from tests.unit.sessions.sample_runs import argument_of, keep, run_request, step
from xla_contract.stubs import xla_data_pb2, xla_pb2
from xla_contract.stubs import xla_extension_pb2 as extension_pb2
from xla_contract.types.literal import Literal
from xla_contract.wire.literals.proto import literal_to_proto


def upload(client: Plain) -> xla_data_pb2.GlobalDataHandle:
    literal = literal_to_proto(Literal.from_numpy(ONES))
    return client("TransferToServer", xla_pb2.TransferToServerRequest(literal=literal)).data


def feed(client: Plain, count: int = 1) -> None:
    item = literal_to_proto(Literal.from_numpy(np.float32(1)))
    for _ in range(count):
        client("TransferToInfeed", xla_pb2.TransferToInfeedRequest(literal=item))


def kept_run(
    executable: xla_data_pb2.ExecutionHandle, *arguments: extension_pb2.RunArgument
) -> extension_pb2.RunRequest:
    return run_request(step(executable.handle, *arguments, output=keep()))


def fetched_run(
    executable: xla_data_pb2.ExecutionHandle, *arguments: extension_pb2.RunArgument
) -> extension_pb2.RunRequest:
    return run_request(step(executable.handle, *arguments, fetch=ONES.nbytes))


def launch(
    client: Plain, executable: xla_data_pb2.ExecutionHandle, argument: extension_pb2.RunArgument
) -> extension_pb2.LaunchResponse:
    run = kept_run(executable, argument)
    return client("Launch", extension_pb2.LaunchRequest(run=run))


def is_served(client: Plain) -> None:
    """Calls of all kinds are answered."""
    for _ in range(5):
        client.describe()
    data = upload(client)
    output = begin_execute(client, client.compile(double()), data).result(timeout=100).output
    request = xla_pb2.TransferToClientRequest(data=output)
    assert client("TransferToClient", request, 20).literal.f32s[-1] == 2
    client("Unregister", xla_pb2.UnregisterRequest(data=[data, output]))


Begin = Callable[[Plain, xla_data_pb2.ExecutionHandle, xla_data_pb2.GlobalDataHandle], Any]


def begin_execute(client: Plain, executable: Any, data: Any) -> Any:
    return client.begin("Execute", xla_pb2.ExecuteRequest(handle=executable, arguments=[data]))


def begin_run(client: Plain, executable: Any, data: Any) -> Any:
    return client.begin("Run", fetched_run(executable, argument_of(data.handle)))


def begin_batch(client: Plain, executable: Any, data: Any) -> Any:
    run = fetched_run(executable, argument_of(data.handle))
    return client.begin("RunBatch", extension_pb2.RunBatchRequest(runs=[run] * 3))


def begin_conversation(client: Plain, executable: Any, data: Any) -> Any:
    return client.converse("Run", fetched_run(executable, argument_of(data.handle)))


CALLS: dict[str, Begin] = {
    "Execute": begin_execute,
    "Run": begin_run,
    "RunBatch": begin_batch,
    "Converse": begin_conversation,
}
"""Calls that run a program on a value."""
