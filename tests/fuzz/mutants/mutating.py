"""Mutations of a module: of its fields, of their order, and of its bytes."""

import random
from collections.abc import Iterator
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from xla_contract.stubs import hlo_pb2
from xla_contract.types.opcode import Opcode

MAX_MUTATIONS = 2
"""Mutations of one module: with more, hardly any gets beyond the first check."""

STRUCTURE_KEPT = 0.8
"""Share of mutations that leave names and references alone: the rest is nearly always refused."""

_STRUCTURE = frozenset(
    {
        "id",
        "name",
        "operand_ids",
        "called_computation_ids",
        "root_id",
        "entry_computation_id",
        "entry_computation_name",
        "opcode",
        "host_program_shape",
        "element_type",
    }
)
_NUMBERS = (-1, 0, 1, 2, 3, 7, 31, 127, 2**15, 2**31 - 1, 2**40, 2**63 - 1, -(2**63))
_UNSIGNED = (FieldDescriptor.TYPE_UINT32, FieldDescriptor.TYPE_UINT64)
_NARROW = (FieldDescriptor.TYPE_INT32, FieldDescriptor.TYPE_UINT32, FieldDescriptor.TYPE_ENUM)
_EMPTY = {FieldDescriptor.TYPE_STRING: "", FieldDescriptor.TYPE_BYTES: b""}
"""Elements that lists of strings are extended from; lists of numbers are from 0."""

_OPCODES = tuple(map(str, Opcode))


def mutant(proto: hlo_pb2.HloModuleProto, chance: random.Random) -> hlo_pb2.HloModuleProto:
    """Return a copy with one to MAX_MUTATIONS changes of fields, elements and submessages."""
    changed = hlo_pb2.HloModuleProto()
    changed.CopyFrom(proto)
    for _ in range(chance.randint(1, MAX_MUTATIONS)):
        nodes = [node for node in _messages(changed) if node.ListFields()]
        if nodes:
            _mutate(chance.choice(nodes), nodes, chance)
    return changed


def mutant_bytes(data: bytes, chance: random.Random) -> bytes:
    """Return the bytes with some of them changed, removed, repeated or moved."""
    changed = bytearray(data)
    for _ in range(chance.randint(1, MAX_MUTATIONS)):
        start = chance.randrange(len(changed) + 1)
        length = chance.choice((1, 1, 2, 8, 64))
        piece = bytes(changed[start : start + length])
        what = chance.randrange(4)
        if what == 0 and piece:
            changed[start] ^= 1 << chance.randrange(8)
        elif what == 1:
            del changed[start : start + length]
        elif what == 2:
            changed[start:start] = piece
        else:
            other = chance.randrange(len(changed) + 1)
            changed[other : other + length] = piece
    return bytes(changed)


def _messages(message: Message) -> Iterator[Message]:
    yield message
    for field, value in message.ListFields():
        if field.message_type is None or field.message_type.GetOptions().map_entry:
            continue
        for part in value if field.is_repeated else (value,):
            yield from _messages(part)


def _mutate(message: Message, others: list[Message], chance: random.Random) -> None:
    """Change one field that is set, or now and then set one that is not."""
    present = [field for field, _ in message.ListFields()]
    if chance.random() < 0.15:
        present = list(message.DESCRIPTOR.fields)
    if chance.random() < STRUCTURE_KEPT:
        present = [field for field in present if field.name not in _STRUCTURE] or present
    field = chance.choice(present)
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        message.ClearField(field.name)
    elif field.is_repeated:
        _mutate_list(getattr(message, field.name), field, others, chance)
    elif field.message_type is not None:
        _replace(getattr(message, field.name), others, chance)
    elif chance.random() < 0.1:
        message.ClearField(field.name)
    else:
        setattr(message, field.name, _value(field, getattr(message, field.name), chance))


def _mutate_list(
    values: Any, field: FieldDescriptor, others: list[Message], chance: random.Random
) -> None:
    """Remove, repeat, exchange, add or change an element."""
    is_message = field.message_type is not None
    what = chance.choice(("remove", "repeat", "exchange", "change", "change"))
    if not len(values):
        if is_message:
            _replace(values.add(), others, chance)
        else:
            values.append(_value(field, _EMPTY.get(field.type, 0), chance))
        return
    place, other = chance.randrange(len(values)), chance.randrange(len(values))
    if what == "remove":
        del values[place]
    elif what == "repeat":
        values.extend([values[place]])
    elif what == "exchange" and is_message:
        kept = type(values[place])()
        kept.CopyFrom(values[place])
        values[place].CopyFrom(values[other])
        values[other].CopyFrom(kept)
    elif what == "exchange":
        values[place], values[other] = values[other], values[place]
    elif is_message:
        _replace(values[place], others, chance)
    else:
        values[place] = _value(field, values[place], chance)


def _replace(message: Message, others: list[Message], chance: random.Random) -> None:
    """Put another message of the same type here, or nothing."""
    alike = [other for other in others if other.DESCRIPTOR is message.DESCRIPTOR]
    if alike and chance.random() < 0.8:
        kept = type(message)()
        kept.CopyFrom(chance.choice(alike))
        message.CopyFrom(kept)
    else:
        message.Clear()


def _value(field: FieldDescriptor, old: Any, chance: random.Random) -> Any:
    if field.type == FieldDescriptor.TYPE_BOOL:
        return not old
    if field.type == FieldDescriptor.TYPE_STRING:
        return chance.choice((chance.choice(_OPCODES), "", old[:-1], old + "x"))
    if field.type == FieldDescriptor.TYPE_BYTES:
        return mutant_bytes(old, chance)
    if field.type in (FieldDescriptor.TYPE_FLOAT, FieldDescriptor.TYPE_DOUBLE):
        return chance.choice((0.0, -1.0, 1e30, float("nan"), float("inf")))
    number = chance.choice((old + 1, old - 1, old * 2, chance.choice(_NUMBERS)))
    if field.type == FieldDescriptor.TYPE_ENUM:
        return chance.randrange(40)
    bits = 31 if field.type in _NARROW else 63
    low = 0 if field.type in _UNSIGNED else -(2**bits)
    return min(max(number, low), 2**bits - 1)
