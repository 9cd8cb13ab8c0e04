"""Numbers that compilation is tuned by, in groups: here those of kernels, derived from a machine.

A number that follows from caches or cores is a field that `tuning_of` computes; the others are
defaults, which hold for every machine. LOG is tests/benchmarks/LOG.md, by its headings. Its
machines have two cores; numbers of work items scale from there by the cores.
"""

import dataclasses
import functools

from xla_server.target import fusion_tuning, kernel_tuning, pass_tuning
from xla_server.target.loop_tuning import Chunks, LoopNests, Pieces, ShortLoops, WindowTiles
from xla_server.target.machine import Machine

_MAX_CACHE_SHARE = 256 << 10
_MAX_PRODUCTS = 1 << 32
"""Multiplications that take one core a twentieth of a second: the longest that a cancelled
execution continues, and short enough for threads to end together."""


def cache_share(machine: Machine) -> int:
    """Return the bytes of a block that stays in a core's L2 while other operands pass through.

    It is half of L2, and at most 256 KiB, above which nothing is measured. Boxes of a convolution's
    input that are smaller are no faster (LOG, sixth round), nor are other blocks of rows of a
    product (LOG, third round).
    """
    return min(machine.l2_bytes // 2, _MAX_CACHE_SHARE)


def work_items(machine: Machine, per_core: int) -> int:
    """Return the work items of a large loop: `per_core` for each core, and for two at least."""
    return per_core * max(machine.cores, 2)


def scratch_items(machine: Machine, fewest: int) -> int:
    """Return the work items of a loop in which each has scratch memory of its own.

    They are two for each core, so that memory grows no faster than cores do, and at least `fewest`.
    """
    return max(fewest, 2 * machine.cores)


@dataclasses.dataclass(frozen=True, slots=True)
class MatrixProducts:
    """Blocking of matrix products by register tiles (codegen/lower/contraction/gemm.py)."""

    block_bytes: int
    """Bytes that a work item keeps in its cache share: packed rows of the left operand, and rows of
    the result if sums are short. Larger right operands are packed once for all."""

    work_items: int
    """Number of work items of a large product: four per core. They are cut so that threads end
    together: of 20 tiles the busier of two threads has 10, of 19 it had 11 (LOG, fifth round)."""

    max_rereading_tiles: int
    """Tiles per column up to which each reads the right operand unpacked; with more, the first one
    packs the rows that it reads. Tiles of 32 registers are so tall that reading L2 once more takes
    none of their time: 16 rows 0.97, 1.03 packed (LOG, products of few rows by tiles)."""

    k_block_bytes: int = 4096
    """Depth of a K block in bytes per row of a packed panel. The accumulator tile stays in
    registers within a block. Product of 512 f64: 7 to 11 % less time, together with prefetching
    of the right panel (LOG, fifth round)."""

    max_shallow_depth: int = 128
    """Depth up to which a product is computed row of tiles by row of tiles, in the order of memory.
    [4000,8] x [8,1024]: 2.4 of XLA's time before, 1.0 after (LOG, convolutions of few features)."""

    min_result_ratio: int = 8
    """Bytes of a shallow product's result per byte of the right operand from which it is packed
    ahead: below, packing takes a good part of the time. Three of [1000,3] x [3,1000]: 1802 us by
    columns, 453 by rows (LOG, shallow products with large results)."""

    max_unpacked_tiles: int = 3
    """Tiles per column up to which work items have all rows, and none packs for another. A smaller
    number is as fast (LOG, products with few rows)."""

    max_repacking_blocks: int = 2
    """Blocks of rows up to which each packs the right operand for itself, panel by panel. 64 rows:
    6.0 ms packed in memory, 3.3 on the stack (LOG, products with few rows)."""

    min_wide_ratio: int = 4
    """Columns per row from which a product is divided by columns first. Same row of the log."""

    min_item_products: int = 1 << 20
    """Fewest multiplications of a work item: some tens of microseconds, so that handing it to
    another thread, a microsecond or two, is a small part of it."""

    max_item_products: int = _MAX_PRODUCTS
    """Most multiplications of a work item, whose end a cancelled execution waits for."""

    panels_per_item: int = 4
    """Panels of the right operand that one work item packs. Other numbers gain nothing (LOG, fifth
    round)."""

    packing_steps: int = 128
    """Rows of the right operand that are packed at a time, so that their pages are read together.
    2 rows: 1.8 ms without, 1.0 with (LOG, products with few rows)."""

    max_packed_bytes: int = 64 << 20
    """Largest right operand that is packed ahead where BLAS could multiply it, which packs piece by
    piece: bounds the scratch memory of a product."""


@dataclasses.dataclass(frozen=True, slots=True)
class BlasProducts:
    """Division of matrix products that BLAS computes (codegen/lower/contraction/dot.py)."""

    pieces: int
    """Number of pieces of a large product: eight per core, as BLAS takes longer for some."""

    min_piece_products: int = 1 << 21
    """Fewest multiplications of a piece, as each packs its operands anew."""

    min_piece_size: int = 128
    """Fewest rows or columns of a piece: below, BLAS has no whole blocks."""

    min_products_in_both: int = 1 << 28
    """Multiplications from which rows are divided too where columns give too few pieces: pieces of
    rows pack all of the right operand, which takes half as long again."""

    max_piece_products: int = _MAX_PRODUCTS
    """Most multiplications of a piece, whose end a cancelled execution waits for."""

    unit: int = 16
    """Columns that pieces are multiples of: a vector of the widest registers."""


@dataclasses.dataclass(frozen=True, slots=True)
class ThinProducts:
    """Division of products of a matrix with few vectors (lower/contraction/thin_product.py).

    They are bound by reading the matrix.
    """

    work_items: int
    """Number of work items of a large product: four per core."""

    even_items: int
    """Number of work items of a matrix in memory: 32 per core. Two threads
    cannot share 9 work items evenly; 64 took 10 % less (LOG, products with few rows)."""

    min_item_bytes: int = 64 << 10
    """Fewest bytes of the matrix in a work item."""

    min_even_bytes: int = 1 << 20
    """Fewest bytes of the matrix in each of the even ones."""

    run_bytes: int = 4 << 10
    """Bytes of a row that are multiplied before the next row, for each sum: a page."""

    result_row_bytes: int = 16 << 10
    """Bytes of a row of the result that a work item adds to, half of an L1. It is no smaller where
    L1 is, as the order of sums depends on it."""

    min_streamed_bytes: int = 4 << 20
    """Smallest matrix, in bytes, whose rows are read in sequence if there is one vector: it is in
    no core's cache, and one stream took 15 % less (LOG, products with few rows)."""

    min_streamed_run: int = 256
    """Products of a row below which adding up its partial sums takes as long as they do."""

    step_elements: int = 1 << 22
    """Elements of the matrix between two tests of the cancellation flag where sums are along
    columns."""


@dataclasses.dataclass(frozen=True, slots=True)
class Convolutions:
    """Blocking of convolutions: by register tiles, by Winograd's tiles, and by im2col."""

    input_block_bytes: int
    """Bytes of the padded input for a block of rows: a cache share. Larger ones have scratch memory
    outside of the stack."""

    min_blocks: int
    """Number of blocks of rows, where there are as many: four per core."""

    min_im2col_blocks: int
    """Number of blocks of rows of an im2col matrix, where there are as many: two per core, as each
    is a product of its own."""

    work_items: int
    """Number of work items that blocks are distributed to, each with its own scratch memory."""

    min_products: int = 1 << 14
    """Multiplications from which tiles or products beat a loop nest, though routines are called.
    A nest of 18,400 takes 2.5 of the time, tiles for 4,600 take 0.97 (LOG, numbers of the target).
    """

    min_group_size: int = 4
    """Features of a group from which its part of the kernel is worth multiplying as a matrix."""

    max_row_bytes: int = 256
    """Bytes of a row of the kernel up to which panels are read without packing: four
    lines of the cache, which the processor fetches ahead. Longer rows are packed."""

    min_readings: int = 4
    """Reads of each element of a depthwise convolution's input from which laying it out with its
    zeros takes little of the time. Same-padded stride 2 stays a loop nest (LOG, sixth round)."""

    im2col_elements: int = 1 << 17
    """Elements of an im2col matrix that are copied at once: 512 KiB of f32. It is no smaller where
    L2 is, as the order of sums depends on it."""

    im2col_rows: int = 512
    """Rows of it that are copied at once."""

    min_im2col_depth: int = 64
    """Fewest elements of the depth in a block: below, results are stored and loaded too often."""

    min_winograd_features: int = 16
    """Features of the input and of the result from which transforms cost less than they save. 3x3
    of 8x56x56x64: 0.4 of XLA's time, by tiles 1 (LOG, second round)."""

    min_winograd_results: int = 6
    """Fewest results along a dimension of which tiles of 4x4 results waste little."""


@dataclasses.dataclass(frozen=True, slots=True)
class FreeSums:
    """Lengths of runs of a sum in a free order (codegen/schedules/builders/loop_builder.py).

    A run is added up in the partial sums of a loop, so that each of these has as many elements on
    every processor, and errors have one bound.
    """

    run_elements: int
    """Elements of a run: 16 for each partial sum."""

    long_run_elements: int
    """Elements of a run of a long sum: 2 for each partial sum, so that 2^24 equal numbers have an
    exact sum, as XLA's. With 4 and 8 sums of 2^15 to 2^24 elements took as long."""

    min_long_elements: int = 1 << 15
    """Smallest sum, in elements, that is read from memory rather than the cache: there shorter runs
    take no additional time."""

    parts: int = 64
    """Results of runs that are added in sequence before their results are."""


@dataclasses.dataclass(frozen=True, slots=True)
class Tuning:
    """All groups for one machine."""

    products: MatrixProducts
    blas: BlasProducts
    thin_products: ThinProducts
    convolutions: Convolutions
    fourier: kernel_tuning.FourierTransforms
    scatters: kernel_tuning.Scatters
    concatenates: kernel_tuning.Concatenates
    transposes: kernel_tuning.Transposes
    linear_algebra: kernel_tuning.LinearAlgebra
    small_loops: kernel_tuning.SmallLoops
    short_loops: ShortLoops
    llvm_passes: kernel_tuning.LlvmPasses
    loops: LoopNests
    free_sums: FreeSums
    reductions: pass_tuning.Reductions
    thin_dots: pass_tuning.ThinDots
    small_dots: pass_tuning.SmallDots
    convolution_layouts: pass_tuning.ConvolutionLayouts
    control_flow: pass_tuning.ControlFlow
    fusions: fusion_tuning.Fusions
    evaluation_costs: fusion_tuning.EvaluationCosts
    in_place_updates: fusion_tuning.InPlaceUpdates


@functools.cache
def tuning_of(machine: Machine) -> Tuning:
    """Return the tuning for a machine."""
    share, product_items = cache_share(machine), work_items(machine, 4)
    # Two for each core at least, so that threads end together.
    items, rows = scratch_items(machine, 64), scratch_items(machine, 16)
    return Tuning(
        MatrixProducts(share, product_items, 3 if machine.vector_registers > 16 else 1),
        BlasProducts(work_items(machine, 8)),
        ThinProducts(product_items, work_items(machine, 32)),
        Convolutions(share, product_items, work_items(machine, 2), rows),
        kernel_tuning.FourierTransforms(),
        kernel_tuning.Scatters(rows, scratch_items(machine, 4)),
        kernel_tuning.Concatenates(),
        kernel_tuning.Transposes(),
        kernel_tuning.LinearAlgebra(scratch_items(machine, 32)),
        kernel_tuning.SmallLoops(),
        ShortLoops(),
        kernel_tuning.LlvmPasses(),
        LoopNests(Chunks(), Pieces(items, rows), WindowTiles(), items),
        FreeSums(16 * machine.partial_sums, 2 * machine.partial_sums),
        pass_tuning.Reductions(),
        pass_tuning.ThinDots(),
        pass_tuning.SmallDots(),
        pass_tuning.ConvolutionLayouts(),
        pass_tuning.ControlFlow(),
        fusion_tuning.Fusions(),
        fusion_tuning.EvaluationCosts(),
        fusion_tuning.InPlaceUpdates(),
    )
