"""Routines and functions of the runtime that are Python functions are functions of numba.

numba's own front end compiles each of them, as the compiler of function text does.
"""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from numba import types
from numba.core.dispatcher import Dispatcher

from tests.conformance.sweep.draws.depth import FULL
from tests.numba_front_end import compile_object
from tests.processors import HOST
from xla_server.codegen.compiler.kernel_compiler import object_of_module
from xla_server.codegen.compiler.python_compiler import function_module
from xla_server.codegen.compiler.shared_functions import PythonFunction
from xla_server.codegen.kernel_ir.routine import arguments_of
from xla_server.codegen.namespace import vocabulary
from xla_server.runtime import executor, threads
from xla_server.runtime.encoding import copy_range


def _functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    for function in (executor._run_all, threads._help, threads._stop, copy_range):
        yield function.__name__, function
    for name, found in vocabulary(HOST).names.items():
        if isinstance(found, PythonFunction):
            yield name, found.function
        # Those of other types differ in the names of what they call.
        elif isinstance(found, Dispatcher) and name.endswith("_c64"):
            yield name, found.py_func


FUNCTIONS = dict(_functions())

SLICE = ("_run_all", "_stop", "fill_64", "concatenate_bytes", "exact_sums_f32", "product_into_c64")
"""Functions of each kind; numba's front end takes seconds for each of them."""


@pytest.mark.parametrize("name", FUNCTIONS if FULL else SLICE)
def test_both_compilers_take_it(name: str) -> None:
    function = FUNCTIONS[name]
    words = itertools.repeat(types.int64)
    operands = arguments_of(function, words, types.BaseTuple.from_types)
    assert compile_object(function, operands, "numbas", HOST)
    known = vocabulary(HOST).names.get(name)
    if isinstance(known, PythonFunction):
        assert known.object_code(HOST)
    else:
        assert object_of_module(function_module(function, "own"), HOST)


def test_there_are_functions_of_each_kind() -> None:
    assert {*SLICE, "cholesky_c64"} <= FUNCTIONS.keys()
