"""Fusions of real programs as kernels for a GPU on the host, beside the cpu platform.

Results without sums have its bits: formulas, and their operands, are the same.
"""

import math
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.conformance.oracle import assert_equal_bits
from tests.conformance.sweep.draws import drawing
from tests.conformance.sweep.draws.bounds import FLUSHED
from tests.conformance.sweep.draws.depth import FULL
from tests.cuda_twin.device.twin import Twin
from tests.cuda_twin.programs import kernel_of, shapes_of
from tests.fuzz.answers.shrinking.alone import alone
from tests.kernels.corpora import CORPORA
from tests.processors import TARGET
from tests.unit.codegen.compiled import on_cpu
from xla_contract.ops.control.fusion import FusionKind
from xla_contract.types.element_type import ElementType as E
from xla_contract.types.opcode import Opcode
from xla_server.backends.compiled.compilation import compile_module
from xla_server.codegen.gpu.grid import GridKernel
from xla_server.codegen.kernel_ir.statements import Accumulate, Set
from xla_server.codegen.kernel_ir.walk import walk
from xla_server.evaluator.dynamic_shapes import has_dynamic_shapes
from xla_server.ir.importer import import_module
from xla_server.ir.module import HloInstruction, HloModule

MAX_ELEMENTS = 1 << 15
"""Elements of the arrays of a fusion that is run."""


def fusions(corpus: str) -> Iterator[tuple[str, HloModule, HloInstruction]]:
    """Yield small loop fusions of a corpus, each as a module of its own, by a name."""
    for name, module in CORPORA[corpus]():
        if has_dynamic_shapes(module):
            continue
        for each in compile_module(module, target=TARGET).module.entry.instructions:
            if each.opcode is not Opcode.FUSION or each.attributes.kind is not FusionKind.LOOP:
                continue
            shapes = [*shapes_of(each), *(operand.shape for operand in each.operands)]
            if any(shape.is_tuple for shape in shapes):
                continue
            if max(math.prod(shape.dimensions) for shape in shapes) <= MAX_ELEMENTS:
                single = import_module(alone(each))
                (fusion,) = (i for i in single.entry.instructions if i.opcode is Opcode.FUSION)
                yield f"{name} {each.name}", single, fusion


def arguments_of(module: HloModule) -> list[Any]:
    shapes = [parameter.shape for parameter in module.entry.parameters]
    return [
        drawing.array(shape.element_type, shape.dimensions, number, special=False)
        for number, shape in enumerate(shapes)
    ]


def compared(grid: GridKernel, ours: Any, theirs: Any) -> None:
    """Compare results: those of sums, whose order is another, by what their type rounds."""
    kind = E.from_dtype(theirs.dtype)
    has_sums = any(isinstance(each, Accumulate | Set) for each, _ in walk(grid.kernel.body))
    if has_sums and kind.is_floating:
        numbers: Any = ml_dtypes
        bound = 64 * float(numbers.finfo(theirs.dtype).eps)
        np.testing.assert_allclose(ours.astype(float), theirs.astype(float), bound, bound)
    else:
        assert_equal_bits(flushed(ours), flushed(theirs))


def flushed(array: Any) -> Any:
    """Return an array with zeros for subnormal numbers of the types that cpu flushes."""
    if E.from_dtype(array.dtype) not in FLUSHED or array.dtype.kind == "c":
        return array
    numbers: Any = ml_dtypes
    is_tiny = np.abs(array) < numbers.finfo(array.dtype).smallest_normal
    return np.where(is_tiny, np.copysign(np.zeros_like(array), array), array)


@pytest.mark.parametrize("corpus", ["golden", "hlo", "jax", *(["graphs"] if FULL else [])])
def test_fusions_have_the_results_of_the_cpu_platform(corpus: str) -> None:
    ran = 0
    for name, module, fusion in fusions(corpus):
        grid = kernel_of(module, fusion)
        arguments = arguments_of(module)
        results = [(shape.element_type.dtype, shape.dimensions) for shape in shapes_of(fusion)]
        ours = Twin({"k": grid}).run("k", arguments, results)
        for mine, theirs in zip(ours, on_cpu(module, arguments), strict=True):
            try:
                compared(grid, mine, theirs)
            except AssertionError as error:
                raise AssertionError(f"{name}: {error}") from None
        ran += 1
    assert ran
