"""Passes and fusion decide by the target that they are given."""

import dataclasses
from collections.abc import Iterator, Sequence

import pytest

from tests.processors import HOST, TARGET, tuned
from xla_contract.types.element_type import ElementType
from xla_server.backends.compiled.compilation import compile_module, steps_of
from xla_server.codegen.lower.lowering import kernels_of
from xla_server.ir.text.parser import parse_module
from xla_server.passes.framework.fixpoint import Fixpoint, Pass
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
    assert len(targets) == 16
    assert all(each is other for each in targets)


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
        [row.source for row in kernels_of(compile_module(module, target=each).code)]
        for each in (TARGET, target)
    )
    assert kernels != others
