"""Plans of calls of libraries on a GPU: frozen records without a library's names in them.

A plan is the code of a thunk, as a kernel is: its buffers are the thunk's arguments, operands
first, then results, then memory that it may write to. Arrays are dense and row-major. Each plan
knows the limits of libraries: `problem` is the reason why they cannot compute it.
"""

import abc
import dataclasses
import math
from collections.abc import Mapping
from types import MappingProxyType

from xla_contract.types.element_type import ElementType
from xla_server.target.gpu.epilogue import NO_EPILOGUE, Epilogue

ALIGNMENT = 16
"""Bytes that the address of every array is a multiple of."""

MAX_WORKSPACE_BYTES = 32 << 20
"""Largest memory for a product's partial sums, in bytes: cuBLAS's advice for an H100."""

WORKSPACE_ALIGNMENT = 256
"""Bytes that a workspace begins at a multiple of."""

_PARTIAL_SUMS = 32
"""Partial sums of each element that the workspace of a small product can hold."""

_WORD = (1 << 31) - 1
"""Largest size and stride: libraries take them as integers of 32 bits with a sign."""

MAX_BATCH = (1 << 16) - 1
"""Matrices of one batched product, by XLA's GPU backend: cuBLASLt has no more."""

MAX_COMPLEX_ROWS = 4194240
"""Rows or columns of a product of c64, by XLA's GPU backend."""

SUMS: Mapping[tuple[ElementType, ElementType], ElementType] = MappingProxyType(
    {
        (ElementType.F16, ElementType.F16): ElementType.F32,
        (ElementType.F16, ElementType.F32): ElementType.F32,
        (ElementType.BF16, ElementType.BF16): ElementType.F32,
        (ElementType.BF16, ElementType.F32): ElementType.F32,
        (ElementType.F32, ElementType.F32): ElementType.F32,
        (ElementType.F64, ElementType.F64): ElementType.F64,
        (ElementType.C64, ElementType.C64): ElementType.C64,
        (ElementType.C128, ElementType.C128): ElementType.C128,
        (ElementType.S8, ElementType.S32): ElementType.S32,
    }
)
"""The type of the sums of products, by that of both operands and of the result.

Source: cuBLAS, the table of types of cublasLtMatmul.
"""

_SOLVED = frozenset({ElementType.F32, ElementType.F64, ElementType.C64, ElementType.C128})


@dataclasses.dataclass(frozen=True, slots=True)
class LibraryPlan(abc.ABC):
    """A computation by a library: element types, sizes and forms, never addresses."""

    @property
    def text(self) -> str:
        """The plan as dumps show it."""
        return repr(self)

    @property
    def key(self) -> str:
        """Equal for equal plans alone."""
        return repr(self)

    @property
    def problem(self) -> str | None:
        """The reason why no library computes it; None if one does."""
        return None

    @property
    @abc.abstractmethod
    def operations(self) -> int:
        """Additions and multiplications of the usual algorithm; a complex one counts once."""

    @property
    def has_graphs(self) -> bool:
        """True if a CUDA graph can capture its launches: the library never allocates or waits."""
        return False

    @property
    def is_replaceable(self) -> bool:
        """True if kernels can compute it instead, in the program compiled for another target."""
        return False

    @property
    def workspace_bytes(self) -> int:
        """Bytes of the workspace, by sizes alone: the order of sums may depend on it; 0 for none.

        It begins at an aligned address of the last buffer.
        """
        return 0

    @property
    def memory_bytes(self) -> int:
        """Bytes that hold the workspace wherever they begin."""
        return self.workspace_bytes + WORKSPACE_ALIGNMENT if self.workspace_bytes else 0


@dataclasses.dataclass(frozen=True, slots=True)
class Matrix:
    """The matrices of one operand of a product, in memory.

    If transposed, neighbouring rows of the operand are one element apart, else neighbouring
    columns. `ahead` is the stride of the other dimension in elements, and `apart` that of the
    matrices of a batch.
    """

    element: ElementType
    ahead: int
    apart: int = 0
    is_transposed: bool = False

    def __str__(self) -> str:
        mark = "^T" if self.is_transposed else ""
        return f"{self.element.text}{mark} by {self.ahead}, {self.apart}"


