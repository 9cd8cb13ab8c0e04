"""Errors as clients get them, and the part of a request that an error is about."""

import logging
from types import TracebackType

from xla_contract.errors import InternalError, ResourceExhaustedError, XlaError
from xla_server.backends.diagnostics.incidents import new_incident

_LOG = logging.getLogger(__name__)


def client_error(error: BaseException, subject: str, op: str = "") -> XlaError:
    """Return the error that a client gets for any exception; no other function decides it.

    A fault of the server is an incident, whose id is in the message; the caller logs the cause
    under it. `subject` says what the memory was needed for: "call" or "execution".
    """
    if isinstance(error, XlaError):
        return error
    if isinstance(error, MemoryError):
        return ResourceExhaustedError(
            f"the server ran out of memory in this {subject}",
            op=op,
            hint="Unregister values that are no longer needed, or use smaller ones.",
        )
    incident = new_incident()
    return InternalError(f"the server failed, incident {incident}", op=op, incident=incident)


def reported(error: BaseException) -> XlaError:
    """Return the error of an execution that clients get, after logging the cause of a fault."""
    told = client_error(error, "execution")
    if told is not error and told.incident:
        _LOG.error("incident %s", told.incident, exc_info=error)
    return told


def copy_of(error: XlaError, context: str = "") -> XlaError:
    """Return an error to raise once more, with `context` in front of its message.

    Each raise writes a traceback of its own.
    """
    return type(error)(
        context + error.message,
        op=error.op,
        instruction=error.instruction,
        hint=error.hint,
        incident=error.incident,
    )


def with_context(part: str, error: XlaError) -> XlaError:
    """Return the error with the part of the request in front, such as `argument 3`."""
    return copy_of(error, f"{part}: ")


class part_of_request:  # noqa: N801 - a context manager, named as a function
    """Raises the errors of a block `with_context` in a part of the request."""

    __slots__ = ("_part",)

    def __init__(self, part: str) -> None:
        self._part = part

    def __enter__(self) -> None:
        """Begin the block."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Raise an XlaError of the block anew."""
        if isinstance(error, XlaError):
            raise with_context(self._part, error) from error.__cause__
