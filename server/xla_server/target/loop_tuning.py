"""Tuning parameters of loop nests, in groups.

LOG is tests/benchmarks/LOG.md, cited by its headings. Operations are in units of an addition.
"""

import dataclasses

MAX_UNROLLED_ITERATIONS = 8
"""Most iterations of a loop of known length that is unrolled, so that tests of its index are
constants. It is a constant and not tuned: unrolled sums are added up in order, so that results have
the same bits on every target."""


@dataclasses.dataclass(frozen=True, slots=True)
class Chunks:
    """Division of a launch into chunks of work items, one call each (builders/launches/chunks.py).

    The number of chunks follows from the work alone, not from the number of cores.
    """

    parallel_work: int = 3 << 16
    """Time of a chunk in additions (analysis/counts.py): 2 to 3 us of vector instructions. To wake
    a thread takes about as long on an idle machine, several times that in a virtual one, so a
    launch of fewer than two chunks is one call (LOG, reductions of concatenations)."""

    aligned_items: int = 64
    """Chunks of at least this many work items are multiples of it: a cache line even of bytes."""

    prologue_share: int = 8
    """A chunk's work items cost at least this many times its prologue, so that the prologue, which
    each chunk executes again, adds at most an eighth (LOG, a value is computed once)."""


@dataclasses.dataclass(frozen=True, slots=True)
class HelperThreads:
    """Threads that execute chunks for the threads of executions (runtime/threads.py)."""

    polls: int = 300
    """Looks for the next loop, with a pause after each, before a helper sleeps; and looks whether
    helpers have ended, before their caller yields its core. They take about 8 us together. 1000
    take 0.88 to 1.0 of the time, but up to 1.15 where others use the cores (LOG, short kernels on
    several threads)."""


@dataclasses.dataclass(frozen=True, slots=True)
class DoubleBuffers:
    """Loops of two iterations, which need no copies of their state (buffers/double_buffers.py)."""

    min_copied_bytes: int = 8
    """Fewest bytes of the state that an iteration copies, for each of its thunks, which bounds the
    code that is added for short copies. Loops over 24 to 63 elements, 12 to 28 bytes for each,
    take 0.75 to 0.9 of the time (LOG, double buffering of loops)."""

    max_added_bytes: int = 1 << 12
    """Most bytes that are added to a small arena for values of the second iteration: a page."""

    max_added_share: int = 16
    """Divisor of a larger arena for the same."""


@dataclasses.dataclass(frozen=True, slots=True)
class Pieces:
    """Splitting of loop nests where the operands of a concatenate meet, and at the edges of a pad.

    Split, a concatenate and a pad take half of the processor time (LOG, third round).
    """

    blocks: int
    """Fewest work items for which rows are not split into blocks: two per core, at least 64."""

    min_rows: int
    """Fewest rows, each made of runs, for threads to share: two per core, and at least 16."""

    min_elements: int = 64
    """Smallest result, in elements, for code per piece, at `few_tests` tests per element or fewer,
    in a kernel that no loop runs many times. For smaller ones testing each index costs less; in
    loops, pieces of 12 to 63 elements take 0.34 to 0.99 (LOG, short states of loops)."""

    min_costly: int = 2048
    """The same for code that is long to duplicate, with an operation of more than `costly`
    additions. Half of f32[4,4,16] rotated, times sines
    and cosines, took eight times as long to compile."""

    costly: int = 12
    """Cost of an operation, in additions, above which its code counts as long: that of a square
    root. Functions that cost more take a page of code."""

    few_tests: int = 4
    """Tests per element for which `min_elements` and `min_costly` hold; with more tests both shrink
    in proportion."""

    max_runs: int = 24
    """Most loops into which one nest is split, and most boxes of a result that one kernel computes.
    Concatenates of more operands are several kernels: before, their operands were tested for each
    element (LOG, concatenates of any number of operands)."""

    edge_parts: int = 16
    """Divisor of a dimension. If there are too many splits, those are left out whose pieces on both
    sides are shorter than the dimension divided by this. A sum of 13 rolls of f32[67,4246] took 2.4
    of XLA's time before, 0.15 after (LOG, three sweeps with new seeds)."""

    max_nodes: int = 1500
    """Most operations in all loops of one nest, which bounds the time of compilation."""

    max_small: int = 4096
    """Most elements of a nest that is bound by `max_copies`, if it is not repeated: the launch
    takes longer than the tests that stay. With 100,000 elements a filter of 15 taps over rows of
    200 took 1.3 times as long (LOG, cold compilation by class)."""

    min_bound_row: int = 1024
    """Shortest dimension, in elements, of a larger nest that is bound by `max_copies`: the edges of
    windows are a small part of it. A filter of 14 taps over 5 rows of 6849 took 340 ms to compile
    in 14 parts, 110 in three, and as long to run (LOG, edges of filters)."""

    max_copies: int = 4
    """Most copies of such a nest's operations in all loops, unless parts between cuts have
    `min_part` elements. A filter of n taps over a padded row has n cuts side by side, so n copies
    of n operations: 15 taps took 1.4 times as long to compile (same section)."""

    min_copied_nodes: int = 200
    """Most operations in all loops for which `max_copies` does not hold."""

    min_part: int = 16
    """Elements of a part that is worth its copy: those of a vector of f32."""

    max_plain: int = 1024
    """Most elements of a kernel that is compiled without vectorisation: vectors would save less
    than a microsecond or two, and take most of its time of compilation. Kernels inside a while loop
    are always optimised: six computed parts, 960 elements together, took 6 times XLA's time without
    vectors, 0.8 with (LOG, whole models)."""

    max_row: int = 1 << 14
    """Longest run of a row, in elements, that is computed row by row with others. Longer ones are
    pieces of their own, without loss."""

    block: int = 1024
    """Fewest elements of a part of a long loop in one work item, if there are few others: a page of
    f32."""

    min_item_elements: int = 64
    """Elements of a work item below which one more loop is moved into it. A padded tile of
    f32[100,20,3] took 144 us by rows of three, 48 with 64 or 256 elements (LOG, short rows of
    pieces)."""

    min_call_bytes: int = 512
    """Shortest run, in bytes, that a call copies: 8 to 14 % less time for unaligned rows, no
    difference for aligned ones (LOG, fourth round)."""


