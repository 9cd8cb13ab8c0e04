"""Ending of calls from any thread.

grpc lets a streaming behaviour return at once and respond later, by a callback. The callback blocks
until the client takes the message, possibly forever. grpc's function for the end of a unary call
does not block. The function is private, so it is used only if it has the known form; otherwise the
callback blocks in the responding thread.

The status of an error is set on the context before the end.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

import grpc

from xla_server.rpc.grpc_internals import known_function

SendResponse: TypeAlias = Callable[[bytes | None], None]
"""grpc's callback: sends a message and waits until it is written; None ends the call."""


def end_call(context: grpc.ServicerContext, send: SendResponse, status: grpc.Status | None) -> None:
    """End a call, with OK or `status`. Must be called once, after the last message."""
    if status is not None:
        untyped: Any = status
        context.set_code(untyped.code)
        context.set_details(untyped.details)
        context.set_trailing_metadata(untyped.trailing_metadata)
    send(None)


def answer_call(context: grpc.ServicerContext, send: SendResponse, response: bytes) -> None:
    """End a call with OK and its one message, without waiting. Must be called once."""
    last = _last_message_sender(context)
    if last is None:
        send(response)
        send(None)
    else:
        last(response)


def at_end(context: grpc.ServicerContext, do: Callable[[], Any]) -> None:
    """Call `do` when a call has ended, read or abandoned by its client; now if it has ended."""
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
