"""Shardings in HLO text: `{replicated}`, `{devices=[2,1]<=[2]}`, `{mesh['x'=2], [{'x'}]}`."""

from collections.abc import Sequence
from typing import Any

from xla_contract.stubs import xla_data_pb2
from xla_contract.types.shape import MAX_NESTING
from xla_server.ir.text.attribute_kinds import AttributeKind
from xla_server.ir.text.replica_groups import (
    axes_text,
    iota_text,
    mesh_text,
    read_axes,
    read_axis,
    read_iota,
    read_mesh,
)
from xla_server.ir.text.scanner import HloReader

Sharding = xla_data_pb2.OpSharding

_AXIS_GROUPS = ("replicated", "unreduced", "manual")
_PLAIN = {
    Sharding.REPLICATED: "replicated",
    Sharding.MANUAL: "manual",
    Sharding.UNKNOWN: "unknown",
    Sharding.UNREDUCED: "unreduced",
}


def _write(sharding: Sharding) -> str:
    if sharding.HasField("named_sharding"):
        return "{" + _named_text(sharding.named_sharding) + "}"
    if sharding.type == Sharding.TUPLE:
        return "{" + ", ".join(map(_write, sharding.tuple_shardings)) + "}"
    parts = [_PLAIN.get(sharding.type) or _tiles_text(sharding)]
    if sharding.is_shard_group:
        way = "shard_as" if sharding.shard_group_type == Sharding.AS else "shard_like"
        parts.append(f"{way} {sharding.shard_group_id}")
    return "{" + " ".join(parts) + "}"


def _tiles_text(sharding: Sharding) -> str:
    if sharding.type == Sharding.MAXIMAL:
        return f"maximal device={sharding.tile_assignment_devices[0]}"
    text = "devices=[" + ",".join(map(str, sharding.tile_assignment_dimensions)) + "]"
    if sharding.iota_reshape_dims:
        text += "<=" + iota_text(sharding.iota_reshape_dims, sharding.iota_transpose_perm)
    else:
        text += ",".join(map(str, sharding.tile_assignment_devices))
    if sharding.replicate_on_last_tile_dim:
        text += " last_tile_dim_replicate"
    if sharding.last_tile_dims:
        kinds = (Sharding.Type.Name(kind).lower() for kind in sharding.last_tile_dims)
        text += " last_tile_dims={" + ", ".join(kinds) + "}"
    return text


def _named_text(sharding: xla_data_pb2.NamedShardingProto) -> str:
    mesh = sharding.mesh
    dimensions = []
    for dimension in sharding.dim_shardings:
        inside = axes_text(dimension.axes, mesh)[1:-1]
        opened = [] if dimension.is_closed else ["?"]
        dimensions.append("{" + ",".join([*([inside] if inside else []), *opened]) + "}")
    text = f"{mesh_text(mesh)}, [{', '.join(dimensions)}]"
    for name in _AXIS_GROUPS:
        axes: Sequence[xla_data_pb2.AxisRefProto] = getattr(sharding, f"{name}_axes")
        if axes:
            text += f", {name}={axes_text(axes, mesh)}"
    return text


def _read(reader: HloReader, depth: int = 0) -> Sharding:
    if depth > MAX_NESTING:
        reader.fail(f"at most {MAX_NESTING} nested shardings are")
    reader.expect("{")
    sharding = Sharding()
    if reader.peek("{") or reader.peek("}"):
        sharding.type = Sharding.TUPLE
        if not reader.peek("}"):
            sharding.tuple_shardings.append(_read(reader, depth + 1))
        while reader.skip(","):
            sharding.tuple_shardings.append(_read(reader, depth + 1))
    elif reader.peek("mesh["):
        _read_named(reader, sharding.named_sharding)
    else:
        _read_parts(reader, sharding)
    reader.expect("}")
    return sharding


def _read_parts(reader: HloReader, sharding: Sharding) -> None:
    plain = {word: kind for kind, word in _PLAIN.items()}
    while not reader.peek("}"):
        start = reader.at
        word = reader.word("a part of a sharding")
        if word in plain:
            sharding.type = plain[word]
        elif word == "maximal":
            sharding.type = Sharding.MAXIMAL
        elif word == "device":
            reader.expect("=")
            sharding.tile_assignment_devices.append(reader.signed())
        elif word == "devices":
            sharding.type = Sharding.OTHER
            _read_devices(reader, sharding)
        elif word == "last_tile_dim_replicate":
            sharding.replicate_on_last_tile_dim = True
        elif word == "last_tile_dims":
            reader.expect("=")
            sharding.last_tile_dims.extend(reader.braced(lambda: _read_type(reader)))
        elif word in ("shard_as", "shard_like"):
            sharding.is_shard_group = True
            sharding.shard_group_id = reader.signed()
            sharding.shard_group_type = Sharding.AS if word == "shard_as" else Sharding.LIKE
        elif word == "metadata":
            # The metadata about the origin of a sharding does not change it.
            reader.expect("=")
            reader.dictionary()
        else:
            reader.refuse("a sharding has no such part", repr(word), start)


def _read_devices(reader: HloReader, sharding: Sharding) -> None:
    reader.expect("=")
    sharding.tile_assignment_dimensions.extend(reader.listed("[", reader.signed, "]"))
    if reader.skip("<="):
        dimensions, permutation = read_iota(reader)
        sharding.iota_reshape_dims.extend(dimensions)
        sharding.iota_transpose_perm.extend(permutation)
        return
    sharding.tile_assignment_devices.append(reader.signed("a device"))
    while reader.skip(","):
        sharding.tile_assignment_devices.append(reader.signed("a device"))


def _read_type(reader: HloReader) -> Any:
    kinds = {name.lower(): kind for name, kind in Sharding.Type.items()}
    rule = "there is no such kind of sharding"
    return reader.known(reader.word, "a kind of sharding", kinds, rule)


def _read_named(reader: HloReader, sharding: xla_data_pb2.NamedShardingProto) -> None:
    read_mesh(reader, sharding.mesh)
    reader.skip(",")

    def read_dimension() -> None:
        dimension = sharding.dim_shardings.add(is_closed=True)

        def read_part() -> None:
            if reader.skip("?"):
                dimension.is_closed = False
            else:
                dimension.axes.append(read_axis(reader, sharding.mesh))

        reader.braced(read_part)

    reader.listed("[", read_dimension, "]")
    while reader.skip(","):
        start = reader.at
        word = reader.word("replicated, unreduced or manual")
        reader.expect("=")
        if word == "metadata":
            reader.dictionary()
        elif word in _AXIS_GROUPS:
            getattr(sharding, f"{word}_axes").extend(read_axes(reader, sharding.mesh))
        else:
            reader.refuse("a sharding has no such part", repr(word), start)


SHARDING = AttributeKind(_write, _read)
