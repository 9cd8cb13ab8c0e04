"""Mistakes with computations, windows, convolutions, loops and the library."""

import numpy as np

from tests.unit.client.mistakes.cases import TYPE, VALUE, Case
from xla_client import Computation, ScatterDimensionNumbers, ShapeError, lib, ops

CONV = "NHWC,HWIO->NHWC"


def _no_op(*_: object) -> None:
    return None


COMPUTATIONS = (
    Case(
        lambda e: ops.reduce(e.x, 0.0, e.b, 0), TYPE, "computation must be a Computation or a func"
    ),
    Case(lambda e: ops.reduce(e.x, 0.0, e.s, 0), TYPE, r"got %p.*s|got %s\."),
    Case(lambda e: ops.reduce(e.x, 0.0, "add", 0), TYPE, r"got 'add' \(str\)"),
    Case(lambda e: ops.reduce(e.x, 0.0, np.hypot, 0), TYPE, "for numpy's hypot"),
    Case(lambda e: ops.reduce(e.x, e.add, 0.0, 0), TYPE, "init_values must be an Op, a number"),
    Case(lambda e: ops.reduce(e.x, 0.0, lambda a: a, 0), TYPE, "must take 2 values, got <lambda>"),
    Case(lambda e: ops.reduce(e.x, 0.0, _no_op, 0), TYPE, "given as computation must return an Op"),
    Case(lambda e: ops.map(e.x, lambda a: "a"), TYPE, "must return an Op, got result must be"),
    Case(
        lambda e: ops.reduce(e.x, 0.0, lambda a, b: a + b * e.s, 0),
        VALUE,
        "a function given as computation can use its arguments and constants, got %s.3",
    ),
    Case(
        lambda e: ops.scatter(e.v, e.n, e.v, lambda a, b: a + e.s, ScatterDimensionNumbers()),
        VALUE,
        "given as update_computation can use",
    ),
    Case(lambda e: ops.reduce(e.x, 0.0, lambda a, b: a if a < b else b, 0), TYPE, "ops.lt"),
    Case(lambda e: ops.sort(e.x, lambda a: a), TYPE, "given as comparator must take 2 values"),
    Case(lambda e: ops.reduce(e.n, 0.5, ops.add, 0), VALUE, "reduce: .*float 0.5 for s32"),
    Case(
        lambda e: ops.reduce(e.x, np.zeros(2), ops.add, 0), TYPE, "init_values must be an Op, a n"
    ),
    Case(lambda e: ops.reduce([e.x, e.x], 0.0, ops.add, 0), ShapeError, "as many initial values"),
    Case(
        lambda e: ops.reduce(np.zeros(3), 0.0, ops.add, 0), TYPE, "operands must be an Op or a seq"
    ),
    Case(lambda e: ops.conditional(e.p, lambda: e.x), TYPE, "a branch needs another one"),
    Case(
        lambda e: ops.conditional(True, lambda: e.x, lambda: e.x), TYPE, "branch_index must be an"
    ),
    Case(lambda e: ops.conditional(e.p, lambda: e.x, lambda: e.x, e.x), TYPE, "must take 1 values"),
    Case(lambda e: ops.conditional(e.p, e.x, e.v), TYPE, r"branch_computations must be a Comput"),
    Case(
        lambda e: (kept := [], ops.map(e.x, lambda a: kept.append(a) or a), kept[0] + 1.0),
        VALUE,
        "a value of a function can be used in that function only",
    ),
    Case(
        lambda e: ops.call(lambda a: a + e.b.parameter(9, "f32[]"), e.s),
        VALUE,
        "a parameter belongs to the program",
    ),
    Case(lambda e: ops.while_(lambda a: a.lt(3.0), e.add, e.s), TYPE, "must both be functions or"),
    Case(
        lambda e: ops.while_(lambda: e.p, lambda: e.p, []), VALUE, "needs values to carry, got none"
    ),
    Case(
        lambda e: ops.while_(lambda a: a.lt(3), lambda a: a + 1, 0),
        TYPE,
        "an operand must be an Op",
    ),
    Case(
        lambda e: ops.while_(lambda a: a.lt(3), lambda a: a.astype("f32"), e.i),
        ShapeError,
        r"got \(f32\[\]\) for \(s32\[\]\)",
    ),
    Case(lambda e: ops.scan(e.x, 0.0, lambda a, c: c), TYPE, "must return a slice of each result"),
    Case(lambda e: ops.scan(e.x, 0.0, lambda a: a), TYPE, "given as step must take 2 values"),
    Case(lambda e: Computation.from_serialized(b"abc"), VALUE, "a serialized HloModuleProto"),
    Case(lambda e: Computation.from_serialized("HloModule m"), TYPE, "must be bytes"),
    Case(lambda e: Computation.from_proto(None), TYPE, "must be an HloModuleProto"),
)

