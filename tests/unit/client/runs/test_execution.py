"""Runs under way: waiting, cancelling, deadlines, and their reports."""

import asyncio
import concurrent.futures
import math
import threading
from typing import Any

import numpy as np
import pytest

import xla_client as xc
from tests.fault.plain import until
from tests.unit.client.small_programs import ONES, VECTOR, add, double, endless, pair
from xla_client.runs import execution
from xla_client.runs.execution import ExecutionProfile, adopted_buffers
from xla_contract.errors import (
    CancelledError,
    DeadlineExceededError,
    InvalidArgumentError,
    NotFoundError,
    UnimplementedError,
)
from xla_contract.stubs import xla_data_pb2
from xla_contract.stubs import xla_extension_pb2 as extension_pb2
from xla_contract.stubs.xla_extension_pb2 import CAPABILITY_DESCRIBE_HANDLES
from xla_contract.types.shape import Shape
from xla_contract.wire.shape_proto import shape_to_proto


def test_a_profile_is_read_field_by_field() -> None:
    names = list(ExecutionProfile.__dataclass_fields__)
    message = xla_data_pb2.ExecutionProfile(
        compilation_cache_hit=True, **{name: number for number, name in enumerate(names[1:])}
    )
    profile = ExecutionProfile.from_proto(message)
    assert [getattr(profile, name) for name in names] == [True, *range(len(names) - 1)]
    assert ExecutionProfile.from_proto(xla_data_pb2.ExecutionProfile()) == ExecutionProfile()


def test_a_result_is_waited_for_by_anybody(either: xc.Client) -> None:
    run = either.compile(double()).submit(ONES)
    result: Any = run.result(timeout=100)
    np.testing.assert_array_equal(result.to_numpy(), 2 * ONES)
    assert run.result() is result
    assert run.done()
    assert run.future() is run.future()
    assert run.profile.compute_time_ns > 0

    async def wait() -> Any:
        return await run

    assert asyncio.run(wait()).handle == result.handle
    done, _ = concurrent.futures.wait([run.future()], timeout=30)
    assert done == {run.future()}


def test_whether_a_run_is_done_is_right_at_the_first_call(client: xc.Client) -> None:
    run = client.compile(double()).submit(ONES)
    until(lambda: client.describe().use.launched_executions == 0)
    assert run.done()
    endless_run = client.compile(endless()).submit(ONES)
    assert not endless_run.done()
    assert not endless_run.done()
    endless_run.cancel()


def test_a_server_that_cannot_describe_is_waited_for(client: xc.Client, monkeypatch: Any) -> None:
    transport = client._session.transport
    without = transport.capabilities - {CAPABILITY_DESCRIBE_HANDLES}
    monkeypatch.setattr(transport, "capabilities", without)
    monkeypatch.setattr(execution, "_ANSWER_SECONDS", 30)
    run = client.compile(double()).submit(ONES)
    assert run.done()


def test_tuples_come_apart(either: xc.Client) -> None:
    run = either.compile(pair()).submit(ONES)
    values = [each.to_numpy() for each in run.result()]  # type: ignore[union-attr]
    np.testing.assert_array_equal(values, (ONES, 2 * ONES))
    assert len(run.buffers) == 2  # type: ignore[arg-type]


def test_results_are_arguments_before_they_are_there(either: xc.Client) -> None:
    twice, plus = either.compile(double()), either.compile(add())
    first = twice.submit(ONES)
    second = twice.submit(first)
    both = plus.submit(first.buffers, second)
    np.testing.assert_array_equal(both.result().to_numpy(), 6 * ONES)  # type: ignore[union-attr]


def test_who_waits_too_long_leaves_the_run_going(either: xc.Client) -> None:
    run = either.compile(endless()).submit(ONES)
    with pytest.raises(
        DeadlineExceededError, match=r"within the time given, got none in 0\.05 s"
    ) as caught:
        run.result(timeout=0.05)
    assert caught.value.op == "WaitForExecution"
    assert not run.done()
    assert run.cancel()
    with pytest.raises(CancelledError):
        run.result(timeout=100)
    assert run.done()
    assert not run.cancel()
    with pytest.raises(CancelledError):
        run.profile  # noqa: B018


def test_a_result_may_be_waited_for_without_end(client: xc.Client) -> None:
    run = client.compile(endless()).submit(ONES, timeout=math.inf)
    stop = threading.Timer(0.05, run.cancel)
    stop.start()
    with pytest.raises(CancelledError):
        run.result(math.inf)
    stop.join()


