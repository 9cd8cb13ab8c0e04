"""The rules that kernels of the loop IR obey."""

import functools
from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

from xla_server.codegen.kernel_ir import expressions as ir
from xla_server.codegen.kernel_ir import statements as stmt
from xla_server.codegen.kernel_ir.analysis.corners import accesses
from xla_server.codegen.kernel_ir.analysis.hoisting import repeated
from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.codegen.kernel_ir.numba_text import is_constant
from xla_server.codegen.kernel_ir.routine import Unit
from xla_server.codegen.kernel_ir.types import Type
from xla_server.codegen.kernel_ir.walk import Path, read_by, walk
from xla_server.target.gpu.properties import STATIC_SHARED_BYTES

MAX_STACK_BYTES = 1 << 22
"""Bytes of stack arrays in one kernel: half of the stack of a thread. Fourier transforms of 4000
elements by convolution have half of that, with vectors of 64 bytes."""

Rule: TypeAlias = Callable[[Kernel], Iterator[str]]
"""Yields the faults of a kernel: rule and evidence."""

Sizes: TypeAlias = Mapping[int, int]
"""Buffer number -> known size in bytes."""


class InvalidKernelError(Exception):
    """A kernel breaks a rule of the loop IR."""


def verify(kernel: Kernel, sizes: Sizes | None = None) -> None:
    """Raise InvalidKernelError if a kernel with buffers of these sizes breaks a rule."""
    for rule in rules(sizes or {}):
        for complaint in rule(kernel):
            raise InvalidKernelError(complaint)


def _bound(kernel: Kernel) -> Iterator[str]:
    """Values and cells are used after their definition, inside of the block that defines them."""
    bound: dict[ir.Value | ir.Cell, Path] = {ir.START: (), ir.STOP: (), ir.BUFFERS: ()}
    for statement, path in walk(kernel.body):
        for used in (*_used(statement), *_changed(statement)):
            if used not in bound:
                yield f"a value must be bound before it is used, got {used.name}"
            elif path[: len(bound[used])] != bound[used]:
                yield f"a value must be used inside of the block that binds it, got {used.name}"
        bound.update(_binds(statement, path))
        if isinstance(statement, stmt.If):
            inside_of_one = {
                new for each, at in walk(statement.body) for new, _ in _binds(each, at)
            }
            for each, _ in walk(statement.orelse):
                for used in inside_of_one.intersection((*_used(each), *_changed(each))):
                    yield f"a value must be used inside of the block that binds it, got {used.name}"


def _named(kernel: Kernel) -> Iterator[str]:
    """A name is defined once, so that it is unambiguous in the source, the key of the code."""
    statements = [each for each, _ in walk(kernel.body)]
    bound = [new for each in statements for new, _ in _binds(each, ())]
    functions = {name for each in statements for name in _called_by(each)}
    taken: set[str] = set()
    for each in (ir.BUFFERS, ir.START, ir.STOP, *_declared(kernel), *bound):
        if each.name in taken:
            yield f"a name must be bound once, got {each.name} twice"
        if each.name in functions or is_constant(each.name):
            yield f"a name must be none of a function or constant, got {each.name}"
        taken.add(each.name)


def _called_by(statement: stmt.Statement) -> Iterator[str]:
    match statement:
        case stmt.Call(routine=routine):
            yield routine.name
        case stmt.Accumulate(function=function):
            yield function
    yield from (each.function for each in read_by(statement) if isinstance(each, ir.Apply))


def _used(statement: stmt.Statement) -> Iterator[ir.Value | ir.Cell]:
    return (each for each in read_by(statement) if isinstance(each, ir.Value | ir.Cell))


def _changed(statement: stmt.Statement) -> tuple[ir.Cell, ...]:
    return (statement.cell,) if isinstance(statement, stmt.Set | stmt.Accumulate) else ()


def _binds(statement: stmt.Statement, path: Path) -> Iterator[tuple[ir.Value | ir.Cell, Path]]:
    match statement:
        case stmt.Let(value=new) | stmt.Shuffle(value=new) | stmt.Declare(cell=new):
            yield new, path
        case stmt.Call(results=results):
            yield from ((each, path) for each in results)
        case stmt.For(axis=axis) | stmt.ParallelFor(axis=ir.Value() as axis):
            yield axis, (*path, statement)


