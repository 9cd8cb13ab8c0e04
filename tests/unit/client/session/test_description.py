"""Descriptions of a session's values, executables and executions."""

import dataclasses

import numpy as np
import pytest

import xla_client as xc
from xla_client import Builder
from xla_client.session.description import Quotas, descriptions_of, quotas_of
from xla_contract.errors import InvalidArgumentError
from xla_contract.stubs import xla_extension_pb2 as extension_pb2
from xla_contract.types.shape import Shape
from xla_contract.wire.shape_proto import shape_to_proto
from xla_server.rpc.errors import status_proto_of


def test_every_quota_is_read() -> None:
    names = [field.name for field in extension_pb2.Quotas.DESCRIPTOR.fields]
    message = extension_pb2.Quotas(**{name: number for number, name in enumerate(names, 1)})
    quotas = quotas_of(message)
    assert dataclasses.asdict(quotas) == {name: number for number, name in enumerate(names, 1)}
    assert quotas_of(extension_pb2.Quotas()) == Quotas(0, 0, 0, 0, 0, 0, 0.0, 0)


def test_descriptions_are_distinguished_and_keep_their_order() -> None:
    shape = shape_to_proto(Shape.parse("f32[2]{0}"))
    description = extension_pb2.HandleDescription
    failed = status_proto_of(InvalidArgumentError("that did not go", op="add", incident="ab12"))
    messages = [
        description(handle=1, value={"shape": shape, "is_pending": True}),
        description(handle=2, executable={"name": "f", "program_shape": {"result": shape}}),
        description(
            handle=3,
            execution={
                "name": "f",
                "is_done": True,
                "steps": [
                    {"outputs": [{"handle": 1}, {"handle": 4}]},
                    {"outputs": [{"handle": 5}]},
                ],
            },
        ),
        description(handle=4, value={"shape": shape, "status": failed.SerializeToString()}),
        description(handle=9),  # A kind of handles that this client does not know.
    ]
    values, executables, executions = descriptions_of(messages)
    assert [(each.handle, each.is_pending) for each in values] == [(1, True), (4, False)]
    assert values[0].shape == Shape.parse("f32[2]{0}")
    assert values[0].error is None
    error = values[1].error
    assert type(error) is InvalidArgumentError
    assert (error.message, error.op, error.incident) == ("that did not go", "add", "ab12")
    assert [(each.handle, each.name) for each in executables] == [(2, "f")]
    assert executables[0].program_shape.result == Shape.parse("f32[2]{0}")
    assert [(each.handle, each.is_done, each.outputs) for each in executions] == [
        (3, True, (1, 4, 5))
    ]


def test_a_session_is_described(client: xc.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    builder = Builder("double")
    x = builder.parameter(0, Shape.parse("f32[2]"))
    double = client.compile(builder.build(x + x))
    kept = [client.to_device(np.float32([number, 0])) for number in range(5)]
    described = client.describe()
    assert [each.handle for each in described.values] == [each.handle for each in kept]
    assert [each.handle for each in described.executables] == [double.handle]
    assert described.executables[0].program_shape == double.program_shape
    assert described.executions == ()
    assert (described.use.handles, described.use.device_bytes) == (5, 40)
    assert described.quotas.queued_items == 4
    # However many pages it takes.
    call = client._session.call

    def in_small_pages(name: str, request: object, timeout: float | None = None) -> object:
        if isinstance(request, extension_pb2.DescribeHandlesRequest):
            request.limit = 2
        return call(name, request, timeout)  # type: ignore[arg-type]

    monkeypatch.setattr(client._session, "call", in_small_pages)
    assert client.describe() == described
