"""Mistakes with computations, windows, convolutions, loops and the library."""

import numpy as np

from tests.unit.client.mistakes.cases import TYPE, VALUE, Case
from xla_client import Builder, Computation, ScatterDimensionNumbers, ShapeError, lib, ops

CONV = "NHWC,HWIO->NHWC"


def _no_op(*_: object) -> None:
    return None


COMPUTATIONS = {
    "a Builder for a Computation": Case(
        lambda e: ops.reduce(e.x, 0.0, e.b, 0), TYPE, "computation must be a Computation or a func"
    ),
    "an Op for a Computation": Case(
        lambda e: ops.reduce(e.x, 0.0, e.s, 0), TYPE, r"got %p.*s|got %s\."
    ),
    "a name for a Computation": Case(
        lambda e: ops.reduce(e.x, 0.0, "add", 0), TYPE, r"got 'add' \(str\)"
    ),
    "numpy's function for a Computation": Case(
        lambda e: ops.reduce(e.x, 0.0, np.hypot, 0), TYPE, "for numpy's hypot"
    ),
    "initial value and computation swapped": Case(
        lambda e: ops.reduce(e.x, e.add, 0.0, 0), TYPE, "init_values must be an Op, a number"
    ),
    "a function of one value": Case(
        lambda e: ops.reduce(e.x, 0.0, lambda a: a, 0), TYPE, "must take 2 values, got <lambda>"
    ),
    "a function that gives nothing": Case(
        lambda e: ops.reduce(e.x, 0.0, _no_op, 0), TYPE, "given as computation must return an Op"
    ),
    "a function that gives text": Case(
        lambda e: ops.map(e.x, lambda a: "a"), TYPE, "must return an Op, got result must be"
    ),
    "a reducer that uses a value": Case(
        lambda e: ops.reduce(e.x, 0.0, lambda a, b: a + b * e.s, 0),
        VALUE,
        "a function given as computation can use its arguments and constants, got %s.3",
    ),
    "a comparator that uses a value": Case(
        lambda e: ops.sort(e.x, lambda a, b: (a * e.s).lt(b)), VALUE, "given as comparator can use"
    ),
    "a map that uses a value": Case(
        lambda e: ops.map(e.x, lambda a: a + e.s), VALUE, "a function given as computation can use"
    ),
    "a scatter that uses a value": Case(
        lambda e: ops.scatter(e.v, e.n, e.v, lambda a, b: a + e.s, ScatterDimensionNumbers()),
        VALUE,
        "given as update_computation can use",
    ),
    "a reducer that gives another type": Case(
        lambda e: ops.reduce(e.x, 0.0, lambda a, b: a.lt(b), 0), ShapeError, "reduce"
    ),
    "a reducer that compares with <": Case(
        lambda e: ops.reduce(e.x, 0.0, lambda a, b: a if a < b else b, 0), TYPE, "ops.lt"
    ),
    "a comparator that is a key": Case(
        lambda e: ops.sort(e.x, lambda a: a), TYPE, "given as comparator must take 2 values"
    ),
    "a comparator with <": Case(
        lambda e: ops.sort(e.x, lambda a, b: a < b), TYPE, r"ops.lt\(x, y\)"
    ),
    "a comparator that gives numbers": Case(
        lambda e: ops.sort(e.x, lambda a, b: a - b), ShapeError, "sort"
    ),
    "a dimension that is not there": Case(
        lambda e: ops.reduce(e.x, 0.0, ops.add, 2), ShapeError, "reduce"
    ),
    "a dimension that is text": Case(
        lambda e: ops.reduce(e.x, 0.0, ops.add, "0"), TYPE, "dimensions_to_reduce must be an int"
    ),
    "an initial value of another type": Case(
        lambda e: ops.reduce(e.n, 0.5, ops.add, 0), VALUE, "reduce: .*float 0.5 for s32"
    ),
    "an initial value that is an array": Case(
        lambda e: ops.reduce(e.x, np.zeros(2), ops.add, 0), TYPE, "init_values must be an Op, a n"
    ),
    "too few initial values": Case(
        lambda e: ops.reduce([e.x, e.x], 0.0, ops.add, 0), ShapeError, "as many initial values"
    ),
    "an array for an operand of reduce": Case(
        lambda e: ops.reduce(np.zeros(3), 0.0, ops.add, 0), TYPE, "operands must be an Op or a seq"
    ),
    "a branch alone": Case(
        lambda e: ops.conditional(e.p, lambda: e.x), TYPE, "a branch needs another one"
    ),
    "a conditional of a bool": Case(
        lambda e: ops.conditional(True, lambda: e.x, lambda: e.x), TYPE, "branch_index must be an"
    ),
    "a conditional of numbers": Case(
        lambda e: ops.conditional(e.s, lambda: e.x, lambda: e.x), ShapeError, "conditional"
    ),
    "branches of different shapes": Case(
        lambda e: ops.conditional(e.p, lambda: e.x, lambda: e.v), ShapeError, "conditional"
    ),
    "a branch that takes nothing": Case(
        lambda e: ops.conditional(e.p, lambda: e.x, lambda: e.x, e.x), TYPE, "must take 1 values"
    ),
    "values for branches": Case(
        lambda e: ops.conditional(e.p, e.x, e.v), TYPE, r"branch_computations must be a Comput"
    ),
    "three branches of a pred": Case(
        lambda e: ops.conditional(e.p, [lambda: e.x] * 3), ShapeError, "chooses between 2 branches"
    ),
    "an operand too few": Case(
        lambda e: ops.conditional(e.i, [lambda a: a] * 3, [e.x, e.x]),
        ShapeError,
        "one input per branch, got",
    ),
    "a value used outside its function": Case(
        lambda e: (kept := [], ops.map(e.x, lambda a: kept.append(a) or a), kept[0] + 1.0),
        VALUE,
        "a value of a function can be used in that function only",
    ),
    "a parameter inside a function": Case(
        lambda e: ops.call(lambda a: a + e.b.parameter(9, "f32[]"), e.s),
        VALUE,
        "a parameter belongs to the program",
    ),
    "a loop of a function and a Computation": Case(
        lambda e: ops.while_(lambda a: a.lt(3.0), e.add, e.s), TYPE, "must both be functions or"
    ),
    "a loop without a value": Case(
        lambda e: ops.while_(lambda: e.p, lambda: e.p, []), VALUE, "needs values to carry, got none"
    ),
    "a loop of numbers alone": Case(
        lambda e: ops.while_(lambda a: a.lt(3), lambda a: a + 1, 0),
        TYPE,
        "an operand must be an Op",
    ),
    "a body of another shape": Case(
        lambda e: ops.while_(lambda a: a.sum().lt(3.0), lambda a: a.sum(), e.x),
        ShapeError,
        "the body must give what it takes",
    ),
    "a body of another type": Case(
        lambda e: ops.while_(lambda a: a.lt(3), lambda a: a.astype("f32"), e.i),
        ShapeError,
        r"got \(f32\[\]\) for \(s32\[\]\)",
    ),
    "a condition with <": Case(
        lambda e: ops.while_(lambda a: a < 3, lambda a: a + 1, e.i), TYPE, "ops.lt"
    ),
    "a condition that gives an array": Case(
        lambda e: ops.while_(lambda a: a.lt(3.0), lambda a: a, e.x), ShapeError, "while"
    ),
    "a call with too few operands": Case(lambda e: ops.call(e.add, [e.s]), ShapeError, "call"),
    "a call of an Op": Case(lambda e: ops.call(e.s, [e.s]), TYPE, "computation must be a Comput"),
    "a scan that gives one value": Case(
        lambda e: ops.scan(e.x, 0.0, lambda a, c: c), TYPE, "must return a slice of each result"
    ),
    "a scan of too few values": Case(
        lambda e: ops.scan(e.x, 0.0, lambda a: a), TYPE, "given as step must take 2 values"
    ),
    "bytes that are no module": Case(
        lambda e: Computation.from_serialized(b"abc"), VALUE, "a serialized HloModuleProto"
    ),
    "text for a module": Case(
        lambda e: Computation.from_serialized("HloModule m"), TYPE, "must be bytes"
    ),
    "no module": Case(lambda e: Computation.from_proto(None), TYPE, "must be an HloModuleProto"),
}

