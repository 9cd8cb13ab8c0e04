"""`xla_client.lib` on a real server, against numpy and jax."""

import ml_dtypes
import numpy as np
import pytest
from scipy import special as scipy_special

from xla_client import Builder, ElementType, Op, Shape, ops
from xla_client.lib import (
    activations,
    argminmax,
    arithmetic,
    constants,
    cumulative,
    matrix,
    numpy_broadcasting,
    prng,
    slicing,
    sorting,
    special,
)
from xla_client.lib.einsum import einsum

F32, S32 = ElementType.F32, ElementType.S32
RANDOM = np.random.default_rng(0)
SPECIAL = np.float32([[3, np.nan, -1, np.nan], [2, 7, 7, -np.inf], [-np.inf] * 4])


def _normal(*dimensions: int) -> np.ndarray:
    return RANDOM.standard_normal(dimensions).astype(np.float32)


@pytest.mark.parametrize(
    ("element_type", "least", "greatest"),
    [
        (ElementType.PRED, False, True),
        (ElementType.S8, -128, 127),
        (ElementType.U4, 0, 15),
        (ElementType.U64, 0, 2**64 - 1),
        (ElementType.BF16, -np.inf, np.inf),
        (ElementType.F64, -np.inf, np.inf),
        (ElementType.F8E4M3FN, -448, 448),
        (ElementType.F8E4M3FNUZ, -240, 240),
    ],
)
def test_extreme_values(run, element_type, least, greatest):
    found = run(
        lambda b: (constants.min_value(b, element_type), constants.max_value(b, element_type))
    )
    assert [each.item() for each in found] == [least, greatest]


def test_constants(run):
    shape = Shape.parse("f32[2,3]")
    zeros, ones, full, epsilon, lowest, eye, iota = run(
        lambda b: (
            constants.zeros(b, shape),
            constants.ones(b, shape),
            constants.full(b, shape, 2.5),
            constants.epsilon(b, ElementType.BF16),
            constants.min_finite_value(b, F32),
            constants.identity_matrix(b, S32, 2, 3),
            constants.iota(b, ElementType.U8, 4),
        )
    )
    np.testing.assert_array_equal([zeros, ones, full], [np.full((2, 3), v) for v in (0, 1, 2.5)])
    assert epsilon == ml_dtypes.finfo(ml_dtypes.bfloat16).eps
    assert lowest == np.finfo(np.float32).min
    np.testing.assert_array_equal(eye, np.eye(2, 3))
    assert iota.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("dimensions", [None, (1,), (0, -1), ()])
@pytest.mark.parametrize("name", ["sum", "prod", "max", "min", "mean"])
def test_reducers(run, name, dimensions):
    x = _normal(3, 4)
    found = run(lambda op: getattr(arithmetic, name)(op, dimensions), x)
    np.testing.assert_allclose(found, getattr(np, name)(x, axis=dimensions), rtol=1e-5)


def test_reducers_of_special_values(run):
    mask = np.array([[True, False], [True, True]])
    found = run(lambda m: (arithmetic.any(m, [1]), arithmetic.all(m, [1])), mask)
    assert [each.tolist() for each in found] == [[True, True], [False, True]]
    np.testing.assert_array_equal(run(lambda x: arithmetic.max(x, [1]), SPECIAL), SPECIAL.max(1))
    # The sum of these is beyond f16; their mean is not.
    large = np.full(100, 60000, np.float16)
    assert run(arithmetic.mean, large) == np.float16(60000)
    assert run(arithmetic.max, np.zeros(0, np.int16)) == -(2**15)


@pytest.mark.parametrize("name", ["argmax", "argmin"])
@pytest.mark.parametrize(
    "value",
    [SPECIAL, -SPECIAL, np.int32([[5, 5, 1, 1], [-(2**31)] * 4, [2**31 - 1] * 4]), SPECIAL > 2],
    ids=["special", "negative", "s32", "pred"],
)
def test_argmax_and_argmin(run, name, value):
    for dimension in (0, -1):
        found = run(lambda x, d=dimension: getattr(argminmax, name)(x, d), value)
        assert found.dtype == np.int32
        np.testing.assert_array_equal(found, getattr(np, name)(value, axis=dimension))


