"""Parameters take text, names, numbers and one for many beside the records of the contract."""

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.unit.client.mistakes.cases import Values
from xla_client import (
    DotDimensionNumbers,
    ElementType,
    PaddingConfig,
    PaddingDimension,
    Shape,
    lib,
    ops,
)
from xla_client.coercion import as_element_type, as_shape
from xla_client.ops.contraction.convolution import default_dimension_numbers
from xla_contract.errors import InvalidArgumentError
from xla_contract.ops.linear_algebra.fft import FftType


class Struct:
    """An object with the attributes of a jax.ShapeDtypeStruct."""

    shape = (2, 3)
    dtype = np.dtype(ml_dtypes.bfloat16)


@pytest.mark.parametrize(
    ("written", "text"),
    [
        (Shape.parse("f32[2]"), "f32[2]"),
        ("f32[2,<=3]{1,0}", "f32[2,<=3]{1,0}"),
        ("(f32[2], (s32[], token[]))", "(f32[2], (s32[], token[]))"),
        (["f32[2]", ("s32[]",)], "(f32[2], (s32[]))"),
        ((), "()"),
        (np.zeros((2, 3), np.int8), "s8[2,3]"),
        (np.float64(1), "f64[]"),
        (Struct(), "bf16[2,3]"),
    ],
)
def test_shapes(written: Any, text: str) -> None:
    assert str(as_shape(written)) == text


def test_a_shape_that_holds_itself_is_refused() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(InvalidArgumentError, match="shape may nest 64 tuples"):
        as_shape(endless)


def test_element_types() -> None:
    assert as_element_type("float32") is as_element_type(np.float32) is ElementType.F32


CONV = "b01f_01io->b01f"
SAME: dict[str, tuple[Callable[[Values], Any], Callable[[Values], Any]]] = {
    "dimension numbers of HLO": (
        lambda e: ops.conv_general(e.image, e.kernel, [1, 1], "SAME", CONV),
        lambda e: ops.conv_general(e.image, e.kernel, [1, 1], [(1, 1)] * 2, "NHWC,HWIO->NHWC"),
    ),
    "padding by name with dilations": (
        lambda e: ops.conv_general_dilated(
            e.image, e.kernel, [1, 1], "same", None, [2, 2], CONV, precision="highest"
        ),
        lambda e: ops.conv_general_dilated(
            e.image, e.kernel, [1, 1], [(2, 2)] * 2, None, [2, 2], CONV, precision=[2, 2]
        ),
    ),
    "the default order": (
        lambda e: ops.conv(e.x.reshape(1, 2, 3), e.x.reshape(1, 2, 3), 1, "VALID"),
        lambda e: ops.conv_general(
            e.x.reshape(1, 2, 3), e.x.reshape(1, 2, 3), [1], [(0, 0)], default_dimension_numbers(1)
        ),
    ),
    "one dimension": (
        lambda e: ops.reduce(e.x, 0.0, e.add, 1),
        lambda e: ops.reduce([e.x], [e.b.constant(0.0)], e.add, [1]),
    ),
    "dot's numbers as pairs": (
        lambda e: ops.dot_general(e.x, e.x, ((1, 1), ((), ())), "high", np.float32),
        lambda e: ops.dot_general(
            e.x, e.x, DotDimensionNumbers((1,), (1,)), [1, 1], ElementType.F32
        ),
    ),
    "padding as pairs": (
        lambda e: ops.pad(e.v, 0, [(1, 2)]),
        lambda e: ops.pad(
            e.v, e.b.constant(np.float32(0)), PaddingConfig((PaddingDimension(1, 2),))
        ),
    ),
    "padding with an interior": (
        lambda e: ops.pad(e.v, 0, [(0, 0, 1)]),
        lambda e: ops.pad(e.v, 0.0, PaddingConfig((PaddingDimension(0, 0, 1),))),
    ),
    "starts as numbers": (
        lambda e: ops.dynamic_slice(e.x, [e.i, 1], [1, 2]),
        lambda e: ops.dynamic_slice(e.x, [e.i, e.b.constant(1)], (1, 2)),
    ),
    "a transform by name": (
        lambda e: ops.fft(e.z, "fft", 3),
        lambda e: ops.fft(e.z, FftType.FFT, [3]),
    ),
    "a direction by name": (
        lambda e: ops.compare(e.x, 0, "lt"),
        lambda e: ops.lt(e.x, 0.0),
    ),
    "elements one by one": (
        lambda e: ops.tuple(e.x, e.i, 1.5),
        lambda e: ops.tuple([e.x, e.i, e.b.constant(1.5)], e.b),
    ),
    "operands alone": (
        lambda e: ops.map(e.v, lambda a: a + 1),
        lambda e: ops.map([e.v], lambda a: a + 1, [0]),
    ),
    "a builder for numbers": (
        lambda e: ops.rng_uniform(0, 1, "f32[3]", e.b),
        lambda e: ops.rng_uniform(e.s, e.s, Shape.parse("f32[3]")),
    ),
    "numbers beside Ops": (
        lambda e: ops.clamp(0, e.v, 1),
        lambda e: ops.clamp(e.s, e.v, e.s),
    ),
    "an array of rank 0": (
        lambda e: ops.add(e.v, np.array(2.0)),
        lambda e: e.v + 2,
    ),
    "zeros of a shape in text": (
        lambda e: lib.constants.zeros(e.b, "f32[2]"),
        lambda e: lib.constants.zeros(e.b, Shape.parse("f32[2]")),
    ),
    "an axis alone": (
        lambda e: lib.arithmetic.sum(e.x, -1),
        lambda e: lib.arithmetic.sum(e.x, [1]),
    ),
    "a custom call's numbers": (
        lambda e: ops.custom_call([e.x, 1.5], "f", "f32[3]", "opaque"),
        lambda e: ops.custom_call([e.x, e.b.constant(1.5)], "f", e.v.shape, b"opaque"),
    ),
    "a sequence of results": (
        lambda e: e.b.build([e.x, 1]),
        lambda e: e.b.build(ops.tuple(e.x, 1)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SAME)
def test_both_forms_write_the_same(name: str) -> None:
    texts = []
    for write in SAME[name]:
        values = Values()
        made = write(values)
        texts.append(str(made.result if hasattr(made, "result") else made.shape))
        last = values.b.build().proto.computations[-1].instructions[-1]
        for field in ("id", "name", "operand_ids", "called_computation_ids"):
            last.ClearField(field)
        texts[-1] += str(last)
    assert texts[0] == texts[1]


def test_library_is_there_by_attribute() -> None:
    assert len(lib.__all__) == 22
    assert set(lib.__all__) <= set(dir(lib))
    with pytest.raises(AttributeError, match=r"'xla_client.lib' has no attribute 'sotring'"):
        lib.sotring  # noqa: B018
