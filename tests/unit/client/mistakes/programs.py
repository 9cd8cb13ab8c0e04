"""Mistakes in shapes, types, values, operands and functions of programs."""

import ml_dtypes
import numpy as np

from tests.unit.client.mistakes.cases import ARRAY, TYPE, VALUE, Case
from xla_client import Builder, DotDimensionNumbers, Literal, Shape, ShapeError, ops

SHAPES = (
    Case(lambda e: e.b.parameter(9), TYPE, "missing a required argument: 'shape'"),
    Case(lambda e: e.b.parameter("f32[3]", 9), TYPE, r"number must be an int, got 'f32\[3\]'"),
    Case(lambda e: e.b.parameter("x", "f32[3]"), TYPE, "Builder.parameter: number must be an int"),
    Case(lambda e: e.b.parameter(0, "f32[3]"), VALUE, "parameter number must be free"),
    Case(lambda e: e.b.parameter(-1, "f32[3]"), VALUE, "got -1 for 'p-1'"),
    Case(lambda e: e.b.parameter(True, "f32[3]"), TYPE, r"True \(bool\)"),
    Case(lambda e: e.b.parameter(9, "f32[3]", 5), TYPE, r"name must be text, got 5 \(int\)"),
    Case(
        lambda e: e.b.parameter(9, "float[3]"), VALUE, r"shape must be a shape as 'f32\[2,3\]', got"
    ),
    Case(lambda e: e.b.parameter(9, "f32"), VALUE, r"got 'f32': '\[' is needed"),
    Case(lambda e: e.b.parameter(9, "f32(3)"), VALUE, r"got 'f32\(3\)'"),
    Case(lambda e: e.b.parameter(9, "f32[-1]"), VALUE, "a dimension"),
    Case(lambda e: e.b.parameter(9, ""), VALUE, "got ''"),
    Case(lambda e: e.b.parameter(9, (2, 3)), TYPE, r"say its element type too, got \(2, 3\)"),
    Case(lambda e: e.b.parameter(9, 3), TYPE, r"shape must be a Shape.* 3"),
    Case(lambda e: e.b.parameter(9, None), TYPE, r"got None \(NoneType\)"),
    Case(lambda e: e.b.parameter(9, np.float32), TYPE, "shape must be a Shape or text"),
    Case(lambda e: e.b.parameter(9, e.x), TYPE, "its shape is shape=value"),
    Case(lambda e: e.b.parameter(9, np.array(["a"])), VALUE, "no XLA element type stores numpy's"),
    Case(lambda e: Shape((3, 4), "f32"), TYPE, r'Shape.array\("f32", '),
    Case(lambda e: Shape.array((3, 4), np.int32), TYPE, r'Shape.array\("s32", \(3, 4\)\)'),
    Case(lambda e: Shape("f32[3]"), VALUE, "Shape.parse takes text"),
    Case(lambda e: Shape.array("f32", (2.5,)), TYPE, "dimensions must be an int or a sequence"),
    Case(lambda e: Shape.array("f32", (-1,)), VALUE, "must not be negative"),
    Case(lambda e: Shape.array("f32", (e.i,)), TYPE, "dimensions must be"),
    Case(lambda e: Shape.array("float", 3), VALUE, "near it are float64"),
    Case(lambda e: Shape.array("i32", 3), VALUE, "near it are int32"),
    Case(lambda e: Shape.array("tuple", 3), VALUE, "an array needs elements, got type tuple"),
    Case(lambda e: Shape.scalar(11), TYPE, "element type stands before"),
    Case(lambda e: Shape.parse((2, 3)), TYPE, "parsed from text"),
    Case(lambda e: e.b.infeed(3), TYPE, "Builder.infeed: shape must be"),
    Case(lambda e: e.b.iota("s32", 0), VALUE, "Builder.iota: shape must"),
    Case(lambda e: Builder(""), VALUE, "a computation needs a name"),
    Case(lambda e: Builder(3), TYPE, r"name must be text, got 3 \(int\)"),
    Case(lambda e: e.b.build(e.other), VALUE, "of builder 'other' in builder 'program'"),
    Case(lambda e: e.b.build("x"), TYPE, "Builder.build: root must be an Op"),
    Case(lambda e: (b := Builder("gap")).build(b.parameter(1, "f32[]")), VALUE, r"got \[1\]"),
    Case(lambda e: Builder("none").build(), VALUE, "needs an instruction"),
)

