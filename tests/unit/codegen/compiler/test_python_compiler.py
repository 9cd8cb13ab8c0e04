"""Kernels compiled without numba's front end mean what they mean to numba."""

import ctypes
import gc
import threading

import numpy as np
import pytest
from numba import njit

from tests.fault.plain import until
from tests.numba_front_end import ARGUMENTS, compile_object
from tests.processors import HOST
from tests.sources import source_module
from tests.unit.waiting import is_in
from xla_server.codegen.compiler import python_compiler
from xla_server.codegen.compiler.kernel_compiler import object_of_module
from xla_server.codegen.compiler.loader import Loader
from xla_server.codegen.compiler.python_compiler import function_module
from xla_server.codegen.compiler.python_values import UnsupportedError
from xla_server.codegen.namespace import vocabulary

NAMES = vocabulary(HOST).names
_peek, _poke = NAMES["peek_i64"], NAMES["poke_i64"]
_THREE = 3


def _adder(number):
    @njit
    def added(x, wanted):
        """Imports that a function's text may need before its statements."""
        if not wanted:
            return x
        return x + number

    return added


@njit
def _smaller_first(x, y):
    if x > y:
        x, y = y, x
    return x, y


@njit
def _filled(b, count, value):
    for i in range(count):
        if i == _THREE:
            return
        _poke(b, i, value)


@njit
def _first_above(b, count, least):
    for i in range(count):
        if _peek(b, i) > least:
            return i
    return -1


@njit  # noqa: RET503
def _at_times(b):
    if _peek(b, 0) > 0:
        return 1


@njit
def _endless(x):
    return _endless(x) + 1


@njit
def _sorted_words(words, workspace, length):
    if length > 2:
        for first in range(length):
            at = first
            while at > 0 and _peek(words, at - 1) > _peek(words, at):
                below = _peek(words, at - 1)
                _poke(words, at - 1, _peek(words, at))
                _poke(words, at, below)
                at -= 1
        return words
    for first in range(length):
        _poke(workspace, length - 1 - first, _peek(words, first))
    words, workspace = workspace, words
    return words


FUNCTIONS = {
    "smaller_first": _smaller_first,
    "filled": _filled,
    "first_above": _first_above,
    "added": _adder(5),
    "at_times": _at_times,
    "endless": _endless,
    "sorted_words": _sorted_words,
}
HEAD = "def kernel(buffers, start, stop):\n    b = peek_i64(buffers, 0)\n"

