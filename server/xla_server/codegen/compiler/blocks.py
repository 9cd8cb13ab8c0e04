"""Writer of LLVM IR by basic blocks, with the instructions of kernels."""

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba import types
from numba.core.errors import NumbaNotImplementedError
from numba.core.registry import cpu_target

from xla_server.codegen.compiler.python_values import (
    WORD,
    Typed,
    UnsupportedError,
    from_registers,
    in_registers,
)
from xla_server.codegen.instructions.instruction import Instruction

_STATUS = ir.IntType(32)


def module_of(
    symbol: str, count: int, write: Callable[[Any, Any, Sequence[Any]], None]
) -> ir.Module:
    """Return the module of a function of `count` int64 that returns nothing, as `symbol`.

    It follows numba's convention: pointers to memory for a result and an exception come first.
    `write` writes the body with a builder in a first block, from these int64.
    """
    module = ir.Module(symbol)
    pointer = ir.PointerType(ir.IntType(8))
    form = ir.FunctionType(_STATUS, [pointer, pointer, *[WORD] * count])
    code = ir.Function(module, form, symbol)

    def body(builder: Any, start: Any) -> None:
        write(builder, start, code.args[2:])
        builder.ret(ir.Constant(_STATUS, 0))

    write_body(code, body)
    return module


def write_body(code: Any, write: Callable[[Any, Any], None]) -> None:
    """Write a function's body with a builder in a first block.

    Variables are allocated in the block before that, which ends when all of them are known.
    """
    entry = code.append_basic_block("entry")
    start = code.append_basic_block("start")
    builder = ir.IRBuilder(start)
    write(builder, start)
    ir.IRBuilder(entry).branch(start)


class BlockWriter:
    """Writes LLVM IR with a builder, and tracks which blocks are reachable."""

    def __init__(self, builder: Any, reached: set[Any]) -> None:
        self._builder = builder
        # Reachable blocks of all functions that are inlined into one.
        self._reached = reached
        # For each open loop the block of `continue` and that of `break`.
        self._loops: list[tuple[Any, Any]] = []

    @property
    def _is_unreachable(self) -> bool:
        """Return whether the current position is unreachable."""
        block = self._builder.block
        return block.is_terminated or block not in self._reached

    def _blocks(self, *names: str) -> list[Any]:
        return [self._builder.function.append_basic_block(name) for name in names]

    def _alloca(self, form: Any) -> Any:
        with self._builder.goto_entry_block():
            return self._builder.alloca(form)

    def _branch(self, block: Any) -> Any | None:
        """Branch to a block; return the instruction. Unreachable positions need none."""
        if self._is_unreachable:
            return None
        self._reached.add(block)
        return self._builder.branch(block)

    def _conditional_branch(self, condition: Any, then: Any, other: Any) -> None:
        if isinstance(condition, ir.Constant):
            self._branch(then if condition.constant else other)
            return
        self._reached |= {then, other}
        self._builder.cbranch(condition, then, other)

    def _position_at(self, block: Any) -> None:
        """Move to a block, whose predecessors are all known except back edges of its own loop."""
        if not self._builder.block.is_terminated:
            self._builder.unreachable()
        self._builder.position_at_end(block)

    def _if_else(
        self,
        condition: Any,
        then: Callable[[], object],
        otherwise: Callable[[], object] = lambda: None,
    ) -> None:
        """Write the code for both outcomes of a condition."""
        if isinstance(condition, ir.Constant):
            (then if condition.constant else otherwise)()
            return
        *branches, after = self._blocks("then", "else", "after")
        self._conditional_branch(condition, *branches)
        for block, write in zip(branches, (then, otherwise), strict=True):
            self._position_at(block)
            write()
            self._branch(after)
        self._position_at(after)

    def _for(self, low: Any, high: Any, step: int, write: Callable[[Any], None]) -> Any | None:
        """Write a loop over numbers; `write` gets the number and writes the body.

        Returns the branch back to the loop's test; None if that is unreachable.
        """
        # The body may assign its variable, which does not change the count.
        b, counter = self._builder, self._alloca(WORD)
        b.store(low, counter)
        test, inside, latch, after = self._blocks("test", "body", "step", "after")
        self._branch(test)
        self._position_at(test)
        number = b.load(counter)
        more = b.icmp_signed("<" if step > 0 else ">", number, high)
        self._conditional_branch(more, inside, after)
        self._position_at(inside)
        self._loop_body(lambda: write(number), latch, after)
        self._position_at(latch)
        back = None
        if not self._is_unreachable:
            b.store(b.add(b.load(counter), ir.Constant(WORD, step), flags=("nsw",)), counter)
            back = self._branch(test)
        self._position_at(after)
        return back

    def _while(self, condition: Callable[[], Any], write: Callable[[], None]) -> None:
        """Write a loop that runs while a condition holds."""
        test, inside, after = self._blocks("test", "body", "after")
        self._branch(test)
        self._position_at(test)
        self._conditional_branch(condition(), inside, after)
        self._position_at(inside)
        self._loop_body(write, test, after)
        self._position_at(after)

    def _loop_body(self, write: Callable[[], None], latch: Any, after: Any) -> None:
        """Write the body of a loop, which continues at `latch` and breaks to `after`."""
        self._loops.append((latch, after))
        write()
        self._loops.pop()
        self._branch(latch)

    def _call_instruction(self, called: Instruction, arguments: Sequence[Typed]) -> Typed:
        context = cpu_target.target_context
        kinds = tuple(kind for kind, _ in arguments)
        signature = called.signature(cpu_target.typing_context, kinds)
        if not all(map(_is_of, arguments, signature.args)):
            raise UnsupportedError(f"operands of {called.__name__} that must be converted: {kinds}")
        code: Callable[..., Any] = called.code(signature)
        values = [in_registers(self._builder, value) for value in arguments]
        try:
            written = code(context, self._builder, signature, values)
        except NumbaNotImplementedError as error:
            # Numba registers its conversions at its first compilation.
            raise UnsupportedError(str(error)) from error
        # An instruction may end in a block of its own.
        self._reached.add(self._builder.block)
        return from_registers(self._builder, signature.return_type, written)


def _is_of(value: Typed, kind: Any) -> bool:
    """Return whether a value is of a type; empty tuples have the type of any elements."""
    found, _ = value
    is_tuple = isinstance(found, types.BaseTuple) and isinstance(kind, types.BaseTuple)
    return bool(found == kind or (is_tuple and len(found) == len(kind) == 0))
