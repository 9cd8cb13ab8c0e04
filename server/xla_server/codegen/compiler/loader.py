"""Loading of object code into executable memory."""

import collections
import threading
import weakref
from collections.abc import Collection, Mapping

import llvmlite.binding as llvm

from xla_server.codegen.compiler.kernel_compiler import target_machine
from xla_server.codegen.compiler.symbols import undefined_symbols
from xla_server.target.machine import Machine


class UnresolvedSymbolsError(Exception):
    """Object code calls symbols that are not loaded: LLVM would call address 0.

    `symbol` is what the object code defines, `missing` are the symbols that it calls.
    """

    def __init__(self, symbol: str, missing: Collection[str]) -> None:
        names = ", ".join(sorted(missing))
        super().__init__(
            f"object code may only call symbols that are loaded, got {names}, which neither the "
            f"process nor another object defines, in {symbol}"
        )
        self.symbol = symbol
        self.missing = frozenset(missing)


class Loader:
    """Executable code, which lives as long as this loader. Thread-safe.

    Its code may call functions that `base` has loaded, which it keeps alive. `loads` has an element
    for each load of a living loader, each of which takes two areas of memory.
    """

    def __init__(
        self,
        machine: Machine,
        base: "Loader | None" = None,
        loads: "collections.deque[None] | None" = None,
    ) -> None:
        generator = target_machine(machine)
        self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), generator)
        # The first object would wait for this, which takes as long as the rest of the constructor.
        self._engine.finalize_object()
        self._base = base
        self._addresses: dict[str, int] = {}
        self._declared: set[str] = set()
        self._lock = threading.Lock()
        self.byte_size = 0
        """Bytes of the object code that was loaded."""
        self._loads = collections.deque[None]() if loads is None else loads

    @property
    def symbol_count(self) -> int:
        """Return the number of loaded symbols."""
        return len(self._addresses)

    def address(self, symbol: str) -> int | None:
        """Return the address of a symbol, if it is loaded."""
        return self._addresses.get(symbol)

    def load(self, code: bytes, symbol: str) -> int:
        """The address of the symbol that object code defines."""
        return self.load_all({symbol: code})[symbol]

    def load_all(self, codes: Mapping[str, bytes]) -> dict[str, int]:
        """The addresses of symbols by the object code that defines each.

        Objects loaded together share pages: the system limits the number of memory mappings of a
        process. A symbol is loaded once. Raises UnresolvedSymbolsError, and loads nothing, if code
        calls undefined symbols.
        """
        with self._lock:
            added = {
                symbol: code for symbol, code in codes.items() if symbol not in self._addresses
            }
            self._resolve(added)
            for code in added.values():
                self._engine.add_object_file(llvm.object_file.ObjectFileRef.from_data(code))
                self.byte_size += len(code)
            self._engine.finalize_object()
            if added:
                self._loads.append(None)
                weakref.finalize(self, self._loads.pop).atexit = False
            for symbol in added:
                address = self._engine.get_function_address(symbol)
                assert address
                self._addresses[symbol] = int(address)
            return {symbol: self._addresses[symbol] for symbol in codes}

    def _resolve(self, added: Mapping[str, bytes]) -> None:
        """Declare called symbols of `base`; raise UnresolvedSymbolsError if one is nowhere."""
        known = self._declared | self._addresses.keys() | added.keys()
        called = {symbol: undefined_symbols(code) - known for symbol, code in added.items()}
        names = frozenset[str]().union(*called.values())
        found = {name: self._base.address(name) for name in names} if self._base else {}
        of_base = {name: address for name, address in found.items() if address is not None}
        for symbol, calls in called.items():
            # LLVM finds the others among the process's symbols, as the system's loader does.
            others = calls - of_base.keys()
            missing = {name for name in others if llvm.address_of_symbol(name) is None}
            if missing:
                raise UnresolvedSymbolsError(symbol, missing)
        if of_base:
            self._declare(of_base)

    def _declare(self, addresses: Mapping[str, int]) -> None:
        """Declare addresses of functions of `base`: engines do not share symbols."""
        declared = llvm.parse_assembly("".join(f"declare void @{each}()\n" for each in addresses))
        for symbol, address in addresses.items():
            self._engine.add_global_mapping(declared.get_function(symbol), address)
            self._declared.add(symbol)