def _typed(kernel: Kernel) -> Iterator[str]:
    """Conditions are b1, indices and bounds i64; a stored value has the type of the element."""
    for statement, _ in walk(kernel.body):
        for expression, type in _expected(statement):
            if expression.type != type:
                yield f"an operand of {_name(statement)} must be {type}, got {expression.type}"


def _expected(statement: stmt.Statement) -> Iterator[tuple[ir.Expression, Type]]:
    """Yield expressions that must be of a type."""
    match statement:
        case stmt.Let(value=value, expression=expression):
            yield expression, value.type
        case stmt.Declare(cell=cell, start=expression) | stmt.Set(cell=cell, expression=expression):
            yield expression, cell.type
        case stmt.Accumulate(cell=cell, operand=operand):
            yield operand, cell.type
        case stmt.Shuffle(value=value, operand=operand):
            yield operand, value.type
        case stmt.Store():
            yield from ((each, Type.I64) for each in ir.addresses_of(statement.memory))
            yield statement.index, Type.I64
            yield statement.value, statement.type
            if statement.guard is not None:
                yield statement.guard, Type.B1
        case stmt.For(low=low, high=high):
            yield low, Type.I64
            yield high, Type.I64
        case stmt.While(test=test) | stmt.If(test=test):
            yield test, Type.B1
    for expression in read_by(statement):
        match expression:
            case ir.Load(guard=guard):
                for operand in ir.operands_of(expression):
                    yield operand, Type.B1 if operand is guard else Type.I64
            case ir.Index() | ir.Quotient() | ir.Remainder() | ir.Address():
                for operand in ir.operands_of(expression):
                    yield operand, Type.I64


def _inside(kernel: Kernel, sizes: Sizes) -> Iterator[str]:
    """Known accesses of first and last iterations are in bounds."""
    for access in accesses(kernel):
        memory, first = access.address.memory, access.address.byte
        size = sizes.get(memory.number) if isinstance(memory, ir.Buffer) else memory.byte_size
        if size is not None and not 0 <= first <= size - access.type.byte_size:
            yield (
                f"an access of {memory.name} must be inside of its {size} bytes, "
                f"got {access.type} at byte {first}"
            )


def _unshared(kernel: Kernel) -> Iterator[str]:
    """Work items, the first two and the last, do not access elements that another one stores.

    Exempt is a last tile that begins earlier to be full, and stores elements of its predecessor
    again.
    """
    owners: dict[tuple[ir.Buffer, int], int] = {}
    of_own = accesses(kernel, is_clamped=False)
    found = [each for each in of_own if isinstance(each.address.memory, ir.Buffer)]
    for access in sorted(found, key=lambda each: not each.is_store):
        memory, item = access.address.memory, access.item
        if item is None or not isinstance(memory, ir.Buffer):
            continue
        address = memory, access.address.byte
        owner = owners.setdefault(address, item) if access.is_store else owners.get(address, item)
        if owner != item:
            action = "store" if access.is_store else "load"
            yield (
                f"a work item must not {action} an element that another one stores, "
                f"got byte {address[1]} of {memory.name} in items {owner} and {item}"
            )


def _used_as_declared(kernel: Kernel) -> Iterator[str]:
    """Accessed memory is declared; READ memory and the cancellation flag are not stored to."""
    declared = _declared(kernel)
    for statement, _ in walk(kernel.body):
        accessed = [
            each.memory for each in read_by(statement) if isinstance(each, ir.Load | ir.Address)
        ]
        match statement:
            case stmt.Store(memory=memory):
                accessed.append(memory)
                if memory.usage in (ir.Usage.READ, ir.Usage.FLAG):
                    yield f"a store must be to memory that is written, got {_memory(memory)}"
            case stmt.Stop(flag=flag):
                accessed.append(flag)
                if flag.usage is not ir.Usage.FLAG:
                    yield f"a stop must test the cancellation flag, got {flag.name}"
        for memory in accessed:
            if not isinstance(memory, ir.Region) and memory not in declared:
                yield f"memory must be declared by its kernel, got {memory.name}"


def _declared(kernel: Kernel) -> tuple[ir.Buffer | ir.StackArray | ir.SharedArray, ...]:
    return *kernel.buffers, *kernel.stack, *kernel.shared


