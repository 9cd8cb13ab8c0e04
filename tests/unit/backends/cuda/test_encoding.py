"""Code and its assignment as thunks over slots, which a worker walks."""

import dataclasses

import numpy as np

from tests.unit.backends.cuda.programs import PLAN, code, copy, grid, launch, library, python, value
from xla_server.backends.cuda.encoding import Encoded, encode
from xla_server.backends.cuda.host_steps import placed_thunks
from xla_server.backends.cuda.toolchain import symbol_of
from xla_server.backends.cuda.worker.exchange import protocol
from xla_server.backends.cuda.worker.exchange.protocol import DeviceKernel
from xla_server.buffers.assignment import assign
from xla_server.buffers.code import CANCELLATION, Branch, Code, Jump, Label, Switch
from xla_server.codegen.gpu.emit.device_module import DeviceModule

a, b, c, d, e = map(value, "abcde")
ONE, OTHER = DeviceModule(b"one"), DeviceModule(b"other")
ACCESSED = (0, 1), (0, 1, 2), (2, 0)
MODULES = {
    grid(items, *accessed).key: module
    for items, module in ((4, ONE), (5, OTHER))
    for accessed in ACCESSED
}


def encoded(written: Code, donated: frozenset[int] = frozenset()) -> Encoded:
    return encode(written, placed_thunks(written), assign(written, donated), MODULES)


def test_slots_are_parameters_results_constants_and_the_arena() -> None:
    constants = {d: np.float32([1, 2, 3, 4]), e: np.float32([5, 6, 7, 8])}
    thunks = [launch(c, a, d), launch(b, c), python(a, a)]
    program = encoded(code(thunks, [a], [b], constants=constants)).program
    # Only constants that a thunk of the device reads have a slot.
    assert program.constants == (np.float32([1, 2, 3, 4]).tobytes(),)
    assert (program.parameter_count, program.results) == (1, (16,))
    assert (program.arena_offsets, program.arena_bytes) == ((0,), 64)
    assert program.thunks[:2] == (protocol.Launch(0, (0, 2, 3)), protocol.Launch(1, (3, 1)))


def test_equal_kernels_are_one_and_each_is_found_in_its_module() -> None:
    thunks = [launch(b, a), launch(c, b, items=5), launch(d, c)]
    program = encoded(code(thunks, [a], [d])).program
    assert program.modules == (b"one", b"other")
    one, other = (symbol_of(grid(items, 0, 1).key) for items in (4, 5))
    assert program.kernels == (DeviceKernel(0, one, 1, 256), DeviceKernel(1, other, 1, 256))
    assert [thunk.kernel for thunk in program.thunks if isinstance(thunk, protocol.Launch)] == [
        0,
        1,
        0,
    ]


def test_a_launch_has_the_buffers_that_its_kernel_accesses() -> None:
    """An array without elements is an argument of no access."""
    thunk = dataclasses.replace(launch(c, a, b), kernel=grid(4, 2, 0))
    program = encoded(code([thunk], [a, b], [c])).program
    assert program.thunks == (protocol.Launch(0, (2, 0)),)


def test_libraries_have_their_plan_and_copies_their_bytes() -> None:
    thunks = [library(b, a), copy(c, a)]
    program = encoded(code(thunks, [a], [b, c])).program
    assert program.thunks == (
        protocol.LibraryCall(PLAN, (0, 1)),
        protocol.Copy(2, 0, 16),
    )


def test_copies_to_the_same_memory_are_left_out() -> None:
    thunks = [launch(b, a), copy(c, b), launch(d, c)]
    program = encoded(code(thunks, [a], [d])).program
    assert [type(thunk) for thunk in program.thunks] == [protocol.Launch, protocol.Launch]


def test_jumps_go_to_thunks() -> None:
    begin, end = Label("begin"), Label("end")
    p, n = value("p", "pred[]"), value("n", "s32[]")
    thunks = [
        *(begin, launch(b, a), Branch(p, end), Jump(begin), Switch(n, (begin, end)), end),
        launch(c, b),
    ]
    program = encoded(code(thunks, [a, p, n], [c])).program
    assert program.thunks == (
        protocol.Launch(0, (0, 4)),
        protocol.Branch(1, 4),
        protocol.Jump(0),
        protocol.Switch(2, (0, 4)),
        protocol.Launch(0, (4, 3)),
    )


def test_a_label_at_the_end_is_the_number_of_thunks() -> None:
    end, p = Label("end"), value("p", "pred[]")
    thunks = [launch(b, a), Branch(p, end), launch(b, a), end]
    program = encoded(code(thunks, [a, p], [b])).program
    assert program.thunks[1] == protocol.Branch(1, 3)
    assert len(program.thunks) == 3


def test_steps_have_numbers_and_the_slots_of_their_values() -> None:
    thunks = [python(b, a), launch(c, b), python(d, c)]
    found = encoded(code(thunks, [a], [d]))
    assert [thunk for thunk in found.program.thunks if isinstance(thunk, protocol.HostStep)] == [
        protocol.HostStep(0),
        protocol.HostStep(1),
    ]
    (first, first_slots), (second, second_slots) = found.steps
    assert (first.code.thunks, second.code.thunks) == ([thunks[0]], [thunks[2]])
    assert (first_slots, second_slots) == ({a: 0, b: 2}, {c: 3, d: 1})


def test_results_may_be_parameters_and_constants() -> None:
    found = encoded(code([launch(b, a)], [a], [a, b, c], constants={c: np.float32([1, 2, 3, 4])}))
    assert (found.results, found.constants) == ((1,), (0,))
    assert found.program.constants == (np.float32([1, 2, 3, 4]).tobytes(),)


def test_donated_parameters_are_written_over() -> None:
    found = encoded(code([copy(b, a), launch(b, b)], [a], [b]), frozenset({0}))
    assert (found.program.thunks, found.results) == ((protocol.Launch(0, (0, 0)),), ())


def test_a_kernel_that_polls_gets_the_cancellation_word_behind_all_arrays() -> None:
    thunk = dataclasses.replace(launch(b, a, CANCELLATION), reads=(a,))
    assert encoded(code([thunk], [a], [b])).program.thunks == (protocol.Launch(0, (0, 2, 1)),)
