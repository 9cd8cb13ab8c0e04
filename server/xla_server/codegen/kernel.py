"""Kernels: from the loop IR to the address of machine code.

A kernel is a function `kernel(buffers, start, stop)` of three int64: the address of a table of
buffer addresses, and the range of its outermost loop that this call is to do. It returns nothing
and raises nothing.
"""

import collections
import contextlib
import dataclasses
import functools
import hashlib
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from xla_contract.errors import ResourceExhaustedError
from xla_server.buffers.code import KernelCode, KernelError
from xla_server.codegen.compiler.kernel_cache import KernelCache
from xla_server.codegen.compiler.kernel_compiler import object_of_module
from xla_server.codegen.compiler.loader import Loader, UnresolvedSymbolsError
from xla_server.codegen.compiler.python_compiler import function_module
from xla_server.codegen.compiler.symbols import undefined_symbols
from xla_server.codegen.emit import llvm
from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.codegen.namespace import vocabulary
from xla_server.execution.start_thread import start_thread
from xla_server.ir.checkpoints import checkpoint
from xla_server.target.machine import Machine


@dataclasses.dataclass(frozen=True, slots=True, weakref_slot=True)
class LoadedKernel:
    """Compiled code of `byte_size`. `address` is valid as long as this object lives."""

    address: int
    library: Loader
    byte_size: int


LOADED_TOGETHER = 64
"""Kernels in one loader, whose memory is freed with the last of them."""

LOADED_BYTES = 1 << 20
"""Bytes of object code after which a loader takes no further kernels."""

MANY_LOADS = 8192
"""Loads of all loaders from which each has a loader of its own, which takes 2 ms more: then no code
stays for the sake of other kernels. A load takes two areas of memory. Linux allows a process 65,530
of them, and LLVM ends the process that wants one more."""

MAX_LOADS = 24_576
"""Loads of all loaders beyond which kernels are refused: three quarters of the areas."""