@dataclasses.dataclass(frozen=True, slots=True)
class WindowTiles:
    """Tiles on the stack in which windows are combined (schedules/nests/window_tiles.py).

    They are not derived from the machine, as the order of sums depends on them.
    """

    tile_bytes: int = 1 << 15
    """Target size of a tile, in bytes: an L1 of 32 KiB, or most of one of 48 KiB."""

    max_stack_bytes: int = 1 << 18
    """Most bytes of stack for the tiles of one kernel."""

    min_tiles: int = 32
    """Fewest tiles of an array, if each of them has at least `min_tile_bytes`."""

    min_tile_bytes: int = 1 << 12
    """Smallest tile, in bytes, into which an array is split to reach `min_tiles`: a page."""

    segment_bytes: int = 1 << 10
    """Bytes of the innermost axis of a tile if windows cover several rows: long enough for vector
    loops, short enough for many rows in a tile."""

    min_segment_bytes: int = 64
    """Lower bound of the same, for windows over so many rows that more exceeds the stack."""

    max_taps: int = 64
    """Most operands of a combination, which is fully unrolled."""

    short_row: int = 64
    """Shortest row of a tile with a loop of its own, in elements; shorter rows share one loop."""


@dataclasses.dataclass(frozen=True, slots=True)
class LoopNests:
    """Loop nests: sizes of work items, and limits of row buffers, calls and interleaving."""

    chunks: Chunks
    pieces: Pieces
    windows: WindowTiles
    min_items: int
    """Fewest work items left when inner loops join a work item: two per core, at least 64."""

    max_shuffled_run: int
    """Most elements of a run that is copied by a loop over work items: none on processors with mask
    registers, whose vectors LLVM fills and stores under masks. Slices `x[:, :k]` of 3 to 8 f32 took
    0.44 to 0.85 of the time as copies there; with AVX2 1.0 to 1.26 for k to 3, 0.46 to 0.49 from 5
    (LOG, narrow slices)."""

    item_elements: int = 64
    """Elements of a work item below which one more loop is moved into it: the index of a work item
    takes a division for each loop outside it. A transpose of f16[2,8,16,32,7] took 2.5 of XLA's
    time before, 1.3 after (LOG, a value is computed once)."""

    spill_work: int = 8
    """Cost of a store and a load of a row buffer's element, in additions. With the exponentials of
    a softmax in a row buffer: 1.56 of XLA's time before, 0.6 to 0.9 after (LOG, second round)."""

    max_row_buffer_bytes: int = 1 << 18
    """Most bytes of stack for the row buffers of one kernel."""

    column_block: int = 1024
    """Neighbouring results of a work item that reduces columns: 4 KiB of f32. 2.0 ms, with blocks
    of 128 11.3 (LOG, sixth round)."""

    min_call_columns: int = 64
    """Fewest neighbouring sums that are initialised or joined by a call: fewer may be in
    registers."""

    min_call_elements: int = 4096
    """Fewest elements of a work item for which the time of these calls is negligible."""

    row_group_work: int = 32
    """Most additions for one column when several rows are combined in one iteration: eight rows of
    one addition each, two of costly functions, whose copies would take longer to compile than they
    save (LOG, narrow columns)."""

    max_short_row: int = 64
    """Longest row, in elements, for which values computed once per row are computed for many rows
    in one vector loop: a fifth less run time (LOG, third round)."""

    short_row_block: int = 64
    """Short rows whose per-row values are computed together: four vectors of f32 of 64 bytes."""

    min_head_work: int = 6
    """Smallest cost, in additions, of the dearest of these per-row values: a division."""

    max_copied_run: int = 64
    """Most bytes of a contiguous run that a few instructions copy, instead of a loop. Runs of five
    f32 of [20,50000,5]: 5.7 of the time without; 80 bytes and more: as long (LOG, short runs)."""

    max_shuffled_stride: int = 8
    """Most elements from run to run for which LLVM vectorises the loop around it by shuffles. Such
    a loop stays inside of a work item: copied instead, repeats of rows by 60 and slices of
    [30,39,25,2] took 1.0 to 2.1 of the time (same section)."""

    max_interleaved: int = 8
    """Most adjacent elements that one iteration computes because the tests of their indices are
    periodic. An associative scan: 1.71 of XLA's time before, 0.26 after (LOG, third round)."""

    min_interleaved_elements: int = 16
    """Shortest last dimension, in elements, for which interleaving is worth its code."""

    gather_work: int = 64
    """Cost of dividing the indices of a vector and gathering its elements, in operations. Rows of
    up to three elements of one exponential become one loop (LOG, rows of fewer elements than a
    vector)."""

    max_unoptimised_work: int = 256
    """Most operations of a kernel of one element that is compiled without optimisation: the sum of
    64 partial sums, 195 operations, takes LLVM 6.5 ms with optimisation, 1.2 without (LOG, eighth
    round)."""

    max_repeated_unoptimised_work: int = 16
    """The same inside a while loop, which runs the kernel many times: 810 iterations over 62
    numbers took 3.1 of XLA's time, optimised 0.5 (LOG, a value is computed once)."""


