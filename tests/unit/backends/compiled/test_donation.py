"""Arguments whose memory the caller of an execution gives up."""

from collections.abc import Callable, Collection

import numpy as np
import pytest

from tests.unit.codegen.compiled import CPU, built
from xla_client import ops
from xla_client.programs.builder import Op
from xla_contract.errors import InvalidArgumentError
from xla_contract.types.literal import Literal
from xla_server.backends.compiled.executable import CompiledExecutable
from xla_server.backends.host_buffer import HostBuffer
from xla_server.execution.execute_options import ExecuteOptions

X = np.arange(1000, dtype=np.float32)
DEVICE = CPU.devices[0]


def compiled(function: Callable[..., Op], *arguments: object) -> CompiledExecutable:
    module = built(function, arguments)
    executable = CPU.compile(module, module.entry_program_shape)
    assert isinstance(executable, CompiledExecutable)
    return executable


def execute(
    executable: CompiledExecutable, *arguments: HostBuffer, donated: Collection[int] = ()
) -> HostBuffer:
    output = executable.execute(
        arguments,
        device=DEVICE,
        options=ExecuteOptions(donated=donated),
    ).output
    assert isinstance(output, HostBuffer)
    return output


def written(array: object) -> HostBuffer:
    """A buffer that the server wrote, as results are."""
    return execute(compiled(lambda x: x + 0.0, array), placed(array))


def placed(array: object) -> HostBuffer:
    return CPU.to_device(Literal.from_numpy(array), DEVICE)


STEP = compiled(lambda x, y: x * 2.0 + y, X, X)


def test_a_result_is_written_where_a_donated_argument_was() -> None:
    argument = written(X)
    address = argument.address
    result = execute(STEP, argument, placed(X), donated=[0])
    assert result.address == address
    np.testing.assert_array_equal(result.value, 3 * X)


def test_steps_that_donate_what_the_step_before_gave_take_no_more_memory() -> None:
    state, other = written(X), placed(X)
    address = state.address
    for _ in range(3):
        state = execute(STEP, state, other, donated=[0])
        assert state.address == address
    np.testing.assert_array_equal(state.value, 15 * X)


def test_a_donated_argument_cannot_be_used_any_more() -> None:
    argument = written(X)
    execute(STEP, argument, placed(X), donated=[0])
    with pytest.raises(InvalidArgumentError, match="donated"):
        argument.to_literal()
    with pytest.raises(InvalidArgumentError, match="donated"):
        execute(STEP, argument, placed(X))


def test_memory_that_somebody_else_looks_at_is_not_written_over() -> None:
    argument = written(X)
    array = argument.value
    result = execute(STEP, argument, placed(X), donated=[0])
    np.testing.assert_array_equal(result.value, 3 * X)
    np.testing.assert_array_equal(array, X)


def test_an_argument_given_twice_is_not_written_over() -> None:
    argument = written(X)
    np.testing.assert_array_equal(execute(STEP, argument, argument, donated=[0]).value, 3 * X)


def test_arguments_from_the_client_are_not_written_over() -> None:
    kept = X.copy()
    literal = Literal.from_numpy(kept, copy=False)
    argument = CPU.to_device(literal, DEVICE)
    np.testing.assert_array_equal(execute(STEP, argument, placed(X), donated=[0]).value, 3 * X)
    np.testing.assert_array_equal(kept, X)


def test_a_parameter_that_is_needed_to_the_end_keeps_its_memory() -> None:
    turned = compiled(lambda x: ops.rev(x, [0]) + x, X)
    argument = written(X)
    np.testing.assert_array_equal(execute(turned, argument, donated=[0]).value, X[::-1] + X)


def test_elements_of_a_donated_tuple_are_given_up_one_by_one() -> None:
    pair = compiled(lambda x, y: ops.tuple([x + 1.0, y * 2.0]), X, X)
    first = execute(pair, written(X), written(X))
    elements = first.elements
    again = execute(pair, *elements, donated=[0, 1])
    assert [part.address for part in again.elements] != []
    np.testing.assert_array_equal(again.elements[0].value, X + 2)
    np.testing.assert_array_equal(again.elements[1].value, X * 4)
    with pytest.raises(InvalidArgumentError, match="donated"):
        elements[1].to_literal()


def test_without_donation_arguments_stay_as_they_are() -> None:
    argument = written(X)
    result = execute(STEP, argument, placed(X))
    assert result.address != argument.address
    np.testing.assert_array_equal(argument.value, X)


def test_the_memory_of_a_result_goes_with_its_buffer() -> None:
    """It goes at once, not when the garbage collector runs."""
    pair = compiled(lambda x, y: ops.tuple([x + 1.0, y * 2.0]), X, X)
    result = execute(pair, placed(X), placed(X))
    assert all(part.is_sole_owner for part in result.elements)


def test_what_another_execution_is_reading_is_not_written_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reader = compiled(lambda x: x * 3.0, X)
    argument = written(X)
    address = argument.address
    run = reader._program.run

    def with_a_donation_in_between(*given: object) -> object:
        result = execute(STEP, argument, placed(X), donated=[0])
        assert result.address != address
        return run(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(reader._program, "run", with_a_donation_in_between)
    np.testing.assert_array_equal(execute(reader, argument).value, X * 3)
    with pytest.raises(InvalidArgumentError, match="donated"):
        execute(reader, argument)