TYPES = (
    Case(lambda e: ops.convert_element_type(e.x, "flaot32"), VALUE, "near it are float32"),
    Case(
        lambda e: ops.convert_element_type(e.x, 1.0), TYPE, "element_type: an element type must be"
    ),
    Case(lambda e: e.x.astype(None), TYPE, "got None"),
    Case(
        lambda e: e.x.astype(np.longdouble), VALUE, "no XLA element type stores numpy's longdouble"
    ),
    Case(lambda e: e.x.astype(np.floating), VALUE, "numpy's floating"),
    Case(lambda e: e.x.astype(np.str_), VALUE, "stores numpy's str_"),
    Case(lambda e: e.x.astype(e.x.shape), TYPE, r"got Shape\("),
)

VALUES = (
    Case(lambda e: e.b.constant("1.5"), TYPE, "a value must be a number"),
    Case(lambda e: e.b.constant(None), TYPE, "a value must be a number"),
    Case(lambda e: e.b.constant(e.x), TYPE, "an Op has no value before"),
    Case(lambda e: e.b.constant([e.s, 1.0]), TYPE, "Builder.constant: an Op has"),
    Case(lambda e: e.b.constant([[1], [2, 3]]), VALUE, "array of numbers, got li"),
    Case(lambda e: e.b.constant({"a": 1}), TYPE, r"got \{'a': 1\} \(dict\)"),
    Case(lambda e: e.b.constant(1 << 40), VALUE, "an int without a type must fit s32"),
    Case(lambda e: e.b.constant([1 << 70]), VALUE, "must fit s32"),
    Case(lambda e: e.b.constant(np.array(["2024-01-01"], "M8[D]")), VALUE, "datetime64"),
    Case(lambda e: e.b.constant(np.array([object()])), VALUE, "stores numpy's object"),
    Case(lambda e: Literal.from_numpy("x"), VALUE, "no XLA element type stores numpy's"),
    Case(lambda e: e.n + 1.5, VALUE, "float 1.5 for s32"),
    Case(lambda e: e.p & 1.0, VALUE, "float 1.0 for pred"),
    Case(lambda e: e.x * True, VALUE, "bool True for f32"),
    Case(lambda e: e.x + 1j, VALUE, "complex 1j for f32"),
    Case(lambda e: e.n + (1 << 40), VALUE, "1099511627776 for s32"),
    Case(lambda e: e.n.astype("u8") + -1, VALUE, "got -1 for u8"),
    Case(lambda e: e.v + ARRAY, TYPE, "builder.constant makes an Op"),
    Case(lambda e: ARRAY - e.v, TYPE, "`-` takes Ops and numbers"),
    Case(lambda e: e.v * [1, 2, 3], TYPE, r"got .* and \[1, 2, 3\] \(list"),
    Case(lambda e: e.s + "1", TYPE, r"'1' \(str\)"),
    Case(lambda e: e.s / None, TYPE, r"None \(NoneType\)"),
    Case(lambda e: e.x @ np.zeros((3, 2)), TYPE, "`@` takes Ops"),
    Case(lambda e: np.zeros((3, 2)) @ e.x, TYPE, "`@` takes Ops"),
    Case(lambda e: ops.add(1, 2), TYPE, "an operand must be an Op"),
    Case(lambda e: ops.exp(ARRAY), TYPE, "ops.exp: operand must be an Op"),
    Case(lambda e: ops.neg(1.0), TYPE, "operand must be an Op, got 1.0"),
    Case(lambda e: ops.sqrt("x"), TYPE, "ops.sqrt: operand"),
    Case(lambda e: ops.max(e.v, ARRAY), TYPE, "ops.max: rhs must be an Op or a number"),
    Case(lambda e: e.v + e.other, VALUE, "of builder 'other' in builder 'program'"),
    Case(lambda e: e.x + e.v, ShapeError, "need broadcast_dimensions"),
    Case(lambda e: e.v + e.x[0, :2], ShapeError, "equal size or size 1"),
    Case(lambda e: e.n + ml_dtypes.bfloat16(1.5), VALUE, "for s32"),
    Case(
        lambda e: ops.add(e.x, e.v, "1"), TYPE, "broadcast_dimensions must be an int or a sequence"
    ),
    Case(lambda e: ops.compare(e.x, e.x, "<"), VALUE, "direction must be a ComparisonDirection"),
    Case(lambda e: ops.compare(e.x, e.x, ops.lt), TYPE, "which are EQ, NE"),
)

