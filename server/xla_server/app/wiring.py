"""Putting a server together. The only place that names concrete platforms."""

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

from xla_contract.errors import InvalidArgumentError
from xla_server.app.config import ConfigurationError, Platform, Settings, incident_directory
from xla_server.backends.backend import Backend
from xla_server.backends.dump_directory import DumpDirectory
from xla_server.backends.incidents import Incidents
from xla_server.backends.interpreter import Interpreter
from xla_server.custom_calls.builtin import builtin_registry
from xla_server.custom_calls.registry import Registry
from xla_server.rpc.places import PlaceLimits
from xla_server.rpc.pools import PoolSizes
from xla_server.rpc.server import RpcOptions, RpcServer, serving
from xla_server.rpc.threads import Threads
from xla_server.sessions.engine import Engine
from xla_server.sessions.quotas import Quotas
from xla_server.sessions.records import Limits
from xla_server.sessions.registry import SessionRegistry


@contextlib.contextmanager
def create_server(settings: Settings, backend: Backend | None = None) -> Iterator[RpcServer]:
    """A server that answers until the block ends, on `backend` or the platform of `settings`.

    Raises as `create_backend`, and CannotListenError for an address that cannot be listened on.
    """
    limits = Limits(
        max_device_bytes=settings.max_device_bytes,
        max_message_bytes=settings.max_message_bytes,
        max_executables=settings.max_executables,
        max_idle_executables=settings.max_idle_executables,
        max_idle_executable_bytes=settings.max_idle_executable_bytes,
        max_answer_bytes=settings.max_answer_bytes,
        max_sessions=settings.max_sessions,
        max_executions=settings.max_executions,
        upload_grace_seconds=settings.session_grace_seconds,
        shared_memory_bytes=settings.shared_memory_bytes,
        session_shared_memory_bytes=settings.session_shared_memory_bytes,
    )
    quotas = Quotas(
        device_bytes=settings.session_device_bytes or settings.max_device_bytes,
        handles=settings.max_handles,
        queued_items=settings.feed_items,
        queued_bytes=settings.feed_bytes,
        concurrent_executions=settings.session_executions,
        launched_executions=settings.session_launches,
        compile_seconds=settings.session_compile_seconds,
        answer_bytes=settings.session_answer_bytes,
    )
    # Each session may have one of each beyond what all share.
    executions = settings.max_executions + settings.max_sessions
    calls = PlaceLimits(
        settings.max_concurrent_calls, settings.session_calls, reserve=settings.max_sessions
    )
    streams = PlaceLimits(
        settings.max_streams, settings.session_streams, reserve=settings.max_sessions
    )
    options = RpcOptions(
        listen=settings.listen,
        max_message_bytes=settings.max_message_bytes,
        calls=calls,
        max_resident_bytes=settings.max_resident_bytes,
        shared_memory_connections=settings.shared_memory_connections,
        pool_sizes=PoolSizes(
            short=settings.short_threads,
            compile=settings.compile_threads,
            execute=settings.execute_threads,
            lent=executions,
        ),
        streams=streams,
    )
    threads = Threads(settings.execute_threads, "xla-execution", most_lent=executions)
    engine = Engine(backend or create_backend(settings), limits, quotas, threads)
    sessions = SessionRegistry(engine, grace_seconds=settings.session_grace_seconds)
    with serving(sessions, options) as server:
        yield server


def _interpreter(settings: Settings) -> Backend:
    return Interpreter(
        settings.devices,
        max_value_bytes=settings.max_device_bytes,
        custom_calls=_custom_calls(settings),
        dumps=_dumps(settings),
    )


def _cpu(settings: Settings) -> Backend:
    # numba is only loaded where it is needed.
    from xla_server.backends.cpu import Cpu

    try:
        return Cpu(
            settings.devices,
            max_value_bytes=settings.max_device_bytes,
            custom_calls=_custom_calls(settings),
            compilation_cache_dir=settings.compilation_cache_dir,
            dumps=_dumps(settings),
            incidents=Incidents(incident_directory(settings.dump_dir)),
        )
    except InvalidArgumentError as error:
        raise ConfigurationError(f"compilation_cache_dir: {error.message}") from error


PLATFORMS: Mapping[Platform, Callable[[Settings], Backend]] = MappingProxyType(
    {Platform.INTERPRETER: _interpreter, Platform.CPU: _cpu}
)
"""What makes the backend of each platform there is; raises ConfigurationError."""


def create_backend(settings: Settings) -> Backend:
    """The platform of `settings`.

    Raises ConfigurationError for one that is not there, and a module of custom calls that cannot be
    loaded.
    """
    make = PLATFORMS.get(settings.platform)
    if make is None:
        raise ConfigurationError(
            f"platform: {settings.platform} is not part of this version, use "
            f"{' or '.join(PLATFORMS)}"
        )
    return make(settings)


def _dumps(settings: Settings) -> DumpDirectory:
    if not settings.dump_dir:
        return DumpDirectory()
    root = Path(settings.dump_dir)
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(f"dump_dir: {root}: {error.strerror}") from error
    if not os.access(root, os.W_OK | os.X_OK):
        raise ConfigurationError(f"dump_dir: {root}: the server must be able to write there")
    return DumpDirectory(root)


def _custom_calls(settings: Settings) -> Registry:
    registry = builtin_registry()
    for name in settings.custom_calls:
        try:
            registry.load(name)
        except Exception as error:
            raise ConfigurationError(
                f"custom_calls: module {name}: {type(error).__name__}: {error}"
            ) from error
    return registry
