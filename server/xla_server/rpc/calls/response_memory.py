"""Answers with the room they take until their clients have read them."""

import dataclasses
from collections.abc import Callable
from typing import TypeAlias

from google.protobuf.message import Message

from xla_contract.types.literal import Literal
from xla_contract.wire.literals.encoding import encode_literal_message, most_bytes
from xla_server.rpc.calls.response_turns import ANSWER_TURNS
from xla_server.sessions.limits.response_memory import ResponseReservation, SessionResponseMemory

LARGE_BYTES = 16 << 10
"""Least size of responses that are counted, in bytes; an open call takes about as much itself."""

SLOW_BYTES = 1 << 20
"""The smallest values that are encoded in turns. Less is copied sooner than a thread wakes."""


@dataclasses.dataclass(slots=True, eq=False)
class AccountedResponse:
    """An answer in room that was taken before it was made. It is serialized as a message is."""

    message: Message | bytes
    room: ResponseReservation | None
    """The reservation; None once it is released."""

    def SerializeToString(self) -> bytes:  # noqa: N802
        """The bytes; the room is given back where they are so few that they need none."""
        message = self.message
        data: bytes = message if isinstance(message, bytes) else message.SerializeToString()
        if len(data) < LARGE_BYTES:
            discard(self)
        return data


Response: TypeAlias = Message | bytes | AccountedResponse
"""The answer of an rpc, serialized or not."""


def held(
    answers: SessionResponseMemory, byte_size: int, make: Callable[[], Message | bytes]
) -> Response:
    """The answer that `make` gives, of about `byte_size` bytes, for which there is room before.

    Raises ResourceExhaustedError, before `make` is called, when there is none.
    """
    if byte_size < LARGE_BYTES:
        return make()
    room = answers.take(byte_size)
    try:
        return AccountedResponse(make(), room)
    except BaseException:
        room.release()
        raise


def accounted_literal(
    answers: SessionResponseMemory, message: Message, literal: Literal
) -> Response:
    """The bytes of `message` with `literal` in its field of that name; raises as `held`.

    Large ones are made when it is the turn of their connection.
    """
    byte_size = literal.shape.byte_size
    if byte_size < LARGE_BYTES:
        return encode_literal_message(message, literal)

    def made() -> bytes:
        if byte_size < SLOW_BYTES:
            return encode_literal_message(message, literal)
        with ANSWER_TURNS.turn(answers.flow):
            return encode_literal_message(message, literal)

    return held(answers, most_bytes(literal.shape), made)


def reservation_of(
    answers: SessionResponseMemory, response: Response, byte_size: int
) -> ResponseReservation:
    """The room of a large answer of `byte_size` bytes, taken now where it was not before.

    Raises ResourceExhaustedError if there is none in twice the limit, and drops the response.
    """
    room = response.room if isinstance(response, AccountedResponse) else None
    if room is None:
        return answers.take(byte_size, is_made=True)
    more = byte_size - room.byte_size
    try:
        # Metadata of values is small and its size unknown before; more than that is of many small
        # parts.
        if more > LARGE_BYTES:
            room.grow(more, is_made=True)
        else:
            room.resize(byte_size)
    except BaseException:
        discard(response)
        raise
    return room


def discard(response: Response) -> None:
    """Let an answer go that is not sent."""
    if isinstance(response, AccountedResponse) and response.room is not None:
        response.room.release()
        response.room = None
