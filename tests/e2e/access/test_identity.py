"""Access to a server process: tokens, roles, sockets, and the addresses it may listen at."""

import functools
import json
import os
import queue
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import jwt
import numpy as np
import pytest
from google.rpc import status_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

import xla_client as xc
from tests.e2e.process import ServerProcess, start_server
from tests.fault.plain import until
from xla_contract.descriptors import EXTENSION_RPCS, RPCS, Rpc
from xla_contract.stubs import xla_extension_pb2 as extension_pb2

SECRET = "a secret that is shared by issuer and server"
TOKENS = {name: f"the-token-of-{name}" for name in ("alice", "bob", "eve", "root")}
ROLES = {"alice": "user", "bob": "user", "eve": "viewer", "root": "admin"}


def lines(*names: str) -> str:
    return "".join(f"{name} {ROLES[name]} {TOKENS[name]}\n" for name in names)


def web_token(seconds: float, **claims: Any) -> str:
    return jwt.encode({"sub": "carol", "exp": time.time() + seconds} | claims, SECRET, "HS256")


def bearer(token: str) -> tuple[tuple[str, str], ...]:
    return (("authorization", f"Bearer {token}"),)


def path_of(name: str) -> str:
    return next(rpc.path for rpc in (*RPCS, *EXTENSION_RPCS) if rpc.name == name)


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    directory = tmp_path_factory.mktemp("team")
    (directory / "tokens").write_text(lines("alice", "bob", "eve", "root"))
    (directory / "secret").write_text(SECRET)
    flags = ("--token-file", directory / "tokens", "--jwt-secret-file", directory / "secret")
    flags += ("--platform", "interpreter", "--log-level", "debug")
    with start_server(directory, *map(str, flags), insecure=False) as server:
        yield server
        log = server.log.read_text()
        assert not any(token in log for token in TOKENS.values())


@pytest.fixture
def channel(team: ServerProcess) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(team.address) as made:
        yield made


def code_of(call: Callable[[], Any]) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.RpcError) as caught:
        call()
    error: Any = caught.value
    return error.code(), error.details()


def called(channel: grpc.Channel, rpc: Rpc, **named: Any) -> Any:
    kind = ("stream" if rpc.request_streaming else "unary") + (
        "_stream" if rpc.response_streaming else "_unary"
    )
    request = iter((b"",)) if rpc.request_streaming else b""
    answer = getattr(channel, kind)(rpc.path)(request, timeout=30, **named)
    return list(answer) if rpc.response_streaming else answer


@pytest.mark.parametrize("rpc", [*RPCS, *EXTENSION_RPCS], ids=lambda rpc: rpc.name)
def test_no_rpc_is_served_without_credentials(channel: grpc.Channel, rpc: Rpc) -> None:
    for metadata in ((), bearer("not-a-token-of-theirs"), (("authorization", "Basic YTpi"),)):
        code, details = code_of(lambda given=metadata: called(channel, rpc, metadata=given))
        assert code is grpc.StatusCode.UNAUTHENTICATED
        assert details.startswith(f"{rpc.name}: ")
        assert "not-a-token" not in details


def test_several_headers_are_none(channel: grpc.Channel) -> None:
    both = bearer(TOKENS["alice"]) + bearer(TOKENS["bob"])
    code, details = code_of(lambda: called(channel, RPCS[0], metadata=both))
    assert code is grpc.StatusCode.UNAUTHENTICATED
    assert "one header authorization, got 2" in details


