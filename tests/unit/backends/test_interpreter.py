import dataclasses
from typing import Any

import numpy as np
import pytest

from tests.checked_evaluation import CheckedPlans
from tests.corpus.hlo_text import VECTOR_LOOP, parse_hlo
from xla_contract.errors import (
    CancelledError,
    InvalidArgumentError,
    ResourceExhaustedError,
    ShapeError,
)
from xla_contract.types.literal import Literal
from xla_contract.types.shape import ProgramShape, Shape
from xla_server.backends.host_buffer import HostBuffer
from xla_server.backends.interpreter import Interpreter, InterpreterExecutable
from xla_server.backends.platform import Backend, Buffer, Device, Executable
from xla_server.execution.cancellation import Cancellation
from xla_server.execution.execute_options import ExecuteOptions
from xla_server.ir.importer import import_module
from xla_server.ir.module import HloModule

PAIR = """
HloModule pair
ENTRY main { x = f32[2,3]{0,1} parameter(0)
  t = f32[3,2]{1,0} transpose(x), dimensions={1,0}
  s = f32[1,3]{1,0} slice(x), slice={[1:2], [0:3]}
  ROOT both = (f32[3,2], f32[1,3], f32[2,3]) tuple(t, s, x) }
"""
MATRIX = np.arange(6, dtype=np.float32).reshape(2, 3)


def module_of(text: str) -> HloModule:
    return import_module(parse_hlo(text))


def compiled(backend: Interpreter, text: str) -> InterpreterExecutable:
    module = module_of(text)
    return backend.compile(module, module.entry_program_shape)


def run(executable: InterpreterExecutable, *arguments: Buffer, **options: Any) -> Buffer:
    device = Device(0, "interpreter")
    return executable.execute(arguments, device=device, options=ExecuteOptions(**options)).output


@pytest.fixture
def backend() -> Interpreter:
    return Interpreter(2, plans=CheckedPlans)


def test_satisfies_the_protocols(backend: Interpreter) -> None:
    platform: Backend = backend
    buffer: Buffer = backend.to_device(Literal.from_numpy(MATRIX), platform.devices[1])
    executable: Executable = compiled(backend, VECTOR_LOOP)
    assert [str(device) for device in platform.devices] == ["interpreter:0", "interpreter:1"]
    assert buffer.device.ordinal == 1
    assert buffer.byte_size == 24
    assert executable.name == "loop"


def test_executes_on_the_device_asked_for_and_times_it(backend: Interpreter) -> None:
    device = backend.devices[1]
    argument = backend.to_device(Literal.from_numpy(np.ones(4, np.float32)), device)
    execution = compiled(backend, VECTOR_LOOP).execute(
        [argument],
        device=device,
        options=ExecuteOptions(),
    )
    assert execution.output.device is device
    np.testing.assert_array_equal(execution.output.to_literal().to_numpy(), [-24] * 4)
    profile = execution.profile
    assert 0 < profile.compute_time_ns <= profile.compute_and_transfer_time_ns


def test_the_entry_layouts_are_those_compiled_for(backend: Interpreter) -> None:
    module = module_of(PAIR)
    parameter = Shape.parse("f32[2,3]{0,1}")
    result = Shape.parse("(f32[3,2]{0,1}, f32[1,3], f32[2,3]{0,1})")
    executable = backend.compile(module, ProgramShape((parameter,), result))
    assert str(executable.program_shape.result) == "(f32[3,2]{0,1}, f32[1,3]{1,0}, f32[2,3]{0,1})"
    output = run(executable, backend.to_device(Literal.from_numpy(MATRIX), backend.devices[0]))
    assert output.shape == executable.program_shape.result
    literal = output.to_literal()
    assert literal.shape == output.shape
    transposed = literal.elements[0]
    np.testing.assert_array_equal(transposed.to_numpy(), MATRIX.T)
    np.testing.assert_array_equal(transposed.linear_memory(), np.arange(6))


def test_to_literal_lays_out_again_and_refuses_another_shape(backend: Interpreter) -> None:
    buffer = backend.to_device(Literal.from_numpy(MATRIX), backend.devices[0])
    columns = buffer.to_literal(Shape.parse("f32[2,3]{0,1}"))
    np.testing.assert_array_equal(columns.linear_memory(), MATRIX.T.ravel())
    np.testing.assert_array_equal(columns.to_numpy(), MATRIX)
    assert buffer.to_literal(Shape.parse("f32[2,3]")).shape.has_layout
    with pytest.raises(InvalidArgumentError, match=r"f32\[3,2\].*for f32\[2,3\]\{1,0\}"):
        buffer.to_literal(Shape.parse("f32[3,2]{1,0}"))


def test_elements_of_a_tuple_are_the_same_buffers_every_time(backend: Interpreter) -> None:
    output = run(
        compiled(backend, PAIR),
        backend.to_device(Literal.from_numpy(MATRIX), backend.devices[0]),
    )
    first, second, third = output.elements
    assert output.elements[0] is first
    del output
    np.testing.assert_array_equal(second.to_literal().to_numpy(), MATRIX[1:])
    assert first.elements == () == third.elements


