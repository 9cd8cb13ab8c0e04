"""Compiled programs, shared by content."""

import concurrent.futures
import dataclasses
import threading
import time
from collections import OrderedDict
from collections.abc import Callable

from xla_contract.errors import ResourceExhaustedError, XlaError
from xla_server.backends.backend import Executable
from xla_server.evaluator.cancellation import Cancellation
from xla_server.sessions.handles import HandleFactory, HandleKind, HandleTable


@dataclasses.dataclass(slots=True, eq=False)
class _Shared:
    """One compiled program and how many users it has: handles and running calls."""

    key: bytes
    compiling: "concurrent.futures.Future[Executable]"
    users: int = 0


class ExecutionRoom:
    """What room is set aside for before an execution; in words where there is none."""

    __slots__ = ("_byte_size", "_executable")

    def __init__(self, executable: Executable) -> None:
        self._executable = executable
        self._byte_size: int | None = None

    @property
    def byte_size(self) -> int:
        """Bytes, the arguments aside: they are kept already."""
        if self._byte_size is None:
            use, result = self._executable.memory, self._executable.program_shape.result
            # What shares the memory of an argument or a constant counts as a value of its own.
            self._byte_size = use.added + max(0, result.byte_size - use.results)
        return self._byte_size

    def __str__(self) -> str:
        result = self._executable.program_shape.result
        return f"an execution ({self._executable.memory}) with the result {result}"


@dataclasses.dataclass(frozen=True, slots=True)
class Compiled:
    """An executable in use; give it to `release` or `keep` of the table it came from."""

    executable: Executable
    cache_hit: bool
    compile_time_ns: int
    shared: _Shared
    room: ExecutionRoom
    name: str = ""
    """The program's."""

    @property
    def compile_time_ms(self) -> int:
        """What compiling cost, counted up to whole milliseconds."""
        return -(-self.compile_time_ns // 1_000_000)


class SharedExecutables:
    """The executables of all sessions: programs of equal key are compiled once and share one.

    Executables without users stay in a small cache, the oldest going first: so many at most, of so
    many bytes of constants and code.
    """

    def __init__(self, *, max_executables: int, max_idle: int, max_idle_bytes: int) -> None:
        self._max_executables = max_executables
        self._max_idle = max_idle
        self._max_idle_bytes = max_idle_bytes
        self._idle_bytes = 0
        self._in_use: dict[bytes, _Shared] = {}
        self._idle: OrderedDict[bytes, _Shared] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._in_use)

    def has(self, key: bytes) -> bool:
        """Whether a program is compiled, or is being."""
        with self._lock:
            return key in self._in_use or key in self._idle

    def acquire(
        self, key: bytes, compile_program: Callable[[], Executable], cancellation: Cancellation
    ) -> Compiled:
        """The executable of `key`, compiled by `compile_program` if nobody has done so yet.

        Raises what `compile_program` raises, ResourceExhaustedError at the limit, and what
        `cancellation` raises while another call compiles the same program.
        """
        shared, is_ours = self._join(key)
        try:
            started = time.perf_counter_ns()
            if is_ours:
                executable = _fulfil(shared, compile_program)
                spent = time.perf_counter_ns() - started
            else:
                executable, spent = _await(shared, cancellation), 0
            return Compiled(executable, not is_ours, spent, shared, ExecutionRoom(executable))
        except BaseException:  # Whatever ends the use early, it has ended.
            self._leave(shared)
            raise

    def release(self, compiled: Compiled) -> None:
        """End a use."""
        self._leave(compiled.shared)

    def _join(self, key: bytes) -> tuple[_Shared, bool]:
        with self._lock:
            shared = self._in_use.get(key)
            is_ours = False
            if shared is None:
                if len(self._in_use) >= self._max_executables:
                    raise ResourceExhaustedError(
                        f"the server keeps at most {self._max_executables} executables, got one "
                        f"more with {len(self._in_use)} in use",
                        hint="Unregister executables that are no longer needed.",
                    )
                shared = self._idle.pop(key, None)
                if shared is not None:
                    self._idle_bytes -= _kept_bytes(shared)
                is_ours = shared is None
                shared = _Shared(key, concurrent.futures.Future()) if shared is None else shared
                self._in_use[key] = shared
            shared.users += 1
            return shared, is_ours

    def _leave(self, shared: _Shared) -> None:
        with self._lock:
            shared.users -= 1
            if shared.users:
                return
            del self._in_use[shared.key]
            if _succeeded(shared):
                self._idle[shared.key] = shared
                self._idle_bytes += _kept_bytes(shared)
            while len(self._idle) > self._max_idle or self._idle_bytes > self._max_idle_bytes:
                _, oldest = self._idle.popitem(last=False)
                self._idle_bytes -= _kept_bytes(oldest)


class ExecutableTable:
    """Handle -> executable, of one session.

    Each `keep` gives a handle of its own, so that one Unregister does not take away what another
    handle names.
    """

    def __init__(
        self, handles: HandleFactory, shared: SharedExecutables, *, max_handles: int
    ) -> None:
        self._shared = shared
        self._compiled: HandleTable[Compiled] = HandleTable(
            handles, HandleKind.EXECUTABLE, max_handles
        )

    def __len__(self) -> int:
        return len(self._compiled)

    def keep(self, compiled: Compiled) -> int:
        """A handle for the executable; the use that `acquire` began lasts until `remove`.

        Raises as `HandleTable.add_all`, which ends the use.
        """
        try:
            return self._compiled.add(compiled)
        except XlaError:
            self._shared.release(compiled)
            raise

    def get(self, handle: int) -> Compiled:
        """What `keep` took; InvalidArgumentError when freed, NotFoundError when never given."""
        return self._compiled.get(handle)

    def has_issued(self, handle: int) -> bool:
        """Whether this is the handle of an executable, live or freed."""
        return self._compiled.has_issued(handle)

    def handles_after(self, handle: int) -> list[int]:
        """The live handles given out after one, or all; as `HandleTable.handles_after`."""
        return self._compiled.handles_after(handle)

    def remove(self, handle: int) -> None:
        """Free a handle; raises as `get` does."""
        self._shared.release(self._compiled.remove(handle))

    def close(self) -> None:
        """Free all handles; nothing can be kept any more."""
        for compiled in self._compiled.close():
            self._shared.release(compiled)


def _succeeded(shared: _Shared) -> bool:
    return shared.compiling.done() and shared.compiling.exception() is None


def _kept_bytes(shared: _Shared) -> int:
    return shared.compiling.result(timeout=0).kept_bytes


def _fulfil(shared: _Shared, compile_program: Callable[[], Executable]) -> Executable:
    try:
        executable = compile_program()
    except BaseException as error:  # Those who wait would otherwise wait for ever.
        shared.compiling.set_exception(error)
        raise
    shared.compiling.set_result(executable)
    return executable


def _await(shared: _Shared, cancellation: Cancellation) -> Executable:
    woken = threading.Event()
    forget = cancellation.add_callback(woken.set)
    try:
        shared.compiling.add_done_callback(lambda _: woken.set())
        woken.wait()
        cancellation.check()
        return shared.compiling.result(timeout=0)
    finally:
        forget()
