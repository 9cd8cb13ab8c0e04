"""Tuning parameters of fusion, in groups. They are the same for every processor.

LOG is tests/benchmarks/LOG.md, by its headings.
"""

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True)
class Fusions:
    """Limits of the loop nests that fusion makes (fusion/)."""

    max_instructions: int = 160
    """Most instructions of one fusion: LLVM's time grows faster than linearly in a kernel's
    length."""

    max_scalars: int = 320
    """Most scalar values that a fusion computes for one element of its result: an instruction
    counts once for each index at which it is computed. Bounds the time of compilation, too."""

    max_index_terms: int = 64
    """Most terms of an index expression in a fusion, with those of its quotients. Reshapes that
    merge dimensions add up the terms of these; gathers, dynamic slices, concatenates and loops
    count as doubling them. With 256, chains of reshapes took three times as long to compile."""

    max_copies: int = 4
    """Most indices at which one loop may compute the same cheap instruction."""

    max_tested_copies: int = 2
    """The same for operands of pads and concatenates: tests of indices keep loops scalar."""

    max_fusions: int = 3
    """Most fusions that may each compute the same cheap instruction."""

    max_repeated_operations: int = 8
    """Most operations per element that fusions may recompute instead of storing and loading it.
    With longer chains stored, programs execute 1.2 instead of 1.35 times the operations of their
    HLO in the mean, with no change in time (LOG, a value is computed once)."""

    max_contexts: int = 2
    """Most loops of a fusion in which the same expensive instruction may be computed."""

    max_joined_operands: int = 16
    """Most operands of all concatenates that are fused into one kernel, if one of them has more
    than `max_selected_operands`: the kernel's whole code is repeated in a loop for each operand."""

    max_selected_operands: int = 4
    """Most operands of a concatenate that is computed elementwise in other loops, where all
    operands are computed to select one (LOG, concatenates of any number of operands)."""

    max_tested_elements: int = 1024
    """Largest pad or concatenate, in elements, that is fused into a reduction, gather or dynamic
    slice although each index is tested. A scalar iteration takes about four additions more than a
    vectorised one, and storing the result costs one more launch, 4096 additions (LOG, reductions of
    pads and concatenates)."""

    max_stored_per_read: int = 2
    """Most elements of a pad or concatenate, per element that gathers and dynamic slices read, that
    are stored first so that reading needs no test. Random crops of images with mirrored borders:
    0.65 of the time, with flips and mixing 0.25 (LOG, crops of padded images)."""

    min_updated_share: float = 3 / 4
    """Smallest share of an array whose update is computed in a loop over the whole array. The loop
    also copies the rest, and saves a write and a read of the update (LOG, updates of most of an
    array)."""

    min_vector_elements: int = 16
    """Fewest iterations of a loop for which functions are vectorised. Shorter runs of a concatenate
    fused into the loop over rows: 1.24 of XLA's time, stored 0.98 (LOG, concatenates of any number
    of operands)."""

    min_rows: int = 16
    """Fewest rows for which reductions of large arrays are fused into the loop over rows: fewer are
    too few work items for threads. 16 and 32 rows of a softmax, not fused: 1.2 of the time (LOG,
    numbers of the target)."""

    max_unshared_elements: int = 1 << 15
    """Most elements of an array for which fewer rows are fused, too: threads do not pay for so
    little work. Two and eight rows of a softmax, not fused: 1.5, 1.4 of the time (LOG, numbers of
    the target)."""

    max_results: int = 4
    """Most results of one kernel: with more, LLVM does not vectorise, as it would need too many
    runtime checks for aliases."""

    max_column_elements: int = 1 << 17
    """Largest array, in elements, whose column reduction a GPU fuses with its producer or reader: a
    thread block has 32 columns, so larger arrays leave the GPU idle. Not measured on any GPU."""

    max_producer_rounds: int = 8
    """Longest chain of loops, each of which reads the one before, that become one kernel."""

    max_reduced_elements: int = 1024
    """Largest reduction, in elements, in a product's epilogue if its operand is not the product:
    each of the kernel's dozen or so calls repeats it, and the product takes that many times its
    operations."""


@dataclasses.dataclass(frozen=True, slots=True)
class EvaluationCosts:
    """Parameters of the cost model of recomputation (lower/recomputation.py).

    Times are in additions. They do not depend on the number of cores, so that a program has the
    same kernels on all machines of one architecture.
    """

    launch: int = 4096
    """Time that one more kernel must save in each execution: about a microsecond for its launch,
    and a share of its compilation, which takes a hundred times that, once."""

    min_share: int = 64
    """Divisor of all recomputation time: an instruction gets a plan if its share is at least the
    quotient."""

    max_plans: int = 24
    """Most plans for one fusion, which bounds the time of compilation. Sufficient in 5,000 random
    graphs (LOG, a value is computed once)."""

    parallel_calls: int = 16
    """Chunks that a large launch should have at least, so that threads share it evenly."""


@dataclasses.dataclass(frozen=True, slots=True)
class InPlaceUpdates:
    """Barriers that keep arrays from being copied before an update (fusion/update_barriers.py)."""

    min_bytes: int = 1 << 16
    """Smallest array that is worth a barrier: copying it takes longer than one more launch."""

    max_stored: float = 1 / 2
    """Largest size of the values stored at barriers, as a fraction of the array that is not copied.
    A copy and a stored value both cost a write and a read."""

    max_stored_of_argument: float = 1 / 16
    """The same for an argument of the program. It is copied in any case unless the caller donates
    it, which is not known, so this is the most that stored values may add to that copy's time."""
