"""Lowering of fft for a GPU: a library's transforms, with kernels that scale and clear around them.

The library does not multiply inverse transforms by 1 / n, and assumes that the first element of a
spectrum, and the middle one of an even length, are real: XLA ignores their imaginary parts.
"""

import math
from collections.abc import Sequence

from xla_contract.ops.linear_algebra.fft import FftAttributes, FftType
from xla_server.buffers.code import Value
from xla_server.codegen.gpu.lower.thunks.library_thunks import add_plan
from xla_server.codegen.gpu.lower.thunks.thread_thunks import ThreadKernel
from xla_server.codegen.gpu.lower.thunks.through_host import ThroughHost
from xla_server.codegen.gpu.plans.library_plans import FftPlan
from xla_server.codegen.kernel_ir import expressions as ir
from xla_server.codegen.kernel_ir.builder import Items
from xla_server.codegen.kernel_ir.types import Type
from xla_server.codegen.lower.fourier import fft
from xla_server.codegen.lower.linear_algebra.matrix_kernel import real
from xla_server.codegen.lower.lowering import Lowering, Tree
from xla_server.ir.module import HloInstruction

_THROUGH_HOST = ThroughHost(fft.lower_fft)


def lower_fft(lowering: Lowering, i: HloInstruction) -> Tree:
    """Transform by a library, or through the host if the library lacks the transform."""
    if not i.shape.element_count:
        return lowering.new(i.shape, i.name)
    plans = plans_of(i)
    if any(plan.problem is not None for plan in plans):
        return _THROUGH_HOST(lowering, i)
    operand, result = lowering.array(i.operands[0]), lowering.new(i.shape, i.name)
    attributes: FftAttributes = i.attributes
    factor = 1 / math.prod(attributes.length)
    match attributes.type:
        case FftType.FFT | FftType.RFFT:
            add_plan(lowering, i.name, plans[0], (operand, result), writes=(result,))
        case FftType.IFFT:
            _add_changed(lowering, f"{i.name}.scaled", operand, result, factor)
            operands = result, result
            add_plan(lowering, i.name, plans[0], operands, writes=(result,), updates=(result,))
        case FftType.IRFFT:
            spectrum = _spectrum(lowering, i, plans[:-1], operand, factor)
            operands = spectrum, result
            add_plan(lowering, i.name, plans[-1], operands, writes=operands, updates=(spectrum,))
    return result


def plans_of(i: HloInstruction) -> Sequence[FftPlan]:
    """Return the transforms of an fft in their order.

    An inverse real one of several dimensions is a complex one of all but the last, then a real one.
    """
    attributes: FftAttributes = i.attributes
    kind, length = attributes.type, tuple(attributes.length)
    shape = i.operands[0].shape
    element = i.shape.element_type if kind is FftType.RFFT else shape.element_type
    batch = math.prod(shape.dimensions[: shape.rank - len(length)])
    is_inverse = kind in (FftType.IFFT, FftType.IRFFT)
    if kind is not FftType.IRFFT:
        return (FftPlan(element, batch, length, is_inverse, kind is FftType.RFFT),)
    *outer, last = length
    lines = FftPlan(element, batch * math.prod(outer), (last,), is_inverse, is_real=True)
    if not outer:
        return (lines,)
    inner = shape.dimensions[-1]
    return FftPlan(element, batch, tuple(outer), is_inverse, inner=inner), lines


def _spectrum(
    lowering: Lowering,
    i: HloInstruction,
    outer: Sequence[FftPlan],
    operand: Value,
    factor: float,
) -> Value:
    """Return a copy of a spectrum, scaled, its outer dimensions transformed, ready for the last."""
    shape, size = i.operands[0].shape, i.shape.dimensions[-1]
    for plan in outer:
        scaled = lowering.new(shape, f"{i.name}.scaled")
        _add_changed(lowering, scaled.name, operand, scaled, factor)
        operands = scaled, scaled
        name = f"{i.name}.outer"
        add_plan(lowering, name, plan, operands, writes=(scaled,), updates=(scaled,))
        operand, factor = scaled, 1.0
    spectrum = lowering.new(shape, f"{i.name}.spectrum")
    _add_changed(lowering, spectrum.name, operand, spectrum, factor, size)
    return spectrum


def _add_changed(
    lowering: Lowering,
    name: str,
    source: Value,
    target: Value,
    factor: float,
    size: int | None = None,
) -> None:
    """Add a kernel that multiplies complex elements.

    If they are spectra of rows of `size` real elements, imaginary parts that must be zero are
    cleared.
    """
    kind = source.shape.element_type.real_component.text
    kernel = ThreadKernel(name)
    memory, made = kernel.reads(source), kernel.writes(target)
    with Items(kernel.top, source.shape.element_count) as items:
        parts: list[ir.Expression] = [
            ir.Apply(
                "mul",
                (ir.Load(memory, Type(kind), items.axis * 2 + part), real(kind, factor)),
                Type(kind),
            )
            for part in range(2)
        ]
        if size is not None:
            column = items.let("column", items.axis % source.shape.dimensions[-1])
            ends = {0, size // 2} if size % 2 == 0 else {0}
            tests: list[ir.Expression] = [ir.condition("eq", column, end) for end in sorted(ends)]
            is_real = tests[0] if len(tests) == 1 else ir.condition("bit_or", *tests)
            parts[1] = ir.Apply("select", (is_real, real(kind, 0.0), parts[1]), Type(kind))
        for part, value in enumerate(parts):
            items.store(made, kind, items.axis * 2 + part, value)
    lowering.add(kernel.thunk())
