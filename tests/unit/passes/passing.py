"""Modules before and after passes: what the interpreter makes of both, and how they read."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.checked_evaluation import evaluate_checked
from tests.conformance.oracle import assert_equal_bits
from tests.corpus.hlo_programs import program
from tests.corpus.hlo_text import parse_hlo
from xla_contract.types.element_type import ElementType
from xla_contract.types.shape import Shape
from xla_server.evaluator.interpret import evaluate
from xla_server.ir.importer import import_module
from xla_server.ir.module import HloComputation, HloModule
from xla_server.ir.verification.verifier import verify
from xla_server.passes.framework.editor import copy_module
from xla_server.passes.framework.fixpoint import Pass

SPECIAL = (0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-30, 1e30, 1e-42, 2.5, -3.75)
"""Floats that identities like x + 0 = x have to hold for."""


def stated(parameters: Sequence[str], root: str, *before: str) -> HloModule:
    """Return the module of HLO text with parameters x0 to xn of these shapes; see `program`."""
    return imported(program(list(parameters), root, *before))


def imported(text: str) -> HloModule:
    """The module of HLO text."""
    module = import_module(parse_hlo(text))
    verify(module)
    return module


def opcodes(module: HloModule, computation: HloComputation | None = None) -> dict[str, int]:
    """Return the count of each opcode in a computation, by default the entry; parameters aside."""
    inside = module.entry if computation is None else computation
    counts = Counter(str(i.opcode) for i in inside.instructions)
    counts.pop("parameter", None)
    return dict(counts)


def drawn(shape: Shape, random: np.random.Generator) -> Any:
    """A value of a shape: floats with special ones among them, small integers of both signs."""
    if shape.is_tuple:
        return tuple(drawn(part, random) for part in shape.tuple_shapes)
    kind, sizes = shape.element_type, shape.dimensions
    if kind is ElementType.PRED:
        return random.random(sizes) < 0.5
    if kind.is_integer:
        low = 0 if kind.is_unsigned_integer else -min(5, 1 << (kind.bit_width - 1))
        high = min(9, 1 << (kind.bit_width - (not kind.is_unsigned_integer)))
        return random.integers(low, high, sizes).astype(kind.dtype)
    floats = random.standard_normal(sizes)
    if kind.is_complex:
        return (floats + 1j * random.standard_normal(sizes)).astype(kind.dtype)
    special = random.choice(SPECIAL, sizes)
    return np.where(random.random(sizes) < 0.3, special, floats).astype(kind.dtype)


def tame(shape: Shape, random: np.random.Generator) -> Any:
    """A value of a shape without infinities and NaN, for what adds up in another order."""
    value = drawn(shape, random)
    kind = shape.element_type
    if not kind.is_floating and not kind.is_complex:
        return value
    return random.standard_normal(shape.dimensions).astype(kind.dtype)


def leaves(value: Any) -> list[Any]:
    """The arrays of a value, in order; tokens are left out."""
    if isinstance(value, tuple):
        return [leaf for part in value for leaf in leaves(part)]
    return [value] if isinstance(value, np.ndarray) else []


def passed(module: HloModule, *passes: Pass, fires: bool = True) -> HloModule:
    """A copy of the module after passes, which still verifies; `fires`: whether any changed it."""
    after = copy_module(module)
    changed = [step.apply(after) for step in passes]
    verify(after)
    assert any(changed) is fires
    return after


def assert_kept(
    before: HloModule,
    after: HloModule,
    arguments: Sequence[Any] | None = None,
    *,
    seed: int = 0,
    relative: float = 0.0,
) -> None:
    """Both modules give the same bits, or floats that differ relatively by no more than said."""
    random = np.random.default_rng(seed)
    draw = tame if relative else drawn
    if arguments is None:
        arguments = [draw(part.shape, random) for part in before.entry.parameters]
    expected = leaves(evaluate(before, arguments, seed=1))
    got = leaves(evaluate_checked(after, arguments, seed=1))
    assert len(got) == len(expected)
    for ours, theirs in zip(got, expected, strict=True):
        if relative and np.asarray(theirs).dtype.kind not in "biu":
            assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
            wide = np.complex128 if theirs.dtype.kind == "c" else np.float64
            scale = max(1.0, float(np.max(np.abs(theirs.astype(wide)), initial=0.0)))
            np.testing.assert_allclose(
                ours.astype(wide), theirs.astype(wide), rtol=relative, atol=relative * scale
            )
        else:
            assert_equal_bits(ours, theirs)


def rewritten(
    before: HloModule,
    *passes: Pass,
    arguments: Sequence[Any] | None = None,
    seed: int = 0,
    relative: float = 0.0,
) -> HloModule:
    """A copy of the module after passes that changed it and kept its results."""
    after = passed(before, *passes)
    assert_kept(before, after, arguments, seed=seed, relative=relative)
    return after
