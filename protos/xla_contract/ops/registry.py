"""Every opcode at one place: what defines it, or why nothing does yet."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from xla_contract.errors import ShapeError, UnimplementedError, XlaError
from xla_contract.opcode import VARIADIC, Opcode
from xla_contract.ops.compound import COMPOUND
from xla_contract.ops.definition import AnyDefinition
from xla_contract.ops.elementary import ELEMENTARY
from xla_contract.shape import ProgramShape, Shape

_DEFINITIONS: tuple[AnyDefinition, ...] = (*ELEMENTARY, *COMPOUND)

DEFINITION: Mapping[Opcode, AnyDefinition] = MappingProxyType(
    {definition.opcode: definition for definition in _DEFINITIONS}
)
"""The definition of each opcode that programs may hold."""

_COLLECTIVE = "programs run on one replica, so no instruction may exchange data between replicas"
_ASYNCHRONOUS = "only compiled programs have halves of operations; send the program as lowered"
_TRANSFER = "values travel by infeed and outfeed; there are no send and receive channels"
_DYNAMIC = "sizes are fixed when the program is compiled"
_GENERATOR = "random numbers come from rng; generators with a state of their own are not offered"
_NO_SEMANTICS = "the operation has no public semantics to follow"

UNDEFINED: Mapping[Opcode, str] = MappingProxyType(
    {
        Opcode.ALL_GATHER: _COLLECTIVE,
        Opcode.ALL_GATHER_DONE: _COLLECTIVE,
        Opcode.ALL_GATHER_START: _COLLECTIVE,
        Opcode.ALL_REDUCE: _COLLECTIVE,
        Opcode.ALL_REDUCE_DONE: _COLLECTIVE,
        Opcode.ALL_REDUCE_START: _COLLECTIVE,
        Opcode.ALL_TO_ALL: _COLLECTIVE,
        Opcode.ASYNC_DONE: _ASYNCHRONOUS,
        Opcode.ASYNC_START: _ASYNCHRONOUS,
        Opcode.ASYNC_UPDATE: _ASYNCHRONOUS,
        Opcode.COLLECTIVE_BROADCAST: _COLLECTIVE,
        Opcode.COLLECTIVE_PERMUTE: _COLLECTIVE,
        Opcode.COLLECTIVE_PERMUTE_DONE: _COLLECTIVE,
        Opcode.COLLECTIVE_PERMUTE_START: _COLLECTIVE,
        Opcode.COLLECTIVE_REDUCE: _COLLECTIVE,
        Opcode.COPY_DONE: _ASYNCHRONOUS,
        Opcode.COPY_START: _ASYNCHRONOUS,
        Opcode.DYNAMIC_RESHAPE: _DYNAMIC,
        Opcode.RAGGED_ALL_TO_ALL: _COLLECTIVE,
        Opcode.RAGGED_DOT: "write it as one dot per group",
        Opcode.RECV: _TRANSFER,
        Opcode.RECV_DONE: _TRANSFER,
        Opcode.REDUCE_SCATTER: _COLLECTIVE,
        Opcode.RNG_BIT_GENERATOR: _GENERATOR,
        Opcode.RNG_GET_AND_UPDATE_STATE: _GENERATOR,
        Opcode.SCALED_DOT: "write it as multiplications with the scales and a dot",
        Opcode.SCAN: "write it as a while loop",
        Opcode.SEND: _TRANSFER,
        Opcode.SEND_DONE: _TRANSFER,
        Opcode.SET_DIMENSION_SIZE: _DYNAMIC,
        Opcode.SHUFFLE: _NO_SEMANTICS,
    }
)
"""Why each remaining opcode has no definition. With DEFINITION it covers every opcode once."""


def definition(opcode: Opcode) -> AnyDefinition:
    """The definition of `opcode`; raises UnimplementedError saying why there is none."""
    found = DEFINITION.get(opcode)
    if found is None:
        raise UnimplementedError(f"{UNDEFINED[opcode]}, got opcode {opcode}")
    return found


def infer_shape(
    opcode: Opcode,
    operands: Sequence[Shape],
    attributes: Any,
    called: Sequence[ProgramShape] = (),
    *,
    instruction: str = "",
) -> Shape:
    """The shape, without layout, of `opcode` applied to operands of these shapes.

    `called` are the signatures of the called computations. Raises ShapeError for a broken rule,
    the operand count included, and UnimplementedError for an opcode without definition; the
    message starts with the opcode and, where one is given, the instruction's name.
    """
    arity = opcode.arity
    try:
        if arity not in (VARIADIC, len(operands)):
            inside = ", ".join(map(str, operands))
            raise ShapeError(
                f"the number of operands must be {arity}, got {len(operands)}: ({inside})"
            )
        return definition(opcode).infer(operands, attributes, called)
    except XlaError as error:
        raise error.at(opcode, instruction) from error.__cause__
