"""The rpc about the whole server, for administrators."""

import dataclasses
import time
from collections.abc import Mapping

from xla_contract.errors import InvalidArgumentError
from xla_contract.stubs import xla_extension_pb2 as extension_pb2
from xla_server.codegen.lower.fusion_faults import FUSION_FAULTS
from xla_server.execution.cancellation import Cancellation
from xla_server.rpc.calls.method_table import MethodSpec, Unary
from xla_server.rpc.limits.memory_pressure import resident_bytes
from xla_server.rpc.methods.sessions import SERVER_NAME, quotas_proto
from xla_server.rpc.threads.pools import Pool, Pools
from xla_server.sessions.limits.shares.caller import Caller
from xla_server.sessions.session_registry import SessionEntry, SessionRegistry

_MAX_SESSIONS = 256
"""Largest number of sessions in one response of DescribeServer, as the contract states."""


@dataclasses.dataclass(frozen=True, slots=True)
class ServerRpcs:
    """DescribeServer."""

    _sessions: SessionRegistry
    _pools: Pools | None
    """The pools whose calls are reported; None to report none."""
    _max_resident_bytes: int
    _started: float = dataclasses.field(default_factory=time.monotonic, init=False)

    @property
    def methods(self) -> Mapping[str, MethodSpec]:
        """The methods by the names of the rpcs."""
        return {"DescribeServer": Unary(Pool.SHORT, self._describe, has_session=False)}

    def _describe(
        self, _: Caller, request: extension_pb2.DescribeServerRequest, __: Cancellation
    ) -> extension_pb2.DescribeServerResponse:
        if not 0 <= request.sessions <= _MAX_SESSIONS:
            raise InvalidArgumentError(
                f"one answer must describe at most {_MAX_SESSIONS} sessions, got {request.sessions}"
            )
        response = self.state()
        found = [self._summary(session) for session in self._sessions.all()]
        found.sort(key=lambda each: each.use.device_bytes, reverse=True)
        response.described_sessions.extend(found[: request.sessions or _MAX_SESSIONS])
        return response

    def state(self) -> extension_pb2.DescribeServerResponse:
        """Return the state of the server, without its sessions."""
        engine = self._sessions.engine
        limits, programs = engine.limits, engine.programs
        response = extension_pb2.DescribeServerResponse(
            server=SERVER_NAME,
            platform=engine.backend.platform,
            seconds=time.monotonic() - self._started,
            devices=[str(device) for device in engine.backend.devices],
            device_bytes=_usage(engine.memory.used_bytes, engine.memory.max_bytes),
            shared_bytes=_usage(engine.arenas.lent_bytes, engine.arenas.max_bytes),
            answer_bytes=_usage(engine.response_memory.used, engine.response_memory.limit),
            resident_bytes=_usage(resident_bytes(), self._max_resident_bytes),
            sessions=_usage(len(self._sessions), limits.max_sessions),
            executables=_usage(len(programs), limits.max_executables),
            idle_executables=_usage(programs.idle_count, limits.max_idle_executables),
            executions=_usage(engine.executing.used, limits.max_executions),
            launched_executions=_usage(len(engine.launched), limits.max_launches),
            waiting_executions=len(engine.queue),
            fusion_faults=FUSION_FAULTS.count,
        )
        if self._pools is not None:
            calls, streams = self._pools.calls.shares, self._pools.streams.shares
            response.calls.CopyFrom(_usage(calls.used, calls.limit))
            response.streams.CopyFrom(_usage(streams.used, streams.limit))
            for pool, threads in self._pools.threads.items():
                response.pools.add(name=pool, threads=threads.count, waiting=threads.waiting)
        return response

    def totals(self) -> Mapping[str, float]:
        """Return numbers that only grow, by the names of their metrics."""
        engine = self._sessions.engine
        return {
            "compilations": engine.programs.compilations,
            "compile_seconds": engine.programs.compile_seconds,
            "execution_wait_seconds": engine.queue.waited_seconds,
        }

    def _summary(self, session: SessionEntry) -> extension_pb2.SessionSummary:
        return extension_pb2.SessionSummary(
            identity=session.caller.identity,
            is_attached=bool(session.attached),
            calls=session.users,
            idle_seconds=self._sessions.idle_seconds(session),
            use=quotas_proto(session.service.use()),
            executables=len(session.service.executables),
        )


def _usage(used: int, limit: int) -> extension_pb2.Usage:
    return extension_pb2.Usage(used=used, limit=limit)