WINDOWS = {
    "a padding that is none": Case(
        lambda e: ops.reduce_window(e.x, 0.0, ops.add, (1, 2), (1, 1), "full"), VALUE, "padding"
    ),
    "a padding that is a number": Case(
        lambda e: ops.reduce_window(e.x, 0.0, ops.add, (1, 2), (1, 1), 1), TYPE, "padding must be"
    ),
    "a window of too few dimensions": Case(
        lambda e: ops.reduce_window(e.x, 0.0, ops.add, 2, 1, "same"), ShapeError, "one size and one"
    ),
    "strides of another length": Case(
        lambda e: ops.reduce_window(e.x, 0.0, ops.add, (1, 2), 1, [(0, 0)] * 2),
        ShapeError,
        "window_strides must have one entry per window dimension, got 1 for 2",
    ),
    "a window that is a fraction": Case(
        lambda e: ops.reduce_window(e.x, 0.0, ops.add, (1, 0.5), (1, 1), "same"),
        TYPE,
        "window_dimensions must be an int or a sequence of ints",
    ),
    "a selection that gives numbers": Case(
        lambda e: ops.select_and_scatter(e.x, ops.add, (1, 1), (1, 1), "valid", e.x, 0.0, ops.add),
        ShapeError,
        "select-and-scatter",
    ),
    "dimension numbers without an arrow": Case(
        lambda e: ops.conv_general(e.image, e.kernel, [1, 1], "same", "NHWC"), VALUE, "no '->'"
    ),
    "dimension numbers of one operand": Case(
        lambda e: ops.conv_general(e.image, e.kernel, [1, 1], "same", "NHWC->NHWC"),
        VALUE,
        "dimension_numbers: dimension numbers must be text as",
    ),
    "dimension numbers with another letter": Case(
        lambda e: ops.conv_general(e.image, e.kernel, [1, 1], "same", "NHWC,HWIO->NHWD"),
        VALUE,
        "'NHWD' must have N, C, H and W",
    ),
    "dimension numbers that are a tuple": Case(
        lambda e: ops.conv_general(e.image, e.kernel, [1, 1], "same", ("NHWC", "HWIO", "NHWC")),
        TYPE,
        "dimension_numbers must be ConvolutionDimensionNumbers or text",
    ),
    "the wrong dimension order": Case(
        lambda e: ops.conv(e.image, e.kernel, [1, 1], "same"), ShapeError, "convolution"
    ),
    "one stride of two": Case(
        lambda e: ops.conv_general(e.image, e.kernel, 1, [(1, 1)] * 2, CONV),
        ShapeError,
        "window_strides must have one entry",
    ),
    "pairs of one number": Case(
        lambda e: ops.conv_general(e.image, e.kernel, [1, 1], [1, 1], CONV), TYPE, "padding must be"
    ),
    "groups of features that are text": Case(
        lambda e: ops.conv_general(e.image, e.kernel, [1, 1], "same", CONV, "2"),
        TYPE,
        "feature_group_count must be an int",
    ),
    "window_reversal of numbers": Case(
        lambda e: ops.conv_general_dilated(
            e.image, e.kernel, [1, 1], "same", None, None, CONV, window_reversal=[1, 0]
        ),
        TYPE,
        "window_reversal must be a sequence of bools",
    ),
}

