"""Servers in several processes: the part of each process."""

import contextlib
import logging
import signal
from collections.abc import Iterator
from typing import TYPE_CHECKING

from xla_server.app.endings import ConfigurationError
from xla_server.app.options.settings import Distribution, Settings
from xla_server.app.platforms import create_backend
from xla_server.app.serving.wiring import limits_of
from xla_server.backends.platform import Backend

if TYPE_CHECKING:
    from xla_server.distributed.leader import Leader
    from xla_server.distributed.transport.world import World

_LOG = logging.getLogger(__name__)


def joined_world(settings: Settings) -> "World | None":
    """Return the processes that form this server; None for a server of one process.

    Raises ConfigurationError if they cannot be joined.
    """
    if settings.distributed is Distribution.NONE:
        if settings.fast_collectives:
            raise ConfigurationError(
                "fast_collectives: needs processes that MPI joins, got distributed none"
            )
        return None
    try:
        from xla_server.distributed.transport.world import World, WorldError
    except ImportError as error:
        raise ConfigurationError(
            f"distributed: {settings.distributed} needs the extra [mpi], got {error}"
        ) from error
    try:
        world = World.joined(settings.shared_window_bytes)
    except WorldError as error:
        raise ConfigurationError(f"distributed: {error}") from error
    if world.rank == 0 and not world.survives_ranks:
        _LOG.warning(
            "mpirun ends this server when any of its %d processes ends: start it with "
            "--with-ft ulfm",
            world.size,
        )
    return world


def backend_of_all(settings: Settings, world: "World | None") -> Backend:
    """Return the platform with the devices of all processes; raises as `create_backend`."""
    if world is not None:
        settings = settings.model_copy(update={"devices": settings.devices * world.size})
    return create_backend(settings)


@contextlib.contextmanager
def leading(
    settings: Settings, world: "World | None", backend: Backend
) -> Iterator["Leader | None"]:
    """The runner of programs on other processes, which end with the block; None without them."""
    if world is None:
        yield None
        return
    from xla_server.distributed.leader import Leader

    limits = limits_of(settings, backend)
    leader = Leader(
        world,
        settings.devices,
        backend,
        limits,
        max_bytes=_message_bytes(settings, backend),
        is_fast=settings.fast_collectives,
    )
    try:
        yield leader
    finally:
        leader.close()


def follow(settings: Settings, world: "World") -> None:
    """Run programs for rank 0 until it ends. Signals are for rank 0, which ends the others."""
    from xla_server.distributed.follower import Follower

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    backend = backend_of_all(settings, world)
    follower = Follower(
        world,
        backend,
        limits_of(settings, backend),
        threads=settings.compile_threads,
        max_bytes=_message_bytes(settings, backend),
    )
    _LOG.info("rank %d of %d runs programs", world.rank, world.size)
    follower.run()


def _message_bytes(settings: Settings, backend: Backend) -> int:
    """Return the size limit of a message in bytes: all values on devices, and a module."""
    return limits_of(settings, backend).max_device_bytes + settings.max_message_bytes
