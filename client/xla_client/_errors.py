"""Statuses of the server as the exceptions they were."""

from google.rpc import error_details_pb2, status_pb2

from xla_contract import errors
from xla_contract.errors import ERROR_BY_CODE, StatusCode, UnknownError, XlaError

_DOMAIN = "xla-service"
_FIELDS = ("op", "instruction", "hint", "incident")


def error_of(rpc: str, code: int, message: str, details: status_pb2.Status | None) -> XlaError:
    """The exception the server raised, or the one that says what happened on the way."""
    known = StatusCode(code)
    kind = ERROR_BY_CODE.get(known, UnknownError)
    message = message or known.name
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


def _info(status: status_pb2.Status | None) -> error_details_pb2.ErrorInfo | None:
    for detail in status.details if status is not None else ():
        info = error_details_pb2.ErrorInfo()
        if detail.Unpack(info) and info.domain == _DOMAIN:
            return info
    return None
