"""Loads, stores and changes of type, as instructions for kernels.

Addresses are int64. Loads and stores take an address and an element's number from there.
Kernels say which of their buffers a load or store belongs to, so that LLVM knows that results
do not overlap operands and need not test for it at run time. A GPU has several address spaces: its
loads and stores name the one that they are of.
"""

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba import from_dtype, types

from xla_server.codegen.instructions.instruction import instruction, instruction_of
from xla_server.codegen.kernel_ir.routine import Routine, Unit, parameters_of
from xla_server.codegen.kernel_ir.types import Type
from xla_server.execution.cancellation_flag import FUTEX, FUTEX_WAIT, STOP, WAIT

COMPUTED: dict[str, Any] = {kind: from_dtype(kind.dtype) for kind in Type}
"""Types that kernels compute with, by their names in kernels."""

REGISTERS: dict[str, Any] = {
    **{kind: ir.IntType(int(kind[1:])) for kind in Type if kind.is_integer},
    "f32": ir.FloatType(),
    "f64": ir.DoubleType(),
    "c64": ir.LiteralStructType([ir.FloatType()] * 2),
    "c128": ir.LiteralStructType([ir.DoubleType()] * 2),
}
"""LLVM's types of values in registers, by their names in kernels."""

_IR: dict[str, Any] = {**REGISTERS, "b1": ir.IntType(8)}

_BYTES = ir.PointerType(ir.IntType(8))


class _ElementAddress(ir.instructions.GEPInstr):  # type: ignore[misc]
    """The address of an element, whose computation never wraps around (`nusw`).

    LLVM then knows that strides of addresses are those of indices, and loads every other element by
    vectors and shuffles. Not `inbounds`: an array's address may be that of its padding.
    """

    def descr(self, buf: list[str]) -> None:
        """Append the instruction, as LLVM text, to `buf`.

        llvmlite's own method writes no flag but `inbounds`.
        """
        form, base, (number,) = self.source_etype, self.pointer, self.indices
        operands = f"{base.type} {base.get_reference()}, {number.type} {number.get_reference()}"
        metadata = self._stringify_metadata(leading_comma=True)
        buf.append(f"getelementptr nusw {form}, {operands} {metadata}\n")


def _element(builder: Any, args: Sequence[Any], storage: Any, space: int) -> Any:
    pointer = builder.inttoptr(args[0], ir.PointerType(storage, space))
    address = _ElementAddress(builder.block, pointer, [args[1]], inbounds=False, name="")
    builder._insert(address)
    return address


def _read(builder: Any, args: Sequence[Any], name: str, space: int) -> tuple[Any, list[Any]]:
    """The value of an element, and the instructions that loaded it: one for each part."""
    pointer = _element(builder, args, _IR[name], space)
    if name not in ("c64", "c128"):
        value = builder.load(pointer)
        if name == "b1":
            return builder.icmp_unsigned("!=", value, ir.Constant(_IR[name], 0)), [value]
        return value, [value]
    parts = [builder.load(_part(builder, pointer, number)) for number in (0, 1)]
    return complex_of(builder, name, parts), parts


def complex_of(builder: Any, name: str, parts: Sequence[Any]) -> Any:
    """The number of a complex type with these parts."""
    pair = ir.Constant(_IR[name], ir.Undefined)
    for number, part in enumerate(parts):
        pair = builder.insert_value(pair, part, number)
    return pair


def _write(builder: Any, args: Sequence[Any], name: str, space: int) -> list[Any]:
    """The instructions that store an element."""
    pointer, value = _element(builder, args, _IR[name], space), args[2]
    if name in ("c64", "c128"):
        return [
            builder.store(builder.extract_value(value, number), _part(builder, pointer, number))
            for number in (0, 1)
        ]
    if name == "b1":
        value = builder.zext(value, _IR[name])
    return [builder.store(value, pointer)]


def _part(builder: Any, pointer: Any, number: int) -> Any:
    zero = ir.Constant(ir.IntType(32), 0)
    return builder.gep(pointer, [zero, ir.Constant(ir.IntType(32), number)])


def _load(name: str, space: int, scope: str = "", *others: str) -> Any:
    """Return a load from memory of a scope; no store to the `others` changes its value."""

    @instruction_of(COMPUTED[name](types.int64, types.int64))
    def load(builder: Any, *access: Any) -> Any:
        value, loads = _read(builder, access, name, space)
        _align(loads, name, space)
        _mark(builder.module, loads, scope, others)
        return value

    return load


