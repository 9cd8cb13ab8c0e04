"""A call under way, whose response comes later."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import grpc

from xla_client.transport.errors import exception_of
from xla_contract.errors import CancelledError, DeadlineExceededError

M = TypeVar("M")


class Pending(Generic[M]):
    """A call under way, which `ends` at its deadline at the latest (`deadline_in`)."""

    def __init__(self, name: str, call: Any, ends: float) -> None:
        self._name = name
        self._call = call
        self._ends = ends

    def result(self, timeout: float | None = None) -> M:
        """Wait for the response; raises XlaError, DeadlineExceededError after `timeout` seconds.

        Running out of `timeout` leaves the call going.
        """
        try:
            response: M = self._call.result(timeout)
        except grpc.FutureTimeoutError:
            raise DeadlineExceededError(
                f"the answer must come within the time given, got none in {timeout} s",
                op=self._name,
            ) from None
        except grpc.FutureCancelledError:
            raise CancelledError(f"{self._name}: the caller cancelled the call") from None
        except grpc.RpcError as error:
            raise exception_of(self._name, error, self._ends) from None
        return response

    def done(self) -> bool:
        """Return whether the call has finished, successfully or not."""
        return bool(self._call.done())

    def cancel(self) -> bool:
        """Give the call up; False when it had finished before."""
        return bool(self._call.cancel())

    def add_done_callback(self, function: Callable[[], None]) -> None:
        """Call `function` once the call has finished, on a thread of the transport."""
        self._call.add_done_callback(lambda _: function())