@dataclasses.dataclass(frozen=True, slots=True)
class ShortLoops:
    """Loops with metadata about vectorisation (codegen/emit/loop_metadata.py).

    LLVM by itself vectorises none of fewer than 16 iterations, and runs the iterations that do not
    fill a vector one by one. Quotients of rows of 9 to 15 took 2.9 to 3.3 of XLA's time before,
    0.3 to 0.7 after (LOG, short rows of several results).
    """

    vector_elements: int = 16
    """Elements of 32 bits in a vector of 64 bytes, the widest of all processors."""

    max_iterations: int = 64
    """Fewest iterations of a loop without a request, unless masks gain: the remainder is a small
    part of it."""

    max_masked_iterations: int = 128
    """The same of a loop with masks whose iterations leave more than half of a vector, of elements
    of 32 bits or fewer: the remainder of longer ones LLVM makes vectors of. Functions of rows of 73
    to 127 elements took 1.0 to 2.2 times as long without masks, f64 0.8 to 1.3 (LOG, masks of
    longer rows)."""

    elements_apart: int = 8
    """Vector width, in elements, of sums whose elements are loaded one by one. With four
    interleaved vectors of 16, sums of runs of four took five times as long to compile, and a third
    longer to run (LOG, cold compilation of new draws). Fewer sums have no vector: seven states of a
    scan, under masks, took 42 KB and six times as long to compile (LOG, copies count)."""

    max_group_stride: int = 8
    """Largest stride, in elements, that LLVM loads and stores as interleaved vectors, its
    `-max-interleave-group-factor`. Heads of a graph attention network, 32 apart, took three times
    as long to compile as vectors, and as long to run. Rows of four elements run in half the time
    as vectors (LOG, loops at a stride)."""

    max_gathers: int = 8
    """Different loads at computed indices up to which work items that store at a stride, or at
    computed indices, are vectorised. With 10 to 12, kernels of an associative scan had 31 to 43 KB
    of code and took 300 to 380 ms in LLVM, 30 without vectors, and as long to run. Copies of rows
    have up to three, and ran 1.2 to 1.8 times longer without vectors (LOG, items at computed
    indices). Copies by unrolled loops do not count: pools of 12 to 27 took two to four times as
    long without vectors (LOG, copies share indices)."""
