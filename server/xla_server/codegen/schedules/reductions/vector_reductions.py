"""Reductions of free order, in forms that LLVM can vectorise.

Sums and products of floats allow reassociation. The maximum of two floats takes several dependent
instructions, because of NaN and signed zeros; that of integers in the same order (keys) takes one.
Integers are vectorised as they are.
"""

import dataclasses

from xla_server.codegen.trace.graph import Apply, Immediate, Reduction


@dataclasses.dataclass(frozen=True, slots=True)
class VectorReduction:
    """Vectorised reduction of a loop.

    `enter` converts an element to the combined form, `run` combines it with a partial result,
    `join` two partial results, and `leave` converts to the result. `neutral` is the neutral
    element.
    """

    neutral: Immediate
    run: str
    join: str
    enter: str | None = None
    leave: str | None = None

    @property
    def rounds(self) -> bool:
        """Return whether errors grow with the number of elements that are combined in sequence."""
        return self.run != self.join

    @property
    def is_wide(self) -> bool:
        """Return whether results of runs are joined in f64, as for sums of f32.

        Joins are few, one in a thousand additions, and then only the last sum is rounded.
        """
        return self.run == "add_in_any_order" and self.neutral.type == "f32"

    @property
    def has_keys(self) -> bool:
        """Return whether keys are combined instead of floats."""
        return self.leave is not None


def vector_reduction(reduction: Reduction) -> VectorReduction | None:
    """Return how to combine the elements of a reduction in vectors, if its order is free."""
    if len(reduction.accumulators) != 1 or reduction.element is None:
        return None
    kind = reduction.initial[0].type
    if (free := reduction.reassociates) is not None:
        return VectorReduction(free.neutral, free.function, free.ordered)
    combined = reduction.combined[0]
    if not isinstance(combined, Apply) or len(combined.operands) != 2:
        return None
    if set(combined.operands) != {reduction.accumulators[0], reduction.element}:
        return None
    function = combined.function
    if kind in ("f32", "f64") and function in ("maximum", "minimum"):
        # Keys of the two infinities.
        bits = {"f32": 0x7F800000, "f64": 0x7FF << 52}[kind]
        key = bits if function == "minimum" else ~bits
        word = f"i{kind[1:]}"
        neutral = Immediate.of(word, key)
        enter, leave = f"{function}_key_{kind}", f"float_of_key_{word}"
        return VectorReduction(neutral, function, function, enter, leave)
    number = _integer_neutral(kind, function)
    if number is None:
        return None
    return VectorReduction(Immediate.of(kind, number), function, function)


def _integer_neutral(kind: str, function: str) -> int | None:
    """Return the neutral element of a function on integers or predicates."""
    if kind == "b1":
        return {"bit_and": 1, "bit_or": 0}.get(function)
    if kind[0] not in "iu":
        return None
    width, is_signed = int(kind[1:]), kind[0] == "i"
    low = -(1 << (width - 1)) if is_signed else 0
    high = (1 << (width - is_signed)) - 1
    return {
        "add": 0,
        "bit_or": 0,
        "bit_xor": 0,
        "bit_and": -1 if is_signed else high,
        "maximum": low,
        "minimum": high,
    }.get(function)
