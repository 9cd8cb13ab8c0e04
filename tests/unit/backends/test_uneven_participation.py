"""Programs whose participants do not all reach a collective, on each platform."""

import threading
from typing import Any

import numpy as np
import pytest

from tests.corpus.grids import BACKENDS, module_of, run_per_device
from tests.corpus.hlo_programs import loop
from xla_contract.errors import (
    DeadlineExceededError,
    FailedPreconditionError,
    InvalidArgumentError,
    UnavailableError,
)
from xla_contract.types.devices.device_grid import DeviceGrid
from xla_server.execution.cancellation import Cancellation

GRID = DeviceGrid(1, 3)
X = np.ones(4, np.float32)
REDUCE = (
    "f32[4] all-reduce({}), channel_id=1, use_global_device_ids=true, "
    "replica_groups={{{{0,1,2}}}}, to_apply=add"
)
ADD = """add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }"""
PARTS = f"HloModule uneven\n{ADD}"
LOOP = loop("f32[4]", f"sum = {REDUCE.format('v')}\n  new = f32[4] copy(sum)", called=ADD)
BRANCHES = f"""{PARTS}
left {{ v = f32[4] parameter(0)
  ROOT left_sum = {REDUCE.format("v")} }}
right {{ v = f32[4] parameter(0)
  ROOT right_sum = {REDUCE.format("v")} }}
ENTRY e {{ x = f32[4] parameter(0)
  p = u32[] partition-id()
  zero = u32[] constant(0)
  first = pred[] compare(p, zero), direction=EQ
  ROOT r = f32[4] conditional(first, x, x), true_computation=left, false_computation=right }}
"""
FEED = f"""{PARTS}
waiting {{ v = f32[4] parameter(0)
  t = token[] after-all()
  i = (f32[4], token[]) infeed(t)
  ROOT g = f32[4] get-tuple-element(i), index=0 }}
passing {{ v = f32[4] parameter(0)
  ROOT c = f32[4] copy(v) }}
ENTRY e {{ x = f32[4] parameter(0)
  p = u32[] partition-id()
  one = u32[] constant(1)
  second = pred[] compare(p, one), direction=EQ
  y = f32[4] conditional(second, x, x), true_computation=waiting, false_computation=passing
  ROOT sum = {REDUCE.format("y")} }}
"""

either = pytest.mark.parametrize("platform", sorted(BACKENDS))


def run(platform: str, text: str, arguments: Any, **options: Any) -> Any:
    return run_per_device(platform, module_of(text, GRID), arguments, **options)


@either
def test_equal_numbers_of_trips_meet_each_time(platform: str) -> None:
    found = run(platform, LOOP, [[X, np.uint32(3)]] * 3)
    np.testing.assert_array_equal(np.array(found), np.full((3, 1, 4), 27, np.float32))


@either
def test_another_number_of_iterations_names_instruction_group_and_the_missing_participant(
    platform: str,
) -> None:
    arguments = [[X, np.uint32(3)], [X, np.uint32(2)], [X, np.uint32(3)]]
    with pytest.raises(
        FailedPreconditionError,
        match=r"^all-reduce %sum\S*: every participant of the group \{0,1,2\} must arrive, got "
        r"\{1\} ended without it$",
    ):
        run(platform, LOOP, arguments)


@either
def test_collectives_of_two_branches_do_not_meet(platform: str) -> None:
    with pytest.raises(
        FailedPreconditionError,
        match=r"^all-reduce %(left|right)_sum\S*: .* \{0,1,2\} must arrive, got all participants "
        r"waiting, .* at all-reduce %(left|right)_sum",
    ):
        run(platform, BRANCHES, [[X]] * 3)


@either
def test_a_participant_that_fails_is_the_error_of_all(platform: str) -> None:
    # No feed has anything for the second one.
    with pytest.raises((FailedPreconditionError, InvalidArgumentError), match=r"^infeed %i"):
        run(platform, FEED, [[X]] * 3)


class _Waiting:
    """A feed that never has an item."""

    def __init__(self) -> None:
        self.waits = threading.Event()

    def take_infeed(self, shape: Any, cancellation: Cancellation, *_: Any) -> Any:
        woken = threading.Event()
        cancellation.add_callback(woken.set)
        self.waits.set()
        assert woken.wait(100)
        cancellation.check()

    def put_outfeed(self, *_: Any) -> None:
        raise AssertionError


@either
def test_a_participant_that_never_comes_is_named_after_the_time(platform: str) -> None:
    with pytest.raises(
        DeadlineExceededError,
        match=r"^all-reduce %sum\S*: .* \{0,1,2\} must arrive within 0\.05 s, got none of \{.*1",
    ):
        run(platform, FEED, [[X]] * 3, timeout_seconds=0.05, feeds=_Waiting())


@either
def test_cancelling_ends_all(platform: str) -> None:
    cancellation, feeds = Cancellation(), _Waiting()

    def cancel() -> None:
        feeds.waits.wait(100)
        cancellation.cancel(UnavailableError("closing"))

    thread = threading.Thread(target=cancel)
    thread.start()
    with pytest.raises(UnavailableError, match="closing"):
        run(platform, FEED, [[X]] * 3, cancellation=cancellation, feeds=feeds)
    thread.join()
    found = run(platform, LOOP, [[X, np.uint32(1)]] * 3)
    np.testing.assert_array_equal(found[2][0], X * 3)
