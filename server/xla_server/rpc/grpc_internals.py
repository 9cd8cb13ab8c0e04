"""The private interfaces of grpc that the server uses, and a test that this grpc has them.

With another grpc their users fall back to public interfaces, each as its docstring states.
"""

import importlib
import inspect
from collections.abc import Callable
from typing import Any

import grpc

POOL_PARAMETERS = (
    "rpc_event",
    "state",
    "behavior",
    "argument_thunk",
    "request_deserializer",
    "response_serializer",
)
"""Parameters of the functions that grpc runs in a thread of its pools."""

FUNCTIONS = {
    "_unary_response_in_pool": POOL_PARAMETERS,
    "_stream_response_in_pool": POOL_PARAMETERS,
    "_call_behavior": (
        *POOL_PARAMETERS[:3],
        "argument",
        "request_deserializer",
        "send_response_callback",
    ),
    "_status": ("rpc_event", "state", "serialized_response"),
    "_abort": ("state", "call", "code", "details"),
    "_possibly_finish_call": ("state", "token"),
    "_is_rpc_state_active": ("state",),
    "_Context": ("rpc_event", "state", "request_deserializer"),
    "_process_event_and_continue": ("state", "event"),
    "_request_call": ("state",),
    "_stop_serving": ("state",),
    "_begin_shutdown_once": ("state",),
    "_GenericMethod": ("generic_handlers",),
    "_RequestIterator": ("state", "call", "request_deserializer"),
    "_handle_call": (
        "rpc_event",
        "method_with_handler",
        "interceptor_pipeline",
        "thread_pool",
        "concurrency_exceeded",
    ),
}
"""Functions of grpc's module of servers, and the names of their parameters."""

VALUES = (
    "_CLOSED",
    "_EMPTY_FLAGS",
    "_OPEN",
    "_RECEIVE_MESSAGE_TOKEN",
    "_REQUEST_CALL_TAG",
    "_ServerStage",
    "_DEALLOCATED_SERVER_CHECK_PERIOD_S",
)
"""Values of that module."""


def known_server() -> Any:
    """Return grpc's module of servers; None if it differs from this description.

    Also None if a plugin observes calls: the functions that are bypassed here would notify it.
    """
    try:
        server = importlib.import_module("grpc._server")
        observability = importlib.import_module("grpc._observability")
        is_known = all(map(known_function, FUNCTIONS))
        is_known = is_known and all(hasattr(server, name) for name in VALUES)
        is_known = is_known and hasattr(server.cygrpc, "ReceiveMessageOperation")
        # A handler that responds later has only the context of its call.
        state = object()
        is_known = is_known and server._Context(None, state, None)._state is state
        with observability.get_plugin() as plugin:
            return server if is_known and plugin is None else None
    except (AttributeError, ImportError, TypeError, ValueError):
        return None


def known_function(name: str) -> Callable[..., Any] | None:
    """Return a function of FUNCTIONS; None if this grpc lacks it or it has other parameters."""
    try:
        function: Callable[..., Any] = getattr(importlib.import_module("grpc._server"), name)
        parameters = tuple(inspect.signature(function).parameters)
    except (AttributeError, ImportError, TypeError, ValueError):
        return None
    return function if parameters == FUNCTIONS[name] else None


def end_call(event: Any, state: Any, status: grpc.Status) -> None:
    """End a call with a status. Under grpc's lock on it."""
    server = importlib.import_module("grpc._server")
    untyped: Any = status
    state.code, state.details = untyped.code, untyped.details.encode()
    state.trailing_metadata = untyped.trailing_metadata
    # grpc sends the status that was set first.
    server._abort(state, event.call, server.cygrpc.StatusCode.unknown, b"")


class EndableCalls:
    """Calls that any thread may end.

    Thread-safe. The thread that removes a call from `events` must answer it. `events` stays empty
    if grpc is not the known one.
    """

    def __init__(self) -> None:
        self.events: dict[Any, Any] = {}
        """grpc's state of a call -> the event with which it came, oldest first."""

    def end(self, state: Any, status: grpc.Status) -> bool:
        """End a call with a status; return False, without effect, if it was removed before.

        grpc frees the received part of the request a little later, in its own threads.
        """
        with state.condition:
            event = self.events.pop(state, None)
            if event is None:
                return False
            end_call(event, state, status)
            return True


def reject_call(event: Any, state: Any) -> None:
    """End a call that sent no request, with grpc's own text; no effect if it was cancelled."""
    server: Any = importlib.import_module("grpc._server")
    if state.client is server._OPEN:
        state.client = server._CLOSED
    if state.client is server._CLOSED:
        details = f'"{event.call_details.method}" requires exactly one request message.'
        code = server.cygrpc.StatusCode.unimplemented
        server._abort(state, event.call, code, details.encode())


def fail_call(event: Any, state: Any, error: Exception) -> None:
    """End a call with an exception of its behaviour, with grpc's own text."""

    def fail(*_: object) -> None:
        raise error

    importlib.import_module("grpc._server")._call_behavior(event, state, fail, None, None)


def channelz() -> Any:
    """Return the part of grpc that lists connections; None if there is none."""
    try:
        cygrpc = importlib.import_module("grpc._cython.cygrpc")
        cygrpc.channelz_get_servers(0)
        return cygrpc if hasattr(cygrpc, "channelz_get_server_sockets") else None
    except (AttributeError, ImportError, ValueError):
        return None
