"""Every rpc asks for credentials, also where grpc is not the one whose insides are known."""

from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from tests.unit.sessions.engines import shared_resources
from xla_contract.descriptors import EXTENSION_RPCS, RPCS, Rpc
from xla_server.identity.authenticator import Authenticator, Sources
from xla_server.identity.authorise import ROLES
from xla_server.identity.identity import Role
from xla_server.identity.tokens import parse_tokens
from xla_server.identity.watched_file import WatchedFile
from xla_server.rpc import server as module
from xla_server.rpc.server import RpcOptions, RpcServer
from xla_server.rpc.threads import request_threads
from xla_server.sessions.session_registry import SessionRegistry

ALL = (*RPCS, *EXTENSION_RPCS)
TOKEN = "the-token-of-eve"


@pytest.fixture(scope="module", params=["known", "unknown"])
def channel(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[grpc.Channel]:
    """A channel to a server of callers with tokens, on a grpc that is known or not."""
    file: Path = tmp_path_factory.mktemp("gated") / "tokens"
    file.write_text(f"eve viewer {TOKEN}\n")
    authenticator = Authenticator(Sources(tokens=WatchedFile(file, parse_tokens)))
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "unknown":
            patch.setattr(request_threads, "known_server", lambda: None)
            patch.setattr(module, "known_server", lambda: None)
        sessions = SessionRegistry(shared_resources())
        options = RpcOptions(listen=("127.0.0.1:0",), authenticator=authenticator)
        server = RpcServer(sessions, options)
        server.start()
        with grpc.insecure_channel(server.address) as made:
            yield made
        server.drain(0)


def refused(call: object, code: grpc.StatusCode = grpc.StatusCode.UNAUTHENTICATED) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        next(call)  # type: ignore[call-overload]
    assert caught.value.code() is code  # type: ignore[attr-defined]


@pytest.mark.parametrize("rpc", ALL, ids=lambda rpc: rpc.name)
def test_no_rpc_answers_without_credentials(channel: grpc.Channel, rpc: Rpc) -> None:
    # On the wire all kinds of calls are the same.
    refused(channel.stream_stream(rpc.path)(iter((b"",)), timeout=30))


@pytest.mark.parametrize(
    "rpc", [rpc for rpc in ALL if ROLES[rpc.path] > Role.VIEWER], ids=lambda rpc: rpc.name
)
def test_no_rpc_answers_in_a_role_that_is_too_low(channel: grpc.Channel, rpc: Rpc) -> None:
    metadata = (("authorization", f"Bearer {TOKEN}"),)
    call = channel.stream_stream(rpc.path)(iter((b"",)), metadata=metadata, timeout=30)
    refused(call, grpc.StatusCode.PERMISSION_DENIED)


def test_health_s_check_alone_is_open(channel: grpc.Channel) -> None:
    health = health_pb2_grpc.HealthStub(channel)
    request = health_pb2.HealthCheckRequest()
    assert health.Check(request, timeout=30).status == health_pb2.HealthCheckResponse.SERVING
    refused(health.Watch(request, timeout=30))
    reflection = reflection_pb2_grpc.ServerReflectionStub(channel)
    wanted = reflection_pb2.ServerReflectionRequest(list_services="")
    refused(reflection.ServerReflectionInfo(iter((wanted,)), timeout=30))
