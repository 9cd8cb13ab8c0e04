"""A relay whose connections to the server come from an address and port that the test chooses."""

import contextlib
import socket
import struct
import threading

_RESET = struct.pack("ii", 1, 0)


def free_port() -> int:
    """Return a free port of the loopback interface."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        port: int = found.getsockname()[1]
        return port


class FixedPort:
    """Passes one client on to `host`:`port` from the address `local`, until `close`."""

    def __init__(self, host: str, port: int, local: tuple[str, int]) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._outside = socket.socket()
        # Another connection may have the same address here, as long as it leads elsewhere.
        self._outside.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._outside.bind(local)
        self._outside.connect((host, port))
        self._ends = [self._listener, self._outside]
        self._threads = [threading.Thread(target=self._serve, daemon=True)]
        self._threads[0].start()

    def close(self) -> None:
        """Reset the connection; its address is free then."""
        self._outside.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        for each in self._ends:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RD)
        # A thread that waits in a socket keeps it open.
        for thread in self._threads:
            thread.join()
        for each in self._ends:
            each.close()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            inside, _ = self._listener.accept()
            self._ends.append(inside)
            for pair in ((inside, self._outside), (self._outside, inside)):
                thread = threading.Thread(target=_pass_on, args=pair, daemon=True)
                thread.start()
                self._threads.append(thread)


def _pass_on(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            sink.sendall(data)
