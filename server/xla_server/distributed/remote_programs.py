"""Rank 0's record of the programs that other ranks have loaded."""

import contextlib
import dataclasses
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator

import numpy as np

from xla_contract.errors import XlaError
from xla_server.backends.compile_options import DumpOptions
from xla_server.distributed.transport.messages import Load, Unload
from xla_server.execution.cancellation import Cancellation
from xla_server.execution.completion import Completion
from xla_server.sessions.error_context import copy_of
from xla_server.sessions.limits.blocking import releasing_slot
from xla_server.sessions.programs.compile_request import WireProgram


class _Loading(Completion):
    """The loading of a program on a rank; it is done with or without an error."""

    error: XlaError | None = None

    def end(self, error: XlaError | None) -> None:
        """Record the end; no effect if it was recorded before."""
        if not self.is_done:
            self.error = error
            self.finish()


class _Code:
    """One program, the ranks that have loaded it, and the number of its users."""

    def __init__(self, program: WireProgram, byte_size: int) -> None:
        self.program = dataclasses.replace(
            program,
            data=b"",
            load=None,
            options=dataclasses.replace(program.options, dump=DumpOptions(), is_profiled=False),
        )
        self.module = np.frombuffer(program.data, np.uint8)
        self.byte_size = byte_size
        self.users = 0
        self.ranks: dict[int, _Loading] = {}


class RemotePrograms:
    """Loads programs on other ranks. Thread-safe.

    Beyond `max_count` programs or `max_bytes` of them, those without users are unloaded, the least
    recently used first.
    """

    def __init__(
        self, send: Callable[[int, object], None], *, max_count: int, max_bytes: int
    ) -> None:
        self._send = send
        self._max_count = max_count
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._codes: OrderedDict[bytes, _Code] = OrderedDict()

    @contextlib.contextmanager
    def loaded(
        self,
        wanted: Collection[tuple[int, WireProgram, int]],
        cancellation: Cancellation,
    ) -> Iterator[None]:
        """Keep programs loaded on other ranks during the block.

        `wanted` has for each its rank, the program, and the size of its code in bytes. Raises the
        error of a rank that cannot compile its program, and that of `cancellation`.
        """
        used: list[_Code] = []
        try:
            for loading in [self._use(*each, used) for each in wanted]:
                if not loading.is_done:
                    with releasing_slot():
                        cancellation.wait_for(loading)
                if loading.error is not None:
                    raise copy_of(loading.error)
            yield
        finally:
            self._release(used)

    def answered(self, rank: int, key: bytes, error: XlaError | None) -> None:
        """Record a rank's answer: it has loaded a program, or the error says why not."""
        with self._lock:
            code = self._codes.get(key)
            loading = None if code is None else code.ranks.get(rank)
            if code is not None and error is not None:
                code.ranks.pop(rank, None)
        if loading is not None:
            loading.end(error)

    def fail(self, error: XlaError) -> None:
        """Fail all calls that wait for a program."""
        with self._lock:
            loadings = [each for code in self._codes.values() for each in code.ranks.values()]
        for loading in loadings:
            loading.end(error)

    def _use(self, rank: int, program: WireProgram, byte_size: int, used: list[_Code]) -> _Loading:
        with self._lock:
            code = self._codes.get(program.key)
            if code is None:
                code = self._codes[program.key] = _Code(program, byte_size)
            self._codes.move_to_end(program.key)
            code.users += 1
            used.append(code)
            loading = code.ranks.get(rank)
            if loading is None:
                # Before others can wait for it: a program too large to send is this caller's error.
                self._send(rank, Load(code.program, code.module))
                loading = code.ranks[rank] = _Loading()
        return loading

    def _release(self, used: list[_Code]) -> None:
        with self._lock:
            for code in used:
                code.users -= 1
            size = sum(code.byte_size + code.module.size for code in self._codes.values())
            for key, code in list(self._codes.items()):
                if len(self._codes) <= self._max_count and size <= self._max_bytes:
                    break
                if not code.users:
                    del self._codes[key]
                    size -= code.byte_size + code.module.size
                    for rank in code.ranks:
                        self._send(rank, Unload(key))
