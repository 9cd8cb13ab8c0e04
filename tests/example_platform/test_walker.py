"""Kernels run by the walker, and by the machine code that `cpu` makes of them."""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, get_args

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import lax
from numba.core.dispatcher import Dispatcher

from tests.conformance.sweep.draws.depth import FULL
from tests.corpus.jax.programs import lower
from tests.example_platform.formulas import UnsupportedKernelError, formula
from tests.example_platform.instructions import INSTRUCTIONS
from tests.example_platform.memory import DTYPES, AccessError
from tests.example_platform.routines.table import is_defined
from tests.example_platform.walker import EXPRESSIONS, STATEMENTS, run, supported
from tests.kept_kernels import kept_kernels
from tests.kernels.corpora import CORPORA
from tests.kernels.running import arguments_of, has_open_order, results_of, run_compiled
from tests.processors import HOST, TARGET, tuned
from tests.unit.codegen.compiled import imported
from tests.unit.codegen.kernel_ir.kernels import (
    ITEM,
    READ,
    SHARED,
    WORD,
    WRITE,
    ZERO,
    kernel_of,
    of_groups,
    parallel,
)
from xla_contract.types.element_type import ElementType
from xla_server.backends.compiled.compilation import compile_module
from xla_server.buffers.code import KernelThunk, Value
from xla_server.codegen.compiler.shared_functions import SharedFunction
from xla_server.codegen.functions.called_functions import CALLED, WITH_BRANCHES
from xla_server.codegen.kernel_ir.analysis.counts import evaluations
from xla_server.codegen.kernel_ir.expressions import (
    Apply,
    Expression,
    Index,
    Load,
    Remainder,
    condition,
)
from xla_server.codegen.kernel_ir.expressions import Value as Scalar
from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.codegen.kernel_ir.routine import Routine
from xla_server.codegen.kernel_ir.statements import (
    Barrier,
    Call,
    For,
    If,
    Let,
    ParallelFor,
    Shuffle,
    Statement,
    Stop,
    Store,
    While,
)
from xla_server.codegen.kernel_ir.types import Type
from xla_server.codegen.lower.lowering import kernels_of
from xla_server.codegen.namespace import vocabulary
from xla_server.evaluator.dynamic_shapes import has_dynamic_shapes

Bytes = np.ndarray[Any, Any]


_KERNELS = kept_kernels()

Constants = Mapping[Value, Any]


def _kernels(corpus: str, step: int = 1) -> Iterator[tuple[str, KernelThunk, Constants]]:
    """Yield each different kernel of every `step`-th program with its name and constants."""
    seen = set()
    for name, module in itertools.islice(CORPORA[corpus](), 0, None, step):
        if has_dynamic_shapes(module):
            continue
        code = compile_module(module, target=TARGET).code
        for thunk in kernels_of(code):
            if thunk.kernel.key not in seen:
                seen.add(thunk.kernel.key)
                yield name, thunk, code.constants


def _rounding(values: Any, kind: ElementType) -> float:
    """Return the rounding error of the largest value, which a sum of 0 may have instead of 0."""
    if not (kind.is_floating or kind.is_complex):
        return 0
    largest = np.abs(values[np.isfinite(values)]).max(initial=0)
    return float(largest * min(1e-7, float(ml_dtypes.finfo(kind.dtype).eps)))


