"""All broken constraints, family by family."""

from tests.unit.ops.constraints.case import Case
from tests.unit.ops.constraints.families import (
    channels,
    collectives,
    control,
    conversion,
    dynamic_shapes,
    elementwise,
    exchanges,
    groups,
    indexing,
    linear,
    operations,
    orderings,
    products,
    reductions,
    shaping,
    slicing,
)

_FAMILIES = (
    operations,
    elementwise,
    conversion,
    shaping,
    slicing,
    products,
    reductions,
    orderings,
    indexing,
    linear,
    control,
    collectives,
    exchanges,
    groups,
    dynamic_shapes,
    channels,
)

CASES: tuple[Case, ...] = tuple(case for family in _FAMILIES for case in family.CASES)
