"""Tuning parameters of passes, in groups. They are the same for every processor.

Those of reductions and of products with few vectors determine the order of sums. They are not
derived from the machine, so that results have the same bits on each. LOG is
tests/benchmarks/LOG.md, cited by its headings. Limits that only bound the time of compilation are
constants of their passes.
"""

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True)
class Reductions:
    """Reductions split into parts for threads (`passes/reductions/tree_reduction.py`), and windows.

    Windows that do not overlap are reduced as rows (`passes/reductions/disjoint_windows.py`).
    """

    min_elements: int = 1 << 16
    """Smallest reduction, in elements, that is split: it takes one core some tens of microseconds,
    and handing parts to other threads a microsecond or two."""

    min_rows: int = 16
    """Fewest rows that are not split, but each a work item. 16 rows in parts take 1.05 of the time,
    8 and 12 unsplit rows the same (LOG, numbers of the target)."""

    min_columns: int = 1024
    """Fewest columns that are not split, and the columns of a block of wide rows: 4 KiB of f32, a
    page. 1024 columns in parts take 1.26 of the time (LOG, numbers of the target)."""

    min_length: int = 1024
    """Fewest elements per result for which a reduction is split: 600 in each of 900 columns take
    1.46 of the time split, 16,000 in each of four rows 1.57 unsplit (LOG, numbers of the
    target)."""

    parts: int = 64
    """Number of parts of a reduction: enough for 64 threads, and independent of the number of
    threads, as sums depend on it. Sums of 64 parts have a tenth of the error (LOG, sixth round)."""

    min_parts: int = 16
    """Smallest divisor of a row's length that is taken as the number of its parts."""

    max_block_elements: int = 1 << 20
    """Largest block of columns, in elements, that one work item reduces: a third of a
    millisecond."""

    min_block_rows: int = 64
    """Fewest rows of such a block, which stores one row of partial results (LOG, sixth round)."""

    min_blocks: int = 4
    """Fewest blocks of rows that are worth a split: with fewer, one loop takes as long."""

    def parts_of(self, length: int) -> int:
        """Return the number of parts of a row, which divides its length if possible."""
        fitting = [n for n in range(self.min_parts, 4 * self.parts + 1) if length % n == 0]
        return min(fitting, key=lambda n: abs(n - self.parts), default=self.parts)

    def blocks_of(self, outer: int, length: int, inner: int) -> int:
        """Return the number of blocks that the rows of a column reduction are split into, or 1.

        It divides the number of rows.
        """
        columns = max(outer, inner // self.min_columns, 1)
        wanted = min(length // self.min_block_rows, self.parts // columns)
        elements = length * min(inner, self.min_columns)
        if elements <= self.max_block_elements or wanted < self.min_blocks:
            return 1
        fitting = [n for n in range(self.min_blocks, 2 * wanted + 1) if length % n == 0]
        return min(fitting, key=lambda n: abs(n - wanted), default=1)

    max_concatenated_operands: int = 64
    """Most operands of a concatenate whose reduction combines the operands' arrays instead. More
    are concatenated first, which costs one more store and load per element. With 40 operands a run
    takes 0.5 of XLA's time (LOG, reductions of concatenations)."""

    max_split_reductions: int = 4
    """Most distinct shapes among these operands, as each needs a kernel: 8 shapes take three times
    as long to compile as one array, 40 take 1.6 s, and none of them runs much faster (same
    section)."""

    joins_in_f64: bool = True
    """True if partial sums of f32 are added up in f64."""

    min_window_elements: int = 9
    """Smallest window, in elements, that is reduced as a row. Smaller ones are combined in the loop
    over results, which is vectorised: windows of 3x3 are the largest that are unrolled (LOG, fifth
    round)."""

    min_window_row: int = 32
    """Shortest inner dimension, in elements, for windows as rows: shorter is not vectorised."""


@dataclasses.dataclass(frozen=True, slots=True)
class ThinDots:
    """Choice of the products with few vectors that are computed without packing the matrix.

    Figures are from the section on products with few rows in LOG.
    """

    min_tile_row_bytes: int
    """Fewest bytes of a result's row for tiles, half a vector: BLAS computes narrower ones."""

    max_inner_vectors: int = 48
    """Most vectors that a matrix is multiplied with along its rows without packing. 8, 16, 32
    vectors: 0.33, 0.33, 0.52 ms packed, 0.15, 0.25, 0.46 unpacked; equal from 56 on."""

    max_outer_vectors: int = 2
    """The same along its columns. 4 vectors: 21 us, with tiles 14 (LOG, products of few rows by
    tiles)."""

    min_matrix_bytes: int = 1 << 16
    """Smallest matrix, in bytes, that is not packed: packing from L1 or L2 is cheap."""

    min_inner_bytes: int = 1 << 9
    """Shortest row, in bytes: below, adding up partial sums costs more than packing."""

    few_vectors: int = 8
    """Most vectors for which packing takes so long that shorter rows are not packed, too."""

    min_inner_bytes_of_few: int = 1 << 8
    """The same as `min_inner_bytes` for at most `few_vectors`: rows of 256 bytes."""

    min_outer_bytes: int = 1 << 8
    """Shortest row along columns, in bytes: below, the set-up takes longer than the products."""

    outer_piece_bytes: int = 1 << 9
    """Fewest bytes of a piece of a row when a product along columns is divided."""

    min_outer_pieces: int = 4
    """Fewest pieces of a matrix of more than `max_undivided_bytes`, so that threads share it.
    Matrices with rows nearly as long as they are deep have them; tall matrices do not."""

    max_undivided_bytes: int = 1 << 20
    """Largest matrix, in bytes, that one work item multiplies along columns, or along fewer rows
    than `min_sums`."""

    min_sums: int = 4
    """Fewest sums of a product with one vector and a matrix of more than `max_undivided_bytes`.
    Fewer sums are computed in parts by a reduction, as a thin product is not divided along its sums
    (LOG, benchmark rows against the state before)."""

    min_rows_per_vector: int = 4
    """Fewest rows of the matrix per vector for which transposing the vectors pays off, however many
    these are. f32 200 x 2,000 x 40 344 us by tiles, 215 transposed; 7 x 100,000 x 5 112 and 178
    (LOG, sums of deep products in parts)."""

    min_stored_bytes: int = 1 << 20
    """Smallest matrix in memory, in bytes, whose product with a vector is a dot instead of a sum
    that is fused with its producers: more than L2 holds."""


@dataclasses.dataclass(frozen=True, slots=True)
class SmallDots:
    """Choice of dots that are loop nests (LOG, reductions of concatenations)."""

    max_products: int = 384
    """Most multiplications per matrix of a batch for which a loop is faster than a call of a
    routine, which costs as much as some 500. Routines are as fast from 8 x 8 x 8 on."""

    max_row_products: int = 64
    """The same per row of a single product, as routines compute several rows at once."""

    min_rows: int = 32
    """Fewest rows of a single product for a loop: it saves more time than its compilation takes."""


@dataclasses.dataclass(frozen=True, slots=True)
class ConvolutionLayouts:
    """Choice of the convolutions that are transposed to channels last."""

    min_group_features: int = 4
    """Fewest features of a group for tiles; smaller groups are vectorised across groups."""

    min_groups: int = 16
    """Fewest groups for vectors across groups: as many f32 as the widest register has."""


@dataclasses.dataclass(frozen=True, slots=True)
class ControlFlow:
    """Conditionals and loops that cost more than the instructions inside.

    With half and twice these bounds, programs of some 10 us, a good part of which is the call, take
    0.96 to 1.02 of the time (LOG, numbers of the target).
    """

    max_branch_instructions: int = 16
    """Most instructions of a branch that is computed unconditionally, followed by a select."""

    max_branch_elements: int = 64
    """Most elements of such a branch's results: a few vectors, less time than two launches."""

    max_unrolled_iterations: int = 4
    """Most iterations of a while loop of known length that is unrolled."""

    max_unrolled_instructions: int = 128
    """Most instructions of all unrolled bodies together, which bounds the time of compilation."""

    free_hoisted_bytes: int = 4096
    """Largest invariant of a loop, in bytes, that is hoisted even if it is larger than its
    operands: a page, which stays in L1."""
