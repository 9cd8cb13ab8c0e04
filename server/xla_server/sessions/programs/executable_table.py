"""Programs that handles name, shared by content; their code may be evicted and compiled again."""

import dataclasses
import threading
import time
from collections import OrderedDict
from collections.abc import Callable

from xla_contract.errors import ResourceExhaustedError, XlaError
from xla_contract.types.shape import ProgramShape
from xla_server.backends.platform import Device, Executable
from xla_server.buffers.assignment import MemoryUse
from xla_server.buffers.work import ProgramWork
from xla_server.execution.cancellation import Cancellation
from xla_server.ir.checkpoints import cancellable
from xla_server.passes.partitioning.signature import ShardedSignature
from xla_server.sessions.limits.server_limits import Limits
from xla_server.sessions.limits.shares.caller import LOCAL, Caller
from xla_server.sessions.limits.shares.caller_shares import (
    Level,
    SharedLimit,
    levels,
)
from xla_server.sessions.programs.code_cache import CachedCode, CodeCache, CompiledProgram
from xla_server.sessions.programs.compile_request import WireProgram
from xla_server.sessions.values.handles import HandleFactory, HandleKind, HandleTable

_OVERHEAD_BYTES = 1 << 12
"""Bytes that a program takes in addition to its module: its handle and metadata."""

_HINT = "Unregister executables that are no longer needed."


@dataclasses.dataclass(slots=True, eq=False)
class _Shared:
    """One program and how many users it has: handles and calls."""

    program: WireProgram
    """The source that its code is compiled from."""
    users: int = 0
    held: "dict[Level, int]" = dataclasses.field(default_factory=dict)
    """Number of uses by caller."""


class ExecutionFootprint:
    """Memory to reserve before an execution; its str() describes it in errors."""

    __slots__ = ("_memory", "_result", "byte_size")

    def __init__(self, memory: MemoryUse, program_shape: ProgramShape) -> None:
        self._memory = memory
        self._result = program_shape.result
        # A result that shares the memory of an argument or a constant counts as one of its own.
        self.byte_size = memory.added + max(0, self._result.byte_size - memory.results)
        """Bytes, the arguments aside: they are kept already."""

    def __str__(self) -> str:
        return f"an execution ({self._memory}) with the result {self._result}"


@dataclasses.dataclass(frozen=True, slots=True)
class LoadedExecutable:
    """A program in use, with metadata that outlives its code.

    Pass it to `release` or `keep` of the table that returned it.
    """

    program_shape: ProgramShape
    channel_ends: tuple[frozenset[int], frozenset[int]]
    memory: MemoryUse
    work: ProgramWork | None
    kept_bytes: int
    cache_hit: bool
    compile_time_ms: int
    """Time of the compilation, rounded up."""
    shared: _Shared
    footprint: ExecutionFootprint
    caller: Caller = LOCAL
    name: str = ""
    """The program's."""
    devices: tuple[Device, ...] = ()
    """Devices of the participants by flattened id, unless a call states others."""
    signature: ShardedSignature | None = None
    """Whole values of the program and their shardings; `program_shape` has a partition's."""

    @property
    def program(self) -> WireProgram:
        """The source that its code is compiled from."""
        return self.shared.program


