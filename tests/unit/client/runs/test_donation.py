"""Programs whose module says which arguments it gives up."""

from typing import Any

import numpy as np
import pytest

import xla_client as xc
from tests.unit.client.small_programs import ONES, add
from xla_client.runs.donation import donated_in_steps, donated_parameters
from xla_client.runs.step_result import StepResult
from xla_contract.errors import InvalidArgumentError
from xla_contract.stubs import hlo_pb2


def giving_up_the_first(kind: str = "input_output_alias") -> xc.Computation:
    proto = add().proto
    getattr(proto, kind).entries.add(parameter_number=0)
    return xc.Computation.from_proto(proto)


def test_a_part_of_a_tuple_is_not_given_up_by_itself() -> None:
    module = hlo_pb2.HloModuleProto()
    module.input_output_alias.entries.add(parameter_number=2)
    module.input_output_alias.entries.add(parameter_number=1, parameter_shape_index=[0])
    module.buffer_donor.entries.add(parameter_number=3)
    assert donated_parameters(module) == {2, 3}


@pytest.mark.parametrize("kind", ["input_output_alias", "buffer_donor"])
@pytest.mark.parametrize("how", ["call", "run", "submit"])
def test_the_argument_is_gone_and_its_memory_is_free(
    client: xc.Client, kind: str, how: str
) -> None:
    run = client.compile(giving_up_the_first(kind))
    first, second = client.to_device(ONES), client.to_device(2 * ONES)
    result: Any
    if how == "call":
        result = run(first, second)
    elif how == "run":
        result = run.run(first, second)
    else:
        result = run.submit(first, second).result()
    np.testing.assert_array_equal(np.asarray(result), 3 * ONES)
    assert first.is_deleted
    assert not second.is_deleted
    with pytest.raises(InvalidArgumentError, match="got the deleted") as caught:
        run(first, second)
    assert "donated" in caught.value.hint
    # `second` and a result that stays: what was given up takes nothing.
    assert client.describe().use.device_bytes == (16 if how == "run" else 32)


def test_what_is_not_to_be_given_up_stays(client: xc.Client) -> None:
    run = client.compile(giving_up_the_first())
    first = client.to_device(ONES)
    run(first, ONES, donate=())
    # Twice the same: jax refuses it, here it stays.
    np.testing.assert_array_equal(run.run(first, first), 2 * ONES)
    run.run_batch([(first, ONES), (first, ONES)])
    steps = client.pipeline()
    steps.fetch(steps.call(run, first, ONES, donate=()))
    steps.fetch(steps.call(run, first, first))
    steps.run()
    assert not first.is_deleted
    # Arrays of the caller are copied, and stay as they are.
    np.testing.assert_array_equal(run.run(ONES, ONES), 2 * ONES)


@pytest.mark.parametrize("is_able", [True, False], ids=["batch", "calls"])
def test_a_batch_gives_up_what_it_has_once(client: xc.Client, is_able: bool) -> None:
    if not is_able:
        client._session.transport.capabilities = frozenset()
    run = client.compile(giving_up_the_first())
    alone, twice, other = (client.to_device(number * ONES) for number in (1, 2, 3))
    results = run.run_batch([(alone, ONES), (twice, other), [twice, twice]])
    np.testing.assert_array_equal(results, [2 * ONES, 5 * ONES, 4 * ONES])
    assert alone.is_deleted
    assert not twice.is_deleted
    assert not other.is_deleted
    with pytest.raises(InvalidArgumentError, match="got the deleted"):
        run.run_batch([(alone, ONES)])
    # An execution and its buffers are the same argument.
    once, again = (run.submit(number * ONES, ONES) for number in (1, 2))
    results = run.run_batch([(once, ONES), (again, ONES), (again.buffers, ONES)])
    np.testing.assert_array_equal(results, [3 * ONES, 4 * ONES, 4 * ONES])
    assert (once.buffers.is_deleted, again.buffers.is_deleted) == (True, False)


@pytest.mark.parametrize("is_able", [True, False], ids=["one run", "calls"])
@pytest.mark.parametrize("how", ["run", "submit"])
def test_a_pipeline_gives_up_what_no_later_step_reads(
    client: xc.Client, how: str, is_able: bool
) -> None:
    if not is_able:
        client._session.transport.capabilities = frozenset()
    run = client.compile(giving_up_the_first())
    state, rest = client.to_device(ONES), client.to_device(10 * ONES)
    steps = client.pipeline()
    once = steps.call(run, state, rest)
    # It was read before and is given up here; the step's result is, in the one after.
    again = steps.call(run, state, once)
    kept = steps.call(run, once, again)
    # A value that is kept, or read later, is not given up.
    steps.keep(kept)
    steps.keep(steps.call(run, kept, rest))
    results = steps.run() if how == "run" else steps.submit().result()
    np.testing.assert_array_equal([each.to_numpy() for each in results], [23 * ONES, 33 * ONES])
    assert state.is_deleted
    assert not rest.is_deleted
    client.free_unused()
    assert client.describe().use.device_bytes == 48


def test_a_value_is_read_where_a_part_of_it_is_and_where_it_is_a_part() -> None:
    pair = xc.Shape.parse("(f32[4], f32[4])")
    pipeline: Any = None
    whole = StepResult(pipeline, 0, pair)
    left, right = whole
    every = {0, 1, 2}
    assert donated_in_steps([((), []), (every, [whole]), (every, [left])], []) == [(), (), (0,)]
    assert donated_in_steps([((), []), (every, [left]), (every, [whole])], []) == [(), (), (0,)]
    assert donated_in_steps([((), []), (every, [left, ONES, right])], []) == [(), (0, 2)]
    assert donated_in_steps([((), []), (every, [left, whole, right])], []) == [(), ()]
    assert donated_in_steps([((), []), (every, [left, right])], [whole]) == [(), ()]
    assert donated_in_steps([((), []), (every, [left, right])], [left]) == [(), (1,)]
    assert donated_in_steps([((), []), ((), [left, right])], []) == [(), ()]


def test_a_loop_of_a_training_program_keeps_one_state(client: xc.Client) -> None:
    run = client.compile(giving_up_the_first())
    state = client.to_device(ONES)
    for _ in range(5):
        state = run(state, ONES)
    np.testing.assert_array_equal(state.to_numpy(), 6 * ONES)
    assert client.describe().use.device_bytes == 16
