"""Health and reflection: what load balancers and tools such as grpcurl ask."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
from google.protobuf.descriptor import FileDescriptor
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection, reflection_pb2

from xla_contract.descriptors import EXTENSION, EXTENSION_NAME, SERVICE, SERVICE_NAME
from xla_server.rpc.arrivals import Arrivals
from xla_server.rpc.threads import Threads

_OWN_SERVICES = ("", SERVICE_NAME, EXTENSION_NAME)
"""Names health is known under; the empty one is the server as a whole."""


_REFLECTION_THREADS = 4
_CHECK_THREADS = 4
_WATCH_THREADS = 64
"""Streams of health's Watch that are served at the same time; each holds one while it is open."""


class _Check:
    """The unary rpc of health, whose threads wait for nobody."""

    def __init__(self, servicer: health.HealthServicer) -> None:
        self._servicer = servicer
        self._threads = Threads(_CHECK_THREADS, "health")
        # Read by grpc.
        self.experimental_thread_pool = Arrivals(self._threads)

    def __call__(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        """Say how a service is; NOT_FOUND when there is none of the name."""
        try:
            asked = health_pb2.HealthCheckRequest.FromString(request)
        except DecodeError:
            context.abort(
                grpc.StatusCode.INVALID_ARGUMENT,
                f"Check: the request must be a {health_pb2.HealthCheckRequest.DESCRIPTOR.full_name}"
                f" message, got {len(request)} bytes that are none",
            )
        found = self._servicer.Check(asked, context)
        if found.status == health_pb2.HealthCheckResponse.UNKNOWN:
            # A code that is set on the context says nothing where bytes are answered.
            context.abort(
                grpc.StatusCode.NOT_FOUND,
                f"Check: the service must be one of this server's, got {asked.service!r:.200}",
            )
        answer: bytes = found.SerializeToString()
        return answer

    def close(self) -> None:
        """Let the threads go."""
        self._threads.shutdown(wait=False, cancel_futures=True)


class _Watch:
    """The streaming rpc of health, in threads of its own.

    grpc's own way without threads sends while it holds the lock of all that is known of health: one
    client that does not read would hold up everybody who asks, and the server's end.
    """

    def __init__(self, servicer: health.HealthServicer) -> None:
        self._servicer = servicer
        self.experimental_thread_pool = ThreadPoolExecutor(
            _WATCH_THREADS, thread_name_prefix="health-watch"
        )

    def __call__(self, request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        """Say how a service is, and again whenever that changes."""
        answers: Iterator[Any] = self._servicer.Watch(request, context)
        return answers


class _Reflection:
    """The one rpc of reflection, in threads of its own: a stream holds one while it is open."""

    def __init__(self) -> None:
        names = (SERVICE_NAME, EXTENSION_NAME, health.SERVICE_NAME, reflection.SERVICE_NAME)
        self._servicer: Any = reflection.ReflectionServicer(names, _reflection_pool())
        # Read by grpc; in the server's default threads open streams would hold up health.
        self.experimental_thread_pool = ThreadPoolExecutor(
            _REFLECTION_THREADS, thread_name_prefix="reflection"
        )

    def __call__(self, requests: Iterator[Any], context: grpc.ServicerContext) -> Iterator[Any]:
        """Answer the questions of one stream."""
        answers: Iterator[Any] = self._servicer.ServerReflectionInfo(requests, context)
        return answers


class Discovery:
    """The health and reflection services of a server, in threads of their own."""

    def __init__(self, server: grpc.Server) -> None:
        self._health = health.HealthServicer(experimental_non_blocking=False)
        self._check = _Check(self._health)
        self._watch = _Watch(self._health)
        watch = grpc.unary_stream_rpc_method_handler(
            self._watch,
            request_deserializer=health_pb2.HealthCheckRequest.FromString,
            response_serializer=health_pb2.HealthCheckResponse.SerializeToString,
        )
        check: Any = grpc.unary_unary_rpc_method_handler(self._check)
        self._reflection = _Reflection()
        handler = grpc.stream_stream_rpc_method_handler(
            self._reflection,
            request_deserializer=reflection_pb2.ServerReflectionRequest.FromString,
            response_serializer=reflection_pb2.ServerReflectionResponse.SerializeToString,
        )
        server.add_generic_rpc_handlers(
            (
                grpc.method_handlers_generic_handler(
                    health.SERVICE_NAME, {"Check": check, "Watch": watch}
                ),
                grpc.method_handlers_generic_handler(
                    reflection.SERVICE_NAME, {"ServerReflectionInfo": handler}
                ),
            )
        )

    def set_serving(self) -> None:
        """Report SERVING."""
        for name in _OWN_SERVICES:
            self._health.set(name, health_pb2.HealthCheckResponse.SERVING)

    def close(self) -> None:
        """Let the threads go; the server must have stopped."""
        self._check.close()
        for streams in (self._watch, self._reflection):
            streams.experimental_thread_pool.shutdown(wait=False, cancel_futures=True)

    def set_draining(self) -> None:
        """Report NOT_SERVING from now on."""
        self._health.enter_graceful_shutdown()


def is_healthy(target: str, timeout: float) -> bool:
    """Whether the server at `target` reports that it serves the contract."""
    with grpc.insecure_channel(target) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        try:
            answer = stub.Check(
                health_pb2.HealthCheckRequest(service=SERVICE_NAME), timeout=timeout
            )
        except grpc.RpcError:
            return False
    return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)


def _reflection_pool() -> DescriptorPool:
    """All files of all services offered.

    The contract's pool holds the contract alone, and the process-wide one must not hold it.
    """
    pool = DescriptorPool()
    seen: set[str] = set()
    for file in (SERVICE.file, EXTENSION.file, health_pb2.DESCRIPTOR, reflection_pb2.DESCRIPTOR):
        _add(pool, file, seen)
    return pool


def _add(pool: DescriptorPool, file: FileDescriptor, seen: set[str]) -> None:
    if file.name in seen:
        return
    seen.add(file.name)
    for dependency in file.dependencies:
        _add(pool, dependency, seen)
    pool.AddSerializedFile(file.serialized_pb)
