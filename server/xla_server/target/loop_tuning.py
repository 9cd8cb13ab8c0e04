"""Numbers of loop nests, in groups.

LOG is tests/benchmarks/LOG.md, by its headings. Operations are those of a loop nest: an addition is
one.
"""

import dataclasses

MAX_UNROLLED_ITERATIONS = 8
"""Iterations up to which a loop of known length is unrolled, so that tests of its index are
constants. It is no field: a sum that is unrolled is added up in order, and bits are those of every
target."""


@dataclasses.dataclass(frozen=True, slots=True)
class Chunks:
    """Division of a launch into calls, each of a chunk of work items (builders/launches/chunks.py).

    There are as many chunks as the work has, for any number of cores.
    """

    parallel_work: int = 3 << 16
    """Time of a chunk in additions (analysis/counts.py): 2 to 3 us of vector instructions. To wake
    a thread takes about as long on an idle machine, several times that in a virtual one, so a
    launch of fewer than two chunks is one call (LOG, reductions of concatenations)."""

    aligned_items: int = 64
    """Chunks of at least this many work items are multiples of it: a cache line of bytes or more.
    """

    prologue_share: int = 8
    """A chunk's work items cost at least this many times its prologue, so that the prologue, which
    each chunk executes again, adds at most an eighth (LOG, a value is computed once)."""


@dataclasses.dataclass(frozen=True, slots=True)
class Pieces:
    """Nests cut between the operands of a concatenate, and at the edges of a pad.

    With cuts, a concatenate and a pad take half of the processor time (LOG, third round).
    """

    blocks: int
    """Work items from which rows are not cut into blocks: one for each thread, and at least 64."""

    min_rows: int
    """Rows made of runs from which threads have enough to share: one each, and at least 16."""

    min_elements: int = 64
    """Elements of a result below which testing the index of each costs less than code for each
    piece, at `few_tests` tests per element or fewer."""

    min_costly: int = 2048
    """The same where copies of an operation are long code, one of more than `costly` additions, and
    no loop runs the kernel many times. Half of f32[4,4,16] rotated, times sines and cosines, took
    eight times as long to compile."""

    costly: int = 12
    """Cost of an operation, in additions, above which its code is long: that of a square root.
    Dearer functions take a page."""

    few_tests: int = 4
    """Tests per element that `min_elements` and `min_costly` hold for; both shrink in proportion
    to further tests."""

    max_runs: int = 24
    """Loops that one nest may become, and boxes of a result that one kernel computes. More
    than 24 operands were tested for each element once (LOG, concatenates of any number of
    operands)."""

    edge_parts: int = 16
    """Divisor of a dimension. Where all cuts are too many, those are left out whose pieces on both
    sides are shorter than this fraction of it. A sum of 13 rolls of f32[67,4246] took 2.4 of XLA's
    time before, 0.15 after (LOG, three sweeps with new seeds)."""

    max_nodes: int = 1500
    """Operations in the code of all loops of one nest, which bounds the time of compilation."""

    max_plain: int = 1024
    """Elements of a kernel's loops up to which vectors save less than a microsecond or two, and
    take most of the time to compile it. In loops all have vectors: six computed parts, 960 elements
    together, took 6 times as long as XLA's without, 0.8 with (LOG, whole models)."""

    max_row: int = 1 << 14
    """Elements from which runs of a row are pieces of their own, without loss."""

    block: int = 1024
    """Elements of a long loop that are one work item, if there are few others: a page of f32."""

    min_call_bytes: int = 512
    """Bytes of a run from which a call copies it: 8 to 14 % less for rows that are not aligned,
    nothing for those that are (LOG, fourth round)."""


@dataclasses.dataclass(frozen=True, slots=True)
class WindowTiles:
    """Tiles on the stack in which windows are combined (schedules/nests/window_tiles.py).

    They follow from no machine, as the order of sums depends on them.
    """

    tile_bytes: int = 1 << 15
    """Bytes of a tile's elements that are aimed at: an L1, or most of one of 48 KiB."""

    max_stack_bytes: int = 1 << 18
    """Bytes of the stack that the tiles of one kernel may take."""

    min_tiles: int = 32
    """Tiles that an array is cut into if these have at least `min_tile_bytes` each."""

    min_tile_bytes: int = 1 << 12
    """Bytes of a tile for the sake of more of them: a page."""

    segment_bytes: int = 1 << 10
    """Bytes of the innermost axis if windows cover several rows: enough for long vector loops, and
    few enough for many rows in a tile."""

    min_segment_bytes: int = 64
    """The same at least, where windows over many rows would not fit on the stack with more."""

    max_taps: int = 64
    """Largest number of operands of a combination, each of which is code."""

    short_row: int = 64
    """Elements of a tile's row below which one loop covers all rows and the gaps between them."""


