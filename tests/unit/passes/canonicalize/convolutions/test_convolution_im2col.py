"""Convolutions as products with im2col matrices: which are, and what they compute."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.corpus.jax.programs import lower
from tests.cuda.checks.outcomes import assert_near
from tests.unit.codegen.compiled import imported, interpreted
from xla_contract.types.element_type import ElementType
from xla_contract.types.opcode import Opcode
from xla_server.ir.module import HloModule
from xla_server.passes.canonicalize.convolutions.convolution_im2col import ConvolutionIm2col
from xla_server.passes.framework.fixpoint import run_once
from xla_server.target.capability import Capability
from xla_server.target.gpu.gpu_capability import GpuCapability
from xla_server.target.machine import Machine
from xla_server.target.target import Target

GPU = Target.of(Machine.cuda("sm_90"))
CPU = Target.of(Machine.host())


def numbers(*sizes: int) -> Any:
    return np.random.default_rng(len(sizes)).standard_normal(sizes).astype(np.float32)


IMAGES, KERNEL = numbers(8, 20, 18, 16), numbers(3, 3, 16, 32)

FORMS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "valid": {},
        "padded": {"padding": ((1, 2), (0, 1))},
        "cut": {"padding": ((-1, 1), (2, -3))},
        "strides": {"window_strides": (2, 3)},
        "dilated kernel": {"rhs_dilation": (2, 1), "padding": ((2, 2), (1, 1))},
        "dilated input": {"lhs_dilation": (2, 3), "padding": ((3, 0), (1, 2))},
        "all": {
            "window_strides": (2, 1),
            "lhs_dilation": (1, 2),
            "rhs_dilation": (2, 2),
            "padding": ((3, 1), (0, 4)),
        },
    }
)

ORDERS = (("NHWC", "HWIO", "NHWC"), ("NCHW", "OIHW", "NCHW"), ("CHWN", "IHWO", "HWNC"))


def convolved(order: tuple[str, str, str], **form: Any) -> HloModule:
    """Return a program that convolves the images in an order of dimensions."""
    images = IMAGES.transpose(["NHWC".index(letter) for letter in order[0]])
    kernel = KERNEL.transpose(["HWIO".index(letter) for letter in order[1]])
    given = {"window_strides": (1, 1), "padding": "VALID", **form}

    def program(x: Any, y: Any) -> Any:
        return jax.lax.conv_general_dilated(x, y, dimension_numbers=order, **given)

    return imported(lower(program, images.copy(), kernel.copy()))


def opcodes(module: HloModule) -> set[Opcode]:
    return {i.opcode for i in module.entry.instructions}


def rewritten(module: HloModule, target: Target = GPU) -> bool:
    """Run the pass; return whether a convolution became a product."""
    run_once((ConvolutionIm2col(target),), module)
    return Opcode.DOT in opcodes(module)


def assert_same(module: HloModule) -> None:
    """Check that a program with convolutions becomes one without, which computes the same."""
    drawn = np.random.default_rng(0)
    arguments = [
        drawn.standard_normal(shape.dimensions).astype(np.float32)
        for shape in module.entry_program_shape.parameters
    ]
    expected = interpreted(module, arguments)
    assert rewritten(module)
    assert Opcode.CONVOLUTION not in opcodes(module)
    assert_near(interpreted(module, arguments), expected)


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("order", ORDERS)
def test_products_are_convolutions(order: tuple[str, str, str], name: str) -> None:
    assert_same(convolved(order, **FORMS[name]))


def test_gradients_have_few_positions_of_large_windows() -> None:
    def loss(x: Any, y: Any) -> Any:
        form = ("NHWC", "HWIO", "NHWC")
        return jnp.sum(jax.lax.conv_general_dilated(x, y, (1, 1), "SAME", dimension_numbers=form))

    assert_same(imported(lower(jax.grad(loss, (0, 1)), IMAGES, KERNEL)))


def test_a_window_that_is_read_backwards_is_a_kernel_reversed() -> None:
    def transposed(x: Any, y: Any) -> Any:
        return jax.lax.conv_transpose(x, y, (2, 2), "SAME", transpose_kernel=True)

    assert_same(imported(lower(transposed, IMAGES, numbers(3, 3, 32, 16))))


@pytest.mark.parametrize(
    ("images", "kernel", "form"),
    [
        pytest.param(IMAGES[:1, :4, :4], KERNEL, {}, id="little work"),
        pytest.param(IMAGES, numbers(3, 3, 16, 4), {}, id="few uses"),
        pytest.param(IMAGES, numbers(8, 8, 16, 32), {}, id="many slices"),
        pytest.param(IMAGES, numbers(3, 3, 1, 32), {"feature_group_count": 16}, id="groups"),
        pytest.param(IMAGES, KERNEL, {"batch_group_count": 4}, id="groups of batches"),
        pytest.param(IMAGES.astype(np.int32), KERNEL.astype(np.int32), {}, id="integers"),
    ],
)
def test_other_convolutions_stay(images: Any, kernel: Any, form: Mapping[str, Any]) -> None:
    def program(x: Any, y: Any) -> Any:
        order = ("NHWC", "HWIO", "NHWC")
        return jax.lax.conv_general_dilated(x, y, (1, 1), "VALID", dimension_numbers=order, **form)

    assert not rewritten(imported(lower(program, images, kernel)))


def test_a_processor_has_kernels_of_convolutions() -> None:
    assert not rewritten(convolved(ORDERS[0]), CPU)


def whole(kind: Any, *sizes: int) -> Any:
    return np.random.default_rng(len(sizes)).integers(0, 100, sizes).astype(kind)


def convolved_integers(images: Any, kernel: Any, result: Any) -> HloModule:
    """Return a program that convolves integers with channels last."""
    order = ("NHWC", "HWIO", "NHWC")

    def program(x: Any, y: Any) -> Any:
        return jax.lax.conv_general_dilated(
            x, y, (1, 1), "SAME", dimension_numbers=order, preferred_element_type=result
        )

    return imported(lower(program, images, kernel))


@pytest.mark.parametrize(
    ("kind", "result"),
    [(np.int8, np.int32), (np.uint8, np.uint8), (np.int16, np.int32), (np.int32, np.int32)],
)
def test_a_processor_multiplies_integers_as_products(kind: Any, result: Any) -> None:
    images, kernel = whole(kind, 2, 20, 18, 16), whole(kind, 3, 3, 16, 24)
    module = convolved_integers(images, kernel, result)
    (expected,) = interpreted(module, [images, kernel])
    assert rewritten(module, CPU)
    np.testing.assert_array_equal(interpreted(module, [images, kernel])[0], expected)


@pytest.mark.parametrize(
    ("images", "kernel"),
    [
        pytest.param((1, 8, 8, 16), (3, 3, 16, 24), id="little work"),
        pytest.param((2, 60, 60, 16), (3, 3, 16, 7), id="few uses"),
        pytest.param((2, 60, 60, 3), (3, 3, 3, 16), id="short runs of an unrolled window"),
        pytest.param((2, 40, 40, 16), (8, 8, 16, 24), id="many slices"),
    ],
)
def test_other_integers_stay_loop_nests(images: Any, kernel: Any) -> None:
    arrays = whole(np.int8, *images), whole(np.int8, *kernel)
    assert not rewritten(convolved_integers(*arrays, np.int32), CPU)


def test_large_windows_of_short_runs_are_products_on_a_processor() -> None:
    arrays = whole(np.int8, 2, 60, 60, 3), whole(np.int8, 7, 7, 3, 16)
    assert rewritten(convolved_integers(*arrays, np.int32), CPU)


def test_matrices_have_a_bound_of_memory() -> None:
    sizes = 1 << 20, 64, 256
    assert GpuCapability().multiplies_im2col(sizes, 9, ElementType.F32)
    assert not GpuCapability().multiplies_im2col(sizes, 9, ElementType.F64)
    assert Capability().multiplies_im2col((1 << 18, 64, 256), 9, ElementType.S8)
    assert not Capability().multiplies_im2col((1 << 18, 64, 256), 9, ElementType.S16)
