"""Unary calls whose requests have not arrived yet."""

from typing import Any

import grpc

from xla_server.rpc.grpc_internals import end_call


class ArrivingRequests:
    """The calls whose requests have not arrived. Thread-safe.

    It stays empty if this grpc is not the known one.
    """

    def __init__(self) -> None:
        self.events: dict[Any, Any] = {}
        """grpc's state of a call -> the event with which it came, oldest first."""

    def refuse(self, state: Any, status: grpc.Status) -> bool:
        """End a call with a status; return False, and do nothing, if its request has come.

        grpc frees what it has of the request a little later, in threads of its own.
        """
        with state.condition:
            event = self.events.pop(state, None)
            if event is None:
                return False
            end_call(event, state, status)
            return True
