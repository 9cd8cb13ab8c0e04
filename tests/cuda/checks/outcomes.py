"""Outcomes of checks: a record of each, as a line of JSON."""

import dataclasses
import enum
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import ml_dtypes
import numpy as np

from xla_contract.types.element_type import ElementType as E


class Status(enum.StrEnum):
    """Right; other numbers than expected; other bits than the twin's; or something was raised."""

    OK = "ok"
    WRONG = "wrong"
    BITS = "bits"
    RAISED = "raised"


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """A check by its name, with what is wrong."""

    name: str
    status: Status = Status.OK
    text: str = ""

    @property
    def line(self) -> str:
        """The record as a line of JSON."""
        return json.dumps(dataclasses.asdict(self))


Check = tuple[str, Callable[[], str | None]]
"""A name, and a function that raises AssertionError where something is wrong, else may tell."""


class BitsError(AssertionError):
    """Right numbers, whose bits are not the twin's."""


def outcomes(checks: Iterable[Check]) -> Iterator[Outcome]:
    """Do one check after the other, whatever became of those before."""
    for name, check in checks:
        try:
            text = check()
        except BitsError as error:
            yield Outcome(name, Status.BITS, str(error)[:400])
        except AssertionError as error:
            yield Outcome(name, Status.WRONG, str(error)[:400])
        except Exception as error:
            yield Outcome(name, Status.RAISED, f"{type(error).__name__}: {error}"[:2000])
        else:
            yield Outcome(name, text=text or "")


Failure = TypeVar("Failure", bound=Exception)


def error_of(kind: type[Failure], call: Callable[[], object]) -> Failure:
    """Return the error that a call ends with. Raises AssertionError where it ends well."""
    try:
        call()
    except kind as error:
        return error
    raise AssertionError(f"{kind.__name__} must be raised, got nothing")


_TOLERANCE = {E.F64: 1e-9, E.C128: 1e-9, E.F32: 2e-4, E.C64: 2e-4}
"""Tolerance relative to the largest number of a result: sums in another order differ."""

_ROUNDINGS = 8
"""The same for narrower types, in roundings."""


def assert_near(ours: Sequence[Any], theirs: Sequence[Any]) -> None:
    """Check that results differ by rounding alone: whole numbers not at all."""
    assert len(ours) == len(theirs)
    for number, (found, expected) in enumerate(zip(ours, theirs, strict=True)):
        form = found.dtype, found.shape
        assert form == (expected.dtype, expected.shape), f"result {number}: {form}"
        kind = E.from_dtype(found.dtype)
        if not kind.is_floating and not kind.is_complex:
            differing = int(np.count_nonzero(found != expected))
            assert not differing, f"result {number}: {differing} of {found.size} numbers differ"
            continue
        wide = np.complex128 if kind.is_complex else np.float64
        with np.errstate(all="ignore"):
            one, other = found.astype(wide), expected.astype(wide)
            finite = np.isfinite(other)
            assert np.array_equal(np.isfinite(one), finite), f"result {number}: other infinities"
            largest = np.max(np.abs(other[finite]), initial=1e-30)
            gap = float(np.max(np.abs(one[finite] - other[finite]), initial=0.0) / largest)
        numbers: Any = ml_dtypes
        bound = _TOLERANCE.get(kind) or _ROUNDINGS * float(numbers.finfo(found.dtype).eps)
        assert gap <= bound, f"result {number}: off by {gap:.1e} of the largest"


def assert_bits(ours: Sequence[Any], twins: Sequence[Any]) -> None:
    """Check that results have the bits of the twin's, any two NaN being the same."""
    for number, (one, other) in enumerate(zip(ours, twins, strict=True)):
        differing = int(np.count_nonzero(_differs(one, other)))
        if differing:
            raise BitsError(f"result {number}: {differing} of {one.size} have other bits")


def _differs(one: Any, other: Any) -> Any:
    if one.dtype.kind == "c":
        return _differs(one.real, other.real) | _differs(one.imag, other.imag)
    kind = E.from_dtype(one.dtype)
    bits = f"u{one.dtype.itemsize}"
    unequal = np.ascontiguousarray(one).view(bits) != np.ascontiguousarray(other).view(bits)
    if kind.is_floating:
        unequal &= ~(np.isnan(one) & np.isnan(other))
    return unequal