def test_sorting(run):
    x = np.float32([[0.0, -0.0, np.nan, -np.nan, 1, -np.inf], [2, 1, 2, 1, 2, 1]])
    x[0, 3] = np.copysign(x[0, 3], -1)
    ascending, where = run(sorting.sort_with_indices, x)
    assert where.tolist() == [[3, 5, 1, 0, 4, 2], [1, 3, 5, 0, 2, 4]]
    np.testing.assert_array_equal(ascending, np.take_along_axis(x, where, -1))
    down = run(lambda op: sorting.argsort(op, descending=True), x)
    assert down.tolist() == [[2, 4, 0, 1, 5, 3], [0, 2, 4, 1, 3, 5]]
    keys = np.int8([[3, -1], [1, 7], [2, 0]])
    np.testing.assert_array_equal(run(lambda op: sorting.sort(op, 0), keys), np.sort(keys, 0))
    largest = run(lambda op: sorting.top_k(op, 2, 0), keys)
    assert [each.tolist() for each in largest] == [[[3, 7], [2, 0]], [[0, 1], [2, 2]]]
    smallest = run(lambda op: sorting.top_k(op, 1, largest=False), keys)
    assert [each.tolist() for each in smallest] == [[[-1], [1], [0]], [[1], [0], [1]]]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    ("name", "ufunc"),
    [("cumsum", np.add), ("cumprod", np.multiply), ("cummax", np.maximum), ("cummin", np.minimum)],
)
def test_cumulative(run, name, ufunc, reverse):
    for value, dimension in ((_normal(3, 5, 2), 1), (np.int16([3, 1, 4, 1, 5]), -1)):
        turned = np.flip(value, dimension) if reverse else value
        expected = ufunc.accumulate(turned, axis=dimension, dtype=value.dtype)
        expected = np.flip(expected, dimension) if reverse else expected
        function = getattr(cumulative, name)
        found = run(lambda x, f=function, d=dimension: f(x, d, reverse=reverse), value)
        np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert run(lambda x: cumulative.cumsum(x, 0), np.zeros((0, 2), np.float32)).shape == (0, 2)


