"""The unix socket from which clients on the same host get their session's arena.

A client connects, sends the session's token and a line feed, and gets eight bytes, the size of the
arena as a little-endian number, with a file descriptor of it (SCM_RIGHTS). A client without
permission is disconnected without a message. The arena lasts as long as the connection; the session
counts as attached meanwhile. One thread serves all connections and never waits for any.

If a client sends a space and an offset after the token, its connection becomes a channel of the
allocation and belongs to the session from then on.
"""

import array
import contextlib
import dataclasses
import logging
import os
import selectors
import shutil
import socket
import stat
import struct
import tempfile
import time
from collections.abc import Callable

from xla_contract.errors import ResourceExhaustedError, XlaError
from xla_host.environment_variables import RUNTIME_DIRECTORY
from xla_server.execution.start_thread import start_thread
from xla_server.sessions.session_registry import SessionRegistry
from xla_server.sessions.transfers.arena import Arena
from xla_server.sessions.transfers.ring_upload import shutdown_socket
from xla_server.sessions.transfers.session_arena import SessionArena

_LOG = logging.getLogger(__name__)

GREETING_SECONDS = 5.0
"""Timeout of a client's token, in seconds."""

_PREFIX = "xla-server-"
_NAME = "shared-memory"
_MAX_DEAD_DIRECTORIES = 64
"""Largest number of directories of earlier servers that are examined, to remove dead ones."""

_LONGEST_TOKEN = 256
"""Bytes of the first message of a client: a token of 43 characters, a space and an offset fit."""

_LONGEST_PARENT = 72
"""Largest path of a directory, in bytes: a socket's path below it has at most 108."""

_ATTACHED = b"\1"
"""Response to a new channel."""

_TICK_SECONDS = 1.0
"""Seconds between two checks of clients whose token is late, while there are any."""

_SIZE = struct.Struct("<Q")
_CREDENTIALS = struct.Struct("3i")


@dataclasses.dataclass(slots=True, eq=False)
class _Connection:
    """A connected client; without an arena until its token has arrived."""

    connection: socket.socket
    since: float
    received: bytes = b""
    arena: Arena | None = None
    leaving: contextlib.ExitStack = dataclasses.field(default_factory=contextlib.ExitStack)


def peer_user(connection: socket.socket) -> int:
    """The user id of the process at the other end, from the system."""
    size = _CREDENTIALS.size
    _, user, _ = _CREDENTIALS.unpack(
        connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    )
    return int(user)


