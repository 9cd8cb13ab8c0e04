"""Mistakes in shapes, types, values, operands and functions of programs."""

import ml_dtypes
import numpy as np

from tests.unit.client.mistakes.cases import ARRAY, TYPE, VALUE, Case
from xla_client import (
    Builder,
    DotDimensionNumbers,
    ElementType,
    GatherDimensionNumbers,
    Literal,
    Shape,
    ShapeError,
    ops,
)

SHAPES = {
    "a parameter without a shape": Case(
        lambda e: e.b.parameter(9), TYPE, "missing a required argument: 'shape'"
    ),
    "number and shape swapped": Case(
        lambda e: e.b.parameter("f32[3]", 9), TYPE, r"number must be an int, got 'f32\[3\]'"
    ),
    "a name for a number": Case(
        lambda e: e.b.parameter("x", "f32[3]"), TYPE, "Builder.parameter: number must be an int"
    ),
    "a number that is taken": Case(
        lambda e: e.b.parameter(0, "f32[3]"), VALUE, "parameter number must be free"
    ),
    "a negative number": Case(lambda e: e.b.parameter(-1, "f32[3]"), VALUE, "got -1 for 'p-1'"),
    "a bool for a number": Case(lambda e: e.b.parameter(True, "f32[3]"), TYPE, r"True \(bool\)"),
    "a name that is no text": Case(
        lambda e: e.b.parameter(9, "f32[3]", 5), TYPE, r"name must be text, got 5 \(int\)"
    ),
    "text that is no shape": Case(
        lambda e: e.b.parameter(9, "float[3]"), VALUE, r"shape must be a shape as 'f32\[2,3\]', got"
    ),
    "a shape without its brackets": Case(
        lambda e: e.b.parameter(9, "f32"), VALUE, r"got 'f32': '\[' is needed"
    ),
    "a shape with round brackets": Case(
        lambda e: e.b.parameter(9, "f32(3)"), VALUE, r"got 'f32\(3\)'"
    ),
    "a negative size in text": Case(lambda e: e.b.parameter(9, "f32[-1]"), VALUE, "a dimension"),
    "an empty shape": Case(lambda e: e.b.parameter(9, ""), VALUE, "got ''"),
    "sizes without a type": Case(
        lambda e: e.b.parameter(9, (2, 3)), TYPE, r"say its element type too, got \(2, 3\)"
    ),
    "one size for a shape": Case(lambda e: e.b.parameter(9, 3), TYPE, r"shape must be a Shape.* 3"),
    "None for a shape": Case(lambda e: e.b.parameter(9, None), TYPE, r"got None \(NoneType\)"),
    "a numpy type for a shape": Case(
        lambda e: e.b.parameter(9, np.float32), TYPE, "shape must be a Shape or text"
    ),
    "an Op for a shape": Case(lambda e: e.b.parameter(9, e.x), TYPE, "its shape is shape=value"),
    "an array of text for a shape": Case(
        lambda e: e.b.parameter(9, np.array(["a"])), VALUE, "no XLA element type stores numpy's"
    ),
    "type and sizes swapped": Case(lambda e: Shape((3, 4), "f32"), TYPE, r'Shape.array\("f32", '),
    "swapped in Shape.array": Case(
        lambda e: Shape.array((3, 4), np.int32), TYPE, r'Shape.array\("s32", \(3, 4\)\)'
    ),
    "text for the constructor": Case(lambda e: Shape("f32[3]"), VALUE, "Shape.parse takes text"),
    "a fraction for a size": Case(
        lambda e: Shape.array("f32", (2.5,)), TYPE, "dimensions must be an int or a sequence"
    ),
    "a negative size": Case(lambda e: Shape.array("f32", (-1,)), VALUE, "must not be negative"),
    "an Op for a size": Case(lambda e: Shape.array("f32", (e.i,)), TYPE, "dimensions must be"),
    "a type that is none": Case(lambda e: Shape.array("float", 3), VALUE, "near it are float64"),
    "MLIR's name of a type": Case(lambda e: Shape.array("i32", 3), VALUE, "near it are int32"),
    "a tuple's type for an array": Case(
        lambda e: Shape.array("tuple", 3), VALUE, "an array needs elements, got type tuple"
    ),
    "a number for a type": Case(lambda e: Shape.scalar(11), TYPE, "element type stands before"),
    "parse of a tuple": Case(lambda e: Shape.parse((2, 3)), TYPE, "parsed from text"),
    "infeed without a shape": Case(lambda e: e.b.infeed(3), TYPE, "Builder.infeed: shape must be"),
    "iota of a type alone": Case(lambda e: e.b.iota("s32", 0), VALUE, "Builder.iota: shape must"),
    "iota without a dimension": Case(
        lambda e: e.b.iota("s32[3]"), TYPE, "missing a required argument: 'dimension'"
    ),
    "iota along a dimension that is not there": Case(
        lambda e: e.b.iota("s32[3]", 1), ShapeError, "iota"
    ),
    "an empty name of a program": Case(lambda e: Builder(""), VALUE, "a computation needs a name"),
    "a number for a name": Case(lambda e: Builder(3), TYPE, r"name must be text, got 3 \(int\)"),
    "a root of another builder": Case(
        lambda e: e.b.build(e.other), VALUE, "of builder 'other' in builder 'program'"
    ),
    "text for a root": Case(lambda e: e.b.build("x"), TYPE, "Builder.build: root must be an Op"),
    "a gap in the parameters": Case(
        lambda e: (b := Builder("gap")).build(b.parameter(1, "f32[]")), VALUE, r"got \[1\]"
    ),
    "an empty program": Case(lambda e: Builder("none").build(), VALUE, "needs an instruction"),
}

