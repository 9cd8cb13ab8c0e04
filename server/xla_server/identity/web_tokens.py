"""JSON Web Tokens (RFC 7519), checked against a key set (JWKS) or a shared secret by PyJWT."""

import dataclasses
import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jwt

from xla_contract.errors import UnauthenticatedError
from xla_server.identity.identity import Identity, Role, identity_name

KEY_SET_ALGORITHMS = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA"),
)
"""Algorithms that a key set may be used with: signatures with a key of which it has the public
half. A symmetric one is none of them, or a token signed with the public key's text would pass."""

SECRET_ALGORITHMS = ("HS256", "HS384", "HS512")
"""Algorithms that a shared secret may be used with."""

MIN_SECRET_BYTES = 32
"""Shortest shared secret: the size of SHA-256's result, as RFC 7518 demands for HS256."""

CLOCK_SKEW_SECONDS = 5.0
"""Tolerated lead of the issuer's clock (`iat`, `nbf`), in seconds. `exp` is not extended by it."""

_LEAST_RSA_BITS = 2048
"""Bits of an RSA key at least, as RFC 7518, section 3.3, requires."""

_RULES: Sequence[tuple[type[Exception], str]] = (
    (jwt.ExpiredSignatureError, "must not have expired"),
    (jwt.MissingRequiredClaimError, "must have the claims exp, sub, and those configured"),
    (jwt.ImmatureSignatureError, "must be valid already"),
    (jwt.InvalidIssuedAtError, "must have been issued in the past"),
    (jwt.InvalidAudienceError, "must be for this server's audience"),
    (jwt.InvalidIssuerError, "must be of the configured issuer"),
    (jwt.InvalidAlgorithmError, "must be signed with a configured algorithm"),
    (jwt.InvalidSignatureError, "must have a signature of a configured key"),
)
"""Errors of PyJWT and our messages for them."""


@dataclasses.dataclass(frozen=True, slots=True)
class WebTokenRules:
    """Rules for the claims and signatures of tokens."""

    algorithms: Sequence[str]
    audience: str = ""
    """Required in `aud` if it is not empty."""
    issuer: str = ""
    """Required as `iss` if it is not empty."""
    role_claim: str = ""
    """Claim with the name of the caller's role; without one every caller is a user."""


@dataclasses.dataclass(frozen=True, slots=True)
class KeySet:
    """Keys by their ids; a shared secret is the one key of a set."""

    by_id: Mapping[str, Any]

    def key(self, key_id: object) -> Any:
        """Return the key that a token names; one that names none gets the only one there is."""
        if key_id is None and len(self.by_id) == 1:
            return next(iter(self.by_id.values()))
        found = self.by_id.get(key_id) if isinstance(key_id, str) else None
        if found is None:
            raise refused("must be signed with one of the configured keys", "one of no known kid")
        return found


def parse_key_set(data: bytes) -> KeySet:
    """Parse a JWKS (RFC 7517) of public keys; raises ValueError."""
    try:
        keys = json.loads(data)["keys"]
        if not isinstance(keys, list) or not all(isinstance(key, dict) for key in keys):
            raise TypeError
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ValueError('must be a JSON Web Key Set, {"keys": [...]}') from None
    by_id: dict[str, Any] = {}
    for number, key in enumerate(keys):
        if key.get("kty") == "oct" or "d" in key:
            raise ValueError(f"key {number}: a key set must have public keys alone")
        if key.get("use", "sig") != "sig":
            continue
        try:
            parsed = jwt.PyJWK(key)
        except jwt.PyJWTError:
            continue  # Keys of unknown kinds are ignored, as RFC 7517, section 5 demands.
        if getattr(parsed.key, "key_size", _LEAST_RSA_BITS) < _LEAST_RSA_BITS and (
            key.get("kty") == "RSA"
        ):
            raise ValueError(
                f"key {number}: an RSA key must have {_LEAST_RSA_BITS} bits, got "
                f"{parsed.key.key_size}"
            )
        key_id = str(key.get("kid", ""))
        if key_id in by_id:
            raise ValueError(f"key {number}: kid must be unique, got {key_id!r:.100} again")
        by_id[key_id] = parsed
    if not by_id:
        raise ValueError("must have a key for signatures, got none")
    return KeySet(by_id)


def parse_secret(data: bytes) -> KeySet:
    """Take a file as a shared secret, without the end of its line; raises ValueError."""
    secret = data.rstrip(b"\r\n")
    if len(secret) < MIN_SECRET_BYTES:
        raise ValueError(
            f"a shared secret must have at least {MIN_SECRET_BYTES} bytes, got {len(secret)}"
        )
    return KeySet({"": secret})


def is_web_token(token: str) -> bool:
    """Return whether a token has the form of a signed one: three parts with dots between."""
    return token.count(".") == 2


def verify(
    token: str, keys: KeySet, rules: WebTokenRules, clock: Callable[[], float] = time.time
) -> Identity:
    """Return the identity `jwt:SUB` of a token.

    Raises UnauthenticatedError that says which rule it breaks, and quotes nothing of it but times.
    """
    try:
        header = jwt.get_unverified_header(token)
        key = keys.key(header.get("kid"))
        required = ["exp", "sub"]
        required += ["aud"] if rules.audience else []
        required += ["iss"] if rules.issuer else []
        claims: dict[str, Any] = jwt.decode(
            token,
            key,
            algorithms=list(rules.algorithms),
            audience=rules.audience or None,
            issuer=rules.issuer or None,
            leeway=CLOCK_SKEW_SECONDS,
            options={"require": required, "verify_aud": bool(rules.audience)},
        )
    except jwt.PyJWTError as error:
        raise _error_of(error) from None
    except (ValueError, TypeError, RecursionError, OverflowError):
        raise refused("must be a JSON Web Token", "one that is malformed") from None
    expires_at = _expiry(claims["exp"])
    if expires_at <= clock():
        raise expired(expires_at)
    return Identity(identity_name("jwt", claims["sub"]), _role(claims, rules), expires_at)


def refused(rule: str, evidence: str) -> UnauthenticatedError:
    """Return the error of a bearer token that breaks a rule."""
    return UnauthenticatedError(
        f"the bearer token {rule}, got {evidence}",
        hint="Ask the server's operator for a token, or the issuer for a new one.",
    )


def expired(expires_at: float) -> UnauthenticatedError:
    """Return the error of credentials whose time is over."""
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(expires_at))
    return UnauthenticatedError(
        f"credentials must not have expired, got ones that were valid until {at}",
        hint="Connect with new ones.",
    )


def _error_of(error: jwt.PyJWTError) -> UnauthenticatedError:
    for kind, rule in _RULES:
        if isinstance(error, kind):
            claim = getattr(error, "claim", "")
            return refused(rule, f"one without {claim}" if claim else "one that is not so")
    return refused("must be a JSON Web Token", "one that is malformed")


def _expiry(claim: object) -> float:
    """The time of `exp`, which PyJWT has taken for a number, though it accepts digits as text."""
    try:
        return float(str(claim))
    except ValueError:
        raise refused("must have a number as exp", "another value") from None


def _role(claims: Mapping[str, Any], rules: WebTokenRules) -> Role:
    if not rules.role_claim:
        return Role.USER
    claimed = claims.get(rules.role_claim)
    if claimed is None:
        return Role.NONE
    try:
        return Role.parse(str(claimed))
    except ValueError as error:
        raise refused(f"must name a role in its claim {rules.role_claim}", "another value") from (
            error
        )
