"""A TCP proxy between a client and a server that can cut, at a byte if need be, pause and count."""

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Self

_PIECE = 1 << 16


class Proxy:
    """Listens on `address` and passes everything on to `target` ("host:port").

    `to_server` and `to_client` count the bytes that have passed.
    """

    def __init__(self, target: str) -> None:
        host, _, port = target.rpartition(":")
        self._target = host.strip("[]"), int(port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._lock = threading.Lock()
        self._flows = threading.Condition(self._lock)
        self._connections: set[tuple[socket.socket, socket.socket]] = set()
        self._is_refusing = self._is_closed = False
        self._paused: tuple[str, ...] = ()
        self._left: dict[str, int] = {}
        self.to_server = 0
        self.to_client = 0
        self.connections = 0
        """The number of connections so far."""
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def address(self) -> str:
        """Where the proxy listens."""
        return f"127.0.0.1:{self._listener.getsockname()[1]}"

    def cut(self, *, refuse: bool = False) -> int:
        """Reset every connection; gives their number. With `refuse`, new ones too."""
        with self._lock:
            self._is_refusing = refuse
            connections = list(self._connections)
            self._connections.clear()
            self._flows.notify_all()
        for pair in connections:
            for end in pair:
                _reset(end)
        return len(connections)

    def accept(self) -> None:
        """Take new connections again."""
        with self._lock:
            self._is_refusing = False

    def pause(self, *towards: str) -> None:
        """Pass nothing on, by default either way, until `resume`; connections stay."""
        with self._lock:
            self._paused = towards or ("server", "client")

    def resume(self) -> None:
        """Pass everything on again."""
        with self._flows:
            self._paused = ()
            self._flows.notify_all()

    def cut_after(self, byte_count: int, *, towards: str = "server") -> threading.Thread:
        """Cut all once, when `byte_count` more bytes have passed `towards` server or client.

        Gives the thread that watches, for the caller to join.
        """
        goal = self._passed(towards) + byte_count

        def watch() -> None:
            with self._flows:
                self._flows.wait_for(lambda: self._passed(towards) >= goal or self._is_closed)
            self.cut()

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        return watcher

    def cut_at(self, byte_count: int, *, towards: str = "server") -> None:
        """Pass exactly `byte_count` more bytes, 1 at least, towards server or client; cut all."""
        with self._lock:
            self._left[towards] = byte_count

    def is_quiet(self, seconds: float = 0.05, timeout: float = 10.0) -> bool:
        """Wait until nothing has passed for `seconds`; False after `timeout` seconds."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            passed = self.to_server + self.to_client
            time.sleep(seconds)
            if self.to_server + self.to_client == passed:
                return True
        return False

    def wait_for(self, is_ready: Callable[[], bool], timeout: float = 100.0) -> bool:
        """Wait until something about the counters holds; False after `timeout` seconds."""
        with self._flows:
            return self._flows.wait_for(is_ready, timeout)

    def close(self) -> None:
        """Cut all and stop listening."""
        with self._flows:
            self._is_closed = True
            self._paused = ()
            self._flows.notify_all()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _passed(self, towards: str) -> int:
        return self.to_server if towards == "server" else self.to_client

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                is_refusing = self._is_refusing or self._is_closed
            try:
                if is_refusing:
                    raise ConnectionRefusedError
                server = socket.create_connection(self._target)
            except OSError:
                _reset(client)
                continue
            for end in (client, server):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                self._connections.add((client, server))
                self.connections += 1
            for source, sink, towards in ((client, server, "server"), (server, client, "client")):
                threading.Thread(
                    target=self._pass_on, args=(source, sink, towards), daemon=True
                ).start()

    def _pass_on(self, source: socket.socket, sink: socket.socket, towards: str) -> None:
        for received in _pieces(source):
            with self._flows:
                self._flows.wait_for(lambda: towards not in self._paused)
                piece, is_last = self._until_cut(received, towards)
            try:
                sink.sendall(piece)
            except OSError:
                break
            with self._flows:
                if towards == "server":
                    self.to_server += len(piece)
                else:
                    self.to_client += len(piece)
                self._flows.notify_all()
            if is_last:
                self.cut()
                return
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_WR)

    def _until_cut(self, piece: bytes, towards: str) -> tuple[bytes, bool]:
        """Return the part of a piece that may pass, and whether the connection is cut behind it."""
        left = self._left.pop(towards, None)
        if left is None:
            return piece, False
        if left > len(piece):
            self._left[towards] = left - len(piece)
        return piece[:left], left <= len(piece)


def _pieces(source: socket.socket) -> Iterator[bytes]:
    while True:
        try:
            piece = source.recv(_PIECE)
        except OSError:
            return
        if not piece:
            return
        yield piece


def _reset(end: socket.socket) -> None:
    """Close so that the other side receives a reset, and threads that wait here wake."""
    with contextlib.suppress(OSError):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()
