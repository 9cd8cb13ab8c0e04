"""Similar kernels of a program become one, which reads the numbers that differ.

Steps of an unrolled loop differ in an offset, branches of a conditional in a constant, dilated
convolutions in indices or in operands of a routine. LLVM takes as long for each kernel as for the
first. The numbers are constants of the program, an argument for each type, which a call loads once.
"""

import collections
import dataclasses
import operator
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np

from xla_contract.types.shape import Shape
from xla_server.buffers.code import Code, CollectiveThunk, KernelThunk, Thunk, Value
from xla_server.codegen.instructions.memory import MEMORY
from xla_server.codegen.kernel_ir import expressions as ir
from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.codegen.kernel_ir.routine import Parameter, Routine, Unit
from xla_server.codegen.kernel_ir.statements import Call, Let, Store
from xla_server.codegen.kernel_ir.types import Type
from xla_server.codegen.kernel_ir.walk import walk
from xla_server.codegen.lower.lowering import kernels_of

MIN_KERNELS = 3
"""Fewest kernels that become one. A second kernel takes LLVM some 10 ms, less than it takes a
program that is called often to load the numbers."""

_ARRAYS = {
    Type.F32: ("f32", np.uint32, np.float32),
    Type.F64: ("f64", np.uint64, np.float64),
    Type.I64: ("s64", np.int64, np.int64),
}
"""Element type, and numpy's types of the bits and of the elements, for numbers of each type."""

_SIZES = (Unit.OFFSET, Unit.ELEMENTS, Unit.COUNT)
"""Units of operands of routines that may be arguments: flags and addresses choose code."""

_Number: TypeAlias = tuple[Type, int]
"""A number by its type and bits."""

_Replace: TypeAlias = Callable[[str, _Number], ir.Expression | None]
"""Returns the expression that replaces the number of a name; None to keep the number."""

_T = TypeVar("_T")


def with_shared_kernels(code: Code) -> Code:
    """Return a program in which kernels that differ in numbers alone are one kernel."""
    collectives = [thunk for thunk in code.thunks if isinstance(thunk, CollectiveThunk)]
    excluded = {kernel for each in collectives for kernel in each.kernels}
    users: dict[Kernel, list[KernelThunk]] = {}
    kernels: dict[str, Kernel] = {}
    for thunk in kernels_of(code):
        if isinstance(thunk.kernel, Kernel) and thunk not in excluded:
            users.setdefault(kernels.setdefault(thunk.kernel.key, thunk.kernel), []).append(thunk)
    constants = dict(code.constants)
    changed: dict[Thunk, Thunk] = {}
    for similar in _groups(list(users), _outline):
        forms = [(kernel, *_form(kernel)) for kernel in similar]
        for members in _groups(forms, operator.itemgetter(1)):
            numbers = {kernel: own for kernel, _, own in members}
            changed |= _shared({kernel: users[kernel] for kernel in numbers}, numbers, constants)
    thunks = [changed.get(thunk, thunk) for thunk in code.thunks]
    origins = {changed.get(thunk, thunk): origin for thunk, origin in code.origins.items()}
    return dataclasses.replace(code, thunks=thunks, constants=constants, origins=origins)


def _groups(members: Sequence[_T], key: Callable[[_T], Hashable]) -> list[list[_T]]:
    """Return the groups of equal keys that have enough members."""
    found: dict[Hashable, list[_T]] = {}
    for each in members:
        found.setdefault(key(each), []).append(each)
    return [group for group in found.values() if len(group) >= MIN_KERNELS]


def _outline(kernel: Kernel) -> Hashable:
    """Return a key that similar kernels share and that costs little to compute."""
    statements = tuple(type(statement) for statement, _ in walk(kernel.body))
    return kernel.effort, len(kernel.buffers), statements


def _form(kernel: Kernel) -> tuple[str, dict[str, _Number]]:
    """Return the text of a kernel without its numbers and sizes, and the numbers by their names."""
    numbers: dict[str, _Number] = {}

    def parameter(name: str, number: _Number) -> ir.Expression:
        numbers[name] = number
        return ir.Value(name, number[0])

    return repr(_Rewriter(parameter).kernel(kernel)), numbers


def _shared(
    members: dict[Kernel, list[KernelThunk]],
    numbers: dict[Kernel, dict[str, _Number]],
    constants: dict[Value, Any],
) -> dict[Thunk, Thunk]:
    """Return thunks of one kernel for those of all; add their numbers to `constants`."""
    (first, (thunk, *_)), *_ = members.items()
    names = collections.defaultdict[Type, list[str]](list)
    for name, (kind, _) in numbers[first].items():
        if len({own[name] for own in numbers.values()}) > 1:
            names[kind].append(name)
    count = len(thunk.arguments)
    buffers = [ir.Buffer(count + n, ir.Usage.READ) for n in range(len(names))]
    loads = {
        name: Let(ir.Value(f"n{buffer.number}_{n}", kind), ir.Load(buffer, kind, ir.Index(n)))
        for buffer, (kind, some) in zip(buffers, names.items(), strict=True)
        for n, name in enumerate(some)
    }
    sizes: dict[str, int] = {}
    for kept in (kept for member in members for kept in member.stack):
        sizes[kept.name] = max(kept.byte_size, sizes.get(kept.name, 0))

    def loaded(name: str, _: _Number) -> ir.Expression | None:
        return loads[name].value if name in loads else None

    kernel = _Rewriter(loaded, sizes).kernel(first)
    body = (*loads.values(), *kernel.body)
    kernel = dataclasses.replace(kernel, buffers=(*kernel.buffers, *buffers), body=body)
    changed: dict[Thunk, Thunk] = {}
    for member, thunks in members.items():
        tables = _tables(names, numbers[member], thunks[0].name)
        constants.update(tables)
        for each in thunks:
            arguments, reads = (*each.arguments, *tables), (*each.reads, *tables)
            changed[each] = dataclasses.replace(
                each, kernel=kernel, arguments=arguments, reads=reads
            )
    return changed