def _assert_same(program: str, thunk: KernelThunk, constants: Constants) -> None:
    assert isinstance(thunk.kernel, Kernel)
    walked, compiled = arguments_of(thunk, constants), arguments_of(thunk, constants)
    # Two calls, so that what each call does first is done twice.
    for start, stop in itertools.pairwise(sorted({0, thunk.work_items // 2, thunk.work_items})):
        run(thunk.kernel, walked, start, stop)
    run_compiled(_KERNELS.get(thunk.kernel), thunk, compiled)
    results = results_of(thunk)
    pairs = zip(thunk.arguments, walked, compiled, strict=True)
    for value, ours, theirs in (each for each in pairs if each[0] in results):
        if np.array_equal(ours, theirs):
            continue
        kind = value.shape.element_type
        if has_open_order(thunk.kernel):
            wide = np.complex128 if kind.is_complex else np.float64
            left, right = (each.view(kind.dtype).astype(wide) for each in (ours, theirs))
            np.testing.assert_allclose(
                left,
                right,
                rtol=1e-4,
                atol=_rounding(right, kind),
                err_msg=f"{program}: {value}",
            )
        else:
            np.testing.assert_array_equal(ours, theirs, err_msg=f"{program}: {value}")


@pytest.mark.parametrize(
    ("corpus", "max_evaluations", "step", "least"),
    [
        # All but Winograd's tiles, which a smaller program walks below.
        ("golden", 400_000, 1, 79),
        ("matrices", 400_000, 1, 17),
        ("hlo", 200_000, 1, 76),
        ("routines", 200_000, 1, 4),
        ("graphs", 500, 1 if FULL else 3, 50),
    ],
)
def test_the_walker_and_cpu_agree(corpus: str, max_evaluations: int, step: int, least: int) -> None:
    """Kernels of few evaluations, at least so many, give the same."""
    count = 0
    for program, thunk, constants in _kernels(corpus, step):
        if _cost(supported(thunk.kernel)) <= max_evaluations:
            _assert_same(program, thunk, constants)
            count += 1
    assert count >= least


_RANDOM = np.random.default_rng(3)


def _drawn(dtype: Any, *sizes: int) -> Any:
    return _RANDOM.integers(-9, 9, sizes).astype(dtype)


def _interleaved(*operands: Any) -> Any:
    return jnp.concatenate([each[:, None] for each in operands], axis=1)


def _convolved(operand: Any, kernel: Any) -> Any:
    return lax.conv_general_dilated(
        operand, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


ANY_CONVOLUTION = tuned(TARGET, "convolutions", min_products=0)
"""A target that has no convolution too small for tiles."""

ROUTINES_OF_PROGRAMS: Sequence[tuple[str, Callable[..., Any], tuple[Any, ...]]] = (
    ("sort_entries_1_1", jnp.argsort, (_drawn(np.int8, 300),)),
    ("sort_entries_1_2", jnp.argsort, (_drawn(np.int16, 300),)),
    ("sort_entries_1_4", jnp.argsort, (_drawn(np.float32, 300),)),
    ("sort_entries_2_8", jnp.argsort, (_drawn(np.int64, 300),)),
    ("keep_entry", lambda x: lax.top_k(x, 5), (_drawn(np.float32, 400),)),
    ("sort_heap", lambda x: lax.top_k(x, 5), (_drawn(np.int32, 400),)),
    ("transpose_8_", jnp.transpose, (_drawn(np.int8, 40, 35),)),
    ("transpose_16_", jnp.transpose, (_drawn(np.int16, 40, 35),)),
    ("transpose_32_", jnp.transpose, (_drawn(np.float32, 40, 35),)),
    ("transpose_64_", jnp.transpose, (_drawn(np.float64, 40, 35),)),
    ("transpose_blocks", jnp.transpose, (_drawn(np.float32, 200, 300),)),
    ("interleave_tiles", _interleaved, tuple(_drawn(np.float32, 24, 70))),
    (
        "concatenate_rows",
        lambda *x: jnp.concatenate(x, axis=1),
        tuple(_drawn(np.float32, 40, 60, 3)),
    ),
    ("concatenate_bytes", lambda *x: jnp.concatenate(x), tuple(_drawn(np.float32, 40, 33))),
    (
        "winograd_block",
        _convolved,
        (_drawn(np.float32, 1, 9, 10, 16), _drawn(np.float32, 3, 3, 16, 17)),
    ),
)


@pytest.mark.parametrize(
    ("routine", "function", "arguments"),
    ROUTINES_OF_PROGRAMS,
    ids=[each[0] for each in ROUTINES_OF_PROGRAMS],
)
def test_routines_are_defined_as_machine_code_has_them(
    routine: str, function: Callable[..., Any], arguments: tuple[Any, ...]
) -> None:
    with jax.enable_x64(True):
        module = imported(lower(function, *arguments))
    code = compile_module(module, target=ANY_CONVOLUTION).code
    found = [thunk for thunk in kernels_of(code) if routine in thunk.source]
    assert found, [thunk.source for thunk in kernels_of(code)]
    for thunk in found:
        _assert_same(routine, thunk, code.constants)


def _cost(kernel: Kernel) -> float:
    return sum(evaluations(kernel.body, 1).values())


INTEGERS = (Type.I8, Type.U8, Type.I16, Type.U16, Type.I32, Type.U32, Type.I64, Type.U64)
FLOATS = (Type.F32, Type.F64)
UNARY = ("clz", "popcnt", "bit_not"), ("floor", "ceil", "round_even", "sqrt")
BINARY = (
    (
        *("bit_and", "bit_or", "bit_xor", "mulhi", "rem"),
        *("shift_left", "shift_right_arithmetic", "shift_right_logical"),
    ),
    ("copysign",),
)
OF_ALL = (("neg", "absolute"), ("add", "sub", "mul", "div", "maximum", "minimum"))
RELATIONS = ("eq", "ne", "lt", "le", "gt", "ge")
SAMPLES = (0, 1, 2, 3, 5, 7, 31, 100, 127, -1, -2, -128, 2.5, 0.5, -0.5, 1e30)


def _cases() -> Iterator[tuple[str, Type, int]]:
    for kinds, unary, binary in zip((INTEGERS, FLOATS), UNARY, BINARY, strict=True):
        for kind in kinds:
            # The absolute value of numbers without sign is no instruction.
            signed = OF_ALL[0][: 1 if kind[0] == "u" else 2]
            yield from ((name, kind, 1) for name in (*unary, *signed))
            yield from ((name, kind, 2) for name in (*binary, *OF_ALL[1], *RELATIONS))


def _samples(kind: Type) -> list[Any]:
    dtype = DTYPES[kind]
    if kind.is_integer:
        return [
            np.array(int(each) & 0xFFFFFFFFFFFFFFFF, np.uint64).astype(dtype)
            for each in SAMPLES[:-1]
        ]
    return [dtype.type(each) for each in SAMPLES]


@pytest.mark.parametrize(("name", "kind", "count"), list(_cases()))
def test_instructions_are_defined_as_llvm_has_them(name: str, kind: Type, count: int) -> None:
    result = Type.B1 if name in RELATIONS else kind
    expected = formula(name, (kind,) * count, result)
    with np.errstate(all="ignore"):
        for operands in itertools.product(map(np.asarray, _samples(kind)), repeat=count):
            scalars = [each[()] for each in operands]
            ours, theirs = INSTRUCTIONS[name](*scalars), expected(*scalars)
            np.testing.assert_array_equal(ours, theirs, err_msg=f"{name} of {scalars}")
            assert np.asarray(ours).dtype == np.asarray(theirs).dtype


def _grouped(*body: Statement) -> Kernel:
    return kernel_of(ParallelFor(ITEM, 8, body, group=4))


def test_items_of_a_group_exchange_values() -> None:
    numbers = np.arange(8, dtype=np.float32)
    buffers = [numbers.view(np.uint8), np.zeros(32, np.uint8), np.zeros(8, np.uint8)]
    given, first, second = (Scalar(name, Type.F32) for name in "vwx")
    axis = Scalar("i", Type.I64)
    store = Store(WRITE, Type.F32, ITEM, second)
    body = (
        Let(given, Load(READ, Type.F32, ITEM)),
        Shuffle(first, given, 2),
        For(axis, Index(0), Index(1), (Shuffle(second, first, 1), store), 1),
    )
    run(_grouped(*body), buffers, 0, 8)
    assert buffers[1].view(np.float32).tolist() == [3, 2, 1, 0, 7, 6, 5, 4]


def test_items_of_a_group_share_arrays_of_their_own() -> None:
    numbers = np.arange(8, dtype=np.float32)
    buffers = [numbers.view(np.uint8), np.zeros(32, np.uint8)]
    lane, found = Scalar("l", Type.I64), Scalar("v", Type.F32)
    body = (
        Let(lane, Remainder(Index(0, ((ITEM, 1),)), 4)),
        Store(SHARED, Type.F32, lane, Load(READ, Type.F32, ITEM), condition("ne", lane, 0)),
        Barrier(),
        Let(found, Load(SHARED, Type.F32, Index(3, ((lane, -1),)))),
        Store(WRITE, Type.F32, ITEM, found),
    )
    run(of_groups(*body), buffers, 0, 8)
    expected = [3, 2, 1, np.nan, 7, 6, 5, np.nan]
    np.testing.assert_array_equal(buffers[1].view(np.float32), expected)


def test_items_of_a_group_come_to_an_exchange_together() -> None:
    buffers = [np.zeros(32, np.uint8) for _ in range(3)]
    exchange = Shuffle(Scalar("v", Type.F32), ZERO, 1)
    test = Apply("eq", (ITEM, Index(0)), Type.B1)
    with pytest.raises(AccessError, match="must meet together"):
        run(_grouped(If(test, (exchange,))), buffers, 0, 8)
    with pytest.raises(AccessError, match="inside of a group, got v"):
        run(kernel_of(parallel(exchange)), buffers, 0, 1)
    with pytest.raises(AccessError, match="a barrier must be inside of a group"):
        run(kernel_of(parallel(Barrier())), buffers, 0, 1)
    with pytest.raises(UnsupportedKernelError, match="in loops of counters and branches"):
        run(_grouped(While(test, (exchange,), 1)), buffers, 0, 8)


def test_every_routine_is_defined() -> None:
    called = vocabulary(HOST).names.items()
    routines = [n for n, each in called if isinstance(each, SharedFunction | Dispatcher)]
    assert routines
    elementary = {*CALLED, *WITH_BRANCHES}
    assert [name for name in routines if not (is_defined(name) or name in elementary)] == []


def test_every_node_of_the_ir_is_defined() -> None:
    assert set(STATEMENTS) == set(get_args(Statement))
    assert set(EXPRESSIONS) == set(get_args(Expression))


def test_what_no_definition_is_there_for_is_refused() -> None:
    buffers = [np.zeros(16, np.uint8) for _ in range(3)]
    call = kernel_of(parallel(Call(Routine("no_such_routine", ()), ())))
    with pytest.raises(UnsupportedKernelError, match="routines of the walker, got no_such_routine"):
        run(call, buffers, 0, 1)
    with pytest.raises(UnsupportedKernelError, match=r"of the loop IR .*, got str"):
        run("def kernel(buffers, start, stop): ...", buffers, 0, 1)


@pytest.mark.parametrize("index", [-1, 4])
def test_accesses_are_inside_of_memory(index: int) -> None:
    buffers = [np.zeros(16, np.uint8) for _ in range(3)]
    load = Load(READ, Type.F32, Index(index))
    rule = f"index of buffer0 must be inside of its 4 elements of f32, got {index}"
    with pytest.raises(AccessError, match=rule):
        run(kernel_of(parallel(Store(WRITE, Type.F32, ITEM, load))), buffers, 0, 1)


def test_work_items_share_no_element() -> None:
    buffers = [np.zeros(16, np.uint8) for _ in range(3)]
    store = Store(WRITE, Type.F32, Index(0), ZERO)
    with pytest.raises(AccessError, match=r"must not store .* element 0 of f32 in items 0 and 1"):
        run(kernel_of(parallel(store)), buffers, 0, 2)
    shifted = Load(WRITE, Type.F32, Index(-1, ((ITEM, 1),)))
    with pytest.raises(AccessError, match=r"must not load .* element 1 of f32 in items 1 and 2"):
        run(kernel_of(parallel(Store(WRITE, Type.F32, ITEM, shifted))), buffers, 1, 3)


def test_a_kernel_stops_when_its_execution_is_cancelled() -> None:
    buffers = [np.ones(16, np.uint8) for _ in range(2)] + [np.array([1], np.int64).view(np.uint8)]
    run(kernel_of(parallel(Stop(WORD), Store(WRITE, Type.F32, ITEM, ZERO))), buffers, 0, 4)
    assert buffers[1].all()
