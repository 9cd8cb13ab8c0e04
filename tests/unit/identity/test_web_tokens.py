import base64
import json
import time
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from xla_contract.errors import UnauthenticatedError
from xla_server.identity import web_tokens
from xla_server.identity.identity import Role
from xla_server.identity.web_tokens import (
    KEY_SET_ALGORITHMS,
    WebTokenRules,
    is_web_token,
    parse_key_set,
    parse_secret,
    verify,
)

RSA = rsa.generate_private_key(65537, 2048)
OTHER_RSA = rsa.generate_private_key(65537, 2048)
EC = ec.generate_private_key(ec.SECP256R1())
SECRET = "s" * 32
SOON = time.time() + 3600


def jwk(key: Any, **fields: Any) -> dict[str, Any]:
    kind = "RS256" if isinstance(key, rsa.RSAPrivateKey) else "ES256"
    algorithm = jwt.get_algorithm_by_name(kind)
    return algorithm.to_jwk(key.public_key(), as_dict=True) | fields


KEYS = parse_key_set(
    json.dumps({"keys": [jwk(RSA, kid="r", alg="RS256"), jwk(EC, kid="e")]}).encode()
)
RULES = WebTokenRules(KEY_SET_ALGORITHMS, audience="xla", issuer="https://issuer")
CLAIMS = {"sub": "alice", "exp": SOON, "aud": "xla", "iss": "https://issuer"}


def signed(key: Any = RSA, algorithm: str = "RS256", kid: str | None = "r", **claims: Any) -> str:
    chosen = {name: value for name, value in (CLAIMS | claims).items() if value is not None}
    return jwt.encode(chosen, key, algorithm, headers={"kid": kid} if kid else {})


def refused(token: str, **named: Any) -> str:
    with pytest.raises(UnauthenticatedError) as caught:
        verify(token, named.pop("keys", KEYS), named.pop("rules", RULES), **named)
    for part in token.split("."):
        assert len(part) < 8 or part not in caught.value.message
    return caught.value.message


def public_pem() -> bytes:
    return RSA.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )


def unsigned(header: dict[str, Any], claims: dict[str, Any], signature: bytes = b"") -> str:
    parts = [json.dumps(header).encode(), json.dumps(claims).encode(), signature]
    return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts)


def test_a_token_names_its_subject_and_when_it_expires():
    found = verify(signed(), KEYS, RULES)
    assert (found.name, found.role, found.expires_at) == ("jwt:alice", Role.USER, SOON)
    assert verify(signed(EC, "ES256", "e"), KEYS, RULES).name == "jwt:alice"


def test_a_shared_secret():
    keys, rules = parse_secret(f"{SECRET}\n".encode()), WebTokenRules(("HS256",))
    token = jwt.encode({"sub": "bob", "exp": SOON}, SECRET, "HS256")
    assert verify(token, keys, rules).name == "jwt:bob"
    other = jwt.encode({"sub": "bob", "exp": SOON}, "t" * 32, "HS256")
    assert "must have a signature of a configured key" in refused(other, keys=keys, rules=rules)
    stronger = jwt.encode({"sub": "bob", "exp": SOON}, SECRET * 2, "HS512")
    assert "a configured algorithm" in refused(stronger, keys=keys, rules=rules)
    with pytest.raises(ValueError, match="at least 32 bytes, got 31"):
        parse_secret(SECRET[1:].encode())


def test_a_token_without_signature_is_refused():
    for algorithm in ("none", "None", "NONE", ""):
        token = unsigned({"alg": algorithm, "typ": "JWT", "kid": "r"}, CLAIMS)
        assert "must be signed with a configured algorithm" in refused(token)
    assert "configured algorithm" in refused(unsigned({"typ": "JWT", "kid": "r"}, CLAIMS))


def test_the_public_key_is_no_secret_to_sign_with():
    # The known confusion: HS256 with the text of the public key as its secret.
    header = {"alg": "HS256", "typ": "JWT", "kid": "r"}
    body = unsigned(header, CLAIMS).rpartition(".")[0]
    hmac = jwt.get_algorithm_by_name("HS256")
    for secret in (public_pem(), json.dumps(jwk(RSA)).encode()):
        made = base64.urlsafe_b64encode(hmac.sign(body.encode(), secret)).rstrip(b"=").decode()
        assert "must be signed with a configured algorithm" in refused(f"{body}.{made}")
        # Nor where an operator has allowed it by mistake: the key says what it is for.
        both = WebTokenRules((*KEY_SET_ALGORITHMS, "HS256"), "xla", "https://issuer")
        assert "must be signed with a configured algorithm" in refused(f"{body}.{made}", rules=both)


