"""Results of steps of a pipeline, before there are any."""

import pytest

import xla_client as xc
from xla_client.runs.step_result import StepResult
from xla_contract.errors import InvalidArgumentError
from xla_contract.types.shape import Shape

NESTED = Shape.parse("(f32[2]{0}, (s32[]{}, f32[2,3]{1,0}))")


@pytest.fixture
def result(client: xc.Client) -> StepResult:
    return StepResult(client.pipeline(), 3, NESTED)


def test_a_tuple_has_elements_that_know_their_way(result: StepResult) -> None:
    first, second = result
    assert (len(result), len(second)) == (2, 2)
    assert (first.shape, first.step, first.index) == (Shape.parse("f32[2]{0}"), 3, (0,))
    deepest = second[1]
    assert (deepest.shape, deepest.index) == (Shape.parse("f32[2,3]{1,0}"), (1, 1))
    assert result[-1][-1].index == deepest.index
    assert repr(deepest) == "StepResult(f32[2,3]{1,0} of step 3[1][1])"
    for number in (2, -3):
        with pytest.raises(IndexError):
            result[number]


def test_an_array_has_none(result: StepResult) -> None:
    array = result[0]
    for use in (len, list, lambda each: each[0]):
        with pytest.raises(TypeError, match=r"^only a tuple has elements, got f32\[2\]\{0\}$"):
            use(array)


def test_it_belongs_to_its_pipeline(client: xc.Client, result: StepResult) -> None:
    pipeline = result._pipeline_id
    result.require_of(pipeline)
    result[1].require_of(pipeline)
    for other in (client.pipeline(), None):
        with pytest.raises(
            InvalidArgumentError, match=r"own pipeline only, got StepResult\(s32\[\] of step 3\[1\]"
        ):
            result[1][0].require_of(other)


def test_it_must_be_what_its_parameter_was_compiled_for(result: StepResult) -> None:
    for layout in ("{1,0}", "{0,1}"):
        result[1][1].require_fit(Shape.parse("f32[2,3]" + layout))
    with pytest.raises(
        InvalidArgumentError,
        match=r"type and dimensions of its parameter, got f32\[2,3\]\{1,0\} for f32\[3,2\]\{1,0\}$",
    ):
        result[1][1].require_fit(Shape.parse("f32[3,2]{1,0}"))
