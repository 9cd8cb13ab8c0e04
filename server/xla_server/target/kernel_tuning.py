"""Tuning parameters of kernels that are not plain loop nests, in groups.

LOG is tests/benchmarks/LOG.md, cited by its headings. Operations are in units of an addition.
"""

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True)
class FourierTransforms:
    """Choice and division of Fourier transforms (codegen/lower/fft*.py).

    They affect rounding, so none is derived from the machine. Costs are in vector instructions.
    Figures are from the section on Fourier transforms in LOG.
    """

    max_block_elements: int = 4096
    """Largest transform, in elements, of one block: two blocks are a mebibyte with vectors of 64
    bytes, which fits L2. Splitting lines of 2048 to 4096 elements took 1.2 to 2 times as long."""

    max_cut_factor: int = 61
    """Largest prime factor of lines that are always transformed directly, split if they are long;
    for larger ones a convolution may cost less."""

    kernel_cost: int = 3000
    """Cost of one more kernel, at whose end threads wait for each other: about a microsecond."""

    idle_blocks: float = 0.5
    """Average time that a thread waits at the end of a kernel for others, in blocks."""

    max_full_table: int = 1 << 14
    """Most roots of unity of a split line that are all stored in a table. Larger tables leave the
    cache, so longer lines compute each root as the product of two."""

    min_fused_lines: int = 8
    """Fewest lines for which both kernels of a split line are one kernel with a work item per line:
    threads need several to share. 16,000 points: 2.9 ms in two kernels, 0.7 in one."""

    max_fused_bytes: int = 1 << 19
    """Largest line, in bytes, of such a kernel: the rest of L2 holds its blocks."""

    item_vectors: int = 256
    """Vectors of a work item that multiplies elements: 32 KiB of 64-byte vectors, about an L1."""

    item_elements: int = 1 << 13
    """Elements of a work item that only moves elements: 64 KiB of c64."""


@dataclasses.dataclass(frozen=True, slots=True)
class Scatters:
    """Division of scatters into work items (codegen/lower/scatter*.py, select_and_scatter.py).

    Results have the same bits as with one work item. Figures are from the sixth round in LOG.
    """

    max_ranges: int
    """Most ranges of a result, each owned by a work item that reads all indices: two for each core,
    and at least 16. Two cores gain up to 1.4, with 20 to 50 % more processor time."""

    column_items: int
    """Work items among which the last dimension is divided: two for each core, and at least four.
    Scatter-add of 4096 rows on two cores: 1.25 to 1.5 of XLA's time undivided, 0.7 to 0.85 in
    quarters (LOG, second round)."""

    min_work: int = 1 << 18
    """Fewest operations for which a division pays off: some tens of microseconds."""

    item_work: int = 1 << 15
    """Operations of a work item if its length is free: about a sixth of a chunk."""

    columns: tuple[int, int] = (64, 256)
    """Fewest and most elements of the last dimension in a work item: with short runs of many rows
    the overhead is larger than the gain by threads."""

    range_updates: int = 16
    """Cost of one more range, in update elements: it skips the index vectors of the other
    ranges."""

    cached_bytes: int = 1 << 22
    """Largest result, in bytes, into which updates are combined as soon as their range is known: it
    stays in a cache."""

    min_cached_updates: int = 64
    """Fewest update elements per index vector for which ranges of such a result pay off. With 16,
    ranges took 1.1 to 2.1 times as long as one work item, with 63 1.3 to 1.6 times (LOG, scatters
    into caches)."""

    piece_bytes: int = 4096
    """Block size, in bytes, of a result's cyclic assignment to work items: a page."""

    listed_vectors: int = 1024
    """Index vectors that are tested before the updates of the matching ones are combined: 8 KiB of
    L1. A branch per vector in one loop was slower."""

    selected_columns: int = 64
    """Elements of the last dimension in one work item of a select-and-scatter. With 16 it takes
    1.04 to 1.26 of the time, with 128 and 256 1 to 1.28 (LOG, numbers of the target)."""


