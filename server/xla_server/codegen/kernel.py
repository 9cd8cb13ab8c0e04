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
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from numba import types

from xla_server.codegen.compiler.direct_compiler import function_module, kernel_module
from xla_server.codegen.compiler.direct_values import UnsupportedError
from xla_server.codegen.compiler.kernel_cache import KernelCache
from xla_server.codegen.compiler.kernel_compiler import (
    Effort,
    compile_object,
    object_of_module,
)
from xla_server.codegen.compiler.loader import Loader
from xla_server.codegen.compiler.shared_functions import symbols_in
from xla_server.codegen.instructions.instruction import Instruction
from xla_server.codegen.instructions.intrinsics import glue, plain
from xla_server.codegen.instructions.memory import COMPUTED, MEMORY
from xla_server.codegen.namespace import vocabulary
from xla_server.target.machine import Machine

ARGUMENTS = (types.int64, types.int64, types.int64)


@dataclasses.dataclass(frozen=True, slots=True, weakref_slot=True)
class Kernel:
    """Compiled code of `byte_size`. `address` is valid as long as this object lives."""

    address: int
    library: Loader
    byte_size: int


class KernelError(Exception):
    """The source text of a kernel cannot be compiled; the cause says why."""

    def __init__(self, source: str) -> None:
        super().__init__(source)
        self.source = source


LOADED_TOGETHER = 64
"""Kernels in one loader, whose memory goes back when all of them have gone."""

LOADED_BYTES = 1 << 20
"""Bytes of object code after which a loader takes no further kernels."""


class Kernels:
    """Kernels by their source text, each compiled once, or taken from a cache on disk.

    They are compiled for `machine`, by default the host, and kept as long as somebody has them. Any
    thread may ask.
    """

    def __init__(self, cache: KernelCache | None = None, machine: Machine | None = None) -> None:
        self.machine = machine or Machine.host()
        self._cache = cache
        # What programs share: for as long as this object, or a kernel of it, lives.
        self._base = Loader(self.machine)
        self._loader: Loader | None = None
        self._kernels: weakref.WeakValueDictionary[str, Kernel] = weakref.WeakValueDictionary()
        self._unloaded: dict[str, bytes] = {}
        self._native: dict[str, int] = {}
        self._shared: set[str] = set()
        self._lock = threading.Lock()

    def get(self, source: str) -> Kernel:
        """The kernel of a source text, which defines a function `kernel`.

        Raises KernelError where it cannot be compiled, whatever the reason.
        """
        return self.get_all([source])[source]

    def get_all(self, sources: Iterable[str]) -> dict[str, Kernel]:
        """The kernels of many source texts, loaded together; raises as `get` does."""
        found: dict[str, Kernel] = {}
        codes: dict[str, bytes] = {}
        try:
            for source in dict.fromkeys(sources):
                # Others have their turn between two kernels.
                with self._lock:
                    kernel = self._kernels.get(source)
                    if kernel is None:
                        codes[source] = self._code(source)
                    else:
                        found[source] = kernel
            if codes:
                with self._lock:
                    found.update(self._loaded(codes))
        finally:
            for source in codes:
                self._unloaded.pop(source, None)
        return found

    def native(self, function: Callable[..., None], argument_count: int) -> int:
        """The address of a function of the runtime that takes int64 and returns nothing.

        It is valid as long as this object lives.
        """
        symbol = f"{function.__module__}.{function.__qualname__}"
        with self._lock:
            found = self._native.get(symbol)
            if found is None:
                code = self._kept(
                    symbol, lambda: native_object(function, argument_count, symbol, self.machine)
                )
                found = self._native[symbol] = self._base.load(code, symbol)
        return found

    def load_shared(self, symbol: str) -> None:
        """Have a shared function loaded before a kernel calls it; raises what compiling it does.

        A kernel that is asked for meanwhile waits for this function at most.
        """
        with self._lock:
            self._load_named(symbol)

    def prepare(self) -> None:
        """Have ready what the first kernel would wait for besides being compiled."""
        with self._lock:
            self._loader_with_room()
        if self._cache:
            self._cache.tidy()

    def _code(self, source: str) -> bytes:
        """The object code of a kernel; what it calls is loaded."""
        code = self._unloaded.get(source)
        if code is None:
            try:
                code = self._kept(symbol_of(source), lambda: kernel_object(source, self.machine))
                self._load_shared(code)
            except MemoryError:
                raise
            except Exception as error:
                raise KernelError(source) from error
            self._unloaded[source] = code
        return code

    def _loaded(self, codes: Mapping[str, bytes]) -> dict[str, Kernel]:
        """The kernels of object code by their sources, but those that others have loaded."""
        known = {source: self._kernels.get(source) for source in codes}
        found = {source: kernel for source, kernel in known.items() if kernel is not None}
        added = {symbol_of(source): source for source in codes if source not in found}
        code_of = {symbol: codes[source] for symbol, source in added.items()}
        called = {symbol for code in code_of.values() for symbol in symbols_in(code)}
        loader = self._loader_with_room()
        for symbol, address in loader.load_all(code_of, called).items():
            kernel = Kernel(address, loader, len(code_of[symbol]))
            found[added[symbol]] = self._kernels[added[symbol]] = kernel
        return found

    def _loader_with_room(self) -> Loader:
        loader = self._loader
        if (
            loader is None
            or loader.symbol_count >= LOADED_TOGETHER
            or loader.byte_size >= LOADED_BYTES
        ):
            loader = self._loader = Loader(self.machine, self._base)
        return loader

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
            function = vocabulary(self.machine).shared[symbol]
            found = self._kept(symbol, lambda: function.object_code(self.machine))
            self._load_shared(found)
            self._base.load(found, symbol)
        except BaseException:  # Code that calls what is not loaded would end the process.
            self._shared.discard(symbol)
            raise

    def _kept(self, symbol: str, compiled: Callable[[], bytes]) -> bytes:
        """Object code from the disk, or compiled and left there."""
        if self._cache is None:
            return compiled()
        key = cache_key(symbol, self.machine)
        code = self._cache.get(key)
        if code is None:
            code = compiled()
            self._cache.put(key, code)
        return code


