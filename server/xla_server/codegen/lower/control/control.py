"""Lowering of instructions that move no data: tuples, control flow, aliases, tokens."""

from collections.abc import Mapping

import numpy as np

from xla_contract.types.literal import Array, Literal
from xla_contract.types.opcode import Opcode
from xla_server.buffers.code import Branch, Jump, Label, Switch, Value
from xla_server.buffers.parallel_copies import parallel_copies
from xla_server.codegen.lower.control.small_loop import DeviceLoop, elements_of, lower_small_loop
from xla_server.codegen.lower.lowering import Lower, Lowering, Tree, leaves
from xla_server.ir.explicit_stack import Deep
from xla_server.ir.module import HloInstruction


def _constant(lowering: Lowering, i: HloInstruction) -> Tree:
    """Arrays that belong to the program."""
    tree = lowering.new_tree(i.shape, i.name)
    for value, array in zip(leaves(tree), _arrays(i.attributes.literal), strict=True):
        lowering.constants[value] = np.ascontiguousarray(array)
    return tree


def _arrays(literal: Literal) -> list[Array]:
    if literal.shape.is_tuple:
        return [array for element in literal.elements for array in _arrays(element)]
    return [literal.value] if literal.shape.is_array else []


def _get_tuple_element(lowering: Lowering, i: HloInstruction) -> Tree:
    """One element's values."""
    tree = lowering.of(i.operands[0])
    assert isinstance(tree, tuple)
    index: int = i.attributes.index
    return tree[index]


def _values(lowering: Lowering, i: HloInstruction) -> tuple[Tree, ...]:
    """The tuple of the operands' values."""
    return tuple(lowering.of(operand) for operand in i.operands)


def _alias(lowering: Lowering, i: HloInstruction) -> Tree:
    """The first operand's values themselves."""
    return lowering.of(i.operands[0])


def lower_while(
    lowering: Lowering, i: HloInstruction, on_device: DeviceLoop | None = None
) -> Deep[Tree]:
    """A loop whose body overwrites the state; the condition is tested first.

    called = (body, condition). `on_device` is for the lowering of small loops. State that the body
    passes through unchanged needs no memory of its own.
    """
    body, condition = i.called
    initial = lowering.of(i.operands[0])
    invariant = _invariant_paths(body.root, body.parameters[0])
    elements = elements_of(initial)
    if elements is not None:
        paths = [(n,) for n in range(len(elements))] if isinstance(initial, tuple) else [()]
        unchanged = [path in invariant for path in paths]
        small = lowering.attempt(
            i, lambda: lower_small_loop(lowering, i, elements, unchanged, on_device)
        )
        if small is not None:
            return small if isinstance(initial, tuple) else small[0]
    state = _state(lowering, i, initial, invariant, ())
    lowering.carried |= {*leaves(state)} - {*leaves(initial)}
    lowering.copy(state, initial)
    begin, end = Label(f"{i.name}.condition"), Label(f"{i.name}.end")
    lowering.add(begin)
    lowering.loop_depth += 1
    goes_on: Tree = yield lowering.call(condition, [state])
    assert isinstance(goes_on, Value)
    lowering.add(Branch(goes_on, end))
    updated: Tree = yield lowering.call(body, [state])
    pairs = zip(leaves(state), leaves(updated), strict=True)
    for copy in parallel_copies(dict(pairs)):
        lowering.add(copy)
    lowering.loop_depth -= 1
    lowering.add(Jump(begin))
    lowering.add(end)
    return state


Path = tuple[int, ...]


def _invariant_paths(root: HloInstruction, parameter: HloInstruction) -> set[Path]:
    """The paths in the root's tuple at which the parameter's element is returned unchanged."""
    found: set[Path] = set()
    waiting: list[tuple[HloInstruction, Path]] = [(root, ())]
    while waiting:
        node, path = waiting.pop()
        if _path_of(node, parameter) == path:
            found.add(path)
        elif node.opcode is Opcode.TUPLE:
            waiting += [(operand, (*path, n)) for n, operand in enumerate(node.operands)]
    return found


def _path_of(node: HloInstruction, parameter: HloInstruction) -> Path | None:
    path: Path = ()
    while node.opcode is Opcode.GET_TUPLE_ELEMENT:
        path = (node.attributes.index, *path)
        (node,) = node.operands
    return path if node is parameter else None


def _state(
    lowering: Lowering, i: HloInstruction, initial: Tree, invariant: set[Path], path: Path
) -> Tree:
    if path in invariant:
        return initial
    if isinstance(initial, tuple):
        return tuple(
            _state(lowering, i, part, invariant, (*path, n)) for n, part in enumerate(initial)
        )
    if initial is None:
        return None
    return lowering.new(initial.shape, f"{i.name}.{'.'.join(map(str, path))}")


def _conditional(lowering: Lowering, i: HloInstruction) -> Deep[Tree]:
    """A jump to the branch that the predicate or index selects; every branch fills the result."""
    chosen = lowering.array(i.operands[0])
    result = lowering.new_tree(i.shape, i.name)
    labels = tuple(Label(f"{i.name}.branch{n}") for n in range(len(i.called)))
    end = Label(f"{i.name}.end")
    if chosen.shape.element_type.text == "pred":
        lowering.add(Branch(chosen, labels[1]))
    else:
        lowering.add(Switch(chosen, labels))
    for n, branch in enumerate(i.called):
        lowering.add(labels[n])
        returned: Tree = yield lowering.call(branch, [lowering.of(i.operands[n + 1])])
        lowering.copy(result, returned)
        lowering.add(Jump(end))
    lowering.add(end)
    return result


CONTROL: Mapping[Opcode, Lower] = {
    Opcode.ADD_DEPENDENCY: _alias,
    # No value: the order of rows is the order of effects.
    Opcode.AFTER_ALL: lambda lowering, i: None,
    Opcode.CALL: lambda lowering, i: lowering.call(i.called[0], _values(lowering, i)),
    Opcode.CONDITIONAL: _conditional,
    Opcode.CONSTANT: _constant,
    Opcode.COPY: _alias,
    Opcode.DOMAIN: _alias,
    Opcode.GET_TUPLE_ELEMENT: _get_tuple_element,
    Opcode.OPT_BARRIER: _alias,
    Opcode.RESHAPE: _alias,
    Opcode.TUPLE: _values,
    Opcode.WHILE: lower_while,
}
"""The lowerings of instructions that move no data: the same on every platform."""
