"""Targets of connections: their notation, the form that grpc takes, and routing keys."""

import ipaddress
import os

from xla_contract.errors import ArgumentTypeError, InvalidArgumentError

DEFAULT_PORT = 1685
"""The port of a target that names none: where `xla-server serve` listens by default."""

ROUTING_KEY = "xla-routing-key"
"""The metadata by which a load balancer leads all calls of a client to one server."""

_MAX_ROUTING_KEY = 128
"""Length limit of a routing key, in characters."""

_GRPC_SCHEMES = ("unix", "unix-abstract", "dns", "ipv4", "ipv6", "vsock", "xds")


def normalized(target: str) -> str:
    """Return a target with its port.

    Args:
        target: "host", "host:port", an IPv6 address with or without brackets, "unix:/path", or
            another name that grpc resolves ("dns:///host:port").

    Raises:
        ArgumentTypeError: It is no text.
        InvalidArgumentError: It is empty, a URL, or has a port that is no number.
    """
    if not isinstance(target, str):
        raise ArgumentTypeError(f"target must be a str such as 'host:1685', got {target!r}")
    text = target.strip()
    if not text:
        raise _refused(target, "connect('localhost') is the server on this machine.")
    scheme, colon, rest = text.partition(":")
    if "://" in text and scheme not in _GRPC_SCHEMES:
        advice = f"Leave {scheme}:// out."
        if scheme in ("https", "grpcs"):
            advice += " TLS is turned on by credentials=xla_client.Tls()."
        raise _refused(target, advice)
    if scheme == "dns" and colon:
        authority, slash, name = rest.rpartition("/")
        return f"dns:{authority}{slash}{_with_port(name, target)}"
    if scheme in _GRPC_SCHEMES and colon:
        return text
    return _with_port(text, target)


def is_local(target: str) -> bool:
    """Return whether a target is on this machine: loopback by its address, or a unix socket."""
    if target.startswith(("unix:", "unix-abstract:")):
        return True
    # Another resolver, or a name server of the target's own, may know any name as another host.
    host = target.removeprefix("dns:").removeprefix("///").rpartition(":")[0].strip("[]")
    if host == "localhost":
        return True
    try:
        parsed = ipaddress.ip_address(host)
    except ValueError:
        return False
    return (getattr(parsed, "ipv4_mapped", None) or parsed).is_loopback


def _with_port(name: str, target: str) -> str:
    if name.startswith("["):
        host, _, port = name.partition("]")
        host, port = f"{host}]", port.removeprefix(":")
    elif name.count(":") > 1:
        host, port = f"[{name}]", ""
    else:
        host, _, port = name.partition(":")
    if not host or any(each in host for each in "/ ") or not (port or "0").isdecimal():
        raise _refused(target, "connect('host') means port 1685.")
    if int(port or 0) > 65535:
        raise _refused(target, "A port is at most 65535.")
    return f"{host}:{port or DEFAULT_PORT}"


def _refused(target: str, hint: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"a target must be host:port or unix:/path, got {target!r}", hint=hint
    )


def routing_metadata(key: str | None = None) -> tuple[str, str]:
    """Return the name and the value of the metadata for a key; None draws one at random.

    Raises InvalidArgumentError unless the key is 1 to 128 printable characters of ASCII, which is
    what metadata of gRPC may hold.
    """
    if key is None:
        return ROUTING_KEY, os.urandom(16).hex()
    if not (0 < len(key) <= _MAX_ROUTING_KEY and key.isascii() and key.isprintable()):
        raise InvalidArgumentError(
            f"routing_key must be 1 to {_MAX_ROUTING_KEY} printable characters of ASCII, got "
            f"{len(key)}: {key[:_MAX_ROUTING_KEY]!r}",
            op="connect",
        )
    return ROUTING_KEY, key
