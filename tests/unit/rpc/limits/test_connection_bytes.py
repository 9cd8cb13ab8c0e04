import contextlib
import os
import socket
from pathlib import Path

import pytest

from xla_server.rpc.limits import connection_bytes
from xla_server.rpc.limits.connection_bytes import Received, received_bytes
from xla_server.rpc.peers.addresses import address, tcp_address


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_what_a_connection_has_received_is_known_whether_it_was_read_or_not(host: str) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with (
        socket.create_server((host, 0), family=family) as listener,
        socket.create_connection(listener.getsockname()[:2]) as client,
        listener.accept()[0] as served,
    ):
        peer = address(*client.getsockname()[:2])
        assert peer not in received_bytes()
        for sent in (1000, 2000):
            client.sendall(bytes(1000))
            served.recv(1000, socket.MSG_PEEK | socket.MSG_WAITALL)
            # Unread bytes are counted, too.
            while (found := received_bytes().get(peer)) is None or found.byte_count != sent:
                pass
            assert found.connection == os.fstat(served.fileno()).st_ino
        # Looking at the sockets has closed none.
        client.sendall(b"x")
        served.sendall(b"y")
        assert client.recv(1) == b"y"


def test_another_connection_has_received_all_since() -> None:
    assert Received(1, 10).since(Received(1, 4)) == 6
    assert Received(1, 10).since(Received(2, 4)) == 10
    assert Received(1, 10).since(None) == 10


def test_other_descriptors_are_left_alone(tmp_path: Path) -> None:
    ends = socket.socketpair()
    with (
        (tmp_path / "file").open("wb") as file,
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.create_connection(listener.getsockname()) as client,
        listener.accept()[0] as served,
    ):
        own = [os.fstat(each.fileno()) for each in (*ends, file, listener, client, served)]
        before = _descriptors_of(own)
        assert len(before) == len(own)
        found = received_bytes()
        # Neither closed nor left open twice.
        assert _descriptors_of(own) == before
        file.write(b"x")
    for end in ends:
        end.close()
    assert all(each.byte_count > 0 for each in found.values())


def _descriptors_of(files: list[os.stat_result]) -> list[int]:
    """The descriptors of these files; other threads have files of their own, and close them."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            if any(os.path.samestat(os.fstat(int(name)), each) for each in files):
                found.append(int(name))
    return sorted(found)


def test_a_system_that_does_not_count_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.create_connection(listener.getsockname()) as client,
        listener.accept()[0],
    ):
        client.sendall(b"x")
        peer = address(*client.getsockname())
        while peer not in received_bytes():
            pass
        monkeypatch.setattr(connection_bytes, "_INFO_BYTES", 104)
        assert received_bytes() == {}
    monkeypatch.setattr(connection_bytes, "_DESCRIPTORS", "/nonexistent")
    assert received_bytes() == {}


@pytest.mark.parametrize(
    ("peer", "expected"),
    [
        ("ipv4:127.0.0.1:80", "127.0.0.1:80"),
        ("ipv6:%5B::1%5D:80", "::1:80"),
        ("ipv6:[::ffff:127.0.0.1]:80", "127.0.0.1:80"),
        ("ipv6:%5Bfe80::1%25eth0%5D:80", "fe80::1:80"),
        ("unix:/a/socket", None),
        ("unix:", None),
    ],
)
def test_peers_have_the_addresses_that_the_system_says(peer: str, expected: str | None) -> None:
    assert tcp_address(peer) == expected
