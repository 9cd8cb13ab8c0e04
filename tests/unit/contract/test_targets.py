"""Targets of connections: ports, and which of them are on this machine."""

import pytest

from xla_contract.targets import is_local, normalized


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("host", "host:1685"),
        (" host ", "host:1685"),
        ("host:7", "host:7"),
        ("10.0.0.1", "10.0.0.1:1685"),
        ("::1", "[::1]:1685"),
        ("[::1]", "[::1]:1685"),
        ("[::1]:7", "[::1]:7"),
        ("dns:host", "dns:host:1685"),
        ("dns:///host", "dns:///host:1685"),
        ("dns://1.1.1.1/host:7", "dns://1.1.1.1/host:7"),
        ("unix:/path", "unix:/path"),
        ("unix-abstract:name", "unix-abstract:name"),
        ("ipv4:127.0.0.1:7", "ipv4:127.0.0.1:7"),
    ],
)
def test_a_target_without_a_port_means_the_default_port(target: str, expected: str) -> None:
    assert normalized(target) == expected
    assert normalized(expected) == expected


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("127.0.0.1:1", True),
        ("localhost:1", True),
        ("[::1]:1", True),
        ("[::ffff:127.0.0.1]:1", True),
        ("[::1%lo]:1", True),
        ("127.0.0.1%example.com:1", False),
        ("unix:/s", True),
        ("unix-abstract:s", True),
        ("dns:///localhost:1", True),
        ("host:1", False),
        ("10.0.0.1:1", False),
        ("localhost.example:1", False),
        ("[fe80::1]:1", False),
        ("dns:///host:1", False),
        ("dns:localhost:1", True),
        ("dns://10.0.0.1/localhost:1", False),
        ("xds:///localhost:1", False),
    ],
)
def test_loopback_and_unix_sockets_are_on_this_machine(target: str, expected: bool) -> None:
    assert is_local(target) == expected
