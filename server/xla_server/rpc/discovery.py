"""Health and reflection: what load balancers and tools such as grpcurl ask."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
from google.protobuf.descriptor import FileDescriptor
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection, reflection_pb2

from xla_contract.descriptors import EXTENSION, EXTENSION_NAME, SERVICE, SERVICE_NAME

_OWN_SERVICES = ("", SERVICE_NAME, EXTENSION_NAME)
"""Names health is known under; the empty one is the server as a whole."""


_REFLECTION_THREADS = 4


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
    """The health and reflection services of a server. Health runs in its default threads."""

    def __init__(self, server: grpc.Server) -> None:
        self._health = health.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(self._health, server)
        self._reflection = _Reflection()
        handler = grpc.stream_stream_rpc_method_handler(
            self._reflection,
            request_deserializer=reflection_pb2.ServerReflectionRequest.FromString,
            response_serializer=reflection_pb2.ServerReflectionResponse.SerializeToString,
        )
        server.add_generic_rpc_handlers(
            (
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
        self._reflection.experimental_thread_pool.shutdown(wait=False, cancel_futures=True)

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