TYPES = {
    "a type that is misspelt": Case(
        lambda e: ops.convert_element_type(e.x, "flaot32"), VALUE, "near it are float32"
    ),
    "a value for a type": Case(
        lambda e: ops.convert_element_type(e.x, 1.0), TYPE, "element_type: an element type must be"
    ),
    "None for a type": Case(lambda e: e.x.astype(None), TYPE, "got None"),
    "a numpy type XLA has not": Case(
        lambda e: e.x.astype(np.longdouble), VALUE, "no XLA element type stores numpy's longdouble"
    ),
    "an abstract numpy type": Case(lambda e: e.x.astype(np.floating), VALUE, "numpy's floating"),
    "text as a numpy type": Case(lambda e: e.x.astype(np.str_), VALUE, "stores numpy's str_"),
    "a shape for a type": Case(lambda e: e.x.astype(e.x.shape), TYPE, r"got Shape\("),
    "a type that cannot be converted to": Case(
        lambda e: e.x.astype("token"), ShapeError, "convert"
    ),
    "bits that do not fit": Case(
        lambda e: ops.bitcast_convert_type(e.v, "f64"), ShapeError, "bitcast-convert"
    ),
    "a preferred type that is none": Case(
        lambda e: ops.dot(e.x, e.v, preferred_element_type=32), TYPE, "preferred_element_type: "
    ),
    "bits for a type of reduce_precision": Case(
        lambda e: ops.reduce_precision(e.x, "f16", 10), TYPE, "exponent_bits must be an int"
    ),
}

