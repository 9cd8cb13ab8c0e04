"""The rpcs of xla_extension.proto: the tables of all groups, joined."""

import itertools
from collections.abc import Mapping, Sequence

from xla_contract.stubs import xla_extension_pb2 as extension_pb2
from xla_server.rpc.calls.method_table import MethodSpec
from xla_server.rpc.methods import feeds, programs, runs, shared_memory, transfers
from xla_server.rpc.methods.server_status import ServerRpcs
from xla_server.rpc.methods.sessions import SessionRpcs
from xla_server.sessions.session_registry import SessionRegistry

CAPABILITIES: Sequence[extension_pb2.Capability] = (
    extension_pb2.CAPABILITY_CONVERSE,
    extension_pb2.CAPABILITY_CHUNKED_TRANSFERS,
    extension_pb2.CAPABILITY_FEED_STREAMS,
    extension_pb2.CAPABILITY_RUN,
    extension_pb2.CAPABILITY_LAUNCH,
    extension_pb2.CAPABILITY_DESCRIBE_HANDLES,
    extension_pb2.CAPABILITY_RUN_PARTS,
    extension_pb2.CAPABILITY_MODULES,
    extension_pb2.CAPABILITY_ANALYSIS,
    extension_pb2.CAPABILITY_SHARDED,
    extension_pb2.CAPABILITY_HOST_CHANNELS,
)
"""Capabilities of this server, which clients query."""


def extension_methods(
    sessions: SessionRegistry,
    max_message_bytes: int,
    shared_memory_socket: str = "",
    server: ServerRpcs | None = None,
) -> dict[str, MethodSpec]:
    """Return the entries of all rpcs by name.

    Without a socket there is no shared memory, as OpenSession reports. `server` has DescribeServer;
    by default it reports no pools.
    """
    capabilities = list(CAPABILITIES)
    if shared_memory_socket:
        capabilities.append(extension_pb2.CAPABILITY_SHARED_MEMORY)
        capabilities.append(extension_pb2.CAPABILITY_SHARED_PIECES)
    groups: Sequence[Mapping[str, MethodSpec]] = (
        SessionRpcs(sessions, capabilities, max_message_bytes, shared_memory_socket).methods,
        (server or ServerRpcs(sessions, None, 0)).methods,
        transfers.METHODS,
        feeds.METHODS,
        runs.METHODS,
        programs.METHODS,
        shared_memory.METHODS,
    )
    return dict(itertools.chain.from_iterable(group.items() for group in groups))
