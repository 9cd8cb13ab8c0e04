"""LLVM of kernels for a GPU: the emitter of processors, with threads instead of calls.

A kernel's parameters are its buffers, pointers to global memory in the order of their numbers. Each
thread executes the work item of its number.

Semantics: LLVM, User Guide for NVPTX Back-end.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from llvmlite import ir
from numba import types

from xla_server.codegen.compiler.blocks import write_body
from xla_server.codegen.compiler.python_values import WORD, Typed, whole
from xla_server.codegen.emit.llvm import Emitter
from xla_server.codegen.gpu.emit.copies import (
    copies_of,
    in_turn,
    is_copied,
    is_interchangeable,
    numbers_of,
    parts_of,
)
from xla_server.codegen.gpu.emit.instructions import (
    GLOBAL,
    SHARED,
    check_instructions,
    instructions,
)
from xla_server.codegen.gpu.grid import GridKernel
from xla_server.codegen.instructions.memory import changes_no_operand
from xla_server.codegen.kernel_ir.expressions import (
    Buffer,
    Expression,
    Index,
    Quotient,
    Remainder,
    Value,
)
from xla_server.codegen.kernel_ir.statements import For, Let, ParallelFor, Shuffle, Statement
from xla_server.codegen.kernel_ir.types import Type
from xla_server.codegen.kernel_ir.walk import meets, read_by, walk
from xla_server.target.gpu.properties import ACCESS_BYTES, FLAG_BYTES, MAX_RUN, WARP, WIDE_THREADS
from xla_server.target.machine import Machine

TRIPLE = "nvptx64-nvidia-cuda"
DATA_LAYOUT = "e-p6:32:32-i64:64-i128:128-i256:256-v16:16-v32:32-n16:32:64"
"""Sizes and alignments on a GPU. Without it accesses have those of processors."""

_SHORT = ir.IntType(32)


def grid_module(kernels: Mapping[str, GridKernel], machine: Machine) -> ir.Module:
    """Return the LLVM module of kernels for a GPU, by their symbols.

    Raises ValueError for kernels that a GPU cannot have: with arrays on the stack, a parallel loop
    with several work items at a time, or instructions without exact code in LLVM.
    """
    module = ir.Module("kernels")
    module.triple, module.data_layout = TRIPLE, DATA_LAYOUT
    for symbol, grid in kernels.items():
        _add(module, symbol, grid, machine)
    check_instructions(module)
    return module


def _add(module: ir.Module, symbol: str, grid: GridKernel, machine: Machine) -> None:
    kernel = grid.kernel
    if kernel.stack:
        raise ValueError(
            f"a kernel of a GPU must have no arrays on the stack, got {kernel.stack[0].name}"
        )
    groups = {part.group for part in kernel.parts if part.group > 1}
    if grid.threads % WARP or not groups <= {WARP, grid.threads}:
        raise ValueError(
            f"work items of a GPU must be in groups of {WARP} or of a block of {grid.threads}, a "
            f"multiple, got {sorted(groups)}"
        )
    if any(part.first % part.group for part in kernel.parts):
        raise ValueError("a parallel loop of a GPU must begin with a whole group")
    group = max(groups, default=1)
    if kernel.shared and group != grid.threads:
        raise ValueError(f"shared arrays must belong to blocks of {grid.threads}, got {group}")
    if any(part.is_range or part.step != 1 for part in kernel.parts):
        raise ValueError("a parallel loop of a GPU must do one work item for each thread")
    pointer = ir.PointerType(ir.IntType(8), GLOBAL)
    form = ir.FunctionType(ir.VoidType(), [pointer] * len(kernel.buffers))
    code = _Kernel(module, form, symbol, grid)
    for argument in code.args:
        argument.attributes.align = ACCESS_BYTES

    def body(builder: Any, first: Any) -> None:
        _GridEmitter(builder, first, grid, machine, code.args, symbol).write()
        builder.ret_void()

    write_body(code, body)


class _Kernel(ir.Function):  # type: ignore[misc]
    """A function with the number of threads of a block, by which registers are limited.

    One that computes in C128 has the blocks that a multiprocessor needs, too: without that ptxas
    spills registers so that more blocks fit.
    """

    def __init__(self, module: Any, form: Any, symbol: str, grid: GridKernel) -> None:
        super().__init__(module, form, symbol)
        self.calling_convention = "ptx_kernel"
        self._limits = {"maxntid": grid.threads}
        if any(part.type is Type.C128 for s, _ in walk(grid.kernel.body) for part in read_by(s)):
            self._limits["minctasm"] = max(1, WIDE_THREADS // grid.threads)

    def descr_prototype(self, buf: list[str]) -> None:
        """Append the head; llvmlite has no string attributes."""
        head: list[str] = []
        super().descr_prototype(head)
        limits = (f' "nvvm.{name}"="{number}"' for name, number in self._limits.items())
        buf.append(f"{''.join(head).rstrip()}{''.join(limits)}\n")


class _GridEmitter(Emitter):
    """Writes one kernel."""

    def __init__(
        self,
        builder: Any,
        first: Any,
        grid: GridKernel,
        machine: Machine,
        pointers: Sequence[Any],
        symbol: str,
    ) -> None:
        zero, names = ir.Constant(WORD, 0), instructions(machine)
        super().__init__(builder, first, grid.kernel, names, machine, (zero, zero, zero))
        self._threads, self._pointers, self._symbol = grid.threads, pointers, symbol
        self._form = ir.IntType(grid.index_bits)
        self._sums: dict[Any, tuple[Any, int]] = {}
        self._around: ParallelFor

    def _bind_memory(self) -> None:
        for buffer, pointer in zip(self._kernel.buffers, self._pointers, strict=True):
            self._memory[buffer] = types.int64, self._builder.ptrtoint(pointer, WORD)
        for array in self._kernel.shared:
            variable = self._shared_array(f"{self._symbol}_{array.name}", array.byte_size)
            self._memory[array] = types.int64, self._builder.ptrtoint(variable, WORD)

    def _loop(self, loop: For) -> None:
        """Write a loop; an unrolled one as copies of its body, indices apart by constants.

        Loads of all copies come first if that is valid, unless so many values would take registers
        from other threads.
        """
        if not is_copied(loop):
            super()._loop(loop)
        elif copies_of(loop) <= MAX_RUN and is_interchangeable(loop):
            self._write_copies(loop, [{}])
        else:
            for number in numbers_of(loop):
                self._values[loop.axis] = whole(number)
                self._write_all(loop.body)

    def _write_copies(self, loop: For, around: Sequence[dict[Value, Typed]]) -> None:
        """Write the copies of a loop for each copy of the loops around it, with their values.

        The loads that begin its body come first, and the stores that end it last.
        """
        copies = [
            {**values, loop.axis: whole(number)} for values in around for number in numbers_of(loop)
        ]
        inner = loop.body[-1]
        if isinstance(inner, For) and is_copied(inner):
            self._write_in_turn(loop.body[:-1], copies)
            self._write_copies(inner, copies)
            return
        loads, middle, stores = parts_of(loop.body)
        self._write_in_turn(loads, copies)
        self._write_each(middle, copies)
        self._write_in_turn(stores, copies)

    def _write_in_turn(
        self, statements: Sequence[Statement], copies: Sequence[dict[Value, Typed]]
    ) -> None:
        """Write each group of statements for all copies, before the next one."""
        for group in in_turn(statements):
            self._write_each(group, copies)

    def _write_each(
        self, statements: Sequence[Statement], copies: Sequence[dict[Value, Typed]]
    ) -> None:
        """Write all statements for each copy in turn, with its values."""
        for values in copies:
            self._values.update(values)
            self._write_all(statements)
            values |= {s.value: self._values[s.value] for s in statements if isinstance(s, Let)}

    def _vector_request(self, loop: For) -> None:
        """Return no request: a thread has no vectors."""

    def _part(self, part: ParallelFor) -> None:
        """Write a parallel loop: each thread executes its item, if the loop has it."""
        b, self._around = self._builder, part
        block, thread = (self._special(name) for name in ("ctaid.x", "tid.x"))
        number = b.add(b.mul(block, self._number(self._threads)), thread)
        if part.axis is not None:
            self._values[part.axis] = self._wide(number, 0)
        if part.group == self._threads and self._kernel.parts == (part,):
            # All threads of a block reach a barrier: all of them have an item.
            self._write_all(part.body)
            return
        first, items = part.first, part.items
        if part.group == self._threads:
            # The branch is uniform within a block.
            number, first, items = block, first // self._threads, items // self._threads
        ahead = b.sub(number, self._number(first)) if first else number
        is_one = b.icmp_unsigned("<", ahead, self._number(items))
        self._if_else(is_one, lambda: self._write_alone(part))

    def _write_alone(self, part: ParallelFor) -> None:
        """Write the body of one of several parallel loops, which LLVM must keep apart."""
        self._write_all(part.body)
        if len(self._kernel.parts) > 1:
            # LLVM would merge the last stores of two loops, away from their neighbours.
            nothing = ir.FunctionType(ir.VoidType(), ())
            self._builder.asm(nothing, "", "", (), side_effect=True)

    def _exchange(self, exchange: Shuffle) -> None:
        """Write a shuffle for each 32 bits of a value, by all threads of the warp.

        Raises ValueError if the other thread belongs to another warp.
        """
        if exchange.distance >= WARP:
            raise ValueError(f"threads of a warp alone exchange values, got {exchange.distance}")
        kind, code = self._value(exchange.operand)
        self._values[exchange.value] = kind, self._shuffled(code, exchange.distance)

    def _flag(self, flag: Buffer) -> Any:
        """Return the flag as one thread of the group saw it, so that all act alike."""
        b = self._builder
        if not meets(self._around):
            return self._flag_now(flag)
        if self._around.group == WARP:
            seen = b.trunc(self._flag_now(flag), _SHORT)
            for distance in (1 << bit for bit in range(WARP.bit_length() - 1)):
                seen = b.or_(seen, self._shuffled_word(seen, distance))
            return b.zext(seen, WORD)
        name = f"{self._symbol}_flag"
        variable = b.module.globals.get(name) or self._shared_array(name, FLAG_BYTES)
        shared = b.bitcast(variable, ir.PointerType(WORD, SHARED))
        is_first = b.icmp_unsigned("==", self._special("tid.x"), self._number(0))
        self._if_else(
            is_first, lambda: b.store_atomic(self._flag_now(flag), shared, "monotonic", FLAG_BYTES)
        )
        self._barrier()
        seen = b.load_atomic(shared, "monotonic", FLAG_BYTES)
        # The next poll stores there again.
        self._barrier()
        return seen

    def _flag_now(self, flag: Buffer) -> Any:
        """Return the flag in the host's memory, which may change while the kernel runs."""
        pointer = self._builder.inttoptr(self._memory[flag][1], ir.PointerType(WORD, GLOBAL))
        return self._builder.load_atomic(pointer, "monotonic", WORD.width // 8)

    def _shared_array(self, name: str, byte_size: int) -> Any:
        """Return a new shared array."""
        form = ir.ArrayType(ir.IntType(8), byte_size)
        variable = ir.GlobalVariable(self._builder.module, form, name, addrspace=SHARED)
        variable.linkage, variable.align = "internal", ACCESS_BYTES
        variable.initializer = ir.Constant(form, ir.Undefined)
        return variable

    def _barrier(self) -> None:
        module, name = self._builder.module, "llvm.nvvm.barrier.cta.sync.aligned.all"
        form = ir.FunctionType(ir.VoidType(), [_SHORT])
        function = module.globals.get(name) or ir.Function(module, form, name)
        # Without volatile, registers would keep loaded values across a barrier.
        changes_no_operand(module, self._builder.call(function, [ir.Constant(_SHORT, 0)]))

    def _shuffled(self, code: Any, distance: int) -> Any:
        b, form = self._builder, code.type
        if isinstance(form, ir.LiteralStructType):
            for number in range(len(form.elements)):
                part = self._shuffled(b.extract_value(code, number), distance)
                code = b.insert_value(code, part, number)
            return code
        if isinstance(form, ir.FloatType | ir.DoubleType):
            bits = ir.IntType(32 if isinstance(form, ir.FloatType) else 64)
            return b.bitcast(self._shuffled(b.bitcast(code, bits), distance), form)
        if form.width < _SHORT.width:
            return b.trunc(self._shuffled(b.zext(code, _SHORT), distance), form)
        if form.width == _SHORT.width:
            return self._shuffled_word(code, distance)
        half = ir.Constant(form, _SHORT.width)
        low, high = (
            b.zext(self._shuffled_word(b.trunc(part, _SHORT), distance), form)
            for part in (code, b.lshr(code, half))
        )
        return b.or_(low, b.shl(high, half))

    def _shuffled_word(self, code: Any, distance: int) -> Any:
        module, name = self._builder.module, "llvm.nvvm.shfl.sync.bfly.i32"
        form = ir.FunctionType(_SHORT, [_SHORT] * 4)
        function = module.globals.get(name) or ir.Function(module, form, name)
        numbers = (-1, code, distance, WARP - 1)
        operands = [n if n is code else ir.Constant(_SHORT, n) for n in numbers]
        return self._builder.call(function, operands)

    def _special(self, register: str) -> Any:
        """Return the value of a special register as an index."""
        name = f"llvm.nvvm.read.ptx.sreg.{register}"
        known = self._builder.module.globals.get(name)
        form = ir.FunctionType(_SHORT, [])
        code = self._builder.call(known or ir.Function(self._builder.module, form, name), [])
        return code if self._form == _SHORT else self._builder.zext(code, self._form)

    def _number(self, number: int) -> Any:
        return ir.Constant(self._form, number)

    def _value(self, expression: Expression) -> Typed:
        match expression:
            case Quotient(operand=operand, divisor=divisor):
                return self._divided("udiv", operand, divisor)
            case Remainder(operand=operand, divisor=divisor):
                return self._divided("urem", operand, divisor)
        return super()._value(expression)

    def _divided(self, method: str, operand: Expression, divisor: int) -> Typed:
        code = getattr(self._builder, method)(self._narrow(operand), self._number(divisor))
        return self._wide(code, 0)

    def _index(self, index: Index) -> Typed:
        code, constant = None, index.constant
        for term, factor in index.terms:
            part, offset = self._parts(term)
            constant += offset * factor
            if part is None:
                continue
            if factor != 1:
                part = self._builder.mul(part, self._number(factor))
            code = part if code is None else self._builder.add(code, part)
        return self._wide(code, constant)

    def _parts(self, expression: Expression) -> tuple[Any | None, int]:
        """Return an integer as a sum of a computed part, in the bits of indices, and a constant."""
        code = self._value(expression)[1]
        if isinstance(code, ir.Constant):
            return None, code.constant
        if code in self._sums:
            return self._sums[code]
        return (code if self._form == WORD else self._builder.trunc(code, self._form)), 0

    def _narrow(self, expression: Expression) -> Any:
        """Return an integer in the bits of indices."""
        code, constant = self._parts(expression)
        if code is None:
            return self._number(constant)
        return self._builder.add(code, self._number(constant)) if constant else code

    def _wide(self, code: Any | None, constant: int) -> Typed:
        """Return a sum as i64, with the constant added last.

        So LLVM recognises addresses that differ by a constant, and joins accesses to neighbours.
        """
        if code is None:
            return whole(constant)
        wide = code if self._form == WORD else self._builder.sext(code, WORD)
        if constant:
            wide = self._builder.add(wide, ir.Constant(WORD, constant), flags=("nsw",))
        self._sums[wide] = code, constant
        return types.int64, wide
