"""Functions that an operator registers, and calls of them."""

import ctypes
from typing import Any

import numba
import numpy as np
import pytest
from numba import types

from tests.checked_evaluation import CheckedPlans, evaluate_checked
from xla_contract.errors import InternalError, ShapeError, UnimplementedError
from xla_contract.ops.control.custom_call import CustomCallAttributes
from xla_contract.types.element_type import ElementType
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import Shape
from xla_server.custom_calls.builtin_targets import BUILTIN, builtin_registry
from xla_server.custom_calls.target_registry import CustomCallRegistry
from xla_server.execution.execute_options import ExecuteOptions
from xla_server.ir.module import HloComputation, HloInstruction


def call(
    registry: CustomCallRegistry,
    target: str,
    shape: str,
    *operands: Any,
    config: bytes = b"",
    options: ExecuteOptions | None = None,
) -> Any:
    parameters = tuple(
        HloInstruction(
            f"p{number}",
            number,
            Opcode.PARAMETER,
            Shape.array(ElementType.from_dtype(operand.dtype), operand.shape),
        )
        for number, operand in enumerate(operands)
    )
    result = Shape.parse(shape)
    attributes = CustomCallAttributes(target, result, config)
    root = HloInstruction("root", 9, Opcode.CUSTOM_CALL, result, parameters, attributes)
    program = HloComputation("main", 0, [*parameters, root], root, parameters)
    plans = CheckedPlans(registry)
    return evaluate_checked(program, operands, plans=plans, options=options)


def test_an_unknown_target_is_reported_with_names_near_it() -> None:
    message = r'^custom-call %root: target "lapack_spotrf" is .*near it are .*lapack_spotrf_ffi'
    with pytest.raises(UnimplementedError, match=message):
        call(BUILTIN, "lapack_spotrf", "f32[]")
    with pytest.raises(UnimplementedError, match=r'"zzzz" is not known to this server$'):
        call(BUILTIN, "zzzz", "f32[]")
    with pytest.raises(UnimplementedError, match=r"spotrf_ffi") as caught:
        call(BUILTIN, "cusolver_potrf_ffi", "f32[]")
    assert "lowering_platforms=('cpu',)" in caught.value.hint
    with pytest.raises(UnimplementedError) as caught:
        call(BUILTIN, "x" * 100_000, "f32[]")
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("target", ["CustomSPMDPartitioning", "InspectSharding"])
def test_calls_of_a_partitioner_s_functions_are_refused_with_the_reason(target: str) -> None:
    message = f'^custom-call %root: target "{target}" calls a Python function of the process'
    with pytest.raises(UnimplementedError, match=message):
        call(BUILTIN, target, "f32[2]", np.zeros(2, np.float32), config=b"139872")


def test_random_states_follow_each_other() -> None:
    states = [call(BUILTIN, "RandomState", "u64[2]") for _ in range(2)]
    assert not np.any(states[0] == states[1])
    with pytest.raises(ShapeError, match=r"got u32\[2\] declared and u64\[2\] given"):
        call(BUILTIN, "RandomState", "u32[2]")
    with pytest.raises(ShapeError, match="the target takes no values, got 1"):
        call(BUILTIN, "RandomState", "u64[2]", np.uint64([1, 2]))


def test_names_are_taken_once() -> None:
    registry = builtin_registry()
    for name in ("", "Qr"):
        with pytest.raises(ValueError, match="name of its own"):
            registry.register_function(name, abs)
    assert len([*registry]) == len([*BUILTIN])


def test_a_python_function_gets_read_only_arrays_and_attributes() -> None:
    registry = CustomCallRegistry()

    def scale(x: Any, *, by: float) -> Any:
        assert not x.flags.writeable
        assert x.flags.c_contiguous
        return x * np.float32(by), np.int32(x.size)

    registry.register_function("scale", scale, with_attributes=True)
    x = np.arange(6, dtype=np.float32).reshape(2, 3).T
    scaled, size = call(registry, "scale", "(f32[3,2], s32[])", x, config=b"{by = 2.0 : f32}")
    np.testing.assert_array_equal(scaled, x * 2)
    assert size == 6


