"""Reduce-windows in tiles, beside the interpreter."""

import dataclasses
from typing import Any

import jax
import numpy as np
import pytest
from jax import lax

from tests.conformance.oracle import assert_equal_bits
from tests.conformance.sweep.draws.depth import paired
from tests.corpus.jax.programs import lower
from tests.unit.codegen.compiled import imported, on_cpu, pairs
from tests.unit.codegen.from_jax import near_texts
from tests.unit.passes.passing import drawn, tame
from xla_contract.types.element_type import ElementType
from xla_contract.types.shape import Shape
from xla_server.backends.compiled.compilation import compile_module
from xla_server.codegen.lower.lowering import kernels_of
from xla_server.ir.module import HloModule


@dataclasses.dataclass(frozen=True)
class Form:
    """A window over an operand of these dimensions."""

    dimensions: tuple[int, ...]
    size: tuple[int, ...]
    stride: tuple[int, ...] = ()
    padding: tuple[tuple[int, int], ...] = ()
    dilation: tuple[int, ...] = ()
    base: tuple[int, ...] = ()

    def over(self, x: Any, initial: Any, operation: str) -> Any:
        ones = (1,) * len(self.size)
        return lax.reduce_window(
            x,
            initial,
            getattr(lax, operation),
            self.size,
            self.stride or ones,
            self.padding or ((0, 0),) * len(self.size),
            self.base or ones,
            self.dilation or ones,
        )


FORMS = {
    "one_row": Form((3000,), (15,)),
    "padded_row": Form((3000,), (12,), padding=((6, 5),)),
    "short_window": Form((3000,), (3,), padding=((1, 1),)),
    "long_window": Form((2500,), (331,), padding=((200, 17),)),
    "longer_than_the_row": Form((50,), (64,), padding=((40, 30),)),
    "strided": Form((3001,), (16,), (4,), ((3, 5),)),
    "apart": Form((3001,), (5,), (20,), ((2, 30),)),
    "beside_each_other": Form((4000,), (15,), (15,), ((3, 4),)),
    "dilated": Form((2000,), (12,), padding=((10, 10),), dilation=(3,)),
    "strided_and_dilated": Form((2000,), (12,), (3,), ((10, 10),), (2,)),
    "dilated_base": Form((900,), (12,), padding=((4, 4),), base=(3,)),
    "dilated_base_and_stride": Form((900,), (12,), (2,), ((4, 4),), base=(3,)),
    "cut_off": Form((3000,), (11,), padding=((-7, -20),)),
    "short_rows": Form((500, 14), (1, 11), padding=((0, 0), (5, 5))),
    "columns": Form((300, 200), (14, 1), padding=((3, 10), (0, 0))),
    "strided_columns": Form((300, 33), (10, 1), (3, 1), ((3, 10), (0, 0))),
    "few_columns": Form((4000, 3), (15, 1), padding=((7, 7), (0, 0))),
    "image": Form((90, 110), (5, 5), padding=((2, 2), (2, 2))),
    "strided_image": Form((91, 110), (4, 7), (2, 3), ((1, 2), (3, 0))),
    "batch": Form((3, 20, 24, 5), (1, 4, 4, 1), (1, 2, 1, 1), ((0, 0), (1, 2), (2, 1), (0, 0))),
    "outermost_and_last": Form((12, 9, 40), (10, 1, 3), (1, 1, 2), ((4, 5), (0, 0), (1, 1))),
    "volume": Form((7, 15, 22, 18), (1, 3, 3, 3), padding=((0, 0), (1, 1), (1, 1), (1, 1))),
    "everything": Form((20, 30), (20, 30)),
    "stride_outside": Form((40, 300), (1, 12), (3, 1)),
    "one_position": Form((30, 300), (30, 12), padding=((0, 0), (5, 6))),
    "dimensions_of_one": Form((1, 200, 1), (1, 15, 1), padding=((0, 0), (7, 7), (0, 0))),
}

IN_ANY_ORDER = ["f32 add", "f32 max", "f64 mul", "s32 add", "f16 min", "c64 add", "pred or"]
OF_OTHER_TYPES = ["s8 max", "u8 mul", "u64 add", "bf16 max", "bf16 add", "c128 add", "pred and"]
IN_ORDER = ["c64 mul", "s4 max"]

