"""Values of indices, and random chains of operations that read elements at other indices."""

import math
from collections.abc import Iterable

from hypothesis import strategies as st

from xla_server.ir.analysis.affine import Affine, Modulus, Quotient, Variable

SIZES = st.lists(st.integers(1, 4), min_size=1, max_size=3)


@st.composite
def chains(draw: st.DrawFn, sizes: list[int], name: str, operand: str) -> tuple[list[str], int]:
    """Draw HLO lines, each with the line before it for operand, and the elements of the last."""
    lines: list[str] = []
    for n in range(draw(st.integers(1, 4))):
        sizes, text = draw(_operations(sizes, f"{name}{n - 1}" if n else operand))
        lines.append(f"{name}{n} = f32[{listed(sizes)}] {text}")
    return lines, math.prod(sizes)


@st.composite
def _operations(draw: st.DrawFn, sizes: list[int], operand: str) -> tuple[list[int], str]:
    kind = draw(st.sampled_from(("broadcast", "reshape", "reverse", "slice", "transpose")))
    rank = len(sizes)
    some = draw(st.lists(st.sampled_from(range(rank)), unique=True)) if rank else []
    if kind == "broadcast":
        new = [draw(st.integers(1, 3)), *sizes]
        return new, f"broadcast({operand}), dimensions={{{listed(range(1, rank + 1))}}}"
    if kind == "reverse":
        return sizes, f"reverse({operand}), dimensions={{{listed(some)}}}"
    if kind == "transpose":
        order = draw(st.permutations(range(rank)))
        return [sizes[d] for d in order], f"transpose({operand}), dimensions={{{listed(order)}}}"
    if kind == "slice":
        boxes = [_box(draw, size) for size in sizes]
        new = [len(range(*box)) for box in boxes]
        text = ", ".join("[{}:{}:{}]".format(*box) for box in boxes)
        return new, f"slice({operand}), slice={{{text}}}"
    return _factors(draw, math.prod(sizes)), f"reshape({operand})"


def _box(draw: st.DrawFn, size: int) -> tuple[int, int, int]:
    start = draw(st.integers(0, size - 1))
    return start, draw(st.integers(start + 1, size)), draw(st.integers(1, 2))


def _factors(draw: st.DrawFn, count: int) -> list[int]:
    factors = []
    while count > 1 and len(factors) < 3:
        factors.append(draw(st.sampled_from([d for d in range(1, count + 1) if not count % d])))
        count //= factors[-1]
    return [*factors, count]


def listed(numbers: Iterable[int]) -> str:
    """Return numbers as HLO writes them."""
    return ",".join(map(str, numbers))


def at(index: Affine, values: dict[Variable, int]) -> int:
    """Return the number that an index is for these values of the loops."""
    total = index.constant
    for atom, factor in index.terms:
        if isinstance(atom, Variable):
            total += factor * values[atom]
        elif isinstance(atom, Quotient):
            total += factor * (at(atom.operand, values) // atom.divisor)
        else:
            assert isinstance(atom, Modulus)
            total += factor * (at(atom.operand, values) % atom.divisor)
    return total
