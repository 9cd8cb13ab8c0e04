"""The names that kernels know, and the functions behind them, for a machine."""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

from xla_server.codegen.compiler.shared_functions import SharedFunction
from xla_server.codegen.functions.bits.half_floats import half_floats
from xla_server.codegen.functions.called_functions import (
    CALLED,
    ELEMENTARY,
    LIKELY,
    REMAINDER,
    WITH_BRANCHES,
    called,
)
from xla_server.codegen.functions.compiler_library import COMPILER_LIBRARY
from xla_server.codegen.functions.table import FUNCTIONS
from xla_server.codegen.instructions.constants import CONSTANTS
from xla_server.codegen.instructions.intrinsics import ARITHMETIC, REASSOCIATED, X86_ARITHMETIC
from xla_server.codegen.instructions.lapack import LAPACK
from xla_server.codegen.instructions.memory import MEMORY
from xla_server.codegen.instructions.products import PRODUCTS
from xla_server.codegen.instructions.random_words import RANDOM_WORDS
from xla_server.codegen.routines.column_sums import COLUMN_SUMS
from xla_server.codegen.routines.contraction.direct_block import DIRECT_BLOCK
from xla_server.codegen.routines.contraction.exact_sums import EXACT_SUMS
from xla_server.codegen.routines.contraction.gemm_functions import gemm_functions
from xla_server.codegen.routines.contraction.product_tiles import product_tiles
from xla_server.codegen.routines.contraction.thin_products import thin_products
from xla_server.codegen.routines.contraction.winograd_block import WINOGRAD_BLOCK
from xla_server.codegen.routines.contraction.winograd_transforms import WINOGRAD_TRANSFORMS
from xla_server.codegen.routines.fourier.fourier_blocks import FOURIER_BLOCKS
from xla_server.codegen.routines.fourier.fourier_moves import FOURIER_MOVES
from xla_server.codegen.routines.fourier.fourier_passes import FOURIER_PASSES
from xla_server.codegen.routines.indexing.sorting import SORTING
from xla_server.codegen.routines.linear_algebra.matrix_blocks import MATRIX_BLOCKS
from xla_server.codegen.routines.linear_algebra.perturbed import PERTURBED
from xla_server.codegen.routines.movement.concatenation import CONCATENATION
from xla_server.codegen.routines.movement.transposed_tiles import TILES
from xla_server.target.machine import Machine

_NAMES: Mapping[str, Any] = {
    **ARITHMETIC,
    **REASSOCIATED,
    **MEMORY,
    **CONSTANTS,
    **FUNCTIONS,
    **CALLED,
    **{name: CALLED[called(name)] for name in WITH_BRANCHES},
    "rem": REMAINDER,
    **PRODUCTS,
    **COLUMN_SUMS,
    **CONCATENATION,
    **DIRECT_BLOCK,
    **EXACT_SUMS,
    **FOURIER_BLOCKS,
    **FOURIER_MOVES,
    **FOURIER_PASSES,
    **SORTING,
    **LAPACK,
    **MATRIX_BLOCKS,
    **PERTURBED,
    **RANDOM_WORDS,
    **TILES,
    **WINOGRAD_BLOCK,
    **WINOGRAD_TRANSFORMS,
}
"""Functions whose code LLVM alone adapts to a machine."""

_OF_MACHINES = (gemm_functions, half_floats, product_tiles, thin_products)
"""Tables of functions whose names or sizes follow from a machine."""


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Vocabulary:
    """The functions that kernels for a machine may call.

    `names` are all functions by their names in kernels. `shared` are those that are compiled by
    themselves, by their symbols, and `prepared` the symbols that a server compiles before the
    first program needs them.
    """

    names: Mapping[str, Any]
    shared: Mapping[str, SharedFunction]
    prepared: Sequence[str]


@functools.cache
def vocabulary(machine: Machine) -> Vocabulary:
    """Return the vocabulary of a machine."""
    names = {**_NAMES, **(X86_ARITHMETIC if machine.is_x86 else {})}
    for table in _OF_MACHINES:
        names |= table(machine)
    functions = (f for f in names.values() if isinstance(f, SharedFunction))
    shared = {**ELEMENTARY, **COMPILER_LIBRARY, **{each.symbol: each for each in functions}}
    prepared = [symbol for symbol in shared if symbol in LIKELY or symbol not in ELEMENTARY]
    return Vocabulary(names, shared, prepared)
