"""Random choices of program generators, and the program that a generator writes with them."""

import math
import random
import re
from collections.abc import Sequence
from typing import TypeVar

from tests.benchmarks.sweep.program import MAX_ELEMENTS, Parameter, Program

T = TypeVar("T")

FLOATS = ("float32",) * 14 + ("float64",) * 2 + ("bfloat16",) * 2 + ("float16",)
INTEGERS = ("int32", "int32", "int32", "int8", "uint8", "uint32", "int64")

NAME = re.compile(r"\b[pv]\d+\b")
"""Parameters and values."""

_PRIMES = tuple(n for n in range(2, 4096) if all(n % k for k in range(2, math.isqrt(n) + 1)))


class Draw:
    """A source of random choices that also collects the text of one program.

    The same seed and number give the same program in every process.
    """

    def __init__(self, seed: int, number: int) -> None:
        self._random = random.Random(f"{seed} {number}")
        self._lines: list[str] = []
        self._parameters: list[Parameter] = []

    def program(self, family: str, result: str) -> Program:
        """Return the program written so far, without what its result does not depend on."""
        used = set(NAME.findall(result))
        lines = []
        for line in reversed(self._lines):
            if line.split(" = ")[0] in used:
                used.update(NAME.findall(line))
                lines.append(line)
        numbers = [at for at in range(len(self._parameters)) if f"p{at}" in used]
        renamed = {f"p{number}": f"p{place}" for place, number in enumerate(numbers)}

        def written(text: str) -> str:
            return NAME.sub(lambda match: renamed.get(match[0], match[0]), text)

        return Program(
            family,
            tuple(written(line) for line in reversed(lines)),
            written(result),
            tuple(self._parameters[number] for number in numbers),
        )

    def parameter(
        self, shape: Sequence[int], dtype: str = "float32", kind: str = "normal", bound: int = 100
    ) -> str:
        """Add a parameter; return its name."""
        self._parameters.append(Parameter(dtype, tuple(shape), kind, bound))
        return f"p{len(self._parameters) - 1}"

    def let(self, text: str) -> str:
        """Add an assignment; return the name of its value."""
        name = f"v{len(self._lines)}"
        self._lines.append(f"{name} = {text}")
        return name

    def chance(self, probability: float) -> bool:
        """Return True with this probability."""
        return self._random.random() < probability

    def integer(self, low: int, high: int) -> int:
        """Return an integer from `low` to `high`, both possible."""
        return self._random.randint(low, high)

    def choice(self, *options: T) -> T:
        """Return one of the options."""
        return self._random.choice(options)

    def weighted(self, options: dict[T, float]) -> T:
        """Return one of the keys, as often as their values say."""
        return self._random.choices(list(options), list(options.values()))[0]

    def sample(self, options: Sequence[T], count: int) -> list[T]:
        """Return `count` different ones of the options, in random order."""
        return self._random.sample(list(options), count)

    def dtype(self, *, integers: float = 0.0, others: Sequence[str] = ()) -> str:
        """Return a type: an integer with that probability, `others` with a tenth, else a float."""
        if others and self.chance(0.1):
            return self.choice(*others)
        return self.choice(*INTEGERS) if self.chance(integers) else self.choice(*FLOATS)

    def size(self, low: int, high: int) -> int:
        """Return a size from `low` to `high`: even over magnitudes, often 2^n or a prime."""
        size = round(math.exp(self._random.uniform(math.log(low), math.log(high + 0.49))))
        size = min(max(size, low), high)
        if self.chance(0.4):
            size = 2 ** round(math.log2(size))
        elif self.chance(0.25):
            size = min(_PRIMES, key=lambda prime: abs(prime - size)) if size < 4096 else size | 1
        return min(max(size, low), high)

    def shape(self, rank: int, low: int = 2**8, high: int = MAX_ELEMENTS) -> tuple[int, ...]:
        """Return a shape of about `low` to at most `high` elements."""
        elements = self.size(low, high)
        weights = [
            0.0 if self.chance(0.08) and rank > 1 else self._random.random() + 0.05
            for _ in range(rank)
        ]
        if not any(weights):
            weights[self._random.randrange(rank)] = 1.0
        total = sum(weights)
        sizes = []
        left = elements
        for weight in weights:
            size = 1 if weight == 0 else max(1, round(elements ** (weight / total)))
            if size > 1 and self.chance(0.35):
                size = 2 ** round(math.log2(size))
            size = max(1, min(size, left))
            left //= size
            sizes.append(size)
        return tuple(sizes)

    def axes(self, rank: int) -> tuple[int, ...]:
        """Return some axes, at least one, in increasing order."""
        return tuple(sorted(self.sample(range(rank), self.integer(1, rank))))

    def permutation(self, rank: int) -> tuple[int, ...]:
        """Return the axes in a random order."""
        return tuple(self.sample(range(rank), rank))