@pytest.mark.parametrize(
    ("claims", "rule"),
    [
        ({"exp": None}, "must have the claims .*, got one without exp"),
        ({"sub": None}, "got one without sub"),
        ({"aud": None}, "got one without aud"),
        ({"iss": None}, "got one without iss"),
        ({"exp": time.time() - 60}, "must not have expired"),
        ({"nbf": SOON}, "must be valid already"),
        ({"iat": SOON}, "must be valid already"),
        ({"aud": "other"}, "must be for this server's audience"),
        ({"iss": "https://other"}, "must be of the configured issuer"),
    ],
)
def test_claims_that_are_wrong(claims: dict[str, Any], rule: str):
    with pytest.raises(UnauthenticatedError, match=rule):
        verify(signed(**claims), KEYS, RULES)


@pytest.mark.parametrize("claims", [{"exp": True}, {"exp": "soon"}, {"exp": float("nan")}])
def test_an_expiry_that_is_no_time(claims: dict[str, Any]):
    header = {"alg": "ES256", "kid": "e"}
    body = unsigned(header, CLAIMS | claims).rpartition(".")[0]
    signature = jwt.get_algorithm_by_name("ES256").sign(body.encode(), EC)
    token = f"{body}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}"
    with pytest.raises(UnauthenticatedError):
        verify(token, KEYS, RULES)


def test_a_clock_that_is_ahead_is_forgiven_and_an_expiry_is_not():
    now = time.time()
    assert verify(signed(iat=now + 2, nbf=now + 2), KEYS, RULES).name == "jwt:alice"
    # Within what PyJWT allows for the difference of clocks.
    assert "must not have expired, got ones that were valid until 20" in refused(
        signed(exp=int(now) - 2)
    )
    assert verify(signed(exp=100 + now), KEYS, RULES, lambda: 99 + now).expires_at == 100 + now
    assert "until 20" in refused(signed(exp=100 + now), clock=lambda: 100 + now)


def test_keys_that_are_not_configured():
    assert "must have a signature of a configured key" in refused(signed(OTHER_RSA))
    assert "one of the configured keys" in refused(signed(kid="other"))
    assert "one of the configured keys" in refused(signed(kid=None))
    # A set with one key needs no name for it.
    one = parse_key_set(json.dumps({"keys": [jwk(RSA, kid="r")]}).encode())
    assert verify(signed(kid=None), one, RULES).name == "jwt:alice"
    # Each key has an algorithm of its own.
    assert "a configured algorithm" in refused(signed(RSA, "PS256"))
    assert "a configured algorithm" in refused(signed(kid="e"))


def test_a_claim_may_name_the_role():
    rules = WebTokenRules(KEY_SET_ALGORITHMS, "xla", "https://issuer", role_claim="xla_role")
    assert verify(signed(xla_role="admin"), KEYS, rules).role is Role.ADMIN
    # Only where it is configured, and nothing where it is missing.
    assert verify(signed(xla_role="admin"), KEYS, RULES).role is Role.USER
    assert verify(signed(), KEYS, rules).role is Role.NONE
    assert "must name a role in its claim xla_role" in refused(signed(xla_role="root"), rules=rules)
    assert "must name a role" in refused(signed(xla_role=["admin"]), rules=rules)


@pytest.mark.parametrize("token", ["", "..", "a.b.c", "a.b", "é.é.é", f"{'[' * 9000}.e.e"])
def test_what_is_no_token(token: str):
    with pytest.raises(UnauthenticatedError, match="must be a JSON Web Token"):
        verify(token, KEYS, RULES)


def test_deeply_nested_claims_are_malformed():
    deep = base64.urlsafe_b64encode(b"[" * 100_000).decode()
    with pytest.raises(UnauthenticatedError, match="must be a JSON Web Token"):
        verify(f"{deep}.{deep}.{deep}", KEYS, RULES)


def test_three_parts_are_the_form_of_a_token():
    assert is_web_token("a.b.c")
    assert not is_web_token("a.b")


SMALL = rsa.generate_private_key(65537, 1024)


@pytest.mark.parametrize(
    ("keys", "complaint"),
    [
        ([{"kty": "oct", "k": "c2VjcmV0"}], "key 0: a key set must have public keys alone"),
        ([jwk(RSA, d="AQ")], "key 0: a key set must have public keys alone"),
        ([jwk(RSA, kid="a"), jwk(EC, kid="a")], "key 1: kid must be unique, got 'a' again"),
        ([jwk(SMALL)], "key 0: an RSA key must have 2048 bits, got 1024"),
        ([jwk(RSA, use="enc")], "must have a key for signatures"),
        ([{"kty": "future"}], "must have a key for signatures"),
        ([], "must have a key for signatures"),
    ],
)
def test_key_sets_that_are_none(keys: list[dict[str, Any]], complaint: str):
    with pytest.raises(ValueError, match=complaint):
        parse_key_set(json.dumps({"keys": keys}).encode())


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"keys": 1}', '{"keys": [1]}', "[" * 100_000])
def test_files_that_are_no_key_set(text: str):
    with pytest.raises(ValueError, match="must be a JSON Web Key Set"):
        parse_key_set(text.encode())


def test_every_error_of_the_library_is_reported_in_words_of_ours():
    reported = [kind for kind, _ in web_tokens._RULES]
    for index, kind in enumerate(reported):
        assert not any(issubclass(kind, earlier) for earlier in reported[:index])
