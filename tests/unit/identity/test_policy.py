import pytest

from xla_server.identity.policy import (
    Reach,
    needs_token,
    plaintext_faults,
    reach_of,
    trusts_sockets,
)


@pytest.mark.parametrize(
    ("address", "reach"),
    [
        ("unix:/run/socket", Reach.OWNER),
        ("unix:///run/socket", Reach.OWNER),
        # There is no file whose mode could restrict clients.
        ("unix-abstract:name", Reach.MACHINE),
        ("127.0.0.1:1685", Reach.MACHINE),
        ("127.9.9.9:1685", Reach.MACHINE),
        ("[::1]:1685", Reach.MACHINE),
        ("[::ffff:127.0.0.1]:1685", Reach.MACHINE),
        ("localhost:0", Reach.MACHINE),
        ("0.0.0.0:1685", Reach.NETWORK),
        ("[::]:1685", Reach.NETWORK),
        ("[::ffff:10.0.0.1]:1685", Reach.NETWORK),
        ("10.0.0.1:1685", Reach.NETWORK),
        ("[fe80::1%eth0]:1685", Reach.NETWORK),
        ("localhost.example.com:1685", Reach.NETWORK),
        ("127.0.0.1.example.com:1685", Reach.NETWORK),
        ("example.com/127.0.0.1:1685", Reach.NETWORK),
        ("127.0.0.1%example.com:1685", Reach.NETWORK),
    ],
)
def test_who_can_connect_to_an_address(address: str, reach: Reach):
    assert reach_of(address) is reach


def test_plaintext_stays_on_the_machine_unless_the_operator_says_so():
    addresses = ("127.0.0.1:1", "0.0.0.0:2", "unix:/s", "[::]:3")
    faults = plaintext_faults(addresses, has_tls=False, is_insecure=False)
    assert [fault.partition(" in plaintext")[0].rpartition(" ")[2] for fault in faults] == [
        "0.0.0.0:2",
        "[::]:3",
    ]
    assert plaintext_faults(addresses, has_tls=True, is_insecure=False) == []
    assert plaintext_faults(addresses, has_tls=False, is_insecure=True) == []
    assert plaintext_faults(addresses[:1], has_tls=False, is_insecure=False) == []


def test_a_token_is_made_where_nothing_else_tells_callers_apart():
    assert needs_token(("127.0.0.1:1",), has_identity=False, is_insecure=False)
    assert needs_token(("unix:/s", "unix-abstract:name"), has_identity=False, is_insecure=False)
    assert needs_token(("0.0.0.0:1",), has_identity=False, is_insecure=False)
    assert not needs_token(("unix:/s",), has_identity=False, is_insecure=False)
    assert not needs_token(("127.0.0.1:1",), has_identity=True, is_insecure=False)
    assert not needs_token(("127.0.0.1:1",), has_identity=False, is_insecure=True)


def test_an_abstract_socket_takes_the_trust_of_all_sockets():
    assert trusts_sockets(("unix:/s", "0.0.0.0:1"))
    assert not trusts_sockets(("unix:/s", "unix-abstract:name"))
