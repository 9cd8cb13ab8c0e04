"""Fourier transforms by cuFFT.

Transforms over dimensions that are not innermost are one call for each array of the batch, as the
library's batches have a single stride.

Semantics: the cuFFT library's documentation, cufftMakePlanMany64 and cufftExec.
"""

import contextlib
import math
import threading
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from nvmath.bindings import cufft

from xla_contract.types.element_type import ElementType
from xla_server.backends.cuda.worker.libraries.library import Libraries, LibraryError, borrowed
from xla_server.codegen.gpu.plans.library_plans import FftPlan

FORWARD, INVERSE = -1, 1
"""Directions of complex transforms, cufft.h."""

_FORMS: Mapping[tuple[ElementType, bool, bool], tuple[int, Callable[..., None]]] = MappingProxyType(
    {
        (ElementType.C64, False, False): (int(cufft.Type.C2C), cufft.exec_c2c),
        (ElementType.C64, False, True): (int(cufft.Type.C2C), cufft.exec_c2c),
        (ElementType.C64, True, False): (int(cufft.Type.R2C), cufft.exec_r2c),
        (ElementType.C64, True, True): (int(cufft.Type.C2R), cufft.exec_c2r),
        (ElementType.C128, False, False): (int(cufft.Type.Z2Z), cufft.exec_z2z),
        (ElementType.C128, False, True): (int(cufft.Type.Z2Z), cufft.exec_z2z),
        (ElementType.C128, True, False): (int(cufft.Type.D2Z), cufft.exec_d2z),
        (ElementType.C128, True, True): (int(cufft.Type.Z2D), cufft.exec_z2d),
    }
)
"""The library's type and function by (element, is_real, is_inverse)."""


class PreparedTransform:
    """A plan with the library's plan, which is used by one thread at a time.

    Raises LibraryError if the library refuses it.
    """

    def __init__(self, libraries: Libraries, plan: FftPlan) -> None:
        self._memory, self._plan, self._lock = libraries.memory, plan, threading.Lock()
        kind, self._execute = _FORMS[plan.element, plan.is_real, plan.is_inverse]
        self._directions = () if plan.is_real else (INVERSE if plan.is_inverse else FORWARD,)
        real, half = plan.sizes, plan.complex_sizes
        source, target = (half, real) if plan.is_inverse else (real, half)
        batch = plan.batch if plan.inner == 1 else plan.inner
        apart = (math.prod(source), math.prod(target)) if plan.inner == 1 else (1, 1)
        self._owned = contextlib.ExitStack()
        self._handle: int = cufft.create()
        self._owned.callback(cufft.destroy, self._handle)
        try:
            cufft.set_auto_allocation(self._handle, 0)
            self._work_bytes: int = cufft.make_plan_many64(
                self._handle,
                len(plan.sizes),
                plan.sizes,
                source,
                plan.inner,
                apart[0],
                target,
                plan.inner,
                apart[1],
                kind,
                batch,
            )
        except cufft.cuFFTError as error:
            raise LibraryError(f"{plan.text}: {error}") from error

    def call(self, addresses: Sequence[int], stream: int) -> None:
        """Enqueue the transforms to a stream. Raises OutOfDeviceMemoryError."""
        source, target = addresses
        plan = self._plan
        calls = plan.batch if plan.inner > 1 else 1
        step = math.prod(plan.sizes) * plan.inner * plan.element.byte_width
        with self._lock, borrowed(self._memory, self._work_bytes, stream) as work:
            cufft.set_stream(self._handle, stream)
            if work:
                cufft.set_work_area(self._handle, work)
            for number in range(calls):
                ahead = number * step
                self._execute(self._handle, source + ahead, target + ahead, *self._directions)

    def __del__(self) -> None:
        self._owned.close()
