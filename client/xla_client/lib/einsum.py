"""Products of arrays by the names of their dimensions, written as DotGeneral.

Notation as in numpy's einsum: one letter per dimension, `...` for the dimensions not named, which
are aligned at the end. Dimensions of one name must have one size; nothing is stretched.
"""

import collections
from collections.abc import Collection, Iterable, Sequence

from xla_client import ops
from xla_client.coercion.records import Precision
from xla_client.lib import arithmetic, matrix
from xla_client.programs.arguments.checked import checked
from xla_client.programs.builder import Op
from xla_contract.errors import InvalidArgumentError, ShapeError, XlaError
from xla_contract.types.dimension_numbers import DotDimensionNumbers
from xla_contract.types.element_type import ElementTypeLike

_ELLIPSIS = "..."
_Labels = tuple[str, ...]


@checked
def einsum(
    subscripts: str,
    *operands: Op,
    precision: Precision = None,
    preferred_element_type: ElementTypeLike | None = None,
) -> Op:
    """The sum of products that `subscripts` describe: `"ij,jk->ik"` is the matrix product.

    Without `->` the result has the dimensions of `...` and then the labels that occur once, in
    alphabetical order. A label that an operand repeats means its diagonal. Several operands are
    multiplied from left to right.

    Args:
        subscripts: Labels of the operands' dimensions, separated by commas, then `->` and the
            result's.
        operands: An array for each term of `subscripts`.
        precision: "default", "high" or "highest", for both operands of a product or one for each.
        preferred_element_type: The element type of products, if it is not the
            operands'.

    Returns:
        The array of the sums.

    Raises:
        ShapeError: The operands do not have the dimensions of their terms.
        InvalidArgumentError: The subscripts are malformed, or not one term per operand; a name is
            unknown.

    Example:
        >>> b = Builder("example")
        >>> x, y = b.parameter(0, "f32[5,2,3]"), b.parameter(1, "f32[5,3,4]")
        >>> lib.einsum.einsum("bij,bjk->bik", x, y)
        %dot.3: f32[5,2,4]

    See https://github.com/openxla/xla/blob/main/xla/hlo/builder/lib/matrix.h
    """
    try:
        inputs, output = _parse(subscripts, operands)
        _check_sizes(inputs, operands)
    except XlaError as error:
        raise error.at("einsum") from None
    terms = [_diagonals(op, labels) for op, labels in zip(operands, inputs, strict=True)]
    result, labels = terms[0]
    for number, (operand, its_labels) in enumerate(terms[1:], 1):
        needed = {*output, *(name for _, names in terms[number + 1 :] for name in names)}
        lhs = _summed(result, labels, {*needed, *its_labels})
        rhs = _summed(operand, its_labels, {*needed, *labels})
        result, labels = _product(lhs, rhs, needed, precision, preferred_element_type)
    result, labels = _summed(result, labels, output)
    order = [labels.index(name) for name in output]
    return result if order == sorted(order) else ops.transpose(result, order)


def _parse(subscripts: str, operands: Sequence[Op]) -> tuple[list[_Labels], _Labels]:
    left, arrow, right = subscripts.replace(" ", "").partition("->")
    terms = left.split(",")
    if not operands or len(terms) != len(operands):
        raise InvalidArgumentError(
            f"there must be one operand per term, got {len(terms)} terms and {len(operands)} "
            f"operands in {subscripts!r}"
        )
    inputs = []
    for term, operand in zip(terms, operands, strict=True):
        inputs.append(_labels(term, operand.shape.rank, f"{operand.shape} by {term!r}"))
    unnamed = max((sum(_is_unnamed(n) for n in labels) for labels in inputs), default=0)
    ellipsis = tuple(f"{_ELLIPSIS}{number}" for number in range(-unnamed, 0))
    if arrow:
        named, _, rest = right.partition(_ELLIPSIS)
        _check_letters(named + rest, right)
        output = (*named, *(ellipsis if _ELLIPSIS in right else ()), *rest)
    else:
        times = collections.Counter(name for labels in inputs for name in labels)
        once = (name for name, count in times.items() if count == 1 and not _is_unnamed(name))
        output = (*ellipsis, *sorted(once))
    _check_output(output, inputs, ellipsis, subscripts)
    return inputs, output


