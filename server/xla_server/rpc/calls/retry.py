"""Unary rpcs that need a value not computed yet: they are repeated once it is."""

import functools
from collections.abc import Callable
from typing import Any

from xla_server.execution.cancellation import Cancellation
from xla_server.rpc.calls.boundary import Method
from xla_server.rpc.calls.deferred import DeferredMethod, Responder
from xla_server.rpc.calls.response_memory import Response
from xla_server.sessions.error_context import with_context
from xla_server.sessions.session import Session
from xla_server.sessions.shared_resources import ExecutionThreads
from xla_server.sessions.values.futures import ValuePendingError


def retry_when_ready(method: Method, executor: ExecutionThreads) -> DeferredMethod:
    """A method that holds no thread while it waits for a value.

    It is called again, in a thread of `executor`, once the value is computed.
    """

    def begin(
        service: Session, request: Any, cancellation: Cancellation, answer: Responder
    ) -> None:
        try:
            response = method(service, request, cancellation)
        except ValuePendingError as error:
            again = functools.partial(begin, service, request, cancellation, answer)
            wait(
                error,
                functools.partial(executor.submit_for, service.flow, again),
                cancellation,
                answer,
            )
        except BaseException as error:
            answer.failed(error)
        else:
            answer.done(response)

    return begin


def wait(
    reason: ValuePendingError,
    proceed: Callable[[], object],
    cancellation: Cancellation,
    answer: Responder,
) -> None:
    """Call `proceed` once the awaited value is set, or respond with an earlier cancellation.

    Returns at once. `proceed` is called in the thread that sets the value, and must not wait.
    """

    def cancelled() -> Response:
        error = cancellation.error
        if error is not None and reason.subject:
            raise with_context(reason.subject, error)
        cancellation.check()
        return b""

    forget_call = cancellation.add_callback(lambda: answer.later(cancelled))

    def on_done() -> None:
        forget_call()
        if not cancellation.is_cancelled:
            proceed()

    # The awaited value refers to the call until it is done, even if the call is over.
    forget_value = reason.awaited.when_done(on_done)
    cancellation.add_callback(forget_value)
