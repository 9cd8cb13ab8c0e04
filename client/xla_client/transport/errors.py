"""Conversion of gRPC statuses to the exceptions that the server raised."""

import math
import re
import time
from typing import Any

import grpc
from google.rpc import error_details_pb2, status_pb2
from grpc_status import rpc_status

from xla_contract import errors
from xla_contract.errors import (
    ERROR_BY_CODE,
    NotBegunError,
    StatusCode,
    UnavailableError,
    UnknownError,
    XlaError,
)

_DOMAIN = "xla-service"
_FIELDS = ("op", "instruction", "hint", "incident")


_CUT_OFF = re.compile(
    r"stream removed|socket closed|recvmsg|sendmsg|connection reset|broken pipe|keepalive|goaway",
    re.IGNORECASE,
)
"""Details that grpc reports for an established connection that ended."""

_NOT_CONNECTED = re.compile(
    r"failed to connect|all backends failing|dns resolution failed|empty address list",
    re.IGNORECASE,
)
"""Details that grpc reports where there is no connection, so that nothing was sent."""

_NO_SERVER_HINT = (
    "is the server up (xla-server serve), and do both ends agree about TLS? connect_timeout=30 "
    "waits for one that is starting"
)
_AWAY_HINT = (
    "The client connects again by itself, at most a second after the server listens: repeat the "
    "call then."
)
_TLS_HINTS = {
    "WRONG_VERSION_NUMBER": "the server speaks plaintext: leave TLS out, or turn it on there "
    "(--tls-cert-file, --tls-self-signed)",
    "CERTIFICATE_VERIFY_FAILED": "no trusted authority has issued the server's certificate for "
    "this name: Tls(ca_file=...) trusts another one, Tls(fingerprint=...) the certificate itself, "
    "by the line of the server's log",
    "Socket closed": "something listens there and hangs up: if the server has TLS, pass "
    "credentials=xla_client.Tls(...)",
}
"""Hints by the part of grpc's cause that they go with, other than `_NO_SERVER_HINT`."""


class CutOffError(UnavailableError):
    """The connection ended during a call, which the server may have executed.

    `Session.after_cut` replaces it by an error that says what has become of the server.
    """


def no_server(target: str, waited: str, cause: str) -> UnavailableError:
    """Return the error of a session that no server opened; the texts end its sentence."""
    hint = next((hint for part, hint in _TLS_HINTS.items() if part in cause), _NO_SERVER_HINT)
    return UnavailableError(
        f"connect: a server must listen at the target, got no answer from {target}{waited}{cause}",
        op="connect",
        hint=hint,
    )


def cut_off(rpc: str, reason: str) -> CutOffError:
    """Return the error of a call whose connection ended for this reason, as grpc has it."""
    return CutOffError(
        f"{rpc}: the connection must last until the answer, got its end: {reason}",
        op=rpc,
        hint="The server may have made the call. The next call connects again.",
    )


def error_of(rpc: str, code: int, message: str, details: status_pb2.Status | None) -> XlaError:
    """Return the exception that the server raised, or one for a failure of the connection."""
    known = StatusCode(code)
    if known is StatusCode.UNAVAILABLE and details is None:
        if _CUT_OFF.search(message):
            return cut_off(rpc, message)
        absent = NotBegunError if _NOT_CONNECTED.search(message) else UnavailableError
        return absent(
            f"{rpc}: a server must listen at the target, got no answer: {message}",
            op=rpc,
            hint=_AWAY_HINT,
        )
    kind = ERROR_BY_CODE.get(known, UnknownError)
    message = message or known.name
    if known is StatusCode.DEADLINE_EXCEEDED and details is None:
        message = f"the answer must come before the deadline, got none in time ({message})"
    info = _info(details)
    if info is None:
        return kind(f"{rpc}: {message}", op=rpc)
    named = getattr(errors, info.reason, None)
    # A newer server may name a class that is not known here; the code then decides.
    if isinstance(named, type) and issubclass(named, kind):
        kind = named
    return kind(message, **{field: info.metadata.get(field, "") for field in _FIELDS})


def error_of_status(rpc: str, data: bytes) -> XlaError:
    """The exception of a serialized google.rpc.Status."""
    status = status_pb2.Status.FromString(data)
    return error_of(rpc, status.code, status.message, status)


def deadline_in(timeout: float | None) -> float:
    """Return the deadline of a call that begins now, by `time.monotonic`; infinity without one."""
    return math.inf if timeout is None else time.monotonic() + timeout


def exception_of(rpc: str, error: grpc.RpcError, ends: float = math.inf) -> XlaError:
    """The exception that the server raised, or one for a failure of the connection.

    `ends` is the deadline of the call, as of `deadline_in`.
    """
    call: Any = error
    code, status = call.code(), status_of(call)
    # A server resets the stream at the deadline. If that arrives within the same millisecond, grpc
    # takes it for a cancellation.
    if code is grpc.StatusCode.CANCELLED and status is None and time.monotonic() >= ends:
        code = grpc.StatusCode.DEADLINE_EXCEEDED
    return error_of(rpc, code.value[0], call.details() or "", status)


def status_of(call: Any) -> Any:
    """Return the google.rpc.Status that a server sent with a call's end; None without one."""
    try:
        return rpc_status.from_call(call)
    except ValueError:
        return None


def _info(status: status_pb2.Status | None) -> error_details_pb2.ErrorInfo | None:
    for detail in status.details if status is not None else ():
        info = error_details_pb2.ErrorInfo()
        if detail.Unpack(info) and info.domain == _DOMAIN:
            return info
    return None
