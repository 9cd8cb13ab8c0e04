"""One exception tree for both sides of the wire.

Every error names the rule that was broken and the evidence. The tree maps one to one onto the
canonical status codes of gRPC, so the server encodes an exception as a status and the client
raises the same class again.
"""

import enum
from typing import ClassVar


class StatusCode(enum.IntEnum):
    """The canonical status codes, by their numbers on the wire."""

    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


class XlaError(Exception):
    """Base of all errors of the service.

    `message` is one sentence: rule first, then `got <evidence>`. `op` is the opcode or rpc and
    `instruction` the HLO name the error is about, if there is one; `hint` says what to change.
    `incident` is the id under which the server's log has the cause, if that is the server's fault.
    Tracebacks show the hint after the message, as a note; `str(error)` is the message alone.
    """

    code: ClassVar[StatusCode] = StatusCode.UNKNOWN

    def __init__(
        self,
        message: str,
        *,
        op: str = "",
        instruction: str = "",
        hint: str = "",
        incident: str = "",
    ) -> None:
        super().__init__(message)
        self.message = message
        self.op = op
        self.instruction = instruction
        self.hint = hint
        self.incident = incident
        if hint:
            self.add_note(f"hint: {hint}")

    def at(self, op: str, instruction: str = "") -> "XlaError":
        """Return the error with its instruction in front: `op %instruction: message`.

        The innermost instruction is the exact one, so an error that names one keeps it.

        Args:
            op: The opcode or rpc.
            instruction: The instruction's name, if it has one.

        Returns:
            An error of the same class, or this one if it already names an op.
        """
        if self.op:
            return self
        place = f"{op} %{instruction}" if instruction else op
        return type(self)(
            f"{place}: {self.message}",
            op=op,
            instruction=instruction,
            hint=self.hint,
            incident=self.incident,
        )


class CancelledError(XlaError):
    """The caller gave up, or the execution was cancelled."""

    code = StatusCode.CANCELLED


class UnknownError(XlaError):
    """A status this contract does not use."""

    code = StatusCode.UNKNOWN


class InvalidArgumentError(XlaError):
    """The request is wrong in every state of the server."""

    code = StatusCode.INVALID_ARGUMENT


class ArgumentTypeError(InvalidArgumentError, TypeError):
    """An argument has a Python type that its parameter does not take."""


class ShapeError(InvalidArgumentError):
    """A rule of shape inference is broken."""


class DeadlineExceededError(XlaError):
    """The deadline of the call passed before it finished."""

    code = StatusCode.DEADLINE_EXCEEDED


class NotFoundError(XlaError):
    """A handle that was never issued."""

    code = StatusCode.NOT_FOUND


class AlreadyExistsError(XlaError):
    """The object to create exists already."""

    code = StatusCode.ALREADY_EXISTS


class PermissionDeniedError(XlaError):
    """The caller may not do this."""

    code = StatusCode.PERMISSION_DENIED


class ResourceExhaustedError(XlaError):
    """A limit would be exceeded; the message has the limit and the use."""

    code = StatusCode.RESOURCE_EXHAUSTED


class FailedPreconditionError(XlaError):
    """The request does not fit the state of the server."""

    code = StatusCode.FAILED_PRECONDITION


class AbortedError(XlaError):
    """The call conflicted with a concurrent call of another caller."""

    code = StatusCode.ABORTED


class OutOfRangeError(XlaError):
    """Past the end of something valid."""

    code = StatusCode.OUT_OF_RANGE


class UnimplementedError(XlaError):
    """The operation is known and not offered here."""

    code = StatusCode.UNIMPLEMENTED


class InternalError(XlaError):
    """A fault of the server; the message carries an incident id and no cause."""

    code = StatusCode.INTERNAL


class UnavailableError(XlaError):
    """The server cannot be reached or is draining."""

    code = StatusCode.UNAVAILABLE


class NotBegunError(UnavailableError):
    """The server did not begin the call and never will: the client may repeat it at once."""


class DataLossError(XlaError):
    """Data did not arrive as it was sent."""

    code = StatusCode.DATA_LOSS


class UnauthenticatedError(XlaError):
    """The caller's credentials are missing or invalid."""

    code = StatusCode.UNAUTHENTICATED


class SessionEndedError(UnauthenticatedError):
    """The session that a call names has ended or never was; the call was not made."""


class LostError(DataLossError):
    """A value, run or feed was lost with the session it was in: the server was started again."""


ERROR_BY_CODE: dict[StatusCode, type[XlaError]] = {
    # The direct subclasses alone: the others share the code of theirs.
    error.code: error
    for error in XlaError.__subclasses__()
}
"""The total table status code -> exception; a test proves it total."""
