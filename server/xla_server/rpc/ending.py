"""Ending calls whose answers are sent by any thread.

grpc lets a behaviour that streams responses return at once and answer later, by a callback. An
error is then told by setting the status on the context before the callback's end.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

import grpc

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
