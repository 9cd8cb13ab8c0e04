"""The rpcs of sessions."""

import dataclasses
import importlib.metadata
import logging
from collections.abc import Iterable, Mapping, Sequence

from xla_contract.errors import InvalidArgumentError
from xla_contract.stubs import xla_extension_pb2 as extension_pb2
from xla_contract.wire.shape_proto import program_shape_to_proto, shape_to_proto
from xla_server.execution.cancellation import Cancellation
from xla_server.rpc.calls.method_table import MethodSpec, Unary
from xla_server.rpc.encode import data_handles
from xla_server.rpc.errors import status_proto_of
from xla_server.rpc.threads.pools import Pool
from xla_server.sessions.handle_listing import Description, ValueDescription
from xla_server.sessions.limits.server_limits import Quotas
from xla_server.sessions.limits.shares.caller import Caller
from xla_server.sessions.programs.executable_table import LoadedExecutable
from xla_server.sessions.session import Session
from xla_server.sessions.session_registry import SessionRegistry

SERVER_NAME = f"xla-service {importlib.metadata.version('xla-service')}"
"""The server's name and version for clients."""

_LOG = logging.getLogger(__name__)

_LONGEST_NAME = 128
"""Characters of a client's name that are kept, as logs and listings repeat it."""

_MAX_DESCRIBED = 1024
"""Largest number of handles in one response of DescribeHandles, as the contract states."""

_DESCRIBED_BYTES = 1 << 20
"""Size of such a response, in bytes, from which no further handle is added."""


@dataclasses.dataclass(frozen=True, slots=True)
class SessionRpcs:
    """OpenSession, CloseSession, DescribeSession and DescribeHandles."""

    _sessions: SessionRegistry
    _capabilities: Sequence[extension_pb2.Capability]
    _max_message_bytes: int
    _shared_memory_socket: str = ""

    @property
    def methods(self) -> Mapping[str, MethodSpec]:
        """The methods by the names of the rpcs."""
        return {
            "OpenSession": Unary(Pool.SHORT, self._open, has_session=False),
            "CloseSession": Unary(Pool.SHORT, self._close),
            "DescribeSession": Unary(Pool.SHORT, self._describe),
            "DescribeHandles": Unary(Pool.SHORT, _describe_handles),
        }

    def _open(
        self, caller: Caller, request: extension_pb2.OpenSessionRequest, _: Cancellation
    ) -> extension_pb2.OpenSessionResponse:
        session = self._sessions.open(request.resume_token, caller)
        known = set(request.capabilities or self._capabilities)
        client = request.client[:_LONGEST_NAME] or "a client"
        _LOG.info("session opened by %s", client, extra={"identity": caller.identity})
        return extension_pb2.OpenSessionResponse(
            token=session.token,
            capabilities=[each for each in self._capabilities if each in known],
            quotas=quotas_proto(self._sessions.engine.quotas),
            grace_seconds=self._sessions.grace_seconds,
            server=SERVER_NAME,
            shared_memory_socket=self._shared_memory_socket,
            max_message_bytes=self._max_message_bytes,
            server_instance=self._sessions.instance,
            device_count=len(self._sessions.engine.backend.devices),
        )

    def _close(
        self, service: Session, _: extension_pb2.CloseSessionRequest, __: Cancellation
    ) -> extension_pb2.CloseSessionResponse:
        self._sessions.close(self._sessions.of(service))
        return extension_pb2.CloseSessionResponse()

    def _describe(
        self, service: Session, _: extension_pb2.DescribeSessionRequest, __: Cancellation
    ) -> extension_pb2.DescribeSessionResponse:
        return extension_pb2.DescribeSessionResponse(
            quotas=quotas_proto(service.quotas),
            use=quotas_proto(service.use()),
            server_device_bytes=service.engine.memory.used_bytes,
            server_sessions=len(self._sessions),
            server_shared_bytes=service.engine.arenas.lent_bytes,
            server_answer_bytes=service.engine.response_memory.used,
            server_waiting_executions=len(service.engine.queue),
        )


def _describe_handles(
    service: Session, request: extension_pb2.DescribeHandlesRequest, _: Cancellation
) -> extension_pb2.DescribeHandlesResponse:
    if request.handles and request.after:
        raise InvalidArgumentError(
            "after must be 0 where handles are asked about, got "
            f"{request.after} with {len(request.handles)} handles"
        )
    if len(request.handles) > _MAX_DESCRIBED or not 0 <= request.limit <= _MAX_DESCRIBED:
        raise InvalidArgumentError(
            f"one answer must describe at most {_MAX_DESCRIBED} handles, got "
            f"{len(request.handles)} handles and the limit {request.limit}"
        )
    found: Iterable[tuple[int, Description]]
    if request.handles:
        found = ((handle, service.listing.describe(handle)) for handle in request.handles)
    else:
        found = service.listing.after(request.after)
    response = extension_pb2.DescribeHandlesResponse()
    limit = request.limit or _MAX_DESCRIBED
    size = 0
    for handle, description in found:
        if len(response.handles) == limit or size >= _DESCRIBED_BYTES:
            response.has_more = True
            break
        proto = _description(handle, description)
        size += proto.ByteSize()
        response.handles.append(proto)
    return response


def _description(handle: int, description: Description) -> extension_pb2.HandleDescription:
    proto = extension_pb2.HandleDescription(handle=handle)
    if isinstance(description, ValueDescription):
        proto.value.shape.CopyFrom(shape_to_proto(description.shape))
        proto.value.is_pending = description.is_pending
        if description.error is not None:
            proto.value.status = status_proto_of(description.error).SerializeToString()
    elif isinstance(description, LoadedExecutable):
        proto.executable.name = description.name
        program_shape = program_shape_to_proto(description.program_shape)
        proto.executable.program_shape.CopyFrom(program_shape)
    else:
        proto.execution.name = description.name
        proto.execution.is_done = description.is_done
        for step, outputs in zip(description.run.steps, description.outputs, strict=True):
            shapes = step.output.shapes(step.result)
            proto.execution.steps.add(
                result=shape_to_proto(step.result),
                outputs=data_handles(outputs),
                shapes=[shape_to_proto(shape) for shape in shapes],
            )
    return proto


def quotas_proto(quotas: Quotas) -> extension_pb2.Quotas:
    """Return the message of quotas, or of their use."""
    return extension_pb2.Quotas(**dataclasses.asdict(quotas))
