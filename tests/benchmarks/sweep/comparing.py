"""Comparison of results with XLA's, allowing for what rounding does to a program.

Results differ by rounding, and some programs (differences of nearly equal numbers, comparisons,
conversions to integers) turn a rounding into any difference. Its size follows from XLA's own
results for arguments that are changed in their last bits, and from how far XLA's results are from
those of wider types: the difference of equal numbers is rounding alone, whatever the arguments.
Results are also right that XLA has operation by operation. Its compiler rounds x * y + z once where
the program rounds twice, so that a sign may be that of a rounding on one side alone.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

_TOLERANCE = {"float64": 1e-9, "complex128": 1e-9, "bfloat16": 0.04, "float16": 0.01}
_COMMON_TOLERANCE = 2e-4
"""Difference allowed in units of the largest magnitude of a result."""

_EPSILON = {"float64": 2.0**-52, "complex128": 2.0**-52, "bfloat16": 2.0**-8, "float16": 2.0**-10}
_COMMON_EPSILON = 2.0**-23
_CHAOS = 30.0
"""Difference allowed in units of that which changed last bits of the arguments make."""

_ERRORS = 10.0
"""Error allowed in units of the error of XLA's result."""

_PERTURBATIONS = 3

Run = Callable[[Sequence[np.ndarray]], Sequence[np.ndarray]]


@dataclasses.dataclass(frozen=True)
class Gap:
    """A difference between two arrays.

    `distance` is in units of the largest magnitude, `absolute` is the same as a number; the other
    two are fractions of the elements: integers that differ, floats of which one side is finite
    alone.
    """

    distance: float = 0.0
    absolute: float = 0.0
    different: float = 0.0
    infinite: float = 0.0

    def exceeds(self, tolerance: float) -> bool:
        """Return whether this is more than rounding of one operation."""
        return self.distance > tolerance or self.different > 0 or self.infinite > 0

    def within(self, other: "Gap", factor: float) -> bool:
        """Return whether `other` times `factor` explains this."""
        return (
            self.distance <= other.distance * factor
            and self.different <= other.different * factor
            and self.infinite <= other.infinite * factor
        )

    def __str__(self) -> str:
        parts = []
        if self.different:
            parts.append(f"{self.different:.2%} of the elements differ")
        if self.infinite:
            parts.append(f"{self.infinite:.2%} of the elements are finite on one side alone")
        return ", ".join(parts) or f"off by {self.distance:.1e} of the largest"


def gap(one: np.ndarray, other: np.ndarray) -> Gap:
    """Return the difference of two arrays of the same shape and type."""
    if one.dtype.kind in "biu":
        return Gap(different=float(np.mean(one != other)) if one.size else 0.0)
    wide: Any = np.complex128 if one.dtype.kind == "c" else np.float64
    with np.errstate(invalid="ignore", over="ignore"):
        one, other = one.astype(wide), other.astype(wide)
        finite = np.isfinite(one) & np.isfinite(other)
        alone = np.isfinite(one) != np.isfinite(other)
        largest = np.max(np.abs(other[finite]), initial=1e-30)
        furthest = np.max(np.abs(one[finite] - other[finite]), initial=0.0)
    return Gap(
        float(furthest / largest),
        float(furthest),
        infinite=float(np.mean(alone)) if one.size else 0.0,
    )


def _other_forms(ours: Sequence[np.ndarray], theirs: Sequence[np.ndarray]) -> str:
    """Describe what keeps results from being compared."""
    if len(ours) != len(theirs):
        return f"{len(ours)} results for {len(theirs)}"
    for found, expected in zip(ours, theirs, strict=True):
        if found.shape != expected.shape or found.dtype != expected.dtype:
            return f"{found.dtype}{found.shape} for {expected.dtype}{expected.shape}"
    return ""


def difference(ours: Sequence[np.ndarray], theirs: Sequence[np.ndarray]) -> str:
    """Describe the difference of our results; the text is empty if it is rounding alone."""
    return _other_forms(ours, theirs) or "; ".join(
        f"result {number}: {gap(found, expected)}"
        for number, (found, expected) in enumerate(zip(ours, theirs, strict=True))
        if _exceeds(gap(found, expected), expected)
    )


