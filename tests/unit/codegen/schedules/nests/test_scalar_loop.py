"""Loops on scalars as one kernel: when registers change, and where they go."""

from collections.abc import Sequence

import numpy as np
import pytest

from tests.example_platform.walker import run
from tests.processors import TARGET
from xla_contract.types.element_type import ElementType
from xla_server.codegen.kernel_ir.analysis.verify import verify
from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.codegen.kernel_ir.statements import Stop
from xla_server.codegen.kernel_ir.walk import walk
from xla_server.codegen.schedules.builders.scalar_builder import Named
from xla_server.codegen.schedules.nests.scalar_loop import Register, ScalarLoop, scalar_loop_kernel
from xla_server.codegen.trace.graph import Apply, Immediate, Node, Store, reached
from xla_server.codegen.trace.kernel_types import KERNEL_TYPE
from xla_server.ir.analysis.affine import Affine
from xla_server.ir.traversal import in_post_order

S64, S4 = KERNEL_TYPE[ElementType.S64], KERNEL_TYPE[ElementType.S4]
STATE, RESULT, OUTPUT = range(3)
A, B, N = (Named(name, "i64") for name in ("a", "b", "n"))
ONE = Immediate.of("i64", 1)


def _apply(function: str, *operands: Node, kind: str = "i64") -> Apply:
    return Apply(function, operands, kind)


def _registers(*nexts: Node) -> list[Register]:
    """Return registers of a, b and n, which is never changed unless there is a third."""
    given = zip((A, B, N), (*nexts, None)[:3], strict=True)
    return [
        Register(each, S64, number, STATE, None if new is None else RESULT, new)
        for number, (each, new) in enumerate(given)
    ]


def _kernel(
    registers: Sequence[Register],
    condition: Node,
    stores: Sequence[Store] = (),
    cancellation: int | None = None,
) -> Kernel:
    roots = [condition, *(each.value for each in stores)]
    roots += [part.next for part in registers if part.next is not None]
    order = list(in_post_order(list(reached(roots)), lambda node: node.inputs()))
    kernel = scalar_loop_kernel(
        ScalarLoop(registers, condition, stores, order, cancellation, 4, TARGET)
    )
    verify(kernel)
    return kernel


def _ran(kernel: Kernel, *state: int) -> tuple[list[int], list[int]]:
    """Return the result of a run and what it stored besides."""
    memory = [np.array(state, np.int64), np.zeros(3, np.int64), np.zeros(4, np.int64)]
    run(kernel, [each.view(np.uint8) for each in memory], 0, 1)
    return memory[RESULT].tolist(), memory[OUTPUT].tolist()


def test_all_registers_change_after_all_that_is_next_is_known() -> None:
    # Fibonacci: a, b = b, a + b while b < n.
    kernel = _kernel(_registers(B, _apply("add", A, B)), _apply("lt", B, N, kind="b1"))
    assert kernel.items == 1
    result, _ = _ran(kernel, 0, 1, 100)
    assert result[:2] == [89, 144]


def test_registers_may_be_exchanged() -> None:
    swapped = _registers(B, A, _apply("sub", N, ONE))
    kernel = _kernel(swapped, _apply("gt", N, Immediate.of("i64", 0), kind="b1"))
    assert _ran(kernel, 7, 9, 3)[0] == [9, 7, 0]
    assert _ran(kernel, 7, 9, 4)[0] == [7, 9, 0]


def test_a_loop_that_does_not_turn_gives_what_it_was_given() -> None:
    kernel = _kernel(_registers(B, A), _apply("lt", N, N, kind="b1"))
    assert _ran(kernel, 7, 9, 3)[0] == [7, 9, 0]


def test_stores_have_the_values_before_the_change() -> None:
    counted = _registers(_apply("add", A, ONE), B)
    store = Store(OUTPUT, S64, Affine(2), A)
    kernel = _kernel(counted, _apply("lt", A, N, kind="b1"), [store])
    assert _ran(kernel, 0, 5, 8) == ([8, 5, 0], [0, 0, 7, 0])


def test_turns_beyond_the_test_of_the_flag_go_on() -> None:
    counted = _registers(_apply("add", A, ONE), B)
    # 16384 turns are between two tests: 2^16 additions of 4 each.
    kernel = _kernel(counted, _apply("lt", A, N, kind="b1"))
    assert _ran(kernel, 0, 5, 20_000)[0] == [20_000, 5, 0]


@pytest.mark.parametrize("cancellation", [None, 3])
def test_only_a_loop_with_a_flag_tests_it(cancellation: int | None) -> None:
    counted = _registers(_apply("add", A, ONE), B)
    kernel = _kernel(counted, _apply("lt", A, N, kind="b1"), cancellation=cancellation)
    stops = [each.flag.number for each, _ in walk(kernel.body) if isinstance(each, Stop)]
    assert stops == ([] if cancellation is None else [cancellation])


def test_elements_narrower_than_computed_are_converted_at_both_ends() -> None:
    narrow = Register(Named("a", "i8"), S4, 0, STATE, RESULT, Immediate.of("i8", 3))
    kernel = _kernel([narrow], _apply("lt", narrow.variable, Immediate.of("i8", 3), kind="b1"))
    assert "s4_to_i8(load_i8" in kernel.text
    assert "low_bits_s4(a)" in kernel.text
