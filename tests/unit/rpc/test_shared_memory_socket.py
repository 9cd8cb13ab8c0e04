import contextlib
import os
import resource
import socket
import stat
import struct
import tempfile

import pytest

from tests.fault.plain import until
from tests.unit.sessions.engines import shared_resources
from xla_server.rpc import shared_memory_socket
from xla_server.rpc.server import RpcOptions, serving
from xla_server.rpc.shared_memory_socket import SharedMemorySocket, private_directory
from xla_server.sessions.session_registry import SessionRegistry
from xla_server.sessions.transfers import session_arena

CAPACITY = 1 << 20
GREETING = 1.0
"""Seconds: short for a silent peer, and enough between two lines of a test."""


@pytest.fixture
def sessions():
    engine = shared_resources(shared_memory_bytes=8 << 20, session_shared_memory_bytes=CAPACITY)
    registry = SessionRegistry(engine, grace_seconds=10)
    yield registry
    registry.close_all()
    registry.engine.arenas.close()


@pytest.fixture
def runtime(monkeypatch):
    # The path of a socket is short, those of tests may be long.
    with tempfile.TemporaryDirectory(dir="/tmp") as directory:
        monkeypatch.setenv("XDG_RUNTIME_DIR", directory)
        yield directory


@pytest.fixture
def make(sessions, runtime, monkeypatch):
    monkeypatch.setattr(shared_memory_socket, "_TICK_SECONDS", 0.05)
    made = []

    def start(**options):
        made.append(SharedMemorySocket(sessions, **{"max_connections": 8} | options))
        return made[-1]

    yield start
    for each in made:
        each.close()


def connect(listening):
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(10)
    connection.connect(listening.path)
    return connection


def arena_of(connection, token):
    connection.sendall(token.encode() + b"\n")
    data, descriptors, _, _ = socket.recv_fds(connection, 8, 4)
    (size,) = struct.unpack("<Q", data)
    (descriptor,) = descriptors
    return size, descriptor


def is_cut_off(connection):
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def test_a_token_is_answered_by_the_arena_of_its_session(make, sessions):
    listening = make()
    first, second = sessions.open(), sessions.open()
    connections = [connect(listening) for _ in range(2)]
    descriptors = []
    for session, connection in zip((first, second), connections, strict=True):
        size, descriptor = arena_of(connection, session.token)
        descriptors.append(descriptor)
        assert size == CAPACITY == os.fstat(descriptor).st_size
    memory = first.service.shared_memory
    offset, size = memory.allocate(10)
    os.pwrite(descriptors[0], b"first", offset)
    assert os.pread(descriptors[1], 5, offset) != b"first"
    for descriptor in descriptors:
        os.close(descriptor)
    for connection in connections:
        connection.close()
    until(lambda: len(listening) == 0 and len(sessions.engine.arenas) == 0)
    assert sessions.engine.arenas.lent_bytes == 0


def test_the_socket_is_this_user_s_alone_and_goes_at_the_end(make, runtime):
    listening = make()
    for path, mode in ((listening.path, 0o600), (os.path.dirname(listening.path), 0o700)):
        assert stat.S_IMODE(os.stat(path).st_mode) == mode
    assert os.path.dirname(os.path.dirname(listening.path)) == runtime
    listening.close()
    assert os.listdir(runtime) == []


@pytest.mark.parametrize(
    "said", [b"no token\n", b"\n", b"\xff\xfe\n", b"x" * 1000, b"", "of another\n".encode("utf-16")]
)
def test_who_has_no_token_is_cut_off(make, sessions, said):
    listening = make(greeting_seconds=GREETING)
    session = sessions.open()
    connection = connect(listening)
    connection.sendall(said)
    assert is_cut_off(connection)
    connection.close()
    until(lambda: len(listening) == 0)
    connection = connect(listening)
    os.close(arena_of(connection, session.token)[1])
    connection.close()


def test_another_user_is_cut_off_whatever_the_token(make, sessions):
    listening = make(user_of=lambda _: os.geteuid() + 1)
    session = sessions.open()
    connection = connect(listening)
    with contextlib.suppress(BrokenPipeError):
        connection.send(session.token.encode() + b"\n")
    assert is_cut_off(connection)
    connection.close()
    assert len(sessions.engine.arenas) == 0


