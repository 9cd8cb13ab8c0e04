"""Handles: the numbers by which clients name objects of the server.

A handle is a counter value sent through a permutation that only the server knows (a Feistel network
keyed anew for each session). So a client cannot guess the handle of another, and the server can
distinguish a freed handle from one that was never issued without remembering the freed ones. The
rounds mix well but are no cipher: an attacker who breaks them learns of handles of its own session
only.
"""

import bisect
import enum
import hashlib
import secrets
import threading
from collections.abc import Sequence
from typing import Generic, TypeVar

from xla_contract.errors import (
    InvalidArgumentError,
    NotFoundError,
    ResourceExhaustedError,
    UnauthenticatedError,
)

V = TypeVar("V")

_ROUNDS = 4
_HALF_BITS = 26
_HALF_MASK = (1 << _HALF_BITS) - 1
_FACTOR_MASK = (1 << 59) - 1
"""Parameters of the Feistel network: rounds, bits of each half, mask of the rounds' factors."""

_SHIFT = 29
"""First of the bits of a product that depend on most bits of both factors."""
_KIND_BITS = 3
"""Bits of a handle's kind."""

HANDLE_BITS = 2 * _HALF_BITS
"""Bits of the permutation: below the 53 that a double holds, as JavaScript and JSON have numbers.

One of a million live handles of a session is guessed in one of 2**32 tries, and only by a caller of
that session: every handle is looked up in the session of the call.
"""


class HandleKind(enum.IntEnum):
    """Kind of a handle's object; handles of different kinds never coincide."""

    DATA = 1
    EXECUTABLE = 2
    DEVICE_TO_DEVICE_CHANNEL = 3
    DEVICE_TO_HOST_CHANNEL = 4
    HOST_TO_DEVICE_CHANNEL = 5
    EXECUTION = 6

    @property
    def noun(self) -> str:
        """The kind's name in messages."""
        return self.name.lower().replace("_", " ")


class HandleFactory:
    """Issues handles, and recognises those it issued. Thread-safe."""

    def __init__(self) -> None:
        key = secrets.token_bytes(32)
        words = [
            int.from_bytes(hashlib.blake2b(digest_size=8, key=key, salt=bytes([number])).digest())
            for number in range(2 * _ROUNDS)
        ]
        self._rounds = [
            (word & _HALF_MASK, factor & _FACTOR_MASK | 1)
            for word, factor in zip(words[:_ROUNDS], words[_ROUNDS:], strict=True)
        ]
        # A list by number, as hashes of enumeration members cost as much as the handle.
        self._issued = [0] * (1 << _KIND_BITS)
        self._lock = threading.Lock()

    def issue(self, kind: HandleKind) -> int:
        """A handle never issued before, between 1 and 2**52 - 1."""
        with self._lock:
            handle, count = 0, self._issued[kind]
            while handle == 0:  # One counter value falls on 0, which proto3 cannot tell from unset.
                count += 1
                handle = self._permute(count << _KIND_BITS | kind)
            self._issued[kind] = count
        return handle

    def was_issued(self, handle: int, kind: HandleKind) -> bool:
        """Return whether `issue(kind)` has returned this handle."""
        if not 0 < handle < 1 << HANDLE_BITS:
            return False
        plain = self._unpermute(handle)
        with self._lock:
            return (
                plain & ((1 << _KIND_BITS) - 1) == kind
                and 0 < plain >> _KIND_BITS <= self._issued[kind]
            )

    def number(self, handle: int) -> int:
        """Return the serial number of an issued handle among its kind, from 1."""
        return self._unpermute(handle) >> _KIND_BITS

    def _permute(self, plain: int) -> int:
        left, right = plain >> _HALF_BITS, plain & _HALF_MASK
        for word, factor in self._rounds:
            left, right = right, left ^ ((right + word) * factor >> _SHIFT & _HALF_MASK)
        return left << _HALF_BITS | right

    def _unpermute(self, handle: int) -> int:
        left, right = handle >> _HALF_BITS, handle & _HALF_MASK
        for word, factor in reversed(self._rounds):
            left, right = right ^ ((left + word) * factor >> _SHIFT & _HALF_MASK), left
        return left << _HALF_BITS | right


