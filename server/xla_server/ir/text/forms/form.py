"""Forms of an opcode's attributes in HLO text: the entries of the tables of forms."""

import dataclasses
import enum
import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeAlias

from xla_contract.errors import InvalidArgumentError
from xla_contract.ops.attribute_fields import ELEMENT_TYPE, Declared
from xla_contract.ops.definition import NO_ATTRIBUTES, OpDefinition
from xla_contract.ops.definitions import DEFINITION
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import Shape
from xla_server.ir.text.attribute_kinds import AttributeKind

REQUIRED: Any = object()
"""The default of an attribute that must be written."""


@dataclasses.dataclass(frozen=True, slots=True)
class Attribute:
    """`name=value`; left out if the value is the default, unless `always`.

    `field` is the field of the record, if it is not the one at the attribute's position.
    `of_operands` computes the value of an attribute that is not written from the operands' shapes.
    """

    name: str
    kind: AttributeKind
    default: Any = REQUIRED
    always: bool = False
    field: str = ""
    of_operands: Callable[[Sequence[Shape]], Any] | None = None


class OfShape(enum.Enum):
    """The part of the declared shape that a record has, which decides whether it can be absent."""

    NOTHING = enum.auto()
    ELEMENT_TYPE = enum.auto()
    ALL = enum.auto()


@dataclasses.dataclass(frozen=True, slots=True)
class Form:
    """The text of one opcode's attribute record and called computations.

    `take(record)` gives the values of the attributes in order, `make(shape, *values)` the record
    of an instruction with this declared shape. `calls` are the attributes that name the called
    computations, in the order of the opcode; `call_list` is one that names all of them in braces,
    and `call_aliases` are those that may name them one by one instead. `of_shape` is
    what the record has of the declared shape. `ignored` are attributes that mean nothing.
    """

    attributes: tuple[Attribute, ...] = ()
    take: Callable[[Any], Sequence[Any]] = lambda record: ()
    make: Callable[..., Any] = lambda shape: NO_ATTRIBUTES
    calls: tuple[str, ...] = ()
    call_list: str = ""
    call_aliases: tuple[str, ...] = ()
    of_shape: OfShape = OfShape.NOTHING
    ignored: tuple[str, ...] = ()

    @property
    def call_names(self) -> tuple[str, ...]:
        """Every attribute that may name called computations, in the order of the opcode."""
        return (*self.calls, self.call_list, *self.call_aliases)


@dataclasses.dataclass(frozen=True, slots=True)
class Nested:
    """A field of a record that is a record itself, with one attribute for each of its fields."""

    record: type[Any]
    attributes: tuple[Attribute, ...]


Field: TypeAlias = Attribute | Nested | Callable[[Shape, Mapping[str, Any]], Any]
"""A written field of a record, or a function that takes the field from the declared shape and the
fields before it."""


Row: TypeAlias = Form | Callable[[OpDefinition], Form]
"""An entry of a table of forms: a form, or a function that makes it from the opcode's
definition."""


def forms(rows: Mapping[Opcode, Row]) -> dict[Opcode, Form]:
    """Return the forms of the rows, and of opcodes whose record follows from the shape."""
    declared = {
        opcode: fields()
        for opcode, definition in DEFINITION.items()
        if definition.fields and all(isinstance(each, Declared) for each in definition.fields)
    }
    return {
        opcode: row if isinstance(row, Form) else row(DEFINITION[opcode])
        for opcode, row in (declared | dict(rows)).items()
    }


def fields(*written: Field, **others: Any) -> Row:
    """Return a row for records of which these are the first fields in the text.

    Fields that the contract takes from the declared shape are not listed; all other fields have
    their defaults. `others` are fields of Form that do not follow from the record.
    """
    return lambda definition: _record_form(definition, written, others)


def _record_form(
    definition: OpDefinition, fields: Sequence[Field], others: Mapping[str, Any]
) -> Form:
    record = definition.attributes
    fields_by_name = dict(zip(record.__match_args__, definition.fields, strict=True))
    declared = {name: each for name, each in fields_by_name.items() if isinstance(each, Declared)}
    named = _named([name for name in fields_by_name if name not in declared], fields)
    attributes: list[Attribute] = []
    paths: list[tuple[str, ...]] = []
    for name, field in named.items():
        if isinstance(field, Attribute):
            attributes.append(field)
            paths.append((name,))
        elif isinstance(field, Nested):
            attributes += field.attributes
            paths += [(name, inside) for inside in _inside(field)]

    def make(shape: Shape, *values: Any) -> Any:
        left = iter(values)
        made = {name: each.of_shape(shape) for name, each in declared.items()}
        for name, field in named.items():
            if isinstance(field, Attribute):
                made[name] = next(left)
            elif isinstance(field, Nested):
                made[name] = field.record(**dict(zip(_inside(field), left, strict=False)))
            else:
                made[name] = field(shape, made)
        return record(**made)

    return Form(
        tuple(attributes),
        lambda given: [functools.reduce(getattr, path, given) for path in paths],
        make,
        of_shape=_of_shape(declared.values(), fields),
        **others,
    )


def _of_shape(declared: Collection[Declared], fields: Sequence[Field]) -> OfShape:
    if not declared and all(isinstance(field, Attribute | Nested) for field in fields):
        return OfShape.NOTHING
    # The type in a record of a type alone, as that of a convert, follows from no operand.
    if fields and all(each is ELEMENT_TYPE for each in declared):
        return OfShape.ELEMENT_TYPE
    return OfShape.ALL


def _inside(nested: Nested) -> dict[str, Field]:
    return _named([each.name for each in dataclasses.fields(nested.record)], nested.attributes)


def _named(names: Sequence[str], fields: Sequence[Field]) -> dict[str, Field]:
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
