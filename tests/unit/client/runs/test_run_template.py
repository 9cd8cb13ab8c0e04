from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from xla_client.runs.run_template import RunTemplate
from xla_contract.stubs import xla_extension_pb2 as extension_pb2
from xla_contract.types.literal import Literal
from xla_contract.types.shape import Shape
from xla_contract.wire.literals.value_proto import value_to_proto


class Encoder:
    """Requests as they are made without a template."""

    def __init__(self, *shapes: str) -> None:
        self.shapes = [Shape.parse(text) for text in shapes]
        self.count = 0

    def __call__(self, arrays: Sequence[Any]) -> bytes:
        self.count += 1
        request = extension_pb2.RunRequest()
        step = request.steps.add()
        step.executable.handle = 1 << 60
        for array, shape in zip(arrays, self.shapes, strict=True):
            literal = Literal.from_numpy(array, shape)
            step.arguments.add(value=value_to_proto(literal))
        step.output.fetch_bytes = 1 << 20
        return request.SerializeToString()

    def template(self, max_bytes: int = 1 << 17) -> RunTemplate:
        return RunTemplate(self.shapes, self, max_bytes)


def test_requests_are_those_made_without_a_template() -> None:
    encode = Encoder("f32[3,4]{1,0}", "s64[2]{0}", "bf16[]", "c128[1]{0}")
    template = encode.template()
    random = np.random.default_rng(1)
    for _ in range(3):
        arguments = [
            random.standard_normal((3, 4)).astype(np.float32),
            random.integers(-(2**60), 2**60, 2),
            np.array(random.standard_normal(), ml_dtypes.bfloat16),
            random.standard_normal(1) * (1 + 2j),
        ]
        assert template.request(arguments) == Encoder(*map(str, encode.shapes))(arguments)
    # The first gave the text of all.
    assert encode.count == 1


def test_the_elements_are_taken_row_by_row() -> None:
    encode = Encoder("f32[3,4]{1,0}")
    array = np.arange(12, dtype=np.float32).reshape(4, 3).T
    assert encode.template().request([array]) == encode([array])


def test_a_program_without_parameters_has_one_request() -> None:
    encode = Encoder()
    assert encode.template().request([]) == encode([])


@pytest.mark.parametrize(
    "argument",
    [
        np.zeros(4, np.float64),
        np.zeros(4, ">f4"),
        np.zeros(3, np.float32),
        np.zeros((4, 1), np.float32),
        [0.0] * 4,
        np.ma.zeros(4, np.float32),
        Literal.from_numpy(np.zeros(4, np.float32)),
    ],
)
def test_other_arguments_are_not_for_it(argument) -> None:
    encode = Encoder("f32[4]{0}")
    template = encode.template()
    assert template.request([argument]) is None
    assert template.request([]) is None
    assert template.request([np.zeros(4, np.float32)]) is not None


@pytest.mark.parametrize(
    "shape",
    ["pred[4]{0}", "s4[4]{0}", "f32[2,2]{0,1}", "f32[<=4]{0}", "(f32[4]{0})", "f32[0]{0}"],
)
def test_other_parameters_are_not_for_it(shape) -> None:
    encode = Encoder(shape)
    parsed = encode.shapes[0]
    dtype = parsed.element_type.dtype if parsed.is_array else np.dtype(np.float32)
    assert encode.template().request([np.zeros(parsed.dimensions, dtype)]) is None


def test_large_arguments_are_not_for_it() -> None:
    encode = Encoder("f32[4]{0}", "f32[4]{0}")
    arrays = [np.zeros(4, np.float32)] * 2
    assert encode.template(32).request(arrays) is not None
    assert encode.template(31).request(arrays) is None
