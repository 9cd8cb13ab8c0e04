"""The life of a server process: ready, serving, draining, gone."""

import contextlib
import gc
import json
import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator

from xla_contract import malloc
from xla_server.app.config import Settings
from xla_server.app.events import Events
from xla_server.app.wiring import create_backend, create_server
from xla_server.backends.backend import Backend
from xla_server.rpc.server import RpcServer

_LOG = logging.getLogger(__name__)

_DRAINED = 0
_SIGNALS = (signal.SIGTERM, signal.SIGINT)


def run_until_signalled(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT, then drain; a second signal cancels what still runs.

    When ready, prints one line of JSON with the first address, all addresses, platform and number
    of devices on standard output. Raises as `create_server`. Does not return when a call cannot be
    stopped: the process then ends with status 0 around it.
    """
    malloc.tune()
    malloc.trim_when_idle()
    with (
        Events(_SIGNALS) as events,
        create_server(settings, backend := create_backend(settings)) as server,
    ):
        # What is loaded by now stays: looking through it takes longer than compiling a program.
        gc.freeze()
        _announce(server, settings)
        _LOG.info("ready", extra={"listening": list(server.addresses)})
        with _preparing(backend) if settings.prepare else contextlib.nullcontext():
            number = events.get()
        _LOG.info("draining after %s", signal.Signals(number).name)
        is_idle = _drain(server, settings.grace_seconds, events)
    if not is_idle:
        _LOG.warning("leaving with calls that do not stop")
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)
    # What is not 0 here was lost sight of.
    left = {"device_bytes": server.device_bytes, "shared_bytes": server.shared_bytes}
    _LOG.info("drained", extra=left)


def _announce(server: RpcServer, settings: Settings) -> None:
    facts = {
        "listening": server.address,
        "addresses": list(server.addresses),
        "platform": str(settings.platform),
        "devices": settings.devices,
    }
    print(json.dumps(facts), flush=True)


@contextlib.contextmanager
def _preparing(backend: Backend) -> Iterator[None]:
    """The platform makes ready what any program may need until it is, or the block ends."""
    is_over = threading.Event()
    thread = threading.Thread(
        target=backend.prepare, args=(is_over.is_set,), name="prepare", daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def _drain(server: RpcServer, grace_seconds: float, events: Events) -> bool:
    outcome: list[bool] = []

    def drain() -> None:
        try:
            outcome.append(server.drain(grace_seconds))
        finally:
            events.put(_DRAINED)

    threading.Thread(target=drain, name="drain").start()
    while events.get() != _DRAINED:
        _LOG.warning("signalled again, what is in progress is cancelled")
        server.cancel()
    return outcome == [True]
