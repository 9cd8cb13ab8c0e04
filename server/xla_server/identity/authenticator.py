"""Credentials of callers to identities, with a cache of tokens that were verified."""

import dataclasses
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

from xla_server.identity import web_tokens
from xla_server.identity.certificates import client_identity
from xla_server.identity.identity import EVERYBODY, Identity, Role
from xla_server.identity.tokens import Tokens, digest_of
from xla_server.identity.watched_file import WatchedFile
from xla_server.identity.web_tokens import KeySet, WebTokenRules

MAX_TOKEN_CHARACTERS = 8192
"""Longest bearer token: grpc accepts headers of 8 KiB, so none that works is longer."""

MAX_CACHED_TOKENS = 4096
"""Verified tokens that are not verified again: more than a server has callers at a time."""


ANYBODY = Identity("anonymous", Role.ADMIN, is_authenticated=False)
"""The identity of callers of a server that checks no credentials."""


@dataclasses.dataclass(frozen=True, slots=True)
class Sources:
    """Sources of identities; with none of them, every client may call."""

    tokens: WatchedFile[Tokens] | None = None
    web_keys: WatchedFile[KeySet] | None = None
    web_rules: WebTokenRules | None = None
    """Given with `web_keys`."""
    roles: WatchedFile[dict[str, Role]] | None = None
    has_certificates: bool = False
    """True if connections over TCP have verified client certificates."""
    socket_group: int | None = None
    """Group that may connect to unix sockets in addition to this process's user."""
    trusts_sockets: bool = True
    """False if some unix sockets are abstract: their clients look like all others, and no mode
    of a file restricts them.
    """

    @property
    def files(self) -> Sequence[WatchedFile[Any]]:
        """The files there are."""
        files: list[WatchedFile[Any] | None] = [self.tokens, self.web_keys, self.roles]
        return [file for file in files if file is not None]


class Authenticator:
    """Identities of callers by their credentials. Thread-safe."""

    def __init__(self, sources: Sources, clock: Callable[[], float] = time.time) -> None:
        self.sources = sources
        self._clock = clock
        self._cache: OrderedDict[bytes, Identity] = OrderedDict()
        self._lock = threading.Lock()
        self.has_tokens = sources.tokens is not None or sources.web_keys is not None
        """True if bearer tokens are checked."""
        self.is_open = not self.has_tokens and not sources.has_certificates
        """True if callers over TCP need no credentials."""
        self.has_files = bool(sources.files)
        """True if `refresh` may find a change."""

    def of_token(self, token: str) -> Identity:
        """Return the identity of a bearer token; raises UnauthenticatedError."""
        if len(token) > MAX_TOKEN_CHARACTERS:
            raise web_tokens.refused(
                f"must have at most {MAX_TOKEN_CHARACTERS} characters", str(len(token))
            )
        digest = digest_of(token)
        with self._lock:
            known = self._cache.get(digest)
            if known is not None:
                self._cache.move_to_end(digest)
            cache = self._cache
        if known is None:
            known = self._with_role(self._verified(token, digest))
            with self._lock:
                # An identity from before a reload does not enter the cache made by it.
                cache[digest] = known
                if len(cache) > MAX_CACHED_TOKENS:
                    cache.popitem(last=False)
        return self.require_live(known)

    def of_certificate(self, pem: bytes) -> Identity:
        """Return the identity of a verified client certificate; raises UnauthenticatedError."""
        return self.require_live(self._with_role(client_identity(pem)))

    def of_socket(self) -> Identity:
        """Return the identity of a caller on a unix socket: whom the file's mode lets in.

        The transport does not report which member of a group it is.
        """
        group = self.sources.socket_group
        if group is None:
            return self._with_role(Identity(f"unix:{os.geteuid()}", Role.ADMIN))
        return self._with_role(Identity(f"unix-group:{group}", Role.USER))

    def require_live(self, identity: Identity) -> Identity:
        """Return the identity; raises UnauthenticatedError once its credentials have expired."""
        if identity.expires_at <= self._clock():
            raise web_tokens.expired(identity.expires_at)
        return identity

    def refresh(self) -> bool:
        """Read the files again and return whether any of them changed."""
        changed = [file.refresh() for file in self.sources.files]
        if not any(changed):
            return False
        with self._lock:
            self._cache = OrderedDict()
        return True

    def _verified(self, token: str, digest: bytes) -> Identity:
        sources = self.sources
        if sources.tokens is not None:
            found = sources.tokens.value.find(digest)
            if found is not None:
                return found
        keys, rules = sources.web_keys, sources.web_rules
        if keys is not None and rules is not None and web_tokens.is_web_token(token):
            return web_tokens.verify(token, keys.value, rules, self._clock)
        raise web_tokens.refused("must be one that this server knows", "another one")

    def _with_role(self, identity: Identity) -> Identity:
        roles = self.sources.roles
        if roles is None:
            return identity
        default_role = roles.value.get(EVERYBODY, identity.role)
        return dataclasses.replace(identity, role=roles.value.get(identity.name, default_role))
