"""Capabilities of lowering for GPUs: generated kernels, and libraries for products."""

import dataclasses
import math
from collections.abc import Set
from typing import Final

from xla_contract.ops.contraction.dot import ProductSizes
from xla_contract.types.element_type import ElementType
from xla_contract.types.opcode import Opcode
from xla_server.target.capability import Capability
from xla_server.target.gpu.convolution import Convolution
from xla_server.target.gpu.properties import (
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
"""Threads that keep most of a GPU busy. It is one number for all GPUs, as sums depend on it."""

_FEW_ROWS: Final = 1 << 5
"""Number of long rows, one per block of threads, below which most of a GPU is idle."""

_LONG_ROW: Final = 1 << 14
"""Elements of a row that a thread block reads in the time of a launch."""

_LONG_COLUMN: Final = 1 << 12
"""Elements of a column that the threads of a block add up in the same time."""

_ROW_PART: Final = 4 * MAX_WARP_ROW
"""Elements of a part of a row: one block of 256 threads reduces it."""

_COLUMN_PART: Final = 1 << 9
"""Fewest elements of a part of a column."""

_MIN_PRODUCTS: Final = 1 << 20
"""Fewest multiplications of a convolution for a library: a loop nest computes fewer in the time of
a launch or two."""


@dataclasses.dataclass(frozen=True)
class GpuCapability(Capability):
    """The capability of generated kernels and libraries for GPUs.

    With `has_convolutions` a library computes the convolutions of at least `min_products`
    multiplications that it supports. `refused` are those that the device's library rejected.
    """

    has_convolutions: bool = False
    min_products: int = _MIN_PRODUCTS
    refused: frozenset[Convolution] = frozenset()

    EPILOGUES = frozenset({Opcode.DOT})
    EPILOGUES_REDUCE_ROWS = False
    ENDS_PRODUCTS = True
    COMPARES_INDICES = True
    MOVES_RUNS = True

    VECTORISES_COLUMNS = False
    """Threads divide a column only if its elements are combined in any order."""

    FINISHES_REDUCTIONS = True
    """The thread, or the lanes, that hold a result compute its epilogue."""

    WIDE_SUMS = frozenset(
        {
            (ElementType.F16, ElementType.F16),
            (ElementType.F16, ElementType.F32),
            (ElementType.BF16, ElementType.BF16),
            (ElementType.BF16, ElementType.F32),
        }
    )
    """Tensor cores accumulate in f32."""

    TILED_CONVOLUTIONS = frozenset[ElementType]()
    MAX_IM2COL_BYTES = 1 << 30

    def multiplies_im2col(
        self, sizes: tuple[int, int, int], slices: int, element_type: ElementType
    ) -> bool:
        """Return whether im2col and a library's product are faster than a loop nest."""
        return self._suits_im2col(sizes, slices, element_type)

    def convolves(self, convolution: Convolution) -> bool:
        """Return whether cuDNN computes a convolution.

        Depthwise convolutions are loop nests, as memory bounds the time of these, too.
        """
        if not self.has_convolutions or convolution in self.refused or convolution.problem:
            return False
        is_deep = convolution.groups == 1 or convolution.inputs > convolution.groups
        return is_deep and convolution.operations >= 2 * self.min_products

    def product_tile(self, operands: Set[ElementType], result: ElementType) -> str | None:
        """Return None: libraries compute the products."""
        return None

    def continues_product(
        self, types: Set[ElementType], result: ElementType, sizes: ProductSizes
    ) -> bool:
        """Return whether a kernel computes a product: one that takes less time than a launch.

        All of its tiles are computed at once, and none is mostly empty.
        """
        batch, *sides, depth = sizes
        tiles = batch * math.prod(-(-side // PRODUCT_TILE) for side in sides)
        # Time of a multiplication of this type, in those of f32: a complex one is four of its
        # parts.
        share = max(1, result.byte_width // 4) * (2 if result.is_complex else 1)
        is_small = tiles * BLOCK_THREADS <= JOINED_THREADS and depth * share <= PRODUCT_DEPTH
        return is_small and min(*sides, depth) >= PRODUCT_LEAST

    def packs_operands(self, operands: Set[ElementType], result: ElementType) -> bool:
        """Return whether a library computes the product: it accepts either operand transposed."""
        is_wide = any((each, result) in self.WIDE_SUMS for each in operands)
        return len(operands) == 1 and (is_wide or super().packs_operands(operands, result))

    def is_narrow_product(self, operands: Set[ElementType], result: ElementType) -> bool:
        """Return whether a product has operands of s8, for which libraries accumulate in s32."""
        return operands == {ElementType.S8} and super().is_narrow_product(operands, result)

    def reduction_parts(self, outer: int, length: int, inner: int, tuned: Reductions) -> int:
        """Return how many parts a reduction of [outer, length, inner] is split into, or 1.

        Rows are split if a thread block cannot reduce one, or if there are too few rows to fill a
        GPU. Columns are split if there are too few to fill a GPU. The parts depend on sizes alone.
        """
        if inner == 1:
            is_short = length <= (_LONG_ROW if outer < _FEW_ROWS else MAX_BLOCK_ROW)
            return 1 if is_short else _near(length, min(length // _ROW_PART, MAX_BLOCK_ROW))
        wanted = min(_FULL_THREADS // (outer * inner), length // _COLUMN_PART, _LONG_COLUMN)
        return _near(length, wanted) if wanted > 1 and length > _LONG_COLUMN else 1


def _near(length: int, wanted: int) -> int:
    """Return the least divisor of `length` in [wanted, 2 wanted], else `wanted`; 2 at least."""
    wanted = max(2, wanted)
    fitting = (n for n in range(wanted, 2 * wanted + 1) if length % n == 0)
    return next(fitting, wanted)
