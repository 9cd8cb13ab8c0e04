"""Kernels that differ in one field of one node: where the machine code differs, so do the keys."""

import contextlib
import dataclasses
from collections.abc import Mapping
from typing import Any, get_args

import pytest

from tests.cuda_twin.device.twin import DEVICE
from tests.processors import HOST
from xla_server.codegen.compiler.python_values import UnsupportedError
from xla_server.codegen.emit.llvm import kernel_module
from xla_server.codegen.gpu.emit.emitter import grid_module
from xla_server.codegen.gpu.grid import GridKernel
from xla_server.codegen.kernel_ir import expressions as ir
from xla_server.codegen.kernel_ir import statements as stmt
from xla_server.codegen.kernel_ir.effort import Effort
from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.codegen.kernel_ir.routine import Parameter, Routine, Unit
from xla_server.codegen.kernel_ir.types import Type
from xla_server.codegen.namespace import vocabulary
from xla_server.target.gpu.properties import WARP

READ, ALSO_READ = ir.Buffer(0, ir.Usage.READ), ir.Buffer(3, ir.Usage.READ)
WRITE, ALSO_WRITE = ir.Buffer(1, ir.Usage.WRITE), ir.Buffer(4, ir.Usage.WRITE)
WORD, ALSO_WORD = ir.Buffer(2, ir.Usage.FLAG), ir.Buffer(5, ir.Usage.FLAG)
BUFFERS = READ, WRITE, WORD, ALSO_READ, ALSO_WRITE
T, X, Y, AXIS, ALSO_AXIS = (ir.Value(name, Type.I64) for name in "txyij")
CELL, ALSO_CELL = ir.Cell("c", Type.I64), ir.Cell("d", Type.I64)
LESS, MORE = (ir.condition(name, X, Y) for name in ("lt", "gt"))
OUT, ALSO_OUT = (stmt.Store(WRITE, Type.I64, ir.Index(n), X) for n in (0, 1))
SHIFTED = ir.Region(ir.Address(READ, X, 8), ir.Usage.SCRATCH)
GIVEN = ir.Const(Type.U64, (7,))
BITS = tuple(Parameter(name, Unit.BITS) for name in "xy")
XOR = Routine("bit_xor", BITS, (Type.U64,))
BOTH, ALSO_BOTH = (ir.Value(name, Type.U64) for name in "uv")
NAMES = vocabulary(HOST).names
REFUSED = ValueError, UnsupportedError
GROUPED = stmt.ParallelFor(T, 2 * WARP, (OUT,), group=WARP)


def _first() -> stmt.Let:
    """The load of a value that the statements of the cases use, before all work items."""
    return stmt.Let(X, ir.Load(READ, Type.I64, ir.Index(0)))


