"""Processes that are killed in the middle of everything: a client, and the server."""

import contextlib
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

import xla_client as xc
from tests.e2e.feed_programs import COUNT
from tests.e2e.process import start_server
from tests.fault.doomed_client import EXECUTIONS, LARGE
from tests.fault.plain import Plain, has_drained, token_of, until
from tests.fault.programs import ONES, double, endless
from tests.fault.rounds import rounds
from xla_contract.stubs import xla_extension_pb2 as extension_pb2

ROOT = Path(__file__).parents[3]


@contextlib.contextmanager
def doomed_client(address: str) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """A client in the middle of everything, and the tokens of its sessions."""
    command = [sys.executable, "-m", "tests.fault.doomed_client", address]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        try:
            assert process.stdout is not None
            yield process, process.stdout.readline().split()
        finally:
            process.kill()


def is_streaming(client: Plain) -> list[bool]:
    feeds = client("DescribeFeeds", extension_pb2.DescribeFeedsRequest())
    return [feeds.infeed.is_streaming, feeds.outfeed.is_streaming]


def test_a_client_killed_in_the_middle_of_everything_leaves_nothing(tmp_path: Path) -> None:
    flags = ("--platform", "interpreter", "--session-grace-seconds", "1.5", "--feed-items", "4")
    with start_server(tmp_path, *flags) as server:
        observer = Plain(server.address)
        stream = observer.stream("Converse")  # It says that the observer is there.
        with xc.connect(server.address) as first:  # The server then keeps an arena ahead.
            assert first.to_device(LARGE).to_numpy().size
        process = psutil.Process(server.process.pid)
        until(lambda: observer.counters() == (1, 0, 0))
        descriptors = process.num_fds()
        for _ in rounds():
            with doomed_client(server.address) as (client, tokens):
                beside = [Plain(server.address, token) for token in tokens]
                # Else it may be over before it is looked at.
                held = beside[0].stream("Converse")
                assert beside[0].executions() == (EXECUTIONS, 4)
                assert is_streaming(beside[0]) == [True, True]
                sessions, device_bytes, shared_bytes = observer.counters()
                assert sessions == 3
                # A value over the wire, one that is shared, and a part of one on its way.
                assert device_bytes > 2 * LARGE.nbytes
                assert shared_bytes >= 2 * LARGE.nbytes
                client.kill()
            # Its calls end at once, and what was launched stays while it may come back.
            until(lambda beside=beside: beside[0].executions() == (3, 4))
            until(lambda beside=beside: is_streaming(beside[0]) == [False, False])
            until(lambda: observer.counters()[2] == 0)
            held.half_close()
            for each in beside:
                each.close()
            until(lambda: observer.counters() == (1, 0, 0))
            until(lambda: process.num_fds() <= descriptors)
        stream.half_close()
        server.process.terminate()
        has_drained(server)
        observer.close()


def in_thread(call: Callable[[], Any]) -> Callable[[], BaseException | None]:
    """Begin a call; gives what waits for its end and gives the error."""
    errors: list[BaseException] = []

    def work() -> None:
        try:
            call()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()

    def ended() -> BaseException | None:
        thread.join(100)
        assert not thread.is_alive()
        return errors[0] if errors else None

    return ended


def once_connected(call: Callable[[], object]) -> None:
    """Make a call again while the channel has not seen that there is a server."""

    def is_answered() -> bool:
        try:
            call()
        except xc.UnavailableError:
            return False
        return True

    until(is_answered)


def test_a_server_killed_in_the_middle_of_everything_is_unavailable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("xla_client.feeds.resumable_stream.RECONNECT_SECONDS", 0.3)
    monkeypatch.setattr("xla_client.transfers.chunked.TRIES", 2)
    is_half_way, may_go_on = [threading.Event(), threading.Event()], threading.Event()

    def stop_half_way(number: int) -> Callable[[int, int], None]:
        def wait(done: int, of: int) -> None:
            if 2 * done > of:
                is_half_way[number].set()
                may_go_on.wait(100)

        return wait

    flags = ("--platform", "interpreter", "--feed-items", "4")
    with start_server(tmp_path, *flags) as server:
        shared = xc.connect(server.address)
        client = xc.connect(server.address, shared_memory=False)
        kept = shared.to_device(LARGE).to_numpy()
        resident, held = client.to_device(LARGE), client.to_device(ONES)
        loop = client.compile(endless())
        run = loop.submit(held)
        chained = client.compile(double()).submit(run)
        feed, values = client.device().infeed(COUNT), client.device().outfeed(COUNT)
        calls = {
            "upload": in_thread(lambda: client.to_device(LARGE, progress=stop_half_way(0))),
            "download": in_thread(lambda: resident.to_numpy(progress=stop_half_way(1))),
            "call": in_thread(lambda: loop(held)),
            "batch": in_thread(lambda: loop.run_batch([[held]] * 2)),
            "run": in_thread(run.result),
            "chained run": in_thread(chained.result),
            "infeed": in_thread(lambda: (feed.send(range(1000)), feed.flush())),
            "outfeed": in_thread(lambda: next(values)),
        }
        for event in is_half_way:
            assert event.wait(100)
        beside = Plain(server.address, token_of(client))
        until(lambda: beside.executions() == (4, 2))
        until(lambda: is_streaming(beside) == [True, True])
        beside.close()
        server.process.kill()
        server.process.wait()
        may_go_on.set()
        for name, ended in calls.items():
            assert isinstance(ended(), xc.UnavailableError), name
        # Values in the client's memory stay; calls fail.
        np.testing.assert_array_equal(kept, LARGE)
        for each in (client, shared):
            with pytest.raises(xc.UnavailableError):
                each.to_device(LARGE)
        shared.close()
        np.testing.assert_array_equal(kept, LARGE)
        address = server.address
    # A new server at the address does not know the session, so the client opens another one.
    with start_server(tmp_path, *flags, "--listen", address):
        for call in (held.to_numpy, lambda: loop.submit(held)):
            with pytest.raises(xc.LostError, match=f"server at {address} was started again"):
                once_connected(call)
        np.testing.assert_array_equal(client.to_device(ONES).to_numpy(), ONES)
        client.close()
        with xc.connect(address) as client:
            np.testing.assert_array_equal(client.to_device(ONES).to_numpy(), ONES)