def _called(kernel: Kernel) -> Iterator[str]:
    """Calls pass writable memory for results, and the flag to routines that poll."""
    bound: dict[ir.Expression, ir.Expression] = {}
    for statement, _ in walk(kernel.body):
        if isinstance(statement, stmt.Let):
            bound[statement.value] = statement.expression
        if not isinstance(statement, stmt.Call):
            continue
        routine = statement.routine
        for parameter, operand in zip(routine.parameters, statement.operands, strict=True):
            found = list(_memories(operand, bound))
            for memory in found if parameter.unit in (Unit.WRITE, Unit.UPDATE) else ():
                if isinstance(memory, ir.Buffer) and memory.usage in (ir.Usage.READ, ir.Usage.FLAG):
                    yield (
                        f"{parameter.name} of {routine.name} must be memory that is written, "
                        f"got {memory.name}"
                    )
            usages = [each.usage for each in found]
            if parameter.unit is Unit.CANCELLED and usages != [ir.Usage.FLAG]:
                names = [_memory(each) for each in found]
                yield (
                    f"{parameter.name} of {routine.name} must be the address of the cancellation "
                    f"flag, got that of {names}"
                )


def _memories(
    expression: ir.Expression, bound: dict[ir.Expression, ir.Expression]
) -> Iterator[ir.Memory]:
    """Yield the memory objects on which an address is based."""
    waiting = [expression]
    while waiting:
        part = waiting.pop()
        if isinstance(part, ir.Address):
            yield part.memory
        waiting += ir.operands_of(part)
        if part in bound:
            waiting.append(bound[part])


def _parallel(kernel: Kernel) -> Iterator[str]:
    """Parallel loops are consecutive, at the outermost level, and share only memory.

    Each item stores to elements of its own: their index or address varies with it, or the store is
    under a test of the item's number.
    """
    before = 0
    for part in kernel.parts:
        if part.first != before:
            yield f"a parallel loop must begin behind the one before, at {before}, got {part.first}"
        before += part.items
        if part.axis is None and part.items != 1 and not part.is_range:
            yield f"a parallel loop without a variable must have one item, got {part.items}"
        if part.is_range and (part.axis is not None or len(kernel.parts) > 1):
            yield f"a body that goes through the range itself must be alone, got {part.items} items"
    for statement, path in walk(kernel.body):
        if isinstance(statement, stmt.ParallelFor) and path:
            yield "a parallel loop must be at the outermost level"
    for part in kernel.parts:
        declared = {s.cell for s, _ in walk(part.body) if isinstance(s, stmt.Declare)}
        numbers: set[ir.Value | ir.Cell] = {ir.START, ir.STOP} if part.axis is None else {part.axis}
        varying = set(numbers)
        for statement, path in walk(part.body):
            for cell in _changed(statement):
                if cell not in declared:
                    yield f"a work item must change cells of its own, got {cell.name}"
            is_varying = any(varies(each, varying) for each in stmt.expressions_of(statement))
            if is_varying:
                varying |= {new for new, _ in _binds(statement, path)} | {*_changed(statement)}
            if isinstance(statement, stmt.Store) and not isinstance(
                statement.memory, ir.StackArray
            ):
                parts = [*ir.addresses_of(statement.memory), statement.index]
                parts += [] if statement.guard is None else [statement.guard]
                is_owned = any(
                    isinstance(each, stmt.If) and varies(each.test, numbers) for each in path
                )
                is_own = is_owned or any(varies(each, varying) for each in parts)
                if part.items > 1 and not is_own:
                    yield (
                        "the index of a store must vary with the work item, "
                        f"got {_memory(statement.memory)} element {statement.index}"
                    )


def _together(kernel: Kernel) -> Iterator[str]:
    """All work items of a group execute a shuffle or barrier: no branch or loop around it varies.

    Shared arrays require a group.
    """
    for part in kernel.parts:
        if part.group < 1 or part.items % part.group:
            yield f"a parallel loop must have whole groups of {part.group}, got {part.items} items"
    for statement, path in walk(kernel.body):
        around = next(iter(path), None)
        group = around.group if isinstance(around, stmt.ParallelFor) else 0
        if group <= 1:
            accessed = [each.memory for each in read_by(statement) if isinstance(each, ir.Load)]
            accessed += [statement.memory] if isinstance(statement, stmt.Store) else []
            for memory in accessed:
                if isinstance(memory, ir.SharedArray):
                    yield f"a shared array must be accessed by a group, got {memory.name}"
        if not isinstance(statement, stmt.Shuffle | stmt.Barrier):
            continue
        name = statement.value.name if isinstance(statement, stmt.Shuffle) else "a barrier"
        if not isinstance(around, stmt.ParallelFor):
            yield f"a shuffle or a barrier must be inside of a parallel loop, got {name}"
            continue
        if isinstance(statement, stmt.Barrier) and group <= 1:
            yield f"a barrier must be for a group of several items, got {group}"
        if isinstance(statement, stmt.Shuffle):
            distance = statement.distance
            if distance < 1 or distance & (distance - 1) or distance >= group:
                yield (
                    f"the distance of a shuffle must be a power of two below {group}, the size "
                    f"of a group, got {distance}"
                )
        varying = varying_in(around)
        for outer in path[1:]:
            if any(varies(each, varying, around) for each in stmt.expressions_of(outer)):
                yield (
                    "a shuffle or a barrier must be in no branch or loop that varies with the "
                    f"work item, got {name} in {_name(outer)}"
                )