@dataclasses.dataclass(frozen=True, slots=True)
class GemmPlan(LibraryPlan):
    """result[b, m, n] = epilogue of the sum over k of left[b, m, k] * right[b, k, n].

    Buffers: left, right, the addend and the bias of the epilogue if it has them, result,
    `memory_bytes` to write to, of which a part from an aligned address on is the workspace. The
    result may be the addend. `rounds_operands` lets the library round operands of f32 to the 10
    bits of TF32.
    """

    batch: int
    rows: int
    columns: int
    depth: int
    left: Matrix
    right: Matrix
    result: Matrix
    rounds_operands: bool = False
    epilogue: Epilogue = NO_EPILOGUE

    @property
    def text(self) -> str:
        """The product with its operands."""
        sizes = f"{self.batch} x [{self.rows}, {self.depth}] x [{self.depth}, {self.columns}]"
        last = "" if self.epilogue == NO_EPILOGUE else f", {self.epilogue}"
        last += ", in TF32" if self.rounds_operands else ""
        return f"product {sizes}: {self.left} x {self.right} -> {self.result}{last}"

    @property
    def operations(self) -> int:
        """Two for each product."""
        return 2 * self.batch * self.rows * self.columns * self.depth

    @property
    def has_graphs(self) -> bool:
        """True: the workspace is a buffer."""
        return True

    @property
    def workspace_bytes(self) -> int:
        """Bytes for partial sums."""
        width = max(4, self.result.element.byte_width)
        elements = self.batch * self.rows * self.columns
        return min(MAX_WORKSPACE_BYTES, _PARTIAL_SUMS * elements * width)

    @property
    def sums(self) -> ElementType | None:
        """The type of the sums; None where the library does not have these types."""
        if self.left.element is not self.right.element:
            return None
        return SUMS.get((self.left.element, self.result.element))

    @property
    def problem(self) -> str | None:
        """The reason why cuBLASLt does not compute it; None if it does."""
        sizes = self.rows, self.columns, self.depth
        if not all(0 < size <= _WORD for size in sizes):
            return f"sizes must be 1 to {_WORD}, got {sizes}"
        if not 0 < self.batch <= MAX_BATCH:
            return f"a batch must have 1 to {MAX_BATCH} matrices, got {self.batch}"
        if self.sums is None:
            types = self.left.element, self.right.element, self.result.element
            return f"there is no product of these types: {[each.text for each in types]}"
        if self.sums is ElementType.C64 and max(sizes[:2]) > MAX_COMPLEX_ROWS:
            return f"a product of c64 must have at most {MAX_COMPLEX_ROWS} rows, got {sizes}"
        if self.rounds_operands and self.left.element not in (ElementType.F32, ElementType.C64):
            return f"operands to round must be f32 or c64, got {self.left.element.text}"
        integers = self._integers() if self.sums is ElementType.S32 else None
        return (
            self._distances() or integers or self.epilogue.problem(self.result.element, self.batch)
        )

    def _distances(self) -> str | None:
        """Return the problem with the strides of rows, if any."""
        if self.result.is_transposed:
            return "the columns of a result must lie apart by one element"
        lengths = (
            (self.left, self.rows if self.left.is_transposed else self.depth),
            (self.right, self.depth if self.right.is_transposed else self.columns),
            (self.result, self.columns),
        )
        for matrix, length in lengths:
            if not length <= matrix.ahead <= _WORD:
                return f"rows must lie at least {length} elements apart, got {matrix.ahead}"
        return None

    def _integers(self) -> str | None:
        """Return the requirement of the integer kernels that is not met, if any.

        They sum along rows of both operands, in words of four elements.
        """
        if self.left.is_transposed or not self.right.is_transposed:
            return "products of integers must read both operands along the sums"
        words = (self.columns, self.depth, self.left.ahead, self.right.ahead, self.result.ahead)
        if any(number % 4 for number in (*words, self.left.apart, self.right.apart)):
            return f"sizes of products of integers must be multiples of 4, got {words}"
        return None


@dataclasses.dataclass(frozen=True, slots=True)
class TriangularSolvePlan(LibraryPlan):
    """op(a) x = b, or x op(a) = b where `is_left` is false, over a batch of matrices.

    Buffers: a, and b, which x is written to. `transpose` is N, T or C, for the matrix itself, its
    transposed and its adjoint. A batch of several has 2 * batch addresses of 64 bits as its third
    buffer: those of all a, then of all b.
    """

    element: ElementType
    batch: int
    rows: int
    columns: int
    is_left: bool
    is_lower: bool
    is_unit: bool
    transpose: str

    @property
    def text(self) -> str:
        """The systems, as an equation."""
        mark = "" if self.transpose == "N" else f"^{self.transpose}"
        diagonal = ", a diagonal of ones" if self.is_unit else ""
        matrix = f"{'lower' if self.is_lower else 'upper'} a{mark}"
        equation = f"{matrix} x = b" if self.is_left else f"x {matrix} = b"
        sizes = f"{self.batch} x [{self.rows}, {self.columns}]"
        return f"systems {equation} of {self.element.text}, {sizes}{diagonal}"

    @property
    def order(self) -> int:
        """The rows and columns of a."""
        return self.rows if self.is_left else self.columns

    @property
    def operations(self) -> int:
        """Two for each element of a triangle, for each vector."""
        return self.batch * self.rows * self.columns * self.order

    @property
    def problem(self) -> str | None:
        """The reason why cuBLAS does not compute it; None if it does."""
        return _solver_problem(self.element, self.batch, self.rows, self.columns)