class ExecutableCache:
    """The programs of all sessions: those of equal key are compiled once and share their code.

    Programs are kept as long as there is a handle of them, and their modules' bytes are limited.
    Their code is cached within limits of its own and compiled again after eviction. Code of
    programs without users stays cached, too; the code that lost its users first is evicted first.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._known: dict[bytes, _Shared] = {}
        self._idle: OrderedDict[bytes, CachedCode] = OrderedDict()
        self._cache = CodeCache(limits)
        self._bytes = SharedLimit(limits.max_program_bytes, limits.shares)
        """The bytes of programs. Guarded by `_lock`."""
        self.compilations = 0
        """Number of programs compiled since the start, those compiled again included."""
        self.compile_seconds = 0.0
        """Seconds that these took."""
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._known)

    @property
    def code_count(self) -> int:
        """The number of programs in use whose code is compiled or being compiled."""
        return len(self._cache)

    @property
    def idle_count(self) -> int:
        """Executables without users."""
        return len(self._idle)

    def has(self, key: bytes) -> bool:
        """Return whether the code of a program is compiled or being compiled."""
        with self._lock:
            return key in self._idle or key in self._cache

    def acquire(
        self,
        program: WireProgram,
        compile_program: Callable[[], CompiledProgram],
        cancellation: Cancellation,
        caller: Caller = LOCAL,
    ) -> LoadedExecutable:
        """A program, compiled by `compile_program` if it has no code.

        Raises what `compile_program` raises, ResourceExhaustedError at the limits, and what
        `cancellation` raises while this call or another one compiles the program.
        """
        shared = self._join(program, caller)
        try:
            started = time.perf_counter_ns()
            code, is_ours = self._begin(shared, compile_program, cancellation, caller)
            spent_ns = time.perf_counter_ns() - started if is_ours else 0
            executable, signature = _compiled(code)
            self.end_use(code)
            shape, memory = executable.program_shape, executable.memory
            return LoadedExecutable(
                shape,
                executable.channel_ends,
                memory,
                executable.work,
                executable.kept_bytes,
                not is_ours,
                -(-spent_ns // 1_000_000),
                shared,
                ExecutionFootprint(memory, shape),
                caller,
                executable.name,
                signature=signature,
            )
        except BaseException:  # Any exception ends the use.
            self._leave(shared, caller)
            raise

    def release(self, compiled: LoadedExecutable) -> None:
        """End a use."""
        self._leave(compiled.shared, compiled.caller)

    def begin_use(
        self,
        compiled: LoadedExecutable,
        compile_program: Callable[[], CompiledProgram],
        cancellation: Cancellation,
    ) -> tuple[CachedCode, Executable]:
        """The code of a program, which is retained until `end_use`; raises as `acquire`."""
        code, _ = self._begin(compiled.shared, compile_program, cancellation, compiled.caller)
        return code, _compiled(code).executable

    def end_use(self, code: CachedCode) -> None:
        """End what `begin_use` began."""
        with self._lock:
            code.uses -= 1

    def _begin(
        self,
        shared: _Shared,
        compile_program: Callable[[], CompiledProgram],
        cancellation: Cancellation,
        caller: Caller,
    ) -> tuple[CachedCode, bool]:
        """The code, in use, and whether this call compiled it.

        A cancelled call continues to compile while others wait for the code.
        """
        while True:
            with self._lock:
                code = self._cache.get(shared.program.key)
                is_ours = code is None
                if code is None:
                    code = CachedCode(shared.program.key, caller)
                    # A run may use a program whose last handle was freed: its code is not counted.
                    if shared.users:
                        self._cache.add(code)
                code.uses += 1
            try:
                if is_ours:
                    self._compile(code, compile_program, cancellation)
                if code.compiled is None:
                    cancellation.wait_for(code.compiling)
                if code.error is not None:
                    raise code.error
                if code.compiled is not None:
                    return code, is_ours
            except BaseException:
                self.end_use(code)
                raise
            # The compiling call was cancelled before this one was counted: start over.
            self.end_use(code)

    def _compile(
        self,
        code: CachedCode,
        compile_program: Callable[[], CompiledProgram],
        cancellation: Cancellation,
    ) -> None:
        def check() -> None:
            if code.uses == 1:
                cancellation.check()

        started = time.monotonic()
        try:
            with cancellable(check):
                compiled = compile_program()
        except BaseException as error:  # Otherwise waiting calls would wait forever.
            with self._lock:
                self._cache.remove(code)
            if not cancellation.is_cancelled:
                code.error = error
            code.compiling.finish()
            raise
        with self._lock:
            self.compilations += 1
            self.compile_seconds += time.monotonic() - started
            code.compiled = compiled
            self._cache.compiled(code)
        code.compiling.finish()

    def _join(self, program: WireProgram, caller: Caller) -> _Shared:
        with self._lock:
            shared = self._known.get(program.key)
            self._require_capacity(shared, program.byte_size + _OVERHEAD_BYTES, caller)
            if shared is None:
                shared = self._new(program, caller)
            shared.users += 1
            self._count(shared, caller, 1)
            return shared

    def _new(self, program: WireProgram, caller: Caller) -> _Shared:
        """Add a program, with its code if that is still cached. Under the lock."""
        shared = _Shared(program.kept())
        code = self._idle.get(program.key)
        if code is not None:
            code.owner = caller
            self._cache.add(code)
            del self._idle[program.key]
        self._known[program.key] = shared
        self._bytes.add(None, program.byte_size + _OVERHEAD_BYTES)
        return shared

    def _require_capacity(self, shared: _Shared | None, size: int, caller: Caller) -> None:
        """Raise ResourceExhaustedError if a caller may not have a program. Under the lock."""
        used, limit = self._bytes.used, self._bytes.limit
        for level in levels(caller):
            is_another = shared is None or level not in shared.held
            if is_another and not self._bytes.admits(level, size):
                raise self._bytes.refusal(level, size, "bytes of programs", _HINT)
        if shared is None and used + size > limit:
            raise ResourceExhaustedError(
                f"the server keeps programs of at most {limit} bytes, got one more of {size} "
                f"with {used} in use",
                hint=_HINT,
            )

    def _count(self, shared: _Shared, caller: Caller, amount: int) -> None:
        """Count a use begun or ended; a program counts from a level's first use to its last."""
        size = shared.program.byte_size + _OVERHEAD_BYTES
        for level in levels(caller):
            before = shared.held.get(level, 0)
            if before + amount:
                shared.held[level] = before + amount
            else:
                del shared.held[level]
            if not before or not before + amount:
                self._bytes.add_to(level, amount * size)

    def _leave(self, shared: _Shared, caller: Caller) -> None:
        with self._lock:
            shared.users -= 1
            self._count(shared, caller, -1)
            if shared.users:
                return
            key = shared.program.key
            code = self._cache.get(key)
            del self._known[key]
            self._bytes.add(None, -(shared.program.byte_size + _OVERHEAD_BYTES))
            if code is None:
                return
            self._cache.remove(code)
            if code.compiled is not None:
                self._idle[key] = code
            limits = self._limits
            idle_bytes = sum(each.byte_size for each in self._idle.values())
            while (
                len(self._idle) > limits.max_idle_executables
                or idle_bytes > limits.max_idle_executable_bytes
            ):
                _, oldest = self._idle.popitem(last=False)
                idle_bytes -= oldest.byte_size


class ExecutableTable:
    """Handle -> executable, of one session.

    Each `keep` gives a new handle, so that one Unregister does not free what another handle names.
    """

    def __init__(
        self, handles: HandleFactory, shared: ExecutableCache, *, max_handles: int
    ) -> None:
        self._shared = shared
        self.handles: HandleTable[LoadedExecutable] = HandleTable(
            handles, HandleKind.EXECUTABLE, max_handles
        )

    def __len__(self) -> int:
        return len(self.handles)

    def keep(self, compiled: LoadedExecutable) -> int:
        """A handle for the executable; the use that `acquire` began lasts until `remove`.

        Raises as `HandleTable.add_all`, which ends the use.
        """
        try:
            return self.handles.add(compiled)
        except XlaError:
            self._shared.release(compiled)
            raise

    def remove(self, handle: int) -> None:
        """Free a handle; raises as `HandleTable.get`."""
        self._shared.release(self.handles.remove(handle))

    def close(self) -> None:
        """Free all handles and refuse new ones."""
        for compiled in self.handles.close():
            self._shared.release(compiled)


def _compiled(code: CachedCode) -> CompiledProgram:
    assert code.compiled is not None, "the code is there once nobody waits for it"
    return code.compiled
