"""Products of a sparse matrix, as JAX calls them for BCSR on processors."""

from typing import Any

import numpy as np
import pytest

from tests.conformance.oracle import assert_equal_bits, by_both, evaluated
from tests.corpus.hlo_text import parse_hlo
from tests.unit.codegen.compiled import on_cpu
from xla_contract.errors import InvalidArgumentError
from xla_contract.types.element_type import ElementType
from xla_contract.types.shape import Shape
from xla_server.backends.compiled.compilation import compile_module
from xla_server.buffers.code import HostThunk
from xla_server.ir.importer import import_module

DATA = np.float32([2, 3, 4, 5])
STARTS = np.int32([0, 2, 2, 4])
COLUMNS = np.int32([1, 0, 3, 1])
RIGHT = np.arange(8, dtype=np.float32).reshape(4, 2)
DENSE = np.float32([[3, 2, 0, 0], [0, 0, 0, 0], [0, 5, 0, 4]])


def product(*arrays: Any, result: str = "f32[3,2]") -> Any:
    shapes = [str(Shape.array(ElementType.from_dtype(a.dtype), a.shape)) for a in arrays]
    lines = "\n".join(f"p{n} = {shape} parameter({n})" for n, shape in enumerate(shapes))
    given = ", ".join(f"p{n}" for n in range(len(arrays)))
    text = f"""
HloModule m
ENTRY main {{
  {lines}
  ROOT r = {result} custom-call({given}), custom_call_target="cpu_csr_sparse_dense_ffi",
    api_version=API_VERSION_TYPED_FFI
}}
"""
    proto = parse_hlo(text)
    found = evaluated(proto, arrays)[0]
    module = import_module(proto)
    assert_equal_bits(on_cpu(module, arrays)[0], found)
    assert not any(isinstance(thunk, HostThunk) for thunk in compile_module(module).code.thunks)
    return found


def test_rows_are_sums_of_their_elements() -> None:
    np.testing.assert_array_equal(product(DATA, STARTS, COLUMNS, RIGHT), DENSE @ RIGHT)
    vector = product(DATA, STARTS, COLUMNS, RIGHT[:, 0].copy(), result="f32[3]")
    np.testing.assert_array_equal(vector, DENSE @ RIGHT[:, 0])


@pytest.mark.parametrize("kind", [np.int32, np.float64, np.complex64])
def test_kernels_add_each_row_in_order(kind: type[np.number[Any]]) -> None:
    drawn = np.random.default_rng(0)
    data, right = (drawn.standard_normal(n).astype(kind) for n in (40, 4))
    columns = drawn.integers(-1, 5, 40)
    starts = np.int64([0, 30, 31, 40])
    result = str(Shape.array(ElementType.from_dtype(np.dtype(kind)), (3,)))
    assert product(data, starts, columns, right, result=result).dtype == kind


def test_elements_behind_the_last_row_are_not_read() -> None:
    starts = np.int32([1, 2, 2, 3])
    expected = np.stack([3 * RIGHT[0], 0 * RIGHT[0], 4 * RIGHT[3]])
    np.testing.assert_array_equal(product(DATA, starts, COLUMNS, RIGHT), expected)


@pytest.mark.parametrize("starts", [[0, 99, -5, 4], [-3, 2, 1, 99]])
def test_rows_stay_among_the_elements(starts: list[int]) -> None:
    found = product(DATA, np.int32(starts), COLUMNS, RIGHT)
    np.testing.assert_array_equal(found.sum(0), (DENSE @ RIGHT).sum(0))


def test_columns_that_there_are_not_count_as_0() -> None:
    found = product(DATA, STARTS, np.int32([1, -1, 4, 1]), RIGHT)
    np.testing.assert_array_equal(found, np.stack([2 * RIGHT[1], 0 * RIGHT[0], 5 * RIGHT[1]]))


@pytest.mark.parametrize("kind", ["int32", "float32", "float64", "complex64"])
@pytest.mark.parametrize("sizes", [(13,), (13, 7), (13, 0)])
def test_is_what_jaxlib_computes(kind: str, sizes: tuple[int, ...]) -> None:
    from jax.experimental import sparse

    drawn = np.random.default_rng(0)
    matrix = (drawn.integers(-9, 9, (11, 13)) * (drawn.random((11, 13)) < 0.3)).astype(kind)
    right = drawn.integers(-9, 9, sizes).astype(kind)
    packed = sparse.BCSR.fromdense(matrix)
    arrays = [np.asarray(a) for a in (packed.data, packed.indices, packed.indptr)]

    def run(data: Any, indices: Any, starts: Any, right: Any) -> Any:
        return sparse.BCSR((data.astype(kind), indices, starts), shape=(11, 13)) @ right

    ((found, expected),) = by_both(run, (*arrays, right))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("arrays", "result"),
    [
        ((DATA, STARTS, COLUMNS), "f32[3,2]"),
        ((DATA, STARTS, COLUMNS[:3], RIGHT), "f32[3,2]"),
        ((DATA.astype(np.int32), STARTS, COLUMNS, RIGHT), "f32[3,2]"),
        ((DATA, STARTS.astype(np.float32), COLUMNS, RIGHT), "f32[3,2]"),
        ((DATA, STARTS[:0], COLUMNS, RIGHT), "f32[0,2]"),
    ],
)
def test_what_does_not_fit_is_invalid(arrays: Any, result: str) -> None:
    with pytest.raises(InvalidArgumentError, match="a sparse product takes"):
        product(*arrays, result=result)


def test_the_result_has_the_rows_of_the_matrix() -> None:
    with pytest.raises(InvalidArgumentError, match=r"f32\[4,2\] declared and f32\[3,2\] given"):
        product(DATA, STARTS, COLUMNS, RIGHT, result="f32[4,2]")
