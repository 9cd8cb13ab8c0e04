"""Plans of LAPACK's routines on a GPU: one call of a library's routine for a batch or each matrix.

Their matrices are column-major, unlike those of other plans. Operations are those of LAPACK Working
Note 41, and of Golub and Van Loan, Matrix Computations, where they depend on convergence.
"""

import abc
import dataclasses
from typing import TypeAlias

from xla_contract.types.element_type import ElementType
from xla_server.codegen.gpu.plans.library_plans import LibraryPlan
from xla_server.custom_calls.linear_algebra.batched import ELEMENTS

MAX_CALLS = 64
"""Calls of one plan for small matrices: a processor takes less time than a call for each."""

SMALL = 32
"""Rows and columns of a small matrix, by JAX's calls for a GPU: Jacobi's method takes a batch."""

_SIZE_FOR_MATRICES = 128
"""Rows or columns, for each matrix, up to which JAX's calls for a GPU factor a batch at once."""

_LARGEST = (1 << 30) - 1
"""Elements of a matrix, whose parts kernels count in 32 bits."""

Part: TypeAlias = tuple[ElementType, int]
"""The type of a buffer, and its elements for each matrix."""


@dataclasses.dataclass(frozen=True, slots=True)
class SolverPlan(LibraryPlan):
    """A routine on each matrix of a batch; `parts` are its buffers, the last one its status.

    They are followed by the addresses of the matrices of the first `tables` buffers, if any.
    """

    element: ElementType
    batch: int

    @property
    def is_batched(self) -> bool:
        """True if one call of the library computes the whole batch."""
        return False

    @property
    def tables(self) -> int:
        """The number of buffers whose matrices the library takes by their addresses."""
        return 0

    @property
    @abc.abstractmethod
    def parts(self) -> tuple[Part, ...]:
        """The buffers, in order."""

    @abc.abstractmethod
    def _work(self) -> int:
        """Return the operations for each matrix."""

    @property
    def operations(self) -> int:
        """Additions and multiplications of the usual algorithm; a complex one counts once."""
        return self.batch * self._work()

    @property
    def problem(self) -> str | None:
        """The reason why cuSOLVER does not compute it; None if it does."""
        if self.element not in ELEMENTS:
            return f"the element type must be f32, f64, c64 or c128, got {self.element.text}"
        counts = [count for _, count in self.parts]
        together = self.batch if self.is_batched else 1
        if not all(0 < count * together <= _LARGEST for count in counts):
            return f"{together} matrices must have 1 to {_LARGEST} elements, got {counts} each"
        most = self.batch if self.is_batched or max(counts) > SMALL**2 else MAX_CALLS
        if not 0 < self.batch <= most:
            return f"a batch must have 1 to {MAX_CALLS} small matrices, got {self.batch}"
        return self._size_problem()

    def _size_problem(self) -> str | None:
        """Return the problem with the sizes of the matrices, if any."""
        return None


_STATUS: Part = (ElementType.S32, 1)


@dataclasses.dataclass(frozen=True, slots=True)
class LuPlan(SolverPlan):
    """L and U over the matrices, the rows exchanged counted from 1, status."""

    rows: int
    columns: int

    @property
    def parts(self) -> tuple[Part, ...]:
        """Matrices, pivots, status."""
        pivots = ElementType.S32, min(self.rows, self.columns)
        return (self.element, self.rows * self.columns), pivots, _STATUS

    @property
    def is_batched(self) -> bool:
        """True for several square matrices, unless they are large and few."""
        is_square = self.rows == self.columns
        return self.batch > 1 and is_square and self.rows <= _SIZE_FOR_MATRICES * self.batch

    @property
    def tables(self) -> int:
        """One table if it is batched: of matrices."""
        return int(self.is_batched)

    def _work(self) -> int:
        least, most = sorted((self.rows, self.columns))
        return most * least**2 - least**3 // 3


