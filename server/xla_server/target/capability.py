"""Capabilities of lowering: which operations have fast kernels, and for which types and sizes.

Passes and fusion bring operations with fast kernels into the form that these take, and leave others
alone; lowering chooses the kernel. All read the same record, so that they agree.
"""

from collections.abc import Set

from xla_contract.ops.contraction.dot import ProductSizes
from xla_contract.types.element_type import ElementType
from xla_contract.types.opcode import Opcode
from xla_server.target.convolution import Convolution
from xla_server.target.pass_tuning import Reductions

_WORDS = frozenset({ElementType.S32, ElementType.U32})
_NARROW = frozenset({ElementType.S8, ElementType.U8, ElementType.S16})
_NARROW_RESULTS = frozenset({*_NARROW, ElementType.U16})


class Capability:
    """The kernels for processors. A platform with others derives from this."""

    BLAS_TYPES = frozenset({ElementType.F32, ElementType.F64, ElementType.C64, ElementType.C128})
    """Element types of the products of matrices that BLAS computes."""

    EPILOGUES = frozenset({Opcode.DOT, Opcode.CONVOLUTION})
    """Operations whose kernels can have epilogues."""

    EPILOGUES_REDUCE_ROWS = True
    """True if these epilogues may depend on a whole row of a product, as softmax does."""

    ENDS_PRODUCTS = False
    """True if libraries multiply, with an `Epilogue` (target/epilogue.py)."""

    COMPARES_INDICES = False
    """True if a scatter takes several launches, so that comparing indices is faster."""

    MOVES_RUNS = False
    """True if a transpose that keeps its last dimension is a loop like any other; products then get
    operands transposed that way. Processors have a kernel for tiles of transposes."""

    WIDE_SUMS = frozenset[tuple[ElementType, ElementType]]()
    """Element types of both operands, and of the result, of the dots that add up in a wider type.
    Others are converted before and after."""

    FINISHES_REDUCTIONS = False
    """True if the kernel of any reduction can compute its epilogue. Processors reduce columns in
    blocks of rows, and pass over them again for the epilogue of a reduction that is no sum."""

    has_convolutions: bool = False
    """True if a library computes convolutions."""

    MIN_TILED_TRANSPOSE = 1 << 15
    """Elements from which a transpose is computed once, by tiles, not again by each reader."""

    MIN_TILED_SIDE = 8
    """Elements of a dimension that is transposed, below which it does not fill tiles."""

    MAX_UNROLLED_WINDOW = 9
    """Elements of a window up to which the loops over it are unrolled inside of that over results:
    3x3, which takes half of the run time then (LOG, fifth round)."""

    TILED_CONVOLUTIONS = frozenset({ElementType.F32, ElementType.F64})
    """Element types of the convolutions that register tiles compute."""

    MIN_TILED_ROW = 3
    """Elements of the result's last spatial dimension from which register tiles compute it."""

    MIN_GROUP_FEATURES = 4
    """Output features of each of several groups from which register tiles compute them."""

    MAX_TILED_DEPTH = 1 << 13
    """Products of a sum up to which a panel of the kernel stays in the cache."""

    MAX_PANEL_BYTES = 1 << 20
    """The same in bytes of a panel, which is read for every tile: of f32 in vectors of 64 bytes."""

    MIN_TAPS = 1
    """Multiplications for each transposed element from which transposing for tiles pays off. The
    alternative, im2col, writes an element for each multiplication of an output feature."""

    MIN_POINT_TAPS = 32
    """The same for windows of one element, for which im2col copies the input or a part of it."""

    MIN_IM2COL_PRODUCTS = 1 << 20
    """Multiplications of a convolution from which a loop nest takes some 100 us or more: joining
    slices compiles in twice its time."""

    MIN_IM2COL_USES = 8
    """Multiplications with each element of an im2col matrix in memory, which is written and read
    for them."""

    MIN_IM2COL_RUN = 8
    """Elements of a row of a slice from which joining slices costs less than a loop nest over
    unrolled windows (LOG, convolutions of integers)."""

    MAX_IM2COL_SLICES = 49
    """Slices that one kernel joins: as many as a window of 7 x 7 has."""

    MAX_IM2COL_BYTES = 1 << 26
    """Memory for an im2col matrix, which an execution needs besides its values."""

    MIN_DEPTHWISE_FEATURES = 8
    """Features of a depthwise convolution from which they fill vectors."""

    @property
    def lays_out_convolutions(self) -> bool:
        """Return whether kernels of convolutions have an order of dimensions that they want."""
        return bool(self.TILED_CONVOLUTIONS)

    def multiplies_im2col(
        self, sizes: tuple[int, int, int], slices: int, element_type: ElementType
    ) -> bool:
        """Return whether a convolution is computed as a product with an im2col matrix in memory.

        `sizes` are the rows, columns and depth of the product. The matrix is a concatenation of
        `slices` slices of the input, of this element type. Processors have kernels of convolutions
        for the types of BLAS; for integers the alternative is a loop nest.
        """
        rows, columns, depth = sizes
        is_loop_slow = depth >= slices * self.MIN_IM2COL_RUN or slices > self.MAX_UNROLLED_WINDOW
        return (
            element_type not in self.BLAS_TYPES
            and is_loop_slow
            and rows * columns * depth >= self.MIN_IM2COL_PRODUCTS
            and columns >= self.MIN_IM2COL_USES
            and slices <= self.MAX_IM2COL_SLICES
            and rows * depth * element_type.byte_width <= self.MAX_IM2COL_BYTES
        )

    def convolves(self, convolution: Convolution) -> bool:
        """Return whether a library computes a convolution."""
        return False

    def reduction_parts(self, outer: int, length: int, inner: int, tuned: Reductions) -> int:
        """Return how many parts a reduction of [outer, length, inner] is cut into, 1 for none."""
        if outer >= tuned.min_rows:
            return 1
        has_few_columns = inner == 1 or outer * inner < tuned.min_columns
        if length >= tuned.min_length and has_few_columns:
            return tuned.parts_of(length)
        return 1 if inner == 1 else tuned.blocks_of(outer, length, inner)

    def product_tile(self, operands: Set[ElementType], result: ElementType) -> str | None:
        """Return the kind of register tiles that multiplies matrices of these types, if any."""
        if result in (ElementType.F32, ElementType.F64) and operands == {result}:
            return result.text
        if result in _WORDS and operands <= _WORDS:
            return "i32"
        return "i16" if result in _WORDS and operands <= _NARROW else None

    def continues_product(
        self, types: Set[ElementType], result: ElementType, sizes: ProductSizes
    ) -> bool:
        """Return whether the kernel of a dot can compute the epilogue of its results.

        `types` are those of its operands. Processors have such for all sizes.
        """
        return types == {result} and result in self.BLAS_TYPES

    def packs_operands(self, operands: Set[ElementType], result: ElementType) -> bool:
        """Return whether the kernel of a product packs operands, for which their layout is free.

        Other products are loop nests, which read operands with the strides that they have.
        """
        is_by_blas = result in self.BLAS_TYPES and operands == {result}
        has_tile = self.product_tile(operands, result) is not None
        return is_by_blas or has_tile or self.is_narrow_product(operands, result)

    def is_narrow_product(self, operands: Set[ElementType], result: ElementType) -> bool:
        """Return whether a product of narrow integers is the one in s32, converted to its type.

        Both wrap around to the same bits.
        """
        return result in _NARROW_RESULTS and operands <= _NARROW

    def is_tiled_transpose(self, elements: int, rows: int, columns: int) -> bool:
        """Return whether tiles transpose an array, of which matrices have these sizes."""
        return elements >= self.MIN_TILED_TRANSPOSE and min(rows, columns) >= self.MIN_TILED_SIDE

    def is_wide_enough(self, outputs: int, groups: int) -> bool:
        """Return whether register tiles compute groups of `outputs` output features."""
        return groups == 1 or outputs >= self.MIN_GROUP_FEATURES
