import pytest

from xla_contract.errors import CancelledError, DeadlineExceededError, UnavailableError
from xla_server.rpc.calls.active_calls import ActiveCalls


class Context:
    def __init__(self, *, is_over: bool = False, remaining: float | None = 10.0) -> None:
        self.callbacks = []
        self._is_over = is_over
        self._remaining = remaining

    def add_callback(self, callback) -> bool:
        if not self._is_over:
            self.callbacks.append(callback)
        return not self._is_over

    def time_remaining(self) -> float | None:
        return self._remaining


@pytest.mark.parametrize(
    ("remaining", "error"),
    [(10.0, CancelledError), (None, CancelledError), (0.0, DeadlineExceededError)],
)
@pytest.mark.parametrize("is_over", [False, True])
def test_a_client_that_is_gone_cancels_its_call(remaining, error, is_over):
    context = Context(is_over=is_over, remaining=remaining)
    with ActiveCalls().running(context) as cancellation:
        assert cancellation.is_cancelled == is_over
        for callback in context.callbacks:
            callback()
        with pytest.raises(error):
            cancellation.check()


def test_ending_all_calls_ends_those_to_come():
    calls = ActiveCalls()
    with calls.running(Context()) as first:
        assert len(calls) == 1
        calls.cancel_all()
        with pytest.raises(UnavailableError):
            first.check()
    assert len(calls) == 0
    with calls.running(Context()) as second, pytest.raises(UnavailableError):
        second.check()