OPS = (
    Case(lambda e: e.i == 0, TYPE, "ops.eq"),
    Case(lambda e: e.i == None, TYPE, "ops.eq"),  # noqa: E711
    Case(lambda e: e.x >= 1, TYPE, r"ops.ge\(x, y\)"),
    Case(lambda e: max(e.s, e.s), TYPE, "ops.min, ops.max"),
    Case(lambda e: sorted([e.s, e.s]), TYPE, "cannot be answered while the program"),
    Case(lambda e: 1 if e.p else 2, TYPE, "%p.5 has no truth value"),
    Case(lambda e: e.p and e.p, TYPE, "use ops.conditional, ops.select"),
    Case(lambda e: 0 < e.s < 1, TYPE, "cannot be answered"),
    Case(lambda e: 1.0 in e.v, TYPE, "`in` cannot be answered"),
    Case(lambda e: np.asarray(e.x), TYPE, "an Op has no value before its"),
    Case(lambda e: np.sum(e.x, axis=0), TYPE, "sum of an Op takes dimensions, got"),
    Case(lambda e: np.array([e.s, e.s]), TYPE, "for a numpy array"),
    Case(lambda e: float(e.s), TYPE, "for a float"),
    Case(lambda e: int(e.i), TYPE, "for an int"),
    Case(lambda e: complex(e.s), TYPE, "for a complex number"),
    Case(lambda e: range(e.i), TYPE, "sizes and dimension numbers"),
    Case(lambda e: [1, 2][e.i], TYPE, "has no value before"),
    Case(lambda e: len(e.v), TYPE, "sizes are op.shape.dimensions"),
    Case(lambda e: list(e.v), TYPE, "loops over elements"),
    Case(lambda e: (lambda a, b: a)(*e.v), TYPE, "only a tuple can be"),
    Case(lambda e: e.v.__setitem__(0, 1.0), TYPE, "lib.slicing.update_slice give a new one"),
    Case(lambda e: round(e.s, 2), TYPE, "takes no digits, got 2"),
    Case(lambda e: e.x[2], ShapeError, "got 2 of dim 0 = 2"),
    Case(lambda e: e.x[0, 0, 0], ShapeError, "got 3 indices for"),
    Case(lambda e: e.s[0], ShapeError, "got 1 indices for f32"),
    Case(lambda e: e.x[..., ...], ShapeError, r"one \.\.\."),
    Case(lambda e: e.x[0.5], TYPE, "an index must be an int, a slice"),
    Case(lambda e: e.x["a"], TYPE, "got 'a'"),
    Case(lambda e: e.x[True], TYPE, r"True \(bool\)"),
    Case(lambda e: e.x[e.x.gt(0)], TYPE, "ops.select chooses by pred"),
    Case(lambda e: e.v[[True, False, True]], TYPE, "integer type"),
    Case(lambda e: e.v[[0, 3]], ShapeError, "dim 0 = 3"),
    Case(lambda e: e.v[e.i : 3], TYPE, "ops.dynamic_slice takes a start"),
    Case(lambda e: e.v[0:1.5], TYPE, "bounds of a slice must be ints"),
    Case(lambda e: e.v[::0], ShapeError, "step of a slice must not be 0"),
    Case(lambda e: e.x[e.n, e.n], ShapeError, "ops.gather takes more"),
    Case(lambda e: e.pair[2], ShapeError, "tuple of 2 is needed"),
    Case(lambda e: e.pair[0:1], TYPE, "taken by an int"),
    Case(lambda e: e.pair + 1, ShapeError, "operands must be arrays"),
    Case(lambda e: e.x.reshape(-1, -1), ShapeError, "one size may be -1"),
    Case(lambda e: e.x.reshape(4, -1), ShapeError, "6 elements"),
    Case(lambda e: e.x.reshape(1.5, 4), TYPE, "new_sizes must be an int"),
    Case(lambda e: e.x.sum(2), ShapeError, "a dimension of rank 2"),
    Case(lambda e: e.x.sum(0.5), TYPE, "dimensions must be an int"),
    Case(
        lambda e: ops.transpose(e.x, axes=(1, 0)), TYPE, r"parameters are \(operand, permutation\)"
    ),
    Case(lambda e: e.n.mean(), VALUE, "needs a floating or complex type"),
    Case(lambda e: e.x.any(), VALUE, "any needs pred elements"),
    Case(lambda e: ops.exp(e.x, 1), TYPE, "too many positional arguments"),
)

