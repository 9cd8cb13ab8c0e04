"""Ending of calls from any thread.

grpc lets a streaming behaviour return at once and respond later, by a callback. The callback blocks
until the client takes the message, which may be never. grpc's function for the end of a unary call
does not block. It has no public name, so it is used if it has the known form; otherwise the
callback blocks in the thread that responds.

The status of an error is set on the context before the end.
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


def at_end(context: grpc.ServicerContext, do: Callable[[], Any]) -> None:
    """Call `do` when a call has ended, at once if it has: answered and read, or its client gone."""
    if not context.add_callback(do):
        do()


def _last_message_sender(context: Any) -> Callable[[bytes], None] | None:
    """Return a function that sends a message with the end of a call; None for an unknown grpc."""
    try:
        send_last, event, state = _SEND_LAST, context._rpc_event, context._state
    except AttributeError:
        return None
    return None if send_last is None else lambda response: send_last(event, state, response)


_SEND_LAST = known_function("_status")
