"""Numbers of the kernels that have forms of their own, in groups.

LOG is tests/benchmarks/LOG.md, by its headings. Operations are those of a loop nest: an addition is
one.
"""

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True)
class FourierTransforms:
    """Choice and division of Fourier transforms (codegen/lower/fft*.py).

    They decide how numbers are rounded, so none follows from a machine. Costs are in vector
    instructions. Figures are those of the section on Fourier transforms in LOG.
    """

    max_block_elements: int = 4096
    """Elements of a block transform: two blocks are a mebibyte with vectors of 64 bytes, which fits
    L2. Cutting lines of 2048 to 4096 elements took 1.2 to 2 times as long."""

    max_cut_factor: int = 61
    """Prime factor up to which lines of any length are cut, and none is transformed by a
    convolution."""

    kernel_cost: int = 3000
    """Cost of one more kernel: threads meet at its end. About a microsecond."""

    idle_blocks: float = 0.5
    """Blocks that a thread waits for at the end of a kernel, on average, while others finish."""

    min_used_lanes: float = 0.6
    """Share of lanes below which lines are gathered across outer dimensions. A gather costs as much
    as the passes of a short line: gathered always, rows took 2 to 8 times as long."""

    max_full_table: int = 1 << 14
    """Roots of a cut line up to which each has its own: longer
    tables leave the cache, and each root is the product of two."""

    min_fused_lines: int = 8
    """Lines from which both kernels of a cut are one whose work items are lines, so that threads
    have some to share. 16,000 points: 2.9 ms in two, 0.7 in one."""

    max_fused_bytes: int = 1 << 19
    """Bytes of a line up to which that is done: so much of L2 stays for its blocks."""

    item_vectors: int = 256
    """Vectors of a work item that multiplies: 32 KiB of f32 with vectors of 64 bytes, an L1."""

    item_elements: int = 1 << 13
    """Elements of a work item that only moves them: 64 KiB of c64."""


@dataclasses.dataclass(frozen=True, slots=True)
class Scatters:
    """Division of scatters into work items (codegen/lower/scatter*.py, select_and_scatter.py).

    The bits of a result are those of one work item. Figures are those of the sixth round in LOG.
    """

    max_ranges: int
    """Ranges of a result that work items own, each of which goes through all indices: one for each
    thread, and at least 16. Two cores gain up to 1.4, with 20 to 50 % more processor time."""

    column_items: int
    """Work items that neighbours along the last dimension are divided among: two for each core, and
    at least four. Scatter-add of 4096 rows: 1.25 to 1.5 of XLA's time before, 0.7 to 0.85 by
    quarters on two cores (LOG, second round)."""

    min_work: int = 1 << 18
    """Operations below which dividing costs as much as it gives, some tens of microseconds."""

    item_work: int = 1 << 15
    """Operations of a work item where its length is free: half of a chunk."""

    columns: tuple[int, int] = (64, 256)
    """The fewest and the most of these neighbours: short pieces of many rows cost more than threads
    gain."""

    range_updates: int = 16
    """Update elements that take as long as what each further range costs: going past an index
    vector that is another's, and past its updates."""

    cached_bytes: int = 1 << 22
    """Bytes of a result up to which an element is combined as soon as it is known whose it is: it
    is in a cache."""

    min_cached_updates: int = 64
    """Update elements of an index vector from which ranges of such a result pay off. Those of 16
    took 1.1 to 2.1 times as long as all of them in order, those of 63 1.3 to 1.6 times (LOG,
    scatters into caches)."""

    piece_bytes: int = 4096
    """Bytes of the pieces of a result that work items own in turn: a page."""

    listed_vectors: int = 1024
    """Index vectors that are tested before the updates of those found are combined: 8 KiB of L1.
    A branch for each vector, in the same loop, lost."""

    selected_columns: int = 64
    """Neighbours along the last dimension in one work item of a select-and-scatter. 16 take 1.04 to
    1.26 of the time, 128 and 256 1 to 1.28 (LOG, numbers of the target)."""