DIRECT = {
    "range": "for i in range(start, stop):\n    poke_i64(b, i, i * i - 3 + start)",
    "nested": "for i in range(stop):\n    for j in range(i):\n        poke_i64(b, j, add(i, j))",
    "empty range": "for i in range(stop, start):\n    poke_i64(b, i, 1)",
    "counter changed": "n = 0\nfor i in range(stop):\n    i = i + 1\n    poke_i64(b, n, i)\n"
    "    n += 1",
    "while": "n = stop\nwhile gt(n, start):\n    n = n - 1\n    poke_i64(b, n, -5)",
    "break": "for i in range(stop):\n    if i > 5:\n        break\n    poke_i64(b, i, 7)",
    "continue": "for i in range(stop):\n    if i == 3:\n        continue\n    poke_i64(b, i, 7)",
    "if": "if start < stop:\n    x = 1\nelse:\n    x = 2\npoke_i64(b, 0, x)",
    "return": "poke_i64(b, 0, 1)\nif stop != 0:\n    return\npoke_i64(b, 1, 2)",
    "after return": "while eq(0, 0):\n    return\npoke_i64(b, 0, 1)",
    "global shadowed": "k0 = stop\npoke_i64(b, 0, k0)",
    "constants": "poke_f32(b, 0, k1)\npoke_f32(b, 1, k2)\npoke_i32(b, 2, k3)\npoke_b1(b, 12, k4)",
    "wrapping": "poke_i64(b, 0, (stop + 9223372036854775807) * 3)",
    "range with a step": "for i in range(0, 10, 3):\n    poke_i64(b, i, i)",
    "range downwards": "n = 0\nfor i in range(stop, -1, -2):\n    poke_i64(b, n, i)\n    n += 1",
    "range of one trip": "for i in range(3, 4):\n    for j in range(2):\n        poke_i64(b, i, j)",
    "short range left early": "for i in range(6):\n    if i > start:\n        break\n"
    "    poke_i64(b, i, 7)",
    "largest and smallest": "poke_i64(b, 0, max(start, stop, 5) * 100 + min(start, stop))",
    "rounded down": "for i in range(10):\n    poke_i64(b, i, (i - 5) // 3)",
    "bits": "poke_i64(b, 0, stop | 64)",
    "less": "n = stop\nn -= 3\npoke_i64(b, 0, -n)",
    "choice": "poke_i64(b, 0, 1 if stop > 3 else 2)\npoke_i64(b, 1, start if stop < 3 else stop)",
    "known choice": "poke_i64(b, 0, 1 if True else stop)\nif 2 < 1:\n    poke_i64(b, 1, 1)",
    "and, or, not": "for i in range(9):\n    if not (i < 2 or i > 4 and i != 6) or i == 1:\n"
    "        poke_i64(b, i, 1)",
    "not asked further": "for i in range(9):\n"
    "    if i < 4 and peek_i64(peek_i64(buffers, 0), i) == 99:\n        poke_i64(b, i, 1)",
    "number as truth": "n = 3\nwhile n:\n    n -= 1\n    poke_i64(b, n, n + 5)",
    "for ever": "n = 0\nwhile True:\n    n += 1\n    if n > 5:\n        break\npoke_i64(b, 0, n)",
    "narrow numbers": "x = peek_i8(peek_i64(buffers, 1), 2)\nif x == 2:\n"
    "    poke_i64(b, 0, x + int(peek_i32(b, 3)))",
    "narrow in wide": "x = stop\nx = peek_i32(peek_i64(buffers, 1), 1)\npoke_i64(b, 0, x)",
    "tuple": "x, y = stop, start\nx, y = y, x + y\npoke_i64(b, 0, x)\npoke_i64(b, 1, y)",
    "kept tuple": "x = stop, start\nfor i in range(2):\n    y, z = x\n    poke_i64(b, i, z)",
    "used behind the loop": "for i in range(stop):\n    x = i * 2\npoke_i64(b, 0, x)\n"
    "poke_i64(b, 1, i)",
    "used in the next trip": "y = 3\nfor i in range(stop):\n    if i > 0:\n"
    "        poke_i64(b, i, y)\n    y = i + 5",
    "tuple of an instruction": "x, y = philox(to_u64(3), to_u64(stop), to_u64(9))\n"
    "poke_u64(b, 0, y)",
    "instruction of several blocks": "x = watch_i64(b)\npoke_i64(b, 0, x + stop)",
    "tuple from a function": "x, y = smaller_first(stop, start)\npoke_i64(b, x, y)",
    "tuple of two kinds": "x, y = stop, k1\npoke_f32(b, x, y)",
    "function without result": "filled(b, stop, 4)\npoke_i64(b, 9, 8)",
    "loop that returns": "poke_i64(b, 5, 100)\npoke_i64(b, 0, first_above(b, stop, 99))\n"
    "poke_i64(b, 1, first_above(b, stop, 200))",
    "function of a function": "poke_i64(b, 0, added(start, True) + added(stop, False))\n"
    "poke_i64(b, 1, added(start, stop > 3))",
    "sort": "for i in range(16):\n    poke_i64(b, i, i * 3 - i * i // 2)\n"
    "poke_i64(b, 15, sorted_words(b, b, 7) - b)\n"
    "poke_i64(b, 14, sorted_words(b, b + 80, 2) - b)",
    **{
        f"{source} to {target}": f"for i in range(stop):\n"
        f"    poke_{target}(b, i, to_{target}(peek_{source}(peek_i64(buffers, 1), i)))"
        for source in ("i8", "u8", "i64", "u64", "f32", "f64", "b1")
        for target in ("i8", "u8", "i32", "u64", "f32", "f64", "b1")
    },
}

GLOBALS = """k0 = i64(5)
k1 = f32(0x80000000)
k2 = f32(0x7fc00001)
k3 = i32(-7)
k4 = b1(1)
"""


def _source(body):
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    return f"{GLOBALS}{HEAD}{lines}"


def _names(source):
    namespace = {**NAMES, **FUNCTIONS}
    exec(source, namespace)
    return namespace