ASSORTED = (
    Case(
        lambda e: ops.dot_general(e.x, e.x, [1, 1]), TYPE, "dimension_numbers must be DotDimension"
    ),
    Case(
        lambda e: ops.dot_general(e.x, e.x, DotDimensionNumbers("1", (0,))),
        TYPE,
        "dimension_numbers.lhs_contracting_dimensions must be",
    ),
    Case(lambda e: ops.dot(e.x, e.v, precision="best"), VALUE, "precision must be 'default'"),
    Case(lambda e: ops.dot(e.x, e.v, precision=0.5), TYPE, "ops.dot: precision must be"),
    Case(lambda e: e.x @ e.s, ShapeError, "must not be scalars"),
    Case(lambda e: ops.gather(e.x, e.n, 0, [1, 3]), TYPE, "must be GatherDimensionNumbers"),
    Case(lambda e: ops.fft(e.z, "dct", [3]), VALUE, "which are FFT, IFFT, RFFT, IRFFT, got 'dct'"),
    Case(
        lambda e: ops.rng_bit_generator(9, e.n, "u32[3]"), VALUE, "algorithm must be a RandomAlgo"
    ),
    Case(lambda e: ops.rng_uniform(0.0, 1.0, "f32[3]"), TYPE, "an operand must be an Op"),
    Case(lambda e: ops.rng_uniform(0.0, 1.0, "f32[3]", e.x), TYPE, "builder must be a Builder"),
    Case(lambda e: ops.cholesky(e.x, 1), TYPE, r"lower must be True or False, got 1 \(int\)"),
    Case(
        lambda e: ops.batch_norm_training(e.x, e.v, e.v, "1e-5", 1), TYPE, "epsilon must be a numb"
    ),
    Case(lambda e: ops.batch_norm_training(e.x, e.v, e.v, e.s, 1), TYPE, "known while the program"),
    Case(lambda e: ops.top_k(e.v, e.i), TYPE, "k must be an int"),
    Case(lambda e: ops.concat_in_dim([e.v, ARRAY], 0), TYPE, r"operands\[1\] must be an Op"),
    Case(lambda e: ops.concat_in_dim([], 0), TYPE, "an operand must be an Op"),
    Case(lambda e: ops.pad(e.v, 0.0, [1]), TYPE, "padding_config must be PaddingConfig or"),
    Case(lambda e: ops.pad(e.n, 0.5, [(0, 1)]), VALUE, "float 0.5 for s32"),
    Case(lambda e: ops.dynamic_slice(e.v, [0.5], [1]), VALUE, "0.5 for s32"),
    Case(lambda e: ops.select(e.x, 1.0, 2), ShapeError, "select"),
    Case(lambda e: ops.outfeed(e.x, None, 5), TYPE, "config must be bytes or text"),
    Case(
        lambda e: ops.cross_replica_sum(e.x, [0, 1]), TYPE, "replica_groups must be a sequence of"
    ),
    Case(lambda e: ops.collective_permute(e.x, [0, 1]), TYPE, "source_target_pairs must be"),
    Case(lambda e: ops.roll(e.v, 0.5, 0), TYPE, "shift must be an Op or an"),
    Case(lambda e: ops.roll(e.v, 1, 1), ShapeError, "a dimension of rank 1"),
    Case(lambda e: ops.tuple(ARRAY), TYPE, "ops.tuple: elements must be an Op"),
    Case(lambda e: ops.tuple([]), TYPE, "an operand must be an Op"),
)