@dataclasses.dataclass(frozen=True, slots=True)
class Concatenates:
    """Kernels that copy the operands of a concatenate (codegen/lower/loop_nests/concatenate.py).

    Figures are those of the section on concatenates of any number of operands in LOG.
    """

    min_call_bytes: int = 128
    """Bytes of an operand's run in a row from which a call copies it, so that rows are written in
    turn. Shorter runs of many rows are copied by one loop for each operand."""

    max_loop_operands: int = 8
    """Operands up to which a loop's vectors interleave narrow elements faster than tiles do."""

    min_tile_row_bytes: int = 32
    """Bytes of a tile's row from which tiles interleave elements of so few operands as well."""

    max_joined_copies: int = 4
    """Operands in memory that are copied by the loops that compute the others."""

    block_bytes: int = 1 << 14
    """Bytes of the rows that are written operand by operand: half of an L1."""

    min_block_rows: int = 16
    """Rows of such a block at least, so that each operand's loop is long enough."""


@dataclasses.dataclass(frozen=True, slots=True)
class Transposes:
    """Transposes by tiles of registers (codegen/lower/movement/transpose.py)."""

    min_elements: int = 256
    """Elements below which a loop over elements is as good: 32 x 32 takes 1.05 of the time in one,
    64 x 64 1.17, smaller ones 0.98 to 1.01 (LOG, numbers of the target)."""

    block_bytes: int = 128
    """Bytes of a row in a block of tiles: two lines of the cache, which are fetched together."""

    max_thin: int = 7
    """Rows or columns up to which a matrix is copied by a loop over the others, which LLVM makes
    vectors of: 0.06 to 0.7 of the time of tiles with 4 of them (LOG, matrices of few columns)."""

    thin_run: int = 1024
    """Elements of each row or column that such a loop copies in a work item. Images of three
    channels take 1.3 of the time with 256 and with 4096 (same section of the log)."""

    min_blocks: int = 8
    """Blocks of a matrix from which they are calls of one shared function, in code that is not
    optimised: 20 to 40 ms of compilation before, 6 to 8 after (LOG, sixth round)."""


@dataclasses.dataclass(frozen=True, slots=True)
class LinearAlgebra:
    """Division of sorts, scans, factorisations and solutions of linear systems."""

    row_slots: int
    """Number of rows or matrices that are sorted or factored side by side, each in scratch memory
    of its own."""

    solver_items: int = 8
    """Work items of many systems with one triangle: four for each of two cores. More cores have no
    more, as the last bits of what BLAS computes depend on where the systems are divided."""

    min_item_systems: int = 512
    """Systems of such a work item at least, each of which reads the triangle again."""

    transposed_rows: int = 16
    """Rows and columns that are transposed together: sixteen f32 are a line of the cache, and both
    sides stay in L1."""

    scan_columns: int = 128
    """Neighbouring columns of a work item of a running reduction. The cumulative sum of columns
    takes 0.2 of XLA's time (LOG, seventh round)."""


@dataclasses.dataclass(frozen=True, slots=True)
class SmallLoops:
    """While loops of a few numbers that are one kernel (codegen/lower/control/small_loop.py).

    A while of 1e5 iterations takes 10 times as long as XLA's when each kernel is a row of the
    executor, 0.8 as one kernel (LOG, second round).
    """

    max_registers: int = 48
    """Numbers of the state that are kept in registers and, if they are more, on the stack."""

    max_instructions: int = 400
    """Instructions of body and condition, which bounds the time of compilation."""

    max_elements: int = 8
    """Elements of an array that are numbers of the state, and of an update of a larger one: each is
    computed by itself."""

    max_work: int = 2048
    """Time of an iteration in additions. Scalars that take 930 run twice as long as rows of the
    executor (LOG, numbers of the target); longer iterations lose less, and may want threads."""

    max_array_work: int = 320
    """The same where an array of the state has four elements or more, which rows compute as
    vectors. 280 and 740 for four elements: 1.1, 0.67 of the time as rows (same section)."""

    max_counted_work: int = 0
    """Operations of all iterations up to which a device's loop of known length does not poll the
    cancellation flag; with 0 every loop does."""


@dataclasses.dataclass(frozen=True, slots=True)
class LlvmPasses:
    """LLVM's optimisation of a kernel (codegen/compiler/kernel_compiler.py)."""

    speed_level: int = 3
    """LLVM's -O level. -O2 does not unswitch loops, so that the bounds tests of windows stay
    inside: max pool and depthwise convolution took 5 to 12 times as long (LOG, the CPU compiler,
    second round)."""
