"""Construction of a server from its options."""

import contextlib
import dataclasses
from collections.abc import Iterator

from xla_server.app.options.settings import Settings
from xla_server.app.platforms import create_backend
from xla_server.app.serving.access import AccessControl, prepare_access
from xla_server.backends.platform import Backend
from xla_server.rpc.limits.concurrency_limit import ConcurrencyLimits
from xla_server.rpc.server import RpcOptions, RpcServer, serving
from xla_server.rpc.threads.pools import PoolSizes
from xla_server.rpc.threads.thread_pool import ThreadPool
from xla_server.sessions.limits.compile_budget import COMPILE_WINDOW_SECONDS
from xla_server.sessions.limits.server_limits import Limits, Quotas
from xla_server.sessions.limits.shares.caller_shares import CallerShares
from xla_server.sessions.runs.hosts import Hosts
from xla_server.sessions.session_registry import SessionRegistry
from xla_server.sessions.shared_resources import SharedResources


@contextlib.contextmanager
def create_server(
    settings: Settings,
    backend: Backend | None = None,
    access: AccessControl | None = None,
    hosts: Hosts | None = None,
) -> Iterator[RpcServer]:
    """A server that answers until the block ends, on `backend` or the platform of `settings`.

    `access` authenticates its callers, by default as `settings` state. `hosts` are the processes
    that its devices are in, by default this one. Raises as `prepare_access`, `create_backend` and
    `start_thread`, and CannotListenError for an address that cannot be listened on.
    """
    access = prepare_access(settings) if access is None else access
    backend = backend or create_backend(settings)
    limits = limits_of(settings, backend)
    capacity, shares = limits.max_device_bytes, limits.shares
    # A session has one connection and one identity, and never gets more than those may have.
    session_bytes_cap = int(min(shares.identity, shares.connection) * capacity)
    quotas = Quotas(
        device_bytes=min(settings.session_device_bytes or session_bytes_cap, session_bytes_cap),
        handles=settings.max_handles,
        queued_items=settings.feed_items,
        queued_bytes=settings.feed_bytes,
        concurrent_executions=settings.session_executions,
        launched_executions=settings.session_launches,
        compile_seconds=settings.session_compile_seconds,
        answer_bytes=settings.session_answer_bytes,
    )
    # Each session may have one of each beyond the number that all sessions share.
    executions = settings.max_executions + settings.max_sessions
    calls = ConcurrencyLimits(
        settings.max_concurrent_calls, settings.session_calls, settings.max_sessions, shares
    )
    streams = ConcurrencyLimits(
        settings.max_streams, settings.session_streams, settings.max_sessions, shares
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
            shares=shares,
        ),
        streams=streams,
        authenticator=access.authenticator,
        certificates=access.certificates,
        socket_mode=access.socket_mode,
    )
    threads = ThreadPool(settings.execute_threads, "xla-execution", max_lent=executions)
    engine = SharedResources(backend, limits, threads, quotas, hosts)
    sessions = SessionRegistry(engine, grace_seconds=settings.session_grace_seconds)
    with serving(sessions, options) as server:
        yield server


def limits_of(settings: Settings, backend: Backend) -> Limits:
    """Return the limits of one server: the options of the same names, and those derived."""
    capacity = device_bytes(settings, backend)
    all_compiling = settings.compile_threads * COMPILE_WINDOW_SECONDS
    same = {
        each.name: getattr(settings, each.name)
        for each in dataclasses.fields(Limits)
        if each.name in Settings.model_fields
    }
    return dataclasses.replace(
        Limits(**same),
        max_device_bytes=capacity,
        max_compile_seconds=settings.max_compile_seconds or all_compiling,
        shares=CallerShares(settings.identity_share, settings.connection_share),
        upload_grace_seconds=settings.session_grace_seconds,
        spared_device_bytes=int(capacity * settings.spared_device_share),
    )


def device_bytes(settings: Settings, backend: Backend) -> int:
    """Return the bytes for values on devices: what is set, else what devices have of their own."""
    is_set = "max_device_bytes" in settings.model_fields_set
    if is_set or backend.memory_bytes is None:
        return settings.max_device_bytes
    return backend.memory_bytes
