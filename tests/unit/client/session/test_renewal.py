"""A server that is started again, or ends a session, under the clients it has."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import xla_client as xc
from tests.e2e.feed_programs import COUNT, relay
from tests.e2e.fixed_port import free_port
from tests.fault.plain import until
from tests.in_threads import in_threads
from tests.unit.client.conftest import MIB, _sessions
from tests.unit.client.small_programs import ONES, add, double, endless, pair
from xla_client.transfers import chunked
from xla_client.transport.errors import cut_off
from xla_contract.errors import (
    LostError,
    NotBegunError,
    SessionEndedError,
    UnauthenticatedError,
    UnavailableError,
)
from xla_server.rpc.server import RpcOptions, serving
from xla_server.sessions.session_registry import SessionRegistry


class Server:
    """A server of this process that can be started again at its address."""

    def __init__(self) -> None:
        self.address = f"127.0.0.1:{free_port()}"
        self.sessions: SessionRegistry
        self._running = contextlib.ExitStack()

    def start(self) -> None:
        self.sessions = _sessions(shared_memory_bytes=32 * MIB)
        options = RpcOptions(listen=(self.address,))
        self._running.enter_context(serving(self.sessions, options))

    def stop(self) -> None:
        self._running.close()

    def restart(self) -> None:
        self.stop()
        self.start()


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    running = Server()
    running.start()
    yield running
    running.stop()


@pytest.fixture
def client(server: Server) -> Iterator[xc.Client]:
    with xc.connect(server.address) as connected:
        yield connected


LOST = r"present session, got {}, which was lost when the server at \S+ was started again"


def lost(what: str) -> Any:
    return pytest.raises(LostError, match=LOST.format(what))


def test_executables_go_on_and_values_are_named_as_lost(
    server: Server, client: xc.Client, caplog: pytest.LogCaptureFixture
) -> None:
    twice, plus, both = client.compile(double()), client.compile(add()), client.compile(pair())
    kept, other = client.to_device(ONES), client.to_device(ONES)
    handle = twice.handle
    server.restart()
    with caplog.at_level(logging.WARNING):
        np.testing.assert_array_equal(twice.run(ONES), 2 * ONES)
    (record,) = [each for each in caplog.records if each.name == "xla_client"]
    assert "was started again: there is another session, and what" in record.getMessage()
    assert twice.handle != handle
    calls: list[tuple[str, Callable[[], object]]] = [
        ("argument 0: ", lambda: twice.run(kept)),
        ("argument 0: ", lambda: twice(kept)),
        ("argument 1: ", lambda: plus(ONES, kept)),
        ("argument 1: ", lambda: plus.run(ONES, kept, donate=(1,))),
        ("argument 0: ", lambda: both.submit(kept)),
        ("", kept.to_numpy),
        ("", lambda: np.asarray(kept)),
    ]
    for place, call in calls:
        with lost(r"a value of f32\[4\]\{0\}") as caught:
            call()
        assert caught.value.message.startswith(place or "what a call")
        assert "Make it anew" in caught.value.hint
    assert kept.is_lost
    kept.delete()
    other.delete()
    again = client.to_device(ONES)
    assert not again.is_lost
    np.testing.assert_array_equal(plus.run(ONES, again), 2 * ONES)
    np.testing.assert_array_equal([one.to_numpy() for one in both(again)], [ONES, 2 * ONES])
    # One session, and of the last one nothing is left to be freed.
    assert len(server.sessions) == 1
    client.free_unused()


def test_functions_of_jax_go_on_with_the_arrays_that_they_close_over(
    server: Server, client: xc.Client
) -> None:
    matrix = np.ones((4, 1 << 13), np.float32)
    widen = client.jit(lambda x: x @ matrix)
    kept = widen(ONES)
    server.restart()
    assert widen(ONES).to_numpy().sum() == 4 * (1 << 13)
    server.restart()
    assert widen.submit(ONES).result().to_numpy().sum() == 4 * (1 << 13)
    with lost(r"a value of f32\[8192\]\{0\}"):
        client.jit(lambda x: matrix @ x)(kept)


FIRST: list[Callable[[xc.Client], object]] = [
    lambda client: client.compile(double()),
    lambda client: client.to_device(ONES),
    lambda client: client.describe(),
    lambda client: client.device().feeds(),
    lambda client: client.device().to_infeed(ONES),
    lambda client: client.execute(double(), ONES),
    lambda client: client.reset_device(),
]


def _repeated(call: Callable[[xc.Client], object], client: xc.Client) -> None:
    """Make a call; repeat it while grpc is not connected."""
    while True:
        with contextlib.suppress(NotBegunError):
            call(client)
            return


def test_a_call_that_met_no_server_goes_on_when_it_is_repeated(
    server: Server, client: xc.Client
) -> None:
    server.stop()
    with pytest.raises(NotBegunError, match="Connection refused"):
        client.compile(double())
    server.start()
    _repeated(lambda client: client.compile(double()), client)
    assert len(server.sessions) == 1


def test_whatever_comes_first_goes_on(server: Server, client: xc.Client) -> None:
    kept = []
    for call in FIRST:
        # An answer on the stream of calls: one that meets the stop connects while none listens.
        kept.append(client.to_device(ONES))
        server.restart()
        call(client)
        assert len(server.sessions) == 1


@pytest.mark.parametrize("shared", [True, False])
def test_large_values_go_on(server: Server, shared: bool, monkeypatch: Any) -> None:
    monkeypatch.setattr(chunked, "THRESHOLD", MIB)
    large = np.arange(2 * MIB, dtype=np.float32)
    with xc.connect(server.address, shared_memory=shared) as client:
        before = client.to_device(large)
        fetched = before.to_numpy()
        server.restart()
        with lost(r"a value of f32\[2097152\]\{0\}"):
            # The first caller gets the end from the server.
            before.to_numpy()
        np.testing.assert_array_equal(client.to_device(large).to_numpy(), large)
        # What had come stays.
        np.testing.assert_array_equal(fetched, large)
        server.restart()
        np.testing.assert_array_equal(client.to_device(large).to_numpy(), large)


def test_runs_under_way_are_lost_and_others_begin(server: Server, client: xc.Client) -> None:
    twice, forever = client.compile(double()), client.compile(endless())
    ended, going = twice.submit(ONES), forever.submit(ONES)
    until(lambda: client.describe().use.launched_executions == 1)
    server.restart()
    with lost("a run"):
        going.result(100)
    assert going.done()
    assert not going.cancel()
    with lost("a run"):
        ended.result(100)
    with lost(r"a value of f32\[4\]\{0\}"):
        twice.submit(ended)
    np.testing.assert_array_equal(np.asarray(twice.submit(ONES).result()), 2 * ONES)
    server.restart()
    np.testing.assert_array_equal(np.asarray(twice.submit(ONES).result()), 2 * ONES)


def test_a_recorded_pipeline_runs_in_the_new_session(server: Server, client: xc.Client) -> None:
    twice, plus = client.compile(double()), client.compile(add())
    kept = client.to_device(ONES)

    def recorded(argument: Any) -> xc.Pipeline:
        steps = client.pipeline()
        first = steps.call(twice, ONES)
        steps.fetch(steps.call(plus, first, argument))
        return steps

    def submitted() -> xc.Pipeline:
        steps = client.pipeline()
        steps.keep(steps.call(twice, ONES))
        return steps

    runs, waits, fails, begins = recorded(ONES), recorded(ONES), recorded(kept), submitted()
    server.restart()
    np.testing.assert_array_equal(runs.run()[0], 3 * ONES)
    np.testing.assert_array_equal(asyncio.run(waits.arun())[0], 3 * ONES)
    np.testing.assert_array_equal(begins.submit().result()[0].to_numpy(), 2 * ONES)  # type: ignore[index, union-attr]
    with lost(r"a value of f32\[4\]\{0\}") as caught:
        fails.run()
    assert caught.value.message.startswith("step 1 (add): ")
    waits, begins = recorded(ONES), submitted()
    server.restart()
    np.testing.assert_array_equal(asyncio.run(waits.arun())[0], 3 * ONES)
    server.restart()
    np.testing.assert_array_equal(begins.submit().result()[0].to_numpy(), 2 * ONES)  # type: ignore[index, union-attr]


def test_feeds_are_lost_and_new_ones_begin(server: Server, client: xc.Client) -> None:
    program, device = client.compile(relay(2)), client.device()
    running = program.submit()
    into, out = device.infeed(COUNT), device.outfeed()
    into.put(1)
    assert out.get() == 1
    server.restart()
    with lost("a feed"):
        out.get(timeout=60)

    def go_on() -> None:
        into.put(2)
        into.flush(timeout=60)

    with lost("a feed"):
        go_on()
    server.restart()
    # A feed may be what comes first.
    with device.infeed(COUNT) as feed:
        feed.send([3, 4])
    with lost("a run"):
        running.result(100)
    server.restart()
    assert device.outfeed().close_queue() == 0
    server.restart()
    device.outfeed().drain()
    with device.infeed(COUNT) as feed:
        feed.send([3, 4])
    again = program.submit()
    assert [int(value) for value in device.outfeed(count=2)] == [3, 4]
    again.result(100)


def test_coroutines_go_on(server: Server, client: xc.Client) -> None:
    twice, kept = client.compile(double()), client.to_device(ONES)

    async def work() -> list[Any]:
        runs = [twice.arun(number * ONES) for number in range(5)]
        return await asyncio.gather(*runs, twice.arun(kept), return_exceptions=True)

    for _ in range(2):
        server.restart()
        *found, failed = asyncio.run(work())
        np.testing.assert_array_equal(found, [2 * number * ONES for number in range(5)])
        assert isinstance(failed, LostError)
        assert len(server.sessions) == 1
    server.restart()
    with lost(r"a value of f32\[4\]\{0\}"):
        asyncio.run(kept.ato_numpy())
    server.restart()
    fetched = asyncio.run(client.ato_device(ONES)).to_numpy()
    np.testing.assert_array_equal(fetched, ONES)
    server.restart()
    assert asyncio.run(client.acompile(double())).name == "double"


def test_threads_share_one_new_session(server: Server, client: xc.Client) -> None:
    twice = client.compile(double())
    server.restart()

    def run(_: int) -> Any:
        try:
            return twice.run(ONES)
        except (UnavailableError, LostError):
            # It was on its way when the old connection ended, which the client had not seen yet.
            return twice.run(ONES)

    np.testing.assert_array_equal(in_threads(run, range(8)), [2 * ONES] * 8)
    assert len(server.sessions) == 1


def test_a_batch_goes_on(server: Server, client: xc.Client) -> None:
    plus, kept = client.compile(add()), client.to_device(ONES)
    server.restart()
    np.testing.assert_array_equal(plus.run_batch([(ONES, ONES)] * 2), [2 * ONES] * 2)
    good, bad = plus.run_batch([(ONES, ONES), (ONES, kept)], return_exceptions=True)
    np.testing.assert_array_equal(good, 2 * ONES)
    assert isinstance(bad, LostError)


def test_a_session_that_was_gone_on_with_by_its_token_is_not_replaced(server: Server) -> None:
    with xc.connect(server.address) as opener:
        token = opener.session_token
        resumed = xc.connect(server.address, session=token)
        adopted = resumed.adopt_executable(opener.compile(double()).handle)
        server.restart()
        for _ in range(2):
            with pytest.raises(
                UnauthenticatedError, match=r"token of a live session, .*: the server at \S+ was "
            ) as caught:
                adopted.run(ONES)
            assert "connect() without a session" in caught.value.hint
        assert len(server.sessions) == 0
        # The client that opened the session goes on in another one.
        opener.to_device(ONES)
        assert opener.session_token != token
        with pytest.raises(xc.NotFoundError):
            xc.connect(server.address, session=token)
        resumed.close()


def test_an_adopted_executable_is_lost(server: Server, client: xc.Client) -> None:
    adopted = client.adopt_executable(client.compile(double()).handle)
    server.restart()
    with lost("the executable 'double', which was adopted"):
        adopted.run(ONES)


def test_a_session_that_the_server_ended_is_replaced_if_no_other_client_could(
    server: Server, client: xc.Client
) -> None:
    twice, kept = client.compile(double()), client.to_device(ONES)

    def end() -> None:
        opened = client._session.transport.session
        assert opened is not None
        server.sessions.close(server.sessions.open(opened.token))
        stream: Any = client._session.transport._conversation
        until(lambda: not stream._stream.is_active)

    end()
    np.testing.assert_array_equal(twice.run(ONES), 2 * ONES)
    with pytest.raises(LostError, match=r"ended the session, which it keeps 60 s for"):
        kept.to_numpy()
    # Another client that has the token may have ended the session on purpose.
    assert client.session_token
    end()
    for _ in range(2):
        with pytest.raises(SessionEndedError, match="token of a live session, got one that"):
            twice.run(ONES)
    assert len(server.sessions) == 0


def test_a_server_that_is_away_is_said_to_be(server: Server, client: xc.Client) -> None:
    twice = client.compile(double())
    server.stop()
    with pytest.raises(UnavailableError, match="Connection refused"):
        twice.run(ONES)
    server.start()
    found: list[Any] = []

    def is_back() -> bool:
        # grpc tries again after a second.
        with contextlib.suppress(UnavailableError):
            found.append(twice.run(ONES))
        return bool(found)

    until(is_back)
    np.testing.assert_array_equal(found[0], 2 * ONES)


def test_a_call_that_was_cut_off_says_what_has_become_of_the_server(
    server: Server, client: xc.Client
) -> None:
    session, kept = client._session, client.to_device(ONES)
    error = cut_off("Run", "Socket closed")
    reported = session.after_cut(session.generation, error)
    assert type(reported) is UnavailableError
    assert str(reported).endswith("got its end: Socket closed; the server is there")
    assert not kept.is_lost
    generation = session.generation
    server.restart()
    reported = session.after_cut(generation, error)
    assert type(reported) is UnavailableError
    assert str(reported).endswith(
        f"Socket closed; the server at {server.address} was started again"
    )
    assert "values are lost" in reported.hint
    # The next call is in the other session.
    assert kept.is_lost
    np.testing.assert_array_equal(client.to_device(ONES).to_numpy(), ONES)