def _tables(
    names: Mapping[Type, Sequence[str]], numbers: Mapping[str, _Number], thunk: str
) -> dict[Value, Any]:
    """Return the arrays of the numbers that one kernel's calls load, by their constants."""
    tables: dict[Value, Any] = {}
    for kind, some in names.items():
        element, bits, form = _ARRAYS[kind]
        value = Value(Shape.parse(f"{element}[{len(some)}]"), f"{thunk}.numbers")
        tables[value] = np.array([numbers[name][1] for name in some], bits).view(form)
    return tables


class _Rewriter:
    """Replaces the numbers of a kernel that may be read from memory.

    They are floats, sizes that routines are given, and for each buffer what is added to all indices
    of it: from the differences of these LLVM sees which elements are neighbours. So are the numbers
    of an index that is tested or chosen by a test, which are those of a window's padding and
    dilation. Bounds of loops, other factors and divisors stay, as its code depends on them. Arrays
    on the stack have the `sizes` of their names: those of the largest kernel.
    """

    def __init__(self, replace: _Replace, sizes: Mapping[str, int] | None = None) -> None:
        self._replace, self._sizes = replace, sizes or {}
        self._arrays: dict[ir.StackArray, ir.StackArray] = {}
        self._positions = 0
        self._floats: dict[ir.Const, int] = {}
        self._offsets: dict[ir.Buffer, int] = {}
        self._operands = 0

    def kernel(self, kernel: Kernel) -> Kernel:
        """Return the kernel with replaced numbers."""
        stack = self._part(kernel.stack)
        return dataclasses.replace(kernel, stack=stack, body=self._part(kernel.body))

    def _part(self, part: Any) -> Any:
        match part:
            case tuple():
                return tuple(map(self._part, part))
            case ir.Const(type=Type.F32 | Type.F64 as kind, parts=(bits,)):
                number = self._floats.setdefault(part, len(self._floats))
                return self._replace(f"float {number}", (kind, bits)) or part
            case Call(routine=routine) if not (routine.is_inlined or routine.name in MEMORY):
                operands = tuple(map(self._operand, part.operands, routine.parameters))
                return dataclasses.replace(part, operands=operands)
            case (
                ir.Load(memory=ir.Buffer() as buffer, index=ir.Index() as index)
                | Store(memory=ir.Buffer() as buffer, index=ir.Index() as index)
            ):
                return self._fields(part, index=self._index(buffer, index))
            case ir.Apply(function="ge" | "lt" | "select"):
                operands = tuple(map(self._tested, part.operands))
                return dataclasses.replace(part, operands=operands)
            case ir.StackArray(name=name):
                array = ir.StackArray(name, self._sizes.get(name, 0))
                return self._arrays.setdefault(part, array)
            case ir.Value() | ir.Cell() | ir.Buffer() | Routine():
                return part
        return self._fields(part) if dataclasses.is_dataclass(part) else part

    def _fields(self, part: Any, **replaced: Any) -> Any:
        names = (each.name for each in dataclasses.fields(part))
        others = {name: self._part(getattr(part, name)) for name in names if name not in replaced}
        return type(part)(**others, **replaced)

    def _operand(self, operand: ir.Expression, parameter: Parameter) -> Any:
        self._operands += 1
        number = ir.known(operand)
        if number is None or parameter.unit not in _SIZES:
            return self._part(operand)
        return self._replace(f"operand {self._operands}", (Type.I64, number)) or operand

    def _tested(self, operand: ir.Expression) -> Any:
        """Return an operand of a test or a choice; if it is an index, with replaced numbers."""
        if not isinstance(operand, ir.Index) or not operand.terms:
            return self._part(operand)
        self._positions += 1
        terms = [(ir.whole(1), operand.constant), *operand.terms]
        found: list[tuple[ir.Expression, int]] = []
        for number, (term, factor) in enumerate(terms):
            name = f"factor {number} of position {self._positions}"
            argument, own = self._replace(name, (Type.I64, factor)), self._part(term)
            found.append(
                (own, factor) if argument is None else (ir.integer_op("mul", own, argument), 1)
            )
        (_, constant), *others = found
        is_kept = ir.known(found[0][0]) is not None
        return ir.Index(constant, tuple(others)) if is_kept else ir.Index(0, tuple(found))

    def _index(self, buffer: ir.Buffer, index: ir.Index) -> ir.Index:
        offset = self._offsets.setdefault(buffer, index.constant)
        added = self._replace(f"offset of {buffer.name}", (Type.I64, offset))
        terms: tuple[tuple[ir.Expression, int], ...] = self._part(index.terms)
        if added is None:
            return ir.Index(index.constant, terms)
        return ir.Index(index.constant - offset, (*terms, (added, 1)))
