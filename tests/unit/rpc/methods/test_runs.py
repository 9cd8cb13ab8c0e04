"""Answers of Run: which handle stands for which part."""

import numpy as np
import pytest

from tests.unit.sessions.sample_runs import DOUBLE, PAIR, compiled, run_request, step, value
from xla_contract.stubs import xla_extension_pb2 as extension_pb2
from xla_contract.wire.literals.value_proto import value_from_proto
from xla_server.execution.cancellation import Cancellation
from xla_server.rpc.calls.method_table import Unary
from xla_server.rpc.methods.runs import METHODS
from xla_server.sessions.session import Session

ONES = np.ones(4, np.float32)


def test_the_memory_of_a_run_is_free_before_its_slot(
    service: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = METHODS["Run"]
    assert isinstance(row, Unary)
    request = run_request(step(compiled(service, DOUBLE), value(ONES), fetch=16))
    release, used = service.running.release, list[int]()

    def noted() -> None:
        used.append(service.engine.memory.used_bytes)
        release()

    monkeypatch.setattr(service.running, "release", noted)
    row.method(service, request, Cancellation())
    assert used == [0]
    assert service.running.used == 0


def test_handles_of_wholes_and_parts_stand_where_they_belong(service: Session) -> None:
    pair = compiled(service, PAIR)
    output = extension_pb2.RunOutput(
        keep=True,
        flatten=True,
        parts=[
            extension_pb2.RunPart(index=[1], keep=True),
            extension_pb2.RunPart(index=[0], fetch_bytes=16),
            extension_pb2.RunPart(index=[1], keep=True, fetch_bytes=16),
            extension_pb2.RunPart(index=[0], fetch_bytes=15),
            extension_pb2.RunPart(keep=True),
        ],
    )
    row = METHODS["Run"]
    assert isinstance(row, Unary)
    request = run_request(*[step(pair, value(number * ONES), output=output) for number in (1, 10)])
    response = row.method(service, request, Cancellation())
    assert isinstance(response, extension_pb2.RunResponse)

    def first(handle: int) -> object:
        got = service.data.get(handle).to_literal().to_numpy()
        return tuple(part[0] for part in got) if isinstance(got, tuple) else got[0]

    for number, result in zip((1, 10), response.results, strict=True):
        assert [first(each.handle) for each in result.outputs] == [number, 2 * number]
        kept = [first(part.data.handle) if part.HasField("data") else None for part in result.parts]
        assert kept == [2 * number, None, 2 * number, number, (number, 2 * number)]
        sent = [
            value_from_proto(part.value).to_numpy()[0] if part.HasField("value") else None
            for part in result.parts
        ]
        assert sent == [None, number, 2 * number, None, None]
