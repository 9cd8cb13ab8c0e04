"""Convolutions by a library, on its twin: its plans, and what it computes."""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.corpus.jax.programs import lower
from tests.cuda.checks.outcomes import assert_near
from tests.cuda_twin.device.twin import DEVICE
from tests.cuda_twin.rows import plans, results_of
from tests.unit.codegen.compiled import imported, interpreted
from xla_contract.types.element_type import ElementType as E
from xla_server.backends.compiled.compilation import compile_module
from xla_server.buffers.code import Code
from xla_server.codegen.gpu.lower.table import CUDA_LOWERINGS
from xla_server.codegen.gpu.plans.convolution_plans import ConvolutionPlan
from xla_server.codegen.gpu.plans.library_plans import GemmPlan
from xla_server.ir.module import HloModule
from xla_server.target.gpu.convolution import Convolution, Direction
from xla_server.target.gpu.gpu_capability import GpuCapability
from xla_server.target.target import Target

BY_LIBRARY = GpuCapability(has_convolutions=True, min_products=0)
IMAGE, TAPS = (9, 8, 6), (3, 2, 2)
LAST, FIRST = ("NHWC", "HWIO", "NHWC"), ("NCHW", "OIHW", "NCHW")
ORDERS = (LAST, FIRST, ("NHWC", "OHWI", "NHWC"), ("NCHW", "IOHW", "NCHW"))


def compiled(module: HloModule, capability: GpuCapability = BY_LIBRARY) -> Code:
    """Return the rows of a module with convolutions by a library."""
    target = dataclasses.replace(Target.of(DEVICE), capability=capability)
    return compile_module(module, target=target, lowerings=CUDA_LOWERINGS).code


def convolutions(code: Code) -> list[Convolution]:
    return [plan.convolution for plan in plans(code) if isinstance(plan, ConvolutionPlan)]


def numbers(dtype: Any, *sizes: int) -> Any:
    return np.random.default_rng(sizes[-1]).standard_normal(sizes).astype(dtype)


def arrays(order: Sequence[str], dtype: Any = np.float32, groups: int = 1) -> tuple[Any, Any]:
    """Return images and a filter in an order of dimensions."""
    features = {"N": 3, "C": 2 * groups, "I": 2, "O": 4 * groups}
    image, taps = (features | dict(zip("HWD", sizes, strict=True)) for sizes in (IMAGE, TAPS))
    return (
        numbers(dtype, *(image[letter] for letter in order[0])),
        numbers(dtype, *(taps[letter] for letter in order[1])),
    )


def assert_by_library(
    function: Callable[..., Any], *arguments: Any, count: int | None = 1
) -> list[Convolution]:
    """Check results, and that so many are by the library; return their plans."""
    module = imported(lower(function, *arguments))
    code = compiled(module)
    found = convolutions(code)
    if count is not None:
        assert len(found) == count
        assert not any(isinstance(plan, GemmPlan) for plan in plans(code))
    expected = interpreted(module, list(arguments))
    ours = results_of(code, arguments)
    assert_near([each.reshape(-1) for each in ours], [each.reshape(-1) for each in expected])
    return found