def test_credentials_that_cannot_be_had_are_no_reason_to_end(make, sessions):
    def unknown(_):
        raise OSError("gone")

    listening = make(user_of=unknown)
    for _ in range(2):
        connection = connect(listening)
        assert is_cut_off(connection)
        connection.close()


def test_who_is_silent_or_stops_half_way_is_cut_off(make, sessions):
    listening, token = make(greeting_seconds=GREETING), sessions.open().token
    silent, half = connect(listening), connect(listening)
    half.send(token.encode()[:5])
    assert is_cut_off(silent)
    assert is_cut_off(half)
    silent.close()
    half.close()


def test_who_goes_on_talking_is_cut_off(make, sessions):
    listening = make()
    connection = connect(listening)
    os.close(arena_of(connection, sessions.open().token)[1])
    connection.send(b"more")
    assert is_cut_off(connection)
    connection.close()


def test_there_are_only_so_many_connections(make, sessions):
    listening = make(max_connections=2)
    kept = [connect(listening) for _ in range(2)]
    until(lambda: len(listening) == 2)
    refused = connect(listening)
    assert is_cut_off(refused)
    kept[0].close()
    until(lambda: len(listening) == 1)
    again = connect(listening)
    os.close(arena_of(again, sessions.open().token)[1])
    for each in (*kept, refused, again):
        each.close()


def test_a_new_connection_replaces_the_one_before(make, sessions, monkeypatch):
    listening = make()
    session = sessions.open()
    first, second = connect(listening), connect(listening)
    os.close(arena_of(first, session.token)[1])
    session.service.shared_memory.allocate(10)
    # It would be cut off here, too, a moment later.
    monkeypatch.setattr(listening, "_end_overdue", lambda: None)
    os.close(arena_of(second, session.token)[1])
    first.setblocking(False)
    assert is_cut_off(first)
    assert len(sessions.engine.arenas) == 1
    assert session.service.shared_memory.allocate(10)[0] == 0
    first.close()
    second.close()


def line_of(listening, session, offset):
    line = connect(listening)
    line.sendall(f"{session.token} {offset}\n".encode())
    return line


def test_a_token_with_an_offset_makes_a_line_of_its_allocation(make, sessions):
    listening = make()
    session = sessions.open()
    connection = connect(listening)
    os.close(arena_of(connection, session.token)[1])
    memory = session.service.shared_memory
    offset, _ = memory.allocate(10)
    line = line_of(listening, session, offset)
    assert line.recv(8) == b"\1"
    assert len(listening) == 1
    # It is the session's now, whatever it sends.
    line.send(b"1234")
    with memory._channels.using(offset) as ours:
        assert ours.recv(8) == b"1234"
    connection.close()
    assert is_cut_off(line)
    line.close()


@pytest.mark.parametrize("offset", ["4096", "-1", "", "x", " 0", "1e3", "9" * 100])
def test_a_line_of_no_allocation_is_cut_off(make, sessions, offset):
    listening = make()
    session = sessions.open()
    connection = connect(listening)
    os.close(arena_of(connection, session.token)[1])
    session.service.shared_memory.allocate(10)
    line = line_of(listening, session, offset)
    assert is_cut_off(line)
    line.close()
    assert len(listening) == 1
    connection.close()


def test_a_line_without_an_arena_or_a_session_is_cut_off(make, sessions):
    listening = make()
    line = line_of(listening, sessions.open(), 0)
    assert is_cut_off(line)
    line.close()
    line = connect(listening)
    line.sendall(b"nobody 0\n")
    assert is_cut_off(line)
    line.close()


def test_there_are_only_so_many_lines_until_some_end(make, sessions):
    listening = make(max_connections=2)
    session = sessions.open()
    connection = connect(listening)
    os.close(arena_of(connection, session.token)[1])
    memory = session.service.shared_memory
    offsets = [memory.allocate(10)[0] for _ in range(3)]
    lines = []
    for offset in offsets[:2]:
        lines.append(line_of(listening, session, offset))
        assert lines[-1].recv(1) == b"\1"
    refused = line_of(listening, session, offsets[2])
    assert is_cut_off(refused)
    refused.close()
    memory.free(offsets[:1])
    until(lambda: len(listening._channels) == 1)
    lines.append(line_of(listening, session, offsets[2]))
    assert lines[-1].recv(1) == b"\1"
    # The end of the server is theirs too.
    listening.close()
    for line in lines:
        assert is_cut_off(line)
        line.close()
    connection.close()