@dataclasses.dataclass(frozen=True, slots=True)
class Concatenates:
    """Kernels that copy the operands of a concatenate (codegen/lower/loop_nests/concatenate.py).

    Figures are from the section on concatenates of any number of operands in LOG.
    """

    min_call_bytes: int = 128
    """Shortest run of an operand in a row, in bytes, that is copied by a call, so that the result
    is written row by row. Shorter runs are copied by one loop over all rows for each operand."""

    max_loop_operands: int = 8
    """Most operands that a vectorised loop interleaves faster than tiles do."""

    min_tile_row_bytes: int = 32
    """Shortest row of a tile, in bytes, with which tiles interleave that few operands as fast."""

    max_joined_copies: int = 4
    """Most operands in memory that are copied by the loops that compute the other operands."""

    block_bytes: int = 1 << 14
    """Size of a block of rows that is written operand by operand, in bytes: half of an L1."""

    min_block_rows: int = 16
    """Fewest rows of such a block, so that each operand's loop is long enough."""


@dataclasses.dataclass(frozen=True, slots=True)
class Transposes:
    """Transposes by tiles of registers (codegen/lower/movement/transpose.py)."""

    min_elements: int = 256
    """Smallest transpose, in elements, for tiles. In an elementwise loop 32 x 32 takes 1.05 of the
    time of tiles, 64 x 64 1.17, smaller ones 0.98 to 1.01 (LOG, numbers of the target)."""

    block_bytes: int = 128
    """Size of a row in a block of tiles, in bytes: two cache lines, which are fetched together."""

    max_thin: int = 7
    """Most rows, or columns, of a thin matrix, which is copied by a loop over the other dimension
    that LLVM vectorises: with 4 rows 0.06 to 0.7 of the time of tiles (LOG, matrices of few
    columns)."""

    thin_run: int = 1024
    """Elements of each row, or column, that such a loop copies in a work item. With 256 and with
    4096, images of three channels take 1.3 of the time (same section of the log)."""

    min_blocks: int = 8
    """Fewest blocks of a matrix that are calls of one shared function, from unoptimised code:
    compilation takes 6 to 8 ms, inlined 20 to 40 (LOG, sixth round)."""


@dataclasses.dataclass(frozen=True, slots=True)
class LinearAlgebra:
    """Division of sorts, scans, factorisations and solutions of linear systems."""

    row_slots: int
    """Number of rows or matrices that are sorted or factored in parallel, each with its own scratch
    memory."""

    solver_items: int = 8
    """Work items of many right-hand sides of one triangular matrix: four for each of two cores.
    They do not grow with the cores, as the last bits of BLAS's results depend on the division."""

    min_item_systems: int = 512
    """Fewest right-hand sides of such a work item, each of which reads the triangle again."""

    transposed_rows: int = 16
    """Rows and columns of a transposed block: sixteen f32 are a cache line, and source and target
    stay in L1."""

    scan_columns: int = 128
    """Neighbouring columns of a work item of a scan. The cumulative sum of columns takes 0.2 of
    XLA's time (LOG, seventh round)."""


@dataclasses.dataclass(frozen=True, slots=True)
class SmallLoops:
    """While loops over a few numbers that are compiled to one kernel (lower/control/small_loop.py).

    A loop of 1e5 iterations takes 10 times XLA's time if each kernel is a thunk of the executor,
    0.8 as one kernel (LOG, second round).
    """

    max_registers: int = 48
    """Most scalars of the state, in registers or, if these are too few, spilled."""

    max_instructions: int = 400
    """Most instructions of body and condition, which bounds the time of compilation."""

    max_elements: int = 16
    """Most elements of an array that become scalars of the state, and of an update of a larger
    array: each is computed separately. Twelve loops over 16 elements take 0.25 to 0.71 of the time
    in thunks, and as long to compile (LOG, short states of loops)."""

    max_work: int = 2048
    """Longest iteration, in additions. An iteration of 930 on scalars takes over twice as long in
    thunks as in one kernel (LOG, numbers of the target). In longer ones launches matter less, and
    threads may pay off."""

    max_array_work: int = 320
    """The same if an array of the state has four elements or more, which thunks compute in vectors.
    With four elements, iterations of 280 and 740 take 1.1 and 0.67 of the kernel's time in thunks
    (same section)."""

    max_counted_work: int = 0
    """Most operations of all iterations of a GPU's loop of known length that does not poll the
    cancellation flag; with 0 every loop polls."""


@dataclasses.dataclass(frozen=True, slots=True)
class LlvmPasses:
    """LLVM's optimisation of a kernel (codegen/compiler/kernel_compiler.py)."""

    speed_level: int = 3
    """LLVM's -O level. -O2 does not unswitch loops, so that the bounds tests of windows stay
    inside: max pool and depthwise convolution took 5 to 12 times as long (LOG, the CPU compiler,
    second round)."""
