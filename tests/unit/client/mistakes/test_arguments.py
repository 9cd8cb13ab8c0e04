"""Mistakes in what programs are called with, and in what is sent to devices."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xla_client as xc
from xla_client import Builder, ElementType, Executable
from xla_contract.errors import ArgumentTypeError, InvalidArgumentError, XlaError

VECTOR = np.zeros(3, np.float32)
TYPE, VALUE = ArgumentTypeError, InvalidArgumentError
OP = Builder("other").parameter(0, "f32[3]")
Make = Callable[[Executable, xc.Client], Any]

CASES: dict[str, tuple[Make, type[XlaError], str]] = {
    "too few": (lambda e, c: e.run(VECTOR), VALUE, r"got 1 for \(f32\[3\]\{0\}, s32\[\]\)"),
    "too many": (lambda e, c: e.run(VECTOR, 1, 2), VALUE, "one argument per parameter, got 3"),
    "another size": (
        lambda e, c: e.run(VECTOR[:2], 1), VALUE, r"argument 0: .* got an array of \[2\] for f32"
    ),
    "another type": (
        lambda e, c: e.run(np.zeros(3), 1), VALUE, "argument 0: .* got elements of f64 for f32"
    ),
    "a fraction for an integer": (
        lambda e, c: e.run(VECTOR, 1.5), VALUE, r"argument 1: .* for s32\[\]"
    ),
    "a number too large": (lambda e, c: e.run(VECTOR, 1 << 40), VALUE, "argument 1: .* s32"),
    "text": (lambda e, c: e.run("abc", 1), TYPE, "argument 0: a value must be a number or an arr"),
    "an Op": (lambda e, c: e.run(OP, 1), TYPE, "argument 0: an Op has no value before its program"),
    "a list of Ops": (lambda e, c: e.run([OP], 1), TYPE, "argument 0: an Op has no value"),
    "None": (lambda e, c: e.run(None, 1), TYPE, r"argument 0: .* got None \(NoneType\)"),
    "a dictionary": (lambda e, c: e.run({"a": 1}, 1), TYPE, r"argument 0: .* \(dict\)"),
    "a set": (lambda e, c: e.run({1.0, 2.0}, 1), TYPE, r"argument 0: .* \(set\)"),
    "a generator": (lambda e, c: e.run((i for i in range(3)), 1), TYPE, r"\(generator\)"),
    "an executable": (lambda e, c: e.run(e, 1), TYPE, r"\(Executable\)"),
    "a ragged list": (lambda e, c: e.run([[1], [1, 2]], 1), VALUE, "argument 0: .*numbers"),
    "a tuple for an array": (
        lambda e, c: e.run((1, 2, 3), 1), VALUE, r"got a tuple of 3 for f32\[3\]"
    ),
    "a buffer of another shape": (
        lambda e, c: e.run(c.to_device(VECTOR[:2]), 1), VALUE, "a buffer must have the shape of its"
    ),
    "an argument that is not there to be given up": (
        lambda e, c: e(VECTOR, 1, donate=(5,)), VALUE, "donate must have numbers of arguments"
    ),
    "text to a device": (lambda e, c: c.to_device("x"), TYPE, r"got 'x' \(str\)"),
    "an Op to a device": (lambda e, c: c.to_device(OP), TYPE, "an Op has no value before"),
    "an object to a device": (lambda e, c: c.to_device(object()), TYPE, r"\(object\)"),
    "an int beyond s32": (lambda e, c: c.to_device(1 << 40), VALUE, "must fit s32"),
    "a shape of infeed": (
        lambda e, c: c.device().to_infeed(1, "f33[]"), VALUE, r"shape must be .*, got 'f33\[\]'"
    ),
    "a type for a shape of infeed": (
        lambda e, c: c.device().infeed(ElementType.F32), TYPE, "shape must be a Shape or text"
    ),
    "a shape of outfeed": (lambda e, c: c.device().outfeed(3), TYPE, "shape must be a Shape"),
    "a value for infeed": (
        lambda e, c: c.device().to_infeed([1, 2], "f32[3]"), VALUE, r"got an array of \[2\]"
    ),
    "an object for infeed": (
        lambda e, c: c.device().to_infeed(object(), "f32[]"), TYPE, r"\(object\)"
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def connected(target: str) -> Any:
    with xc.connect(target) as client:
        yield client


@pytest.fixture(scope="module")
def program(connected: xc.Client) -> Executable:
    b = Builder("program")
    return connected.compile(b.build([b.parameter(0, "f32[3]") * 2, b.parameter(1, "s32[]")]))


@pytest.mark.parametrize("name", CASES)
def test_a_mistake_has_an_error_with_a_sentence(
    connected: xc.Client, program: Executable, name: str
) -> None:
    make, error, pattern = CASES[name]
    with pytest.raises(XlaError) as caught:
        make(program, connected)
    assert type(caught.value) is error, caught.value
    assert re.search(pattern, str(caught.value)), caught.value


def test_an_array_of_another_type_is_told_how_to_be_converted(program: Executable) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        program.run(np.zeros(3), 1)
    assert "astype('float32')" in caught.value.hint
