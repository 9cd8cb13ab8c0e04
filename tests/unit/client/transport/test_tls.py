from pathlib import Path
from typing import Any

import pytest

import xla_client as xc
from xla_client.transport.tls import TlsMaterial


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"cert_file": "c"}, "cert_file must come with key_file"),
        ({"key_file": "k"}, "cert_file must come with key_file"),
        (
            {"fingerprint": "sha256:00"},
            "must be sha256: and 64 hexadecimal digits, got 'sha256:00'",
        ),
        ({"fingerprint": "0" * 64}, "must be sha256: and 64"),
        ({"fingerprint": "sha256:" + "g" * 64}, "must be sha256: and 64"),
        ({"fingerprint": "sha256:" + "0" * 64, "ca_file": "c"}, "must come without ca_file"),
    ],
)
def test_arguments_that_do_not_fit(arguments: dict[str, Any], complaint: str) -> None:
    with pytest.raises(xc.InvalidArgumentError, match=complaint):
        xc.Tls(**arguments)


def test_files_are_read_when_connecting(tmp_path: Path) -> None:
    for name in ("ca", "cert", "key"):
        (tmp_path / name).write_text(name)
    tls = xc.Tls(tmp_path / "ca", tmp_path / "cert", str(tmp_path / "key"))
    assert tls.material("host:1") == TlsMaterial(b"ca", b"key", b"cert")
    assert xc.Tls().material("host:1") == TlsMaterial(None, None, None)
    with pytest.raises(xc.InvalidArgumentError, match=r"must be readable, got .*missing: No such"):
        xc.connect("host:1", credentials=xc.Tls(tmp_path / "missing"))


def test_a_pinned_certificate_is_fetched_from_a_server_that_speaks_tls(target: str) -> None:
    pinned = xc.Tls(fingerprint="sha256:" + "0" * 64)
    for address in (target, "127.0.0.1:1", "unix:/s"):
        with pytest.raises(xc.UnavailableError, match=f"got no certificate from {address}"):
            xc.connect(address, credentials=pinned)
    with pytest.raises(xc.UnavailableError, match="got no certificate from host:port"):
        pinned.material("host:port")
