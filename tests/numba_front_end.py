"""numba's own front end on functions that call instructions of kernels: an oracle of their meaning.

The server compiles the same functions, and kernels, without it.
"""

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from numba import types
from numba.core import compiler, registry
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler_lock import global_compiler_lock
from numba.core.datamodel import models

from xla_server.codegen.compiler import kernel_compiler
from xla_server.codegen.instructions.instruction import Instruction
from xla_server.codegen.kernel_ir.effort import Effort
from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.codegen.namespace import vocabulary
from xla_server.target.machine import Machine

ARGUMENTS = (types.int64, types.int64, types.int64)
"""The types of a kernel's parameters."""


class InstructionType(types.Callable, types.Opaque):  # type: ignore[misc]
    """The type of one instruction: every one has its own, as functions do in numba."""

    def __init__(self, instruction: Instruction) -> None:
        self._instruction = instruction
        self._told: set[Any] = set()
        super().__init__(f"Instruction({instruction.__name__} at {id(instruction):#x})")

    @property
    def key(self) -> Any:
        """The instruction."""
        return self._instruction

    def get_call_type(self, context: Any, args: Sequence[Any], kws: Any) -> Any:
        """Return the signature of a call, and tell numba its code."""
        found = self._instruction.signature(context, tuple(map(types.unliteral, args)))
        if found.args not in self._told:
            self._told.add(found.args)
            code = _Implementation(self._instruction.code(found))
            target = registry.cpu_target.target_context
            target.insert_func_defn([(code, self._instruction, found.args)])
        return found

    def get_call_signatures(self) -> tuple[list[Any], bool]:
        """Return what numba says in its messages about wrong calls."""
        return [], True

    def get_impl_key(self, sig: Any) -> Instruction:
        """Return what the code of each signature is registered under."""
        return self._instruction


class _Implementation:
    """Code as numba calls it."""

    __signature__ = inspect.signature(lambda context, builder, sig, args, loc=None: None)

    def __init__(self, generate: Any) -> None:
        self._generate = generate

    def __call__(self, context: Any, builder: Any, sig: Any, args: Any, loc: Any = None) -> Any:
        return self._generate(context, builder, sig, args)


models.register_default(InstructionType)(models.OpaqueModel)
_TYPES: dict[Instruction, InstructionType] = {}


def _type_of(instruction: Instruction) -> InstructionType:
    return _TYPES.setdefault(instruction, InstructionType(instruction))


# numba asks an object for its type by this name.
Instruction._numba_type_ = property(_type_of)  # type: ignore[attr-defined]


class _Library(JITCodeLibrary):  # type: ignore[misc]
    """A function and what it calls, before LLVM has changed anything."""

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout

    def object_code(self, entry: str, symbol: str, machine: Machine) -> bytes:
        """Return the object code of the function `entry`, under the name of `symbol`."""
        module = self._final_module
        for library in dict.fromkeys(self._linking_libraries):
            module.link_in(library._get_module_for_linking(), preserve=True)
        for value in (*module.functions, *module.global_variables):
            if not value.is_declaration and value.name != entry and value.name[:5] != "llvm.":
                value.linkage = "internal"
        module.get_function(entry).name = symbol
        generator = kernel_compiler.target_machine(machine)
        kernel_compiler.run_passes(module, machine, Effort.OPTIMISED, generator)
        code: bytes = generator.emit_object(module)
        return code


def compile_object(
    function: Callable[..., Any], arguments: Sequence[Any], symbol: str, machine: Machine
) -> bytes:
    """Return the object code of a function of these numba types, as `symbol`."""
    flags = compiler.Flags()
    flags.no_cpython_wrapper = flags.no_cfunc_wrapper = flags.no_compile = True
    flags.nrt = False
    flags.error_model = "numpy"
    with global_compiler_lock:
        target = registry.cpu_target
        library = _Library(target.target_context.codegen(), "kernel")
        result = compiler.compile_extra(
            target.typing_context,
            target.target_context,
            function,
            tuple(arguments),
            None,
            flags,
            {},
            library=library,
        )
        return library.object_code(result.fndesc.llvm_func_name, symbol, machine)


def kernel_object(kernel: Kernel, symbol: str, machine: Machine) -> bytes:
    """Return the object code of a kernel's source."""
    names = dict(vocabulary(machine).names)
    exec(compile(kernel.text, "<kernel>", "exec"), names)
    return compile_object(names["kernel"], ARGUMENTS, symbol, machine)