class HandleTable(Generic[V]):
    """Handle -> value for one kind, with a limit on how many are live. Thread-safe."""

    def __init__(self, factory: HandleFactory, kind: HandleKind, limit: int) -> None:
        self._factory = factory
        self._kind = kind
        self._limit = limit
        self._values: dict[int, V] = {}
        self._is_closed = False
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._values)

    def add(self, value: V) -> int:
        """Keep a value under a new handle; raises as `add_all` does."""
        with self._lock:
            self._require_capacity(1)
            handle = self._factory.issue(self._kind)
            self._values[handle] = value
        return handle

    def add_all(self, values: list[V]) -> list[int]:
        """Keep all the values or none of them.

        Raises ResourceExhaustedError at the limit, UnauthenticatedError when the table is closed.
        """
        with self._lock:
            self._require_capacity(len(values))
            handles = [self._factory.issue(self._kind) for _ in values]
            self._values.update(zip(handles, values, strict=True))
        return handles

    def _require_capacity(self, count: int) -> None:
        if self._is_closed:
            raise UnauthenticatedError(
                f"the session must be open to get a {self._kind.noun} handle, got one that "
                "has ended"
            )
        if len(self._values) + count > self._limit:
            raise ResourceExhaustedError(
                f"a session may have {self._limit} {self._kind.noun} handles, got "
                f"{count} more with {len(self._values)} in use",
                hint="Unregister handles that are no longer needed.",
            )

    def get(self, handle: int) -> V:
        """The value under a handle.

        Raises InvalidArgumentError for a handle that was freed, NotFoundError for one that was
        never issued.
        """
        value = self._values.get(handle)
        if value is None:
            raise self._absent(handle)
        return value

    def remove(self, handle: int) -> V:
        """Free a handle and return its value; raises as `get`."""
        return self.remove_all([handle])[0]

    def remove_all(self, handles: Sequence[int]) -> list[V]:
        """Free handles, all or none of them; raises as `get` does. They must be distinct."""
        with self._lock:
            for handle in handles:
                self.get(handle)
            return [self._values.pop(handle) for handle in handles]

    def replace(self, handle: int, value: V) -> bool:
        """Replace the value of a handle; False if the handle was freed before."""
        with self._lock:
            is_live = handle in self._values
            if is_live:
                self._values[handle] = value
        return is_live

    def close(self) -> list[V]:
        """Free all handles and return their values; refuse new ones from now on."""
        with self._lock:
            self._is_closed = True
            values = list(self._values.values())
            self._values.clear()
        return values

    def handles_after(self, handle: int) -> list[int]:
        """The live handles issued after `handle`, which may be freed, in order; all for 0."""
        with self._lock:
            handles = list(self._values)
        if not handle:
            return handles
        number = self._factory.number
        return handles[bisect.bisect_right(handles, number(handle), key=number) :]

    def has_issued(self, handle: int) -> bool:
        """Return whether this table has issued the handle, live or freed."""
        return self._factory.was_issued(handle, self._kind)

    def _absent(self, handle: int) -> InvalidArgumentError | NotFoundError:
        """Return the error of a handle without a value."""
        if self._factory.was_issued(handle, self._kind):
            return InvalidArgumentError(
                f"a live {self._kind.noun} handle is needed, got {handle}, "
                "which was unregistered before"
            )
        noun = self._kind.noun
        return NotFoundError(
            f"{'an' if noun[0] in 'aeiou' else 'a'} {noun} handle of this session is needed, got "
            f"{handle}, which it was never given",
            hint="What another client made belongs to its session.",
        )


def require_handle(handle: int | None) -> int:
    """Return a data handle of a request; InvalidArgumentError if the request has none."""
    if handle is None:
        raise InvalidArgumentError("the request must hold a data handle, got none")
    return handle
