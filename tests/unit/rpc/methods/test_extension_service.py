"""The table of the extension service, and the capabilities that clients see."""

from collections.abc import Mapping, Sequence

from xla_contract.descriptors import EXTENSION_RPCS
from xla_contract.stubs import xla_extension_pb2
from xla_server.execution.cancellation import Cancellation
from xla_server.rpc.calls.method_table import MethodSpec, Unary
from xla_server.rpc.methods import feeds as extension_feeds
from xla_server.rpc.methods import runs as extension_run
from xla_server.rpc.methods import shared_memory as extension_shared
from xla_server.rpc.methods import transfers as extension_transfers
from xla_server.rpc.methods.extension_service import CAPABILITIES, extension_methods
from xla_server.sessions.limits.shares.caller import LOCAL
from xla_server.sessions.session_registry import SessionRegistry

SHARED_MEMORY = [
    xla_extension_pb2.CAPABILITY_SHARED_MEMORY,
    xla_extension_pb2.CAPABILITY_SHARED_PIECES,
]


def opened(
    rows: Mapping[str, MethodSpec], capabilities: Sequence[int] = ()
) -> xla_extension_pb2.OpenSessionResponse:
    row = rows["OpenSession"]
    assert isinstance(row, Unary)
    assert not row.has_session
    request = xla_extension_pb2.OpenSessionRequest(capabilities=capabilities)  # type: ignore[arg-type]
    response = row.method(LOCAL, request, Cancellation())
    assert isinstance(response, xla_extension_pb2.OpenSessionResponse)
    return response


def test_every_rpc_has_its_row_but_converse_which_has_them_all(sessions: SessionRegistry) -> None:
    rows = extension_methods(sessions, 1000)
    assert set(rows) == {rpc.name for rpc in EXTENSION_RPCS} - {"Converse"}
    groups = (extension_transfers, extension_feeds, extension_run, extension_shared)
    for group in groups:
        for name, row in group.METHODS.items():
            assert rows[name] is row


def test_clients_learn_what_there_is(sessions: SessionRegistry) -> None:
    response = opened(extension_methods(sessions, 1234))
    assert list(response.capabilities) == list(CAPABILITIES)
    assert (response.max_message_bytes, response.shared_memory_socket) == (1234, "")
    assert response.device_count == len(sessions.engine.backend.devices) > 0
    every = set(xla_extension_pb2.Capability.values()) - {xla_extension_pb2.CAPABILITY_UNSPECIFIED}
    assert set(CAPABILITIES) == every - set(SHARED_MEMORY)


def test_there_is_shared_memory_where_there_is_a_socket_for_it(sessions: SessionRegistry) -> None:
    response = opened(extension_methods(sessions, 1000, "/run/socket"))
    assert list(response.capabilities) == [*CAPABILITIES, *SHARED_MEMORY]
    assert response.shared_memory_socket == "/run/socket"
    # The table of one server is not that of the next.
    assert not {*opened(extension_methods(sessions, 1000)).capabilities} & {*SHARED_MEMORY}


def test_a_client_is_notified_of_what_it_knows(sessions: SessionRegistry) -> None:
    rows = extension_methods(sessions, 1000)
    requested = [xla_extension_pb2.CAPABILITY_RUN, 999, xla_extension_pb2.CAPABILITY_CONVERSE]
    # In the server's order; 999 is of the future.
    assert list(opened(rows, requested).capabilities) == [
        xla_extension_pb2.CAPABILITY_CONVERSE,
        xla_extension_pb2.CAPABILITY_RUN,
    ]
