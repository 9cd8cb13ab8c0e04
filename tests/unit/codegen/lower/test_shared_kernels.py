"""Kernels that differ in numbers alone, which become one."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from tests.conformance.oracle import assert_equal_bits
from tests.corpus.jax.programs import lower
from tests.unit.codegen.compiled import imported, interpreted, on_cpu
from tests.unit.codegen.kernel_ir.kernels import kernel_of, parallel
from xla_contract.types.shape import Shape
from xla_server.backends.compiled.compilation import compile_module
from xla_server.buffers.code import Code, KernelThunk, Thunk, Value
from xla_server.codegen.kernel_ir.expressions import Index
from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.codegen.kernel_ir.routine import Routine, Unit, parameters_of
from xla_server.codegen.kernel_ir.statements import Call, Let
from xla_server.codegen.kernel_ir.walk import walk
from xla_server.codegen.lower.kernel_thunks import kernel_thunk
from xla_server.codegen.lower.lowering import kernels_of
from xla_server.codegen.lower.shared_kernels import MIN_KERNELS, with_shared_kernels
from xla_server.ir.module import HloModule

X = np.random.default_rng(0).standard_normal((40, 64)).astype(np.float32)
Branch = Callable[[Any], Any]


def conditional(make: Callable[[int], Branch], count: int) -> HloModule:
    """A conditional of `count` branches over X."""
    made = [make(number) for number in range(count)]
    with jax.enable_x64(True):
        return imported(lower(lambda number, x: lax.switch(number, made, x), np.int32(0), X))


def kernel_count(module: HloModule) -> int:
    """The number of different kernels; one bounds the number of the branch."""
    return len({thunk.kernel.key for thunk in kernels_of(compile_module(module).code)}) - 1


def stack_bytes(module: HloModule) -> int:
    """The most bytes of an array on the stack of the kernels."""
    kernels = [thunk.kernel for thunk in kernels_of(compile_module(module).code)]
    arrays = [array for each in kernels if isinstance(each, Kernel) for array in each.stack]
    return max((array.byte_size for array in arrays), default=0)


@pytest.mark.parametrize(
    "make",
    [
        lambda n: lambda x: x * np.float32(n + 2.5) + np.float32(n - 7.5),
        lambda n: lambda x: x.astype(jnp.float64) * (n + 2.5) - 0.1,
        # The first branch adds nothing to an index.
        lambda n: lambda x: x[n : n + 9] * x[n + 4 : n + 13],
    ],
    ids=["f32", "f64", "offsets"],
)
def test_kernels_that_differ_in_floats_and_offsets_are_one(make: Callable[[int], Branch]) -> None:
    few, many = conditional(make, MIN_KERNELS - 1), conditional(make, MIN_KERNELS)
    assert [kernel_count(few), kernel_count(many)] == [MIN_KERNELS - 1, 1]
    for number in range(MIN_KERNELS):
        arguments = np.int32(number), X
        assert_equal_bits(on_cpu(many, arguments)[0], interpreted(many, arguments)[0])


@pytest.mark.parametrize("features", [3, 4, 8], ids=["rows", "columns", "tiles"])
def test_dilated_convolutions_are_one_kernel(features: int) -> None:
    """Tiles of the larger dilations need more memory on the stack."""
    inputs = 64 if features == 8 else 32
    weights = np.random.default_rng(1).standard_normal((2, inputs, features)).astype(np.float32)

    def make(number: int) -> Branch:
        dilation = 3 * number + 1
        return lambda x: lax.conv_general_dilated(
            x.reshape(1, -1, inputs),
            weights,
            (1,),
            [(dilation, 0)],
            rhs_dilation=(dilation,),
            dimension_numbers=("NWC", "WIO", "NWC"),
        )

    few, many = conditional(make, MIN_KERNELS - 1), conditional(make, MIN_KERNELS)
    assert [kernel_count(few), kernel_count(many)] == [MIN_KERNELS - 1, 1]
    single = conditional(lambda _: make(MIN_KERNELS - 1), 2)
    assert stack_bytes(many) == stack_bytes(single)
    for number in range(MIN_KERNELS):
        arguments = np.int32(number), X
        alone = conditional(lambda _, number=number: make(number), 2)
        assert_equal_bits(on_cpu(many, arguments)[0], on_cpu(alone, (np.int32(0), X))[0])


def test_operands_of_routines_are_read() -> None:
    routine = Routine("f", parameters_of(depth=Unit.COUNT, step=Unit.COUNT), cost=lambda _: 1)
    values = [Value(Shape.parse("f32[4]"), name) for name in ("x", "y")]

    def thunk(number: int) -> KernelThunk:
        call = Call(routine, (Index(7), Index(number)))
        return kernel_thunk("call", kernel_of(parallel(call), stack=()), values)

    rows: list[Thunk] = [thunk(number) for number in range(MIN_KERNELS)]
    code = with_shared_kernels(Code(rows, values[:1], {}, values[1:]))
    (kernel,) = {thunk.kernel for thunk in kernels_of(code)}
    assert isinstance(kernel, Kernel)
    load, _ = kernel.body
    assert isinstance(load, Let)
    calls = [each.operands for each, _ in walk(kernel.body) if isinstance(each, Call)]
    assert calls == [(Index(7), load.value)]
    numbers = [code.constants[thunk.arguments[-1]] for thunk in kernels_of(code)]
    assert np.concatenate(numbers).tolist() == [*range(MIN_KERNELS)]
    assert all(thunk.arguments[-1] in thunk.reads for thunk in kernels_of(code))


def test_bounds_of_loops_factors_and_distances_stay() -> None:
    module = conditional(lambda n: lambda x: jnp.sum(x[: n + 20], 0), MIN_KERNELS)
    assert kernel_count(module) == MIN_KERNELS
    module = conditional(lambda n: lambda x: x[:20, :: n + 2][:, :8] * 2, MIN_KERNELS)
    assert kernel_count(module) == MIN_KERNELS
    module = conditional(lambda n: lambda x: x[:20] * x[n + 1 : n + 21], MIN_KERNELS)
    assert kernel_count(module) == MIN_KERNELS