VALUES = {
    "text for a constant": Case(lambda e: e.b.constant("1.5"), TYPE, "a value must be a number"),
    "None for a constant": Case(lambda e: e.b.constant(None), TYPE, "a value must be a number"),
    "an Op for a constant": Case(lambda e: e.b.constant(e.x), TYPE, "an Op has no value before"),
    "Ops in a list": Case(lambda e: e.b.constant([e.s, 1.0]), TYPE, "Builder.constant: an Op has"),
    "a ragged list": Case(lambda e: e.b.constant([[1], [2, 3]]), VALUE, "array of numbers, got li"),
    "a dictionary": Case(lambda e: e.b.constant({"a": 1}), TYPE, r"got \{'a': 1\} \(dict\)"),
    "an int beyond 32 bits": Case(
        lambda e: e.b.constant(1 << 40), VALUE, "an int without a type must fit s32"
    ),
    "an int beyond 64 bits": Case(lambda e: e.b.constant([1 << 70]), VALUE, "must fit s32"),
    "an array of dates": Case(
        lambda e: e.b.constant(np.array(["2024-01-01"], "M8[D]")), VALUE, "datetime64"
    ),
    "an array of objects": Case(
        lambda e: e.b.constant(np.array([object()])), VALUE, "stores numpy's object"
    ),
    "a literal that is no array": Case(
        lambda e: Literal.from_numpy("x"), VALUE, "no XLA element type stores numpy's"
    ),
    "a fraction beside integers": Case(lambda e: e.n + 1.5, VALUE, "float 1.5 for s32"),
    "a fraction beside a pred": Case(lambda e: e.p & 1.0, VALUE, "float 1.0 for pred"),
    "a bool beside numbers": Case(lambda e: e.x * True, VALUE, "bool True for f32"),
    "a complex number beside real ones": Case(lambda e: e.x + 1j, VALUE, "complex 1j for f32"),
    "a number too large": Case(lambda e: e.n + (1 << 40), VALUE, "1099511627776 for s32"),
    "a negative number beside unsigned ones": Case(
        lambda e: e.n.astype("u8") + -1, VALUE, "got -1 for u8"
    ),
    "an array beside an Op": Case(lambda e: e.v + ARRAY, TYPE, "builder.constant makes an Op"),
    "an array before an Op": Case(lambda e: ARRAY - e.v, TYPE, "`-` takes Ops and numbers"),
    "a list beside an Op": Case(lambda e: e.v * [1, 2, 3], TYPE, r"got .* and \[1, 2, 3\] \(list"),
    "text beside an Op": Case(lambda e: e.s + "1", TYPE, r"'1' \(str\)"),
    "None beside an Op": Case(lambda e: e.s / None, TYPE, r"None \(NoneType\)"),
    "a product with an array": Case(lambda e: e.x @ np.zeros((3, 2)), TYPE, "`@` takes Ops"),
    "a product of an array": Case(lambda e: np.zeros((3, 2)) @ e.x, TYPE, "`@` takes Ops"),
    "a function of numbers alone": Case(lambda e: ops.add(1, 2), TYPE, "an operand must be an Op"),
    "a function of an array": Case(
        lambda e: ops.exp(ARRAY), TYPE, "ops.exp: operand must be an Op"
    ),
    "a function of a number": Case(lambda e: ops.neg(1.0), TYPE, "operand must be an Op, got 1.0"),
    "a function of text": Case(lambda e: ops.sqrt("x"), TYPE, "ops.sqrt: operand"),
    "a second operand that is an array": Case(
        lambda e: ops.max(e.v, ARRAY), TYPE, "ops.max: rhs must be an Op or a number"
    ),
    "a value of another builder": Case(
        lambda e: e.v + e.other, VALUE, "of builder 'other' in builder 'program'"
    ),
    "different element types": Case(lambda e: e.x + e.i, ShapeError, "add"),
    "different ranks": Case(lambda e: e.x + e.v, ShapeError, "need broadcast_dimensions"),
    "different sizes": Case(lambda e: e.v + e.x[0, :2], ShapeError, "equal size or size 1"),
    "a scalar type of ml_dtypes beside integers": Case(
        lambda e: e.n + ml_dtypes.bfloat16(1.5), VALUE, "for s32"
    ),
    "unknown broadcast dimensions": Case(
        lambda e: ops.add(e.x, e.v, "1"), TYPE, "broadcast_dimensions must be an int or a sequence"
    ),
    "a logarithm of integers": Case(lambda e: ops.log(e.n), ShapeError, "log"),
    "not of a float": Case(lambda e: ~e.x, ShapeError, "not"),
    "shift of a float": Case(lambda e: e.x << 1, ShapeError, "shift-left"),
    "and of floats": Case(lambda e: e.x & e.x, ShapeError, "and"),
    "order of complex numbers": Case(lambda e: e.z.lt(0), ShapeError, "compare"),
    "a direction that is none": Case(
        lambda e: ops.compare(e.x, e.x, "<"), VALUE, "direction must be a ComparisonDirection"
    ),
    "a direction that is a function": Case(
        lambda e: ops.compare(e.x, e.x, ops.lt), TYPE, "which are EQ, NE"
    ),
}

