"""Numbers that passes are tuned by, in groups. They hold for every processor.

Those of reductions and of products with few vectors decide in which order sums are added. No such
number follows from a machine, so that results have the same bits on each. LOG is
tests/benchmarks/LOG.md, by its headings. Limits that only bound the time of compilation are
constants of their passes.
"""

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True)
class Reductions:
    """Reductions cut into parts for threads, and windows as rows.

    The pass of the first is `passes/reductions/tree_reduction.py`.
    """

    min_elements: int = 1 << 16
    """Elements from which a reduction is cut: some tens of microseconds of one core, beside which
    handing parts to other threads, a microsecond or two, is small."""

    min_rows: int = 16
    """Results from which rows are work items as they are. 16 rows cut into parts take 1.05 of the
    time, 8 and 12 uncut ones the same (LOG, numbers of the target)."""

    min_columns: int = 1024
    """Columns from which they are work items as they are, and those of one block of wide ones: 4
    KiB of f32, a page. 1024 cut take 1.26 of the time (LOG, numbers of the target)."""

    min_length: int = 1024
    """Elements of each result from which its sum is cut: 600 in each of 900 columns cut take 1.46
    of the time, 16,000 in each of four rows uncut 1.57 (LOG, numbers of the target)."""

    parts: int = 64
    """Parts of a reduction: enough for 64 threads, and a number that does not depend on threads, so
    neither do sums. The error of sums of 64 parts is a tenth (LOG, sixth round)."""

    min_parts: int = 16
    """Parts below which a number that divides the length is not taken."""

    max_block_elements: int = 1 << 20
    """Elements of a block of wide columns up to which one work item does it: a third of a
    millisecond."""

    min_block_rows: int = 64
    """Rows of a block of wide columns: one partial result is stored for each (LOG, sixth round)."""

    min_blocks: int = 4
    """Blocks of wide columns below which one loop does them as well."""

    def parts_of(self, length: int) -> int:
        """Return the number of parts of a row, which divides its length if possible."""
        fitting = [n for n in range(self.min_parts, 4 * self.parts + 1) if length % n == 0]
        return min(fitting, key=lambda n: abs(n - self.parts), default=self.parts)

    def blocks_of(self, outer: int, length: int, inner: int) -> int:
        """Return the number of blocks that rows of wide columns are cut into, 1 for none.

        It is a divisor of their number.
        """
        columns = max(outer, inner // self.min_columns, 1)
        wanted = min(length // self.min_block_rows, self.parts // columns)
        elements = length * min(inner, self.min_columns)
        if elements <= self.max_block_elements or wanted < self.min_blocks:
            return 1
        fitting = [n for n in range(self.min_blocks, 2 * wanted + 1) if length % n == 0]
        return min(fitting, key=lambda n: abs(n - wanted), default=1)

    max_concatenated_operands: int = 64
    """Operands of a concatenation that one expression combines instead, each from an array of its
    own. More are written into one array first, which costs each element one more store and load.
    With 40 a run takes 0.5 of XLA's time (LOG, reductions of concatenations)."""

    max_split_reductions: int = 4
    """Shapes among these operands, each of which has a kernel of its own: 8 shapes compile three
    times as long as one array, 40 take 1.6 s, and none of them run much faster (same section)."""

    joins_in_f64: bool = True
    """True where partial sums of f32 are added up in f64."""

    min_window_elements: int = 9
    """Elements of a window from which it is reduced as a row. Smaller ones are combined in the loop
    over results, which becomes vectors of these: windows of 3x3 are the largest that are unrolled
    (LOG, fifth round)."""

    min_window_row: int = 32
    """Elements beside a window's that are added as rows: shorter rows are no vectors."""


@dataclasses.dataclass(frozen=True, slots=True)
class ThinDots:
    """Choice of the products with few vectors that are computed without packing the matrix.

    The figures are those of the section on products with few rows in LOG.
    """

    max_inner_vectors: int = 48
    """Vectors up to which a matrix is multiplied along its rows without packing it. 8, 16, 32
    vectors: 0.33, 0.33, 0.52 ms packed, 0.15, 0.25, 0.46 without; from 56 on they are equal."""

    max_outer_vectors: int = 2
    """The same along its columns. 4 vectors: 21 us, 14 by tiles (LOG, products of few rows by
    tiles)."""

    min_matrix_bytes: int = 1 << 16
    """Bytes of a matrix below which it stays in L1 or L2, and packing it costs little."""

    min_inner_bytes: int = 1 << 9
    """Bytes of a row from which adding up partial sums costs less than packing the matrix."""

    few_vectors: int = 8
    """Vectors up to which packing is so much of the time that shorter rows are multiplied, too."""

    min_inner_bytes_of_few: int = 1 << 8
    """The same as `min_inner_bytes` for at most `few_vectors`: rows of 256 bytes."""

    min_outer_bytes: int = 1 << 8
    """Bytes of a row below which setting up its products takes longer than they do."""

    outer_piece_bytes: int = 1 << 9
    """Fewest bytes of a piece of a row where a product along columns is divided."""

    min_outer_pieces: int = 4
    """Pieces that a matrix of more than `max_undivided_bytes` has to have, so that threads share
    it. Rows that are nearly as long as the matrix is deep have them; tall matrices do not."""

    max_undivided_bytes: int = 1 << 20
    """Bytes of a matrix up to which one work item multiplies it along columns, or along rows that
    are fewer than `min_sums`."""

    min_sums: int = 4
    """Sums of products with one vector below which a matrix of more than `max_undivided_bytes` is
    summed in parts by a reduction: a thin product is not divided along its sums (LOG, benchmark
    rows against the state before)."""

    min_rows_per_vector: int = 8
    """Rows of the matrix for each vector from which the vectors are worth transposing."""

    min_stored_bytes: int = 1 << 20
    """Bytes of a stored matrix from which its product with a vector is a dot, and not a sum that is
    fused with what computes it: more than L2 holds."""


@dataclasses.dataclass(frozen=True, slots=True)
class SmallDots:
    """Choice of the dots that are sums in a loop (LOG, reductions of concatenations)."""

    max_products: int = 384
    """Multiplications for each matrix of a batch up to which a loop is faster than a call of a
    routine, which takes as long as some 500. Routines are as fast from 8 x 8 x 8 on."""

    max_row_products: int = 64
    """The same for each row of a single product, of which routines compute several at once."""

    min_rows: int = 32
    """Rows of a single product from which a loop saves more time than its compilation takes."""


@dataclasses.dataclass(frozen=True, slots=True)
class ConvolutionLayouts:
    """Choice of the convolutions that are transposed to channels last."""

    min_group_features: int = 4
    """Features of a group below which groups are computed side by side, in vectors of features."""

    min_groups: int = 16
    """Groups that make such vectors: as many f32 as the widest register has."""


@dataclasses.dataclass(frozen=True, slots=True)
class ControlFlow:
    """Branches and loops that cost more than what they do.

    Half and twice as much takes 0.96 to 1.02 of the time of programs of some 10 us, a good part of
    which is their call (LOG, numbers of the target).
    """

    max_branch_instructions: int = 16
    """Instructions of a branch that is computed whether it is chosen or not."""

    max_branch_elements: int = 64
    """Elements of what such a branch computes: a few vectors, less than two launches."""

    max_unrolled_iterations: int = 4
    """Iterations up to which a while loop of known length becomes its bodies."""

    max_unrolled_instructions: int = 128
    """Instructions of all unrolled bodies together, which bounds the time of compilation."""

    free_hoisted_bytes: int = 4096
    """Bytes up to which an invariant result of a loop is kept even if it is larger than what it is
    computed from: a page, which stays in L1."""