def verdict(
    ours: Sequence[np.ndarray],
    theirs: Sequence[np.ndarray],
    arguments: Sequence[np.ndarray],
    run: Run,
    run_wide: Run | None = None,
    run_apart: Run | None = None,
) -> tuple[str, str]:
    """Return `ok`, `chaotic` or `WRONG`, and what is different.

    `run` has XLA run the program on other arguments, `run_wide` on arguments of wider types,
    `run_apart` each operation by itself; they are called only where results differ.
    """
    if other := _other_forms(ours, theirs):
        return "WRONG", other
    gaps = [gap(*pair) for pair in zip(ours, theirs, strict=True)]
    exceeding = [number for number, each in enumerate(gaps) if _exceeds(each, theirs[number])]
    if not exceeding:
        return "ok", ""
    note = "; ".join(f"result {number}: {gaps[number]}" for number in exceeding)
    changed = [run(perturbed(arguments, seed)) for seed in range(_PERTURBATIONS)]
    left = [
        number
        for number in exceeding
        if not gaps[number].within(
            _widest([gap(each[number], theirs[number]) for each in changed]), _CHAOS
        )
    ]
    largest = max((float(np.max(np.abs(a), initial=0)) for a in arguments), default=0.0)
    left = [number for number in left if not _is_noise(gaps[number], theirs[number], largest)]
    exact = _exact(run_wide, arguments) if left and run_wide is not None else None
    if exact is not None:
        left = [
            number
            for number in left
            if not _like_the_other(ours[number], theirs[number], exact[number])
        ]
    if left and run_apart is not None:
        apart = run_apart(arguments)
        left = [
            number for number in left if _exceeds(gap(ours[number], apart[number]), theirs[number])
        ]
    return "WRONG" if left else "chaotic", note


def _exceeds(difference: Gap, result: np.ndarray) -> bool:
    return difference.exceeds(_TOLERANCE.get(result.dtype.name, _COMMON_TOLERANCE))


def _is_noise(difference: Gap, result: np.ndarray, largest: float) -> bool:
    """Return whether a difference is below the rounding error of the largest argument.

    Where the exact result is 0, as the variance of equal numbers is, each side has such noise.
    """
    # Small results of narrow types would all pass with their own epsilon.
    epsilon = min(_EPSILON.get(result.dtype.name, _COMMON_EPSILON), _COMMON_EPSILON)
    is_float = result.dtype.kind not in "biu"
    return is_float and difference.infinite == 0 and difference.absolute <= epsilon * largest


def _exact(run: Run, arguments: Sequence[np.ndarray]) -> Sequence[np.ndarray] | None:
    try:
        return run(widened(arguments))
    except TypeError:
        # The program names types that do not go with wider ones.
        return None


def _like_the_other(one: np.ndarray, other: np.ndarray, exact: np.ndarray) -> bool:
    """Return whether the error of one is no larger than that of the other, about."""
    rounded = exact.astype(other.dtype)
    return gap(one, rounded).within(gap(other, rounded), _ERRORS)


def _widest(gaps: Sequence[Gap]) -> Gap:
    return Gap(
        distance=max(each.distance for each in gaps),
        different=max(each.different for each in gaps),
        infinite=max(each.infinite for each in gaps),
    )


def widened(arguments: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return the arguments with their floats as 64 bits."""
    return [
        array if array.dtype.kind in "biuc" else array.astype(np.float64) for array in arguments
    ]


def perturbed(arguments: Sequence[np.ndarray], seed: int) -> list[np.ndarray]:
    """Return the arguments with their floats changed by about one ULP."""
    random = np.random.default_rng(seed)
    changed = []
    for array in arguments:
        if array.dtype.kind in "biu":
            changed.append(array)
            continue
        epsilon = _EPSILON.get(array.dtype.name, _COMMON_EPSILON)
        wide: Any = np.complex128 if array.dtype.kind == "c" else np.float64
        factor = 1 + epsilon * random.choice((-1.0, 1.0), array.shape)
        changed.append((array.astype(wide) * factor).astype(array.dtype))
    return changed