@dataclasses.dataclass(frozen=True, slots=True)
class LoopNests:
    """Loop nests: sizes of work items, and the values that are stored, called or vectorised."""

    chunks: Chunks
    pieces: Pieces
    windows: WindowTiles
    min_items: int
    """Work items that inner loops leave for threads to share: one each, and at least 64."""

    item_elements: int = 64
    """Elements of a work item below which another loop is done inside of it: the index of a work
    item takes a division for each loop around it. A transpose of f16[2,8,16,32,7] took 2.5 of XLA's
    time before, 1.3 after (LOG, a value is computed once)."""

    spill_work: int = 8
    """Operations that take as long as to store an element of a row buffer and load it again. The
    exponentials of a softmax are kept: 1.56 before, 0.6 to 0.9 after (LOG, second round)."""

    max_row_buffer_bytes: int = 1 << 18
    """Bytes of the stack that the row buffers of one kernel may take."""

    column_block: int = 1024
    """Neighbouring results of a work item that reduces columns: 4 KiB of f32. 2.0 ms, 11.3 by
    blocks of 128 (LOG, sixth round)."""

    min_call_columns: int = 64
    """Neighbours from which a run that only begins or joins sums is a call: fewer may stay in
    registers."""

    min_call_elements: int = 4096
    """Elements of a work item from which those calls take none of its time."""

    row_group_work: int = 32
    """Additions for one column, up to which several rows are combined at once: eight rows of one
    addition each, two of costly functions, whose copies would take longer to compile than they save
    (LOG, narrow columns)."""

    max_short_row: int = 64
    """Elements of a row up to which values that it needs once are computed for many rows at a time,
    in vectors: a fifth less run time (LOG, third round)."""

    short_row_block: int = 64
    """Short rows whose shared values are computed at a time: four vectors of f32 of 64 bytes."""

    min_head_work: int = 6
    """Fewest additions that the dearest shared value of a short row takes: those of a division."""

    max_interleaved: int = 8
    """Largest number of interleaved elements whose operations are in one loop body. An associative
    scan: 1.71 of XLA's time before, 0.26 after (LOG, third round)."""

    min_interleaved_elements: int = 16
    """Elements of the last dimension from which that is worth its code."""

    seldom_factor: int = 16
    """Ratio of other evaluations to a value's from which its function is called, not inlined: LLVM
    takes long for a copy of a function.
    """

    called_rows: tuple[int, int] = (6, 32)
    """Fewest and most elements of the rows that functions are called for: softmax of rows of 8
    takes 0.73 of the time, elementwise loops take 4 to 27 % more (LOG, sixth round)."""

    gather_work: int = 64
    """Operations of a vector that take as long as to divide its indices and to gather its elements.
    Rows of up to three elements of one exponential become one loop (LOG, rows of fewer elements
    than a vector)."""

    max_unoptimised_work: int = 256
    """Operations up to which optimising a kernel of one element does not pay: LLVM takes 6.5 ms for
    the sum of 64 partial sums, which has 195 of them, and 1.2 without (LOG, eighth round)."""

    max_repeated_unoptimised_work: int = 16
    """The same inside of a loop, which runs the kernel many times: 810 iterations over 62 numbers
    took 3.1 of XLA's time, optimised 0.5 (LOG, a value is computed once)."""


@dataclasses.dataclass(frozen=True, slots=True)
class ShortLoops:
    """Loops with metadata for LLVM's vectoriser (codegen/emit/loop_metadata.py).

    LLVM by itself vectorises none of fewer than 16 iterations, and runs the iterations that do not
    fill a vector one by one. Quotients of rows of 9 to 15 took 2.9 to 3.3 of XLA's time before,
    0.3 to 0.7 after (LOG, short rows of several results).
    """

    vector_elements: int = 16
    """Elements of 32 bits in a vector of 64 bytes, the widest there are."""

    max_iterations: int = 64
    """Iterations of a loop beyond which the last ones are a small part of it."""

    elements_apart: int = 8
    """Elements of a vector that are loaded one by one, next to copies of the loop. With four
    vectors of 16 at once sums of runs of four took five times as long to compile, and a third
    longer to run (LOG, cold compilation of new draws)."""
