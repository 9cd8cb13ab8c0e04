"""Ending calls whose answers are given by any thread.

grpc lets a behaviour that streams responses return at once and answer later, by a callback. That
waits until the client takes the message, which may be never. What ends a unary call sends all there
is at once and leaves it to grpc; it has no public name, so it is used here where it is as it is
known, and where it is not the callback waits in the thread that answers.

An error is told by setting the status on the context before the end.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

import grpc

from xla_server.rpc.grpc_internals import known_function

SendResponse: TypeAlias = Callable[[bytes | None], None]
"""grpc's callback: sends a message and waits until it is on its way; None ends the call."""


def end_call(context: grpc.ServicerContext, send: SendResponse, status: grpc.Status | None) -> None:
    """End a call well, or with a status. Must be called once, after the last message."""
    if status is not None:
        told: Any = status
        context.set_code(told.code)
        context.set_details(told.details)
        context.set_trailing_metadata(told.trailing_metadata)
    send(None)


def answer_call(context: grpc.ServicerContext, send: SendResponse, response: bytes) -> None:
    """End a call well with its one message, without waiting for the client. To be called once."""
    last = _last_message_sender(context)
    if last is None:
        send(response)
        send(None)
    else:
        last(response)


def _last_message_sender(context: Any) -> Callable[[bytes], None] | None:
    """What sends a message with the end of a call; None where grpc is another."""
    try:
        send_last, event, state = _SEND_LAST, context._rpc_event, context._state
    except AttributeError:
        return None
    return None if send_last is None else lambda response: send_last(event, state, response)


_SEND_LAST = known_function("_status")
