"""A platform that its first user loads."""

import numpy as np
import pytest

from tests.in_threads import in_threads
from xla_contract.errors import InternalError, InvalidArgumentError
from xla_contract.types.literal import Literal
from xla_server.backends.deferred import DeferredBackend
from xla_server.backends.interpreter import Interpreter
from xla_server.ir.text.parser import parse_module

MODULE = parse_module("HloModule m\nENTRY e { ROOT x = f32[3] parameter(0) }")
SHAPE = MODULE.entry_program_shape


def test_values_are_placed_without_it_and_compiling_loads_it_once() -> None:
    made: list[Interpreter] = []

    def load() -> Interpreter:
        made.append(Interpreter(2))
        return made[-1]

    backend = DeferredBackend("interpreter", 2, load)
    literal = Literal.from_numpy(np.float32([1, 2, 3]))
    early = backend.to_device(literal, backend.devices[1])
    assert (made, backend.is_loaded) == ([], False)
    assert backend.devices == Interpreter(2).devices
    in_threads(lambda _: backend.compile(MODULE, SHAPE), range(4))
    assert (len(made), backend.is_loaded) == (1, True)
    late = backend.to_device(literal, backend.devices[1])
    assert early.shape == late.shape
    np.testing.assert_array_equal(early.to_literal().value, late.to_literal().value)
    assert (early.device, late.device) == (backend.devices[1],) * 2


def test_preparing_loads_it_even_where_that_is_over() -> None:
    backend = DeferredBackend("interpreter", 1, Interpreter)
    backend.prepare(lambda: True)
    assert backend.is_loaded


def test_a_failure_is_everybody_s() -> None:
    calls = []

    def load() -> Interpreter:
        calls.append(1)
        raise OSError("no compiler")

    backend = DeferredBackend("cpu", 1, load)
    for _ in range(2):
        with pytest.raises(OSError, match="no compiler"):
            backend.prepare()
        with pytest.raises(InternalError, match="the platform must be loaded"):
            backend.compile(MODULE, SHAPE)
    assert calls == [1]


def test_a_platform_has_a_device() -> None:
    with pytest.raises(InvalidArgumentError, match="at least one device, got 0"):
        DeferredBackend("cpu", 0, Interpreter)
