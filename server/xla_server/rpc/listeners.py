"""The addresses a server listens on: TCP ports and unix sockets."""

import contextlib
import dataclasses
import errno
import os
import socket
import stat
from collections.abc import Callable, Iterator, Sequence

_PREFIXES = ("unix://", "unix:")
_ABSTRACT = "unix-abstract:"
PRIVATE_MODE = stat.S_IRUSR | stat.S_IWUSR
"""Mode of a socket that only this user may connect to."""

_PROBE_SECONDS = 1.0
"""Timeout in seconds for a listener to accept; one that is alive does at once."""


class CannotListenError(Exception):
    """An address cannot be listened on; the message has the address and the reason."""


@dataclasses.dataclass(frozen=True, slots=True)
class _SocketFile:
    """A unix socket in the file system, with the identity of its file."""

    path: str
    device: int
    inode: int

    def remove(self) -> None:
        """Remove the file, if it is still this one."""
        with contextlib.suppress(OSError):
            found = os.lstat(self.path)
            if (found.st_dev, found.st_ino) == (self.device, self.inode):
                os.unlink(self.path)


class Listeners:
    """Bound addresses of a server. `close` removes the files of unix sockets."""

    def __init__(
        self,
        addresses: Sequence[str],
        bind: Callable[[str], int],
        socket_mode: int = PRIVATE_MODE,
    ) -> None:
        """Bind all addresses with grpc's `bind`, which returns the port or raises RuntimeError.

        `socket_mode` is the mode of unix sockets; by default this user alone may connect. The file
        of a socket without a listener is replaced. Raises CannotListenError, and leaves no address
        bound.
        """
        self._socket_mode = socket_mode
        self._files: list[_SocketFile] = []
        self.addresses: list[str] = []
        """Addresses in the form that clients use, with the bound ports."""
        try:
            for address in addresses:
                self._bind(address, bind)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Remove the files of sockets; no effect when done before."""
        while self._files:
            self._files.pop().remove()

    def _bind(self, address: str, bind: Callable[[str], int]) -> None:
        path = socket_path(address)
        if path:
            _remove_dead_socket(address, path)
        try:
            with _files_of_mode(self._socket_mode) if path else contextlib.nullcontext():
                port = bind(address)
        except RuntimeError:
            raise CannotListenError(f"cannot listen on {address}: {_reason(address)}") from None
        if path:
            found = os.lstat(path)
            self._files.append(_SocketFile(path, found.st_dev, found.st_ino))
        is_tcp = not is_socket(address)
        self.addresses.append(f"{address.rpartition(':')[0]}:{port}" if is_tcp else address)


def is_socket(address: str) -> bool:
    """Return whether an address is a unix socket, in the file system or abstract."""
    return bool(socket_path(address)) or address.startswith(_ABSTRACT)


def socket_path(address: str) -> str:
    """The path of an address unix:PATH or unix:///PATH; empty for any other."""
    for prefix in _PREFIXES:
        if address.startswith(prefix):
            return address[len(prefix) :]
    return ""


def _remove_dead_socket(address: str, path: str) -> None:
    """Remove a dead server's socket; grpc would remove a live server's as well."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise CannotListenError(f"cannot listen on {address}: {error.strerror}") from None
    if not stat.S_ISSOCK(found.st_mode):
        mode = stat.filemode(found.st_mode)
        raise CannotListenError(
            f"cannot listen on {address}: what is there must be a socket, got a file of mode {mode}"
        )
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(_PROBE_SECONDS)
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            _SocketFile(path, found.st_dev, found.st_ino).remove()
            return
        except OSError as error:  # Without permission, or a busy server: there is a listener.
            reason = error.strerror or "it does not answer"
            raise CannotListenError(f"cannot listen on {address}: {reason}") from None
    raise CannotListenError(f"cannot listen on {address}: {os.strerror(errno.EADDRINUSE)}")


@contextlib.contextmanager
def _files_of_mode(mode: int) -> Iterator[None]:
    """Create sockets with this mode during the block, without a moment of another mode."""
    before = os.umask(0o777 & ~mode)
    try:
        yield
    finally:
        os.umask(before)


def _reason(address: str) -> str:
    """Return the system's reason why binding fails, which grpc does not report."""
    path = socket_path(address)
    if path or address.startswith(_ABSTRACT):
        parent = os.path.dirname(path) or "."
        return "the socket cannot be made" if os.path.isdir(parent) else f"there is no {parent}"
    host, _, port = address.rpartition(":")
    try:
        found = socket.getaddrinfo(
            host.strip("[]"), int(port), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        for family, kind, protocol, _, socket_address in found:
            with socket.socket(family, kind, protocol) as probe:
                probe.bind(socket_address)
    except (OSError, ValueError) as error:
        return (error.strerror if isinstance(error, OSError) else None) or str(error)
    return "the address cannot be bound"