def test_the_end_of_a_session_ends_its_connection(make, sessions):
    listening = make()
    session = sessions.open()
    connection = connect(listening)
    os.close(arena_of(connection, session.token)[1])
    sessions.close(session)
    assert is_cut_off(connection)
    assert len(sessions.engine.arenas) == 0
    connection.close()


def test_a_connection_keeps_its_session_attached(make, sessions):
    listening = make()
    session = sessions.open()
    connection = connect(listening)
    os.close(arena_of(connection, session.token)[1])
    session.last_used_at -= 1000
    assert sessions.expire(lambda _: False) == 0
    connection.close()
    until(lambda: not session.attached)
    session.last_used_at -= 1000
    assert sessions.expire(lambda _: False) == 1


def test_a_runtime_directory_of_others_is_not_used(monkeypatch, tmp_path):
    tmp_path.chmod(0o755)
    for unusable in (str(tmp_path), "relative", str(tmp_path / "none"), str(tmp_path / ("x" * 99))):
        monkeypatch.setenv("XDG_RUNTIME_DIR", unusable)
        made = private_directory()
        assert not made.startswith((str(tmp_path), "relative"))
        assert stat.S_IMODE(os.stat(made).st_mode) == 0o700
        os.rmdir(made)


def test_what_killed_servers_left_behind_is_removed(make, runtime):
    living = make()
    dead = os.path.join(runtime, "xla-server-dead")
    starting = os.path.join(runtime, "xla-server-starting")
    others = os.path.join(runtime, "of-another-program")
    for directory in (dead, starting, others):
        os.mkdir(directory, 0o700)
    for directory in (dead, others):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as left:
            left.bind(os.path.join(directory, "shared-memory"))
    added = make()
    assert {os.path.join(runtime, name) for name in os.listdir(runtime)} == {
        starting,
        others,
        os.path.dirname(living.path),
        os.path.dirname(added.path),
    }


def test_a_fault_of_one_greeting_is_none_of_the_others(make, sessions, monkeypatch):
    listening = make()
    session = sessions.open()
    connect_arena = session_arena.SessionArena.connect
    monkeypatch.setattr(session_arena.SessionArena, "connect", lambda _: 1 // 0)
    connection = connect(listening)
    connection.send(session.token.encode() + b"\n")
    assert is_cut_off(connection)
    connection.close()
    monkeypatch.setattr(session_arena.SessionArena, "connect", connect_arena)
    connection = connect(listening)
    os.close(arena_of(connection, session.token)[1])
    connection.close()


def test_a_server_without_descriptors_takes_clients_when_it_has_some(make, sessions, caplog):
    listening = make()
    session = sessions.open()
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(10)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.dup(0)
    os.close(free)
    # Only descriptors below the lowest free one are allowed: the next one of this process is one
    # too many.
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, before[1]))
    try:
        connection.connect(listening.path)
        until(lambda: "Too many open files" in caplog.text)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    _, descriptor = arena_of(connection, session.token)
    os.close(descriptor)
    connection.close()


def test_who_leaves_without_reading_is_dropped(make, sessions):
    listening = make()
    session = sessions.open()
    connection = connect(listening)
    connection.sendall(session.token.encode() + b"\n")
    until(lambda: len(sessions.engine.arenas) == 1)
    connection.close()
    until(lambda: len(listening) == 0 and len(sessions.engine.arenas) == 0)


def test_a_directory_that_others_may_enter_is_not_taken_for_a_dead_server_s(make, runtime):
    own = make()
    theirs = f"{runtime}/{os.path.basename(os.path.dirname(own.path))}x"
    os.mkdir(theirs)
    os.chmod(theirs, 0o755)
    # Nor is one whose server is about to name its socket.
    unnamed = f"{theirs}y"
    os.mkdir(unnamed, 0o700)
    make()
    assert os.path.isdir(theirs)
    assert os.path.isdir(unnamed)


def test_where_there_is_no_directory_there_is_no_socket(monkeypatch, sessions):
    monkeypatch.setattr(shared_memory_socket, "_LONGEST_PARENT", 0)
    with pytest.raises(OSError, match="no directory for a private socket"):
        private_directory()
    # The server does without.
    with serving(sessions, RpcOptions(listen=("127.0.0.1:0",))) as running:
        assert running._shared_memory is None
