"""Capabilities of lowering for GPUs: kernels of threads, and libraries for products."""

import dataclasses
import math
from collections.abc import Set
from typing import Final

from xla_contract.ops.contraction.dot import ProductSizes
from xla_contract.types.element_type import ElementType
from xla_contract.types.opcode import Opcode
from xla_server.target.capability import Capability
from xla_server.target.convolution import Convolution
from xla_server.target.gpu import (
    BLOCK_THREADS,
    JOINED_THREADS,
    MAX_BLOCK_ROW,
    MAX_WARP_ROW,
    PRODUCT_DEPTH,
    PRODUCT_LEAST,
    PRODUCT_TILE,
)
from xla_server.target.pass_tuning import Reductions

_FULL_THREADS: Final = 1 << 15
"""Threads with which most of a GPU is busy. It is one number for all, as sums depend on it."""

_FEW_ROWS: Final = 1 << 5
"""Number of long rows, one per block of threads, below which most of a GPU is idle."""

_LONG_ROW: Final = 1 << 14
"""Elements of a row that a block reads in the time of a launch."""

_LONG_COLUMN: Final = 1 << 12
"""Elements of a column that the threads of a block add up in that time."""

_ROW_PART: Final = 4 * MAX_WARP_ROW
"""Elements of a part of a row, for which a block has 256 threads."""

_COLUMN_PART: Final = 1 << 9
"""Elements of a part of a column at least."""

_MIN_PRODUCTS: Final = 1 << 20
"""Multiplications of a convolution that a loop nest computes in the time of a launch or two."""

_MIN_IM2COL_USES: Final = 8
"""Multiplications with each element of an im2col matrix, which is written and read for them."""

_MAX_IM2COL_SLICES: Final = 49
"""Slices that one kernel joins: as many as a window of 7 x 7 has."""

_MAX_IM2COL_BYTES: Final = 1 << 30
"""Memory for an im2col matrix."""


@dataclasses.dataclass(frozen=True)
class GpuCapability(Capability):
    """The kernels for GPUs, and libraries.

    With `has_convolutions` a library computes those convolutions that it may, of at least
    `min_products` multiplications, but for the `refused`, which the device's does not have.
    """

    has_convolutions: bool = False
    min_products: int = _MIN_PRODUCTS
    refused: frozenset[Convolution] = frozenset()

    EPILOGUES = frozenset({Opcode.DOT})
    EPILOGUES_REDUCE_ROWS = False
    ENDS_PRODUCTS = True
    COMPARES_INDICES = True
    MOVES_RUNS = True

    FINISHES_REDUCTIONS = True
    """The thread, or the lanes, with a result compute its epilogue."""

    WIDE_SUMS = frozenset(
        {
            (ElementType.F16, ElementType.F16),
            (ElementType.F16, ElementType.F32),
            (ElementType.BF16, ElementType.BF16),
            (ElementType.BF16, ElementType.F32),
        }
    )
    """Tensor cores add up in f32."""

    TILED_CONVOLUTIONS = frozenset[ElementType]()

    def multiplies_im2col(
        self, sizes: tuple[int, int, int], slices: int, element_type: ElementType
    ) -> bool:
        """Return whether a library's product is worth an im2col matrix."""
        rows, columns, depth = sizes
        width = element_type.byte_width
        is_large = rows * columns * depth >= _MIN_PRODUCTS and columns >= _MIN_IM2COL_USES
        return (
            is_large and slices <= _MAX_IM2COL_SLICES and rows * depth * width <= _MAX_IM2COL_BYTES
        )

    def convolves(self, convolution: Convolution) -> bool:
        """Return whether cuDNN computes a convolution.

        Features that are made of one each are a loop nest, which reads them as fast as memory does.
        """
        if not self.has_convolutions or convolution in self.refused or convolution.problem:
            return False
        is_deep = convolution.groups == 1 or convolution.inputs > convolution.groups
        return is_deep and convolution.operations >= 2 * self.min_products

    def product_tile(self, operands: Set[ElementType], result: ElementType) -> str | None:
        """Return None: libraries have the products."""
        return None

    def continues_product(
        self, types: Set[ElementType], result: ElementType, sizes: ProductSizes
    ) -> bool:
        """Return whether a kernel computes a product: one that a launch takes longer than.

        All of its tiles are computed at once, and none is mostly empty.
        """
        batch, *sides, depth = sizes
        tiles = batch * math.prod(-(-side // PRODUCT_TILE) for side in sides)
        # Multiplications of f32 in the time of one of this type: a complex one is four.
        share = max(1, result.byte_width // 4) * (2 if result.is_complex else 1)
        is_small = tiles * BLOCK_THREADS <= JOINED_THREADS and depth * share <= PRODUCT_DEPTH
        return is_small and min(*sides, depth) >= PRODUCT_LEAST

    def packs_operands(self, operands: Set[ElementType], result: ElementType) -> bool:
        """Return whether a library multiplies: it takes either operand transposed."""
        is_wide = any((each, result) in self.WIDE_SUMS for each in operands)
        return len(operands) == 1 and (is_wide or super().packs_operands(operands, result))

    def is_narrow_product(self, operands: Set[ElementType], result: ElementType) -> bool:
        """Return whether a product is one of s8, which libraries add up in s32."""
        return operands == {ElementType.S8} and super().is_narrow_product(operands, result)

    def reduction_parts(self, outer: int, length: int, inner: int, tuned: Reductions) -> int:
        """Return how many parts a reduction of [outer, length, inner] is cut into, 1 for none.

        Rows are split if a block of threads cannot hold one, or if they are too few for all blocks.
        Columns are split if they are too few for all threads. Parts depend on sizes alone.
        """
        if inner == 1:
            is_short = length <= (_LONG_ROW if outer < _FEW_ROWS else MAX_BLOCK_ROW)
            return 1 if is_short else _near(length, min(length // _ROW_PART, MAX_BLOCK_ROW))
        wanted = min(_FULL_THREADS // (outer * inner), length // _COLUMN_PART, _LONG_COLUMN)
        return _near(length, wanted) if wanted > 1 and length > _LONG_COLUMN else 1


def _near(length: int, wanted: int) -> int:
    """Return a divisor of `length` that is at least `wanted` and close to it, else `wanted`."""
    wanted = max(2, wanted)
    fitting = (n for n in range(wanted, 2 * wanted + 1) if length % n == 0)
    return next(fitting, wanted)
