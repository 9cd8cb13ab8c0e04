"""The routines that kernels call, on the memory of the walker. Operands are integers of Python."""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numba.core.dispatcher import Dispatcher

from tests.example_platform.formulas import UnsupportedKernelError
from tests.example_platform.memory import Arrays
from tests.example_platform.routines import libraries
from tests.example_platform.routines.fourier import FOURIER
from tests.example_platform.routines.products import WALKED, products
from tests.example_platform.routines.python_functions import PythonFunctions
from tests.example_platform.routines.winograd import WINOGRAD
from xla_server.codegen.compiler.shared_functions import PythonFunction
from xla_server.codegen.namespace import vocabulary
from xla_server.codegen.routines.contraction.direct_block import DIRECT_BLOCK
from xla_server.codegen.routines.contraction.gemm_loops import GEMM_LOOPS
from xla_server.codegen.routines.contraction.winograd_block import WINOGRAD_BLOCK
from xla_server.codegen.routines.movement.transposed_tiles import SIDES, tile_name


def _copy_bytes(arrays: Arrays, target: int, source: int, count: int) -> None:
    arrays.at(target, count)[:] = arrays.at(source, count)


def _clear_bytes(arrays: Arrays, target: int, count: int) -> None:
    arrays.at(target, count)[:] = 0


def _transpose(
    width: int, side: int, arrays: Arrays, source: int, ahead: int, target: int, target_ahead: int
) -> None:
    """Transpose a tile of `side` rows of as many elements."""
    size = side * width
    tile = np.stack([arrays.at(source + n * ahead, size).reshape(side, width) for n in range(side)])
    for n in range(side):
        arrays.at(target + n * target_ahead, size)[:] = tile[:, n].ravel()


def routine_at(address: int) -> Callable[..., int | None]:
    """Return the routine with an address."""
    return _found(_NAMES[-1 - address])


def execute(name: str, arrays: Arrays, *operands: int) -> int | None:
    """Execute a routine.

    Raises:
        UnsupportedKernelError: the walker does not define it.
    """
    return _found(name)(arrays, *operands)


def is_defined(name: str) -> bool:
    """Return whether a routine is defined."""
    return name in ROUTINES or name in libraries.NAMES or _python(name) is not None


def is_in_any_order(name: str) -> bool:
    """Return whether the order of a routine's sums is that of the machine's vectors."""
    around_tiles = {*DIRECT_BLOCK, *GEMM_LOOPS, *WINOGRAD_BLOCK}
    return name in _IN_ANY_ORDER or name in around_tiles


def _found(name: str) -> Callable[..., int | None]:
    if name in ROUTINES:
        return ROUTINES[name]
    if name in libraries.NAMES:
        return functools.partial(libraries.call, name)
    function = _python(name)
    if function is None:
        raise UnsupportedKernelError(f"a routine must be one of the walker, got {name}")
    return lambda arrays, *operands: PythonFunctions(arrays, execute).called(function, operands)


def _python(name: str) -> Any:
    """Return the function of Python that a routine is; None if it is none."""
    called = _CALLED.get(name)
    if isinstance(called, PythonFunction):
        return called.function
    return called if isinstance(called, Dispatcher) else None


_CALLED: Mapping[str, Any] = {
    name: called
    for machine in reversed(WALKED)  # The host's function where both have the name.
    for name, called in vocabulary(machine).names.items()
}
_NAMES = [name.removesuffix("_address") for name in _CALLED if "_address" in name]

ADDRESSES: Mapping[str, int] = {
    f"{name}_address": -1 - number for number, name in enumerate(_NAMES)
}
"""The address of each routine by the instruction for it: no address of memory is negative."""

_IN_ANY_ORDER: Mapping[str, Callable[..., int | None]] = {
    **products(),
    **FOURIER,
    **WINOGRAD,
}
ROUTINES: Mapping[str, Callable[..., int | None]] = {
    **_IN_ANY_ORDER,
    "copy_bytes": _copy_bytes,
    "clear_bytes": _clear_bytes,
    "call_at": lambda arrays, tile, *operands: routine_at(tile)(arrays, *operands),
    **{
        tile_name(width, side): functools.partial(_transpose, width, side)
        for width in (1, 2, 4, 8)
        for side in SIDES
    },
}
"""Routines whose code is LLVM's, by their names; those with a result return an integer."""