CASES: tuple[tuple[Any, Mapping[str, Any]], ...] = (
    (READ, {"number": 6, "usage": ir.Usage.SCRATCH}),
    (SHIFTED, {"address": ir.Address(READ, Y, 8), "usage": ir.Usage.READ}),
    (ir.StackArray("row", 256), {"name": "line", "byte_size": 512}),
    (ir.SharedArray("array", 64), {"name": "other", "byte_size": 128}),
    (ir.Value("v", Type.I64), {"name": "w", "type": Type.I32}),
    (ir.Cell("v", Type.I64), {"name": "w", "type": Type.I32}),
    (ir.Const(Type.I64, (1,)), {"type": Type.U64, "parts": (2,)}),
    (ir.Quotient(X, 3), {"operand": Y, "divisor": 4}),
    (ir.Remainder(X, 3), {"operand": Y, "divisor": 4}),
    (ir.Index(1, ((X, 2),)), {"constant": 2, "terms": ((Y, 2),)}),
    (ir.Index(1, ((X, 2),)), {"constant": 3, "terms": ((X, 3),)}),
    (ir.Apply("add", (X, Y), Type.I64), {"function": "sub", "operands": (Y, X), "type": Type.U64}),
    (
        ir.Load(READ, Type.I64, X),
        {"memory": ALSO_READ, "type": Type.F64, "index": Y, "guard": LESS},
    ),
    (ir.Address(READ, X, 4), {"memory": ALSO_READ, "index": Y, "byte_size": 8}),
    (stmt.Let(AXIS, X), {"value": ALSO_AXIS, "expression": Y, "origin": 3}),
    (
        stmt.Declare(ir.Cell("e", Type.I64), X),
        {"cell": ir.Cell("f", Type.I64), "start": Y},
    ),
    (stmt.Set(CELL, X), {"cell": ALSO_CELL, "expression": Y, "origin": 3}),
    (
        stmt.Accumulate(CELL, "add", X, stmt.Order.SEQUENTIAL),
        {
            "cell": ALSO_CELL,
            "function": "mul",
            "operand": Y,
            "order": stmt.Order.ANY,
            "origin": 3,
        },
    ),
    (
        stmt.Store(WRITE, Type.I64, X, X),
        {
            "memory": ALSO_WRITE,
            "type": Type.F64,
            "index": Y,
            "value": Y,
            "guard": LESS,
            "origin": 3,
        },
    ),
    (
        stmt.For(AXIS, ir.Index(0), ir.Index(9), (OUT,), 9),
        {
            "axis": ALSO_AXIS,
            "low": ir.Index(1),
            "high": ir.Index(8),
            "body": (ALSO_OUT,),
            "iterations": 8,
            "step": 2,
            "unrolled": True,
            "vectorised": True,
        },
    ),
    (stmt.While(LESS, (OUT,), 1), {"test": MORE, "body": (ALSO_OUT,), "expected": 2}),
    (
        stmt.If(LESS, (OUT,)),
        {"test": MORE, "body": (ALSO_OUT,), "orelse": (ALSO_OUT,), "share": 0.5},
    ),
    (stmt.Break(), {}),
    (stmt.Stop(WORD), {"flag": ALSO_WORD}),
    (
        stmt.Call(XOR, (GIVEN, GIVEN), (BOTH,)),
        {
            "routine": XOR.named("bit_or"),
            "operands": (GIVEN, ir.Const(Type.U64, (8,))),
            "results": (ALSO_BOTH,),
        },
    ),
    (stmt.Shuffle(AXIS, X, 1), {"value": ALSO_AXIS, "operand": Y, "distance": 2}),
    (stmt.Barrier(), {}),
    (stmt.ParallelFor(T, 7, (OUT,)), {"items": 8}),
    (
        GROUPED,
        {
            "axis": AXIS,
            "items": 4 * WARP,
            "body": (ALSO_OUT,),
            "first": WARP,
            "step": 2,
            "is_range": True,
            "group": 2 * WARP,
        },
    ),
    (BITS[0], {"name": "z", "unit": Unit.NUMBER}),
    (
        XOR,
        {
            "name": "bit_or",
            "parameters": BITS[::-1],
            "results": (),
            "is_inlined": True,
            "cost": lambda _: 1.0,
        },
    ),
    (
        Kernel((READ, WRITE), (), (_first(), OUT)),
        {
            "buffers": (READ, WRITE, WORD),
            "stack": (ir.StackArray("row", 64),),
            "body": (_first(), ALSO_OUT),
            "effort": Effort.PLAIN,
            "shared": (ir.SharedArray("array", 64),),
        },
    ),
    (
        GridKernel(Kernel(BUFFERS, (), (_first(), GROUPED)), 2 * WARP),
        {
            "kernel": Kernel(BUFFERS, (), (_first(), GROUPED), Effort.PLAIN),
            "threads": WARP,
            "index_bits": 64,
        },
    ),
)
"""A node of each class, and for each of its fields another value."""

NODES = (
    *get_args(stmt.Statement),
    *get_args(ir.Expression),
    *get_args(ir.Memory),
    *(Parameter, Routine, Kernel, GridKernel),
)