def varying_in(part: stmt.ParallelFor) -> set[ir.Value | ir.Cell]:
    """Return the names of a parallel loop whose values may vary inside of a group."""
    varying: set[ir.Value | ir.Cell] = set() if part.axis is None else {part.axis}
    known = -1
    while known < len(varying):
        known = len(varying)
        for statement, path in walk(part.body):
            around = (*path, statement)
            is_varying = any(
                varies(e, varying, part) for each in around for e in stmt.expressions_of(each)
            )
            if is_varying or isinstance(statement, stmt.Shuffle | stmt.Call):
                varying |= {new for new, _ in _binds(statement, path)} | {*_changed(statement)}
    return varying


def varies(
    expression: ir.Expression,
    varying: set[ir.Value | ir.Cell],
    group_of: stmt.ParallelFor | None = None,
) -> bool:
    """Return whether an expression depends on `varying` names; a group's number does not vary."""
    waiting = [expression]
    while waiting:
        part = waiting.pop()
        if group_of is not None and _is_group_number(part, group_of):
            continue
        if isinstance(part, ir.Value | ir.Cell) and part in varying:
            return True
        waiting += ir.operands_of(part)
    return False


def _is_group_number(expression: ir.Expression, part: stmt.ParallelFor) -> bool:
    """Return whether an expression is the number of a group of items, or of several groups."""
    if not isinstance(expression, ir.Quotient) or part.axis is None:
        return False
    is_item = expression.operand == ir.Index(0, ((part.axis, 1),))
    return is_item and expression.divisor % part.group == 0


def _bounded(kernel: Kernel) -> Iterator[str]:
    """Arrays fit on a stack and in shared memory; loops have positive steps and finite counts."""
    total = sum(array.byte_size for array in kernel.stack)
    if total > MAX_STACK_BYTES:
        yield f"stack arrays must have at most {MAX_STACK_BYTES} bytes, got {total}"
    total = sum(array.byte_size for array in kernel.shared)
    if total > STATIC_SHARED_BYTES:
        yield f"shared arrays must have at most {STATIC_SHARED_BYTES} bytes, got {total}"
    for statement, path in walk(kernel.body):
        match statement:
            case stmt.For(step=step) | stmt.ParallelFor(step=step) if step < 1:
                yield f"the step of a loop must be at least 1, got {step}"
            case stmt.For(iterations=count) | stmt.While(expected=count) if count < 0:
                yield f"a loop must have a number of iterations, got {count}"
            case stmt.Break() if not any(isinstance(each, stmt.For | stmt.While) for each in path):
                yield "a break must be inside of a loop"


def _hoisted(kernel: Kernel) -> Iterator[str]:
    """Reductions and costly values are not in loops in which they are invariant."""
    for name in repeated(kernel.body):
        what = "reduction" if isinstance(name, ir.Cell) else "function"
        yield f"a {what} must stand in front of a loop that does not vary it, got {name.name}"


def _memory(memory: ir.Memory) -> str:
    return f"memory at {memory.address}" if isinstance(memory, ir.Region) else memory.name


def _name(statement: stmt.Statement) -> str:
    return type(statement).__name__.lower()


def rules(sizes: Sizes) -> tuple[Rule, ...]:
    """Return every rule; the later ones rely on the earlier."""
    return (
        _bound,
        _named,
        _typed,
        _bounded,
        functools.partial(_inside, sizes=sizes),
        _used_as_declared,
        _called,
        _parallel,
        _unshared,
        _hoisted,
        _together,
    )
