"""Every elementwise operation on every element type that XLA's CPU backend computes it in."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jax import lax

from tests.conformance import oracle
from tests.conformance.sweep.draws import bounds, drawing, operands, program
from tests.conformance.sweep.draws.bounds import BOUNDS, assert_within
from tests.conformance.sweep.draws.depth import FULL, drawn
from tests.conformance.sweep.draws.subnormal import agreed
from xla_client import ops
from xla_client.programs.builder import Op
from xla_contract.ops.elementwise import elementwise
from xla_contract.ops.elementwise.elementwise import BINARY, UNARY
from xla_contract.types.element_type import ElementType as E
from xla_contract.types.opcode import Opcode

OTHERS = (
    Opcode.BITCAST_CONVERT,
    Opcode.CLAMP,
    Opcode.COMPARE,
    Opcode.CONVERT,
    Opcode.REDUCE_PRECISION,
    Opcode.SELECT,
    Opcode.STOCHASTIC_CONVERT,
)
"""Operations with attributes or operands of several kinds, drawn by tests of their own."""

WITHOUT_XLA = (Opcode.MULHI,)
"""StableHLO, which jaxlib's programs pass through, has no such operation: see test_narrow.py."""

SWEPT = tuple(opcode for opcode in (*UNARY, *BINARY) if opcode not in WITHOUT_XLA)


def element_types(opcode: Opcode) -> list[E]:
    allowed = (UNARY.get(opcode) or BINARY[opcode]).members
    return [kind for kind in sorted(allowed) if kind not in operands.REFUSED]


def results(opcode: Opcode, groups: Sequence[Sequence[Any]], name: str | None) -> list[Any]:
    """(ours, the reference's) of the operation on each group of operands."""
    arity = opcode.arity
    arrays = [agreed(array) for group in groups for array in group]

    def function(*parameters: Op) -> Op:
        builder = parameters[0].builder
        rows = [parameters[start : start + arity] for start in range(0, len(arrays), arity)]
        return ops.tuple([builder.instruction(opcode, row) for row in rows], builder)

    if name is None:
        return program.both(function, arrays)
    ours = oracle.evaluated(program.built(function, arrays).proto, arrays)
    theirs = oracle.by_jax(lambda *every: [getattr(lax, name)(array) for array in every], arrays)
    return list(zip(ours, theirs, strict=True))


@pytest.mark.parametrize("opcode", SWEPT, ids=str)
def test_every_operation_gives_xlas_numbers(opcode: Opcode) -> None:
    allowed = element_types(opcode)
    few = st.lists(st.sampled_from(allowed), min_size=1, max_size=2, unique=True)

    @drawn(slice_of=2, full=4)
    @given(
        kinds=st.just(allowed) if FULL else few,
        shape=drawing.dimensions(max_rank=3, max_size=12),
        seed=drawing.seeds(),
    )
    def check(kinds: list[E], shape: tuple[int, ...], seed: int) -> None:
        by_xla = [kind for kind in kinds if operands.reference(opcode, kind) is None]
        by_jax = [kind for kind in kinds if kind not in by_xla]
        for some in filter(None, (by_xla, by_jax)):
            groups = [operands.operands(opcode, kind, shape, seed) for kind in some]
            pairs = results(opcode, groups, operands.reference(opcode, some[0]))
            for kind, (ours, theirs) in zip(some, pairs, strict=True):
                bound = BOUNDS[opcode].of(E.from_dtype(theirs.dtype))
                try:
                    assert_within(ours, theirs, bound)
                except AssertionError as error:
                    raise AssertionError(f"{opcode} of {kind.text}: {error}") from None

    check()


def test_the_sweep_and_its_bounds_cover_every_elementwise_opcode() -> None:
    table = {*elementwise.ELEMENTWISE, Opcode.SELECT}
    assert table <= {*SWEPT, *WITHOUT_XLA, *OTHERS}
    assert set(BOUNDS) == {*SWEPT, *WITHOUT_XLA, *OTHERS}


def test_bounds_are_written_down_for_readers() -> None:
    text = Path(bounds.__file__).with_name("BOUNDS.md").read_text()
    assert text.endswith(bounds.markdown()), "python -m tests.conformance.sweep.draws.bounds"
