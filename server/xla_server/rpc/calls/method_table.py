"""Entries of the tables of rpcs: the thread pool of each, and how it responds."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import grpc

from xla_contract.descriptors import Rpc
from xla_server.rpc.calls.boundary import Boundary, Decode, Handler, Method
from xla_server.rpc.calls.deferred import DeferredHandler, DeferredMethod
from xla_server.rpc.calls.draining import refusing_handler
from xla_server.rpc.calls.retry import retry_when_ready
from xla_server.rpc.calls.streaming import StreamHandler, StreamMethod
from xla_server.rpc.threads.pools import Pool, Pools


@dataclasses.dataclass(frozen=True, slots=True)
class Unary:
    """An rpc that responds in the calling thread, one of a pool."""

    pool: Pool
    method: Method
    has_session: bool = True
    """False for an rpc without a session: its method gets the Caller instead of a Session."""
    is_stateless: bool = False
    """True if the rpc neither needs nor leaves state in its session."""
    decode: Decode | None = None
    """Parser of requests, if it is not protobuf's own."""


@dataclasses.dataclass(frozen=True, slots=True)
class Deferred:
    """An rpc that begins in a thread of a pool and responds later, from any thread."""

    pool: Pool
    method: DeferredMethod
    decode: Decode | None = None
    """Parser of requests, if it is not protobuf's own."""


@dataclasses.dataclass(frozen=True, slots=True)
class Streaming:
    """A streaming rpc, which has a thread of its own while the stream lasts."""

    method: StreamMethod


MethodSpec: TypeAlias = Unary | Deferred | Streaming


def rpc_handlers(
    rpcs: Sequence[Rpc], specs: Mapping[str, MethodSpec], pools: Pools, boundary: Boundary
) -> "dict[str, grpc.RpcMethodHandler[Any, Any]]":
    """Return the map from the name of each of these rpcs to its handler for grpc.

    Raises ValueError unless `specs` has exactly their names, with Streaming for those that stream.
    """
    names = {rpc.name for rpc in rpcs}
    if set(specs) != names:
        raise ValueError(
            f"the methods must be those of the contract, got {sorted(names ^ set(specs))} "
            "on one side only"
        )
    return {rpc.name: _handler(rpc, specs[rpc.name], pools, boundary) for rpc in rpcs}


class ServiceHandler(grpc.ServiceRpcHandler):
    """One service: the handlers of its rpcs, for grpc.

    A unary call is answered fastest by a handler that cannot wait. Handlers that can wait for the
    outputs of launched executions are used only while such executions run. A client that names an
    output has its handle from Launch, so the execution is counted by then.
    """

    def __init__(
        self,
        name: str,
        rpcs: Sequence[Rpc],
        specs: Mapping[str, MethodSpec],
        pools: Pools,
        boundary: Boundary,
    ) -> None:
        self._name = name
        handlers = rpc_handlers(rpcs, specs, pools, boundary)
        self._handlers = {rpc.path: handlers[rpc.name] for rpc in rpcs}
        self._waiting = {
            rpc.path: _waiting_handler(rpc, spec, pools, boundary)
            for rpc in rpcs
            if isinstance(spec := specs[rpc.name], Unary) and spec.has_session
        }
        self._refusals = {rpc.path: refusing_handler(rpc, boundary.calls, pools) for rpc in rpcs}
        self._calls = boundary.calls
        self._launched = boundary.sessions.engine.launched

    def service_name(self) -> str:
        """The service's name; read by grpc."""
        return self._name

    def service(
        self, handler_call_details: grpc.HandlerCallDetails
    ) -> "grpc.RpcMethodHandler[Any, Any] | None":
        """The handler of a call; called by grpc."""
        path = handler_call_details.method
        if self._calls.are_refused and not self._calls.is_served(
            path, handler_call_details.invocation_metadata
        ):
            return self._refusals.get(path)
        if self._launched:
            waiting = self._waiting.get(path)
            if waiting is not None:
                return waiting
        return self._handlers.get(path)


def _waiting_handler(
    rpc: Rpc, spec: Unary, pools: Pools, boundary: Boundary
) -> "grpc.RpcMethodHandler[Any, Any]":
    executor = pools.arrivals(spec.pool)
    method = retry_when_ready(spec.method, executor)
    deferred = DeferredHandler(
        rpc, method, boundary, executor, is_stateless=spec.is_stateless, decode=spec.decode
    )
    return grpc.unary_stream_rpc_method_handler(deferred)


def _handler(
    rpc: Rpc, spec: MethodSpec, pools: Pools, boundary: Boundary
) -> "grpc.RpcMethodHandler[Any, Any]":
    is_streaming = rpc.request_streaming or rpc.response_streaming
    if isinstance(spec, Streaming) is not is_streaming:
        raise ValueError(f"{rpc.name} must stream as its contract says, got {spec}")
    if isinstance(spec, Streaming):
        return StreamHandler(rpc, spec.method, boundary, pools).handler()
    if isinstance(spec, Deferred):
        deferred = DeferredHandler(
            rpc, spec.method, boundary, pools.arrivals(spec.pool), decode=spec.decode
        )
        return grpc.unary_stream_rpc_method_handler(deferred)
    executor = pools.arrivals(spec.pool)
    handler = Handler(
        rpc, spec.method, boundary, executor, spec.has_session, spec.is_stateless, spec.decode
    )
    return grpc.unary_unary_rpc_method_handler(handler)
