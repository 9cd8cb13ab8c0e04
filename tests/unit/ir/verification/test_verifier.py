import dataclasses

import pytest

from tests.corpus.hlo_text import VECTOR_LOOP, parse_hlo
from xla_contract.errors import (
    InvalidArgumentError,
    ResourceExhaustedError,
    ShapeError,
    UnimplementedError,
)
from xla_contract.ops.definition import NO_ATTRIBUTES
from xla_contract.types.element_type import ElementType
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import UNBOUNDED, ProgramShape, Shape
from xla_server.ir.importer import import_module
from xla_server.ir.module import HloComputation, HloInstruction, HloModule
from xla_server.ir.verification.verifier import MAX_CALL_DEPTH, verify


def loop_module() -> HloModule:
    return import_module(parse_hlo(VECTOR_LOOP))


def named(module: HloModule, name: str) -> HloInstruction:
    return next(part for part in module.instructions() if part.name == name)


def test_accepts_a_sound_module_with_other_layouts_inside() -> None:
    module = loop_module()
    named(module, "wide").shape = Shape.parse("f32[4]")
    verify(module, max_value_bytes=20)


def test_names_both_shapes_where_the_declared_one_is_wrong() -> None:
    module = loop_module()
    named(module, "answer").shape = Shape.parse("f32[5]{0}")
    with pytest.raises(ShapeError) as caught:
        verify(module)
    assert str(caught.value) == (
        "subtract %answer: declared shape must match the inferred one, "
        "got f32[5] declared and f32[4] inferred"
    )


def test_names_the_instruction_of_a_broken_rule() -> None:
    module = loop_module()
    named(module, "wide").shape = Shape.parse("f32[5]{0}")
    wide = named(module, "wide")
    wide.attributes = dataclasses.replace(wide.attributes, result_dimensions=(5,))
    with pytest.raises(ShapeError, match=r"subtract %answer: .*f32\[4\].*f32\[5\]"):
        verify(module)


def test_refuses_a_value_too_large_before_there_is_one() -> None:
    text = """
HloModule huge
ENTRY main { x = f32[] parameter(0)
  wide = f32[1099511627776] broadcast(x), dimensions={}
  zero = f32[] constant(0)
  ROOT one = f32[1] slice(wide), slice={[0:1]} }
"""
    with pytest.raises(ResourceExhaustedError, match=rf"broadcast %wide: .*got {2**42} for"):
        verify(import_module(parse_hlo(text)), max_value_bytes=2**31)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"parameters": ()}, "as many parameters as the program, got 0 and 1"),
        ({"parameters": (Shape.parse("f32[5]"),)}, r"parameter 0 = f32\[5\] for f32\[4\]"),
        ({"result": Shape.parse("s32[4]")}, r"result s32\[4\] for f32\[4\]"),
    ],
)
def test_holds_the_entry_signature_against_the_program(
    change: dict[str, object], words: str
) -> None:
    module = loop_module()
    signature = dataclasses.replace(module.entry_program_shape, parameter_names=())
    module.entry_program_shape = dataclasses.replace(signature, **change)  # type: ignore[arg-type]
    with pytest.raises(ShapeError, match=words):
        verify(module)


def test_refuses_dimensions_without_bound_and_opaque_values() -> None:
    for shape in (Shape.array(ElementType.F32, [UNBOUNDED], None, [True]), Shape.opaque()):
        module = loop_module()
        named(module, "x").shape = shape
        with pytest.raises(UnimplementedError, match="parameter %x: "):
            verify(module)


def test_refuses_a_module_that_lost_its_order() -> None:
    module = loop_module()
    module.entry.instructions.reverse()
    with pytest.raises(InvalidArgumentError, match=r"subtract %answer: operands must come before"):
        verify(module)
    module = loop_module()
    module.computations.reverse()
    with pytest.raises(InvalidArgumentError, match=r"while %loop: called computations must come"):
        verify(module)


def test_refuses_names_roots_and_parameters_that_do_not_belong() -> None:
    module = loop_module()
    named(module, "wide").name = "sum"
    with pytest.raises(InvalidArgumentError, match="unique"):
        verify(module)
    module = loop_module()
    module.entry.root = named(module, "sum")
    with pytest.raises(InvalidArgumentError, match="computation %main: the root must be"):
        verify(module)
    module = loop_module()
    module.entry.parameters = ()
    with pytest.raises(InvalidArgumentError, match="computation %main: the parameters must be"):
        verify(module)


def chain(depth: int) -> HloModule:
    """A module of computations that call each other `depth` deep."""
    shape = Shape.parse("f32[]")
    computations: list[HloComputation] = []
    for level in range(depth):
        source = parse_parameter(level, shape)
        root = HloInstruction(f"n{level}", 1, Opcode.NEGATE, shape, (source,), NO_ATTRIBUTES)
        if computations:
            root = HloInstruction(
                f"c{level}", 1, Opcode.CALL, shape, (source,), NO_ATTRIBUTES, (computations[-1],)
            )
        computations.append(HloComputation(f"level{level}", level, [source, root], root, (source,)))
    entry = computations[-1]
    return HloModule("chain", 0, computations, entry, ProgramShape((shape,), shape))


def parse_parameter(level: int, shape: Shape) -> HloInstruction:
    from xla_contract.ops.control.parameter import ParameterAttributes

    return HloInstruction(
        f"p{level}", 0, Opcode.PARAMETER, shape, (), ParameterAttributes(0, shape)
    )


def test_bounds_how_deeply_computations_call_each_other() -> None:
    verify(chain(MAX_CALL_DEPTH))
    with pytest.raises(ResourceExhaustedError, match=f"{MAX_CALL_DEPTH} deep, got"):
        verify(chain(MAX_CALL_DEPTH + 1))


def test_a_computation_called_everywhere_is_checked_once() -> None:
    # Each level calls the one below twice: a walk along the calls would take 2^60 steps.
    module = chain(60)
    shape = module.entry.root.shape
    for computation in module.computations[1:]:
        once = computation.root
        twice = HloInstruction(
            f"{once.name}.again", 2, Opcode.CALL, shape, (once,), NO_ATTRIBUTES, once.called
        )
        computation.instructions.append(twice)
        computation.root = twice
    verify(module)


@pytest.mark.parametrize(
    ("made", "effect"),
    [
        ("call(b), to_apply=drawn", "rng %number"),
        ("infeed(t)", "infeed %y"),
        ('custom-call(b), custom_call_target="Told", custom_call_has_side_effect=true', "%y"),
        ("negate(b)", None),
    ],
)
def test_refuses_side_effects_where_the_order_of_calls_is_open(
    made: str, effect: str | None
) -> None:
    is_fed = made.startswith("infeed")
    text = f"""HloModule m
drawn {{ p = f32[] parameter(0)
  number = f32[] rng(p, p), distribution=rng_uniform
  ROOT q = f32[] copy(number) }}
f {{ a = f32[] parameter(0)
  b = f32[] parameter(1)
  t = token[] after-all()
  y = {"(f32[], token[])" if is_fed else "f32[]"} {made}
  ROOT r = f32[] add(a, b) }}
ENTRY main {{ x = f32[4] parameter(0)
  zero = f32[] constant(0)
  ROOT total = f32[] reduce(x, zero), dimensions={{0}}, to_apply=f }}"""
    module = import_module(parse_hlo(text))
    if effect is None:
        verify(module)
        return
    with pytest.raises(InvalidArgumentError, match=f"reduce %total: .* no side effects.*{effect}"):
        verify(module)
