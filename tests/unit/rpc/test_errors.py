import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2

from xla_contract.errors import (
    ERROR_BY_CODE,
    InternalError,
    InvalidArgumentError,
    ResourceExhaustedError,
    ShapeError,
    StatusCode,
)
from xla_server.rpc.errors import client_error, status_of
from xla_server.sessions.error_context import reported, with_context


def _details(status: grpc.Status) -> tuple[status_pb2.Status, error_details_pb2.ErrorInfo]:
    ((key, data),) = status.trailing_metadata
    assert key == "grpc-status-details-bin"
    rich = status_pb2.Status.FromString(data)
    info = error_details_pb2.ErrorInfo()
    assert rich.details[0].Unpack(info)
    return rich, info


def test_every_code_has_its_grpc_status():
    assert {code.value[0] for code in grpc.StatusCode} - {0} == set(map(int, StatusCode))


@pytest.mark.parametrize("kind", [*ERROR_BY_CODE.values(), ShapeError], ids=lambda k: k.__name__)
def test_every_error_crosses_with_its_class_and_position(kind):
    error = kind("rule, got evidence", op="dot", instruction="d.7", hint="change it")
    status = status_of(error)
    rich, info = _details(status)
    assert status.code.value[0] == kind.code
    assert status.details == rich.message == "rule, got evidence"
    assert (info.reason, info.domain) == (kind.__name__, "xla-service")
    assert dict(info.metadata) == {"op": "dot", "instruction": "d.7", "hint": "change it"}


@pytest.mark.parametrize("text", ["x" * 100_000, "\u20ac" * 5000, "%" * 3000, "\n" * 900])
def test_long_texts_fit_in_the_headers(text):
    status = status_of(InvalidArgumentError(f"begin{text}end", op=text, hint=text))
    assert status.details.startswith("begin")
    assert status.details.endswith("end")
    assert "characters left out" in status.details
    ((_, data),) = status.trailing_metadata
    assert len(data) * 4 // 3 + 3 * len(status.details.encode()) < 8192


def test_an_incident_is_in_the_status():
    error = InternalError("add %x: a kernel must compile, got ...", incident="ab12").at("Compile")
    assert dict(_details(status_of(error))[1].metadata)["incident"] == "ab12"


def test_an_exception_that_is_no_error_is_an_incident_without_its_cause():
    results = client_error(KeyError("/etc/secret"), "Execute")
    assert isinstance(results, InternalError)
    assert results.incident
    assert results.message == f"the server failed, incident {results.incident}"
    assert results.op == "Execute"


def test_an_error_stays_as_it_is():
    error = InternalError("add %x: a kernel must compile, got ...", incident="ab12")
    assert client_error(error, "Compile") is error


def test_running_out_of_memory_is_no_incident():
    results = client_error(MemoryError(), "Execute")
    assert isinstance(results, ResourceExhaustedError)
    assert results.message == "the server ran out of memory in this call"
    assert not results.incident


def test_a_fault_of_an_execution_is_internal_with_its_incident_and_context():
    fault = with_context("execution 3 of f", reported(ZeroDivisionError("a secret")))
    status = status_of(fault)
    rich, info = _details(status)
    assert status.code is grpc.StatusCode.INTERNAL
    assert rich.message == f"execution 3 of f: the server failed, incident {fault.incident}"
    assert info.reason == "InternalError"
    assert info.metadata["incident"] == fault.incident
    results = status_of(reported(ZeroDivisionError()).at("RunBatch"))
    assert results.details.startswith("RunBatch: the server failed, incident ")


def test_an_execution_without_memory_is_resource_exhausted():
    status = status_of(with_context("execution 3 of f", reported(MemoryError("a secret"))))
    rich, info = _details(status)
    assert status.code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert rich.message == "execution 3 of f: the server ran out of memory in this execution"
    assert info.reason == "ResourceExhaustedError"
    assert "Free values" in info.metadata["hint"]
