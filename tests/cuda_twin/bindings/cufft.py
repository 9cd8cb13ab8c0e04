"""cuFFT: what is used of it. A plan says by strides where elements lie."""

import dataclasses
import enum
import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from tests.cuda_twin.bindings.memory import elements


class cuFFTError(Exception):  # noqa: N801
    """A call failed."""


class Type(enum.IntEnum):
    """cufftType."""

    R2C = 42
    C2R = 44
    C2C = 41
    D2Z = 106
    Z2D = 108
    Z2Z = 105


_TYPES = {
    Type.R2C: (np.float32, np.complex64),
    Type.C2R: (np.complex64, np.float32),
    Type.C2C: (np.complex64, np.complex64),
    Type.D2Z: (np.float64, np.complex128),
    Type.Z2D: (np.complex128, np.float64),
    Type.Z2Z: (np.complex128, np.complex128),
}

ROOM = 33
"""Bytes that a transform works in."""


@dataclasses.dataclass(slots=True)
class _Side:
    """Where elements lie: cuFFT, Advanced Data Layout."""

    dtype: Any
    sizes: tuple[int, ...]
    embedded: tuple[int, ...]
    stride: int
    distance: int
    batch: int

    def array(self, address: int) -> Any:
        """Return the elements as [batch, *sizes]."""
        steps = [math.prod(self.embedded[d + 1 :]) * self.stride for d in range(len(self.sizes))]
        extents = zip((self.batch, *self.sizes), (self.distance, *steps), strict=True)
        count = 1 + sum((size - 1) * step for size, step in extents)
        found = elements(address, self.dtype, count)
        width = found.dtype.itemsize
        strides = [step * width for step in (self.distance, *steps)]
        return as_strided(found, (self.batch, *self.sizes), strides)


@dataclasses.dataclass(slots=True)
class _Plan:
    kind: Type | None = None
    source: _Side | None = None
    target: _Side | None = None
    sizes: tuple[int, ...] = ()
    stream: int = 0
    area: int = 0
    allocates: bool = True


_numbers = itertools.count(1)
_plans: dict[int, _Plan] = {}


def create() -> int:
    """Return a plan's number."""
    number = next(_numbers)
    _plans[number] = _Plan()
    return number


def destroy(plan: int) -> None:
    """Drop a plan."""
    del _plans[plan]


def set_auto_allocation(plan: int, auto_allocate: int) -> None:
    """Say whether a plan has memory of its own."""
    assert _plans[plan].kind is None, "before the plan is made"
    _plans[plan].allocates = bool(auto_allocate)


def make_plan_many64(
    plan: int,
    rank: int,
    n: Sequence[int],
    inembed: Sequence[int],
    istride: int,
    idist: int,
    onembed: Sequence[int],
    ostride: int,
    odist: int,
    type: int,
    batch: int,
) -> int:
    """Make a plan; return the bytes that it works in."""
    made, sizes = _plans[plan], tuple(n)
    assert len(sizes) == len(inembed) == len(onembed) == rank
    assert not made.allocates
    half = (*sizes[:-1], sizes[-1] // 2 + 1)
    made.kind, made.sizes = Type(type), sizes
    source, target = _TYPES[made.kind]
    given = half if made.kind in (Type.C2R, Type.Z2D) else sizes
    gives = half if made.kind in (Type.R2C, Type.D2Z) else sizes
    made.source = _Side(source, given, tuple(inembed), istride, idist, batch)
    made.target = _Side(target, gives, tuple(onembed), ostride, odist, batch)
    return ROOM


def set_work_area(plan: int, work_area: int) -> None:
    """Say where a plan works."""
    _plans[plan].area = work_area


def set_stream(plan: int, stream: int) -> None:
    """Do nothing: calls are done at once."""


def _executed(plan: int, idata: int, odata: int, direction: int = 0) -> None:
    made = _plans[plan]
    assert made.source is not None
    assert made.target is not None
    elements(made.area, np.uint8, ROOM)[:] = 0xFF
    source, target = made.source.array(idata), made.target.array(odata)
    axes = tuple(range(1, source.ndim))
    match made.kind:
        case Type.C2C | Type.Z2Z:
            assert direction in (-1, 1)
            form = {"norm": "forward"} if direction == 1 else {}
            target[:] = (np.fft.fftn if direction == -1 else np.fft.ifftn)(
                source, axes=axes, **form
            )
        case Type.R2C | Type.D2Z:
            target[:] = np.fft.rfftn(source, axes=axes)
        case _:
            ends = (0, made.sizes[-1] // 2) if made.sizes[-1] % 2 == 0 else (0,)
            assert not source[..., ends].imag.any(), "the ends of spectra must be real"
            target[:] = np.fft.irfftn(source, made.sizes, axes=axes, norm="forward")
            source[:] = np.nan


exec_c2c = exec_z2z = exec_r2c = exec_d2z = exec_c2r = exec_z2d = _executed
