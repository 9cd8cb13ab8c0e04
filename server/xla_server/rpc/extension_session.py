"""The rpcs of sessions."""

import importlib.metadata
import logging
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from xla_contract.stubs import xla_extension_pb2 as extension_pb2
from xla_server.evaluator.cancellation import Cancellation
from xla_server.rpc.methods import Row, Unary
from xla_server.rpc.pools import Pool
from xla_server.sessions.quotas import Quotas
from xla_server.sessions.registry import SessionRegistry
from xla_server.sessions.service import XlaService

_LOG = logging.getLogger(__name__)

_LONGEST_NAME = 128


class SessionRpcs:
    """OpenSession, CloseSession and DescribeSession."""

    def __init__(
        self,
        sessions: SessionRegistry,
        capabilities: Sequence[extension_pb2.Capability],
        max_message_bytes: int,
        shared_memory_socket: str = "",
    ) -> None:
        self._sessions = sessions
        self._capabilities = tuple(capabilities)
        self._max_message_bytes = max_message_bytes
        self._shared_memory_socket = shared_memory_socket

    @property
    def rows(self) -> Mapping[str, Row]:
        """By the names of the rpcs."""
        return MappingProxyType(
            {
                "OpenSession": Unary(Pool.SHORT, self._open, has_session=False),
                "CloseSession": Unary(Pool.SHORT, self._close),
                "DescribeSession": Unary(Pool.SHORT, self._describe),
            }
        )

    def _open(
        self, _: None, request: extension_pb2.OpenSessionRequest, __: Cancellation
    ) -> extension_pb2.OpenSessionResponse:
        session = self._sessions.open(request.resume_token)
        known = set(request.capabilities or self._capabilities)
        _LOG.info("session opened by %s", request.client[:_LONGEST_NAME] or "a client")
        return extension_pb2.OpenSessionResponse(
            token=session.token,
            capabilities=[each for each in self._capabilities if each in known],
            quotas=_quotas(self._sessions.engine.quotas),
            grace_seconds=self._sessions.grace_seconds,
            server=f"xla-service {importlib.metadata.version('xla-service')}",
            shared_memory_socket=self._shared_memory_socket,
            max_message_bytes=self._max_message_bytes,
        )

    def _close(
        self, service: XlaService, _: extension_pb2.CloseSessionRequest, __: Cancellation
    ) -> extension_pb2.CloseSessionResponse:
        self._sessions.close(self._sessions.of(service))
        return extension_pb2.CloseSessionResponse()

    def _describe(
        self, service: XlaService, _: extension_pb2.DescribeSessionRequest, __: Cancellation
    ) -> extension_pb2.DescribeSessionResponse:
        return extension_pb2.DescribeSessionResponse(
            quotas=_quotas(service.quotas),
            use=_quotas(service.use()),
            server_device_bytes=service.engine.memory.used_bytes,
            server_sessions=len(self._sessions),
            server_shared_bytes=service.engine.arenas.lent_bytes,
        )


def _quotas(quotas: Quotas) -> extension_pb2.Quotas:
    return extension_pb2.Quotas(
        device_bytes=quotas.device_bytes,
        handles=quotas.handles,
        queued_items=quotas.queued_items,
        queued_bytes=quotas.queued_bytes,
        concurrent_executions=quotas.concurrent_executions,
        launched_executions=quotas.launched_executions,
        compile_seconds=quotas.compile_seconds,
    )
