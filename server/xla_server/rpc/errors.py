"""Errors as gRPC statuses, and which error a client gets for an exception.

A status carries, in grpc-status-details-bin, a google.rpc.ErrorInfo: reason is the name of the
exception class, domain DOMAIN, and the metadata holds op, instruction, hint and incident if set.
The client raises the same exception from it.
"""

import urllib.parse

import grpc
from google.rpc import error_details_pb2, status_pb2
from grpc_status import rpc_status

from xla_contract.errors import InternalError, ResourceExhaustedError, XlaError
from xla_server.backends.diagnostics.incidents import new_incident
from xla_server.sessions.error_context import ExecutionFaultError, ExecutionMemoryError

DOMAIN = "xla-service"
"""Domain of google.rpc.ErrorInfo."""

_MAX_MESSAGE_BYTES = 2048
_MAX_HINT_BYTES = 800
_MAX_NAME_BYTES = 256
"""Largest texts of an error, in bytes. Together they fit into the 8 KiB of headers that a client
accepts: the message is sent twice, and each byte that is not ASCII takes three. A hint may list
all passes."""


def client_error(error: BaseException, op: str = "") -> XlaError:
    """Return the error that a client gets for any exception; no other function decides this.

    A fault of the server is an incident, whose id is in the message. The log has its cause: an
    execution's already, and the caller logs that of others. `op` is the rpc.
    """
    match error:
        case ExecutionFaultError():
            return _fault(error.message, error.op, error.incident)
        case ExecutionMemoryError():
            return _memory_error(error.message, "execution", error.op)
        case XlaError():
            return error
        case MemoryError():
            return _memory_error("", "call", op)
        case _:
            return _fault("", op, new_incident())


def _fault(context: str, op: str, incident: str) -> InternalError:
    return InternalError(
        f"{context}the server failed, incident {incident}", op=op, incident=incident
    )


def _memory_error(context: str, subject: str, op: str) -> ResourceExhaustedError:
    return ResourceExhaustedError(
        f"{context}the server ran out of memory in this {subject}",
        op=op,
        hint="Free values that are no longer needed, or use smaller ones.",
    )


def status_of(error: XlaError) -> grpc.Status:
    """The status of an error, to end a call with."""
    status: grpc.Status = rpc_status.to_status(status_proto_of(error))
    return status


def status_proto_of(error: XlaError) -> status_pb2.Status:
    """The status of an error, as a message.

    Texts that would not fit in the headers a client accepts are cut in the middle.
    """
    error = client_error(error)
    texts = {
        "op": error.op,
        "instruction": error.instruction,
        "hint": error.hint,
        "incident": error.incident,
    }
    info = error_details_pb2.ErrorInfo(
        reason=type(error).__name__,
        domain=DOMAIN,
        metadata={
            name: fit_header(text, _MAX_HINT_BYTES if name == "hint" else _MAX_NAME_BYTES)
            for name, text in texts.items()
            if text
        },
    )
    status = status_pb2.Status(
        code=int(error.code), message=fit_header(error.message, _MAX_MESSAGE_BYTES)
    )
    status.details.add().Pack(info)
    return status


def fit_header(text: str, limit: int) -> str:
    """Return `text`, without its middle if it would take more than `limit` bytes in a header."""
    if _header_size(text) <= limit:
        return text
    # One character takes 12 bytes at most: 4 in UTF-8, each written as %XX.
    keep = limit // 2
    while keep and _header_size(text[:keep]) + _header_size(text[-keep:]) > limit - 40:
        keep = keep * 3 // 4
    return f"{text[:keep]} [{len(text) - 2 * keep} characters left out] {text[-keep:]}"


def _header_size(text: str) -> int:
    # Cut first, so that a long text is not percent-encoded only to measure it.
    if len(text) > 4 * _MAX_MESSAGE_BYTES:
        return len(text)
    return len(
        urllib.parse.quote(text, safe=" !\"#$&'()*+,-./:;<=>?@[\\]^_`{|}~", errors="replace")
    )