def test_schedulers_see_that_a_function_may_sleep() -> None:
    registry, options, seen = CustomCallRegistry(), ExecuteOptions(), list[bool]()

    def note(x: Any) -> Any:
        seen.append(options.cancellation.is_outside)
        return x

    note_in_native_code = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(
        lambda out, ins: seen.append(options.cancellation.is_outside)
    )
    registry.register_function("note", note)
    registry.register_symbol("symbol", note_in_native_code, "(f32[2]) -> f32[2]")
    for name in ("note", "symbol"):
        call(registry, name, "f32[2]", np.zeros(2, np.float32), options=options)
    assert seen == [True, True]
    assert not options.cancellation.is_outside


def test_what_a_function_gives_is_held_against_the_program() -> None:
    registry = CustomCallRegistry()
    registry.register_function("same", lambda x: x)
    registry.register_function("fails", lambda x: 1 // 0)
    x = np.zeros(2, np.float32)
    for shape in ("f32[3]", "f64[2]", "(f32[2])"):
        with pytest.raises(InternalError, match=r'%root: target "same" must give .*float32\[2\]'):
            call(registry, "same", shape, x)
    with pytest.raises(InternalError, match='target "fails" failed with ZeroDivisionError'):
        call(registry, "fails", "f32[2]", x)


def test_a_signature_is_a_text_or_a_rule() -> None:
    def rule(shapes: Any) -> Shape:
        (shape,) = shapes
        return Shape.array(ElementType.F32, shape.dimensions[:1])

    registry = CustomCallRegistry()
    registry.register_function("pair", lambda x: x, "(f32[2]) -> f32[2]")
    registry.register_function("rows", lambda x: x.sum(1), rule)
    x = np.ones((2, 3), np.float32)
    np.testing.assert_array_equal(call(registry, "rows", "f32[2]", x), [3, 3])
    for target, shape in (("pair", "f32[2]"), ("rows", "f32[3]")):
        with pytest.raises(ShapeError, match=r"^custom-call %root: "):
            call(registry, target, shape, x)


def test_numba_functions_and_c_symbols() -> None:
    registry = CustomCallRegistry()
    registry.register_function("total", numba.njit(lambda x: np.cumsum(x)))

    @numba.cfunc(types.void(types.voidptr, types.CPointer(types.voidptr)))
    def swap(out: Any, ins: Any) -> None:
        first, second = numba.carray(ins, 2)
        result = numba.carray(out, 2, types.float64)
        result[0] = numba.carray(second, 1, types.float64)[0]
        result[1] = numba.carray(first, 1, types.float64)[0]

    symbols = {
        "cfunc": swap,
        "address": swap.address,
        "ctypes": ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(swap.address),
    }
    np.testing.assert_array_equal(call(registry, "total", "f64[3]", np.ones(3)), [1, 2, 3])
    for name, symbol in symbols.items():
        registry.register_symbol(name, symbol, "(f64[], f64[]) -> f64[2]")
        result = call(registry, name, "f64[2]", np.array(1.0), np.array(2.0))
        np.testing.assert_array_equal(result, [2, 1])
        with pytest.raises(ShapeError):
            call(registry, name, "f64[1000]", np.array(1.0), np.array(2.0))


def test_a_symbol_with_a_tuple_gets_a_pointer_for_each_array() -> None:
    kind = ctypes.CFUNCTYPE(None, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_void_p))

    @kind
    def split(out: Any, ins: Any) -> None:
        for number in range(2):
            ctypes.memmove(out[number], ins[0] + 4 * number, 4)

    registry = CustomCallRegistry()
    registry.register_symbol("split", split, "(f32[2]) -> (f32[], f32[1])")
    first, second = call(registry, "split", "(f32[], f32[1])", np.float32([1, 2]))
    assert (first, second) == (1, 2)
    with pytest.raises(ValueError, match="address"):
        registry.register_symbol("null", 0, "() -> f32[]")
