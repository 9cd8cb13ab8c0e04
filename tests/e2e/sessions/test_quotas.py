"""Quotas of a session, over a real server: each refusal has the limit and the use."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xla_client as xc
from tests.e2e.feed_programs import COUNT, sink
from tests.e2e.process import serving, start_server
from tests.fault.plain import until
from tests.unit.sessions.sample_runs import DOUBLE, ONES, endless, program

FLAGS = {
    "session-device-bytes": 4000,
    "max-handles": 3,
    "feed-items": 2,
    "session-executions": 1,
    "session-launches": 2,
    "session-compile-seconds": 1000.0,
    "session-answer-bytes": 1 << 20,
}


server = serving(*(f"--{name}={value}" for name, value in FLAGS.items()))


def _too_many_bytes(client: xc.Client) -> None:
    kept = client.to_device(np.zeros(900, np.float32))
    client.to_device(np.zeros(200, np.float32))
    kept.delete()


def _too_many_handles(client: xc.Client) -> None:
    kept = [client.to_device(ONES) for _ in range(4)]
    kept.clear()


def _too_many_executables(client: xc.Client) -> None:
    kept = [client.compile(sink(steps)) for steps in range(1, 5)]
    kept.clear()


def _too_many_calls(client: xc.Client) -> None:
    loop = client.compile(endless())
    runs = [loop.submit(ONES)]
    until(lambda: client.describe().use.concurrent_executions)
    runs.append(loop(ONES))  # type: ignore[arg-type]


def _too_many_launches(client: xc.Client) -> None:
    loop = client.compile(endless())
    runs = [loop.submit(ONES) for _ in range(3)]
    runs.clear()


@pytest.mark.parametrize(
    ("exceed", "reported"),
    [
        (_too_many_bytes, r"a session may take 4000 bytes.*800.*3600 in use"),
        (_too_many_handles, "may have 3 data handles, got 1 more with 3"),
        (_too_many_executables, "may have 3 executable handles, got 1 more with 3"),
        (_too_many_calls, "may have 1 executions at the same time, got one more with 1 there"),
        (_too_many_launches, "may have 2 executions that .* got one more with 2 there"),
    ],
)
def test_a_limit_is_reported_with_the_use(
    address: str, exceed: Callable[[xc.Client], Any], reported: str
) -> None:
    with xc.connect(address, timeout=30) as client, xc.connect(address, timeout=30) as other:
        with pytest.raises(xc.ResourceExhaustedError, match=reported):
            exceed(client)
        # It is the session's own.
        assert other.to_device(ONES).to_numpy().tolist() == ONES.tolist()


def test_a_queue_has_capacity_for_so_many_and_says_so(address: str) -> None:
    with xc.connect(address, timeout=30) as client:
        for number in range(2):
            client.device().to_infeed(np.int32(number))
        with pytest.raises(xc.DeadlineExceededError):
            client.device().to_infeed(np.int32(2), timeout=0.2)
        state = client.device().feeds().infeed
        assert (state.items, state.max_items) == (2, 2)
        assert client.describe().use.queued_items == 2
        run = client.compile(sink(2)).submit()
        with client.device().infeed(COUNT) as feed:
            feed.flush()
        run.result(100)


def test_what_a_session_may_have_is_what_the_operator_said(address: str) -> None:
    with xc.connect(address, timeout=30) as client:
        quotas = client.describe().quotas
        assert (
            quotas.device_bytes,
            quotas.handles,
            quotas.queued_items,
            quotas.concurrent_executions,
            quotas.launched_executions,
            quotas.compile_seconds,
            quotas.answer_bytes,
        ) == tuple(FLAGS.values())


def test_time_to_compile_is_reported_with_its_use(tmp_path: Any) -> None:
    flags = ("--platform", "interpreter", "--session-compile-seconds", "1e-6")
    with start_server(tmp_path, *flags) as server, xc.connect(server.address) as client:
        double = client.compile(program(DOUBLE))
        reported = r"may compile for 1e-06 s within an hour, got another program after \d"
        with pytest.raises(xc.ResourceExhaustedError, match=reported):
            client.compile(sink(1))
        np.testing.assert_array_equal(double.run(ONES), 2 * ONES)