def _kernel_with(node: Any) -> Kernel | GridKernel:
    """A kernel that has a node, whatever it is."""
    match node:
        case Kernel() | GridKernel():
            return node
        case Parameter():
            routine = dataclasses.replace(XOR, parameters=(node, BITS[1]))
            return _kernel_with(stmt.Call(routine, (GIVEN, GIVEN), (BOTH,)))
        case Routine():
            results = (BOTH,) if node.results else ()
            return _kernel_with(stmt.Call(node, (GIVEN, GIVEN), results))
        case ir.Buffer():
            load = stmt.Store(WRITE, Type.I64, ir.Index(0), ir.Load(node, Type.I64, T))
            return Kernel((node, WRITE), (), (stmt.ParallelFor(T, WARP, (load,)),))
        case ir.Region():
            return _kernel_with(ir.Load(node, Type.I64, X))
        case ir.StackArray():
            kept = stmt.Store(node, Type.I64, ir.Index(0), X)
            return Kernel(BUFFERS, (node,), _parts(kept))
        case ir.SharedArray():
            shared = stmt.Store(node, Type.I64, T, T)
            return Kernel(BUFFERS, (), _parts(shared, group=WARP), shared=(node,))
        case ir.Value():
            return _kernel_with(stmt.Let(node, ir.Const(node.type, (1,))))
        case ir.Cell():
            return _kernel_with(stmt.Declare(node, ir.Const(node.type, (1,))))
        case stmt.ParallelFor():
            return Kernel(BUFFERS, (), (_first(), node))
        case stmt.Break():
            return _kernel_with(stmt.While(LESS, (node,), 1))
        case stmt.Shuffle() | stmt.Barrier():
            return Kernel(BUFFERS, (), _parts(node, group=WARP))
        case stmt.Stop():
            return Kernel((node.flag,), (), (stmt.ParallelFor(T, WARP, (node,)),))
    if isinstance(node, get_args(ir.Expression)):
        return _kernel_with(stmt.Store(WRITE, node.type, ir.Index(0), node))
    return Kernel(BUFFERS, (), _parts(node))


def _parts(*body: stmt.Statement, group: int = 1) -> tuple[stmt.Statement, ...]:
    """A parallel loop of these statements behind those that they read names of."""
    named = (
        _first(),
        stmt.Let(Y, ir.Load(READ, Type.I64, ir.Index(1))),
        stmt.Declare(CELL, X),
        stmt.Declare(ALSO_CELL, Y),
    )
    return (stmt.ParallelFor(T, WARP, (*named, *body), group=group),)


def _codes(node: Any) -> Mapping[str, tuple[str, str]]:
    """The LLVM module and the key of a node's kernel, for a processor and for a GPU.

    There is none for a machine that such kernels are refused for.
    """
    kernel, found = _kernel_with(node), {}
    if isinstance(kernel, Kernel):
        if not kernel.shared:
            with contextlib.suppress(*REFUSED):
                found["processor"] = str(kernel_module(kernel, NAMES, "k", HOST)), kernel.key
        kernel = GridKernel(kernel, WARP)
    with contextlib.suppress(*REFUSED):
        found["gpu"] = str(grid_module({"k": kernel}, DEVICE)), kernel.key
    return found


FIELDS = [(node, field, value) for node, fields in CASES for field, value in fields.items()]


@pytest.mark.parametrize(
    ("node", "field", "value"), FIELDS, ids=[f"{type(n).__name__}.{f}" for n, f, _ in FIELDS]
)
def test_kernels_of_different_machine_code_have_different_keys(
    node: Any, field: str, value: Any
) -> None:
    codes, others = _codes(node), _codes(dataclasses.replace(node, **{field: value}))
    assert codes
    for machine in codes.keys() & others.keys():
        (module, key), (other_module, other_key) = codes[machine], others[machine]
        assert module == other_module or key != other_key, machine


def test_every_field_of_every_node_has_another_value() -> None:
    found = {(type(node), field) for node, fields in CASES for field in fields}
    assert found == {(kind, each.name) for kind in NODES for each in dataclasses.fields(kind)}
    assert {type(node) for node, _ in CASES} == set(NODES)
