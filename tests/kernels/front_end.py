"""Functions that numba's front end compiles while kernels of the corpora are, in a new process.

`python -m tests.kernels.front_end [CORPUS...]` prints each by its qualified name, and last how many
kernels, routines and functions of the runtime were compiled. The compiler of this project writes
LLVM itself: none of them is to be compiled by numba.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from numba.core import compiler, interpreter, typed_passes

from tests.command_line import command_line
from tests.kernels.corpora import CORPORA
from tests.processors import HOST, TARGET
from xla_server.backends.compiled.compilation import compile_module
from xla_server.codegen import kernel
from xla_server.codegen.compiler.python_compiler import function_module
from xla_server.codegen.lower.lowering import kernels_of
from xla_server.codegen.namespace import vocabulary
from xla_server.evaluator.dynamic_shapes import has_dynamic_shapes
from xla_server.runtime import executor, threads
from xla_server.runtime.native import copy_range

RUNTIME = (executor._run_all, threads._help, threads._stop, copy_range)
"""Functions of the runtime that are compiled to native code."""

_STAGES = (
    (interpreter.Interpreter, "interpret"),
    (typed_passes, "type_inference_stage"),
    (compiler.CompilerBase, "compile_extra"),
    (compiler.CompilerBase, "compile_ir"),
)
"""Ways into numba's front end: bytecode, types, and a compilation of either."""


@contextlib.contextmanager
def entries() -> Iterator[list[str]]:
    """Give a list to which each entry into numba's front end is added, by function or stage."""
    found: list[str] = []

    def counted(stage: Callable[..., Any]) -> Callable[..., Any]:
        def enter(*given: Any, **named: Any) -> Any:
            functions = (each for each in given if hasattr(each, "__qualname__"))
            found.append(next((each.__qualname__ for each in functions), stage.__qualname__))
            return stage(*given, **named)

        return enter

    stages = [(owner, name, getattr(owner, name)) for owner, name in _STAGES]
    for owner, name, stage in stages:
        setattr(owner, name, counted(stage))
    try:
        yield found
    finally:
        for owner, name, stage in stages:
            setattr(owner, name, stage)


def compiled(corpora: list[str]) -> tuple[int, int, int]:
    """Write the LLVM of kernels of corpora, of every routine and of the runtime; return counts."""
    keys = set()
    for corpus in corpora:
        for _, module in CORPORA[corpus]():
            if has_dynamic_shapes(module):
                continue
            for thunk in kernels_of(compile_module(module, target=TARGET).code):
                if thunk.kernel.key not in keys:
                    keys.add(thunk.kernel.key)
                    kernel.module_of(thunk.kernel, "kernel", HOST)
    routines = vocabulary(HOST).shared.values()
    for routine in routines:
        routine._module(HOST)
    for function in RUNTIME:
        function_module(function, "function")
    return len(keys), len(routines), len(RUNTIME)


if __name__ == "__main__":
    parser = command_line("tests.kernels.front_end", __doc__)
    parser.add_argument("corpora", metavar="corpus", nargs="*", help=f"of {', '.join(CORPORA)}")
    wanted = parser.parse_args().corpora or list(CORPORA)
    with entries() as functions:
        counts = compiled(wanted)
    print("\n".join([*functions, " ".join(map(str, counts))]))