def symbol_of(source: str) -> str:
    """What the object code of a kernel calls it."""
    return f"kernel_{hashlib.sha256(source.encode()).hexdigest()}"


def cache_key(symbol: str, machine: Machine) -> str:
    """Return the name of a symbol's object code on disk.

    Object code depends on nothing else of a machine: what text depends on is in the symbol.
    """
    return f"{symbol} {machine.name} {machine.features}"


def compile_kernel(source: str) -> Kernel:
    """The kernel of a source text, compiled by itself."""
    return Kernels().get(source)


def kernel_object(source: str, machine: Machine) -> bytes:
    """The object code of the function `kernel` that a source text defines."""
    room = dict(vocabulary(machine).names)
    # Constants: the kernel itself is read from the text, seldom from what Python makes of it.
    exec(compile(source.partition("def kernel(")[0], "<kernel>", "exec"), room)
    symbol = symbol_of(source)
    try:
        module = kernel_module(source, room, symbol, machine)
    except UnsupportedError:
        exec(compile(source, "<kernel>", "exec"), room)
        return compile_object(room["kernel"], ARGUMENTS, symbol, machine)
    return object_of_module(module, machine, _effort(source, room))


def _effort(source: str, names: Mapping[str, Any]) -> Effort:
    """What a kernel is worth.

    One that does nothing for elements itself, but calls functions that do for long, is glue.
    """
    called = {names[word] for word in set(re.findall(r"\w+", source)) if word in names}
    if glue in called:
        return Effort.GLUE
    if plain in called:
        return Effort.PLAIN
    if called.isdisjoint(_STORES) and any(isinstance(f, Instruction) and f.is_long for f in called):
        return Effort.GLUE
    return Effort.OPTIMISED


_STORES = [MEMORY[f"{store}_{kind}"] for store in ("store", "poke") for kind in COMPUTED]


@functools.cache
def native_object(
    function: Callable[..., None], argument_count: int, symbol: str, machine: Machine
) -> bytes:
    """The object code of a function of int64 that returns nothing; once for a process."""
    try:
        return object_of_module(function_module(function, symbol, machine), machine)
    except UnsupportedError:
        return compile_object(function, [types.int64] * argument_count, symbol, machine)
