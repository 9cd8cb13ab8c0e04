"""Every example with numbers of XLA's text on the semantics of operations."""

import math
from typing import Any

import numpy as np
import pytest

from tests.conformance.examples import (
    ADD,
    GE,
    MAX,
    MIN,
    Example,
    Program,
    assert_gives,
    scalar_function,
)
from xla_client import (
    Builder,
    DotDimensionNumbers,
    GatherDimensionNumbers,
    Op,
    PaddingConfig,
    PaddingDimension,
    ScatterDimensionNumbers,
    Shape,
    ShapeError,
    ops,
)
from xla_contract.types.element_type import ElementType as E

V = [[[10 * i + j + 5 * k for j in range(3)] for k in range(2)] for i in range(1, 5)]
FLAT = [number for block in V for row in block for number in row]
TABLE = [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11]]
LINE = [0, 1, 2, 3, 4]
MATRIX = [[1, 2, 3], [4, 5, 6]]
CUBE = [MATRIX] * 4
BATCH = [[[1, 2], [3, 4]], [[5, 6], [7, 8]]]
IDENTITIES = [[[1, 0], [0, 1]]] * 2
POOLED = [[7, 2, 5, 3, 10, 2], [3, 8, 9, 3, 4, 2], [1, 5, 7, 5, 6, 1], [0, 6, 2, 7, 2, 8]]
OVERLAPPED = [[7, 2, 5, 3, 8], [3, 8, 9, 3, 4], [1, 5, 7, 5, 6], [0, 6, 2, 10, 2]]
TENS = [10000, 1000, 100, 10, 1]
LARGEST = float(np.finfo(np.float32).max)
S32 = np.array([1, 2, 3, 4], np.int32)
HUNDREDS = 100 * S32


def reduced(value: Any, *dimensions: int) -> Program:
    return lambda c: ops.reduce(c(value), c(0.0, E.F32), ADD, dimensions)


def minima(padding: Any) -> Program:
    return lambda c: ops.reduce_window(c(TENS), c(LARGEST, E.F32), MIN, [3], [2], padding)


def scattered(base: Any, strides: list[int]) -> Program:
    return lambda c: ops.select_and_scatter(
        c(base), GE, [2, 3], strides, "valid", c([[2, 6], [3, 1]]), c(0.0, E.F32), ADD
    )


def padded(*amounts: tuple[int, int, int]) -> Program:
    config = PaddingConfig(tuple(PaddingDimension(*each) for each in amounts))
    return lambda c: ops.pad(c([[1, 2], [3, 4]]), c(0.0, E.F32), config)


def chosen(index: Any) -> Program:
    branches = [
        scalar_function(lambda x, factor=factor: x * factor, "f32", name=f"by_{factor}")
        for factor in (2.0, 3.0, 5.0)
    ]
    count = 2 if isinstance(index, bool) else 3
    return lambda c: ops.conditional(c(index), branches[:count], [c(10.0, E.F32)] * count)


def argmax(c: Example) -> Op:
    def later(best: Op, place: Op, value: Op, index: Op) -> Op:
        above = ops.ge(value, best)
        return ops.tuple([ops.select(above, value, best), ops.select(above, index, place)])

    keep = scalar_function(later, "f32", "s32", "f32", "s32")
    initial = [c(-np.inf, E.F32), c(-1, E.S32)]
    return ops.reduce([c([3, 9, 4]), c.iota(Shape.array(E.S32, [3]), 0)], initial, keep, [0])


def by_first(a: Op, b: Op, c: Op, d: Op, e: Op, f: Op) -> Op:
    return ops.lt(a, b)


def sort_three(c: Example) -> Op:
    operands = [c([3, 1], E.S32), c([42, 50], E.S32), c([-3.0, 1.1])]
    return ops.sort(operands, scalar_function(by_first, *["s32"] * 4, "f32", "f32"))


def tuple_of_two(c: Example) -> Op:
    return ops.get_tuple_element(ops.tuple([c(list(range(10))), c(5, E.S32)]), 1)


