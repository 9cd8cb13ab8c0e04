"""Capabilities of lowering: which operations have fast kernels, and for which types and sizes.

Passes and fusion rewrite a program for fast kernels, and leave operations without one as they are;
lowering chooses the kernel. They read the same record, so that they agree.
"""

from collections.abc import Set

from xla_contract.ops.contraction.dot import ProductSizes
from xla_contract.types.element_type import ElementType
from xla_contract.types.opcode import Opcode
from xla_server.target.gpu.convolution import Convolution
from xla_server.target.pass_tuning import Reductions

_WORDS = frozenset({ElementType.S32, ElementType.U32})
_NARROW = frozenset({ElementType.S8, ElementType.U8, ElementType.S16})
_NARROW_RESULTS = frozenset({*_NARROW, ElementType.U16})


class Capability:
    """The capability of kernels for processors, and the base class for other platforms."""

    BLAS_TYPES = frozenset({ElementType.F32, ElementType.F64, ElementType.C64, ElementType.C128})
    """Element types of the matrix products that BLAS computes."""

    EPILOGUES = frozenset({Opcode.DOT, Opcode.CONVOLUTION})
    """Operations whose kernels can have epilogues."""

    EPILOGUES_REDUCE_ROWS = True
    """True if these epilogues may depend on a whole row of a product, as softmax does."""

    ENDS_PRODUCTS = False
    """True if products are calls of libraries, which apply an `Epilogue`."""

    COMPARES_INDICES = False
    """True if a scatter is several launches, so that comparing all indices is faster."""

    MOVES_RUNS = False
    """True if a transpose that keeps its last dimension is fused like any elementwise loop, and
    products keep such runs. On processors it is False: they have a tiled kernel for transposes."""

    WIDE_SUMS = frozenset[tuple[ElementType, ElementType]]()
    """Pairs of operand and result types of dots with an accumulator of a wider type. For other
    narrow dots, conversions are inserted before and after."""

    FINISHES_REDUCTIONS = False
    """True if the kernel of any reduction can compute an epilogue. Processors reduce columns in
    blocks of rows, and need a second pass for the epilogue unless the reduction is a sum."""

    VECTORISES_COLUMNS = True
    """True if a kernel reduces neighbouring columns together, by any function."""

    has_convolutions: bool = False
    """True if a library computes convolutions."""

    MIN_TILED_TRANSPOSE = 1 << 15
    """Smallest transpose, in elements, by a tiled kernel; smaller ones are fused into readers."""

    MIN_TILED_SIDE = 8
    """Smallest transposed dimension, in elements, for tiles: shorter ones do not fill a tile."""

    MAX_UNROLLED_WINDOW = 9
    """Largest window, in elements, whose loops are unrolled inside the loop over results: 3x3,
    which halves its run time (LOG, fifth round)."""

    TILED_CONVOLUTIONS = frozenset({ElementType.F32, ElementType.F64})
    """Element types of convolutions by register tiles."""

    MIN_TILED_ROW = 3
    """Smallest last spatial dimension of the result, in elements, for register tiles."""

    MIN_GROUP_FEATURES = 4
    """Fewest output features of each of several groups for register tiles."""

    MAX_TILED_DEPTH = 1 << 13
    """Largest depth, in products of a sum, for register tiles: a filter panel stays in cache."""

    MAX_PANEL_BYTES = 1 << 20
    """The same bound in bytes of a panel, which is read for every tile: of f32 in vectors of 64
    bytes."""

    MIN_TAPS = 1
    """Fewest multiplications per transposed element for which transposing to channels last pays
    off. The alternative, im2col, writes an element for each multiplication of one output
    feature."""

    MIN_POINT_TAPS = 32
    """The same for windows of one element: there im2col only copies the input or a part."""

    MIN_IM2COL_PRODUCTS = 1 << 20
    """Fewest multiplications of a convolution for im2col: the loop nest takes 100 us or more then,
    which outweighs the doubled compile time of joining slices. A GPU's takes a launch or two."""

    MIN_IM2COL_USES = 8
    """Fewest multiplications per element of an im2col matrix, each of which costs a store and a
    load."""

    MIN_IM2COL_RUN = 8
    """Fewest elements of a slice's row for which joining slices takes less time than a loop nest
    with unrolled windows (LOG, convolutions of integers)."""

    MAX_IM2COL_SLICES = 49
    """Most slices that one kernel joins: those of a 7x7 window."""

    MAX_IM2COL_BYTES = 1 << 26
    """Largest im2col matrix, in bytes: memory that an execution needs in addition to its values."""

    MIN_DEPTHWISE_FEATURES = 8
    """Fewest features of a depthwise convolution that fill vectors."""

    @property
    def lays_out_convolutions(self) -> bool:
        """Return whether kernels of convolutions require channels last."""
        return bool(self.TILED_CONVOLUTIONS)

    def multiplies_im2col(
        self, sizes: tuple[int, int, int], slices: int, element_type: ElementType
    ) -> bool:
        """Return whether a convolution is computed as a product with an im2col matrix in memory.

        `sizes` are the rows, columns and depth of the product. The matrix consists of `slices`
        slices of the input, one for each element of the window. Processors have kernels of
        convolutions for the types of BLAS; for integers the alternative is a loop nest.
        """
        is_loop_slow = sizes[2] >= slices * self.MIN_IM2COL_RUN or slices > self.MAX_UNROLLED_WINDOW
        is_by_loop = element_type in self.BLAS_TYPES or not is_loop_slow
        return not is_by_loop and self._suits_im2col(sizes, slices, element_type)

    def _suits_im2col(
        self, sizes: tuple[int, int, int], slices: int, element_type: ElementType
    ) -> bool:
        """Return whether a product is large enough for an im2col matrix, and that small enough."""
        rows, columns, depth = sizes
        return (
            rows * columns * depth >= self.MIN_IM2COL_PRODUCTS
            and columns >= self.MIN_IM2COL_USES
            and slices <= self.MAX_IM2COL_SLICES
            and rows * depth * element_type.byte_width <= self.MAX_IM2COL_BYTES
        )

    def convolves(self, convolution: Convolution) -> bool:
        """Return whether a library computes a convolution."""
        return False

    def reduction_parts(self, outer: int, length: int, inner: int, tuned: Reductions) -> int:
        """Return how many parts a reduction of [outer, length, inner] is split into, or 1."""
        if outer >= tuned.min_rows:
            return 1
        has_few_columns = inner == 1 or outer * inner < tuned.min_columns
        if length >= tuned.min_length and has_few_columns:
            return tuned.parts_of(length)
        return 1 if inner == 1 else tuned.blocks_of(outer, length, inner)

    def product_tile(self, operands: Set[ElementType], result: ElementType) -> str | None:
        """Return the type of the register tiles that multiply matrices of these types, or None."""
        if result in (ElementType.F32, ElementType.F64) and operands == {result}:
            return result.text
        if result in _WORDS and operands <= _WORDS:
            return "i32"
        return "i16" if result in _WORDS and operands <= _NARROW else None

    def continues_product(
        self, types: Set[ElementType], result: ElementType, sizes: ProductSizes
    ) -> bool:
        """Return whether the kernel of a dot can compute the epilogue of its results.

        `types` are those of its operands. On processors all `sizes` can have an epilogue.
        """
        return types == {result} and result in self.BLAS_TYPES

    def packs_operands(self, operands: Set[ElementType], result: ElementType) -> bool:
        """Return whether the kernel of a product packs operands, so that their layout is free.

        Other products are loop nests, which read operands unpacked, with their strides.
        """
        is_by_blas = result in self.BLAS_TYPES and operands == {result}
        has_tile = self.product_tile(operands, result) is not None
        return is_by_blas or has_tile or self.is_narrow_product(operands, result)

    def is_narrow_product(self, operands: Set[ElementType], result: ElementType) -> bool:
        """Return whether a product of narrow integers is computed in s32 and then converted.

        Sums in s32 and in the narrow type wrap around to the same low bits.
        """
        return result in _NARROW_RESULTS and operands <= _NARROW

    def is_tiled_transpose(self, elements: int, rows: int, columns: int) -> bool:
        """Return whether tiles transpose an array that consists of matrices of these sizes."""
        return elements >= self.MIN_TILED_TRANSPOSE and min(rows, columns) >= self.MIN_TILED_SIDE

    def is_wide_enough(self, outputs: int, groups: int) -> bool:
        """Return whether register tiles compute groups with this number of output features."""
        return groups == 1 or outputs >= self.MIN_GROUP_FEATURES
