"""Health and reflection: services for load balancers and tools such as grpcurl."""

import functools
import time
from collections.abc import Callable, Iterator
from typing import Any

import grpc
from google.protobuf.descriptor import FileDescriptor
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from grpc_health.v1 import health, health_pb2
from grpc_reflection.v1alpha import reflection, reflection_pb2

from xla_contract.descriptors import EXTENSION, EXTENSION_NAME, SERVICE, SERVICE_NAME
from xla_server.identity.identity import Identity
from xla_server.rpc.calls.completion import at_end
from xla_server.rpc.limits.idle_streams import IdleTimer
from xla_server.rpc.peers.gate import Gate
from xla_server.rpc.threads.pools import Pools
from xla_server.rpc.threads.request_threads import RequestThreadPool
from xla_server.rpc.threads.thread_pool import ThreadPool

_OWN_SERVICES = ("", SERVICE_NAME, EXTENSION_NAME)
"""Names of services that health reports; the empty one is the server as a whole."""

DISTRIBUTED = "distributed"
"""The health service's name for all processes of a distributed server together."""


_WATCH_PATH = f"/{health.SERVICE_NAME}/Watch"
_REFLECTION_PATH = f"/{reflection.SERVICE_NAME}/ServerReflectionInfo"

_REFLECTION_THREADS = 4
_CHECK_THREADS = 4
"""Number of threads, each for streams of reflection and for health checks."""

_WATCH_THREADS = 64
"""Number of concurrent Watch streams of health; each holds a thread while it is open."""


def _timed_messages(requests: Iterator[bytes], silence: IdleTimer) -> Iterator[bytes]:
    """Yield the messages of a stream; its timer runs while the next one is awaited."""
    while True:
        silence.since.append(time.monotonic())
        request = next(requests, None)
        if not silence.received() or request is None:
            return
        yield request


class Discovery:
    """The health and reflection services of a server, in threads of their own."""

    def __init__(self, server: grpc.Server, pools: Pools, gate: Gate) -> None:
        self._gate = gate
        self._silences = pools.silences
        self._health = health.HealthServicer(experimental_non_blocking=False)
        names = (SERVICE_NAME, EXTENSION_NAME, health.SERVICE_NAME, reflection.SERVICE_NAME)
        self._reflection: Any = reflection.ReflectionServicer(names, _reflection_pool())
        self._own_threads: list[ThreadPool] = []

        def own(do: Callable[..., Any], name: str, count: int, **options: Any) -> Any:
            """Return a behaviour that runs in `count` threads of its own."""
            threads = ThreadPool(count, name)
            self._own_threads.append(threads)
            behave: Any = functools.partial(do)
            # Read by grpc; in the server's default threads open streams would block health checks.
            behave.experimental_thread_pool = RequestThreadPool(
                threads, pools.expected, pools.calls, **options
            )
            return behave

        # Threads of Check wait for no other call. Check needs no credentials.
        check = own(self._check, "health", _CHECK_THREADS)
        # grpc's own servicer without threads sends while it holds the lock of all health states:
        # one client that does not read would block all others, and the server's end.
        watch = own(self._watch, "health-watch", _WATCH_THREADS, gate=gate)
        reflect = own(self._reflect, "reflection", _REFLECTION_THREADS, gate=gate, is_streamed=True)
        of_health: dict[str, Any] = {
            "Check": grpc.unary_unary_rpc_method_handler(check),
            "Watch": grpc.unary_stream_rpc_method_handler(watch),
        }
        of_reflection: dict[str, Any] = {
            "ServerReflectionInfo": grpc.stream_stream_rpc_method_handler(reflect)
        }
        server.add_generic_rpc_handlers(
            (
                grpc.method_handlers_generic_handler(health.SERVICE_NAME, of_health),
                grpc.method_handlers_generic_handler(reflection.SERVICE_NAME, of_reflection),
            )
        )

    def set_serving(self) -> None:
        """Report SERVING."""
        for name in _OWN_SERVICES:
            self._health.set(name, health_pb2.HealthCheckResponse.SERVING)

    def set_distributed(self, *, is_healthy: bool) -> None:
        """Report SERVING or NOT_SERVING for all processes together, under the name DISTRIBUTED.

        Programs of this process alone are served in any case.
        """
        status = health_pb2.HealthCheckResponse
        self._health.set(DISTRIBUTED, status.SERVING if is_healthy else status.NOT_SERVING)

    def close(self) -> None:
        """End the threads; the server must have stopped."""
        for threads in self._own_threads:
            threads.shutdown(wait=False, cancel_futures=True)

    def set_draining(self) -> None:
        """Report NOT_SERVING from now on."""
        self._health.enter_graceful_shutdown()

    def _check(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        query = _parsed("Check", health_pb2.HealthCheckRequest, request, context)
        found = self._health.Check(query, context)
        if found.status == health_pb2.HealthCheckResponse.UNKNOWN:
            # grpc ignores a code set on the context if the response is bytes.
            context.abort(
                grpc.StatusCode.NOT_FOUND,
                f"Check: the service must be one of this server's, got {query.service!r:.200}",
            )
        answer: bytes = found.SerializeToString()
        return answer

    def _watch(self, request: bytes, context: grpc.ServicerContext) -> Iterator[bytes]:
        """Yield the status of a service, at first and at each change."""
        self._require_admitted(context, _WATCH_PATH)
        query = _parsed("Watch", health_pb2.HealthCheckRequest, request, context)
        for answer in self._health.Watch(query, context):
            yield answer.SerializeToString()

    def _reflect(self, requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        """Yield an answer to each query about the services and their messages."""
        self._require_admitted(context, _REFLECTION_PATH)
        silence = IdleTimer(context.peer(), lambda _: context.cancel(), context.cancel)
        # Each query is independent, so that a silent stream may be ended.
        silence.is_idle = lambda: True
        self._silences[silence] = None
        at_end(context, lambda: self._silences.pop(silence, None))
        queries = (
            _parsed("ServerReflectionInfo", reflection_pb2.ServerReflectionRequest, each, context)
            for each in _timed_messages(requests, silence)
        )
        for answer in self._reflection.ServerReflectionInfo(queries, context):
            yield answer.SerializeToString()

    def _require_admitted(self, context: grpc.ServicerContext, path: str) -> None:
        found = self._gate.examine(context, path)
        if not isinstance(found, Identity):
            context.abort_with_status(found)


def _parsed(name: str, kind: Any, request: bytes, context: grpc.ServicerContext) -> Any:
    """The request of an rpc, a message of `kind`; ends the call if it is malformed."""
    try:
        return kind.FromString(request)
    except DecodeError:
        context.abort(
            grpc.StatusCode.INVALID_ARGUMENT,
            f"{name}: the request must be a {kind.DESCRIPTOR.full_name} message, "
            f"got {len(request)} bytes that are none",
        )


def _reflection_pool() -> DescriptorPool:
    """A pool with the files of all services: the process-wide one must not have the contract's."""
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