def test_cancelling_the_future_stops_the_run(client: xc.Client) -> None:
    run = client.compile(endless()).submit(ONES)
    assert run.future().cancel()
    with pytest.raises(CancelledError):
        run.future().result(timeout=100)
    until(lambda: client.describe().use.launched_executions == 0)
    assert not run.future().cancel()


def test_a_future_outlives_its_run(client: xc.Client) -> None:
    run = client.compile(endless()).submit(ONES)
    future = run.future()
    run.cancel()
    with pytest.raises(CancelledError):
        future.result(timeout=100)
    del run
    # The execution is over, so it cannot be stopped.
    assert not future.cancel()


def test_a_deadline_is_the_runs_own(either: xc.Client) -> None:
    run = either.compile(endless()).submit(ONES, timeout=0.1)
    with pytest.raises(DeadlineExceededError):
        run.result(timeout=100)


def test_the_server_stops_what_has_run_too_long(client: xc.Client) -> None:
    run = client.compile(endless()).submit(ONES, timeout=0.1)
    until(lambda: client.describe().use.launched_executions == 0)
    with pytest.raises(DeadlineExceededError):
        run.result(timeout=100)


def test_an_error_is_delivered_to_all_waiters(client: xc.Client) -> None:
    run = client.compile(endless()).submit(ONES)
    after = client.compile(double()).submit(run)
    run.cancel()
    for each in (run, after):
        with pytest.raises(CancelledError):
            each.result(timeout=100)

    async def wait() -> None:
        await after

    with pytest.raises(CancelledError):
        asyncio.run(wait())


def test_a_run_is_named_for_a_client_that_reconnects(
    client: xc.Client, plain_client: xc.Client
) -> None:
    run = client.compile(double()).submit(ONES)
    again = client.adopt_execution(run.handle)
    np.testing.assert_array_equal(again.result().to_numpy(), 2 * ONES)  # type: ignore[union-attr]
    handle = run.handle
    with pytest.raises(NotFoundError):
        client.adopt_execution(handle)
    plain = plain_client.compile(double()).submit(ONES)
    with pytest.raises(
        UnimplementedError, match=r"able to launch executions .*got one that cannot"
    ):
        plain.handle  # noqa: B018


@pytest.mark.parametrize(
    ("results", "kept", "is_whole"),
    [
        (["f32[4]{0}"], [["f32[4]{0}"]], True),
        (["(f32[4]{0}, s32[])"], [["f32[4]{0}", "s32[]"]], False),
        # A tuple of one is spread, a tuple that holds tuples is not.
        (["(f32[4]{0})"], [["f32[4]{0}"]], False),
        (["((f32[4]{0}))"], [["((f32[4]{0}))"]], True),
        (["()"], [[]], False),
        (["f32[4]{0}", "f32[4]{0}"], [["f32[4]{0}"], ["f32[4]{0}"]], False),
    ],
)
def test_what_was_launched_is_adopted_as_it_was_given(
    client: xc.Client, results: list[str], kept: list[list[str]], is_whole: bool
) -> None:
    description = extension_pb2.ExecutionDescription()
    number = 1000
    for result, parts in zip(results, kept, strict=True):
        step = description.steps.add(
            result=shape_to_proto(Shape.parse(result).with_default_layout())
        )
        for part in parts:
            step.outputs.add(handle=number)
            step.shapes.add().CopyFrom(shape_to_proto(Shape.parse(part).with_default_layout()))
            number += 1
    found = adopted_buffers(client._session, description)
    assert isinstance(found, tuple) is not is_whole
    buffers = found if isinstance(found, tuple) else (found,)
    assert [each.handle for each in buffers] == list(range(1000, number))
    assert [each.shape for each in buffers] == [
        Shape.parse(part).with_default_layout() for parts in kept for part in parts
    ]
    for each in buffers:
        each.give_up(is_freed=True)


def test_unused_results_are_freed(either: xc.Client, plain_client: xc.Client) -> None:
    run = either.compile(double()).submit(ONES)
    run.future().result(timeout=100)
    del run

    def is_free() -> bool:
        either.free_unused()
        return either.target == plain_client.target or either.describe().values == ()

    # The thread that has set the result lets go of the run a moment later.
    until(is_free)


def test_arguments_live_until_the_call_has_ended(plain_client: xc.Client) -> None:
    argument = plain_client.to_device(ONES)
    run = plain_client.compile(endless()).submit(argument)
    handle = argument.handle
    del argument
    plain_client.free_unused()
    assert plain_client.adopt(handle).shape == VECTOR.with_default_layout()
    run.cancel()
    until(run.done)
    plain_client.free_unused()
    with pytest.raises(InvalidArgumentError, match="unregistered"):
        plain_client.adopt(handle)
