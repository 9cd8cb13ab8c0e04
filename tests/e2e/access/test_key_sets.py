"""Bearer tokens that a key set verifies, over a server process whose key set is replaced."""

import json
import time
from pathlib import Path
from typing import Any

import jwt
import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa

import xla_client as xc
from tests.e2e.process import start_server
from tests.fault.plain import until

RSA = rsa.generate_private_key(65537, 2048)
EC = ec.generate_private_key(ec.SECP256R1())
STRANGER = rsa.generate_private_key(65537, 2048)


def key_set(**keys: Any) -> str:
    """A JWKS of public keys by their ids."""
    made = []
    for name, key in keys.items():
        kind = "RS256" if isinstance(key, rsa.RSAPrivateKey) else "ES256"
        public = jwt.get_algorithm_by_name(kind).to_jwk(key.public_key(), as_dict=True)
        made.append(public | {"kid": name, "alg": kind})
    return json.dumps({"keys": made})


def signed(key: Any, name: str, **claims: Any) -> str:
    algorithm = "RS256" if isinstance(key, rsa.RSAPrivateKey) else "ES256"
    all_claims = {"sub": "carol", "aud": "xla", "iss": "https://issuer"} | claims
    all_claims.setdefault("exp", time.time() + 600)
    return jwt.encode(all_claims, key, algorithm, headers={"kid": name})


def test_tokens_of_a_key_set_let_in_until_their_key_is_replaced(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    file.write_text(key_set(first=RSA))
    flags = ("--platform", "interpreter", "--jwt-keys-file", str(file))
    flags += ("--jwt-audience", "xla", "--jwt-issuer", "https://issuer", "--jwt-role-claim", "role")
    with start_server(tmp_path, *flags, insecure=False) as server:

        def lets_in(token: str) -> bool:
            try:
                xc.connect(server.address, token=token).close()
            except xc.UnauthenticatedError:
                return False
            return True

        old, new = signed(RSA, "first", role="user"), signed(EC, "second", role="viewer")
        with xc.connect(server.address, token=old) as client:
            value = client.to_device(np.float32(3))
            assert value.to_numpy() == 3
            for wrong in (
                new,
                signed(STRANGER, "first"),
                signed(RSA, "first", aud="another"),
                signed(RSA, "first", iss="https://another"),
                signed(RSA, "first", exp=time.time() - 60),
                "no-token-at-all",
            ):
                assert not lets_in(wrong)
            file.write_text(key_set(second=EC))
            until(lambda: lets_in(new))
            assert not lets_in(old)
            # The stream that was there ends with its key.
            with pytest.raises(xc.UnauthenticatedError):
                value.to_numpy()
        with (
            xc.connect(server.address, token=new) as client,
            pytest.raises(xc.PermissionDeniedError, match="got jwt:carol in the role viewer"),
        ):
            client.to_device(np.float32(3))
