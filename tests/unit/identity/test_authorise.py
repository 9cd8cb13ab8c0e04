import pytest
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2

from xla_contract.descriptors import EXTENSION_RPCS, RPCS
from xla_contract.errors import PermissionDeniedError
from xla_server.identity.authorise import ROLES, authorise
from xla_server.identity.identity import Identity, Role


def paths_of(file) -> set[str]:
    return {
        f"/{service.full_name}/{method.name}"
        for service in file.services_by_name.values()
        for method in service.methods
    }


def test_the_table_has_every_rpc_and_no_other():
    served = {rpc.path for rpc in (*RPCS, *EXTENSION_RPCS)}
    served |= paths_of(health_pb2.DESCRIPTOR) & {
        "/grpc.health.v1.Health/Check",
        "/grpc.health.v1.Health/Watch",
    }
    served |= paths_of(reflection_pb2.DESCRIPTOR)
    assert served - set(ROLES) == {"/grpc.health.v1.Health/Check"}
    assert set(ROLES) <= served


def test_viewers_look_and_change_nothing():
    viewed = {path.rpartition("/")[2] for path, role in ROLES.items() if role <= Role.VIEWER}
    assert viewed == {
        *("OpenSession", "CloseSession", "Converse", "DescribeSession", "DescribeHandles"),
        *("DescribeFeeds", "GetDeviceHandles", "GetShape", "GetUpload"),
        *("TransferToClient", "Download", "Watch", "ServerReflectionInfo"),
    }


@pytest.mark.parametrize("role", list(Role))
def test_a_role_may_call_what_needs_no_more(role: Role):
    identity = Identity("token:alice", role)
    for path, needed in ROLES.items():
        if role >= needed:
            authorise(identity, path)
            continue
        with pytest.raises(PermissionDeniedError) as caught:
            authorise(identity, path)
        assert caught.value.message == (
            f"{path.rpartition('/')[2]} must be called in the role {needed.name.lower()}, got "
            f"token:alice in the role {role.name.lower()}"
        )


def test_what_the_table_does_not_have_needs_the_highest_role():
    authorise(Identity("a", Role.ADMIN), "/other/Method")
    with pytest.raises(PermissionDeniedError, match="Method must be called in the role admin"):
        authorise(Identity("a", Role.USER), "/other/Method")