def _store(name: str, space: int, scope: str = "", *others: str) -> Any:
    """Return a store to memory of a scope, which changes no load from the `others`."""

    @instruction_of(types.void(types.int64, types.int64, COMPUTED[name]))
    def store(builder: Any, *access_and_value: Any) -> None:
        stores = _write(builder, access_and_value, name, space)
        _align(stores, name, space)
        _mark(builder.module, stores, scope, others)

    return store


def read_only(module: Any, load: Any) -> None:
    """Mark a load: no store of the kernel changes its value."""
    _mark(module, [load], "operands", ["results"])


def changes_no_operand(module: Any, call: Any) -> None:
    """Mark a call: it changes no memory of operands."""
    call.set_metadata("noalias", _scope(module, "operands"))


def _align(accesses: Sequence[Any], name: str, space: int) -> None:
    """Set the alignment of accesses, except in address space 0, which has LLVM's default."""
    if space:
        for access in accesses:
            access.align = Type(name).byte_size // len(accesses)


def _mark(module: Any, accesses: Sequence[Any], scope: str, others: Sequence[str]) -> None:
    if scope:
        for access in accesses:
            access.set_metadata("alias.scope", _scope(module, scope))
            access.set_metadata("noalias", _scope(module, *others))


def _scope(module: Any, *names: str) -> Any:
    domain = module.add_metadata([ir.MetaDataString(module, "kernel")])
    scopes = [module.add_metadata([ir.MetaDataString(module, name), domain]) for name in names]
    return module.add_metadata(scopes)


def _change(target: str, convert: Callable[[Any, Any, Any, str], Any]) -> Any:
    """An instruction that makes a number of type `target` of one of any computed type."""

    @instruction
    def change(typing_context, x):  # type: ignore[no-untyped-def]
        return COMPUTED[target](x), lambda _c, b, _s, args: convert(b, args[0], x, target)

    return change


def _cast(builder: Any, value: Any, source: Any, target: str) -> Any:
    """A number converted: integers wrap, floats must fit."""
    is_complex = isinstance(COMPUTED[target], types.Complex)
    return (_complex if is_complex else _converted)(builder, value, source, target)


def _complex(builder: Any, value: Any, source: Any, target: str) -> Any:
    """A number as a complex one of a computed type; the imaginary part of a real number is 0."""
    part = Type(target).part
    if isinstance(source, types.Complex):
        kind = source.underlying_float
        parts = [_converted(builder, builder.extract_value(value, n), kind, part) for n in range(2)]
    else:
        parts = [_converted(builder, value, source, part), ir.Constant(_IR[part], 0.0)]
    return complex_of(builder, target, parts)


def _converted(builder: Any, value: Any, source: Any, target: str) -> Any:
    """A real number or truth value as another computed type."""
    computed, form = COMPUTED[target], _IR[target]
    is_float, to_float = (isinstance(kind, types.Float) for kind in (source, computed))
    is_signed = isinstance(source, types.Integer) and source.signed
    if source == computed:
        return value
    if computed == types.boolean:
        zero = ir.Constant(value.type, 0)
        compare = builder.fcmp_unordered if is_float else builder.icmp_unsigned
        return compare("!=", value, zero)
    if is_float and to_float:
        return (builder.fpext if computed.bitwidth > source.bitwidth else builder.fptrunc)(
            value, form
        )
    if is_float:
        return (builder.fptosi if computed.signed else builder.fptoui)(value, form)
    if to_float:
        return (builder.sitofp if is_signed else builder.uitofp)(value, form)
    if value.type.width >= form.width:
        # The same width with another sign is the same value to LLVM.
        return value if value.type == form else builder.trunc(value, form)
    return (builder.sext if is_signed else builder.zext)(value, form)


def _bits(builder: Any, value: Any, source: Any, target: str) -> Any:
    """The number with the same bits."""
    return builder.bitcast(value, _IR[target])


@instruction_of(types.int64(types.int64))
def alloca(builder: Any, size: Any) -> Any:
    """The address of `size` bytes on the stack, allocated until the kernel returns."""
    pointer = builder.alloca(ir.IntType(8), size)
    pointer.align = 64
    return builder.ptrtoint(pointer, ir.IntType(64))