def test_health_is_open_and_reflection_is_not(channel: grpc.Channel) -> None:
    health = health_pb2_grpc.HealthStub(channel)
    request = health_pb2.HealthCheckRequest()
    assert health.Check(request).status == health_pb2.HealthCheckResponse.SERVING
    assert code_of(lambda: next(health.Watch(request)))[0] is grpc.StatusCode.UNAUTHENTICATED
    watch = health.Watch(request, metadata=bearer(TOKENS["eve"]))
    assert next(watch).status == health_pb2.HealthCheckResponse.SERVING
    watch.cancel()
    reflection = reflection_pb2_grpc.ServerReflectionStub(channel)
    wanted = reflection_pb2.ServerReflectionRequest(list_services="")

    def listed(**named: Any) -> Any:
        return next(reflection.ServerReflectionInfo(iter((wanted,)), **named))

    assert code_of(listed)[0] is grpc.StatusCode.UNAUTHENTICATED
    assert listed(metadata=bearer(TOKENS["eve"])).list_services_response.service


def test_a_request_is_not_read_before_its_sender_is_known(channel: grpc.Channel) -> None:
    # A stream whose first message never comes is answered all the same.
    def nothing() -> Iterator[bytes]:
        ended.wait()
        yield b""

    ended = threading.Event()
    call = channel.stream_stream(path_of("Upload"))(nothing(), timeout=30)
    assert code_of(lambda: next(call))[0] is grpc.StatusCode.UNAUTHENTICATED
    ended.set()


def test_tokens_of_both_kinds_let_in(team: ServerProcess) -> None:
    for token in (TOKENS["alice"], TOKENS["root"], web_token(600)):
        with xc.connect(team.address, token=token, timeout=30) as client:
            assert client.to_device(np.float32(3)).to_numpy() == 3
    until(lambda: '"identity": "token:alice"' in team.log.read_text())


def test_who_may_only_look_changes_nothing(team: ServerProcess) -> None:
    with xc.connect(team.address, token=TOKENS["eve"]) as client:
        assert client.describe().values == ()
        assert len(client.devices()) == 1

        def feed() -> None:
            with client.device().infeed(xc.Shape.parse("f32[]")) as infeed:
                infeed.send([1.0])
                infeed.flush(timeout=30)

        # On a stream of calls, in a call of its own, and on a stream.
        for call in (
            lambda: client.to_device(np.float32(3)),
            lambda: client.to_device(np.float32(3), timeout=30),
            feed,
        ):
            with pytest.raises(xc.PermissionDeniedError, match="in the role user, got token:eve"):
                call()


def test_a_token_that_another_signed_is_refused(channel: grpc.Channel) -> None:
    claims = {"sub": "alice", "exp": time.time() + 600}
    for token, words in (
        (jwt.encode(claims, SECRET[::-1], "HS256"), "a signature of a configured key"),
        (jwt.encode(claims, "", "none"), "signed with a configured algorithm"),
        (jwt.encode({"sub": "alice"}, SECRET, "HS256"), "got one without exp"),
    ):
        code, details = code_of(functools.partial(called, channel, RPCS[0], metadata=bearer(token)))
        assert (code, words in details) == (grpc.StatusCode.UNAUTHENTICATED, True), details


def test_calls_on_a_stream_have_the_role_of_each(channel: grpc.Channel) -> None:
    open_session = channel.unary_unary(path_of("OpenSession"))
    eve = bearer(TOKENS["eve"])
    opened = extension_pb2.OpenSessionResponse.FromString(open_session(b"", metadata=eve))
    calls = [
        extension_pb2.ConverseRequest(id=1, method=path_of("TransferToServer")[1:]),
        extension_pb2.ConverseRequest(id=2, method=path_of("DescribeSession")[1:]),
    ]
    answers = channel.stream_stream(path_of("Converse"))(
        (call.SerializeToString() for call in calls),
        metadata=(*eve, ("xla-session", opened.token)),
        timeout=30,
    )
    found = {}
    for answer in map(extension_pb2.ConverseResponse.FromString, answers):
        found[answer.id] = answer
    refusal = status_pb2.Status.FromString(found[1].status)
    assert refusal.code == grpc.StatusCode.PERMISSION_DENIED.value[0]
    assert "in the role user, got token:eve in the role viewer" in refusal.message
    assert not found[2].status


