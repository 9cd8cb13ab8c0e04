"""Sessions that a client leaves and comes back to, from the same process or another."""

import contextlib
import json
import logging
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import xla_client as xc
from tests.e2e.feed_programs import COUNT, sink
from tests.e2e.process import ServerProcess, serving
from tests.e2e.sessions.test_sessions import Extension
from tests.fault.plain import until
from tests.unit.sessions.sample_runs import DOUBLE, PAIR, endless, program
from xla_contract.stubs import xla_extension_pb2 as extension_pb2

ONES = np.ones(4, np.float32)


server = serving("--session-grace-seconds", "600")


@contextlib.contextmanager
def _session(address: str, token: str | None = None) -> Iterator[xc.Client]:
    # Without a timeout: a run that has one is waited for from the start, and then forgotten.
    with xc.connect(address, session=token) as client:
        yield client


_LEAVES = """
import json, sys
import numpy as np
import xla_client as xc
from tests.e2e.feed_programs import relay
from tests.unit.sessions.sample_runs import DOUBLE, PAIR, program

client = xc.connect(sys.argv[1])
kept = client.to_device(np.arange(4, dtype=np.float32))
double = client.compile(program(DOUBLE))
halves, loop = client.compile(program(PAIR)), client.compile(relay(3))
pair, waiting = halves.submit(kept), loop.submit()
with client.device().infeed() as feed:
    feed.put(np.int32(7))
left = {"kept": kept, "double": double, "pair": pair, "waiting": waiting}
left = {name: each.handle for name, each in left.items()} | {"token": client.session_token}
if sys.argv[2] == "detach":
    assert client.detach() == left["token"]
print(json.dumps(left), flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("how", ["detach", "kill"])
def test_another_process_takes_up_all_that_one_has_left(address: str, how: str) -> None:
    command = [sys.executable, "-c", _LEAVES, address, how]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        left = json.loads(process.stdout.readline())
        if how == "kill":
            process.kill()
        client = xc.connect(address, session=left["token"])
        process.communicate(timeout=60)
        assert process.returncode == (-signal.SIGKILL if how == "kill" else 0)
    with client:
        assert client.session_token == left["token"]
        # The execution that was launched first ends by itself.
        until(lambda: client.describe().use.launched_executions == 1)
        described = client.describe()
        assert left["kept"] in [each.handle for each in described.values]
        executables = {each.handle: each.name for each in described.executables}
        assert list(executables.values()) == [DOUBLE, PAIR, "relay"]
        assert executables[left["double"]] == DOUBLE
        executions = {each.handle: (each.name, each.is_done) for each in described.executions}
        assert set(executions) == {left["pair"], left["waiting"]}
        assert executions[left["waiting"]] == ("relay", False)
        assert len([each for each in described.values if each.is_pending]) == 1
        assert described.use.launched_executions == 1
        kept = client.adopt(left["kept"])
        double = client.adopt_executable(left["double"])
        np.testing.assert_array_equal(double.run(kept), [0, 2, 4, 6])
        assert double.program_shape == client.compile(program(DOUBLE)).program_shape
        first, second = client.adopt_execution(left["pair"]).result()
        np.testing.assert_array_equal(first.to_numpy(), [0, 1, 2, 3])
        np.testing.assert_array_equal(second.to_numpy(), [0, 2, 4, 6])
        waiting = client.adopt_execution(left["waiting"])
        with client.device().infeed() as feed:
            feed.send([np.int32(8), np.int32(9)])
        assert [int(value) for value in client.device().outfeed(count=3)] == [7, 8, 9]
        assert waiting.result().to_numpy() == 3
        with pytest.raises(xc.NotFoundError, match="waited for before"):
            client.adopt_execution(left["waiting"])


def test_closing_ends_the_session_and_detaching_leaves_it(server: ServerProcess) -> None:
    address, connected = server.address, server.connections
    client = xc.connect(address, timeout=30)
    buffer = client.to_device(ONES)
    token = client.detach()
    with pytest.raises(xc.UnavailableError, match="must be open"):
        buffer.to_numpy()
    until(lambda: server.connections <= connected)
    with _session(address, token) as client:
        assert client.adopt(buffer.handle).to_numpy().tolist() == [1, 1, 1, 1]
    with pytest.raises(
        xc.NotFoundError, match="resume_token must be that of a live session"
    ) as reported:
        xc.connect(address, session=token)
    assert "make everything anew" in reported.value.hint
    assert token not in str(reported.value) + repr(reported.value)


def test_what_was_dropped_before_is_not_left(address: str) -> None:
    client = xc.connect(address, timeout=30)
    kept = client.to_device(ONES)
    client.to_device(ONES)
    token = client.detach()
    with _session(address, token) as client:
        assert [each.handle for each in client.describe().values] == [kept.handle]


def test_a_session_ends_when_its_client_does_not_come_back(forgetful: str) -> None:
    with contextlib.closing(Extension(forgetful)) as watcher:
        until(lambda: watcher.live_bytes() == 0)
        client = xc.connect(forgetful, timeout=30)
        client.to_device(np.zeros(1000, np.float32)).shape  # noqa: B018
        held = client.to_device(np.zeros(1000, np.float32))
        client.compile(endless()).submit(ONES)
        assert watcher.live_bytes() >= 4000
        token = client.detach()
        until(lambda: watcher.live_bytes() == 0)
    with pytest.raises(xc.NotFoundError, match="has ended or never was"):
        xc.connect(forgetful, session=token)
    assert held.shape.byte_size == 4000


def test_what_is_no_token_is_reported_at_once(address: str) -> None:
    with pytest.raises(xc.InvalidArgumentError, match=r"43 characters .* got 5 characters"):
        xc.connect(address, session="guess")
    with pytest.raises(xc.InvalidArgumentError, match="got an empty string"):
        xc.connect(address, session="")
    with pytest.raises(xc.NotFoundError):
        xc.connect(address, session="A" * 43)


def test_a_token_is_in_no_text(
    address: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    with _session(address) as client:
        token = client.session_token
        buffer = client.to_device(ONES)
        texts = [repr(one) for one in (client, client._session, client._session.transport, buffer)]
        texts += [str(client), repr(client.describe())]
        with pytest.raises(xc.NotFoundError) as caught:
            client.adopt(1)
        texts.append(str(caught.value))
    output = capfd.readouterr()
    assert not any(token in text for text in (*texts, caplog.text, output.out, output.err))


def test_two_clients_of_one_session_see_the_same(address: str) -> None:
    with _session(address) as first:
        second = xc.connect(address, session=first.session_token)
        buffer = first.to_device(ONES)
        assert second.adopt(buffer.handle).to_numpy().tolist() == [1, 1, 1, 1]
        second.detach()
        assert first.to_device(ONES).to_numpy().tolist() == [1, 1, 1, 1]


def test_many_handles_come_page_by_page(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with _session(address) as client:
        buffers = [client.to_device(ONES) for _ in range(5)]
        executable = client.compile(program(PAIR))
        session = client._session
        pages, call = list[int](), session.call

        def small_pages(name: str, request: Any, timeout: float | None = None) -> Any:
            if name == "DescribeHandles":
                request.limit = 2
            response = call(name, request, timeout)
            if name == "DescribeHandles":
                pages.append(len(response.handles))
            return response

        monkeypatch.setattr(session, "call", small_pages)
        described = client.describe()
        assert [each.handle for each in described.values] == [each.handle for each in buffers]
        assert [each.handle for each in described.executables] == [executable.handle]
        assert pages == [2, 2, 2]
        assert described.quotas.device_bytes >= described.use.device_bytes == 80


def test_handles_of_the_wrong_kind_and_requests_that_make_no_sense(address: str) -> None:
    with _session(address) as client:
        buffer, executable = client.to_device(ONES), client.compile(program(DOUBLE))
        with pytest.raises(xc.InvalidArgumentError, match=r"executable is needed, got .* value"):
            client.adopt_executable(buffer.handle)
        with pytest.raises(xc.InvalidArgumentError, match=r"execution is needed, got"):
            client.adopt_execution(executable.handle)
        with pytest.raises(xc.NotFoundError, match="of this session"):
            client.adopt_executable(12345)
        deleted = executable.handle
        executable.delete()
        with pytest.raises(xc.InvalidArgumentError, match="unregistered before"):
            client.adopt_executable(deleted)

        def ask(**fields: Any) -> Any:
            request = extension_pb2.DescribeHandlesRequest(**fields)
            return client._session.call("DescribeHandles", request)

        assert [each.handle for each in ask(handles=[buffer.handle]).handles] == [buffer.handle]
        for fields in ({"limit": -1}, {"limit": 1025}, {"handles": [buffer.handle] * 1025}):
            with pytest.raises(xc.InvalidArgumentError, match="at most 1024 handles"):
                ask(**fields)
        with pytest.raises(xc.InvalidArgumentError, match="after must be 0 where handles are"):
            ask(handles=[buffer.handle], after=buffer.handle)
        with pytest.raises(xc.NotFoundError, match="after must be 0 or"):
            ask(after=12345)


def test_a_failed_execution_is_described_and_adopted_with_its_error(address: str) -> None:
    with _session(address) as client:
        run = client.compile(sink(1)).submit()
        client.device().infeed(COUNT).close_queue()
        until(lambda: client.describe().executions[0].is_done)
        described = client.describe()
        [output] = described.executions[0].outputs
        [value] = [each for each in described.values if each.handle == output]
        assert isinstance(value.error, xc.AbortedError)
        with pytest.raises(xc.AbortedError, match="of sink"):
            client.adopt_execution(run.handle).result()


def test_servers_without_sessions_say_so(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with _session(address) as client:
        opened, client._session.transport.session = client._session.transport.session, None
        with pytest.raises(xc.UnimplementedError, match="must have sessions with tokens"):
            client.session_token  # noqa: B018
        with pytest.raises(xc.UnimplementedError):
            client.detach()
        client._session.transport.session = opened
        assert client.to_device(ONES).to_numpy().tolist() == [1, 1, 1, 1]
        client._session.transport.capabilities = frozenset()
        run = client.compile(program(DOUBLE)).submit(ONES)
        with pytest.raises(xc.UnimplementedError, match="must be able to launch"):
            run.handle  # noqa: B018
        run.result()