COPY_BYTES = Routine(
    "copy_bytes",
    parameters_of(target=Unit.WRITE, source=Unit.READ, count=Unit.OFFSET),
    cost=lambda n: n["count"] / 4,
)
CLEAR_BYTES = Routine(
    "clear_bytes",
    parameters_of(target=Unit.WRITE, count=Unit.OFFSET),
    cost=lambda n: n["count"] / 4,
)


@instruction_of(types.void(types.int64, types.int64, types.int64))
def copy_bytes(builder: Any, target: Any, source: Any, count: Any) -> None:
    """Copy `count` bytes, 0 or more, to memory that does not overlap them."""
    pointers = [builder.inttoptr(address, _BYTES) for address in (target, source)]
    types_of = [_BYTES, _BYTES, ir.IntType(64)]
    copy = builder.module.declare_intrinsic("llvm.memcpy", types_of)
    builder.call(copy, [*pointers, count, ir.Constant(ir.IntType(1), 0)])


@instruction_of(types.void(types.int64, types.int64))
def clear_bytes(builder: Any, target: Any, count: Any) -> None:
    """Set `count` bytes, 0 or more, to zero."""
    pointer = builder.inttoptr(target, _BYTES)
    fill = builder.module.declare_intrinsic("llvm.memset", [_BYTES, ir.IntType(64)])
    nothing = ir.Constant(ir.IntType(8), 0)
    builder.call(fill, [pointer, nothing, count, ir.Constant(ir.IntType(1), 0)])


@instruction_of(types.int64(types.int64))
def watch_i64(builder: Any, address: Any) -> Any:
    """Return 1 if the cancellation flag is STOP, else 0; sleep while it is WAIT."""
    word = ir.IntType(64)
    pointer = builder.inttoptr(address, ir.PointerType(word))
    said = builder.load_atomic(pointer, "seq_cst", 8)
    if FUTEX:
        is_to_wait = builder.icmp_unsigned("==", said, ir.Constant(word, WAIT))
        with builder.if_then(is_to_wait, likely=False):
            kind = ir.FunctionType(word, [word] * 5)
            known = builder.module.globals.get("syscall")
            function = known or ir.Function(builder.module, kind, "syscall")
            numbers = [ir.Constant(word, each) for each in (FUTEX, FUTEX_WAIT, WAIT, 0)]
            builder.call(function, [numbers[0], address, *numbers[1:]])
        # If the flag is WAIT again, the next poll sleeps.
        said = builder.load_atomic(pointer, "seq_cst", 8)
    is_to_stop = builder.icmp_unsigned("==", said, ir.Constant(word, STOP))
    return builder.zext(is_to_stop, word)


NUMBERS = [name for name in COMPUTED if name[0] in "iuf"]


def accesses(space: int = 0) -> dict[str, Any]:
    """Return the loads and stores of buffers in an address space, by their names in kernels."""
    return {
        **{f"load_{name}": _load(name, space, "operands", "results") for name in COMPUTED},
        **{f"store_{name}": _store(name, space, "results", "operands") for name in COMPUTED},
        **{f"reload_{name}": _load(name, space, "results", "operands") for name in COMPUTED},
        # Without a promise about overlap, for buffers that are read and written in one kernel.
        **{f"peek_{name}": _load(name, space) for name in COMPUTED},
        **{f"poke_{name}": _store(name, space) for name in COMPUTED},
    }


def shared_accesses(space: int) -> dict[str, Any]:
    """Return the loads and stores of shared arrays in an address space."""
    return {
        **{f"shared_{name}": _load(name, space) for name in COMPUTED},
        **{f"share_{name}": _store(name, space) for name in COMPUTED},
    }


TYPE_CHANGES: dict[str, Any] = {
    **{f"to_{name}": _change(name, _cast) for name in COMPUTED},
    **{f"bits_{name}": _change(name, _bits) for name in NUMBERS},
}
"""Every change of type by its name in kernels."""

MEMORY: dict[str, Any] = {
    **accesses(),
    # Elements on the kernel's own stack.
    **{f"keep_{name}": _store(name, 0, "kept", "operands", "results") for name in COMPUTED},
    **{f"kept_{name}": _load(name, 0, "kept", "operands", "results") for name in COMPUTED},
    **TYPE_CHANGES,
    "alloca": alloca,
    COPY_BYTES.name: copy_bytes,
    CLEAR_BYTES.name: clear_bytes,
    "watch_i64": watch_i64,
}
"""Every instruction of this module by its name in kernels."""