def test_a_session_is_of_the_identity_that_opened_it(
    team: ServerProcess, channel: grpc.Channel
) -> None:
    with xc.connect(team.address, token=TOKENS["alice"], timeout=30) as client:
        session = client.session_token
        for thief in (TOKENS["bob"], TOKENS["root"], web_token(600)):
            with pytest.raises(xc.NotFoundError):
                xc.connect(team.address, token=thief, session=session)
            metadata = (*bearer(thief), ("xla-session", session))
            describe = functools.partial(channel.unary_unary(path_of("DescribeSession")), b"")
            code, _ = code_of(functools.partial(describe, metadata=metadata, timeout=30))
            assert code is grpc.StatusCode.UNAUTHENTICATED
        with xc.connect(team.address, token=TOKENS["alice"], session=session) as same:
            assert same.session_token == session


def test_a_stream_ends_when_its_token_expires(team: ServerProcess, channel: grpc.Channel) -> None:
    token = web_token(2)
    call = channel.unary_unary(path_of("OpenSession"))
    opened = extension_pb2.OpenSessionResponse.FromString(call(b"", metadata=bearer(token)))
    metadata = (*bearer(token), ("xla-session", opened.token))
    conversation = channel.stream_stream(path_of("Converse"))
    requests: queue.Queue[bytes] = queue.Queue()
    stream = conversation(iter(requests.get, None), metadata=metadata, timeout=60)
    request = extension_pb2.ConverseRequest(id=1, method=path_of("DescribeSession")[1:])
    requests.put(request.SerializeToString())
    assert not extension_pb2.ConverseResponse.FromString(next(stream)).status
    # The stream stays silent until the token expires, which ends it.
    code, details = code_of(lambda: next(stream))
    assert code is grpc.StatusCode.UNAUTHENTICATED
    assert "must not have expired, got ones that were valid until 20" in details
    code, details = code_of(lambda: call(b"", metadata=bearer(token), timeout=30))
    assert (code, "must not have expired" in details) == (grpc.StatusCode.UNAUTHENTICATED, True)


