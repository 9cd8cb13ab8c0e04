"""What both ends of a line of shared memory wait with: xla_extension.proto has what a line is."""

import ctypes
import os
import socket
import time

SPIN_SECONDS = 3e-4
"""How long to look for bytes before sleeping: the other end is some copies of a piece away."""

LONG_SECONDS = 1e-4
"""How long a processor is given to others by one that has a processor for itself, at most."""


def poll_recv(line: socket.socket, most: int) -> bytes | None:
    """Bytes of a line, at most `most`, empty when it has ended; None if none come in SPIN_SECONDS.

    Raises OSError.
    """
    until = time.perf_counter() + SPIN_SECONDS
    while (now := time.perf_counter()) < until:
        try:
            return line.recv(most, socket.MSG_DONTWAIT)
        except BlockingIOError:
            os.sched_yield()
            if time.perf_counter() - now > LONG_SECONDS:
                migrate_thread()
    return None


def recv_spinning(line: socket.socket, most: int) -> bytes:
    """Bytes of a line, at most `most`, empty when it has ended.

    Raises OSError, TimeoutError among them where the socket has a timeout.
    """
    # To sleep and be woken takes longer than what there is to wait for, on virtual machines most.
    soon = poll_recv(line, most)
    return line.recv(most) if soon is None else soon


def migrate_thread() -> None:
    """Go on with the calling thread on another processor, if there is one it may run on.

    The other end may have been given the same processor. As neither of the two sleeps for long,
    Linux leaves them there, one waiting for the other, while another processor does nothing.
    """
    allowed = os.sched_getaffinity(0)
    others = allowed - {ctypes.CDLL(None).sched_getcpu()}
    if others:
        os.sched_setaffinity(0, others)
        os.sched_setaffinity(0, allowed)