LIBRARY = {
    "a loop with a count that is an Op": Case(
        lambda e: lib.loops.for_each_index(e.i, lambda i, v: v, e.x), TYPE, "count must be an int"
    ),
    "a negative count": Case(
        lambda e: lib.loops.for_each_index(-1, lambda i, v: v, e.x), VALUE, "count from 0, got -1"
    ),
    "a body that is a Computation": Case(
        lambda e: lib.loops.for_each_index(3, e.add, e.x), TYPE, "body must be a function"
    ),
    "a body without its index": Case(
        lambda e: lib.loops.for_each_index(3, lambda v: v, e.x), TYPE, "must take 2 values"
    ),
    "a loop over an array": Case(
        lambda e: lib.loops.while_loop(lambda v: e.p, lambda v: v, np.zeros(3)), TYPE, "initial"
    ),
    "a loop over nothing": Case(
        lambda e: lib.loops.while_loop(lambda v: e.p, lambda v: v, []), VALUE, "got none"
    ),
    "a body that gives fewer values": Case(
        lambda e: lib.loops.while_loop(lambda v: e.p, lambda v: v[:1], [e.x, e.i]),
        ShapeError,
        "the body must give what it takes",
    ),
    "an axis of softmax": Case(
        lambda e: lib.activations.softmax(e.x, 2), ShapeError, "a dimension of rank 2 is needed"
    ),
    "an axis of softmax that is text": Case(
        lambda e: lib.activations.softmax(e.x, "rows"), TYPE, "lib.activations.softmax: dimension"
    ),
    "a sum of a list": Case(
        lambda e: lib.arithmetic.sum([e.v, e.v]), TYPE, "lib.arithmetic.sum|ops.sum|operand must be"
    ),
    "a key that is an int": Case(
        lambda e: lib.prng.uniform(0, "f32[3]"), TYPE, "lib.prng.uniform: key must be an Op"
    ),
    "a seed without a builder": Case(
        lambda e: lib.prng.key(42), TYPE, "missing a required argument: 'seed'"
    ),
    "subscripts that are none": Case(
        lambda e: lib.einsum.einsum("ij;jk", e.x, e.x), VALUE, "einsum"
    ),
    "operands before subscripts": Case(
        lambda e: lib.einsum.einsum(e.x, "ij->ji"), TYPE, "subscripts must be text"
    ),
    "a pool with one size": Case(
        lambda e: lib.pooling.max_pool(e.x, 2, 2), ShapeError, "one size and one stride"
    ),
    "a type for zeros": Case(
        lambda e: lib.constants.zeros(e.b, "f32"), VALUE, "lib.constants.zeros: shape must be a sh"
    ),
    "a value for a builder": Case(
        lambda e: lib.constants.zero(e.x, "f32"), TYPE, "builder must be a Builder"
    ),
    "a module that is not there": Case(
        lambda e: Builder(None), TYPE, r"name must be text, got None"
    ),
}
