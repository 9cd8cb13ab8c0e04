import datetime
import logging
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.certificates import DAY, Authority, Pair
from xla_contract.errors import UnauthenticatedError
from xla_server.identity.certificates import (
    KeyPair,
    client_identity,
    fingerprint,
    self_signed,
    watched_pair,
)
from xla_server.identity.identity import Role
from xla_server.identity.watched_file import CredentialsError

AUTHORITY = Authority()
LOCKED = ec.generate_private_key(ec.SECP256R1()).private_bytes(
    serialization.Encoding.PEM,
    serialization.PrivateFormat.PKCS8,
    serialization.BestAvailableEncryption(b"password"),
)
"""A key with a password."""


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path, Path]:
    """The files of a key, a certificate of it, and an authority."""
    key, chain = AUTHORITY.issue("server", hosts=("localhost",)).write(tmp_path, "server")
    return key, chain, AUTHORITY.write(tmp_path / "ca.crt")


def test_a_pair_follows_its_files(files: tuple[Path, Path, Path]):
    pair = watched_pair(*files)
    assert not pair.refresh()
    renewed = AUTHORITY.issue("server")
    renewed.write(files[0].parent, "server")
    assert pair.refresh()
    assert pair.value == KeyPair(*renewed, AUTHORITY.pem)
    assert not pair.refresh()
    # So does the authority of clients.
    other = Authority("other")
    other.write(files[2])
    assert pair.refresh()
    assert pair.value.client_ca == other.pem


def test_a_pair_of_which_one_half_was_replaced_is_none_yet(
    files: tuple[Path, Path, Path], caplog: pytest.LogCaptureFixture
):
    pair = watched_pair(*files)
    before = pair.value
    renewed = AUTHORITY.issue("server")
    with caplog.at_level(logging.WARNING):
        files[1].write_bytes(renewed.certificate)
        assert not pair.refresh()
        assert not pair.refresh()
    assert pair.value == before
    assert len(caplog.records) == 1
    assert "must be the certificate of the key" in caplog.text
    files[0].write_bytes(renewed.key)
    assert pair.refresh()


@pytest.mark.parametrize(
    ("name", "data", "complaint"),
    [
        ("server.key", b"no key", "must hold a PEM key without password, got 6 bytes without one"),
        ("server.key", LOCKED, "must hold a PEM key without password, got one with a password"),
        ("server.crt", b"no certificate", "must hold PEM certificates, got 14 bytes without one"),
        ("ca.crt", b"", "must hold PEM certificates"),
        ("server.key", AUTHORITY.issue("other").key, "certificate of the key .*, got CN=server of"),
        ("server.key", None, "server.key: No such file"),
    ],
)
def test_files_that_are_no_pair(
    files: tuple[Path, Path, Path], name: str, data: bytes | None, complaint: str
):
    path = files[0].with_name(name)
    path.unlink()
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(CredentialsError, match=complaint):
        watched_pair(*files)


@pytest.mark.parametrize(
    ("issued", "name"),
    [
        (AUTHORITY.issue("alice"), "cert:alice"),
        (AUTHORITY.issue("a b\n", hosts=("h",)), "cert:a%20b%0A"),
        (AUTHORITY.issue("alice", uris=("spiffe://team/bob",)), "cert:spiffe://team/bob"),
        (AUTHORITY.issue("alice", uris=("u://a", "u://b")), "cert:alice"),
        (AUTHORITY.issue(hosts=("worker.example", "other")), "cert:worker.example"),
    ],
)
def test_a_certificate_names_its_client(issued: Pair, name: str):
    found = client_identity(issued.certificate)
    end = x509.load_pem_x509_certificate(issued.certificate).not_valid_after_utc
    assert (found.name, found.role, found.expires_at) == (name, Role.USER, end.timestamp())


@pytest.mark.parametrize(
    ("pem", "complaint"),
    [(AUTHORITY.issue().certificate, "got none of them"), (b"x", "cannot be parsed")],
)
def test_certificates_without_an_identity(pem: bytes, complaint: str):
    with pytest.raises(UnauthenticatedError, match=complaint):
        client_identity(pem)


def test_a_certificate_is_made_once(tmp_path: Path):
    path, copy = tmp_path / "state" / "tls.pem", tmp_path / "state" / "tls.crt"
    assert self_signed(path, copy)
    pair = watched_pair(path, path).value
    assert path.stat().st_mode & 0o777 == 0o600
    assert b"PRIVATE" not in copy.read_bytes()
    assert fingerprint(copy.read_bytes()) == fingerprint(pair.chain)
    leaf = x509.load_pem_x509_certificate(copy.read_bytes())
    assert leaf.not_valid_after_utc - leaf.not_valid_before_utc > 3650 * DAY
    assert leaf.not_valid_before_utc < datetime.datetime.now(datetime.UTC)
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert {"xla-server", "localhost"} <= set(names.get_values_for_type(x509.DNSName))
    # The certificate stays, as clients have pinned it. The copy is written again.
    copy.unlink()
    assert not self_signed(path, copy)
    assert watched_pair(path, path).value == pair
    assert fingerprint(copy.read_bytes()) == fingerprint(pair.chain)
    # A copy that is whole is not written, perhaps on a disk that is full.
    before = copy.stat().st_mtime_ns
    assert not self_signed(path, copy)
    assert copy.stat().st_mtime_ns == before
    path.chmod(0o644)
    with pytest.raises(CredentialsError, match="mode 0600, got mode 0644"):
        self_signed(path, copy)


def test_a_fingerprint_is_of_the_first_certificate():
    first, second = AUTHORITY.issue("a").certificate, AUTHORITY.issue("b").certificate
    assert fingerprint(first + second) == fingerprint(first) != fingerprint(second)
    assert fingerprint(first).startswith("sha256:")