OPS = {
    "== of Ops": Case(lambda e: e.x == e.v, TYPE, r"ops.eq\(x, y\) or x.eq\(y\)"),
    "!= of Ops": Case(lambda e: e.x != e.x, TYPE, r"ops.ne\(x, y\) or x.ne\(y\)"),
    "== of an Op and a number": Case(lambda e: e.i == 0, TYPE, "ops.eq"),
    "== of an Op and None": Case(lambda e: e.i == None, TYPE, "ops.eq"),  # noqa: E711
    "< of Ops": Case(lambda e: e.x < 1, TYPE, r"ops.lt\(x, y\)"),
    ">= of a number": Case(lambda e: e.x >= 1, TYPE, r"ops.ge\(x, y\)"),
    "Python's max of Ops": Case(lambda e: max(e.s, e.s), TYPE, "ops.min, ops.max"),
    "sorted": Case(lambda e: sorted([e.s, e.s]), TYPE, "cannot be answered while the program"),
    "an Op as a condition": Case(lambda e: 1 if e.p else 2, TYPE, "%p.5 has no truth value"),
    "and of Ops": Case(lambda e: e.p and e.p, TYPE, "use ops.conditional, ops.select"),
    "a chained comparison": Case(lambda e: 0 < e.s < 1, TYPE, "cannot be answered"),
    "an Op in an Op": Case(lambda e: 1.0 in e.v, TYPE, "`in` cannot be answered"),
    "numpy of an Op": Case(lambda e: np.asarray(e.x), TYPE, "an Op has no value before its"),
    "a numpy function of an Op": Case(
        lambda e: np.sum(e.x, axis=0), TYPE, "sum of an Op takes dimensions, got"
    ),
    "a numpy array of Ops": Case(lambda e: np.array([e.s, e.s]), TYPE, "for a numpy array"),
    "float of an Op": Case(lambda e: float(e.s), TYPE, "for a float"),
    "int of an Op": Case(lambda e: int(e.i), TYPE, "for an int"),
    "complex of an Op": Case(lambda e: complex(e.s), TYPE, "for a complex number"),
    "range of an Op": Case(lambda e: range(e.i), TYPE, "sizes and dimension numbers"),
    "an Op as an index of a list": Case(lambda e: [1, 2][e.i], TYPE, "has no value before"),
    "len of an Op": Case(lambda e: len(e.v), TYPE, "sizes are op.shape.dimensions"),
    "iteration over an Op": Case(lambda e: list(e.v), TYPE, "loops over elements"),
    "unpacking an array": Case(lambda e: (lambda a, b: a)(*e.v), TYPE, "only a tuple can be"),
    "assignment to elements": Case(
        lambda e: e.v.__setitem__(0, 1.0), TYPE, "lib.slicing.update_slice give a new one"
    ),
    "round with digits": Case(lambda e: round(e.s, 2), TYPE, "takes no digits, got 2"),
    "an index outside": Case(lambda e: e.x[2], ShapeError, "got 2 of dim 0 = 2"),
    "too many indices": Case(lambda e: e.x[0, 0, 0], ShapeError, "got 3 indices for"),
    "an index of a scalar": Case(lambda e: e.s[0], ShapeError, "got 1 indices for f32"),
    "two ellipses": Case(lambda e: e.x[..., ...], ShapeError, r"one \.\.\."),
    "a fraction for an index": Case(lambda e: e.x[0.5], TYPE, "an index must be an int, a slice"),
    "text for an index": Case(lambda e: e.x["a"], TYPE, "got 'a'"),
    "a bool for an index": Case(lambda e: e.x[True], TYPE, r"True \(bool\)"),
    "a pred for an index": Case(lambda e: e.x[e.x.gt(0)], TYPE, "ops.select chooses by pred"),
    "a list of bools for an index": Case(lambda e: e.v[[True, False, True]], TYPE, "integer type"),
    "a list of indices outside": Case(lambda e: e.v[[0, 3]], ShapeError, "dim 0 = 3"),
    "an Op for a bound": Case(lambda e: e.v[e.i : 3], TYPE, "ops.dynamic_slice takes a start"),
    "a fraction for a bound": Case(lambda e: e.v[0:1.5], TYPE, "bounds of a slice must be ints"),
    "a step of zero": Case(lambda e: e.v[::0], ShapeError, "step of a slice must not be 0"),
    "two arrays of indices": Case(lambda e: e.x[e.n, e.n], ShapeError, "ops.gather takes more"),
    "an element outside a tuple": Case(lambda e: e.pair[2], ShapeError, "tuple of 2 is needed"),
    "a slice of a tuple": Case(lambda e: e.pair[0:1], TYPE, "taken by an int"),
    "arithmetic with a tuple": Case(lambda e: e.pair + 1, ShapeError, "operands must be arrays"),
    "a negative element": Case(
        lambda e: ops.get_tuple_element(e.x, 0), ShapeError, "get-tuple-element"
    ),
    "a reshape to another count": Case(lambda e: e.x.reshape(4), ShapeError, "reshape"),
    "two sizes to be found": Case(lambda e: e.x.reshape(-1, -1), ShapeError, "one size may be -1"),
    "a size that cannot be found": Case(lambda e: e.x.reshape(4, -1), ShapeError, "6 elements"),
    "a fraction in a reshape": Case(
        lambda e: e.x.reshape(1.5, 4), TYPE, "new_sizes must be an int"
    ),
    "an axis outside": Case(lambda e: e.x.sum(2), ShapeError, "a dimension of rank 2"),
    "a fraction for an axis": Case(lambda e: e.x.sum(0.5), TYPE, "dimensions must be an int"),
    "numpy's name of a parameter": Case(
        lambda e: ops.transpose(e.x, axes=(1, 0)), TYPE, r"parameters are \(operand, permutation\)"
    ),
    "a mean of integers": Case(lambda e: e.n.mean(), VALUE, "needs a floating or complex type"),
    "any of numbers": Case(lambda e: e.x.any(), VALUE, "any needs pred elements"),
    "a transposition of too few": Case(lambda e: e.x.transpose(0), ShapeError, "transpose"),
    "too many arguments": Case(lambda e: ops.exp(e.x, 1), TYPE, "too many positional arguments"),
}

