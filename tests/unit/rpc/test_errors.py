import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2

from xla_contract.errors import (
    ERROR_BY_CODE,
    InternalError,
    InvalidArgumentError,
    ShapeError,
    StatusCode,
)
from xla_server.rpc.errors import status_of


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
