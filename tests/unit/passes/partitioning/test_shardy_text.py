import re

import pytest

from xla_contract.errors import InvalidArgumentError
from xla_contract.types.devices.mesh import AxisPart, Mesh
from xla_contract.types.devices.sharding import REPLICATED, Sharding, ShardingKind
from xla_server.passes.partitioning.shardy_text import read_manual_axes, read_meshes, read_shardings

MESH = Mesh((2, 4), ("a", "b"))
COPIES = ShardingKind.REPLICATED


def read(text: str) -> Sharding:
    (sharding,) = read_shardings(f"#sdy.sharding<@mesh, {text}>", {"mesh": MESH})
    return sharding.along(sharding.mesh.names)


@pytest.mark.parametrize(
    ("text", "meshes"),
    [
        ('{mesh = #sdy.mesh<["a"=2, "b"=4]>}', {"mesh": MESH}),
        ("{}", {}),
        (
            '{m-1 = #sdy.mesh<["x"=2], device_ids=[1,0]>, "a b" = #sdy.mesh<[]>}',
            {"m-1": Mesh((2,), ("x",), (1, 0)), "a b": Mesh(())},
        ),
    ],
)
def test_meshes(text: str, meshes: dict[str, Mesh]) -> None:
    assert read_meshes(text) == meshes


@pytest.mark.parametrize(
    ("text", "sharding"),
    [
        ("[]", REPLICATED),
        ("[{}, {}]", REPLICATED),
        ("[{?}]", REPLICATED),
        ('[{"a"}, {}]', Sharding.tiled([2, 1], None, [(COPIES, 4)])),
        ('[{"a", ?}p1, {?}p0]', Sharding.tiled([2, 1], None, [(COPIES, 4)])),
        ('[{"a", "b"}]', Sharding.tiled([8])),
        ('[{"b", "a"}]', Sharding.tiled([8], [0, 4, 1, 5, 2, 6, 3, 7])),
        ('[{"b":(1)2}]', Sharding.tiled([2], [0, 1, 4, 5, 2, 3, 6, 7], [(COPIES, 4)])),
        (
            '[{"b":(2)2}], replicated={"a"}',
            Sharding.tiled([2], [0, 2, 4, 6, 1, 3, 5, 7], [(COPIES, 4)]),
        ),
        (
            '[{"b"}], unreduced={"a"}',
            Sharding.tiled([4], [0, 4, 1, 5, 2, 6, 3, 7], [(ShardingKind.UNREDUCED, 2)]),
        ),
    ],
)
def test_shardings(text: str, sharding: Sharding) -> None:
    assert read(text) == sharding


def test_shardings_per_value_and_meshes_written_in_place() -> None:
    text = '#sdy.sharding_per_value<[<mesh<["x"=2], device_ids=[1, 0]>, [{"x"}]>, <@mesh, []>]>'
    first, second = read_shardings(text, {"mesh": MESH})
    assert first.along(["x"]) == Sharding.tiled([2], [1, 0])
    assert second.along(["a", "b"]) == REPLICATED


def test_manual_axes() -> None:
    assert read_manual_axes('#sdy<manual_axes{"a", "b"}>') == ("a", "b")


def test_axes_that_are_not_manual_have_copies() -> None:
    (stated,) = read_shardings('#sdy.sharding<@mesh, [{"a", "b"}]>', {"mesh": MESH})
    assert stated.along(["a"]) == Sharding.tiled([2], None, [(COPIES, 4)])
    assert stated.dimensions == ((AxisPart(0), AxisPart(1)),)
    with pytest.raises(InvalidArgumentError, match=re.escape("dimension 0 along ['a', 'b']")):
        stated.along(["b"])
    with pytest.raises(InvalidArgumentError, match="one of the mesh's, got 'c'"):
        stated.along(["c"])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('#sdy.sharding<@other, [{"a"}]>', "must name a mesh of the module, got 'other' at 1:16"),
        ('#sdy.sharding<@mesh, [{"c"}]>', "must be one of the mesh's, got 'c' at 1:24"),
        ('#sdy.sharding<@mesh, [{"a"}], partial={"b"}>', "no such part, got 'partial'"),
        ("#sdy.sharding<@mesh, [{a}]>", "in quotes is needed in Shardy's text, got 'a}]>'"),
        ("#sdy.sharding<@mesh, []> x", "the end is needed in Shardy's text, got 'x'"),
        ("#sdy.elsewhere<@mesh, []>", "needed in Shardy's text, got '#sdy.elsewhere<@mesh'"),
        ("", "got the end"),
    ],
)
def test_text_that_is_not_understood_is_refused(text: str, said: str) -> None:
    with pytest.raises(InvalidArgumentError, match=re.escape(said)):
        read_shardings(text, {"mesh": MESH})


def test_a_mesh_without_axes_has_values_on_one_device_alone() -> None:
    (stated,) = read_shardings("#sdy.sharding<@one, []>", {"one": Mesh((), (), (2,))})
    assert stated.along([]) == Sharding(ShardingKind.MAXIMAL, devices=(2,))


def test_axes_that_overlap_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="must not overlap"):
        read('[{"a"}, {"a"}]')
    with pytest.raises(InvalidArgumentError, match="must divide it"):
        read('[{"b":(1)3}]')