ASSORTED = {
    "dimension numbers that are none": Case(
        lambda e: ops.dot_general(e.x, e.x, [1, 1]), TYPE, "dimension_numbers must be DotDimension"
    ),
    "an int in dimension numbers": Case(
        lambda e: ops.dot_general(e.x, e.x, DotDimensionNumbers("1", (0,))),
        TYPE,
        "dimension_numbers.lhs_contracting_dimensions must be",
    ),
    "a precision that is none": Case(
        lambda e: ops.dot(e.x, e.v, precision="best"), VALUE, "precision must be 'default'"
    ),
    "a precision that is a fraction": Case(
        lambda e: ops.dot(e.x, e.v, precision=0.5), TYPE, "ops.dot: precision must be"
    ),
    "a product that does not fit": Case(lambda e: e.x @ e.x, ShapeError, "contracting dimensions"),
    "a product of a scalar": Case(lambda e: e.x @ e.s, ShapeError, "must not be scalars"),
    "gather without a record": Case(
        lambda e: ops.gather(e.x, e.n, 0, [1, 3]), TYPE, "must be GatherDimensionNumbers"
    ),
    "slice sizes of gather": Case(
        lambda e: ops.gather(e.x, e.n, GatherDimensionNumbers(), "13"), TYPE, "slice_sizes must be"
    ),
    "a transform that is none": Case(
        lambda e: ops.fft(e.z, "dct", [3]), VALUE, "which are FFT, IFFT, RFFT, IRFFT, got 'dct'"
    ),
    "a generator that is none": Case(
        lambda e: ops.rng_bit_generator(9, e.n, "u32[3]"), VALUE, "algorithm must be a RandomAlgo"
    ),
    "random numbers without a builder": Case(
        lambda e: ops.rng_uniform(0.0, 1.0, "f32[3]"), TYPE, "an operand must be an Op"
    ),
    "a shape of random numbers": Case(
        lambda e: ops.rng_normal(e.s, e.s, (3,)), TYPE, "ops.rng_normal: shape must say its"
    ),
    "a builder that is none": Case(
        lambda e: ops.rng_uniform(0.0, 1.0, "f32[3]", e.x), TYPE, "builder must be a Builder"
    ),
    "a flag that is a number": Case(
        lambda e: ops.cholesky(e.x, 1), TYPE, r"lower must be True or False, got 1 \(int\)"
    ),
    "an epsilon that is text": Case(
        lambda e: ops.batch_norm_training(e.x, e.v, e.v, "1e-5", 1), TYPE, "epsilon must be a numb"
    ),
    "an epsilon that is an Op": Case(
        lambda e: ops.batch_norm_training(e.x, e.v, e.v, e.s, 1), TYPE, "known while the program"
    ),
    "an Op for the width of top_k": Case(lambda e: ops.top_k(e.v, e.i), TYPE, "k must be an int"),
    "a concatenation of an array": Case(
        lambda e: ops.concat_in_dim([e.v, ARRAY], 0), TYPE, r"operands\[1\] must be an Op"
    ),
    "a concatenation of nothing": Case(
        lambda e: ops.concat_in_dim([], 0), TYPE, "an operand must be an Op"
    ),
    "operands one by one": Case(
        lambda e: ops.concat_in_dim(e.v, e.v, 0), TYPE, "too many positional arguments"
    ),
    "a padding that is no config": Case(
        lambda e: ops.pad(e.v, 0.0, [1]), TYPE, "padding_config must be PaddingConfig or"
    ),
    "a padding value of another type": Case(
        lambda e: ops.pad(e.n, 0.5, [(0, 1)]), VALUE, "float 0.5 for s32"
    ),
    "a slice without its limit": Case(
        lambda e: ops.slice(e.v, 0), TYPE, "missing a required argument: 'limit_indices'"
    ),
    "starts that are fractions": Case(
        lambda e: ops.dynamic_slice(e.v, [0.5], [1]), VALUE, "0.5 for s32"
    ),
    "a clamp without an operand": Case(
        lambda e: ops.clamp(0.0, 1.0, 2.0), TYPE, "ops.clamp: operand must be an Op"
    ),
    "a select by a number": Case(
        lambda e: ops.select(True, e.x, e.x), TYPE, "ops.select: pred must be an Op"
    ),
    "a select of two numbers": Case(lambda e: ops.select(e.p, 1.0, 2), ShapeError, "select"),
    "a channel that is text": Case(lambda e: ops.send(e.x, "1"), TYPE, "channel_id must be an int"),
    "a config that is a number": Case(
        lambda e: ops.outfeed(e.x, None, 5), TYPE, "config must be bytes or text"
    ),
    "groups that are not nested": Case(
        lambda e: ops.cross_replica_sum(e.x, [0, 1]), TYPE, "replica_groups must be a sequence of"
    ),
    "pairs that are none": Case(
        lambda e: ops.collective_permute(e.x, [0, 1]), TYPE, "source_target_pairs must be"
    ),
    "a custom call without text": Case(
        lambda e: ops.custom_call([e.x], ElementType.F32, "f32[3]"), TYPE, "call_target_name must"
    ),
    "a roll by a fraction": Case(
        lambda e: ops.roll(e.v, 0.5, 0), TYPE, "shift must be an Op or an"
    ),
    "a roll along nothing": Case(
        lambda e: ops.roll(e.v, 1, 1), ShapeError, "a dimension of rank 1"
    ),
    "a tuple of arrays": Case(
        lambda e: ops.tuple(ARRAY), TYPE, "ops.tuple: elements must be an Op"
    ),
    "an empty tuple": Case(lambda e: ops.tuple([]), TYPE, "an operand must be an Op"),
    "a dimension that is an Op": Case(
        lambda e: ops.concat_in_dim([e.v], e.i), TYPE, "dimension must be an int"
    ),
}
