"""Control messages between ranks, in order. One thread makes all of their MPI calls."""

import collections
import functools
import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xla_server.distributed.transport.frames import FRAME_BYTES, Bytes, Incoming, packed
from xla_server.distributed.transport.messages import Alive
from xla_server.distributed.transport.polling import BackOff
from xla_server.distributed.transport.world import World

_LOG = logging.getLogger(__name__)

_TAG = 1
"""MPI's tag of control messages; parcels have others."""


class Mailbox:
    """Messages to and from `peers`. Any thread may send.

    `deliver` is called in the mailbox's thread with the rank and the message, and must neither wait
    nor raise. `lost` is called once with a rank and the reason if the rank has ended, or has sent
    nothing for `silence_seconds`. Every rank sends `Alive` regularly, so a rank that is busy for
    long is not taken for lost. `progress_parcels` is called after each check for messages.
    """

    def __init__(
        self,
        world: World,
        peers: Sequence[int],
        deliver: Callable[[int, Any], None],
        lost: Callable[[int, str], None],
        *,
        progress_parcels: Callable[[], None],
        silence_seconds: float,
        max_bytes: int,
    ) -> None:
        self._comm = world.records
        self._deliver = deliver
        self._lost = lost
        self._progress_parcels = progress_parcels
        self._silence_seconds = silence_seconds
        self._heartbeat = min(silence_seconds / 5, 1.0)
        self._max_bytes = max_bytes
        self._outbox: queue.SimpleQueue[tuple[int, list[Bytes]]] = queue.SimpleQueue()
        self._wake_up = threading.Semaphore(0)
        self._peers = {rank: _Peer() for rank in peers}
        self._lost_peers: list[_Peer] = []
        self._is_closing = False
        self._is_expecting = False
        self._thread = threading.Thread(target=self._run, name="mpi-records", daemon=True)

    def start(self) -> None:
        """Start the thread that sends and receives."""
        self._thread.start()

    def send(self, rank: int, message: object) -> None:
        """Queue a message for a rank; its arrays must not change any more.

        A message to a lost rank is dropped. Raises ResourceExhaustedError for one that is too
        large.
        """
        self._outbox.put((rank, packed(message, self._max_bytes)))
        self._wake_up.release()

    def expect(self) -> None:
        """Check for messages often for a while, as others are about to send."""
        self._is_expecting = True
        self._wake_up.release()

    def is_silent(self, rank: int) -> bool:
        """Return whether a rank has missed signs of life: it will send again soon, or be lost."""
        peer = self._peers.get(rank)
        return peer is not None and time.monotonic() - peer.last_received > 2 * self._heartbeat

    def close(self, seconds: float) -> bool:
        """Stop once all messages are sent; return False if they are not within `seconds`."""
        self._is_closing = True
        self._wake_up.release()
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        back_off = BackOff()
        last_sent = last_check = time.monotonic()
        while not (self._is_closing and self._is_sent()):
            now = time.monotonic()
            if now - last_check > self._heartbeat:
                # This process has been suspended: messages of that time have not been received yet.
                for peer in self._peers.values():
                    peer.last_received = now
            last_check = now
            if now - last_sent > self._heartbeat:
                last_sent = now
                for rank in self._peers:
                    self._outbox.put((rank, packed(Alive(), self._max_bytes)))
            if self._progress(now) or self._is_expecting:
                self._is_expecting = False
                back_off.reset()
            self._progress_parcels()
            seconds = back_off.next_seconds()
            if seconds:
                self._wake_up.acquire(timeout=seconds)
            else:
                time.sleep(0)

    def _is_sent(self) -> bool:
        return self._outbox.empty() and not any(peer.sending for peer in self._peers.values())

    def _progress(self, now: float) -> bool:
        """Send and receive without waiting; return whether there was anything to do."""
        is_active = False
        while not self._outbox.empty():
            rank, frames = self._outbox.get()
            if rank in self._peers:
                is_active = True
                self._attempt(rank, functools.partial(self._post, rank, frames))
        for rank in list(self._peers):
            is_active |= self._attempt(rank, functools.partial(self._exchange, rank, now))
        for rank, peer in list(self._peers.items()):
            if now - peer.last_received > self._silence_seconds:
                self._lose(rank, f"has not answered for {self._silence_seconds:g} s")
        return is_active

    def _attempt(self, rank: int, do: Callable[["_Peer"], bool]) -> bool:
        """Call `do` for a rank, which is lost if that fails."""
        from mpi4py import MPI

        try:
            return do(self._peers[rank])
        except MPI.Exception as error:
            _LOG.warning("rank %d: %s", rank, error)
            self._lose(rank, "has ended")
        except ValueError as error:
            self._lose(rank, str(error))
        return True

    def _lose(self, rank: int, why: str) -> None:
        # MPI may still use the memory of transfers in progress.
        self._lost_peers.append(self._peers.pop(rank))
        self._lost(rank, why)

    def _post(self, rank: int, frames: list[Bytes], peer: "_Peer") -> bool:
        for frame in frames:
            peer.sending.append((self._comm.Isend([frame, _byte()], rank, _TAG), frame))
        return True

    def _exchange(self, rank: int, now: float, peer: "_Peer") -> bool:
        """Continue the transfers to and from a rank."""
        is_active = False
        while peer.sending and peer.sending[0][0].Test():
            peer.sending.popleft()
            is_active = True
        while True:
            while peer.receiving:
                if not peer.receiving[0].Test():
                    return is_active
                peer.receiving.popleft()
                peer.last_received, is_active = now, True
            if peer.incoming is not None:
                message = peer.incoming.message()
                peer.incoming = None
                if not isinstance(message, Alive):
                    self._deliver(rank, message)
            elif peer.first is not None:
                peer.incoming = Incoming(peer.first, self._max_bytes)
                peer.first = None
                self._receive(peer, rank, peer.incoming.missing)
            elif not self._begin(peer, rank):
                return is_active

    def _begin(self, peer: "_Peer", rank: int) -> bool:
        from mpi4py import MPI

        status = MPI.Status()
        if not self._comm.Iprobe(rank, _TAG, status):
            return False
        size = status.Get_count(MPI.BYTE)
        if not 0 <= size <= FRAME_BYTES:
            raise ValueError(f"a frame must have at most {FRAME_BYTES} bytes, got {size}")
        peer.first = np.empty(size, np.uint8)
        self._receive(peer, rank, [peer.first])
        return True

    def _receive(self, peer: "_Peer", rank: int, frames: Sequence[Bytes]) -> None:
        peer.receiving += [self._comm.Irecv([frame, _byte()], rank, _TAG) for frame in frames]


class _Peer:
    """Messages in transfer between a rank and this one."""

    def __init__(self) -> None:
        self.sending: collections.deque[tuple[Any, Bytes]] = collections.deque()
        self.receiving: collections.deque[Any] = collections.deque()
        self.first: Bytes | None = None
        """The first frame of a message that is being received."""
        self.incoming: Incoming | None = None
        self.last_received = time.monotonic()


def _byte() -> Any:
    from mpi4py import MPI

    return MPI.BYTE
