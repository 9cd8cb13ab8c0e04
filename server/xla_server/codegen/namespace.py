"""The names that kernels know."""

from typing import Any

from xla_server.codegen.compiler.shared_functions import SharedFunction
from xla_server.codegen.functions import FUNCTIONS
from xla_server.codegen.functions.called_functions import CALLED, LIKELY, VARIANTS
from xla_server.codegen.instructions.constants import CONSTANTS
from xla_server.codegen.instructions.intrinsics import ARITHMETIC
from xla_server.codegen.instructions.lapack import LAPACK
from xla_server.codegen.instructions.memory import MEMORY
from xla_server.codegen.instructions.products import PRODUCTS
from xla_server.codegen.instructions.random_words import RANDOM_WORDS
from xla_server.codegen.routines.column_sums import COLUMN_SUMS
from xla_server.codegen.routines.concatenation import CONCATENATION
from xla_server.codegen.routines.direct_block import DIRECT_BLOCK
from xla_server.codegen.routines.exact_sums import EXACT_SUMS
from xla_server.codegen.routines.fourier_blocks import FOURIER_BLOCKS
from xla_server.codegen.routines.fourier_moves import FOURIER_MOVES
from xla_server.codegen.routines.fourier_passes import FOURIER_PASSES
from xla_server.codegen.routines.gemm_functions import GEMM_FUNCTIONS
from xla_server.codegen.routines.matrix_blocks import MATRIX_BLOCKS
from xla_server.codegen.routines.perturbed import PERTURBED
from xla_server.codegen.routines.product_tiles import PRODUCT_TILES
from xla_server.codegen.routines.sorting import SORTING
from xla_server.codegen.routines.thin_products import THIN_PRODUCTS
from xla_server.codegen.routines.tiles import TILES
from xla_server.codegen.routines.winograd_block import WINOGRAD_BLOCK
from xla_server.codegen.routines.winograd_transforms import TRANSFORMATIONS

NAMESPACE: dict[str, Any] = {
    **ARITHMETIC,
    **MEMORY,
    **CONSTANTS,
    **FUNCTIONS,
    **CALLED,
    **PRODUCTS,
    **COLUMN_SUMS,
    **CONCATENATION,
    **DIRECT_BLOCK,
    **EXACT_SUMS,
    **FOURIER_BLOCKS,
    **FOURIER_MOVES,
    **FOURIER_PASSES,
    **GEMM_FUNCTIONS,
    **SORTING,
    **LAPACK,
    **MATRIX_BLOCKS,
    **PERTURBED,
    **RANDOM_WORDS,
    **PRODUCT_TILES,
    **THIN_PRODUCTS,
    **TILES,
    **TRANSFORMATIONS,
    **WINOGRAD_BLOCK,
}
"""Every function of kernels by its name."""

SHARED: dict[str, SharedFunction] = {
    **VARIANTS,
    **{
        function.symbol: function
        for function in NAMESPACE.values()
        if isinstance(function, SharedFunction)
    },
}
"""Those that are compiled by themselves, by their symbols."""

PREPARED = [
    symbol
    for symbol, function in SHARED.items()
    if symbol in LIKELY or (symbol not in VARIANTS and function not in CALLED.values())
]
"""Those of them that are worth to have before a program asks for them."""
