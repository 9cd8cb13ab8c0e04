"""Tuning parameters of compilation, in groups: here those of kernels, derived from a machine.

`tuning_of` computes the fields that follow from caches or cores; the others have defaults, which
hold for every machine. LOG is tests/benchmarks/LOG.md, cited by its headings. Its machines have two
cores; numbers of work items are scaled from these by the cores.
"""

import dataclasses
import functools

from xla_server.target import fusion_tuning, kernel_tuning, pass_tuning
from xla_server.target.loop_tuning import Chunks, LoopNests, Pieces, ShortLoops, WindowTiles
from xla_server.target.machine import Machine

_MAX_CACHE_SHARE = 256 << 10
_MAX_PRODUCTS = 1 << 32
"""Most multiplications of a work item: a twentieth of a second on one core. A cancelled execution
continues for that long at most, and threads end together but for that time."""


def cache_share(machine: Machine) -> int:
    """Return the bytes of a block that stays in a core's L2 while other operands pass through.

    It is half of L2, and at most 256 KiB, the largest size that was measured. Boxes of a
    convolution's input that are smaller are no faster (LOG, sixth round), nor are other blocks of
    rows of a product (LOG, third round).
    """
    return min(machine.l2_bytes // 2, _MAX_CACHE_SHARE)


def work_items(machine: Machine, per_core: int) -> int:
    """Return the work items of a large loop: `per_core` for each core, and for two at least."""
    return per_core * max(machine.cores, 2)


def scratch_items(machine: Machine, fewest: int) -> int:
    """Return the work items of a loop in which each has scratch memory of its own.

    They are two per core, so that memory grows no faster than the cores, and at least `fewest`.
    """
    return max(fewest, 2 * machine.cores)


@dataclasses.dataclass(frozen=True, slots=True)
class MatrixProducts:
    """Blocking of matrix products by register tiles (codegen/lower/contraction/gemm.py)."""

    block_bytes: int
    """Size, in bytes, of a work item's working set in its cache share: packed rows of the left
    operand, and rows of the result if sums are short. Larger right operands are packed once for
    all."""

    work_items: int
    """Number of work items of a large product: four per core. They are sized so that threads end
    together: of 20 tiles the busier of two threads has 10, of 19 it had 11 (LOG, fifth round)."""

    max_rereading_tiles: int
    """Most tiles per column that each read the right operand unpacked; with more, the first one
    packs it. Tiles of 32 registers are so tall that reading L2 once more takes none of their time:
    16 rows 0.97, 1.03 packed (LOG, products of few rows by tiles)."""

    k_block_bytes: int = 4096
    """Depth of a K block in bytes per row of a packed panel. The accumulator tile stays in
    registers within a block. Product of 512 f64: 7 to 11 % less time, together with prefetching
    of the right panel (LOG, fifth round)."""

    max_shallow_depth: int = 128
    """Largest depth of a product that is computed one row of tiles after the other, in memory
    order. [4000,8] x [8,1024]: 2.4 of XLA's time before, 1.0 after (LOG, convolutions of few
    features)."""

    min_result_ratio: int = 8
    """Smallest ratio of the bytes of a shallow product's result to those of its right operand for
    which that is packed ahead: below, packing takes a good part of the time. Three of [1000,3] x
    [3,1000]: 1802 us by columns, 453 by rows (LOG, shallow products with large results)."""

    max_unpacked_tiles: int = 3
    """Most tiles per column for which work items have all rows, and none packs for another. A
    smaller bound is as fast (LOG, products with few rows)."""

    max_repacking_blocks: int = 2
    """Most row blocks of a product for which each packs the right operand for itself, panel by
    panel, on the stack. 64 rows: 6.0 ms packed in memory, 3.3 on the stack (LOG, products with few
    rows)."""

    min_wide_ratio: int = 4
    """Fewest columns per row for a product divided by columns first (same section of LOG)."""

    min_item_products: int = 1 << 20
    """Fewest multiplications of a work item: some tens of microseconds, so that handing it to
    another thread, a microsecond or two, is a small part of it."""

    max_item_products: int = _MAX_PRODUCTS
    """Most multiplications of a work item, whose end a cancelled execution waits for."""

    panels_per_item: int = 4
    """Panels of the right operand that one work item packs. Other numbers are no faster (LOG, fifth
    round)."""

    packing_steps: int = 128
    """Rows of the right operand that are packed at a time, so that their pages are read together.
    2 rows: 1.8 ms without, 1.0 with (LOG, products with few rows)."""

    max_packed_bytes: int = 64 << 20
    """Largest right operand, in bytes, that is packed ahead if BLAS could multiply it instead,
    which packs piece by piece. Bounds the scratch memory of a product."""


@dataclasses.dataclass(frozen=True, slots=True)
class BlasProducts:
    """Division of matrix products that BLAS computes (codegen/lower/contraction/dot.py)."""

    pieces: int
    """Number of pieces of a large product: eight per core, as their times differ in BLAS."""

    min_piece_products: int = 1 << 21
    """Fewest multiplications of a piece, as each packs its operands anew."""

    min_piece_size: int = 128
    """Fewest rows or columns of a piece: below, BLAS cannot fill its blocks."""

    min_products_in_both: int = 1 << 28
    """Fewest multiplications for which rows are divided, too, if columns give too few pieces:
    pieces of rows each pack the whole right operand, and take half as long again."""

    max_piece_products: int = _MAX_PRODUCTS
    """Most multiplications of a piece, whose end a cancelled execution waits for."""

    unit: int = 16
    """Unit of a piece's columns: a vector of the widest registers."""


@dataclasses.dataclass(frozen=True, slots=True)
class ThinProducts:
    """Division of products of a matrix with few vectors (lower/contraction/thin_product.py).

    Reading the matrix bounds their speed.
    """

    work_items: int
    """Number of work items of a large product: four per core."""

    even_items: int
    """Number of work items of a matrix in memory: 32 per core. Two threads
    cannot share 9 work items evenly; 64 took 10 % less (LOG, products with few rows)."""

    min_item_bytes: int = 64 << 10
    """Fewest bytes of the matrix in a work item."""

    min_even_bytes: int = 1 << 20
    """Fewest bytes of the matrix in each of the `even_items`."""

    run_bytes: int = 4 << 10
    """Bytes of a row that are multiplied before the next row is read: a page."""

    result_row_bytes: int = 16 << 10
    """Bytes of a row of the result that a work item accumulates: half of an L1. It is not derived
    from L1, as the order of sums depends on it."""

    step_elements: int = 1 << 22
    """Elements of the matrix between two polls of the cancellation flag if sums are along
    columns."""


@dataclasses.dataclass(frozen=True, slots=True)
class DeepProducts:
    """Parts of the sums of products with few results (lower/contraction/sum_parts.py).

    The order of sums depends on them, so that they are not derived from the machine (LOG, sums of
    deep products in parts).
    """

    max_items: int = 64
    """Most work items of a product that parts make: as many as parts of a reduction."""

    min_parts: int = 4
    """Fewest parts that are worth adding up, so that two threads end together."""

    min_depth: int = 1 << 10
    """Fewest k indices of a part: adding up a result takes as long as a few of them."""

    depth_unit: int = 64
    """K indices of which a part's depth is a multiple: as many as the widest packed blocks have."""

    min_elements: int = 1 << 15
    """Fewest elements of both operands in a part: a few microseconds."""

    tile_results: int = 512
    """Results of a work item of tiles that has few of them: about one tile."""


@dataclasses.dataclass(frozen=True, slots=True)
class Convolutions:
    """Blocking of convolutions: by register tiles, by Winograd's tiles, and by im2col."""

    input_block_bytes: int
    """Largest padded input of a row block, in bytes, on the stack: a cache share. Larger ones have
    scratch memory outside the stack."""

    min_blocks: int
    """Number of row blocks, if there are enough rows: four per core."""

    min_im2col_blocks: int
    """Number of row blocks of an im2col matrix, if there are enough rows: two per core, as each is
    a product of its own."""

    work_items: int
    """Number of work items that blocks are assigned to, each with its own scratch memory."""

    min_products: int = 1 << 14
    """Fewest multiplications for which tiles or products are faster than a loop nest, calls
    included. A nest of 18,400 takes 2.5 of the time, tiles for 4,600 take 0.97 (LOG, numbers of the
    target).
    """

    min_group_size: int = 4
    """Fewest features of a group for which its filter is multiplied as a matrix."""

    max_row_bytes: int = 256
    """Longest filter row, in bytes, whose panels are read unpacked: four cache lines, which the
    processor prefetches. Longer rows are packed."""

    min_readings: int = 4
    """Fewest reads per input element of a depthwise convolution for which copying the input with
    its padding takes little of the time. Same-padded stride 2 stays a loop nest (LOG, sixth
    round)."""

    im2col_elements: int = 1 << 17
    """Elements of an im2col matrix that are copied at a time: 512 KiB of f32. It is not derived
    from L2, as the order of sums depends on it."""

    im2col_rows: int = 512
    """Rows of an im2col matrix that are copied at a time."""

    min_im2col_depth: int = 64
    """Smallest depth of a block, in elements: below, results are stored and loaded too often."""

    min_winograd_features: int = 16
    """Fewest features of input and result for Winograd: transforms cost less than they save. 3x3 of
    8x56x56x64: 0.4 of XLA's time, by tiles 1 (LOG, second round)."""

    min_winograd_results: int = 6
    """Fewest results along a dimension for Winograd: few results of the 4x4 tiles are discarded."""

    min_winograd_positions: int = 64
    """Fewest positions of results, of all images, for which it pays to transform weights. One image
    of 7x7 takes 0.9 to 2.5 of the time of tiles, of 10x10 0.7 to 0.9 (LOG, edges of filters)."""

    max_winograd_pairs: int = 2048
    """Most pairs of features for each of these positions. More weights are in no cache: of 512 by
    512 features 10x10 takes 1.7 of the time of tiles, 12x12 1.0, 14x14 0.9 (same section)."""


@dataclasses.dataclass(frozen=True, slots=True)
class FreeSums:
    """Run lengths of sums whose order is free (codegen/schedules/builders/loop_builder.py).

    A run is added up in the partial sums of a vector loop. Lengths are multiples of their number,
    so that each partial sum has equally many elements on every processor, and errors have one
    bound.
    """

    run_elements: int
    """Elements of a run: 16 per partial sum."""

    long_run_elements: int
    """Elements of a run of a long sum: 2 per partial sum, so that 2^24 equal numbers have an exact
    sum, as in XLA. With 4 and 8, sums of 2^15 to 2^24 elements took as long."""

    min_long_elements: int = 1 << 15
    """Fewest elements of a long sum: it is read from memory instead of a cache, so that the shorter
    runs take no extra time."""

    parts: int = 64
    """Most results of runs that are added in sequence; sums of these are added in the same way."""


@dataclasses.dataclass(frozen=True, slots=True)
class Tuning:
    """All tuning parameters for one machine, by group."""

    products: MatrixProducts
    blas: BlasProducts
    thin_products: ThinProducts
    deep_products: DeepProducts
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
    # Two per core at least, so that threads end together.
    items, rows = scratch_items(machine, 64), scratch_items(machine, 16)
    return Tuning(
        MatrixProducts(share, product_items, 3 if machine.vector_registers > 16 else 1),
        BlasProducts(work_items(machine, 8)),
        ThinProducts(product_items, work_items(machine, 32)),
        DeepProducts(),
        Convolutions(share, product_items, work_items(machine, 2), rows),
        kernel_tuning.FourierTransforms(),
        kernel_tuning.Scatters(rows, scratch_items(machine, 4)),
        kernel_tuning.Concatenates(),
        kernel_tuning.Transposes(),
        kernel_tuning.LinearAlgebra(scratch_items(machine, 32)),
        kernel_tuning.SmallLoops(),
        ShortLoops(),
        kernel_tuning.LlvmPasses(),
        LoopNests(
            *(Chunks(), Pieces(items, rows), WindowTiles(), items),
            max_shuffled_run=0 if machine.has_masks else 4,
        ),
        FreeSums(16 * machine.partial_sums, 2 * machine.partial_sums),
        pass_tuning.Reductions(),
        pass_tuning.ThinDots(machine.vector_bytes // 2),
        pass_tuning.SmallDots(),
        pass_tuning.ConvolutionLayouts(),
        pass_tuning.ControlFlow(),
        fusion_tuning.Fusions(),
        fusion_tuning.EvaluationCosts(),
        fusion_tuning.InPlaceUpdates(),
    )
