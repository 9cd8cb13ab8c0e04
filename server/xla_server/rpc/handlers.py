"""The table from the rpcs of the contract to handlers, and the boundary around each."""

import logging
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
from google.protobuf.message import DecodeError, EncodeError, Message

from xla_contract.descriptors import RPCS, Rpc
from xla_contract.errors import (
    CancelledError,
    DeadlineExceededError,
    InvalidArgumentError,
    ResourceExhaustedError,
)
from xla_server.evaluator.cancellation import Cancellation
from xla_server.rpc.calls import Calls
from xla_server.rpc.errors import as_xla_error, status_of
from xla_server.rpc.pools import Pool, Pools

_LOG = logging.getLogger(__name__)

Method = Callable[[Any, Cancellation], Message]
"""Decodes a request, calls the service, encodes the response; raises XlaError."""


class Handler:
    """One rpc: from the bytes of a request to those of a response.

    grpc would parse the request before anyone of ours sees it and answer INTERNAL where it
    cannot; so it hands over bytes, and they are parsed in here.
    """

    def __init__(
        self, rpc: Rpc, method: Method, calls: Calls, executor: ThreadPoolExecutor, max_bytes: int
    ) -> None:
        self._rpc = rpc
        self._method = method
        self._calls = calls
        self._max_bytes = max_bytes
        # Read by grpc, which otherwise runs all behaviours in one pool.
        self.experimental_thread_pool = executor

    def __call__(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        """Answer one call; whatever goes wrong becomes a status, and nothing else happens."""
        started = time.monotonic()
        _LOG.debug("called", extra={"rpc": self._rpc.name, "peer": context.peer()})
        status = None
        response = b""
        try:
            response = self._answer(request, context)
        except BaseException as error:
            # The boundary: what passes it reaches the client as grpc words it, cause and all.
            status = self._status_of(error, context, time.monotonic() - started)
        if status is not None:
            context.abort_with_status(status)
        facts = {"rpc": self._rpc.name, "seconds": time.monotonic() - started}
        _LOG.debug("answered", extra=facts)
        return response

    def _answer(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        with self._calls.running(context) as cancellation:
            response = self._method(self._parse(request), cancellation)
            return self._serialize(response)

    def _parse(self, request: bytes) -> Message:
        try:
            return self._rpc.request.FromString(request)
        except DecodeError as error:
            raise InvalidArgumentError(
                f"{self._rpc.name}: the request must be a {self._rpc.request.DESCRIPTOR.full_name} "
                f"message, got {len(request)} bytes that are none: {error}",
                op=self._rpc.name,
            ) from None

    def _serialize(self, response: Message) -> bytes:
        try:
            data = response.SerializeToString()
        except EncodeError:
            data = None
        if data is None or len(data) > self._max_bytes:
            size = "more than any message" if data is None else f"{len(data)} bytes"
            raise ResourceExhaustedError(
                f"a message may take {self._max_bytes} bytes, got a response of {size}",
                op=self._rpc.name,
                hint="Slice the value on the device and transfer the parts.",
            )
        return data

    def _status_of(
        self, error: BaseException, context: grpc.ServicerContext, seconds: float
    ) -> grpc.Status:
        told, incident = as_xla_error(error, self._rpc.name)
        if not told.op:
            told = told.at(self._rpc.name)
        facts = {
            "rpc": self._rpc.name,
            "code": told.code.name,
            "peer": context.peer(),
            "seconds": seconds,
        }
        if incident:
            _LOG.error("incident %s", incident, exc_info=error, extra=facts)
        elif isinstance(told, CancelledError | DeadlineExceededError):
            _LOG.debug("%s", told.message, extra=facts)
        else:
            _LOG.info("%s", told.message, extra=facts)
        return status_of(told, incident=incident)


def rpc_handlers(
    methods: Mapping[str, tuple[Pool, Method]],
    pools: Pools,
    calls: Calls,
    *,
    max_message_bytes: int,
) -> "dict[str, grpc.RpcMethodHandler[Any, Any]]":
    """Rpc name -> what grpc calls, for the rpcs of the contract and no other.

    Raises ValueError unless `methods` has exactly their names.
    """
    names = {rpc.name for rpc in RPCS}
    if set(methods) != names:
        raise ValueError(
            f"the methods must be those of the contract, got {sorted(names ^ set(methods))} "
            "on one side only"
        )
    handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {}
    for rpc in RPCS:
        pool, method = methods[rpc.name]
        handler = Handler(rpc, method, calls, pools.executor(pool), max_message_bytes)
        handlers[rpc.name] = grpc.unary_unary_rpc_method_handler(handler)
    return handlers
