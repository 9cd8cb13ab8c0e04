"""The decorator that makes an instruction of kernels.

It is numba's `intrinsic` without what makes that slow: numba looks through all its registries
for each call of an intrinsic, which was a fifth of the time a kernel took to compile.
"""

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from numba import types
from numba.core.datamodel import models
from numba.core.registry import cpu_target

Generate = Callable[[Any, Any, Any, Sequence[Any]], Any]
"""generate(context, builder, signature, args): the LLVM value of the result."""

Define = Callable[..., tuple[Any, Generate]]
"""Function from a typing context and the operands' numba types to a signature and its code."""


class Instruction:
    """An operation that kernels call."""

    def __init__(self, define: Define) -> None:
        self._define = define
        self._signatures: dict[tuple[Any, ...], Any] = {}
        self._codes: dict[tuple[Any, ...], Generate] = {}
        self.__name__ = define.__name__
        self.__doc__ = define.__doc__
        self._numba_type_ = InstructionType(self)

    def signature(self, context: Any, operands: tuple[Any, ...]) -> Any:
        """The signature for operands of these types, whose code is told to numba."""
        found = self._signatures.get(operands)
        if found is None:
            found, generate = self._define(context, *operands)
            # Operands of several types may be converted to those of one signature.
            if all(known.args != found.args for known in self._signatures.values()):
                target = cpu_target.target_context
                target.insert_func_defn([(_Implementation(generate), self, found.args)])
                self._codes[found.args] = generate
            self._signatures[operands] = found
        return found

    def code(self, signature: Any) -> Generate:
        """Return the code generator of a signature that `signature` returned."""
        return self._codes[signature.args]


class InstructionType(types.Callable, types.Opaque):  # type: ignore[misc]
    """The type of one instruction: every one has its own, as functions do in numba."""

    def __init__(self, instruction: Instruction) -> None:
        self._instruction = instruction
        super().__init__(f"Instruction({instruction.__name__} at {id(instruction):#x})")

    @property
    def key(self) -> Any:
        """Return the key by which numba compares types."""
        return self._instruction

    def get_call_type(self, context: Any, args: Sequence[Any], kws: Any) -> Any:
        """The signature of a call; called by numba."""
        return self._instruction.signature(context, tuple(map(types.unliteral, args)))

    def get_call_signatures(self) -> tuple[list[Any], bool]:
        """Return the signatures that numba's messages about wrong calls list."""
        return [], True

    def get_impl_key(self, sig: Any) -> Instruction:
        """Return the key under which numba registers the code of each signature."""
        return self._instruction


class _Implementation:
    """Code as numba calls it, with the signature that it would else inspect at each call."""

    __signature__ = inspect.signature(lambda context, builder, sig, args, loc=None: None)

    def __init__(self, generate: Generate) -> None:
        self._generate = generate

    def __call__(self, context: Any, builder: Any, sig: Any, args: Any, loc: Any = None) -> Any:
        return self._generate(context, builder, sig, args)


models.register_default(InstructionType)(models.OpaqueModel)


def instruction(define: Define) -> Any:
    """An instruction from `define(typing_context, *operands) -> (signature, generate)`."""
    return Instruction(define)


def instruction_of(signature: Any, generate: Generate) -> Any:
    """An instruction of one signature, to whose operands all others are converted."""

    def define(_: Any, *operands: Any) -> tuple[Any, Generate]:
        check_count(signature, operands)
        return signature, generate

    return Instruction(define)


def check_count(signature: Any, operands: Sequence[Any]) -> None:
    """Raises TypeError where an instruction is called with more or fewer operands than it has."""
    count = len(signature.args)
    if len(operands) != count:
        raise TypeError(f"an instruction must have {count} operands, got {len(operands)}")