def test_values_cannot_be_written_and_do_not_hold_more_than_themselves(
    backend: Interpreter,
) -> None:
    argument = backend.to_device(Literal.from_numpy(MATRIX), backend.devices[0])
    output = run(compiled(backend, PAIR), argument)
    assert isinstance(output, HostBuffer)
    for element in output.elements:
        value = element.value
        assert isinstance(value, np.ndarray)
        assert not value.flags.writeable
    row = output.elements[1].value
    assert isinstance(row, np.ndarray)
    assert not np.shares_memory(row, MATRIX)


def test_nested_tuples_and_tokens_pass_through(backend: Interpreter) -> None:
    text = """
HloModule nested
ENTRY main { x = (f32[2], (s32[], f32[2])) parameter(0)
  t = token[] after-all()
  ROOT y = ((f32[2], (s32[], f32[2])), token[]) tuple(x, t) }
"""
    value = (np.ones(2, np.float32), (np.array(3, np.int32), np.zeros(2, np.float32)))
    argument = backend.to_device(Literal.from_numpy(value), backend.devices[0])
    literal = run(compiled(backend, text), argument).to_literal()
    assert literal.elements[1].shape.is_token
    assert literal.elements[0].equal(Literal.from_numpy(value))


def test_refuses_what_does_not_fit(backend: Interpreter) -> None:
    executable = compiled(backend, VECTOR_LOOP)
    wrong = backend.to_device(Literal.from_numpy(MATRIX), backend.devices[0])
    with pytest.raises(InvalidArgumentError, match="takes 1 arguments, got 0"):
        run(executable)
    with pytest.raises(ShapeError, match=r"argument 0 = f32\[2,3\]\{1,0\} for f32\[4\]"):
        run(executable, wrong)
    module = module_of(VECTOR_LOOP)
    with pytest.raises(ShapeError, match="parameter 0"):
        backend.compile(
            module,
            dataclasses.replace(module.entry_program_shape, parameters=(Shape.parse("f32[5]"),)),
        )
    with pytest.raises(InvalidArgumentError, match="at least one device"):
        Interpreter(0)


def test_compile_refuses_values_over_the_limit() -> None:
    with pytest.raises(ResourceExhaustedError, match=r"%state: a value may take 19 bytes, got 20"):
        compiled(Interpreter(max_value_bytes=19), VECTOR_LOOP)


def test_a_cancelled_execution_raises(backend: Interpreter) -> None:
    cancellation = Cancellation()
    cancellation.cancel()
    argument = backend.to_device(Literal.from_numpy(np.ones(4, np.float32)), backend.devices[0])
    with pytest.raises(CancelledError):
        run(compiled(backend, VECTOR_LOOP), argument, cancellation=cancellation)


SIZED = """
HloModule sized
ENTRY main { x = f32[<=4] parameter(0)
  n = s32[] parameter(1)
  y = f32[<=4] set-dimension-size(x, n), dimensions={0}
  size = s32[] get-dimension-size(x), dimensions={0}
  ROOT both = (f32[<=4], s32[]) tuple(y, size) }
"""


def test_buffers_of_dynamic_shape_keep_their_sizes(backend: Interpreter) -> None:
    literal = Literal.from_numpy(MATRIX.reshape(6)[:3], Shape.parse("f32[<=4]"))
    count = backend.to_device(Literal.from_numpy(np.int32(2)), backend.devices[0])
    argument = backend.to_device(literal, backend.devices[0])
    result = run(compiled(backend, SIZED), argument, count)
    assert str(result.shape) == "(f32[<=4]{0}, s32[])"
    part, size = result.to_literal().elements
    assert part.dynamic_sizes == (2,)
    np.testing.assert_array_equal(part.value, [0, 1, 0, 0])
    assert size.value == 3


def test_a_dynamic_buffer_is_no_argument_for_a_static_parameter(backend: Interpreter) -> None:
    text = "HloModule m\nENTRY e { ROOT x = f32[4] parameter(0) }"
    argument = Literal.from_numpy(np.zeros(3, np.float32), Shape.parse("f32[<=4]"))
    with pytest.raises(ShapeError, match=r"argument 0 = f32\[<=4\]\{0\} for f32\[4\]\{0\}"):
        run(compiled(backend, text), backend.to_device(argument, backend.devices[0]))


def test_dimensions_that_a_writer_left_static_are_dynamic_all_the_same() -> None:
    backend = Interpreter()
    text = SIZED.replace("y = f32[<=4]", "y = f32[4]").replace(
        "(f32[<=4], s32[])", "(f32[4], s32[])"
    )
    literal = Literal.from_numpy(MATRIX.reshape(6)[1:5], Shape.parse("f32[<=4]"))
    arguments = [literal, Literal.from_numpy(np.int32(2))]
    result = run(
        compiled(backend, text),
        *(backend.to_device(argument, backend.devices[0]) for argument in arguments),
    )
    part, _ = result.to_literal().elements
    assert (str(part.shape), part.dynamic_sizes) == ("f32[4]{0}", ())
    np.testing.assert_array_equal(part.value, [1, 2, 0, 0])
