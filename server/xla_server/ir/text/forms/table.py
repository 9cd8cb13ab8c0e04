"""The table of forms: every opcode that has a definition, and how its attributes are written."""

from collections.abc import Mapping
from typing import Any

from xla_contract.ops.collectives.collective import Participants, declared_sizes
from xla_contract.ops.control.fusion import FusionKind
from xla_contract.stubs import hlo_pb2
from xla_contract.types.devices.replica_groups import GroupForm, ReplicaGroups
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import Shape
from xla_server.ir.text import attribute_kinds as kinds
from xla_server.ir.text.forms.arrays import ARRAYS
from xla_server.ir.text.forms.compound import COMPOUND
from xla_server.ir.text.forms.form import (
    Attribute,
    Field,
    Form,
    Nested,
    Row,
    element,
    fields,
    forms,
)
from xla_server.ir.text.replica_groups import GROUPS

_API_VERSIONS = {number: name for name, number in hlo_pb2.CustomCallApiVersion.items()}
_PARTICIPANTS = Nested(
    Participants,
    (
        Attribute("channel_id", kinds.INTEGER, 0, field="channel_id"),
        Attribute(
            "replica_groups",
            GROUPS,
            ReplicaGroups(form=GroupForm.LIST),
            always=True,
            field="groups",
        ),
        Attribute("use_global_device_ids", kinds.BOOL, False),
        Attribute("constrain_layout", kinds.BOOL, False),
    ),
)


def _context(shape: Shape, made: Mapping[str, Any]) -> tuple[Shape, ...]:
    element(shape, 1)
    return tuple(part.without_layout() for part in shape.tuple_shapes[2:])


def _parts(position: int | None) -> Field:
    """Return a field that has the size of the dimension in each declared result.

    With a `position`, the results are that element of the declared tuple.
    """
    return lambda shape, made: declared_sizes(
        shape if position is None else element(shape, position), made["dimension"]
    )


_DIMENSION = Attribute("dimensions", kinds.SINGLE)
_ALL_REDUCE = fields(_PARTICIPANTS, calls=("to_apply",))
_PERMUTE = (
    Attribute("channel_id", kinds.INTEGER, 0, field="channel_id"),
    Attribute("source_target_pairs", kinds.INTEGER_PAIRS, field="pairs"),
)
_THREAD = Attribute("async_execution_thread", kinds.STRING, "")

_COLLECTIVES: dict[Opcode, Row] = {
    Opcode.ALL_GATHER: fields(_DIMENSION, _parts(None), _PARTICIPANTS),
    Opcode.ALL_GATHER_START: fields(_DIMENSION, _parts(1), _PARTICIPANTS),
    Opcode.ALL_REDUCE: _ALL_REDUCE,
    Opcode.ALL_REDUCE_START: _ALL_REDUCE,
    Opcode.ALL_TO_ALL: fields(Attribute("dimensions", kinds.SINGLE, None), _PARTICIPANTS),
    Opcode.COLLECTIVE_BROADCAST: fields(_PARTICIPANTS),
    Opcode.COLLECTIVE_REDUCE: fields(_PARTICIPANTS, calls=("to_apply",)),
    Opcode.COLLECTIVE_PERMUTE: fields(*_PERMUTE),
    Opcode.COLLECTIVE_PERMUTE_START: fields(*_PERMUTE, _context),
    Opcode.RAGGED_ALL_TO_ALL: fields(_PARTICIPANTS, ignored=("dimensions",)),
    Opcode.REDUCE_SCATTER: fields(_DIMENSION, _parts(None), _PARTICIPANTS, calls=("to_apply",)),
}

_CALLS: dict[Opcode, Row] = {
    Opcode.ASYNC_START: fields(_THREAD, _context, calls=("calls",)),
    Opcode.ASYNC_UPDATE: fields(_THREAD, calls=("calls",)),
    Opcode.ASYNC_DONE: fields(_THREAD, calls=("calls",)),
    Opcode.CALL: Form(calls=("to_apply",)),
    Opcode.CONDITIONAL: Form(
        call_list="branch_computations",
        call_aliases=("true_computation", "false_computation"),
    ),
    Opcode.CUSTOM_CALL: fields(
        Attribute("custom_call_target", kinds.STRING),
        Attribute("backend_config", kinds.JSON_OR_STRING, b""),
        Attribute("custom_call_has_side_effect", kinds.BOOL, False),
        # An attribute that is absent from the text is the original interface.
        Attribute("api_version", kinds.words(_API_VERSIONS), hlo_pb2.API_VERSION_ORIGINAL),
        call_list="called_computations",
        call_aliases=("to_apply",),
    ),
    Opcode.FUSION: fields(
        Attribute("kind", kinds.words({kind: kind.value for kind in FusionKind})),
        calls=("calls",),
    ),
    Opcode.WHILE: Form(calls=("body", "condition")),
}

_TRANSFER = fields(
    Attribute("channel_id", kinds.INTEGER, 0), Attribute("is_host_transfer", kinds.BOOL, False)
)
_CHANNELS: dict[Opcode, Row] = dict.fromkeys(
    (Opcode.SEND, Opcode.SEND_DONE, Opcode.RECV, Opcode.RECV_DONE), _TRANSFER
)

FORMS = forms(ARRAYS | COMPOUND | _CHANNELS | _COLLECTIVES | _CALLS)
"""Forms with attributes or called computations; PARAMETER and CONSTANT have theirs as operands."""

PLAIN = Form()
"""The form of all others."""
