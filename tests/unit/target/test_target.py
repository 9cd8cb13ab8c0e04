"""Passes and fusion decide by the target that they are given."""

import ast
import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

import xla_server
from tests.processors import HOST, TARGET, tuned
from xla_contract.types.element_type import ElementType
from xla_server.backends.compiled.compilation import compile_module, steps_of
from xla_server.codegen.lower.lowering import kernels_of
from xla_server.ir.text.parser import parse_module
from xla_server.passes.framework.fixpoint import Fixpoint, Pass
from xla_server.target import fusion_tuning, kernel_tuning, loop_tuning, pass_tuning, tuning
from xla_server.target.capability import Capability
from xla_server.target.target import Target

LONG_SUM = """HloModule m
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
ENTRY e {
  x = f32[1048576] parameter(0)
  zero = f32[] constant(0)
  ROOT r = f32[] reduce(x, zero), dimensions={0}, to_apply=add
}
"""
CHAIN = """HloModule m
ENTRY e {
  x = f32[4096] parameter(0)
  a = f32[4096] negate(x)
  b = f32[4096] sqrt(a)
  ROOT c = f32[4096] abs(b)
}
"""
PRODUCT = """HloModule m
ENTRY e {
  x = f32[64,64] parameter(0)
  p = f32[64,64] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT r = f32[64,64] negate(p)
}
"""


class WithoutBlas(Capability):
    """The kernels of a platform that has no products by BLAS."""

    BLAS_TYPES: frozenset[ElementType] = frozenset()


def single(steps: Sequence[Pass]) -> Iterator[Pass]:
    for step in steps:
        if isinstance(step, Fixpoint):
            yield from single(step.passes)
        else:
            yield step


def test_every_pass_has_the_target_of_the_pipeline() -> None:
    other = tuned(TARGET, "fusions", max_instructions=7)
    steps, _ = steps_of(other)
    targets = [step.target for step in single(steps) if hasattr(step, "target")]
    assert len(targets) == 18
    assert all(each is other for each in targets)


def _classes_read(text: str) -> Iterator[str]:
    """Yield the fields that are read from a record of a target itself, and not from an instance."""
    modules = (fusion_tuning, kernel_tuning, loop_tuning, pass_tuning, tuning)
    known = {each for module in modules for each in vars(module).values() if type(each) is type}
    names = {each.__name__ for each in known if each.__module__.endswith("tuning")}
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Attribute(value=ast.Name(id=name) | ast.Attribute(attr=name), attr=field):
                if name in {*names, "Capability", "GpuCapability", "PROCESSOR", "GPU"}:
                    yield f"{name}.{field}"


def test_a_class_that_is_asked_is_found() -> None:
    text = "Capability.BLAS_TYPES, target.GPU.WIDE_SUMS, Chunks(3).aligned_items, Chunks.field, a.b"
    found = ["Capability.BLAS_TYPES", "GPU.WIDE_SUMS", "Chunks.field"]
    assert sorted(_classes_read(text)) == sorted(found)


def test_every_module_asks_the_target_that_it_is_given() -> None:
    root = Path(xla_server.__file__).parent
    found = {
        (path.relative_to(root).as_posix(), read)
        for folder in ("backends", "codegen", "fusion", "passes", "runtime")
        for path in (root / folder).rglob("*.py")
        for read in _classes_read(path.read_text())
    }
    assert found == set()


def test_the_target_of_a_machine_is_made_once() -> None:
    assert Target.of(HOST) is TARGET
    assert steps_of(TARGET) is steps_of(Target.of(HOST))


@pytest.mark.parametrize(
    ("text", "target"),
    [
        (LONG_SUM, tuned(TARGET, "reductions", min_elements=1 << 21)),
        (CHAIN, tuned(TARGET, "fusions", max_instructions=1)),
        (PRODUCT, dataclasses.replace(TARGET, capability=WithoutBlas())),
    ],
    ids=["passes", "fusion", "capability"],
)
def test_another_target_gives_other_kernels(text: str, target: Target) -> None:
    module = parse_module(text)
    kernels, others = (
        [thunk.source for thunk in kernels_of(compile_module(module, target=each).code)]
        for each in (TARGET, target)
    )
    assert kernels != others
