"""Thunks of library plans on a GPU."""

from collections.abc import Sequence

from xla_contract.types.element_type import ElementType
from xla_contract.types.shape import Shape
from xla_server.buffers.code import KernelThunk, Value
from xla_server.codegen.gpu.plans.library_plans import LibraryPlan
from xla_server.codegen.lower.lowering import Lowering


def add_plan(
    lowering: Lowering,
    name: str,
    plan: LibraryPlan,
    arguments: Sequence[Value],
    *,
    writes: Sequence[Value],
    updates: Sequence[Value] = (),
    in_place: Sequence[tuple[Value, Value]] = (),
) -> None:
    """Add the thunk that computes a plan on these buffers; those that it does not write are read.

    A pair of `in_place` is a result and the argument that it may overwrite.
    """
    assert plan.problem is None, plan
    reads = tuple(value for value in arguments if value not in writes)
    thunk = KernelThunk(
        name,
        plan,
        1,
        1,
        tuple(arguments),
        reads,
        tuple(writes),
        in_place=tuple(in_place),
        updates=tuple(updates),
    )
    lowering.add(thunk)


def add_with_workspace(
    lowering: Lowering,
    name: str,
    plan: LibraryPlan,
    operands: Sequence[Value],
    result: Value,
    overwritten: Sequence[Value] = (),
) -> Value:
    """Add the thunk of a plan and return its result, which may overwrite some of its operands."""
    shape = Shape.array(ElementType.U8, (plan.memory_bytes,))
    workspace = lowering.new(shape, f"{name}.workspace")
    pairs = [(result, value) for value in overwritten]
    arguments = *operands, result, workspace
    add_plan(lowering, name, plan, arguments, writes=(result, workspace), in_place=pairs)
    return result
