"""The numba source of kernels for a GPU, compiled by numba's own front end for the host.

Barriers, shuffles and shared arrays are declared functions: a processor has no code for them.
"""

from typing import Any

from llvmlite import ir
from numba import types

from tests.cuda_twin.device.twin import DEVICE, HOST
from tests.numba_front_end import ARGUMENTS, compile_object
from xla_server.codegen.gpu.emit.instructions import instructions
from xla_server.codegen.gpu.grid import GridKernel
from xla_server.codegen.instructions.constants import CONSTANTS
from xla_server.codegen.instructions.instruction import instruction_of
from xla_server.codegen.instructions.memory import COMPUTED, REGISTERS


def object_of(grid: GridKernel) -> bytes:
    """Return object code of a kernel's source. Raises numba's errors for what does not compile."""
    shuffles = {f"exchange_{kind}": kind for kind in COMPUTED}
    names = {
        **CONSTANTS,
        **instructions(DEVICE),
        "barrier": _declared("barrier", None),
        "shared_array": _declared("shared_array", "i64", "i64"),
        "watch_i64": _declared("watch_i64", "i64", "i64"),
        **{name: _declared(name, kind, kind, "i64") for name, kind in shuffles.items()},
    }
    exec(compile(grid.text, "<kernel>", "exec"), names)
    return compile_object(names["kernel"], ARGUMENTS, "kernel", HOST)


def _declared(name: str, result: str | None, *operands: str) -> Any:
    """Return a function of another module as an instruction, by the types of kernels."""
    form = REGISTERS[result] if result else ir.VoidType()
    declared = ir.FunctionType(form, [REGISTERS[kind] for kind in operands])

    def code(builder: Any, *given: Any) -> Any:
        function = builder.module.globals.get(name) or ir.Function(builder.module, declared, name)
        found = builder.call(function, given)
        return found if result else None

    computed = COMPUTED[result] if result else types.void
    return instruction_of(computed(*(COMPUTED[kind] for kind in operands)))(code)
