import pytest

from xla_contract.errors import AbortedError
from xla_contract.types.literal import Literal
from xla_contract.types.shape import Shape
from xla_server.backends.interpreter import Interpreter
from xla_server.execution.completion import Completion
from xla_server.sessions.values.futures import ValueFuture, ValuePendingError

SHAPE = Shape.parse("f32[]").with_default_layout()


def test_a_completion_calls_everybody_once() -> None:
    completion, called = Completion(), list[str]()
    completion.when_done(lambda: called.append("first"))
    completion.when_done(lambda: called.append("taken back"))()
    assert completion.finish()
    assert not completion.finish()
    completion.when_done(lambda: called.append("late"))
    assert called == ["first", "late"]


def test_a_value_is_awaited_until_it_is_set() -> None:
    platform = Interpreter()
    value, called = ValueFuture(SHAPE), list[int]()
    with pytest.raises(ValuePendingError) as caught:
        value.result()
    caught.value.awaited.when_done(lambda: called.append(1))
    buffer = platform.to_device(Literal.from_numpy(1.0), platform.devices[0])
    value.buffer = buffer
    assert not called
    value.finish()
    assert called == [1]
    assert value.result() is buffer


def test_each_user_gets_an_error_of_its_own() -> None:
    value = ValueFuture(SHAPE)
    value.fail(AbortedError("it did not go well", op="add", hint="Try."))
    raised = []
    for _ in range(2):
        with pytest.raises(AbortedError, match="go well") as caught:
            value.result()
        raised.append(caught.value)
    assert raised[0] is not raised[1]
    assert raised[1].hint == "Try."
