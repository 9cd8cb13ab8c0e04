"""Classes of kernels: what the compiler can emit, by its source, and what golden programs hold.

A class is a class of rows, a schedule of loop nests, a function that makes a kernel, a family of
routines that kernels call (its name without types and sizes), or one of LAPACK's routines.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import get_args

import pytest
from numba.core.dispatcher import Dispatcher

from tests.golden.kernels import PROGRAMS, WIDTHS
from tests.processors import MACHINES
from xla_server import codegen
from xla_server.backends.compiled.compilation import compile_module
from xla_server.buffers.code import Code, Thunk
from xla_server.codegen.compiler.shared_functions import SharedFunction
from xla_server.codegen.functions.called_functions import CALLED, WITH_BRANCHES
from xla_server.codegen.instructions.lapack import ROUTINES
from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.codegen.kernel_ir.statements import Call
from xla_server.codegen.kernel_ir.walk import walk
from xla_server.codegen.lower.loop_nests import loop_kernel
from xla_server.codegen.lower.lowering import kernels_of
from xla_server.codegen.namespace import vocabulary
from xla_server.codegen.schedules import table as schedules
from xla_server.codegen.schedules.builders.launches.scheduled import ScheduledKernel
from xla_server.codegen.schedules.table import SCHEDULES, ElementGraph, Schedule
from xla_server.ir.module import HloModule
from xla_server.ir.text.parser import parse_module
from xla_server.target.target import Target

ROOT = Path(codegen.__file__).parent
MAKERS = ("lower", "loops")
"""Packages whose functions make kernels for processors."""
_MADE = re.compile(r"KernelThunk|(?!Loop|Scheduled)\w*Kernel")
"""Calls that make a kernel, its builder or its thunk; records of what was made are none."""
_SIZES = re.compile(r"_(?:[a-z]?\d+(?:x\d+)?)(?=_|$)")
_LAPACK = {"he": "sy", "un": "or"}
"""Names of LAPACK for complex matrices, by those for real ones that do the same."""


def emitted() -> Iterator[str]:
    """Yield every class that the compiler can emit, from its source and its tables."""
    yield from (f"thunk {kind.__name__}" for kind in get_args(Thunk))
    yield from (f"schedule {schedule.name}" for schedule in SCHEDULES)
    for package in MAKERS:
        for path in sorted((ROOT / package).rglob("*.py")):
            for name in _makers(ast.parse(path.read_text())):
                yield f"maker {path.relative_to(ROOT)} {name}"
    for name, function in vocabulary(MACHINES[WIDTHS[0]]).names.items():
        is_elementary = name in CALLED or name in WITH_BRANCHES
        if isinstance(function, SharedFunction | Dispatcher) and not is_elementary:
            yield f"routine {_family(name)}"
    yield from (f"routine {_family(name)}" for name in ROUTINES)


def _makers(tree: ast.AST, outside: str = "") -> Iterator[str]:
    """Yield the qualified names of functions that make kernels."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef):
            name = f"{outside}{node.name}"
            if any(map(_makes, ast.walk(node))):
                yield name
        elif isinstance(node, ast.ClassDef):
            yield from _makers(node, f"{outside}{node.name}.")


def _makes(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Name(id=name)):
            return _MADE.fullmatch(name) is not None
        # One function takes it as a value.
        case ast.Name(id="kernel_thunk"):
            return True
    return False


def _family(routine: str) -> str:
    if routine in ROUTINES:
        name = routine[1:]
        return f"LAPACK {_LAPACK.get(name[:2], name[:2])}{name[2:]}"
    return _SIZES.sub("", routine)


def held(program: str) -> Iterator[str]:
    """Yield the classes that a golden program holds, for processors of any width."""
    module = parse_module(PROGRAMS[program].read_text())
    for width in WIDTHS:
        called: set[CodeType] = set()
        used: set[str] = set()
        code = _compiled(module, Target.of(MACHINES[width]), called, used)
        yield from (f"schedule {name}" for name in used)
        for each in called:
            path = Path(each.co_filename)
            if path.is_relative_to(ROOT):
                yield f"maker {path.relative_to(ROOT)} {each.co_qualname}"
        yield from (f"thunk {type(thunk).__name__}" for thunk in code.thunks)
        for thunk in kernels_of(code):
            assert isinstance(thunk.kernel, Kernel)
            for statement, _ in walk(thunk.kernel.body):
                if isinstance(statement, Call):
                    yield f"routine {_family(statement.routine.name)}"


def _compiled(module: HloModule, target: Target, called: set[CodeType], used: set[str]) -> Code:
    """Compile a module; add the functions that are called, and the schedules that fit."""

    def scheduled_by(graph: ElementGraph) -> tuple[Schedule, ScheduledKernel]:
        schedule, kernel = schedules.scheduled_by(graph)
        used.add(schedule.name)
        return schedule, kernel

    def record(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            called.add(frame.f_code)

    before = sys.getprofile()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop_kernel, "scheduled_by", scheduled_by)
        sys.setprofile(record)
        try:
            return compile_module(module, target=target).code
        finally:
            sys.setprofile(before)
