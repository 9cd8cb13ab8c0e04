"""NumPy's implicit broadcasting, for those who ask for it by this module's name.

The functions of `xla_client.ops` never guess which dimensions of operands of different rank
belong together. These do, as numpy does: the dimensions are aligned at the end, and size 1
stretches. Element types must agree as everywhere else.
"""

import itertools

from xla_client import ops
from xla_client.builder import Dimensions, Op, integers
from xla_client.coercion.checked import checked
from xla_client.ops.elementwise import Binary
from xla_client.scalars import Scalar
from xla_contract.errors import ShapeError


@checked
def broadcast_dimensions(*operands: Op) -> tuple[int, ...]:
    """The dimensions the operands have in common; ShapeError where sizes differ and none is 1."""
    result = []
    sizes = [each.shape.dimensions[::-1] for each in operands]
    for number, column in enumerate(itertools.zip_longest(*sizes, fillvalue=1)):
        wanted = {size for size in column if size != 1}
        if len(wanted) > 1:
            shapes = " and ".join(str(each.shape) for each in operands)
            raise ShapeError(
                "dimensions aligned at the end must have equal size or size 1, got "
                f"{' and '.join(map(str, column))} at dim -{number + 1} of {shapes}"
            ).at("broadcast")
        result.append(wanted.pop() if wanted else 1)
    return tuple(result[::-1])


@checked
def broadcast_to(operand: Op, dimensions: Dimensions) -> Op:
    """The operand aligned at the end of `dimensions`, size 1 stretched; ShapeError otherwise."""
    dimensions = integers(dimensions)
    sizes = integers(dimensions)
    offset = len(sizes) - operand.shape.rank
    if offset < 0:
        raise ShapeError(
            f"an array cannot lose dimensions when broadcast, got {operand.shape} for "
            f"{{{','.join(map(str, sizes))}}}"
        ).at("broadcast")
    return ops.broadcast_in_dim(operand, sizes, range(offset, len(sizes)))


@checked
def broadcast_arrays(*operands: Op) -> tuple[Op, ...]:
    """All operands with the dimensions they have in common."""
    dimensions = broadcast_dimensions(*operands)
    return tuple(broadcast_to(each, dimensions) for each in operands)


@checked
def where(pred: Op, on_true: Op, on_false: Op) -> Op:
    """`ops.select` of operands that are broadcast together."""
    return ops.select(*broadcast_arrays(pred, on_true, on_false))


def _aligned(function: Binary, name: str) -> Binary:
    def aligned(
        lhs: Op | Scalar, rhs: Op | Scalar, broadcast_dimensions: Dimensions | None = None
    ) -> Op:
        if broadcast_dimensions is None and isinstance(lhs, Op) and isinstance(rhs, Op):
            low, high = sorted((lhs.shape.rank, rhs.shape.rank))
            if low != high:
                broadcast_dimensions = range(high - low, high)
        return function(lhs, rhs, broadcast_dimensions)

    aligned.__name__ = aligned.__qualname__ = name
    aligned.__doc__ = f"`ops.{name}` of operands aligned at the end, as numpy does it."
    return checked(aligned)


add = _aligned(ops.add, "add")
and_ = _aligned(ops.and_, "and_")
atan2 = _aligned(ops.atan2, "atan2")
complex = _aligned(ops.complex, "complex")
div = _aligned(ops.div, "div")
eq = _aligned(ops.eq, "eq")
ge = _aligned(ops.ge, "ge")
gt = _aligned(ops.gt, "gt")
le = _aligned(ops.le, "le")
lt = _aligned(ops.lt, "lt")
max = _aligned(ops.max, "max")
min = _aligned(ops.min, "min")
mul = _aligned(ops.mul, "mul")
ne = _aligned(ops.ne, "ne")
or_ = _aligned(ops.or_, "or_")
pow = _aligned(ops.pow, "pow")
rem = _aligned(ops.rem, "rem")
shift_left = _aligned(ops.shift_left, "shift_left")
shift_right_arithmetic = _aligned(ops.shift_right_arithmetic, "shift_right_arithmetic")
shift_right_logical = _aligned(ops.shift_right_logical, "shift_right_logical")
sub = _aligned(ops.sub, "sub")
xor = _aligned(ops.xor, "xor")
