"""Connections that come about, and those that do not: what is said, and what is waited for."""

import subprocess
import sys
import threading
import traceback
from concurrent import futures
from pathlib import Path

import grpc
import pytest

import xla_client as xc
from xla_contract.errors import InvalidArgumentError, UnavailableError
from xla_contract.targets import normalized


@pytest.mark.parametrize(
    ("target", "hint"),
    [
        ("", "connect('localhost') is the server on this machine."),
        ("  ", "connect('localhost') is the server on this machine."),
        ("http://host:7", "Leave http:// out."),
        ("https://host", "TLS is turned on by credentials=xla_client.Tls()."),
        ("host:port", "connect('host') means port 1685."),
        ("host:70000", "A port is at most 65535."),
        (":7", "connect('host') means port 1685."),
        ("a host", "connect('host') means port 1685."),
        ("host/path", "connect('host') means port 1685."),
    ],
)
def test_what_is_no_target_says_what_is(target: str, hint: str) -> None:
    with pytest.raises(InvalidArgumentError, match="a target must be host:port or unix:/path") as e:
        xc.connect(target)
    assert e.value.hint.endswith(hint)
    assert repr(target) in e.value.message


def test_a_target_is_text() -> None:
    with pytest.raises(TypeError, match=r"must be a str such as 'host:1685', got 1685"):
        xc.connect(1685)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("target", "cause"),
    [
        ("127.0.0.1:1", "Connection refused"),
        ("no-such-host.invalid", "no-such-host.invalid"),
        ("unix:/no/such/socket", "No such file or directory"),
    ],
)
def test_a_target_without_a_server_fails_at_once_with_the_cause(target: str, cause: str) -> None:
    with pytest.raises(UnavailableError) as caught:
        xc.connect(target)
    start = "connect: a server must listen at the target, got no answer from "
    # An error after waiting says the seconds.
    assert caught.value.message.startswith(f"{start}{normalized(target)}: ")
    assert cause in caught.value.message
    text = "".join(traceback.format_exception(caught.value))
    assert "grpc" not in text.replace("grpc's", "")
    assert text.count(caught.value.message) == 1
    assert text.count("\nhint: ") == 1
    assert len(text.splitlines()) < 20


def test_a_server_that_is_starting_is_waited_for(tmp_path: Path) -> None:
    target = f"unix:{tmp_path}/socket"
    server = grpc.server(futures.ThreadPoolExecutor(1))
    assert server.add_insecure_port(target)
    clients: list[xc.Client] = []
    waiting = threading.Thread(
        target=lambda: clients.append(xc.connect(target, connect_timeout=60))
    )
    waiting.start()
    server.start()
    waiting.join(60)
    clients[0].close()
    server.stop(None).wait()
    with pytest.raises(UnavailableError, match=r"no answer from unix:\S+ in 0\.2 s: .*No such"):
        xc.connect(f"unix:{tmp_path}/other", connect_timeout=0.2)


def test_grpc_says_nothing_beside_the_error() -> None:
    program = """
import xla_client, os
assert "GRPC_VERBOSITY" not in os.environ
import grpc
for target in ("", "127.0.0.1:1"):
    try:
        grpc.insecure_channel(target).unary_unary("/a/b")(b"")
    except grpc.RpcError as error:
        print(error.code().name)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60
    )
    assert (done.stdout, done.stderr) == ("UNKNOWN\nUNAVAILABLE\n", "")


def test_a_traceback_has_the_hint_once_and_no_more_of_grpc(target: str) -> None:
    with xc.connect(target) as client, pytest.raises(xc.NotFoundError) as caught:
        client.adopt(12345)
    text = "".join(traceback.format_exception(caught.value))
    assert "_InactiveRpcError" not in text
    # The caller's frame and one of ours.
    assert len(traceback.extract_tb(caught.value.__traceback__)) == 2
    assert text.count(caught.value.message) == 1
    with pytest.raises(InvalidArgumentError) as refused:
        xc.connect("http://host")
    text = "".join(traceback.format_exception(refused.value))
    assert text.count(f"hint: {refused.value.hint}") == 1
    assert refused.value.hint not in str(refused.value)
