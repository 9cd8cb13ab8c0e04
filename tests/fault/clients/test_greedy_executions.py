"""One client keeps all threads and the core busy, and another one has its part of them.

The server has one core and one thread for calls of Execute, so that there is nothing else to have.
"""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xla_client as xc
from tests.e2e.fixed_port import FixedPort
from tests.e2e.process import start_server
from tests.fault.plain import Plain, until
from xla_client import Builder, Shape, ops
from xla_contract.stubs import xla_extension_pb2 as extension_pb2
from xla_contract.stubs import xla_pb2

GREEDY = 24
"""Programs of the greedy client."""
LONG = 12_000
"""Iterations of a loop that take well over a second: what is younger runs beside others."""
SHORT = 100
"""Iterations that take less time than a thread is kept for one program."""


def loop(iterations: int) -> xc.Computation:
    """Count up to `iterations` and sum a vector each time."""
    state = Shape.parse("(s32[], f32[4096])")
    condition, body, builder = Builder("condition"), Builder("body"), Builder("loop")
    count = ops.get_tuple_element(condition.parameter(0, state), 0)
    test = condition.build(ops.lt(count, iterations))
    pair = body.parameter(0, state)
    count, value = (ops.get_tuple_element(pair, number) for number in (0, 1))
    step = body.build(ops.tuple([ops.add(count, 1), ops.sin(value)]))
    start = [builder.constant(np.int32(0)), builder.constant(np.ones(4096, np.float32))]
    end = ops.while_(test, step, ops.tuple(start))
    return builder.build(ops.get_tuple_element(end, 0))


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    flags = ["--platform=interpreter", "--execute-threads=1", "--listen=0.0.0.0:0"]
    mine = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(mine)})
    try:
        started = contextlib.ExitStack()
        server = started.enter_context(start_server(tmp_path, *flags, forked=False))
    finally:
        os.sched_setaffinity(0, mine)
    with started:
        yield int(server.ready["addresses"][-1].rpartition(":")[2])


def _compiled(connection: Plain, iterations: int) -> tuple[Plain, Any]:
    """A session of its own, and the request to execute a loop there."""
    session = connection.also()
    return session, xla_pb2.ExecuteRequest(handle=session.compile(loop(iterations)))


def _begin(session: Plain, request: Any, count: int) -> list[Any]:
    """Begin as many executions of one program."""
    return [session.begin("Execute", request) for _ in range(count)]


def _done(calls: list[Any]) -> int:
    return sum(call.done() for call in calls)


@contextlib.contextmanager
def _two(port: int, other_host: bool) -> Iterator[tuple[Plain, Plain]]:
    """Two connections, the second one maybe from another host."""
    relay = FixedPort("127.0.0.1", port, ("127.0.0.2", 0)) if other_host else None
    with contextlib.ExitStack() as stack:
        addresses = [f"127.0.0.1:{port}", relay.address if relay else f"127.0.0.1:{port}"]
        both = [Plain(address, token="") for address in addresses]
        for each in (*both, *([relay] if relay else [])):
            stack.callback(each.close)
        yield both[0], both[1]


@pytest.mark.parametrize("other_host", [False, True], ids=["connection", "host"])
def test_programs_of_one_client_leave_half_of_a_core_to_another_one(
    port: int, other_host: bool
) -> None:
    with _two(port, other_host) as (greedy, modest):
        # Both are compiled before, so that only executions compete.
        long_run = _compiled(modest, LONG)
        session, request = _compiled(greedy, LONG // 8)
        runs = _begin(session, request, GREEDY)
        until(lambda: session.executions()[0] == GREEDY or _done(runs) > 0)
        (run,) = _begin(*long_run, 1)
        run.result()
        # In turns of single programs all of them, each an eighth as long, would have ended first.
        assert _done(runs) <= GREEDY * 2 // 3


@pytest.mark.parametrize("other_host", [False, True], ids=["connection", "host"])
def test_calls_of_one_client_that_wait_for_a_thread_leave_the_next_one_to_another_one(
    port: int, other_host: bool
) -> None:
    with _two(port, other_host) as (greedy, modest):
        # Compile the program first, which takes threads of another pool.
        session, request = _compiled(modest, SHORT)
        session("Execute", request)
        runs = _begin(*_compiled(greedy, SHORT), 4 * GREEDY)
        # A call behind them on their connection has been answered, so they are there.
        greedy("OpenSession", extension_pb2.OpenSessionRequest())
        session("Execute", request)
        assert _done(runs) < 3 * GREEDY
        for each in runs:
            each.result()