@dataclasses.dataclass(frozen=True, slots=True)
class QrPlan(SolverPlan):
    """R and the reflectors over the matrices, the reflectors' factors, status.

    A batched plan leaves the status as it is: there is nothing to fail.
    """

    rows: int
    columns: int

    @property
    def parts(self) -> tuple[Part, ...]:
        """Matrices, factors, status."""
        factors = self.element, min(self.rows, self.columns)
        return (self.element, self.rows * self.columns), factors, _STATUS

    @property
    def is_batched(self) -> bool:
        """True for several matrices, unless they are large and few."""
        most = max(self.rows, self.columns)
        return self.batch > 1 and most <= _SIZE_FOR_MATRICES * self.batch

    @property
    def tables(self) -> int:
        """Two tables if it is batched: of matrices and of factors."""
        return 2 * self.is_batched

    def _work(self) -> int:
        least, most = sorted((self.rows, self.columns))
        return 2 * most * least**2 - 2 * least**3 // 3


@dataclasses.dataclass(frozen=True, slots=True)
class ReflectorsPlan(SolverPlan):
    """The first columns of the product of `count` reflectors, over these; their factors; status."""

    rows: int
    columns: int
    count: int

    @property
    def parts(self) -> tuple[Part, ...]:
        """Reflectors, factors, status."""
        return (self.element, self.rows * self.columns), (self.element, self.count), _STATUS

    def _work(self) -> int:
        rows, columns, count = self.rows, self.columns, self.count
        return 4 * rows * columns * count - 2 * (rows + columns) * count**2 + 4 * count**3 // 3


@dataclasses.dataclass(frozen=True, slots=True)
class ReflectedPlan(SolverPlan):
    """Matrices times the product of `count` reflectors, or its adjoint, from the left or right.

    Buffers: reflectors, their factors, the matrices, which the products are written to, status.
    """

    rows: int
    columns: int
    count: int
    is_left: bool
    is_adjoint: bool

    @property
    def order(self) -> int:
        """The rows of the reflectors."""
        return self.rows if self.is_left else self.columns

    @property
    def parts(self) -> tuple[Part, ...]:
        """Reflectors, factors, matrices, status."""
        reflectors = self.element, self.order * self.count
        matrices = self.element, self.rows * self.columns
        return reflectors, (self.element, self.count), matrices, _STATUS

    def _work(self) -> int:
        vectors = self.columns if self.is_left else self.rows
        return 4 * self.rows * self.columns * self.count - 2 * vectors * self.count**2


@dataclasses.dataclass(frozen=True, slots=True)
class EigenPlan(SolverPlan):
    """Eigenvalues, ascending, of Hermitian matrices, of which a triangle is read.

    The matrices become the eigenvectors in columns, or are undefined without `has_vectors`.
    """

    order: int
    is_lower: bool
    has_vectors: bool

    @property
    def is_batched(self) -> bool:
        """True for several small matrices."""
        return self.batch > 1 and self.order <= SMALL

    @property
    def parts(self) -> tuple[Part, ...]:
        """Matrices, eigenvalues, status."""
        return (self.element, self.order**2), (self.element.real_component, self.order), _STATUS

    def _work(self) -> int:
        return 9 * self.order**3 if self.has_vectors else 4 * self.order**3 // 3


@dataclasses.dataclass(frozen=True, slots=True)
class SingularPlan(SolverPlan):
    """Singular values, descending, of matrices that are not wide, and the requested vectors.

    `left` counts the columns of u: 0 for no vectors at all. Buffers: the matrices, undefined
    afterwards, values, u and the adjoint of v unless there are none, status. A batched plan has v
    itself.
    """

    rows: int
    columns: int
    left: int

    @property
    def is_batched(self) -> bool:
        """True for several small matrices with all vectors or none."""
        return self.batch > 1 and self.rows <= SMALL and self.left in (0, self.rows)

    @property
    def parts(self) -> tuple[Part, ...]:
        """Matrices, values, vectors, status."""
        vectors = (self.element, self.rows * self.left), (self.element, self.columns**2)
        values = self.element.real_component, self.columns
        requested = vectors if self.left else ()
        return (self.element, self.rows * self.columns), values, *requested, _STATUS

    def _size_problem(self) -> str | None:
        if self.rows < self.columns:
            return f"matrices must not be wide, got {self.rows} rows, {self.columns} columns"
        if self.left not in (0, self.columns, self.rows):
            return f"u must have no, {self.columns} or {self.rows} columns, got {self.left}"
        return None

    def _work(self) -> int:
        rows, columns = self.rows, self.columns
        if not self.left:
            return 4 * rows * columns**2 - 4 * columns**3 // 3
        if self.left == columns:
            return 14 * rows * columns**2 + 8 * columns**3
        return 4 * rows**2 * columns + 8 * rows * columns**2 + 9 * columns**3
