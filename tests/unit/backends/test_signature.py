"""Admission of programs; signatures with layouts, and the values that fit them."""

import types

import numpy as np
import pytest

from tests.corpus.hlo_text import parse_hlo
from tests.unit.codegen.compiled import CPU
from xla_client import Builder
from xla_contract.errors import InvalidArgumentError, ShapeError, UnimplementedError
from xla_contract.types.literal import Literal
from xla_contract.types.shape import ProgramShape, Shape
from xla_server.backends.compiled.cpu import Cpu
from xla_server.backends.host_buffer import HostBuffer
from xla_server.backends.interpreter import Interpreter
from xla_server.backends.platform import Device
from xla_server.backends.signature import argument_values, laid_out, owned, require_supported
from xla_server.custom_calls.builtin_targets import BUILTIN
from xla_server.custom_calls.target_registry import CustomCallRegistry
from xla_server.ir.importer import import_module

PLATFORM = Interpreter()
ROWS = Shape.parse("f32[2,3]{1,0}")


def buffer(value: object) -> HostBuffer:
    return PLATFORM.to_device(Literal.from_numpy(value), PLATFORM.devices[0])


def test_layouts_are_those_asked_for_and_shapes_the_programs() -> None:
    program = ProgramShape(
        (Shape.parse("f32[2,<=3]"), Shape.parse("(s32[4], token[])")), Shape.parse("f32[]"), ()
    )
    wanted = ProgramShape(
        (Shape.parse("f32[2,3]{0,1}"), Shape.parse("(s32[4], token[])")),
        Shape.parse("f32[]"),
        ("x", "y"),
    )
    found = laid_out(program, wanted)
    assert found.parameters == (
        Shape.parse("f32[2,<=3]{0,1}"),
        Shape.parse("(s32[4]{0}, token[])"),
    )
    assert found.result == Shape.parse("f32[]").with_default_layout()
    assert found.parameter_names == ("x", "y")


def test_arguments_fit_their_parameters() -> None:
    argument = buffer(np.ones((2, 3), np.float32))
    (value,) = argument_values([argument], [ROWS])
    np.testing.assert_array_equal(value, np.ones((2, 3)))
    with pytest.raises(InvalidArgumentError, match=r"^the program takes 2 arguments, got 1$"):
        argument_values([argument], [ROWS, ROWS])
    with pytest.raises(ShapeError, match=r"argument 1 = f32\[2,3\]\{1,0\} for f32\[3,2\]\{1,0\}$"):
        argument_values([argument, argument], [ROWS, Shape.parse("f32[3,2]{1,0}")])


def test_a_value_of_another_platform_is_no_argument() -> None:
    elsewhere = types.SimpleNamespace(shape=ROWS, device=Device(1, "cuda"))
    with pytest.raises(
        InvalidArgumentError, match=r"on the program's platform, got argument 0 on cuda:1$"
    ):
        argument_values([elsewhere], [ROWS])  # type: ignore[list-item]


def test_a_result_does_not_keep_what_it_was_cut_from() -> None:
    large = np.arange(1 << 16, dtype=np.float32)
    part, nested = owned((large[:4], (large,)))  # type: ignore[misc]
    assert part.base is None
    np.testing.assert_array_equal(part, large[:4])
    assert nested[0] is large


def test_a_result_is_dense_and_row_major() -> None:
    # A transposed view would be copied by the next program that reads it, unreserved.
    turned = owned(np.zeros((3, 5), np.float32).T)
    assert isinstance(turned, np.ndarray)
    assert turned.flags.c_contiguous
    assert turned.base is None


@pytest.mark.parametrize("backend", [CPU, PLATFORM], ids=lambda backend: backend.platform)
def test_an_executable_tells_the_bytes_of_its_constants(backend: Cpu | Interpreter) -> None:
    table = np.arange(10_000, dtype=np.float32)
    builder = Builder("kept")
    row = builder.parameter(0, Shape.parse("f32[10000]"), "row")
    module = import_module(builder.build(builder.constant(table) * row).proto)
    executable = backend.compile(module, module.entry_program_shape)
    assert 40_000 <= executable.kept_bytes < 400_000


UNCALLED = """HloModule m
unused { x = f32[4] parameter(0)
  ROOT c = f32[4] custom-call(x), custom_call_target="nothing" }
ENTRY main { ROOT y = f32[4] parameter(0) }
"""


def test_computations_without_callers_must_be_supported() -> None:
    module = import_module(parse_hlo(UNCALLED))
    with pytest.raises(UnimplementedError):
        require_supported(module, BUILTIN)
    registry = CustomCallRegistry()
    registry.register_function("nothing", lambda x: x)
    require_supported(module, registry)


@pytest.mark.parametrize("platform", [Cpu, Interpreter])
def test_both_platforms_refuse_it(platform: type[Cpu] | type[Interpreter]) -> None:
    program = import_module(parse_hlo(UNCALLED))
    with pytest.raises(UnimplementedError):
        platform().compile(program, program.entry_program_shape)
