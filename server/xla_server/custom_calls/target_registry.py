"""The targets a server knows, by name: its own and its operator's, never a client's.

An operator's module has a function `register(registry)`:

    import ctypes, numpy as np, numba
    from numba import types

    def register(registry):
        registry.register_function("clip01", lambda x: np.clip(x, 0, 1))

        @numba.njit
        def cumulative(x):
            return np.cumsum(x)
        registry.register_function("cumulative", cumulative, "(f64[8]) -> f64[8]")

        library = ctypes.CDLL("/opt/ours/libours.so")
        registry.register_symbol("ours", library.ours, "(f32[4], f32[4]) -> f32[4]")
"""

import difflib
import importlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from xla_contract.errors import UnimplementedError, XlaError
from xla_server.custom_calls.target import CustomCallTarget
from xla_server.custom_calls.user_functions import Signature, function_target, symbol_target
from xla_server.ir.module import HloInstruction

_NAMES_SHOWN = 3
_NAME_SHOWN = 200
"""Number of similar names that an error about an unknown target lists, and characters of the name
it shows."""

_OF_PYTHON = frozenset(
    {
        "CustomSPMDPartitioning",
        "InspectSharding",
        *(
            f"xla_{interface}python_{ending}"
            for interface in ("", "buffer_", "ffi_", "ffi_partitioned_")
            for ending in ("cpu_callback", "gpu_callback")
        ),
    }
)
"""Targets that JAX writes for debug.print, pure_callback, io_callback, custom_partitioning,
debug.inspect_array_sharding and their like.

The function exists in the process that lowered the program; the call has its number in a table
there, or its address.
"""

_OF_GPUS = ("cu", "hip", "__cu", "__gpu$", "triton")
"""Beginnings of the names of targets that JAX and XLA write for GPUs."""

_GPU_HINT = (
    "The program was lowered for a GPU: lower(lowering_platforms=('cpu',)), or "
    "export(platforms=['cpu']), calls LAPACK, which the server has."
)

_REASON = (
    "calls a Python function of the process that made the program, which a server cannot reach; "
    "leave debug.print, pure_callback, io_callback, custom_partitioning and "
    "inspect_array_sharding out of programs for it"
)


class CustomCallRegistry:
    """Targets by name. Filled before the server listens, only read from then on."""

    def __init__(self, targets: Iterable[CustomCallTarget] = ()) -> None:
        self._targets: dict[str, CustomCallTarget] = {}
        for target in targets:
            self.register(target)

    def __iter__(self) -> Iterator[CustomCallTarget]:
        return iter(self._targets.values())

    def register(self, target: CustomCallTarget) -> None:
        """Add a target; raises ValueError for a name that is empty or taken."""
        if not target.name or target.name in self._targets:
            raise ValueError(f"a target needs a name of its own, got {target.name!r} again")
        self._targets[target.name] = target

    def register_function(
        self,
        name: str,
        function: Callable[..., Any],
        signature: Signature | None = None,
        *,
        with_attributes: bool = False,
    ) -> None:
        """Add a Python callable or a numba function over numpy arrays.

        It gets one read-only, contiguous, row-major array per operand and returns a new array, or
        a tuple of arrays, of exactly the type and dimensions the program declares; anything else is
        INTERNAL. With `with_attributes`, the attributes in the call's backend_config (an MLIR
        dictionary in text) are keyword arguments. Calls come from several threads at a time, and
        cannot be cancelled while they run. `signature` is checked when a program is compiled.
        Raises ValueError as `register`.
        """
        self.register(function_target(name, function, signature, with_attributes=with_attributes))

    def register_symbol(self, name: str, symbol: Any, signature: Signature) -> None:
        """Add a C function `void symbol(void* out, const void** ins)`.

        `symbol` is a ctypes function, a numba cfunc of that signature, or an address; the caller
        keeps it loaded. `ins[i]` points at operand i and `out` at the result, all row-major; for a
        result tuple `out` is an array of pointers. C does not check its arguments: the signature is
        mandatory and compiling refuses every call of other shapes. Raises ValueError as `register`,
        and for a symbol without address.
        """
        self.register(symbol_target(name, symbol, signature))

    def resolve(self, instruction: HloInstruction) -> CustomCallTarget:
        """The target a custom-call names, its shapes and attributes checked.

        Raises UnimplementedError with the names nearest to an unknown one, or the reason why calls
        back into Python are refused, and what the target's check raises, each placed at the
        instruction.
        """
        name: str = instruction.attributes.target
        target = self._targets.get(name)
        if target is None and name in _OF_PYTHON:
            raise UnimplementedError(f'target "{name}" {_REASON}').at(
                instruction.opcode, instruction.name
            )
        if target is None:
            near = difflib.get_close_matches(name[:_NAME_SHOWN], self._targets, _NAMES_SHOWN, 0.6)
            names = f"; near it are {', '.join(near)}" if near else ""
            raise UnimplementedError(
                f'target "{name[:_NAME_SHOWN]}" is not known to this server{names}',
                hint=_GPU_HINT if name.startswith(_OF_GPUS) else "",
            ).at(instruction.opcode, instruction.name)
        try:
            target.check(instruction)
        except XlaError as error:
            raise error.at(instruction.opcode, instruction.name) from None
        return target

    def load(self, module_name: str) -> None:
        """Import a module and let its `register` add targets.

        Raises ValueError for a module without that function, and what import and it raise.
        """
        module = importlib.import_module(module_name)
        register = getattr(module, "register", None)
        if not callable(register):
            raise ValueError("a module of custom calls needs a function register(registry)")
        register(self)