_OPERATION = {"or": "bitwise_or", "and": "bitwise_and"}


def _lowered(form: Form, kind: ElementType, operation: str) -> tuple[HloModule, list[Any]]:
    """A program of one reduce-window, and arguments for it."""
    named = _OPERATION.get(operation, operation)
    is_exact = operation not in ("add", "mul") or kind.is_integer
    make = drawn if is_exact else tame
    # An initial value that is not neutral is combined once with each window.
    random = np.random.default_rng(len(form.dimensions))
    x = make(Shape.array(kind, form.dimensions), random)
    initial = make(Shape.array(kind, ()), random)
    arguments = [np.asarray(x), np.asarray(initial)]
    with jax.enable_x64(True):
        module = imported(lower(lambda x, start: form.over(x, start, named), *arguments))
    return module, arguments


def _assert_kept(form: Form, reducer: str) -> HloModule:
    """Results of sums of floats are equal up to rounding, others bit by bit."""
    name, operation = reducer.split()
    kind = next(kind for kind in ElementType if kind.text == name)
    module, arguments = _lowered(form, kind, operation)
    ((found, expected),) = pairs(module, arguments)
    if operation in ("add", "mul") and (kind.is_floating or kind.is_complex):
        wide = np.complex128 if kind.is_complex else np.float64
        error = {"f32": 1e-5, "c64": 1e-5, "bf16": 1e-1}.get(name, 1e-12)
        np.testing.assert_allclose(
            np.asarray(found).astype(wide), np.asarray(expected).astype(wide), error, error
        )
    else:
        # NumPy leaves open which of two zeros is the smaller one.
        pair = [np.where(part == 0, part.dtype.type(0), part) for part in (found, expected)]
        assert_equal_bits(*map(np.asarray, pair))
    return module


@pytest.mark.parametrize(("name", "reducer"), paired(FORMS, IN_ANY_ORDER, 3))
def test_results_are_those_of_the_interpreter(name: str, reducer: str) -> None:
    _assert_kept(FORMS[name], reducer)


@pytest.mark.parametrize("reducer", OF_OTHER_TYPES)
@pytest.mark.parametrize("name", ["padded_row", "strided_image", "dilated_base", "columns"])
def test_types(name: str, reducer: str) -> None:
    module = _assert_kept(FORMS[name], reducer)
    assert "alloca" in kernels_of(compile_module(module).code)[-1].source


@pytest.mark.parametrize("reducer", IN_ORDER)
def test_reducers_that_tiles_are_not_for(reducer: str) -> None:
    module = _assert_kept(FORMS["padded_row"], reducer)
    assert "alloca" not in kernels_of(compile_module(module).code)[-1].source


IMAGE = np.random.default_rng(0).standard_normal((40, 70)).astype(np.float32)


def test_an_element_is_computed_once_for_all_windows_of_a_tile() -> None:
    form = Form((40, 70), (1, 11), padding=((0, 0), (5, 5)))
    (text,) = near_texts(lambda x: form.over(x * x - 1, np.float32(0), "add"), IMAGE)
    assert text.count("load_f32") == 1


def test_several_windows_of_one_form_are_one_kernel() -> None:
    form = Form((40, 70), (5, 5), padding=((2, 2), (2, 2)))

    def program(x: Any) -> Any:
        low = form.over(x, np.float32(np.inf), "min")
        return (form.over(x * 2, np.float32(-np.inf), "max") - low) * x

    assert len(near_texts(program, IMAGE)) == 1


def test_short_windows_without_padding_have_no_tile() -> None:
    def text(padding: int) -> str:
        form = Form((40, 70), (1, 3), padding=((0, 0), (padding, 0)))
        return near_texts(lambda x: form.over(x, np.float32(0), "add"), IMAGE)[0]

    assert "alloca" not in text(0)
    assert "alloca" in text(1)


def test_results_do_not_depend_on_tiles() -> None:
    x = np.random.default_rng(1).standard_normal(50_000).astype(np.float32)

    def sums(x: Any) -> Any:
        return Form(x.shape, (77,)).over(x, np.float32(0), "add")

    whole, part = (
        on_cpu(imported(lower(sums, piece)), [piece])[0] for piece in (x, x[12_345:17_000])
    )
    assert_equal_bits(np.asarray(part), np.asarray(whole)[12_345 : 17_000 - 76])