class SharedMemorySocket:
    """Listens from its construction until `close`. Raises OSError if it cannot.

    No more than `max_connections` clients are connected at the same time, with as many channels.
    All of them are of this process's own user, by `user_of`.
    """

    def __init__(
        self,
        sessions: SessionRegistry,
        *,
        max_connections: int,
        greeting_seconds: float = GREETING_SECONDS,
        user_of: Callable[[socket.socket], int] = peer_user,
    ) -> None:
        self._sessions = sessions
        self._max_connections = max_connections
        self._greeting_seconds = greeting_seconds
        self._user_of = user_of
        self._connections: set[_Connection] = set()
        self._channels: set[socket.socket] = set()
        self._is_closing = False
        with contextlib.ExitStack() as undo:
            self._directory = private_directory()
            undo.callback(shutil.rmtree, self._directory, ignore_errors=True)
            self.path = os.path.join(self._directory, _NAME)
            self._listener = undo.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            self._listener.setblocking(False)
            # The final name only ever names a socket that is listened on, or a dead one.
            unnamed = os.path.join(self._directory, "unnamed")
            self._listener.bind(unnamed)
            os.chmod(unnamed, stat.S_IRUSR | stat.S_IWUSR)
            self._listener.listen(max_connections)
            os.rename(unnamed, self.path)
            self._woken, self._wake = socket.socketpair()
            self._selector = selectors.DefaultSelector()
            self._selector.register(self._listener, selectors.EVENT_READ)
            self._selector.register(self._woken, selectors.EVENT_READ)
            self._thread = start_thread(self._serve, "shared memory")
            undo.pop_all()

    def __len__(self) -> int:
        """The number of connected clients."""
        return len(self._connections)

    def close(self) -> None:
        """Cut all connections, free their arenas and remove the socket; no effect when repeated."""
        if self._is_closing:
            return
        self._is_closing = True
        self._wake.send(b"\0")
        self._thread.join()
        for connection in list(self._connections):
            self._drop(connection)
        for channel in self._channels:  # A call that uses the channel closes it.
            shutdown_socket(channel)
        self._selector.close()
        for each in (self._listener, self._woken, self._wake):
            each.close()
        shutil.rmtree(self._directory, ignore_errors=True)

    def _serve(self) -> None:
        is_paused = False
        while not self._is_closing:
            is_busy = bool(self._connections) or is_paused
            events = self._selector.select(_TICK_SECONDS if is_busy else None)
            if is_paused:
                self._selector.register(self._listener, selectors.EVENT_READ)
                is_paused = False
            for key, _ in events:
                if isinstance(key.data, _Connection):
                    self._read(key.data)
                elif key.fileobj is self._listener and not self._accept():
                    # Out of descriptors: the listener would report the same client again at once.
                    self._selector.unregister(self._listener)
                    is_paused = True
            self._end_overdue()
            self._sessions.engine.arenas.trim_idle()

    def _accept(self) -> bool:
        try:
            connection, _ = self._listener.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return True
        except OSError as error:
            _LOG.warning("no connection for shared memory: %s", error)
            return False
        connection.setblocking(False)
        reason = self._reason_against(connection)
        if reason:
            _LOG.warning("a client was refused shared memory: %s", reason)
            connection.close()
            return True
        client = _Connection(connection, time.monotonic())
        self._connections.add(client)
        self._selector.register(connection, selectors.EVENT_READ, client)
        return True

    def _reason_against(self, connection: socket.socket) -> str:
        """Return the reason why a client is refused before its token; empty if it is not."""
        if len(self._connections) >= self._max_connections:
            return f"{len(self._connections)} are connected, which is the most"
        try:
            user = self._user_of(connection)
        except OSError as error:
            return str(error)
        return "" if user == os.geteuid() else f"it is of user {user}, the server is not"

    def _read(self, client: _Connection) -> None:
        try:
            received = client.connection.recv(_LONGEST_TOKEN)
        except BlockingIOError:
            return
        except OSError:
            received = b""
        client.received += received
        is_wrong = client.arena is not None or len(client.received) > _LONGEST_TOKEN
        if not received or is_wrong:
            self._drop(client)
        elif client.received.endswith(b"\n"):
            self._greet(client)

    def _greet(self, client: _Connection) -> None:
        """Send the client an arena for its token, or disconnect it."""
        try:
            token, space, offset = client.received[:-1].decode("ascii").partition(" ")
            client.received = b""
            # Only this process's own user may connect: the token is all that is needed.
            with self._sessions.using(token, None) as session:
                if space:
                    self._add_channel(client, session.service.shared_memory, _number(offset))
                    return
                client.leaving.enter_context(self._sessions.attached(session))
            memory = session.service.shared_memory
            client.arena = memory.connect()
            client.leaving.callback(memory.disconnect, client.arena)
            # Before the response, so that offsets of the new arena are not used in the old one.
            self._end_replaced()
            descriptor = client.arena.duplicate()
            try:
                rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [descriptor]))
                client.connection.sendmsg([_SIZE.pack(client.arena.capacity)], [rights])
            finally:
                os.close(descriptor)
        except (OSError, ValueError, XlaError) as error:
            _LOG.info("a client was refused shared memory: %s", error)
            self._drop(client)
        except Exception:  # The thread serves the other clients, too.
            _LOG.exception("a client was refused shared memory")
            self._drop(client)

    def _add_channel(self, client: _Connection, memory: SessionArena, offset: int) -> None:
        """Pass a connection to the session, as a channel of the allocation at `offset`.

        Raises ResourceExhaustedError beyond `max_connections` channels.
        """
        channel = client.connection
        if len(self._channels) >= self._max_connections:
            raise ResourceExhaustedError(
                f"the server may have {self._max_connections} channels of allocations, got one more"
            )
        self._selector.unregister(channel)
        self._connections.discard(client)
        self._channels.add(channel)
        memory.add_channel(offset, channel)
        channel.send(_ATTACHED)

    def _end_overdue(self) -> None:
        """Disconnect clients that are silent or whose arena was replaced; forget ended channels."""
        oldest = time.monotonic() - self._greeting_seconds
        for client in list(self._connections):
            if client.arena is None and client.since < oldest:
                self._drop(client)
        self._end_replaced()
        self._channels = {channel for channel in self._channels if channel.fileno() >= 0}

    def _end_replaced(self) -> None:
        """Disconnect clients whose arenas were replaced."""
        for client in list(self._connections):
            if client.arena is not None and client.arena.is_closed:
                self._drop(client)

    def _drop(self, client: _Connection) -> None:
        if client not in self._connections:  # Disconnected meanwhile.
            return
        self._connections.discard(client)
        self._selector.unregister(client.connection)
        client.connection.close()
        client.leaving.close()


def _number(digits: str) -> int:
    if not digits.isdecimal():  # int() takes more than digits.
        raise ValueError("an offset must have decimal digits alone")
    return int(digits)


def private_directory() -> str:
    """Create a private directory for sockets; raises OSError.

    It is below XDG_RUNTIME_DIR if that is one of this user's own, else below the directory for
    temporary files. Directories of servers that were killed are removed.
    """
    runtime = RUNTIME_DIRECTORY.value() or ""
    for parent in (runtime, tempfile.gettempdir(), "/tmp"):
        is_candidate = os.path.isabs(parent) and len(os.fsencode(parent)) <= _LONGEST_PARENT
        if is_candidate and (parent != runtime or _is_private(parent)):
            with contextlib.suppress(OSError):
                _remove_dead(parent)
                return tempfile.mkdtemp(prefix=_PREFIX, dir=parent)
    raise OSError("there is no directory for a private socket")


def _remove_dead(parent: str) -> None:
    """Remove the directories of dead servers; raises OSError."""
    with os.scandir(parent) as entries:
        mine = [entry.path for entry in entries if entry.name.startswith(_PREFIX)]
    for directory in mine[:_MAX_DEAD_DIRECTORIES]:
        if not _is_private(directory):
            continue
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.setblocking(False)
            try:
                probe.connect(os.path.join(directory, _NAME))
            except ConnectionRefusedError:
                shutil.rmtree(directory, ignore_errors=True)
            except OSError:  # Busy, or not named yet.
                continue


def _is_private(directory: str) -> bool:
    try:
        found = os.lstat(directory)
    except OSError:
        return False
    is_open_to_others = found.st_mode & 0o077
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not is_open_to_others
