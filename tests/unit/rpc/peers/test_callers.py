import pytest

from xla_server.rpc.peers.callers import host_of


@pytest.mark.parametrize(
    ("peer", "host"),
    [
        ("ipv4:10.1.2.3:4567", "ipv4:10.1.2.3"),
        ("ipv6:%5B::ffff:10.1.2.3%5D:4567", "ipv4:10.1.2.3"),
        ("ipv6:%5B2001:db8:1:2:3:4:5:6%5D:4567", "ipv6:2001:db8:1:2::/64"),
        ("ipv6:%5Bfe80::1%25eth0%5D:4567", "ipv6:fe80::/64"),
        ("unix:", "local"),
        ("unix:/run/socket", "local"),
    ],
)
def test_a_client_without_authentication_is_known_by_its_host(peer: str, host: str) -> None:
    assert host_of(peer) == host