def _ran(code, symbol):
    """Return the contents of the first buffer after a call."""
    first, second = np.full(16, 99, np.int64), np.zeros(64, np.int64)
    second.view(np.uint8)[:64] = np.arange(64) % 3
    table = np.array([first.ctypes.data, second.ctypes.data], np.int64)
    pointer = ctypes.c_void_p
    loader = Loader(HOST)
    call = ctypes.CFUNCTYPE(ctypes.c_int32, pointer, pointer, *[ctypes.c_int64] * 3)
    nothing = np.zeros(2, np.int64).ctypes
    call(loader.load(code, symbol))(nothing.data, nothing.data, table.ctypes.data, 2, 11)
    return first


@pytest.mark.parametrize("body", DIRECT.values(), ids=DIRECT.keys())
def test_it_means_what_it_means_to_numba(body):
    source = _source(body)
    names = _names(source)
    direct = object_of_module(source_module(source, names), HOST)
    expected = compile_object(names["kernel"], ARGUMENTS, "numbas", HOST)
    np.testing.assert_array_equal(_ran(direct, "kernel"), _ran(expected, "numbas"))


@pytest.mark.parametrize(
    "body",
    [
        "x = 1\nx = k1",
        "poke_i64(b, 0, stop // start)",
        "poke_i64(b, 0, stop / 2)",
        "poke_i64(b, 0, max(start, k3))",
        "for i in range(0, 10, stop):\n    poke_i64(b, i, i)",
        "for i in (1, 2):\n    poke_i64(b, i, i)",
        "poke_f64(b, 0, stop)",
        "poke_i64(b, 0, 1 if stop > 1 else k1)",
        "poke_i64(b, 0, stop if start and stop else 0)",
        "poke_i64(b, 0, peek_u8(b, 0) + peek_u8(b, 1))",
        "poke_i64(b, 0, peek_u64(b, 0) + 1)",
        "poke_i64(b, 0, x)\nx = 1",
        "x, y = stop, start, stop",
        "x = stop, start\nx = start, stop",
        "x = (stop, start)[0]",
        "poke_i64(b, 0, (stop, start).first)",
        "poke_i64(b, 0, stop.real)",
        "x, y = (start, 7) if stop > 3 else (8, stop)",
        "poke_i64(b, 0, stop % 2)",
        "poke_i64(b, 0, stop & 6)",
        "poke_i64(b, 0, bool(stop))",
        "poke_i64(b, 0, i64(7))",
        "poke_i64(b, 0, at_times(b))",
        "poke_i64(b, 0, endless(1))",
        "added(1)",
        "unknown(1)",
        "b(1)",
        "return 1",
        "poke_i64(b, 0, 1 < stop < 3)",
    ],
)
def test_what_it_does_not_know_is_refused(body):
    source = _source(body)
    with pytest.raises(UnsupportedError):
        source_module(source, _names(source))


def test_functions_of_kernels_need_no_numba():
    calls = {
        "product_into_f32": "b, 2, False, b, 2, True, b, 2, 2, 2, 2, stop > 3",
        "sort_entries_1_4": "b, b, b, stop, b",
        "keep_entry": "b, 8, 9, 3",
        "sort_heap": "b, 8, b",
    }
    for name, operands in calls.items():
        source = _source(f"{name}({operands})")
        assert source_module(source, _names(source))


def test_only_plain_functions_of_python_have_a_text():
    with pytest.raises(UnsupportedError):
        function_module(lambda x: None, "symbol")
    namespace = {}
    exec("def function(x):\n    pass", namespace)
    with pytest.raises(UnsupportedError):
        function_module(namespace["function"], "symbol")


def test_threads_may_read_texts_at_the_same_time():
    source = "def kernel(buffers, start, stop):\n" + "    x = start + stop\n" * 200
    others = []

    def meanwhile(phase, info):
        # The collector runs Python in the middle of a parse, and with it other threads.
        if phase == "stop" and len(others) < 3:
            others.append(threading.Thread(target=python_compiler._parsed, args=("x = 1",)))
            others[-1].start()
            until(lambda: not others[-1].is_alive() or is_in(others[-1], "_parsed"))

    def parsed(depth):
        return parsed(depth - 1) if depth else python_compiler._parsed(source)

    thresholds = gc.get_threshold()
    gc.callbacks.append(meanwhile)
    gc.set_threshold(10)
    try:
        module = parsed(50)
    finally:
        gc.set_threshold(*thresholds)
        gc.callbacks.remove(meanwhile)
    for other in others:
        other.join()
    assert len(others) == 3
    assert len(module.body[0].body) == 200
