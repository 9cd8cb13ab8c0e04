"""A call of an rpc that responds later."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.fault.plain import until
from xla_server.execution.cancellation import Cancellation
from xla_server.rpc.calls.deferred import Responder
from xla_server.rpc.calls.method_table import Deferred
from xla_server.sessions.session import Session


class DeferredCall:
    """A call of a row of a method table; answers of its threads wait for `gate`."""

    def __init__(self, row: object, service: Session, request: Any) -> None:
        self.outcomes: list[Any] = []
        self.cancellation = Cancellation()
        self.gate = threading.Event()
        self._threads = ThreadPoolExecutor(1)
        self._threads.submit(self.gate.wait, 20)
        assert isinstance(row, Deferred)
        row.method(service, request, self.cancellation, Responder(self._finish, self._threads))

    def outcome(self) -> Any:
        """Open the gate; return the answer, or the error raised instead."""
        self.gate.set()
        until(lambda: bool(self.outcomes))
        self._threads.shutdown()
        return self.outcomes[0]

    def _finish(self, make_response: Callable[[], Any]) -> bool:
        try:
            self.outcomes.append(make_response())
        except BaseException as error:
            self.outcomes.append(error)
        return True