def with_gradients(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of x and y that gives their gradients of the sum of squares."""

    def gradients(x: Any, y: Any) -> Any:
        made, back = jax.vjp(function, x, y)
        return back(made)

    return gradients


FORMS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "valid": {"padding": "VALID"},
        "padded": {"padding": ((1, 1), (1, 1))},
        "one side": {"padding": ((1, 2), (0, 1))},
        "strides": {"padding": "SAME", "window_strides": (2, 3)},
        "dilated": {"padding": "SAME", "rhs_dilation": (2, 1)},
        "all": {"padding": ((2, 1), (0, 2)), "window_strides": (2, 1), "rhs_dilation": (1, 2)},
    }
)


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("order", ORDERS)
def test_convolutions_and_their_gradients(order: tuple[str, str, str], name: str) -> None:
    form = {"window_strides": (1, 1), "dimension_numbers": order, **FORMS[name]}

    def convolved(x: Any, y: Any) -> Any:
        return jax.lax.conv_general_dilated(x, y, **form)

    found = assert_by_library(with_gradients(convolved), *arrays(order), count=3)
    assert {each.direction for each in found} == set(Direction)
    assert {each.is_channels_last for each in found} == {order[0] == "NHWC"}


def test_gradients_are_of_the_convolution_that_they_come_from() -> None:
    form = {"window_strides": (2, 3), "padding": "SAME", "rhs_dilation": (1, 2)}

    def convolved(x: Any, y: Any) -> Any:
        return jax.lax.conv_general_dilated(x, y, dimension_numbers=LAST, **form)

    code = compiled(imported(lower(with_gradients(convolved), *arrays(LAST))))
    assert [str(each) for each in convolutions(code)] == [
        f"{direction} of f32, x * w -> y of [3, 2, 9, 8] * [4, 2, 3, 2] * [3, 4, 5, 3], strides "
        "(2, 3), dilations (1, 2), pad (1, 0) (1, 1), channels last, in TF32"
        for direction in ("forward", "data gradient", "filter gradient")
    ]


def test_types_are_those_of_the_program() -> None:
    for dtype, element in ((np.float64, E.F64), (np.float16, E.F16), ("bfloat16", E.BF16)):
        x, y = arrays(LAST, dtype)
        function = lambda x, y: jax.lax.conv_general_dilated(  # noqa: E731
            x, y, (1, 1), "SAME", dimension_numbers=LAST
        )
        with jax.enable_x64(True):
            (found,) = assert_by_library(function, x, y)
        assert (found.element, found.rounds_operands) == (element, False)


def test_groups_are_reported() -> None:
    def grouped(x: Any, y: Any) -> Any:
        return jax.lax.conv_general_dilated(
            x, y, (1, 1), "SAME", dimension_numbers=FIRST, feature_group_count=2
        )

    x, y = arrays(FIRST, groups=2)
    (found,) = assert_by_library(grouped, x, y)
    assert found.groups == 2
    gradient = jax.grad(lambda y: (grouped(x, y) ** 2).sum())
    found = assert_by_library(gradient, y, count=2)[1]
    assert (found.direction, found.groups) == (Direction.FILTER_GRADIENT, 2)
    # JAX moves the groups of a reversed filter, which is read forwards then.
    _, found = assert_by_library(jax.grad(lambda x: (grouped(x, y) ** 2).sum()), x, count=2)
    assert (found.direction, found.groups) == (Direction.FORWARD, 2)


@pytest.mark.parametrize("letters", ["W", "HWD"])
def test_other_numbers_of_dimensions(letters: str) -> None:
    order = tuple(text.replace("HW", letters) for text in (LAST if letters == "W" else FIRST))
    form = {"window_strides": (2,) * len(letters), "padding": "SAME", "dimension_numbers": order}

    def convolved(x: Any, y: Any) -> Any:
        return jax.lax.conv_general_dilated(x, y, **form)

    found = assert_by_library(with_gradients(convolved), *arrays(order), count=3)
    assert {len(each.image) for each in found} == {max(2, len(letters))}


def test_transposed_convolutions_are_gradients_of_data() -> None:
    x, y = arrays(("NHWC", "HWOI", "NHWC"))
    transposed = functools.partial(jax.lax.conv_transpose, strides=(2, 2), padding="SAME")
    backwards = lambda x, y: transposed(x, y, transpose_kernel=True)  # noqa: E731
    (found,) = assert_by_library(backwards, x, y)
    assert found.direction is Direction.DATA_GRADIENT
    # The library has no dilated input of a window that is read forwards.
    assert not convolutions(compiled(imported(lower(transposed, x, y.swapaxes(2, 3)))))


@st.composite
def forms(draw: st.DrawFn) -> tuple[dict[str, Any], tuple[str, str, str]]:
    """Draw a convolution that may become a plan."""
    two = st.tuples(*[st.integers(1, 3)] * 2)
    pad = st.tuples(*[st.integers(0, 2)] * 2)
    form = {
        "window_strides": draw(two),
        "padding": draw(st.tuples(pad, pad)),
        "rhs_dilation": draw(two),
    }
    return form, draw(st.sampled_from(ORDERS))


@settings(max_examples=25, deadline=None)
@given(forms())
def test_random_convolutions_and_gradients(drawn: Any) -> None:
    form, order = drawn

    def convolved(x: Any, y: Any) -> Any:
        return jax.lax.conv_general_dilated(x, y, dimension_numbers=order, **form)

    assert_by_library(with_gradients(convolved), *arrays(order), count=None)


def test_what_the_library_does_not_have_stays() -> None:
    """Such convolutions become products or loop nests, as they do without a library."""
    x, y = arrays(LAST)
    rows: dict[str, dict[str, Any]] = {
        "cut": {"padding": ((-1, 0), (0, 0))},
        "dilated input": {"padding": ((0, 0), (0, 0)), "lhs_dilation": (2, 1)},
        "plain": {"padding": "VALID"},
    }
    for name, form in rows.items():
        function = lambda x, y, form=form: jax.lax.conv_general_dilated(  # noqa: E731
            *(x, y, (1, 1)), dimension_numbers=LAST, **form
        )
        module = imported(lower(function, x, y))
        reported = convolutions(compiled(module))
        assert bool(reported) == (name == "plain"), name
        refused = GpuCapability(has_convolutions=True, min_products=0, refused=frozenset(reported))
        assert not convolutions(compiled(module, refused))
        assert not convolutions(compiled(module, GpuCapability(has_convolutions=True)))
        assert not convolutions(compiled(module, GpuCapability()))
