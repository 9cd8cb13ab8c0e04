"""TLS of a server process, over certificates made here."""

import datetime
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import xla_client as xc
from tests.certificates import DAY, Authority, Pair
from tests.e2e.access.test_identity import serve
from tests.e2e.process import ServerProcess, start_server
from tests.fault.plain import until
from xla_server.identity.certificates import fingerprint

OURS, OTHER = Authority("ours"), Authority("other")
SECOND = datetime.timedelta(seconds=1)
HERE = ("127.0.0.1",)


class Files:
    """The files of a server's TLS."""

    def __init__(self, directory: Path, pair: Pair, client_ca: Authority | None = None) -> None:
        self.directory = directory
        self.key, self.certificate = pair.write(directory, "server")
        self.client_ca = directory / "clients.crt"
        if client_ca is not None:
            client_ca.write(self.client_ca)

    @property
    def flags(self) -> list[str]:
        flags = ["--platform", "interpreter", "--state-dir", str(self.directory / "state")]
        flags += ["--tls-key-file", str(self.key), "--tls-cert-file", str(self.certificate)]
        if self.client_ca.exists():
            flags += ["--client-ca-file", str(self.client_ca)]
        return flags


def works(target: str, tls: xc.Tls, **named: object) -> None:
    with xc.connect(target, credentials=tls, **named) as client:  # type: ignore[arg-type]
        assert client.to_device(np.float32(3)).to_numpy() == 3


def refused(target: str, tls: xc.Tls | None, words: str, hint: str = "", **named: object) -> None:
    with pytest.raises(xc.UnavailableError, match=words) as caught:
        xc.connect(target, credentials=tls, connect_timeout=1, **named)  # type: ignore[arg-type]
    assert hint in caught.value.hint


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("certificates")
    OURS.write(made / "ours.crt")
    OTHER.write(made / "other.crt")
    return made