def test_a_token_that_is_renewed_goes_on_with_the_session(
    team: ServerProcess, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    file.write_text(web_token(2))
    with xc.connect(team.address, token=file) as client:
        value = client.to_device(np.float32(3))
        feed = client.device().infeed(xc.Shape.parse("f32[]"))
        feed.send([1.0])
        feed.flush(timeout=30)
        file.write_text(web_token(600))

        def ended() -> bool:
            return "a stream of jwt:carol ends" in team.log.read_text()

        until(ended)
        feed.send([2.0])
        feed.flush(timeout=30)
        assert value.to_numpy() == 3
        feed.close()


def test_files_of_tokens_are_read_again(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text(lines("alice", "bob"))
    flags = ("--platform", "interpreter", "--token-file", str(file))
    with start_server(tmp_path, *flags, insecure=False) as server:
        client = xc.connect(server.address, token=TOKENS["bob"], timeout=30)
        value = client.to_device(np.float32(3))

        def lets_in(name: str) -> bool:
            try:
                xc.connect(server.address, token=TOKENS[name]).close()
            except xc.UnauthenticatedError:
                return False
            return True

        assert not lets_in("root")
        # A file that is none changes nothing.
        file.write_text("alice user\n")
        until(lambda: "credentials stay as they were" in server.log.read_text())
        assert lets_in("alice")
        file.write_text(lines("alice", "root"))
        until(lambda: lets_in("root"))
        assert lets_in("alice")
        assert not lets_in("bob")
        # The stream that was there has ended, too.
        with pytest.raises(xc.UnauthenticatedError, match="one that this server knows"):
            value.to_numpy()
        client.close()


def serve(*flags: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "xla_server", "serve", "--platform", "interpreter", *flags]
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env=os.environ | environment,
    )


@pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:0"])
@pytest.mark.parametrize("has_tokens", [False, True])
def test_plaintext_beyond_loopback_is_refused(
    address: str, has_tokens: bool, tmp_path: Path
) -> None:
    (tmp_path / "tokens").write_text(lines("alice"))
    flags = ("--token-file", str(tmp_path / "tokens")) if has_tokens else ()
    ended = serve("--listen", address, *flags)
    assert ended.returncode == 2
    assert ended.stdout == ""
    assert ended.stderr.startswith(
        f"xla-server: listen: an address beyond loopback must have TLS, got {address} in plaintext"
    )
    assert "--tls-self-signed, or --insecure" in ended.stderr


def connecting_line(server: ServerProcess) -> str:
    """The line of Python that a server's log says to connect with."""
    until(lambda: '"ready"' in server.log.read_text())
    messages = [json.loads(line)["message"] for line in server.log.read_text().splitlines()]
    (line,) = [each for each in messages if each.startswith("to connect: ")]
    return line.removeprefix("to connect: ")


def test_a_server_without_credentials_makes_a_token_and_says_how_to_connect(
    tmp_path: Path,
) -> None:
    state = tmp_path / "state"
    flags = ("--platform", "interpreter", "--state-dir", str(state))
    tokens = set()
    for is_first in (True, False):
        with start_server(tmp_path, *flags, insecure=False) as server:
            line = connecting_line(server)
            token = (state / "token").read_text().strip()
            tokens.add(token)
            # The log has the secret once.
            assert (token in line) is is_first
            with eval(line, {"xla_client": xc, "Path": Path}) as client:
                assert client.to_device(np.float32(3)).to_numpy() == 3
            with pytest.raises(xc.UnauthenticatedError, match="must carry credentials, got none"):
                xc.connect(server.address)
    assert len(tokens) == 1
    assert stat.S_IMODE((state / "token").stat().st_mode) == 0o600
    assert stat.S_IMODE(state.stat().st_mode) == 0o700
    (state / "token").chmod(0o644)
    ended = serve("--listen", "127.0.0.1:0", "--state-dir", str(state))
    assert ended.returncode == 2
    assert "token: must be a file of user" in ended.stderr


def test_a_server_for_a_network_starts_safe_and_works_at_once(tmp_path: Path) -> None:
    # As the image does.
    environment = {
        "XLA_SERVER_TLS_SELF_SIGNED": "1",
        "XLA_SERVER_LISTEN": "0.0.0.0:0",
        "XLA_SERVER_STATE_DIR": str(tmp_path / "state"),
    }
    command = [sys.executable, "-m", "xla_server", "serve", "--platform", "interpreter"]
    with (tmp_path / "server.log").open("w") as log:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=log, text=True, env=os.environ | environment
        )
    with process:
        try:
            assert process.stdout is not None
            ready = json.loads(process.stdout.readline())
            server = ServerProcess(process, ready, tmp_path / "server.log")
            line = connecting_line(server)
            assert "localhost:" in line
            assert "fingerprint='sha256:" in line
            with eval(line, {"xla_client": xc, "Path": Path}) as client:
                assert client.to_device(np.float32(3)).to_numpy() == 3
            port = server.address.rpartition(":")[2]
            wrong = xc.Tls(fingerprint="sha256:" + "0" * 64)
            with pytest.raises(xc.UnavailableError, match="must have the certificate sha256:000"):
                xc.connect(f"localhost:{port}", token="a-token", credentials=wrong)
            certificate = tmp_path / "state" / "tls.crt"
            health = [sys.executable, "-m", "xla_server", "health", "--target", f"localhost:{port}"]
            for flags, code in ((["--ca-file", str(certificate)], 0), ([], 1)):
                found = subprocess.run([*health, *flags], check=False, capture_output=True)
                assert found.returncode == code
        finally:
            process.kill()


@pytest.fixture
def directory() -> Iterator[str]:
    # The path of a socket is short, those of tests may be long.
    with tempfile.TemporaryDirectory(dir="/tmp") as made:
        yield made


