"""Long, wide and deeply nested programs on both platforms, against known answers.

`make depth` runs them at full size; otherwise sizes are those of a slice, for which
Python's stack has no room if something takes several calls for each.
"""

import functools
import os
from collections.abc import Callable
from typing import Any

import pytest

from tests.depth.cases import Case
from tests.depth.chains import CHAINS, mixed, stacked
from tests.depth.dynamic_nesting import DYNAMIC_NESTING
from tests.depth.nesting import NESTING
from tests.executing import execute
from tests.unit.codegen.compiled import on_cpu
from xla_contract.types.literal import Literal
from xla_server.backends.interpreter import Interpreter
from xla_server.ir.importer import import_module
from xla_server.ir.module import HloModule

IS_FULL = os.environ.get("DEPTH") == "full"
CHAIN = 20_000 if IS_FULL else 300
STACK = 5_000 if IS_FULL else 400
NESTED = 500 if IS_FULL else 130
MIXED = 50_000 if IS_FULL else 1_000

INTERPRETER = Interpreter()


def on_interpreter(module: HloModule, arguments: tuple[Any, ...]) -> list[Any]:
    executable = INTERPRETER.compile(module, module.entry_program_shape)
    device = INTERPRETER.devices[0]
    placed = [INTERPRETER.to_device(Literal.from_numpy(each), device) for each in arguments]
    output: Any = execute(executable, device, placed).output
    return [output.literal.value]


PLATFORMS = {"cpu": on_cpu, "interpreter": on_interpreter}

pytestmark = pytest.mark.parametrize("run", PLATFORMS.values(), ids=PLATFORMS)


@functools.lru_cache(maxsize=1)
def made(make: Callable[[int], Case], size: int) -> Case:
    """Return a program with its answer, once for both platforms, whose tests follow each other."""
    return make(size)


def check(case: Case, run: Callable[..., list[Any]]) -> None:
    case.check(run(import_module(case.computation.proto), case.arguments))


@pytest.mark.parametrize("name", CHAINS)
def test_chain(name: str, run: Callable[..., list[Any]]) -> None:
    check(made(CHAINS[name].case, CHAIN), run)


@pytest.mark.parametrize("name", NESTING)
def test_nesting(name: str, run: Callable[..., list[Any]]) -> None:
    check(made(NESTING[name], NESTED), run)


@pytest.mark.parametrize("name", DYNAMIC_NESTING)
def test_nesting_of_dynamic_shapes(name: str, run: Callable[..., list[Any]]) -> None:
    check(made(DYNAMIC_NESTING[name], NESTED), run)


def test_stack(run: Callable[..., list[Any]]) -> None:
    check(made(stacked, STACK), run)


def test_many_instructions_of_many_classes(run: Callable[..., list[Any]]) -> None:
    check(made(mixed, MIXED), run)
