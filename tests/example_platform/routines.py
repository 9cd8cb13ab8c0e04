"""The routines that kernels call, on the memory of the walker. Operands are integers of Python."""

import functools
import itertools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numba.core.dispatcher import Dispatcher

from tests.example_platform import libraries
from tests.example_platform.formulas import UnsupportedKernelError
from tests.example_platform.fourier import FOURIER
from tests.example_platform.memory import Arrays
from tests.example_platform.products import WALKED, products
from tests.example_platform.python_functions import PythonFunctions
from tests.example_platform.winograd import WINOGRAD
from xla_server.codegen.compiler.shared_functions import PythonFunction
from xla_server.codegen.namespace import vocabulary
from xla_server.codegen.routines.contraction import direct_block, winograd_block
from xla_server.codegen.routines.indexing.sorting import sorter
from xla_server.codegen.routines.movement import concatenation
from xla_server.codegen.routines.movement.transposed_tiles import BLOCKS, SIDES, tile_name


def _copy_bytes(arrays: Arrays, target: int, source: int, count: int) -> None:
    arrays.at(target, count)[:] = arrays.at(source, count)


def _clear_bytes(arrays: Arrays, target: int, count: int) -> None:
    arrays.at(target, count)[:] = 0


def _words(arrays: Arrays, address: int, count: int) -> np.ndarray[Any, Any]:
    return arrays.at(address, 8 * count).view(np.int64)


def _sort_entries(
    words: int, arrays: Arrays, entries: int, room: int, counts: int, count: int, cancelled: int
) -> int:
    """Sort entries by their signed keys, equal ones in their order, and return where they are."""
    rows = _words(arrays, entries, words * count).reshape(count, words)
    # The key of an entry of one word is its upper half, the number its lower half.
    keys = rows[:, 0] >> 32 if words == 1 else rows[:, 0]
    rows[:] = rows[np.argsort(keys, kind="stable")]
    return entries


def _keep_entry(arrays: Arrays, heap: int, count: int, seen: int, key: int) -> None:
    """Keep entry number `seen` among the `count` smallest, in descending order."""
    kept = _words(arrays, heap, 2 * min(count, seen + 1)).reshape(-1, 2)
    if seen < count:
        kept[-1] = key, seen
    else:
        kept[0] = key, seen
    kept[:] = kept[np.lexsort((kept[:, 1], kept[:, 0]))[::-1]]


def _sort_heap(arrays: Arrays, heap: int, count: int, cancelled: int) -> None:
    """Put the entries that were kept in ascending order."""
    kept = _words(arrays, heap, 2 * count).reshape(count, 2)
    kept[:] = kept[::-1].copy()


def _transpose(
    width: int, side: int, arrays: Arrays, source: int, ahead: int, target: int, target_ahead: int
) -> None:
    """Transpose a tile of `side` rows of as many elements."""
    size = side * width
    tile = np.stack([arrays.at(source + n * ahead, size).reshape(side, width) for n in range(side)])
    for n in range(side):
        arrays.at(target + n * target_ahead, size)[:] = tile[:, n].ravel()


def _transpose_blocks(arrays: Arrays, *operands: int) -> None:
    """Transpose blocks of whole tiles; the last tiles begin earlier where they would not fit."""
    named = dict(zip(BLOCKS.names, operands, strict=True))
    start, stop, down, tile, side, width = operands[:6]
    tall, wide = named["tall"], named["wide"]
    for block in range(start, stop):
        for y, x in itertools.product(range(0, tall, side), range(0, wide, side)):
            row = min(block % down * tall + y, named["last_row"])
            column = min(block // down * wide + x, named["last_column"])
            source = named["source"] + column * named["source_ahead"] + row * width
            target = named["target"] + row * named["target_ahead"] + column * width
            routine_at(tile)(arrays, source, named["source_ahead"], target, named["target_ahead"])


def _interleave(
    arrays: Arrays, buffers: int, start: int, stop: int, tile: int, side: int, width: int
) -> None:
    """Put single elements of operands side by side, TILE_BYTES of each operand at a time."""
    table, result = (int(each) for each in _words(arrays, buffers, 2))
    head = [int(each) for each in _words(arrays, table, concatenation.HEAD_WORDS)]
    count, tall = head[concatenation.COUNT], concatenation.TILE_BYTES // width
    entries = _words(
        arrays, table + 8 * concatenation.HEAD_WORDS, concatenation.ENTRY_WORDS * count
    ).reshape(count, concatenation.ENTRY_WORDS)
    for block in range(start, stop):
        first = min(block * tall, head[concatenation.ROWS] - tall)
        for number, (buffer, offset) in enumerate(entries[:, :2].tolist()):
            source = int(_words(arrays, buffers + 8 * buffer, 1)[0]) + offset + first * width
            elements = arrays.at(source, tall * width).reshape(tall, width)
            for row, element in enumerate(elements, first):
                place = result + row * head[concatenation.ROW_BYTES] + number * width
                arrays.at(place, width)[:] = element


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
    return name in _IN_ANY_ORDER or name in (direct_block.BLOCK.name, winograd_block.BLOCK.name)


def _found(name: str) -> Callable[..., int | None]:
    if name in ROUTINES:
        return ROUTINES[name]
    if name in libraries.NAMES:
        return functools.partial(libraries.call, name)
    function = _python(name)
    if function is None:
        raise UnsupportedKernelError(f"a routine must be one of the walker, got {name}")
    return lambda arrays, *operands: PythonFunctions(arrays, execute).made(function)(*operands)


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
    **products(routine_at),
    **FOURIER,
    **WINOGRAD,
}
ROUTINES: Mapping[str, Callable[..., int | None]] = {
    **_IN_ANY_ORDER,
    "copy_bytes": _copy_bytes,
    "clear_bytes": _clear_bytes,
    "call_at": lambda arrays, tile, *operands: routine_at(tile)(arrays, *operands),
    **{
        sorter(words, size).name: functools.partial(_sort_entries, words)
        for words, size in ((1, 1), (1, 2), (1, 4), (2, 8))
    },
    "keep_entry": _keep_entry,
    "sort_heap": _sort_heap,
    **{
        tile_name(width, side): functools.partial(_transpose, width, side)
        for width in (1, 2, 4, 8)
        for side in SIDES
    },
    BLOCKS.name: _transpose_blocks,
    "interleave_tiles": _interleave,
}
"""Routines whose code is LLVM's, by their names; those with a result return an integer."""
