"""Responses with reservations for the memory they take until clients have read them."""

import dataclasses
from collections.abc import Callable
from typing import TypeAlias

from google.protobuf.message import Message

from xla_contract.types.literal import Literal
from xla_contract.wire.literals.encoding import encode_literal_message, max_encoded_bytes
from xla_server.rpc.calls.response_turns import ANSWER_TURNS
from xla_server.sessions.limits.response_memory import ResponseReservation, SessionResponseMemory

LARGE_BYTES = 16 << 10
"""Smallest size of counted responses, in bytes: about what an open call takes itself."""

SLOW_BYTES = 1 << 20
"""Smallest size, in bytes, of values encoded in turns: less is copied before a thread wakes."""


@dataclasses.dataclass(slots=True, eq=False)
class AccountedResponse:
    """A response whose memory was reserved before it was made. Serialized as a message is."""

    message: Message | bytes
    reservation: ResponseReservation | None
    """The reservation; None once it is released."""

    def SerializeToString(self) -> bytes:  # noqa: N802
        """The bytes; the reservation is released if they are too few to count."""
        message = self.message
        data: bytes = message if isinstance(message, bytes) else message.SerializeToString()
        if len(data) < LARGE_BYTES:
            discard(self)
        return data


Response: TypeAlias = Message | bytes | AccountedResponse
"""The response of an rpc, serialized or not."""


def accounted_response(
    memory: SessionResponseMemory, byte_size: int, make: Callable[[], Message | bytes]
) -> Response:
    """The response of `make`, of about `byte_size` bytes, which are reserved before.

    Raises ResourceExhaustedError, before `make` is called, if that would exceed a limit.
    """
    if byte_size < LARGE_BYTES:
        return make()
    reservation = memory.reserve(byte_size)
    try:
        return AccountedResponse(make(), reservation)
    except BaseException:
        reservation.release()
        raise


def accounted_literal(
    memory: SessionResponseMemory, message: Message, literal: Literal
) -> Response:
    """The bytes of `message` with `literal` in its field of that name.

    Raises as `accounted_response`. Large ones are made at their connection's turn.
    """
    byte_size = literal.shape.byte_size
    if byte_size < LARGE_BYTES:
        return encode_literal_message(message, literal)

    def made() -> bytes:
        if byte_size < SLOW_BYTES:
            return encode_literal_message(message, literal)
        with ANSWER_TURNS.turn(memory.flow):
            return encode_literal_message(message, literal)

    return accounted_response(memory, max_encoded_bytes(literal.shape), made)


def reservation_of(
    memory: SessionResponseMemory, response: Response, byte_size: int
) -> ResponseReservation:
    """The reservation of a large response of `byte_size` bytes, made now if it has none.

    Raises ResourceExhaustedError, and drops the response, if it exceeds twice the limit.
    """
    reservation = response.reservation if isinstance(response, AccountedResponse) else None
    if reservation is None:
        return memory.reserve(byte_size, is_made=True)
    more = byte_size - reservation.byte_size
    try:
        # Metadata of values is small, and its size unknown before. More than LARGE_BYTES of it
        # belong to a value of many small parts.
        if more > LARGE_BYTES:
            reservation.grow(more, is_made=True)
        else:
            reservation.resize(byte_size)
    except BaseException:
        discard(response)
        raise
    return reservation


def discard(response: Response) -> None:
    """Release the memory of a response that is not sent."""
    if isinstance(response, AccountedResponse) and response.reservation is not None:
        response.reservation.release()
        response.reservation = None
