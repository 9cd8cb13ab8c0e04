"""A call as handlers see it."""

from collections.abc import Callable
from typing import Any

import grpc


class Context:
    """The part of grpc's context that handlers use, for a call that a test ends."""

    def __init__(self) -> None:
        self.callbacks: list[Callable[[], None]] | None = []
        self.status: grpc.Status | None = None
        self.code: grpc.StatusCode | None = None

    def peer(self) -> str:
        return "ipv4:127.0.0.1:1"

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        return ()

    def time_remaining(self) -> None:
        return None

    def add_callback(self, callback: Callable[[], None]) -> bool:
        if self.callbacks is None:
            return False
        self.callbacks.append(callback)
        return True

    def abort_with_status(self, status: grpc.Status) -> None:
        self.status = status
        raise RuntimeError("aborted")

    def set_code(self, code: grpc.StatusCode) -> None:
        self.code = code

    def set_details(self, details: str) -> None: ...

    def set_trailing_metadata(self, metadata: Any) -> None: ...

    def end(self) -> None:
        callbacks, self.callbacks = self.callbacks, None
        for callback in callbacks or ():
            callback()
