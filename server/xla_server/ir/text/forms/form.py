"""Forms of an opcode's attributes in HLO text: the entries of the tables of forms."""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from xla_contract.errors import InvalidArgumentError
from xla_contract.ops.definition import NO_ATTRIBUTES
from xla_contract.ops.definitions import DEFINITION
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import Shape
from xla_server.ir.text.attribute_kinds import AttributeKind

REQUIRED: Any = object()
"""The default of an attribute that must be said."""


@dataclasses.dataclass(frozen=True, slots=True)
class Attribute:
    """`name=value`; one that has its default is left out, unless `always` says it.

    `field` is the field of the record, where it is not the one at the attribute's position.
    """

    name: str
    kind: AttributeKind
    default: Any = REQUIRED
    always: bool = False
    field: str = ""


def _no_values(record: Any) -> Sequence[Any]:
    return ()


def _no_record(shape: Shape) -> Any:
    return NO_ATTRIBUTES


@dataclasses.dataclass(frozen=True, slots=True)
class Form:
    """The text of one opcode's attribute record and called computations.

    `take(record)` gives the values of the attributes in order, `make(shape, *values)` the record
    of an instruction with this declared shape. `calls` are the attributes that name the called
    computations, in the order of the opcode; `call_list` is one that names all of them in braces,
    and `call_aliases` are those that may name them one by one instead.
    """

    attributes: tuple[Attribute, ...] = ()
    take: Callable[[Any], Sequence[Any]] = _no_values
    make: Callable[..., Any] = _no_record
    calls: tuple[str, ...] = ()
    call_list: str = ""
    call_aliases: tuple[str, ...] = ()

    @property
    def call_names(self) -> tuple[str, ...]:
        """Every attribute that may name called computations, in the order of the opcode."""
        return (*self.calls, self.call_list, *self.call_aliases)


@dataclasses.dataclass(frozen=True, slots=True)
class Nested:
    """A field of a record that is a record itself, with one attribute for each of its fields."""

    record: type[Any]
    attributes: tuple[Attribute, ...]


Field: TypeAlias = Attribute | Nested | Callable[[Shape], Any]
"""A written field of a record, or a function that takes the field from the declared shape."""


FormOf: TypeAlias = Callable[[type[Any]], Form]
"""Gives the form of an opcode, of its attribute record."""


Row: TypeAlias = FormOf | Form
"""An entry of a table of forms."""


def forms(rows: Mapping[Opcode, Row]) -> dict[Opcode, Form]:
    """Return the form of each opcode, made of the record that the contract defines for it."""
    return {
        opcode: row if isinstance(row, Form) else row(DEFINITION[opcode].attributes)
        for opcode, row in rows.items()
    }


def fields(*written: Field, **calls: Any) -> FormOf:
    """Return what makes the form of a record whose first fields are these; others are defaults.

    `calls` are the fields of Form about called computations.
    """
    return lambda record: _record_form(record, written, calls)


def _record_form(record: type[Any], fields: Sequence[Field], calls: Mapping[str, Any]) -> Form:
    named = _named(record, fields)
    attributes: list[Attribute] = []
    paths: list[tuple[str, ...]] = []
    for name, field in named.items():
        if isinstance(field, Attribute):
            attributes.append(field)
            paths.append((name,))
        elif isinstance(field, Nested):
            attributes += field.attributes
            paths += [(name, inside) for inside in _named(field.record, field.attributes)]

    def make(shape: Shape, *values: Any) -> Any:
        left = iter(values)
        made = {}
        for name, field in named.items():
            if isinstance(field, Attribute):
                made[name] = next(left)
            elif isinstance(field, Nested):
                inside = _named(field.record, field.attributes)
                made[name] = field.record(**dict(zip(inside, left, strict=False)))
            else:
                made[name] = field(shape)
        return record(**made)

    return Form(
        tuple(attributes),
        lambda given: [functools.reduce(getattr, path, given) for path in paths],
        make,
        **calls,
    )


def _named(record: type[Any], fields: Sequence[Field]) -> dict[str, Field]:
    names = [field.name for field in dataclasses.fields(record)]
    return {
        field.field if isinstance(field, Attribute) and field.field else name: field
        for name, field in zip(names, fields, strict=False)
    }


def element(shape: Shape, position: int) -> Shape:
    """An element of a declared shape that must be a tuple; raises InvalidArgumentError."""
    if len(shape.tuple_shapes) <= position:
        raise InvalidArgumentError(
            f"the result must be a tuple of more than {position}, got {shape.without_layout()}"
        )
    return shape.tuple_shapes[position]
