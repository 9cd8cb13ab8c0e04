"""Certificates that tests make: authorities, and what they sign."""

import datetime
import ipaddress
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

DAY = datetime.timedelta(days=1)


class Pair(NamedTuple):
    """A private key and its certificate, as PEM."""

    key: bytes
    certificate: bytes

    def write(self, directory: Path, name: str) -> tuple[Path, Path]:
        """Write both, and give the paths of the key and the certificate."""
        directory.mkdir(exist_ok=True)
        paths = directory / f"{name}.key", directory / f"{name}.crt"
        for path, data in zip(paths, self, strict=True):
            path.write_bytes(data)
        return paths


class Authority:
    """A certificate authority."""

    def __init__(self, name: str = "tests") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        built = _builder(self._name, self._key, DAY, DAY)
        built = built.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        self._certificate = built.issuer_name(self._name).sign(self._key, hashes.SHA256())
        self.pem = self._certificate.public_bytes(serialization.Encoding.PEM)

    def write(self, path: Path) -> Path:
        """Write the certificate."""
        path.write_bytes(self.pem)
        return path

    def issue(
        self,
        common_name: str = "",
        *,
        hosts: tuple[str, ...] = (),
        addresses: tuple[str, ...] = (),
        uris: tuple[str, ...] = (),
        since: datetime.timedelta = DAY,
        left: datetime.timedelta = DAY,
    ) -> Pair:
        """Sign a certificate that is valid since and for so long."""
        key = ec.generate_private_key(ec.SECP256R1())
        attributes = [x509.NameAttribute(NameOID.COMMON_NAME, common_name)] if common_name else []
        built = _builder(x509.Name(attributes), key, since, left)
        names: list[x509.GeneralName] = [*map(x509.DNSName, hosts)]
        names += (x509.IPAddress(ipaddress.ip_address(each)) for each in addresses)
        names += map(x509.UniformResourceIdentifier, uris)
        if names:
            built = built.add_extension(x509.SubjectAlternativeName(names), critical=False)
        signed = built.issuer_name(self._name).sign(self._key, hashes.SHA256())
        return Pair(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            ),
            signed.public_bytes(serialization.Encoding.PEM),
        )


def _builder(
    name: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    since: datetime.timedelta,
    left: datetime.timedelta,
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - since)
        .not_valid_after(now + left)
    )