@pytest.mark.parametrize(
    ("subscripts", "shapes"),
    [
        ("ij,jk->ik", [(2, 3), (3, 4)]),
        ("ij,jk->ki", [(2, 3), (3, 4)]),
        ("bij,bjk->bik", [(5, 2, 3), (5, 3, 4)]),
        ("ibj,kjb", [(2, 5, 3), (4, 3, 5)]),
        ("ba", [(2, 3)]),
        ("ii", [(3, 3)]),
        ("ii->i", [(3, 3)]),
        ("iji->ji", [(3, 2, 3)]),
        ("iii->i", [(3, 3, 3)]),
        ("i,j->ij", [(2,), (3,)]),
        ("i,i->i", [(3,), (3,)]),
        ("i,i->", [(3,), (3,)]),
        ("ij,k->i", [(2, 3), (4,)]),
        ("iij,jk->ik", [(2, 2, 3), (3, 4)]),
        ("...ij,...jk->...ik", [(5, 6, 2, 3), (5, 6, 3, 4)]),
        ("...ij,...jk", [(5, 2, 3), (3, 4)]),
        ("i...->...i", [(2, 3, 4)]),
        ("...,...->...", [(2, 3), (2, 3)]),
        ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 5)]),
        ("ij,kj,lj->ikl", [(2, 3), (4, 3), (5, 3)]),
        ("a b , b -> a", [(2, 3), (3,)]),
        (",ij->ji", [(), (2, 3)]),
    ],
)
def test_einsum(run, subscripts, shapes):
    arrays = [_normal(*shape) for shape in shapes]
    found = run(lambda *operands: einsum(subscripts, *operands), *arrays)
    np.testing.assert_allclose(found, np.einsum(subscripts, *arrays), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("diagonal", [-4, -2, -1, 0, 1, 2, 5])
@pytest.mark.parametrize("shape", [(3, 4), (2, 4, 3), (3, 3)])
def test_diagonals_and_triangles(run, shape, diagonal):
    x = _normal(*shape)
    expected = np.diagonal(x, diagonal, -2, -1)
    values = _normal(*expected.shape)
    got, put, lower, upper = run(
        lambda m, v: (
            matrix.get_matrix_diagonal(m, diagonal),
            matrix.set_matrix_diagonal(m, v, diagonal),
            matrix.lower_triangle(m, diagonal),
            matrix.upper_triangle(m, diagonal),
        ),
        x,
        values,
    )
    np.testing.assert_array_equal(got, expected)
    np.testing.assert_array_equal(np.diagonal(put, diagonal, -2, -1), values)
    off = ~np.eye(*shape[-2:], diagonal, dtype=bool)
    np.testing.assert_array_equal(put[..., off], x[..., off])
    np.testing.assert_array_equal(lower, np.tril(x, diagonal))
    np.testing.assert_array_equal(upper, np.triu(x, diagonal))


def test_products_of_matrices(run):
    for lhs, rhs in [((2, 3), (3,)), ((3,), (3,)), ((5, 2, 3), (3, 4)), ((5, 2, 3), (5, 3, 4))]:
        x, y = _normal(*lhs), _normal(*rhs)
        np.testing.assert_allclose(run(matrix.matmul, x, y), x @ y, rtol=1e-5, atol=1e-6)
    x, y = _normal(5, 3, 2), _normal(5, 4, 3)
    found = run(lambda a, b: matrix.batch_dot(a, b, transpose_lhs=True, transpose_rhs=True), x, y)
    np.testing.assert_allclose(found, x.swapaxes(1, 2) @ y.swapaxes(1, 2), rtol=1e-5, atol=1e-6)
    turned, trace = run(lambda a: (matrix.transpose_in_minor_dims(a), matrix.trace(a)), x)
    np.testing.assert_array_equal(turned, x.swapaxes(1, 2))
    np.testing.assert_allclose(trace, np.trace(x, axis1=1, axis2=2), rtol=1e-6)


def test_slices(run):
    x = np.arange(24, dtype=np.int32).reshape(2, 3, 4)
    update = np.int32([[-1, -2], [-3, -4]])

    def static(op: Op, patch: Op) -> tuple[Op, ...]:
        return (
            slicing.slice_in_minor_dims(op, [1, 0], [3, 2]),
            slicing.update_slice_in_minor_dims(matrix_of(op), patch, [1, 2]),
            slicing.index_in_dim(op, -1, 1, keep_dimension=False),
        )

    def matrix_of(op: Op) -> Op:
        return slicing.index_in_dim(op, 0, keep_dimension=False)

    cut, written, row = run(static, x, update)
    np.testing.assert_array_equal(cut, x[:, 1:3, 0:2])
    expected = x[0].copy()
    expected[1:3, 2:4] = update
    np.testing.assert_array_equal(written, expected)
    np.testing.assert_array_equal(row, x[:, -1])

    def dynamic(op: Op, start: Op, indices: Op) -> tuple[Op, ...]:
        plane = slicing.dynamic_index_in_dim(op, start, 1, keep_dimension=False)
        minor = slicing.dynamic_slice_in_minor_dims(op, [start, start], [1, 2])
        return (
            slicing.dynamic_slice_in_dim(op, start, 2, 2),
            plane,
            slicing.dynamic_update_index_in_dim(op, -plane, start, 1),
            minor,
            slicing.dynamic_update_slice_in_minor_dims(op, -minor, [start, start]),
            slicing.dynamic_update_slice_in_dim(op, op, start, 0),
            slicing.take_in_dim(op, indices, 1),
        )

    indices = np.int32([[2, 0], [1, 9]])
    piece, plane, negated, minor, corner, same, taken = run(dynamic, x, np.int32(1), indices)
    np.testing.assert_array_equal(piece, x[:, :, 1:3])
    np.testing.assert_array_equal(plane, x[:, 1])
    expected = x.copy()
    expected[:, 1] *= -1
    np.testing.assert_array_equal(negated, expected)
    np.testing.assert_array_equal(minor, x[:, 1:2, 1:3])
    expected = x.copy()
    expected[:, 1:2, 1:3] *= -1
    np.testing.assert_array_equal(corner, expected)
    np.testing.assert_array_equal(same, x)
    np.testing.assert_array_equal(taken, np.take(x, indices, 1, mode="clip"))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_erf_inv_and_logit(run, dtype):
    inside = np.concatenate([np.linspace(-1, 1, 41), 1 - 2.0 ** -np.arange(1, 23), [1e-30, -0.0]])
    x = inside.astype(dtype)
    # Squaring f32 loses digits near the ends; jax computes, and loses, the same.
    rtol = 5e-6 if dtype == np.float32 else 2e-15
    found = run(special.erf_inv, x)
    np.testing.assert_allclose(found, scipy_special.erfinv(x.astype(np.float64)), rtol=rtol)
    assert np.isnan(run(special.erf_inv, dtype([1.5, np.nan, -2]))).all()
    p = np.linspace(0, 1, 9, dtype=dtype)
    np.testing.assert_allclose(run(special.logit, p), scipy_special.logit(p), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("dimension", [0, -1])
def test_softmax(run, dimension):
    x = _normal(4, 5) * 100
    found = run(lambda op: activations.softmax(op, dimension), x)
    np.testing.assert_allclose(found, scipy_special.softmax(x, dimension), rtol=2e-5, atol=1e-37)
    found = run(lambda op: activations.log_softmax(op, dimension), x)
    np.testing.assert_allclose(found, scipy_special.log_softmax(x, dimension), rtol=2e-5)
    x[1], x[:, 1] = -np.inf, -np.inf
    x[2, 3] = np.inf
    found = run(lambda op: activations.logsumexp(op, dimension), x)
    np.testing.assert_allclose(found, scipy_special.logsumexp(x, dimension), rtol=1e-5)


@pytest.mark.parametrize("name", ["relu", "gelu", "silu", "softplus"])
def test_activations(run, name):
    jax = pytest.importorskip("jax")
    x = np.float32([-np.inf, -90, -3, -0.5, 0, 0.5, 3, 90, np.nan])
    choices = ({}, {"approximate": True}) if name == "gelu" else ({},)
    for choice in choices:
        reference = {"approximate": False, **choice} if name == "gelu" else {}
        expected = getattr(jax.nn, name)(x, **reference)
        function = getattr(activations, name)
        found = run(lambda op, f=function, c=choice: f(op, **c), x)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_one_hot(run):
    found = run(lambda op: activations.one_hot(op, 3, S32), np.int32([[2, 0], [5, -1]]))
    assert found.tolist() == [[[0, 0, 1], [1, 0, 0]], [[0, 0, 0], [0, 0, 0]]]


@pytest.mark.parametrize("seed", [0, 42, 2**32 - 1])
def test_keys_and_bits_are_those_of_jax(run, seed):
    jax = pytest.importorskip("jax")
    theirs = jax.random.PRNGKey(seed)

    def ours(builder: Builder) -> tuple[Op, ...]:
        key = prng.key(builder, seed)
        first = slicing.index_in_dim(prng.split(key, 3), 1, keep_dimension=False)
        bits = [prng.random_bits(first, width, (3, 5)) for width in (8, 16, 32)]
        seeded = prng.key_of(builder.constant(np.int64(seed)))
        return (key, prng.split(key, 3), prng.fold_in(key, 7), *bits, seeded)

    key, keys, folded, *bits, seeded = run(ours)
    np.testing.assert_array_equal(key, theirs)
    np.testing.assert_array_equal(seeded, theirs)
    np.testing.assert_array_equal(keys, jax.random.split(theirs, 3))
    np.testing.assert_array_equal(folded, jax.random.fold_in(theirs, 7))
    first = jax.random.split(theirs, 3)[1]
    for found, dtype in zip(bits, (np.uint8, np.uint16, np.uint32), strict=True):
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, jax.random.bits(first, (3, 5), dtype))


@pytest.mark.parametrize("element_type", [F32, ElementType.BF16, ElementType.F16, ElementType.F64])
def test_distributions_are_those_of_jax(run, element_type):
    jax = pytest.importorskip("jax")
    shape = Shape.array(element_type, (4, 25))

    def ours(builder: Builder) -> tuple[Op, ...]:
        key = prng.key(builder, 3)
        words = prng.random_bits(key, 64, (5,))
        return (
            prng.uniform(key, shape),
            prng.uniform(key, shape, -2, 3),
            prng.normal(key, shape),
            words,
        )

    unit, spread, normal, words = run(ours)
    with jax.enable_x64(True):
        key, dtype = jax.random.PRNGKey(3), element_type.dtype
        np.testing.assert_array_equal(unit, jax.random.uniform(key, (4, 25), dtype))
        theirs = jax.random.uniform(key, (4, 25), dtype, -2, 3)
        ulp = float(ml_dtypes.finfo(dtype).eps)
        np.testing.assert_allclose(
            spread.astype(np.float64), np.asarray(theirs, np.float64), atol=2 * ulp
        )
        theirs = jax.random.normal(key, (4, 25), dtype)
        np.testing.assert_allclose(
            normal.astype(np.float64), np.asarray(theirs, np.float64), rtol=16 * ulp, atol=ulp
        )
        np.testing.assert_array_equal(words, jax.random.bits(key, (5,), np.uint64))


def test_numpy_broadcasting(run):
    x, y = _normal(2, 1, 4), _normal(3, 1)
    for name in ("add", "sub", "pow", "max", "lt"):
        expected = {
            "add": np.add, "sub": np.subtract, "pow": np.power, "max": np.maximum, "lt": np.less,
        }[name](abs(x), y)  # fmt: skip
        function = getattr(numpy_broadcasting, name)
        found = run(lambda a, b, f=function: f(ops.abs(a), b), x, y)
        np.testing.assert_allclose(found, expected, rtol=1e-6)
    np.testing.assert_array_equal(
        run(lambda b: numpy_broadcasting.broadcast_to(b, (2, 3, 4)), y),
        np.broadcast_to(y, (2, 3, 4)),
    )
    chosen = run(lambda m, a, b: numpy_broadcasting.where(m, a, b), y > 0, x, np.float32(7))
    np.testing.assert_array_equal(chosen, np.where(y > 0, x, 7))


def test_core_additions(run):
    z = np.complex64([1 + 2j, -3 - 4j])
    np.testing.assert_array_equal(run(ops.conj, z), z.conj())
    x = np.arange(24, dtype=np.int32).reshape(4, 2, 3)
    found = run(lambda op: ops.reshape(op, [6, 4], [1, 2, 0]), x)
    np.testing.assert_array_equal(found, x.transpose(1, 2, 0).reshape(6, 4))

    def nested(pred: Op, a: Op, b: Op) -> Op:
        return ops.select(pred, ops.tuple([a, ops.tuple([b])]), ops.tuple([b, ops.tuple([a])]))

    chosen = run(nested, np.array(False), np.float32(1), np.float32(2))
    assert chosen == (2, (1,))
