"""Numbers that fusion is tuned by, in groups. They hold for every processor.

LOG is tests/benchmarks/LOG.md, by its headings.
"""

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True)
class Fusions:
    """Limits of the loop nests that fusion makes (fusion/)."""

    max_instructions: int = 160
    """Instructions of one fusion, and so the length of its longest chain: the time of LLVM grows
    faster than the length of a kernel."""

    max_scalars: int = 320
    """Values that a fusion computes for one element of its result, where some instructions are
    computed at several indices. Bounds the time of compilation, too."""

    max_index_terms: int = 64
    """Terms of an index in a fusion, with those of its quotients. Reshapes that merge dimensions
    add up the terms of these; gathers, dynamic slices, concatenates and loops count as doubling
    them. With 256, chains of reshapes took three times as long to compile."""

    max_copies: int = 4
    """Indices at which one loop may compute the same cheap instruction."""

    max_tested_copies: int = 2
    """The same for operands of pads and concatenates: tests of indices keep loops scalar."""

    max_fusions: int = 3
    """Fusions that may each compute the same cheap instruction."""

    max_repeated_operations: int = 8
    """Operations for each element that fusions may repeat rather than store it and load it again.
    Longer chains stored: 1.35 to 1.2 times the operations asked for (LOG, a value is computed
    once)."""

    max_contexts: int = 2
    """Loops of a fusion in which the same expensive instruction may be computed."""

    max_joined_operands: int = 16
    """Operands of all concatenates whose results one kernel goes on with, where one of them has
    more than `max_selected_operands`: each of them has a loop for all that the kernel does."""

    max_selected_operands: int = 4
    """Operands up to which a concatenate may be computed at single elements of other loops, where
    all of its operands are computed to choose one (LOG, concatenates of any number of operands)."""

    max_tested_elements: int = 1024
    """Largest pad or concatenate, in elements, that a reduction computes though it tests the index
    of each. A scalar iteration is about four additions longer than a vector's share, and storing
    the result costs one more launch, 4096 additions (LOG, reductions of pads and concatenates)."""

    min_vector_elements: int = 16
    """Elements of a loop from which functions are computed for several at once. Shorter runs of a
    concatenate in the loop over rows: 1.24 of XLA's time, 0.98 stored (LOG, concatenates of any
    number of operands)."""

    min_rows: int = 16
    """Rows from which reductions of large arrays are computed in the loop over rows: fewer are too
    few for threads to share. 16 and 32 rows of a softmax outside of it: 1.2 of the time (LOG,
    numbers of the target)."""

    max_unshared_elements: int = 1 << 15
    """Elements up to which fewer rows are, too: threads are not worth it for so little work. Two
    and eight rows of a softmax outside of it: 1.5, 1.4 of the time (LOG, numbers of the target)."""

    max_results: int = 4
    """Results of one kernel: more need too many tests of whether they overlap to become vector
    code."""

    max_column_elements: int = 1 << 17
    """Elements of an array that a GPU goes on with by columns: a block of threads has 32 of them,
    so that larger arrays leave it idle. No GPU has measured it."""

    max_producer_rounds: int = 8
    """Loops in a chain that each read the result of the one before and become one kernel."""

    max_reduced_elements: int = 1024
    """Largest reduction in an epilogue, in elements, whose operand is not the product: a product's
    kernel has some dozen calls, and its operations are that many times these."""


@dataclasses.dataclass(frozen=True, slots=True)
class EvaluationCosts:
    """Numbers of the cost model that decides what is evaluated again (lower/recomputation.py).

    Times are in additions. The number of cores has no part in them, so that a program has the same
    kernels on all machines of a kind.
    """

    launch: int = 4096
    """Time that another kernel must save: about a microsecond for its launch, and its share of
    compilation, which is a hundred times that once."""

    min_share: int = 64
    """An instruction is worth a plan if it wastes at least one in this many parts of all wasted
    time."""

    max_plans: int = 24
    """Plans that are written for one fusion, which bounds the time of compilation. They are enough
    for 5,000 random graphs (LOG, a value is computed once)."""

    parallel_calls: int = 16
    """Chunks that a launch should have if it is large enough, so that threads share it evenly."""


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
