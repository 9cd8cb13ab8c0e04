"""Waiting on the socket of a shared memory transfer, for both ends (see xla_extension.proto)."""

import ctypes
import os
import socket
import time

SPIN_SECONDS = 3e-4
"""Seconds of polling before sleeping: the other end may first have to copy a few pieces."""

LONG_SECONDS = 1e-4
"""Duration of `sched_yield`, in seconds, from which the processor is taken to be shared."""


def poll_recv(channel: socket.socket, max_bytes: int) -> bytes | None:
    """Return at most `max_bytes` bytes of a socket, empty at its end; None after SPIN_SECONDS.

    Raises:
        OSError: The socket failed.
    """
    until = time.perf_counter() + SPIN_SECONDS
    while (now := time.perf_counter()) < until:
        try:
            return channel.recv(max_bytes, socket.MSG_DONTWAIT)
        except BlockingIOError:
            os.sched_yield()
            if time.perf_counter() - now > LONG_SECONDS:
                migrate_thread()
    return None


def recv_spinning(channel: socket.socket, max_bytes: int) -> bytes:
    """Return at most `max_bytes` bytes of a socket, empty at its end, spinning before it sleeps.

    Raises:
        OSError: The socket failed; TimeoutError if it has a timeout that passed.
    """
    # A sleep and a wake-up take longer than this wait, most of all on virtual machines.
    soon = poll_recv(channel, max_bytes)
    return channel.recv(max_bytes) if soon is None else soon


def migrate_thread() -> None:
    """Move the calling thread to another processor, if there is one that it may run on.

    The other end may be on the same processor. Linux does not migrate threads that never sleep for
    long: one would wait for the other while another processor idles.
    """
    allowed = os.sched_getaffinity(0)
    others = allowed - {ctypes.CDLL(None).sched_getcpu()}
    if others:
        os.sched_setaffinity(0, others)
        os.sched_setaffinity(0, allowed)