class Kernels:
    """Compiled kernels by their keys, each compiled once, or taken from a cache on disk.

    They are compiled for `machine`, by default the host, and kept as long as they are referenced.
    Any thread may ask.
    """

    def __init__(self, cache: KernelCache | None = None, machine: Machine | None = None) -> None:
        self.machine = machine or Machine.host()
        self._cache = cache
        # Code that programs share lives as long as this object, or a kernel of it.
        self._base = Loader(self.machine)
        self._loader: Loader | None = None
        # A finalizer takes an element away, in any thread at any time, so that no lock guards it.
        self._loads: collections.deque[None] = collections.deque()
        self._kernels: weakref.WeakValueDictionary[str, LoadedKernel] = (
            weakref.WeakValueDictionary()
        )
        self._unloaded: dict[str, _ObjectCode] = {}
        # Programs that are compiled at the same time share the cores.
        self._helpers = threading.BoundedSemaphore(max(1, self.machine.cores - 1))
        self._native: dict[str, int] = {}
        self._lock = threading.Lock()

    def get(self, kernel: KernelCode) -> LoadedKernel:
        """Return a kernel, compiled and loaded.

        Raises KernelError where it cannot be compiled, whatever the reason, and
        ResourceExhaustedError where too much code is loaded.
        """
        return self.get_all([kernel])[kernel.key]

    def get_all(self, kernels: Iterable[KernelCode]) -> dict[str, LoadedKernel]:
        """Return many kernels by their keys, loaded together; raises as `get` does."""
        wanted = {kernel.key: kernel for kernel in kernels}
        with self._lock:
            known = {key: self._kernels.get(key) for key in wanted}
            found = {key: kernel for key, kernel in known.items() if kernel is not None}
            absent = {
                key: self._unloaded.setdefault(
                    key, _ObjectCode(functools.partial(self._object, each))
                )
                for key, each in wanted.items()
                if key not in found
            }
        codes: dict[str, bytes] = {}
        try:
            with self._helped([*absent.values()]):
                for key, code in absent.items():
                    checkpoint()
                    codes[key] = self._code(wanted[key], code)
            if codes:
                with self._lock:
                    found.update(self._loaded(codes))
        except UnresolvedSymbolsError as error:
            refused = {symbol_of(key): kernel for key, kernel in wanted.items()}
            raise KernelError(refused[error.symbol]) from error
        finally:
            for key in absent:
                self._unloaded.pop(key, None)
        return found

    def native(self, function: Callable[..., None]) -> int:
        """The address of a function of the runtime that takes int64 and returns nothing.

        It is valid as long as this object lives.
        """
        symbol = f"{function.__module__}.{function.__qualname__}"
        with self._lock:
            found = self._native.get(symbol)
            if found is None:
                code = self._kept(symbol, lambda: native_object(function, symbol, self.machine))
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
            self._open_loader()
        if self._cache:
            self._cache.tidy()

    @contextlib.contextmanager
    def _helped(self, codes: "list[_ObjectCode]") -> Iterator[None]:
        """Have threads on idle cores compile kernels, from the last on, during the block."""
        backwards = reversed(codes)

        def work() -> None:
            try:
                for code in backwards:
                    # The thread that wants the kernel meets the error again.
                    with contextlib.suppress(Exception):
                        code.get()
            finally:
                self._helpers.release()

        helpers: list[threading.Thread] = []
        try:
            for _ in range(min(self.machine.cores, len(codes)) - 1):
                if not self._helpers.acquire(blocking=False):
                    break
                try:
                    helpers.append(start_thread(work, "compile"))
                except ResourceExhaustedError:
                    # Without helpers compilation takes longer.
                    self._helpers.release()
                    break
            yield
        finally:
            codes.clear()
            for helper in helpers:
                helper.join()

    def _object(self, kernel: KernelCode) -> bytes:
        return self._kept(symbol_of(kernel.key), lambda: kernel_object(kernel, self.machine))

    def _code(self, kernel: KernelCode, made: "_ObjectCode") -> bytes:
        """The object code of a kernel; its callees are loaded."""
        try:
            code = made.get()
            with self._lock:
                self._load_shared(code)
        except MemoryError:
            raise
        except Exception as error:
            raise KernelError(kernel) from error
        return code

    def _loaded(self, codes: Mapping[str, bytes]) -> dict[str, LoadedKernel]:
        """The kernels of object code by their keys, but those that others have loaded."""
        known = {key: self._kernels.get(key) for key in codes}
        found = {key: kernel for key, kernel in known.items() if kernel is not None}
        added = {symbol_of(key): key for key in codes if key not in found}
        code_of = {symbol: codes[key] for symbol, key in added.items()}
        loader = self._open_loader()
        for symbol, address in loader.load_all(code_of).items():
            kernel = LoadedKernel(address, loader, len(code_of[symbol]))
            found[added[symbol]] = self._kernels[added[symbol]] = kernel
        return found

    def _open_loader(self) -> Loader:
        """Return the loader of the next kernels; raises ResourceExhaustedError at MAX_LOADS."""
        loader = self._loader
        loads = len(self._loads)
        if loads >= MAX_LOADS:
            raise ResourceExhaustedError(
                f"the server may have loaded code {MAX_LOADS} times, got one time more",
                hint="Unregister executables that are no longer needed.",
            )
        if (
            loader is None
            or loader.symbol_count >= LOADED_TOGETHER
            or loader.byte_size >= LOADED_BYTES
            or (loads >= MANY_LOADS and loader.symbol_count)
        ):
            loader = self._loader = Loader(self.machine, self._base, self._loads)
        return loader

    def _load_shared(self, code: bytes) -> None:
        """Load the functions that object code calls and that are not its own."""
        for symbol in sorted(undefined_symbols(code) & vocabulary(self.machine).shared.keys()):
            self._load_named(symbol)

    def _load_named(self, symbol: str) -> None:
        if self._base.address(symbol) is None:
            function = vocabulary(self.machine).shared[symbol]
            found = self._kept(symbol, lambda: function.object_code(self.machine))
            self._load_shared(found)
            self._base.load(found, symbol)

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


class _ObjectCode:
    """The object code of a kernel, made by the first thread that asks, while others wait."""

    def __init__(self, make: Callable[[], bytes]) -> None:
        self._make = make
        self._code: bytes | None = None
        self._lock = threading.Lock()

    def get(self) -> bytes:
        """Return the code; raises what making it does."""
        with self._lock:
            if self._code is None:
                self._code = self._make()
            return self._code


def symbol_of(key: str) -> str:
    """Return the symbol of a kernel in its object code."""
    return f"kernel_{hashlib.sha256(key.encode()).hexdigest()}"


def cache_key(symbol: str, machine: Machine) -> str:
    """Return the name of a symbol's object code on disk.

    Object code depends on nothing else of a machine: what text depends on is in the symbol.
    """
    return f"{symbol} {machine.name} {machine.features}"


def kernel_object(kernel: KernelCode, machine: Machine) -> bytes:
    """Return the object code of a kernel for a machine."""
    module = module_of(kernel, symbol_of(kernel.key), machine)
    return object_of_module(module, machine, _of_ir(kernel).effort)


def module_of(kernel: KernelCode, symbol: str, machine: Machine) -> Any:
    """Return the LLVM module of a kernel for a machine, as `symbol`."""
    return llvm.kernel_module(_of_ir(kernel), vocabulary(machine).names, symbol, machine)


def _of_ir(kernel: KernelCode) -> Kernel:
    if not isinstance(kernel, Kernel):
        name = type(kernel).__name__
        raise TypeError(f"a compiled kernel must be of the loop IR (Kernel), got {name}")
    return kernel


@functools.cache
def native_object(function: Callable[..., None], symbol: str, machine: Machine) -> bytes:
    """The object code of a function of int64 that returns nothing; once for a process."""
    return object_of_module(function_module(function, symbol), machine)
