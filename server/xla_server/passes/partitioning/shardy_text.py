"""Shardy's shardings, as JAX writes them into frontend attributes of HLO.

Semantics: the text forms of Shardy's dialect: `{mesh = #sdy.mesh<["a"=2, "b"=4]>}` of a module,
`#sdy.sharding_per_value<[<@mesh, [{"a"}, {}]>]>` and `#sdy<manual_axes{"a"}>` of instructions.
"""

import dataclasses
import re
from collections.abc import Mapping, Sequence

from xla_contract.errors import InvalidArgumentError
from xla_contract.types.devices.mesh import AxisPart, Mesh
from xla_contract.types.devices.sharding import Sharding, ShardingKind
from xla_server.ir.text.scanner import HloReader

_MESH_NAME = re.compile(r'"([^"\n]*)"|([A-Za-z_][A-Za-z0-9_.$\-]*)')
_AXIS_NAME = re.compile(r'"([^"\n]*)"')
_PRIORITY = re.compile(r"\s*p[0-9]{1,9}")


@dataclasses.dataclass(frozen=True, slots=True)
class MeshSharding:
    """A sharding along axes of a mesh: `dimensions` has the axes that split each, major first."""

    mesh: Mesh
    dimensions: tuple[tuple[AxisPart, ...], ...]
    unreduced: tuple[AxisPart, ...] = ()

    def along(self, axes: Sequence[str]) -> Sharding:
        """The sharding along these axes alone; the value is replicated along the others.

        A mesh without axes that names its device has values only there. Raises InvalidArgumentError
        for an axis that the mesh does not have, for sub-axes that do not divide one, and for a
        dimension that other axes split first.
        """
        if self.mesh.devices and not self.mesh.sizes:
            return Sharding(ShardingKind.MAXIMAL, devices=self.mesh.devices)
        for name in axes:
            if name not in self.mesh.names:
                raise InvalidArgumentError(
                    f"an axis must be one of the mesh's, got {name!r} for {self.mesh.names}"
                )
        kept = {self.mesh.names.index(name) for name in axes}
        dimensions = []
        for number, parts in enumerate(self.dimensions):
            count = sum(part.axis in kept for part in parts)
            if any(part.axis not in kept for part in parts[:count]):
                raise InvalidArgumentError(
                    "the manual axes of a region must split a dimension before other axes do, got "
                    f"dimension {number} along {[self.mesh.names[part.axis] for part in parts]} "
                    f"with manual axes {list(axes)}"
                )
            dimensions.append(parts[:count])
        unreduced = [part for part in self.unreduced if part.axis in kept]
        return Sharding.along(self.mesh, dimensions, unreduced=unreduced)


def read_meshes(text: str) -> dict[str, Mesh]:
    """The meshes of a module by name. Raises InvalidArgumentError with the position."""
    reader = _ShardyReader(text, {})
    meshes = dict(reader.braced(reader.named_mesh))
    reader.end()
    return meshes


def read_shardings(text: str, meshes: Mapping[str, Mesh]) -> tuple[MeshSharding, ...]:
    """The shardings of values, from `#sdy.sharding_per_value` or one `#sdy.sharding`.

    Raises InvalidArgumentError with the position, for unknown meshes and axes too.
    """
    reader = _ShardyReader(text, meshes)
    if reader.skip("#sdy.sharding_per_value<"):
        shardings = tuple(reader.listed("[", reader.sharding, "]"))
        reader.expect(">")
    else:
        reader.expect("#sdy.sharding")
        shardings = (reader.sharding(),)
    reader.end()
    return shardings


def read_manual_axes(text: str) -> tuple[str, ...]:
    """The names of the axes of a manual region. Raises InvalidArgumentError with the position."""
    reader = _ShardyReader(text, {})
    reader.expect("#sdy<manual_axes")
    axes = tuple(reader.braced(reader.axis_name))
    reader.expect(">")
    reader.end()
    return axes


class _ShardyReader(HloReader):
    """A parser of Shardy's text, which has no nesting."""

    subject = "Shardy's text"

    def __init__(self, text: str, meshes: Mapping[str, Mesh]) -> None:
        super().__init__(text)
        self._meshes = meshes

    def named_mesh(self) -> tuple[str, Mesh]:
        name = self._mesh_name("the name of a mesh")
        self.expect("=")
        self.expect("#sdy.")
        return name, self._mesh()

    def sharding(self) -> MeshSharding:
        self.expect("<")
        mesh = self._mesh_of_sharding()
        self.expect(",")
        dimensions = tuple(self.listed("[", lambda: self._dimension(mesh), "]"))
        unreduced: tuple[AxisPart, ...] = ()
        while self.skip(","):
            start = self.at
            word = self.word("replicated or unreduced")
            if word not in ("replicated", "unreduced"):
                self.refuse("a sharding has no such part", repr(word), start)
            self.expect("=")
            axes = tuple(self.braced(lambda: self._part(mesh)))
            unreduced += axes if word == "unreduced" else ()
        self.expect(">")
        return MeshSharding(mesh, dimensions, unreduced)

    def axis_name(self) -> str:
        return self.match(_AXIS_NAME, "the name of an axis in quotes")[1]

    def _mesh(self) -> Mesh:
        self.expect("mesh<")

        def axis() -> tuple[str, int]:
            name = self.axis_name()
            self.expect("=")
            return name, self.signed("the size of an axis")

        axes = self.listed("[", axis, "]")
        devices: list[int] = []
        if self.skip(","):
            self.expect("device_ids")
            self.expect("=")
            devices = self.listed("[", self.signed, "]")
        self.expect(">")
        names = tuple(name for name, _ in axes)
        return Mesh(tuple(size for _, size in axes), names, tuple(devices))

    def _mesh_of_sharding(self) -> Mesh:
        if not self.skip("@"):
            return self._mesh()
        rule = "a sharding must name a mesh of the module"
        return self.known(self._mesh_name, "the name of a mesh", self._meshes, rule)

    def _mesh_name(self, what: str) -> str:
        found = self.match(_MESH_NAME, what)
        return found[1] or found[2]

    def _dimension(self, mesh: Mesh) -> tuple[AxisPart, ...]:
        # An open dimension ("?") may be split further, which is not done here.
        parts = self.braced(lambda: None if self.skip("?") else self._part(mesh))
        priority = _PRIORITY.match(self.text, self.at)
        self.at = self.at if priority is None else priority.end()
        return tuple(part for part in parts if part is not None)

    def _part(self, mesh: Mesh) -> AxisPart:
        numbers = {name: number for number, name in enumerate(mesh.names)}
        rule = "an axis must be one of the mesh's"
        number = self.known(lambda _: self.axis_name(), "", numbers, rule)
        if not self.skip(":("):
            return AxisPart(number)
        before = self.signed()
        self.expect(")")
        return AxisPart(number, before, self.signed())
