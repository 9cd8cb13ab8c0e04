"""The messages of runs: what goes along, what is uploaded, what is given up."""

from typing import Any

import numpy as np
import pytest

import xla_client as xc
from tests.unit.client.small_programs import ONES, VECTOR
from xla_client.runs import run_request as runs
from xla_client.runs.step_result import StepResult
from xla_contract.errors import InvalidArgumentError, UnavailableError
from xla_contract.stubs import xla_extension_pb2 as extension_pb2
from xla_contract.types.literal import Literal
from xla_contract.types.shape import Shape
from xla_contract.wire.literals.value_proto import value_from_proto, value_to_proto
from xla_contract.wire.shape_proto import shape_from_proto

LARGE = Shape.parse(f"f32[{runs.INLINE_BYTES // 4}]")


def made(
    client: xc.Client, *arguments: Any, shapes: Any = None, **options: Any
) -> runs.RunStepMessage:
    parameters = [VECTOR] * len(arguments) if shapes is None else shapes
    options = {"donate": (), "device": 0, "timeout": None} | options
    return runs.make_step(client._session, 99, parameters, arguments, **options)


def test_each_argument_goes_its_way(client: xc.Client) -> None:
    buffer = client.to_device(ONES)
    pipeline = client.pipeline()
    result = StepResult(pipeline, 3, VECTOR, (1, 0))
    large = np.ones(LARGE.dimensions, np.float32)
    step = made(
        client, buffer, 2 * ONES, result, large, shapes=[VECTOR] * 3 + [LARGE], pipeline_id=pipeline
    )
    assert step.message.executable.handle == 99
    kept, inline, of_step, uploaded = step.message.arguments
    assert (kept.data.handle, kept.donate) == (buffer.handle, False)
    np.testing.assert_array_equal(value_from_proto(inline.value).to_numpy(), 2 * ONES)
    assert (of_step.result.step, list(of_step.result.index)) == (3, [1, 0])
    # A value that was uploaded for this run alone need not outlive it.
    assert uploaded.donate
    assert uploaded.data.handle == step.donated[0].handle == step.alive[1].handle
    assert step.alive[0] is buffer
    assert step.inline_bytes == ONES.nbytes
    assert list(step.request.steps) == [step.message]


def test_only_so_much_goes_along(client: xc.Client) -> None:
    ways = [
        each.WhichOneof("source")
        for each in made(client, ONES, ONES, ONES, max_bytes=2 * ONES.nbytes).message.arguments
    ]
    assert ways == ["value", "value", "data"]


def test_donations_are_of_buffers(client: xc.Client) -> None:
    first, second = client.to_device(ONES), client.to_device(ONES)
    step = made(client, first, ONES, second, donate=(0, 1))
    assert [each.donate for each in step.message.arguments] == [True, False, False]
    assert step.donated == [first]
    step.end_donation(is_freed=False)
    assert (first.is_deleted, second.is_deleted) == (True, False)


@pytest.mark.parametrize("fails", [False, True])
def test_what_a_step_donates_is_gone_whatever_comes_of_it(client: xc.Client, fails: bool) -> None:
    buffer = client.to_device(ONES)
    handle = buffer.handle
    step = made(client, buffer, donate=(0,))

    def call() -> str:
        if fails:
            raise UnavailableError("nobody knows what became of it")
        client._session.delete(handle)  # As the server does.
        return "answer"

    if fails:
        with pytest.raises(UnavailableError, match="nobody knows"):
            step.calling(call)
    else:
        assert step.calling(call) == "answer"
    assert buffer.is_deleted
    client.free_unused()
    with pytest.raises(InvalidArgumentError, match="unregistered"):
        client.adopt(handle)


@pytest.mark.parametrize("number", [-1, 2])
def test_donations_are_numbers_of_arguments(client: xc.Client, number: int) -> None:
    rule = f"^donate must have numbers of arguments, got {number} with 2 arguments$"
    with pytest.raises(InvalidArgumentError, match=rule):
        runs.require_numbers([0, number], 2)
    with pytest.raises(InvalidArgumentError, match=rule):
        made(client, ONES, ONES, donate=(number,))
    runs.require_numbers([0, 1], 2)


def test_what_does_not_fit_is_named_with_its_position(client: xc.Client) -> None:
    other = client.to_device(np.zeros(5, np.float32))
    foreign = StepResult(client.pipeline(), 0, VECTOR)
    turned = StepResult(client.pipeline(), 0, Shape.parse("f32[5]"))
    for argument, rule in (
        (other, r"shape of its parameter, got f32\[5\]"),
        (foreign, "own pipeline only"),
        (np.zeros(5, np.float32), "5"),
    ):
        with pytest.raises(InvalidArgumentError, match=rf"^argument 1: .*{rule}"):
            made(client, ONES, argument)
        with pytest.raises(InvalidArgumentError, match=rf"^step 2 \(f\): argument 1: .*{rule}"):
            made(client, ONES, argument, label="step 2 (f)")
    with pytest.raises(InvalidArgumentError, match=r"must have .*got f32\[5\] for f32\[4\]"):
        made(client, turned, pipeline_id=turned._pipeline_id)
    with pytest.raises(InvalidArgumentError, match="one argument per parameter, got 1 for"):
        made(client, ONES, shapes=[VECTOR, VECTOR])


@pytest.mark.parametrize(
    ("result", "requested"),
    [
        ("f32[2,3]{1,0}", None),
        ("f32[2,3]{0,1}", "f32[2,3]{1,0}"),
        ("(f32[2,3]{0,1}, s32[])", "(f32[2,3]{1,0}, s32[])"),
        ("f32[0,3]{0,1}", None),
        ("token[]", None),
    ],
)
def test_results_are_asked_for_row_by_row(result: str, requested: str | None) -> None:
    step = extension_pb2.RunStep()
    runs.fetch(step, Shape.parse(result))
    assert step.output.fetch_bytes == runs.FETCH_BYTES
    assert step.output.HasField("shape_with_layout") == (requested is not None)
    if requested is not None:
        row_by_row = Shape.parse(requested).with_default_layout()
        assert shape_from_proto(step.output.shape_with_layout) == row_by_row


@pytest.mark.parametrize(
    ("shape", "is_flat"),
    [("f32[4]{0}", False), ("()", True), ("(f32[4]{0}, s32[])", True), ("((s32[]), s32[])", False)],
)
def test_flat_tuples_are_kept_as_their_elements(
    client: xc.Client, shape: str, is_flat: bool
) -> None:
    result = Shape.parse(shape)
    assert runs.is_flat_tuple(result) is is_flat
    step = extension_pb2.RunStep()
    runs.keep(step, result)
    assert (step.output.keep, step.output.flatten) == (True, is_flat)
    parts = result.tuple_shapes if is_flat else (result,)
    handles = [1000 + number for number in range(len(parts))]
    found = runs.kept(client._session, handles, result)
    buffers = found if isinstance(found, tuple) else (found,)
    assert isinstance(found, tuple) is is_flat
    assert [(each.handle, each.shape) for each in buffers] == list(zip(handles, parts, strict=True))
    for each in buffers:
        each.give_up(is_freed=True)


def test_values_that_were_sent_back_are_arrays() -> None:
    value = (np.arange(4, dtype=np.float64), (np.int8(3),))
    first, (second,) = runs.fetched(value_to_proto(Literal.from_numpy(value)))  # type: ignore[misc,arg-type]
    np.testing.assert_array_equal(first, value[0])
    assert second == 3