@pytest.mark.parametrize(
    ("mode", "name"),
    [("0600", f"unix:{os.geteuid()}"), ("0660", f"unix-group:{os.getegid()}")],
)
def test_sockets_need_no_token_and_admit_callers_that_their_mode_allows(
    mode: str, name: str, tmp_path: Path, directory: str
) -> None:
    target = f"unix:{directory}/socket"
    (tmp_path / "roles").write_text(f"{name} viewer\n")
    flags = ("--platform", "interpreter", "--listen", target, "--socket-mode", mode)
    flags += ("--roles-file", str(tmp_path / "roles"), "--state-dir", str(tmp_path / "state"))
    with start_server(tmp_path, *flags, insecure=False) as server:
        assert stat.S_IMODE(os.stat(f"{directory}/socket").st_mode) == int(mode, 8)
        with (
            xc.connect(target) as client,
            pytest.raises(xc.PermissionDeniedError, match=f"got {name} in the role viewer"),
        ):
            client.to_device(np.float32(3))
        with pytest.raises(xc.UnauthenticatedError):
            xc.connect(server.address)


def test_abstract_sockets_are_open_to_the_machine_and_need_a_token(
    tmp_path: Path, directory: str
) -> None:
    targets = f"unix-abstract:{Path(directory).name}", f"unix:{directory}/socket"
    state = tmp_path / "state"
    flags = ("--platform", "interpreter", "--listen", ",".join(targets), "--state-dir", str(state))
    with start_server(tmp_path, *flags, insecure=False):
        for target in targets:
            with pytest.raises(xc.UnauthenticatedError):
                xc.connect(target)
            with xc.connect(target, token=state / "token") as client:
                assert client.to_device(np.float32(3)).to_numpy() == 3


def test_an_insecure_server_says_so_and_lets_everybody_in(tmp_path: Path) -> None:
    flags = ("--platform", "interpreter", "--listen", "0.0.0.0:0")
    with start_server(tmp_path, *flags) as server:
        until(lambda: "insecure: whoever reaches the server may" in server.log.read_text())
        # Headers of clients that send a token to all are no matter.
        with xc.connect(server.address, token="whatever") as client:
            assert client.to_device(np.float32(3)).to_numpy() == 3


def test_insecure_asks_for_the_credentials_that_are_configured(tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text(lines("alice"))
    flags = ("--platform", "interpreter", "--token-file", str(tmp_path / "tokens"))
    with start_server(tmp_path, *flags, "--listen", "0.0.0.0:0") as server:
        with pytest.raises(xc.UnauthenticatedError):
            xc.connect(server.address)
        with xc.connect(server.address, token=TOKENS["alice"]) as client:
            assert client.to_device(np.float32(3)).to_numpy() == 3


def test_a_server_of_ones_own_is_for_no_other_user() -> None:
    with xc.Local("interpreter") as client:
        with grpc.insecure_channel(client.target) as channel:
            code, _ = code_of(lambda: called(channel, RPCS[0]))
            assert code is grpc.StatusCode.UNAUTHENTICATED
        with xc.connect(client.target) as other:
            assert other.to_device(np.float32(3)).to_numpy() == 3


def test_a_token_is_made_by_the_command(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "xla_server", "token", "dave", "--role", "viewer"]
    reported = subprocess.run(
        command, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    token, line = (each.partition(":")[2].strip() for each in reported)
    assert token not in line
    file = tmp_path / "tokens"
    file.write_text(f"{line}\n")
    flags = ("--platform", "interpreter", "--token-file", str(file))
    with (
        start_server(tmp_path, *flags, insecure=False) as server,
        xc.connect(server.address, token=token) as client,
        pytest.raises(xc.PermissionDeniedError, match="got token:dave in the role viewer"),
    ):
        client.to_device(np.float32(3))
    refused = subprocess.run([*command[:4], "a b"], capture_output=True, text=True, check=False)
    assert (refused.returncode, "a name must match" in refused.stderr) == (2, True)
