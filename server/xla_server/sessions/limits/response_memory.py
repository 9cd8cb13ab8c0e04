"""The memory of responses that clients have not read yet.

A response stays in the transport until its client reads it, which may be never. If its size is
known, memory is reserved before it is made. A response that exists already, of a call whose effects
are done, would be lost if it were refused: such responses may take up to twice the limits.
"""

import contextlib
import dataclasses
from collections.abc import Iterator

from xla_contract.errors import ResourceExhaustedError
from xla_server.sessions.limits.shares.caller import LOCAL, Caller, flow_of
from xla_server.sessions.limits.shares.caller_shares import SharedLimit

_HINT = "Read the answers to calls made before, or download large values in chunks."


class ResponseMemory(SharedLimit):
    """The bytes of the responses of all sessions: of those not read, and of those being made.

    Its lock is held while bytes are counted, those of sessions too.
    """

    def require(self, byte_size: int, own: int, mine: int, times: int, caller: Caller) -> None:
        """Raise ResourceExhaustedError if a response may not have so many bytes more. Under `lock`.

        The response has `own` bytes, and its session has `mine` in all. A session may have at most
        as much as is left of `times` the limit, so that others get some. The only response is
        always admitted. The same holds for the share of `caller`, and its only response.
        """
        used, beyond = self.used, (times - 1) * self.limit
        if used > own and mine + byte_size > self.limit + beyond - used:
            raise ResourceExhaustedError(
                f"answers of all sessions that were not read may take {self.limit} bytes, "
                f"and those of one no more than are left, got {byte_size} bytes more with "
                f"{used} there, {mine} of them this session's",
                hint=_HINT,
            )
        level = self.exceeded(caller, byte_size, beyond)
        if level is not None and self.used_by(level) > own:
            noun = "bytes of answers that were not read"
            raise self.refusal(level, byte_size, noun, _HINT, beyond=beyond)


@dataclasses.dataclass(eq=False)
class SessionResponseMemory:
    """The bytes of one session's responses, counted among those of all. Thread-safe.

    A session may always have one response of up to `max_answer_bytes`, the limit of a message,
    so that no legal call is impossible.
    """

    _memory: ResponseMemory
    max_bytes: int = dataclasses.field(kw_only=True)
    max_answer_bytes: int = dataclasses.field(kw_only=True)
    caller: Caller = dataclasses.field(default=LOCAL, kw_only=True)

    def __post_init__(self) -> None:
        self.flow = flow_of(self.caller)
        """The flow by which turns for making large responses are fair."""
        self.used_bytes = 0
        """Bytes of responses that were not read, and of those being made."""
        self.lock = self._memory.lock
        """Held by a reservation that changes its bytes."""

    def reserve(self, byte_size: int, *, is_made: bool = False) -> "ResponseReservation":
        """Reserve memory for a response, made or not; raises as `ResponseReservation.grow`."""
        reservation = ResponseReservation(self)
        # A caller that knows only the largest possible size may state more than that.
        reservation.grow(min(byte_size, self.max_answer_bytes), is_made=is_made)
        return reservation

    @contextlib.contextmanager
    def reserving(self, byte_size: int) -> Iterator[None]:
        """Reserve memory for the block; raises as `ResponseReservation.grow`."""
        reservation = self.reserve(byte_size)
        try:
            yield
        finally:
            reservation.release()

    def grow_locked(self, byte_size: int, own: int, times: int) -> None:
        """Count more bytes of a response that has `own` already. Under the lock."""
        used = self.used_bytes
        is_first = used == own and own + byte_size <= self.max_answer_bytes
        if used + byte_size > times * self.max_bytes and not is_first:
            raise ResourceExhaustedError(
                f"answers of a session that were not read may take {self.max_bytes} bytes, got "
                f"{byte_size} bytes more with {used} there",
                hint=_HINT,
            )
        self._memory.require(byte_size, own, used, times, self.caller)
        self.change_locked(byte_size)

    def change_locked(self, byte_size: int) -> None:
        """Count bytes more or less, without a limit. Under the lock."""
        self.used_bytes += byte_size
        self._memory.add(self.caller, byte_size)


class ResponseReservation:
    """Memory of one response, until `release`. Thread-safe."""

    __slots__ = ("_is_over", "_memory", "byte_size")

    def __init__(self, memory: SessionResponseMemory) -> None:
        self._memory = memory
        self.byte_size = 0
        """Bytes it has now."""
        self._is_over = False

    def grow(self, byte_size: int, *, is_made: bool = False) -> None:
        """Reserve `byte_size` bytes more; `is_made` says that the response exists.

        Raises ResourceExhaustedError, with the limit and the use, if they would exceed the limit.
        """
        memory = self._memory
        with memory.lock:
            memory.grow_locked(byte_size, self.byte_size, 2 if is_made else 1)
            self.byte_size += byte_size

    def resize(self, byte_size: int) -> None:
        """Reserve exactly the bytes of a response that has been made; no effect after `release`."""
        memory = self._memory
        with memory.lock:
            if not self._is_over:
                memory.change_locked(byte_size - self.byte_size)
                self.byte_size = byte_size

    def release(self) -> None:
        """Release all bytes; no effect when done before."""
        memory = self._memory
        with memory.lock:
            if not self._is_over:
                self._is_over = True
                memory.change_locked(-self.byte_size)
                self.byte_size = 0
