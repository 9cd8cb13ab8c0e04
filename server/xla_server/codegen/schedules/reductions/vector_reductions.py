"""Forms of reductions that LLVM can vectorise, as their elements may be combined in any order.

Sums and products of floats carry the flag for reassociation. The maximum of two floats is a chain
of several instructions, because of NaN and signed zeros; that of their keys, integers in the same
order, is one instruction. Integers are combined as they are.
"""

import dataclasses

from xla_server.codegen.trace.graph import Apply, Immediate, Reduction


@dataclasses.dataclass(frozen=True, slots=True)
class VectorReduction:
    """The functions of a vectorised reduction.

    `enter` converts an element to the type of partial results, of which `neutral` is the neutral
    element. `run` combines a partial result with an element, `join` two partial results, and
    `leave` converts the last one to the result; either conversion may be None.
    """

    neutral: Immediate
    run: str
    join: str
    enter: str | None = None
    leave: str | None = None

    @property
    def rounds(self) -> bool:
        """Return whether rounding errors grow with the length of a run."""
        return self.run != self.join

    @property
    def is_wide(self) -> bool:
        """Return whether partial results are joined in f64, as those of f32 sums are.

        Few additions are joins, and with f64 only the last one is rounded to f32.
        """
        return self.run == "add_in_any_order" and self.neutral.type == "f32"

    @property
    def has_keys(self) -> bool:
        """Return whether the reduction combines integer keys of floats."""
        return self.leave is not None


def vector_reduction(reduction: Reduction) -> VectorReduction | None:
    """Return the vectorised form of a reduction; None if it must not be reassociated."""
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
        # The key of the infinity that the operation never prefers.
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
    """Return the neutral integer, or truth value, of a function; None if it has none."""
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
