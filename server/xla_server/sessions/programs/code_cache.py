"""The compiled code of programs that handles name: a cache that evicts the least recently used.

A handle names a program, not its code: evicted code is compiled again when its program is called.
The code of a program counts for the caller whose call had it compiled. A caller who wants more than
its share loses code of its own, never that of others. Code that an execution uses stays, and so
does code that has a state.
"""

import dataclasses
from collections import OrderedDict
from typing import NamedTuple

from xla_contract.errors import ResourceExhaustedError
from xla_server.backends.platform import Executable
from xla_server.execution.completion import Completion
from xla_server.passes.partitioning.signature import ShardedSignature
from xla_server.sessions.limits.server_limits import Limits
from xla_server.sessions.limits.shares.caller import Caller
from xla_server.sessions.limits.shares.caller_shares import Level, SharedLimit, levels

_HINT = "Unregister executables of programs that have a state of random numbers."


class CompiledProgram(NamedTuple):
    """The code of one participant of a program, and the signature of all together."""

    executable: Executable
    signature: ShardedSignature


@dataclasses.dataclass(slots=True, eq=False)
class CachedCode:
    """The code of one program: compiled, or being compiled."""

    key: bytes
    owner: Caller
    compiling: Completion = dataclasses.field(default_factory=Completion)
    """It is done once there is the code, or an error, or the compiling call was cancelled."""
    compiled: CompiledProgram | None = None
    """The result of compiling; None before."""
    error: BaseException | None = None
    """The error of compiling."""
    uses: int = 0
    """Number of calls that compile it, wait for it or run it."""

    @property
    def byte_size(self) -> int:
        """Bytes of constants and code; 0 while it is compiled."""
        return 0 if self.compiled is None else self.compiled.executable.kept_bytes

    @property
    def is_evictable(self) -> bool:
        """True if the code may be evicted now, and compiled again to the same effect."""
        done = self.compiled
        return not self.uses and done is not None and not done.executable.has_state


class CodeCache:
    """Codes in the order of their last use. Not thread-safe: its owner has a lock.

    There are at most `max_executables` and `max_executable_bytes` of `limits`; code that executions
    use may take more bytes.
    """

    def __init__(self, limits: Limits) -> None:
        self._codes: OrderedDict[bytes, CachedCode] = OrderedDict()
        self._count = SharedLimit(limits.max_executables, limits.shares)
        self._bytes = SharedLimit(limits.max_executable_bytes, limits.shares)

    def __len__(self) -> int:
        return len(self._codes)

    def __contains__(self, key: bytes) -> bool:
        return key in self._codes

    def get(self, key: bytes) -> CachedCode | None:
        """Return the code of a program, from now on the last used; None if there is none."""
        code = self._codes.get(key)
        if code is not None:
            self._codes.move_to_end(key)
        return code

    def add(self, code: CachedCode) -> None:
        """Add code that is, or will be, compiled; evict others if the cache is full.

        Code in use is never evicted and may exceed the limit: it is bounded by the executions and
        compilations in progress.

        Raises:
            ResourceExhaustedError: Code with a state, which is never evicted, fills the cache.
        """
        count, limit = self._count, self._count.limit
        for level in levels(code.owner):
            while not count.admits(level, 1):
                if self._drop_oldest(level):
                    continue
                if count.admits(level, 1 - self._in_use(level), count.used - self._in_use(None)):
                    break
                raise count.refusal(level, 1, "programs whose code must stay", _HINT)
        while len(self._codes) >= limit and self._drop_oldest():
            pass
        if len(self._codes) - self._in_use(None) >= limit:
            raise ResourceExhaustedError(
                f"the server keeps the code of at most {limit} programs, got one more with "
                f"{len(self._codes)} whose code must stay",
                hint=_HINT,
            )
        self._codes[code.key] = code
        count.add(code.owner, 1)
        self._count_bytes(code)

    def compiled(self, code: CachedCode) -> None:
        """Count the bytes of code just compiled, and evict other code beyond the limits."""
        if self._codes.get(code.key) is code:
            self._count_bytes(code)

    def remove(self, code: CachedCode) -> None:
        """Remove code from the cache; no effect if it is absent."""
        if self._codes.get(code.key) is code:
            del self._codes[code.key]
            self._count.add(code.owner, -1)
            self._bytes.add(code.owner, -code.byte_size)

    def _count_bytes(self, code: CachedCode) -> None:
        self._bytes.add(code.owner, code.byte_size)
        for level in levels(code.owner):
            while not self._bytes.admits(level, 0) and self._drop_oldest(level, code):
                pass
        while self._bytes.used > self._bytes.limit and self._drop_oldest(None, code):
            pass

    def _in_use(self, level: Level | None) -> int:
        """The number of codes in use, of one level or all."""
        return sum(
            code.uses > 0 and (level is None or level in levels(code.owner))
            for code in self._codes.values()
        )

    def _drop_oldest(self, level: Level | None = None, spared: CachedCode | None = None) -> bool:
        """Evict the least recently used code, of one level or all; False if none may be evicted."""
        for code in self._codes.values():
            is_of_level = level is None or level in levels(code.owner)
            if is_of_level and code is not spared and code.is_evictable:
                self.remove(code)
                return True
        return False
