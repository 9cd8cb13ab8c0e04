"""Arguments of programs: converted, kept, or refused with their number."""

from typing import Any

import numpy as np
import pytest

import xla_client as xc
from tests.unit.client.small_programs import ONES, add
from xla_client.runs.arguments import (
    as_buffer,
    as_literal,
    on_device,
    require_compatible,
    require_count,
)
from xla_client.runs.step_result import StepResult
from xla_contract.errors import InvalidArgumentError
from xla_contract.types.literal import Literal
from xla_contract.types.shape import Shape

VECTOR, SCALAR = Shape.parse("f32[4]"), Shape.parse("f32[]")


class Foreign:
    """An array of another library."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return ONES


def test_values_become_buffers_and_buffers_stay(client: xc.Client) -> None:
    session = client._session
    kept = client.to_device(ONES)
    literal = Literal.from_numpy(2 * ONES)
    given = [kept, ONES, [1, 2, 3, 4], literal, Foreign(), 5]
    shapes = [VECTOR] * 5 + [SCALAR]
    buffers = on_device(session, given, shapes, 1, None)
    assert buffers[0] is kept
    values = [buffer.to_numpy() for buffer in buffers]
    expected = [ONES, ONES, np.float32([1, 2, 3, 4]), 2 * ONES, ONES, np.float32(5)]
    for value, wanted in zip(values, expected, strict=True):
        np.testing.assert_array_equal(value, wanted)
    assert [buffer.shape.element_type for buffer in buffers] == [VECTOR.element_type] * 6


def test_a_value_has_the_layout_of_its_parameter(client: xc.Client) -> None:
    columns = Shape.parse("s32[2,3]{0,1}")
    value = np.arange(6, dtype=np.int32).reshape(2, 3)
    for given in (value, Literal.from_numpy(value)):
        literal = as_literal(given, columns)
        assert literal.shape == columns
        np.testing.assert_array_equal(literal.to_numpy(), value)
        assert as_buffer(client._session, given, columns, 0, None).shape == columns
    # Without a shape the array's own layout is kept.
    assert as_literal(value).shape == Shape.parse("s32[2,3]{1,0}")


def test_there_is_one_argument_per_parameter(client: xc.Client) -> None:
    require_count([1, 2], [SCALAR, VECTOR])
    rule = r"^a program must get one argument per parameter, got 1 for \(f32\[\], f32\[4\]\)$"
    with pytest.raises(InvalidArgumentError, match=rule):
        require_count([1], [SCALAR, VECTOR])
    with pytest.raises(InvalidArgumentError, match=rule):
        on_device(client._session, [1], [SCALAR, VECTOR], 0, None)


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [([{"w": 1}], "jax.tree.leaves"), ([(1, 2)], "values"), ([1, 2, 3], "keep_unused"), ([1], "")],
)
def test_a_wrong_number_of_arguments_has_the_likely_reason(arguments: Any, hint: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        require_count(arguments, [SCALAR, VECTOR])
    assert hint in caught.value.hint
    assert bool(hint) == bool(caught.value.hint)


@pytest.mark.parametrize(
    ("argument", "shape", "rule"),
    [
        (np.zeros(4), "f32[4]", "f64"),
        (np.zeros(5, np.float32), "f32[4]", r"5.*4"),
        ([1, 2], "f32[4]", r"2.*4"),
        (Literal.from_numpy(np.zeros(5, np.float32)), "f32[4]", r"5.*4"),
        ((ONES, ONES), "(f32[4])", "2"),
        (ONES, "(f32[4])", r"must fit its shape, got a ndarray for \(f32\[4\]\)"),
        ("text", "f32[]", "str|text|<U"),
        (object(), "f32[]", "object"),
    ],
)
def test_what_does_not_fit_is_named(
    client: xc.Client, argument: Any, shape: str, rule: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=rf"^argument 1: .*{rule}"):
        on_device(client._session, [0, argument], [SCALAR, Shape.parse(shape)], 0, None)


def test_a_buffer_must_fit_its_parameter(client: xc.Client) -> None:
    buffer = client.to_device(ONES)
    assert require_compatible(buffer, VECTOR) is buffer
    rule = r"must have the shape of its parameter, got f32\[4\]\{0\} for f32\[5\]$"
    with pytest.raises(InvalidArgumentError, match=rule):
        require_compatible(buffer, Shape.parse("f32[5]"))
    with pytest.raises(InvalidArgumentError, match=f"^argument 0: .*{rule}"):
        on_device(client._session, [buffer], [Shape.parse("f32[5]")], 0, None)


def test_what_is_on_the_server_is_no_value_of_this_side(client: xc.Client) -> None:
    buffer = client.to_device(ONES)
    result = StepResult(client.pipeline(), 0, VECTOR)
    for value, name in ((buffer, "Buffer"), (result, "StepResult")):
        with pytest.raises(
            InvalidArgumentError, match=rf"a value on this side is needed, got {name}\(f32\[4\]"
        ):
            as_literal(value)
    # Only the pipeline that it belongs to takes a result of a step.
    run = client.compile(add())
    with pytest.raises(InvalidArgumentError, match=r"^argument 1: .*own pipeline only"):
        run(ONES, result)