@pytest.fixture(scope="module")
def ours(directory: Path) -> xc.Tls:
    return xc.Tls(ca_file=directory / "ours.crt")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server of ours, with a token that it has made."""
    made = tmp_path_factory.mktemp("server")
    files = Files(made / "files", OURS.issue("server", addresses=HERE))
    with start_server(made, *files.flags, insecure=False) as running:
        yield running


@pytest.fixture(scope="module")
def token(server: ServerProcess) -> Path:
    return server.log.parent / "files" / "state" / "token"


def test_the_certificate_must_be_of_a_trusted_authority(
    server: ServerProcess, token: Path, ours: xc.Tls, directory: Path
) -> None:
    target = server.address
    works(target, ours, token=token)
    wrong = xc.Tls(ca_file=directory / "other.crt")
    refused(target, wrong, "certificate verify failed|CERTIFICATE_VERIFY_FAILED", token=token)
    # The system's authorities do not know it either.
    words = "CERTIFICATE_VERIFY_FAILED|verify failed"
    refused(target, xc.Tls(), words, "Tls(fingerprint=...)", token=token)


def test_tls_alone_authenticates_no_caller(server: ServerProcess, ours: xc.Tls) -> None:
    with pytest.raises(xc.UnauthenticatedError, match="must carry credentials"):
        xc.connect(server.address, credentials=ours)


def test_a_client_in_plaintext_gets_nowhere(server: ServerProcess, token: Path) -> None:
    words = "got no answer from 127.0.0.1:.*"
    refused(server.address, None, words, "credentials=xla_client.Tls(...)", token=token)


def test_tls_to_a_server_in_plaintext_is_too_much(tmp_path: Path) -> None:
    with start_server(tmp_path, "--platform", "interpreter") as plaintext:
        refused(plaintext.address, xc.Tls(), "WRONG_VERSION_NUMBER", "leave TLS out")


def test_the_certificate_must_be_for_the_name(tmp_path: Path, ours: xc.Tls) -> None:
    pair = OURS.issue("server", hosts=("elsewhere.example",))
    files = Files(tmp_path / "files", pair)
    with start_server(tmp_path, *files.flags, insecure=False) as running:
        refused(running.address, ours, "Hostname Verification Check failed")
        # A client that pins the certificate checks no name.
        pinned = xc.Tls(fingerprint=fingerprint(pair.certificate))
        works(running.address, pinned, token=tmp_path / "files" / "state" / "token")


def test_a_fingerprint_stands_for_name_and_authority(server: ServerProcess, token: Path) -> None:
    pem = (token.parent.parent / "server.crt").read_bytes()
    works(server.address, xc.Tls(fingerprint=fingerprint(pem)), token=token)
    other = fingerprint(OURS.issue("server", addresses=HERE).certificate)
    refused(server.address, xc.Tls(fingerprint=other), f"must have the certificate {other}")


def test_a_certificate_that_has_expired_is_refused(tmp_path: Path, ours: xc.Tls) -> None:
    expired = OURS.issue("server", addresses=HERE, since=2 * DAY, left=-DAY)
    files = Files(tmp_path / "files", expired)
    with start_server(tmp_path, *files.flags, insecure=False) as running:
        refused(running.address, ours, "expired")


def test_clients_have_certificates_of_the_authority(
    tmp_path: Path, directory: Path, ours: xc.Tls
) -> None:
    files = Files(tmp_path / "files", OURS.issue("server", addresses=HERE), client_ca=OURS)
    roles = tmp_path / "roles"
    roles.write_text("cert:looker viewer\ncert:mallory none\n")
    flags = (*files.flags, "--roles-file", str(roles))

    def of(authority: Authority, name: str, **named: datetime.timedelta) -> xc.Tls:
        key, certificate = authority.issue(name, **named).write(tmp_path / "clients", name)
        return xc.Tls(directory / "ours.crt", certificate, key)

    with start_server(tmp_path, *flags, insecure=False) as running:
        target = running.address
        alice = of(OURS, "alice")
        works(target, alice)
        # Their identity owns their sessions.
        with xc.connect(target, credentials=alice) as client:
            session = client.session_token
            with pytest.raises(xc.NotFoundError):
                xc.connect(target, credentials=of(OURS, "bob"), session=session)
            works(target, alice, session=session)
        for stranger in (ours, of(OTHER, "alice"), of(OURS, "late", since=2 * DAY, left=-DAY)):
            refused(target, stranger, "got no answer")
        with (
            xc.connect(target, credentials=of(OURS, "looker")) as client,
            pytest.raises(xc.PermissionDeniedError, match="got cert:looker in the role viewer"),
        ):
            client.to_device(np.float32(3))
        with pytest.raises(xc.PermissionDeniedError, match="got cert:mallory in the role none"):
            xc.connect(target, credentials=of(OURS, "mallory"))


def test_a_connection_ends_with_its_client_s_certificate(tmp_path: Path, directory: Path) -> None:
    files = Files(tmp_path / "files", OURS.issue("server", addresses=HERE), client_ca=OURS)
    with start_server(tmp_path, *files.flags, insecure=False) as running:
        # On a busy machine the first one may be over before it is shown.
        for seconds in (3, 30):
            pair = OURS.issue("alice", left=seconds * SECOND).write(tmp_path / "clients", "alice")
            tls = xc.Tls(directory / "ours.crt", pair[1], pair[0])
            try:
                client = xc.connect(running.address, credentials=tls, connect_timeout=5)
                value = client.to_device(np.float32(3))
                break
            except xc.XlaError:
                assert seconds == 3
        until(lambda: "a stream of cert:alice ends" in running.log.read_text(), 60)
        with pytest.raises(xc.UnauthenticatedError, match="must not have expired"):
            value.to_numpy()
        client.close()


def test_certificates_are_read_again_at_the_next_handshake(
    tmp_path: Path, directory: Path, ours: xc.Tls
) -> None:
    files = Files(tmp_path / "files", OURS.issue("server", addresses=HERE))
    flags = (*files.flags, "--token-file", str(tmp_path / "tokens"))
    (tmp_path / "tokens").write_text("the-token-of-all\n")
    other = xc.Tls(ca_file=directory / "other.crt")
    with start_server(tmp_path, *flags, insecure=False) as running:
        target, token = running.address, "the-token-of-all"
        with xc.connect(target, credentials=ours, token=token) as client:
            renewed = OTHER.issue("server", addresses=HERE)
            # A half of the new pair does not count.
            files.certificate.write_bytes(renewed.certificate)
            works(target, ours, token=token)
            assert "credentials stay as they were" in running.log.read_text()
            files.key.write_bytes(renewed.key)
            works(target, other, token=token)
            refused(target, ours, "CERTIFICATE_VERIFY_FAILED|verify failed", token=token)
            # Connected clients notice nothing.
            assert client.to_device(np.float32(3)).to_numpy() == 3


def test_the_authority_of_clients_is_read_again_at_the_next_handshake(
    tmp_path: Path, directory: Path
) -> None:
    files = Files(tmp_path / "files", OURS.issue("server", addresses=HERE), client_ca=OURS)

    def of(authority: Authority, name: str) -> xc.Tls:
        key, certificate = authority.issue("alice").write(tmp_path / "clients", name)
        return xc.Tls(directory / "ours.crt", certificate, key)

    before, after = of(OURS, "before"), of(OTHER, "after")
    with start_server(tmp_path, *files.flags, insecure=False) as running:
        target = running.address
        with xc.connect(target, credentials=before) as client:
            refused(target, after, "got no answer")
            OTHER.write(files.client_ca)
            works(target, after)
            refused(target, before, "got no answer")
            assert client.to_device(np.float32(3)).to_numpy() == 3


def test_a_pair_that_is_none_is_reported_and_exits_2(tmp_path: Path) -> None:
    files = Files(tmp_path / "files", OURS.issue("server"))
    files.key.write_bytes(OURS.issue("another").key)
    ended = serve("--listen", "127.0.0.1:0", *files.flags)
    assert ended.returncode == 2
    assert "server.crt: must be the certificate of the key" in ended.stderr
    ended = serve("--listen", "0.0.0.0:0", "--tls-key-file", str(files.key))
    assert ended.returncode == 2
    assert "tls_cert_file: must come with tls_key_file" in ended.stderr