WINDOWS = (
    Case(lambda e: ops.reduce_window(e.x, 0.0, ops.add, (1, 2), (1, 1), "full"), VALUE, "padding"),
    Case(
        lambda e: ops.reduce_window(e.x, 0.0, ops.add, (1, 2), (1, 1), 1), TYPE, "padding must be"
    ),
    Case(
        lambda e: ops.reduce_window(e.x, 0.0, ops.add, 2, 1, "same"), ShapeError, "one size and one"
    ),
    Case(
        lambda e: ops.reduce_window(e.x, 0.0, ops.add, (1, 2), 1, [(0, 0)] * 2),
        ShapeError,
        "window_strides must have one entry per window dimension, got 1 for 2",
    ),
    Case(lambda e: ops.conv_general(e.image, e.kernel, [1, 1], "same", "NHWC"), VALUE, "no '->'"),
    Case(
        lambda e: ops.conv_general(e.image, e.kernel, [1, 1], "same", "NHWC->NHWC"),
        VALUE,
        "dimension_numbers: dimension numbers must be text as",
    ),
    Case(
        lambda e: ops.conv_general(e.image, e.kernel, [1, 1], "same", "NHWC,HWIO->NHWD"),
        VALUE,
        "'NHWD' must have N, C, H and W",
    ),
    Case(
        lambda e: ops.conv_general(e.image, e.kernel, [1, 1], "same", ("NHWC", "HWIO", "NHWC")),
        TYPE,
        "dimension_numbers must be ConvolutionDimensionNumbers or text",
    ),
    Case(
        lambda e: ops.conv_general(e.image, e.kernel, 1, [(1, 1)] * 2, CONV),
        ShapeError,
        "window_strides must have one entry",
    ),
    Case(
        lambda e: ops.conv_general(e.image, e.kernel, [1, 1], [1, 1], CONV), TYPE, "padding must be"
    ),
    Case(
        lambda e: ops.conv_general_dilated(
            e.image, e.kernel, [1, 1], "same", None, None, CONV, window_reversal=[1, 0]
        ),
        TYPE,
        "window_reversal must be a sequence of bools",
    ),
)

LIBRARY = (
    Case(
        lambda e: lib.loops.for_each_index(e.i, lambda i, v: v, e.x), TYPE, "count must be an int"
    ),
    Case(
        lambda e: lib.loops.for_each_index(-1, lambda i, v: v, e.x), VALUE, "count from 0, got -1"
    ),
    Case(lambda e: lib.loops.for_each_index(3, e.add, e.x), TYPE, "body must be a function"),
    Case(lambda e: lib.loops.for_each_index(3, lambda v: v, e.x), TYPE, "must take 2 values"),
    Case(lambda e: lib.loops.while_loop(lambda v: e.p, lambda v: v, np.zeros(3)), TYPE, "initial"),
    Case(lambda e: lib.loops.while_loop(lambda v: e.p, lambda v: v, []), VALUE, "got none"),
    Case(
        lambda e: lib.loops.while_loop(lambda v: e.p, lambda v: v[:1], [e.x, e.i]),
        ShapeError,
        "the body must give what it takes",
    ),
    Case(lambda e: lib.activations.softmax(e.x, 2), ShapeError, "a dimension of rank 2 is needed"),
    Case(
        lambda e: lib.arithmetic.sum([e.v, e.v]), TYPE, "lib.arithmetic.sum|ops.sum|operand must be"
    ),
    Case(lambda e: lib.einsum.einsum("ij;jk", e.x, e.x), VALUE, "einsum"),
)