PROGRAMS: dict[str, tuple[Any, ...]] = {
    "broadcast": (lambda c: ops.broadcast(c(2.0, E.F32), [2, 3]), [[2] * 3] * 2),
    "broadcast_in_dim": (lambda c: ops.broadcast_in_dim(c([[7]]), [2, 3], [0, 1]), [[7] * 3] * 2),
    "clamp": (lambda c: ops.clamp(0, c([-1, 5, 9], E.S32), 6), [0, 5, 6]),
    "collapse_all": (lambda c: ops.collapse(c(V), [0, 1, 2]), FLAT),
    # The text prints these two the other way round, against its own rule on their sizes.
    "collapse_lower": (lambda c: ops.collapse(c(V), [0, 1]), np.reshape(FLAT, (8, 3)).tolist()),
    "collapse_higher": (lambda c: ops.collapse(c(V), [1, 2]), np.reshape(FLAT, (4, 6)).tolist()),
    "concat_lines": (
        lambda c: ops.concat_in_dim([c([2, 3]), c([4, 5]), c([6, 7])], 0),
        range(2, 8),
    ),
    "concat_tables": (
        lambda c: ops.concat_in_dim([c([[1, 2], [3, 4], [5, 6]]), c([[7, 8]])], 0),
        [[1, 2], [3, 4], [5, 6], [7, 8]],
    ),
    "conditional_true": (chosen(True), 20),
    "conditional_false": (chosen(False), 30),
    **{
        f"conditional_{index}": (chosen(np.int32(index)), wanted)
        for index, wanted in [(0, 20), (1, 30), (2, 50), (3, 50), (-1, 50), (2**31 - 1, 50)]
    },
    "convert": (lambda c: ops.convert_element_type(c([0, 1, 2], E.S32), E.F32), [0.0, 1.0, 2.0]),
    "dot_vectors": (lambda c: ops.dot(c([1, 2, 3]), c([4, 5, 6])), 32),
    "dot_matrix_vector": (lambda c: ops.dot(c(MATRIX), c([1, 0, -1])), [-2, -2]),
    "dot_matrices": (
        lambda c: ops.dot(c(MATRIX), c([[1, 2], [3, 4], [5, 6]])),
        [[22, 28], [49, 64]],
    ),
    "dot_general": (
        lambda c: ops.dot_general(
            c(MATRIX), c([[1, 1, 1], [2, 2, 2]]), DotDimensionNumbers((1,), (1,))
        ),
        [[6, 12], [15, 30]],
    ),
    "dot_general_batch": (
        lambda c: ops.dot_general(
            c(BATCH), c(IDENTITIES), DotDimensionNumbers((2,), (1,), (0,), (0,))
        ),
        BATCH,
    ),
    "dot_general_two_batches": (
        lambda c: ops.dot_general(
            c([BATCH]), c([IDENTITIES]), DotDimensionNumbers((3,), (2,), (0, 1), (0, 1))
        ),
        [BATCH],
    ),
    "dynamic_slice_line": (lambda c: ops.dynamic_slice(c(LINE), c.start(2), [2]), [2, 3]),
    "dynamic_slice_table": (
        lambda c: ops.dynamic_slice(c(TABLE), c.start(2, 1), [2, 2]),
        [[7, 8], [10, 11]],
    ),
    "dynamic_slice_is_moved_inside": (
        lambda c: ops.dynamic_slice(c(TABLE), c.start(9, -4), [2, 2]),
        [[6, 7], [9, 10]],
    ),
    "dynamic_update_line": (
        lambda c: ops.dynamic_update_slice(c(LINE), c([5, 6]), c.start(2)),
        [0, 1, 5, 6, 4],
    ),
    "dynamic_update_table": (
        lambda c: ops.dynamic_update_slice(
            c(TABLE), c([[12, 13], [14, 15], [16, 17]]), c.start(1, 1)
        ),
        [[0, 1, 2], [3, 12, 13], [6, 14, 15], [9, 16, 17]],
    ),
    "get_tuple_element": (tuple_of_two, 5),
    "iota_0": (lambda c: c.iota(Shape.parse("s32[4,8]"), 0), [[row] * 8 for row in range(4)]),
    "iota_1": (lambda c: c.iota(Shape.parse("s32[4,8]"), 1), [list(range(8))] * 4),
    "map": (lambda c: ops.map([c([1, 2]), c([3, 4])], ADD), [4, 6]),
    "pad_edges": (padded((0, 1, 0), (1, 2, 0)), [[0, 1, 2, 0, 0], [0, 3, 4, 0, 0], [0] * 5]),
    "pad_inside": (padded((0, 0, 1), (0, 0, 2)), [[1, 0, 0, 2], [0] * 4, [3, 0, 0, 4]]),
    "pad_negative_after_inside": (padded((-1, 0, 1), (0, -1, 1)), [[0, 0], [3, 0]]),
    "pad_nothing": (padded((0, 0, 0), (0, 0, 0)), [[1, 2], [3, 4]]),
    "reduce_line": (reduced([10, 11, 12, 13], 0), 46),
    "reduce_matrix_0": (reduced(MATRIX, 0), [5, 7, 9]),
    "reduce_matrix_1": (reduced(MATRIX, 1), [6, 15]),
    "reduce_cube_0": (reduced(CUBE, 0), [[4, 8, 12], [16, 20, 24]]),
    "reduce_cube_2": (reduced(CUBE, 2), [[6, 15]] * 4),
    "reduce_cube_01": (reduced(CUBE, 0, 1), [20, 28, 36]),
    "reduce_cube_all": (reduced(CUBE, 0, 1, 2), 84),
    "reduce_argmax": (argmax, 9, 1),
    "reduce_window": (
        lambda c: ops.reduce_window(c(POOLED), c(-np.inf, E.F32), MAX, [2, 3], [2, 3], "valid"),
        [[9, 10], [7, 8]],
    ),
    "reduce_window_valid": (minima("valid"), [100, 1]),
    "reduce_window_same": (minima("same"), [1000, 10, 1]),
    "reshape_to_line": (lambda c: ops.reshape(c(V), [24]), FLAT),
    "reshape_to_table": (lambda c: ops.reshape(c(V), [8, 3]), np.reshape(FLAT, (8, 3)).tolist()),
    "reshape_to_scalar": (lambda c: ops.reshape(c([[5]]), []), 5),
    "reshape_of_scalar": (lambda c: ops.reshape(c(5.0, E.F32), [1, 1]), [[5]]),
    "rev": (lambda c: ops.rev(c(MATRIX), [0, 1]), [[6, 5, 4], [3, 2, 1]]),
    "select": (
        lambda c: ops.select(c([True, False, False, True], E.PRED), c(S32), c(HUNDREDS)),
        [1, 200, 300, 4],
    ),
    "select_scalar": (lambda c: ops.select(c(True, E.PRED), c(S32), c(HUNDREDS)), S32),
    "select_and_scatter": (
        scattered(POOLED, [2, 3]),
        [[0, 0, 0, 0, 6, 0], [0, 0, 2, 0, 0, 0], [0, 0, 3, 0, 0, 0], [0, 0, 0, 0, 0, 1]],
    ),
    "select_and_scatter_overlapping": (
        scattered(OVERLAPPED, [2, 2]),
        [[0] * 5, [0, 0, 8, 0, 0], [0, 0, 3, 0, 0], [0, 0, 0, 1, 0]],
    ),
    "slice_line": (lambda c: ops.slice(c(LINE), [2], [4]), [2, 3]),
    "slice_table": (lambda c: ops.slice(c(TABLE), [2, 1], [4, 3]), [[7, 8], [10, 11]]),
    "sort_three": (sort_three, [1, 3], [50, 42], np.array([1.1, -3.0], np.float32)),
    "top_k": (lambda c: ops.top_k(c([3, 9, 4, 9]), 3), [9, 9, 4], [1, 3, 2]),
    "transpose": (lambda c: ops.transpose(c(MATRIX), [1, 0]), [[1, 4], [2, 5], [3, 6]]),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_gives_the_text_s_numbers(name: str) -> None:
    program, *wanted = PROGRAMS[name]
    assert_gives(program, *wanted)


def test_while_adds_a_vector_1000_times() -> None:
    def program(c: Example) -> Op:
        state = Shape.parse("(s32[], f32[10])")

        def part(name: str, function: Any) -> Any:
            builder = Builder(name)
            carried = builder.parameter(0, state)
            return builder.build(
                function(ops.get_tuple_element(carried, 0), ops.get_tuple_element(carried, 1))
            )

        def step(count: Op, vector: Op) -> Op:
            constant = vector.builder.constant(np.arange(10, dtype=np.float32))
            return ops.tuple([count + 1, vector + constant])

        condition = part("condition", lambda count, vector: ops.lt(count, 1000))
        initial = ops.tuple([c(0, E.S32), c([0.0] * 10)])
        return ops.while_(condition, part("body", step), initial)

    assert_gives(program, 1000, [1000 * number for number in range(10)])


FIELD = np.arange(16 * 11, dtype=np.float32).reshape(16, 11)
CORNERS = np.array([[0, 0], [8, 5], [3, 2], [1, 4], [7, 0]], np.int32)
MANY = np.random.default_rng(0).integers(0, [9, 6], (4, 5, 2)).astype(np.int32)
NUMBERS = np.array([[0, 3], [15, 2], [7, 7]], np.int32)


def test_gather_takes_slices_at_a_list_of_corners() -> None:
    numbers = GatherDimensionNumbers((1, 2), (), (0, 1), 1)
    wanted = np.stack([FIELD[x : x + 8, y : y + 6] for x, y in CORNERS])
    assert_gives(lambda c: ops.gather(c(FIELD), c(CORNERS), numbers, [8, 6]), wanted)


def test_gather_takes_slices_at_a_table_of_corners() -> None:
    numbers = GatherDimensionNumbers((2, 3), (), (0, 1), 2)
    rows = [[FIELD[x : x + 8, y : y + 6] for x, y in row] for row in MANY]
    assert_gives(lambda c: ops.gather(c(FIELD), c(MANY), numbers, [8, 6]), np.array(rows))


def test_gather_takes_rows() -> None:
    numbers = GatherDimensionNumbers((2,), (0,), (0,), 2)
    assert_gives(lambda c: ops.gather(c(FIELD), c(NUMBERS), numbers, [1, 11]), FIELD[NUMBERS])


def test_scatter_undoes_gather() -> None:
    updates = np.arange(3 * 2 * 11, dtype=np.float32).reshape(3, 2, 11)
    numbers = ScatterDimensionNumbers((2,), (0,), (0,), 2)
    wanted = FIELD.copy()
    wanted[NUMBERS.ravel()[:4]] += updates[:2].reshape(4, 11)
    wanted[7] += updates[2].sum(0)
    assert_gives(lambda c: ops.scatter(c(FIELD), c(NUMBERS), c(updates), ADD, numbers), wanted)


@pytest.mark.parametrize("value", [np.arange(10, dtype=np.float32), np.float32(-0.1)])
def test_bitcast_convert_to_another_width(value: Any) -> None:
    halves = np.frombuffer(value.tobytes(), np.float16).reshape((*np.shape(value), 2))
    assert_gives(lambda c: ops.bitcast_convert_type(c(value), E.F16), halves)
    assert_gives(lambda c: ops.bitcast_convert_type(c(halves), E.F32), value)
    bytes_of = np.array([1, -2], np.int32).view(np.int8).reshape(2, 4)
    words = np.array([1, -2], np.int32)
    assert_gives(lambda c: ops.bitcast_convert_type(c(words), E.S8), bytes_of)


TEN = np.arange(1, 11, dtype=np.float32)


@pytest.mark.parametrize(("size", "total"), [(5, 15), (6, 21)])
def test_reductions_ignore_what_a_dimension_size_leaves_out(size: int, total: int) -> None:
    def sized(c: Example) -> Op:
        return ops.set_dimension_size(c(TEN), c.constant(size), 0)

    assert str(sized(Example()).shape) == "f32[<=10]"
    assert_gives(sized, TEN[:size])
    assert_gives(lambda c: ops.reduce_all(sized(c), c(0.0, E.F32), ADD), total)
    assert_gives(
        lambda c: ops.reduce_all(sized(c), c(1.0, E.F32), scalar_function(ops.mul)),
        math.factorial(size),
    )
    assert_gives(lambda c: ops.get_dimension_size(sized(c), 0), size)


def test_a_dimension_size_can_be_taken_back() -> None:
    def sized(c: Example) -> Op:
        return ops.set_dimension_size(c(TEN), c.constant(5), 0)

    assert_gives(lambda c: ops.set_dimension_size(sized(c), c.constant(10), 0), TEN)
    assert_gives(lambda c: ops.set_dimension_size(sized(c), c.constant(7), 0), TEN[:7])
    assert_gives(lambda c: ops.remove_dynamic_dimension(sized(c), 0), TEN)


REFUSED: dict[str, Program] = {
    "collapse_backwards": lambda c: ops.collapse(c(V), [1, 0]),
    "collapse_with_a_gap": lambda c: ops.collapse(c(V), [0, 2]),
    "concat_scalars": lambda c: ops.concat_in_dim([c(1.0), c(2.0)], 0),
    "bitcast_of_an_odd_size": lambda c: ops.bitcast_convert_type(c([1, 2, 3], E.F16), E.F32),
    "reshape_to_another_count": lambda c: ops.reshape(c(V), [23]),
    "slice_beyond_the_end": lambda c: ops.slice(c(LINE), [2], [6]),
    "pad_a_negative_inside": padded((0, 0, -1), (0, 0, 0)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_text_forbids_is_refused_where_it_is_written(name: str) -> None:
    with pytest.raises(ShapeError):
        REFUSED[name](Example())