@dataclasses.dataclass(frozen=True, slots=True)
class CholeskyPlan(LibraryPlan):
    """The factors of a batch of positive definite matrices, in the triangles that are read.

    Buffers: the matrices, overwritten by the factors, and an s32 for each: not 0 without a factor.
    The other triangle is unchanged. A batch of several has its addresses, of 64 bits, as the third
    buffer.
    """

    element: ElementType
    batch: int
    order: int
    is_lower: bool

    @property
    def text(self) -> str:
        """The factors."""
        triangle = "lower" if self.is_lower else "upper"
        sizes = f"{self.batch} x [{self.order}, {self.order}]"
        return f"{triangle} factors of {self.element.text}, {sizes}"

    @property
    def operations(self) -> int:
        """A third of the cube of the order."""
        return self.batch * self.order**3 // 3

    @property
    def problem(self) -> str | None:
        """The reason why cuSOLVER does not compute it; None if it does."""
        return _solver_problem(self.element, self.batch, self.order, self.order) or _size_problem(
            self.element, self.batch * self.order**2
        )


def _solver_problem(element: ElementType, batch: int, rows: int, columns: int) -> str | None:
    if element not in _SOLVED:
        return f"the element type must be f32, f64, c64 or c128, got {element.text}"
    if not all(0 < size <= _WORD for size in (batch, rows, columns)):
        return f"sizes must be 1 to {_WORD}, got {(batch, rows, columns)}"
    return None


def _size_problem(element: ElementType, count: int) -> str | None:
    """Return the problem with the number of elements, whose parts kernels count in 32 bits."""
    parts = count * (2 if element.is_complex else 1)
    return None if 0 < parts <= _WORD else f"there must be 1 to {_WORD} numbers, got {parts}"


@dataclasses.dataclass(frozen=True, slots=True)
class FftPlan(LibraryPlan):
    """Fourier transforms without a factor, of dense arrays [batch, *sizes, inner] over `sizes`.

    `element` is the complex type, `sizes` are those of the real side. Complex to complex, unless
    `is_real`: then the real side has no imaginary parts, and the complex side size // 2 + 1
    elements in the last dimension. An inverse real transform has one dimension, and takes it that
    the first element, and of an even size the last, have no imaginary part. Buffers: source, which
    it may write to, and target; they may be the same where both are complex.
    """

    element: ElementType
    batch: int
    sizes: tuple[int, ...]
    is_inverse: bool
    is_real: bool = False
    inner: int = 1

    @property
    def text(self) -> str:
        """The transforms."""
        words = ("inverse " if self.is_inverse else "") + ("real " if self.is_real else "")
        inside = f" x {self.inner}" if self.inner > 1 else ""
        sizes = f"{self.batch} x {list(self.sizes)}{inside}"
        return f"{words}Fourier transforms of {self.element.text}, {sizes}"

    @property
    def complex_sizes(self) -> tuple[int, ...]:
        """The dimensions of the complex side."""
        return (*self.sizes[:-1], self.sizes[-1] // 2 + 1) if self.is_real else self.sizes

    @property
    def operations(self) -> int:
        """Five for each element and bit of its number, half of them for real ones."""
        elements = math.prod(self.sizes)
        each = (2.5 if self.is_real else 5) * elements * math.log2(elements)
        return round(self.batch * self.inner * each)

    @property
    def problem(self) -> str | None:
        """The reason why cuFFT does not compute it; None if it does."""
        if self.element not in (ElementType.C64, ElementType.C128):
            return f"the element type must be c64 or c128, got {self.element.text}"
        if not 1 <= len(self.sizes) <= 3:
            return f"a transform must have 1 to 3 dimensions, got {len(self.sizes)}"
        if self.is_real and self.is_inverse and len(self.sizes) > 1:
            return f"an inverse real transform must have one dimension, got {self.sizes}"
        if self.is_real and self.inner > 1:
            return f"a real transform must be over the last dimensions, got {self.inner} inside"
        return _size_problem(self.element, self.batch * math.prod(self.sizes) * self.inner)
