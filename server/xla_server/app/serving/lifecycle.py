"""The life of a server process: ready, serving, draining, ended."""

import functools
import gc
import json
import logging
import os
import signal
import sys
import threading
import time

from xla_contract.errors import ResourceExhaustedError
from xla_host import allocator
from xla_server.app.options.settings import Settings
from xla_server.app.serving.access import AccessControl, connecting_line, prepare_access
from xla_server.app.serving.distribution import backend_of_all, follow, joined_world, leading
from xla_server.app.serving.metrics_endpoint import metrics_endpoint
from xla_server.app.serving.wakeup import TIMED_OUT, Events
from xla_server.app.serving.wiring import create_server
from xla_server.backends.platform import Backend
from xla_server.execution.start_thread import start_thread
from xla_server.identity.policy import Reach, reach_of
from xla_server.rpc.server import RpcServer

_LOG = logging.getLogger(__name__)

_DRAINED = 0
_FAILED = 255
"""Events other than signals: drained, the platform cannot be loaded."""

_SIGNAL_GROUP_SECONDS = 0.25
"""Signals within this time of the first count as one: timeout(1) sends SIGTERM to the process, and
then once more to its group."""

_PREPARATION_SECONDS = 0.05
"""Timeout of the preparation's thread after a drain, in seconds."""

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class PlatformError(Exception):
    """The platform could not be loaded; the log has the reason."""


def run_until_signalled(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT, then drain; a second signal cancels what still runs.

    Signals that come together count as one: a second one is one that comes after the log says
    `draining`. When ready, prints one line of JSON with the first address, all addresses, platform
    and number of devices on standard output; the platform is loaded after that. Raises as
    `create_server`, and PlatformError. Does not return when a call, or the loading of
    the platform, cannot be stopped: the process then ends with status 0 around it.
    """
    allocator.tune()
    allocator.trim_when_idle()
    world = joined_world(settings)
    if world is not None and world.rank:
        follow(settings, world)
        return
    # First, so that an address that must not be listened on is reported at once.
    access = prepare_access(settings)
    backend = backend_of_all(settings, world)
    with (
        Events(_SIGNALS) as events,
        leading(settings, world, backend) as hosts,
        create_server(settings, backend, access, hosts) as server,
        metrics_endpoint(settings.metrics_listen, server.metrics) as metrics_address,
    ):
        if hosts is not None:
            # Health reports whether all processes are alive.
            server.set_distributed(is_healthy=True)
            hosts.watch(functools.partial(server.set_distributed, is_healthy=False))
        # Objects loaded by now live on: scanning them takes longer than compiling a program.
        gc.freeze()
        _announce(server, backend, metrics_address)
        _announce_access(server, access)
        _LOG.info("ready", extra={"listening": list(server.addresses)})
        preparation = _Preparation(backend, events, only_loads=not settings.prepare)
        number = events.get()
        if number == _FAILED:
            raise PlatformError(f"the platform {settings.platform} cannot be loaded")
        preparation.end()
        is_idle = _drain(server, settings.grace_seconds, signal.Signals(number).name, events)
    if is_idle:
        # Bytes that are not 0 here have leaked.
        left = {"device_bytes": server.device_bytes, "shared_bytes": server.shared_bytes}
        _LOG.info("drained", extra=left)
    else:
        _LOG.warning("leaving with calls that do not stop")
    if not is_idle or not preparation.has_ended():
        _leave()


def _leave() -> None:
    """End the process with 0; Python's own exit waits for threads, or destroys what they use."""
    for stream in (sys.stdout, sys.stderr):
        # Python has no stream for a file that was closed at the start.
        if stream is not None:
            stream.flush()
    os._exit(0)


def _announce(server: RpcServer, backend: Backend, metrics_address: str) -> None:
    facts = {
        "listening": server.address,
        "addresses": list(server.addresses),
        "platform": str(backend.platform),
        "devices": len(backend.devices),
    } | ({"metrics": metrics_address} if metrics_address else {})
    try:
        print(json.dumps(facts), flush=True)
    except OSError as error:
        # The log has the addresses, too. Python would try once more to write the line when it ends.
        sys.stdout = None
        _LOG.warning("the ready line cannot be written to standard output: %s", error)


def _announce_access(server: RpcServer, access: AccessControl) -> None:
    """Log how to connect, where the server has made the credentials itself."""
    exposed = [each for each in server.addresses if reach_of(each) is not Reach.OWNER]
    if exposed and access.authenticator.is_open:
        is_far = any(reach_of(each) is Reach.NETWORK for each in exposed)
        level = logging.WARNING if is_far else logging.INFO
        _LOG.log(level, "insecure: whoever reaches the server may call", extra={"open": exposed})
    elif exposed and (access.token is not None or access.pinned):
        # A new token must not go unseen where little is logged.
        is_new = access.token is not None and access.token.is_new
        level = logging.WARNING if is_new else logging.INFO
        _LOG.log(level, "to connect: %s", connecting_line(access, exposed[0]))


class _Preparation:
    """A thread that loads the platform, and then compiles code that programs share.

    It ends soon after `end`; if it `only_loads`, once the platform is loaded.
    """

    def __init__(self, backend: Backend, events: Events, *, only_loads: bool) -> None:
        self._backend = backend
        self._events = events
        self._only_loads = only_loads
        self._is_over = threading.Event()
        self._thread = start_thread(self._run, "prepare")

    def _run(self) -> None:
        try:
            # With a check that is true from the start, `prepare` only loads the platform.
            self._backend.prepare(lambda: True)
        except Exception:
            _LOG.exception("the platform cannot be loaded")
            self._events.put(_FAILED)
            return
        gc.freeze()
        gc.enable()
        if not self._only_loads:
            self._backend.prepare(self._is_over.is_set)

    def end(self) -> None:
        """Let the thread end, without waiting: it may be in the middle of a compilation."""
        self._is_over.set()

    def has_ended(self) -> bool:
        """Return whether the thread has ended, or ends within a moment."""
        self._thread.join(_PREPARATION_SECONDS)
        return not self._thread.is_alive()


def _drain(server: RpcServer, grace_seconds: float, signal_name: str, events: Events) -> bool:
    """Drain; on a signal that does not count as one with the first, cancel what is in progress.

    Returns True if nothing is running any more.
    """
    outcome: list[bool] = []

    def drain() -> None:
        try:
            outcome.append(server.drain(grace_seconds))
        finally:
            events.put(_DRAINED)

    left: float | None = _SIGNAL_GROUP_SECONDS
    until = time.monotonic() + _SIGNAL_GROUP_SECONDS
    try:
        start_thread(drain, "drain")
    except ResourceExhaustedError:
        drain()  # Further signals do not count then.
    while (event := events.get(left)) != _DRAINED:
        if event == TIMED_OUT:
            # A further signal counts from this line on.
            _LOG.info("draining after %s", signal_name)
            left = None
        elif left is not None:
            left = max(0.0, until - time.monotonic())
        elif event != _FAILED:
            _LOG.warning("signalled again, what is in progress is cancelled")
            server.cancel()
    if left is not None:
        _LOG.info("draining after %s", signal_name)
    return outcome == [True]
