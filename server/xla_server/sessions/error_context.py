"""Errors of executions, and the part of a request that an error is about."""

import logging
from types import TracebackType

from xla_contract.errors import InternalError, ResourceExhaustedError, XlaError
from xla_server.backends.diagnostics.incidents import new_incident

_LOG = logging.getLogger(__name__)


class ExecutionFaultError(InternalError):
    """A fault of the server ended an execution; the log has the cause under the incident's id.

    The message holds only the context that `with_context` adds. `rpc/errors.py` decides the status
    and the text that a client receives.
    """


class ExecutionMemoryError(ResourceExhaustedError):
    """An execution ran out of memory; the message holds the same as ExecutionFaultError's."""


def reported(error: BaseException) -> XlaError:
    """Return an execution's error as its handles store it, after logging the cause of a fault."""
    if isinstance(error, XlaError):
        return error
    if isinstance(error, MemoryError):
        return ExecutionMemoryError("")
    incident = new_incident()
    _LOG.error("incident %s", incident, exc_info=error)
    return ExecutionFaultError("", incident=incident)


def copy_of(error: XlaError, context: str = "") -> XlaError:
    """Return a copy of an error to raise again, with `context` in front of its message.

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
        """Raise an XlaError of the block again, `with_context`."""
        if isinstance(error, XlaError):
            raise with_context(self._part, error) from error.__cause__