def _labels(term: str, rank: int, evidence: str) -> _Labels:
    named, dots, rest = term.partition(_ELLIPSIS)
    _check_letters(named + rest, term)
    unnamed = rank - len(named) - len(rest)
    if unnamed < 0 or (unnamed and not dots):
        raise ShapeError(
            f"a term must have one label per dimension, got {len(named) + len(rest)} labels for "
            f"{evidence}"
        )
    return (*named, *(f"{_ELLIPSIS}{number}" for number in range(-unnamed, 0)), *rest)


def _check_letters(labels: str, term: str) -> None:
    for name in labels:
        if not (name.isascii() and name.isalpha()):
            raise InvalidArgumentError(
                f"labels must be letters, with ... at most once, got {name!r} in {term!r}"
            )


def _check_output(
    output: _Labels, inputs: Sequence[_Labels], ellipsis: _Labels, subscripts: str
) -> None:
    known = {name for labels in inputs for name in labels}
    for name, count in collections.Counter(output).items():
        if count > 1 or name not in known:
            raise InvalidArgumentError(
                "a label of the output must occur there once and in an operand, got "
                f"{name!r} in {subscripts!r}"
            )
    if ellipsis and not set(ellipsis) <= set(output):
        raise InvalidArgumentError(
            f"the output must have the dimensions of ..., got {subscripts!r}"
        )


def _check_sizes(inputs: Sequence[_Labels], operands: Sequence[Op]) -> None:
    first: dict[str, tuple[int, Op]] = {}
    for labels, operand in zip(inputs, operands, strict=True):
        for name, size in zip(labels, operand.shape.dimensions, strict=True):
            known, other = first.setdefault(name, (size, operand))
            if known != size:
                raise ShapeError(
                    f"dimensions of one label must have equal size, got {known} of {other.shape} "
                    f"and {size} of {operand.shape} for {name!r}"
                )


def _diagonals(operand: Op, labels: _Labels) -> tuple[Op, _Labels]:
    """Return the operand with each label once: repeated labels select diagonals."""
    for name, count in collections.Counter(labels).items():
        for _ in range(count - 1):
            first = labels.index(name)
            second = labels.index(name, first + 1)
            rest = [number for number in range(len(labels)) if number not in (first, second)]
            operand = matrix.get_matrix_diagonal(ops.transpose(operand, [*rest, first, second]))
            labels = (*(labels[number] for number in rest), name)
    return operand, labels


def _summed(operand: Op, labels: _Labels, kept: Collection[str]) -> tuple[Op, _Labels]:
    """Return the operand summed over the labels that are not kept."""
    gone = [number for number, name in enumerate(labels) if name not in kept]
    if gone:
        operand = arithmetic.sum(operand, gone)
    return operand, _only(labels, kept)


def _product(
    lhs: tuple[Op, _Labels],
    rhs: tuple[Op, _Labels],
    needed: Collection[str],
    precision: Precision,
    preferred_element_type: ElementTypeLike | None,
) -> tuple[Op, _Labels]:
    """Return one DotGeneral: shared labels are batch dimensions if needed, else contracted."""
    shared = _only(lhs[1], rhs[1])
    batch = _only(shared, needed)
    contracted = [name for name in shared if name not in batch]
    numbers = DotDimensionNumbers(
        _numbers(lhs[1], contracted),
        _numbers(rhs[1], contracted),
        _numbers(lhs[1], batch),
        _numbers(rhs[1], batch),
    )
    result = ops.dot_general(lhs[0], rhs[0], numbers, precision, preferred_element_type)
    free = (name for name in (*lhs[1], *rhs[1]) if name not in shared)
    return result, (*batch, *free)


def _only(labels: _Labels, kept: Collection[str]) -> _Labels:
    return tuple(name for name in labels if name in kept)


def _numbers(labels: _Labels, names: Iterable[str]) -> tuple[int, ...]:
    return tuple(labels.index(name) for name in names)


def _is_unnamed(label: str) -> bool:
    return label.startswith(_ELLIPSIS)
