"""Kernels: from source text to the address of machine code.

A kernel is a function `kernel(buffers, start, stop)` of three int64: the address of a table of
buffer addresses, and the range of its outermost loop that this call is to do. It returns nothing
and raises nothing. numba compiles it without the wrappers that Python would need.
"""

import dataclasses
import functools
import hashlib
import re
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from numba import types

from xla_server.codegen.compiler.direct_compiler import function_module, kernel_module
from xla_server.codegen.compiler.direct_values import UnsupportedError
from xla_server.codegen.compiler.kernel_cache import KernelCache
from xla_server.codegen.compiler.kernel_compiler import (
    Effort,
    Loader,
    compile_object,
    object_of_module,
)
from xla_server.codegen.compiler.shared_functions import symbols_in
from xla_server.codegen.instructions.instruction import Instruction
from xla_server.codegen.instructions.intrinsics import glue, plain
from xla_server.codegen.instructions.memory import COMPUTED, MEMORY
from xla_server.codegen.namespace import NAMESPACE, SHARED

ARGUMENTS = (types.int64, types.int64, types.int64)


@dataclasses.dataclass(frozen=True, slots=True)
class Kernel:
    """Compiled code of `byte_size`. `address` is valid as long as this object lives."""

    address: int
    library: Any
    byte_size: int


class KernelError(Exception):
    """The source text of a kernel cannot be compiled; the cause says why."""

    def __init__(self, source: str) -> None:
        super().__init__(source)
        self.source = source


class Kernels:
    """Kernels by their source text, each compiled once, or taken from a cache on disk.

    Any thread may ask.
    """

    def __init__(self, cache: KernelCache | None = None) -> None:
        self._cache = cache
        self._loader = Loader()
        self._kernels: dict[str, Kernel] = {}
        self._native: dict[str, int] = {}
        self._shared: set[str] = set()
        self._lock = threading.Lock()

    def get(self, source: str) -> Kernel:
        """The kernel of a source text, which defines a function `kernel`.

        Raises KernelError where it cannot be compiled, whatever the reason.
        """
        found = self._kernels.get(source)
        if found is None:
            with self._lock:
                found = self._kernels.get(source)
                if found is None:
                    found = self._kernels[source] = self._made(source)
        return found

    def get_all(self, sources: Iterable[str]) -> dict[str, Kernel]:
        """The kernels of many source texts."""
        return {source: self.get(source) for source in dict.fromkeys(sources)}

    def native(self, function: Callable[..., None], argument_count: int) -> int:
        """The address of a function of the runtime that takes int64 and returns nothing.

        It is valid as long as this object lives.
        """
        symbol = f"{function.__module__}.{function.__qualname__}"
        with self._lock:
            found = self._native.get(symbol)
            if found is None:
                code = self._kept(symbol, lambda: native_object(function, argument_count, symbol))
                found = self._native[symbol] = self._loader.load(code, symbol)
        return found

    def load_shared(self, symbol: str) -> None:
        """Have a function of SHARED loaded before a kernel calls it; raises what compiling it does.

        A kernel that is asked for meanwhile waits for this function at most.
        """
        with self._lock:
            self._load_named(symbol)

    def _made(self, source: str) -> Kernel:
        symbol = symbol_of(source)
        try:
            code = self._kept(symbol, lambda: kernel_object(source))
            self._load_shared(code)
            return Kernel(self._loader.load(code, symbol), self._loader, len(code))
        except MemoryError:
            raise
        except Exception as error:
            raise KernelError(source) from error

    def _load_shared(self, code: bytes) -> None:
        """Load the functions that object code calls and that are not its own."""
        for symbol in symbols_in(code):
            self._load_named(symbol)

    def _load_named(self, symbol: str) -> None:
        if symbol in self._shared:
            return
        # Its own code names it too.
        self._shared.add(symbol)
        try:
            found = self._kept(symbol, SHARED[symbol].object_code)
            self._load_shared(found)
            self._loader.load(found, symbol)
        except BaseException:  # Code that calls what is not loaded would end the process.
            self._shared.discard(symbol)
            raise

    def _kept(self, symbol: str, compiled: Callable[[], bytes]) -> bytes:
        """Object code from the disk, or compiled and left there."""
        code = self._cache.get(symbol) if self._cache else None
        if code is None:
            code = compiled()
            if self._cache:
                self._cache.put(symbol, code)
        return code


def symbol_of(source: str) -> str:
    """What the object code of a kernel calls it."""
    return f"kernel_{hashlib.sha256(source.encode()).hexdigest()}"


def compile_kernel(source: str) -> Kernel:
    """The kernel of a source text, compiled by itself."""
    return Kernels().get(source)


def kernel_object(source: str) -> bytes:
    """The object code of the function `kernel` that a source text defines."""
    room = dict(NAMESPACE)
    # Constants: the kernel itself is read from the text, seldom from what Python makes of it.
    exec(compile(source.partition("def kernel(")[0], "<kernel>", "exec"), room)
    symbol = symbol_of(source)
    try:
        module = kernel_module(source, room, symbol)
    except UnsupportedError:
        exec(compile(source, "<kernel>", "exec"), room)
        return compile_object(room["kernel"], ARGUMENTS, symbol)
    return object_of_module(module, _effort(source, room))


def _effort(source: str, names: Mapping[str, Any]) -> Effort:
    """What a kernel is worth.

    One that does nothing for elements itself, but calls functions that do for long, is glue.
    """
    called = [names[word] for word in set(re.findall(r"\w+", source)) if word in names]
    if glue in called:
        return Effort.GLUE
    if plain in called:
        return Effort.PLAIN
    stores = any(instruction in called for instruction in _STORES)
    if not stores and any(isinstance(f, Instruction) and f.is_long for f in called):
        return Effort.GLUE
    return Effort.OPTIMISED


_STORES = [MEMORY[f"{store}_{kind}"] for store in ("store", "poke") for kind in COMPUTED]


@functools.cache
def native_object(function: Callable[..., None], argument_count: int, symbol: str) -> bytes:
    """The object code of a function of int64 that returns nothing; once for a process."""
    try:
        return object_of_module(function_module(function, symbol))
    except UnsupportedError:
        return compile_object(function, [types.int64] * argument_count, symbol)
