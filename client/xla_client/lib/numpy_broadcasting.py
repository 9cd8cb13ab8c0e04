"""NumPy's implicit broadcasting, for those who ask for it by this module's name.

The functions of `xla_client.ops` never guess which dimensions of operands of different rank
belong together. These do, as numpy does: the dimensions are aligned at the end, and size 1
stretches. Element types must agree as everywhere else.
"""

import itertools

from xla_client import ops
from xla_client.ops.elementwise.elementwise import BinaryFunction
from xla_client.programs.arguments.checked import checked
from xla_client.programs.arguments.scalars import Scalar
from xla_client.programs.builder import Dimensions, Op, integers
from xla_contract.errors import ShapeError


@checked
def broadcast_dimensions(*operands: Op) -> tuple[int, ...]:
    """The common dimensions that operands broadcast to.

    Args:
        operands: Arrays, which are aligned at the last dimension.

    Returns:
        The common dimensions.

    Raises:
        ShapeError: Two sizes of one dimension differ and neither is 1.

    Example:
        >>> b = Builder("example")
        >>> x, y = b.parameter(0, "f32[2,1]"), b.parameter(1, "f32[3]")
        >>> lib.numpy_broadcasting.broadcast_dimensions(x, y)
        (2, 3)

    See https://numpy.org/doc/stable/user/basics.broadcasting.html
    """
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
    """The operand broadcast to other dimensions.

    Args:
        operand: An array, which is aligned at the last of `dimensions`.
        dimensions: The dimensions of the result.

    Returns:
        The array.

    Raises:
        ShapeError: There are fewer dimensions than the operand's, or a size other than 1 differs.

    Example:
        >>> x = Builder("example").parameter(0, "f32[3]")
        >>> lib.numpy_broadcasting.broadcast_to(x, [2, 3])
        %broadcast.2: f32[2,3]

    See https://github.com/openxla/xla/blob/main/xla/hlo/builder/lib/broadcast.h
    """
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
    """The operands broadcast to their common dimensions.

    Args:
        operands: Arrays, which are aligned at the last dimension.

    Returns:
        An array for each operand.

    Raises:
        ShapeError: Two sizes of one dimension differ and neither is 1.

    Example:
        >>> b = Builder("example")
        >>> x, y = b.parameter(0, "f32[2,1]"), b.parameter(1, "f32[3]")
        >>> [str(each.shape) for each in lib.numpy_broadcasting.broadcast_arrays(x, y)]
        ['f32[2,3]', 'f32[2,3]']

    See https://numpy.org/doc/stable/user/basics.broadcasting.html
    """
    dimensions = broadcast_dimensions(*operands)
    return tuple(broadcast_to(each, dimensions) for each in operands)


@checked
def where(pred: Op, on_true: Op, on_false: Op) -> Op:
    """The elements of one operand or of another, by a third; the operands are broadcast together.

    Args:
        pred: An array of preds.
        on_true: An array: the elements where `pred` is true.
        on_false: An array: the elements where `pred` is false.

    Returns:
        The chosen elements, of the common dimensions.

    Raises:
        ShapeError: The operands do not broadcast, `pred` is not of preds, or the others differ in
            type.

    Example:
        >>> b = Builder("example")
        >>> p, x = b.parameter(0, "pred[2,1]"), b.parameter(1, "f32[3]")
        >>> lib.numpy_broadcasting.where(p, x, x)
        %select.7: f32[2,3]

    See https://numpy.org/doc/stable/user/basics.broadcasting.html
    """
    return ops.select(*broadcast_arrays(pred, on_true, on_false))


_ALIGNED_DOC = """The function `ops.{name}` of operands that are broadcast as NumPy does.

Args:
    lhs: An Op, or a number, which takes the element type of `rhs`.
    rhs: An Op, or a number, which takes the element type of `lhs`.
    broadcast_dimensions: As for `ops.{name}`; without them, the operands are aligned at the last
        dimension.

Returns:
    The array of the results, of the operands' common dimensions.

Raises:
    ShapeError: The operands do not fit each other, or the operation does not have their type.
    InvalidArgumentError: A number does not fit the element type that it meets.

Example:
    >>> b = Builder("example")
    >>> x, y = b.parameter(0, "{operand}[2,1]"), b.parameter(1, "{operand}[3]")
    >>> print(lib.numpy_broadcasting.{name}(x, y).shape)
    {result}[2,3]

See https://numpy.org/doc/stable/user/basics.broadcasting.html
"""


def _aligned(
    function: BinaryFunction, name: str, operand: str = "f32", result: str = ""
) -> BinaryFunction:
    def aligned(
        lhs: Op | Scalar, rhs: Op | Scalar, broadcast_dimensions: Dimensions | None = None
    ) -> Op:
        if broadcast_dimensions is None and isinstance(lhs, Op) and isinstance(rhs, Op):
            low, high = sorted((lhs.shape.rank, rhs.shape.rank))
            if low != high:
                broadcast_dimensions = range(high - low, high)
        return function(lhs, rhs, broadcast_dimensions)

    aligned.__name__ = aligned.__qualname__ = name
    aligned.__doc__ = _ALIGNED_DOC.format(name=name, operand=operand, result=result or operand)
    return checked(aligned)


add = _aligned(ops.add, "add")
and_ = _aligned(ops.and_, "and_", "s32")
atan2 = _aligned(ops.atan2, "atan2")
complex = _aligned(ops.complex, "complex", result="c64")
div = _aligned(ops.div, "div")
eq = _aligned(ops.eq, "eq", result="pred")
ge = _aligned(ops.ge, "ge", result="pred")
gt = _aligned(ops.gt, "gt", result="pred")
le = _aligned(ops.le, "le", result="pred")
lt = _aligned(ops.lt, "lt", result="pred")
max = _aligned(ops.max, "max")
min = _aligned(ops.min, "min")
mul = _aligned(ops.mul, "mul")
ne = _aligned(ops.ne, "ne", result="pred")
or_ = _aligned(ops.or_, "or_", "s32")
pow = _aligned(ops.pow, "pow")
rem = _aligned(ops.rem, "rem")
shift_left = _aligned(ops.shift_left, "shift_left", "s32")
shift_right_arithmetic = _aligned(ops.shift_right_arithmetic, "shift_right_arithmetic", "s32")
shift_right_logical = _aligned(ops.shift_right_logical, "shift_right_logical", "s32")
sub = _aligned(ops.sub, "sub")
xor = _aligned(ops.xor, "xor", "s32")
