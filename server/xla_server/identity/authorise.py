"""The role that each rpc needs: one table of all of them, which a test proves total."""

from collections.abc import Mapping

from xla_contract.descriptors import EXTENSION_NAME, SERVICE_NAME
from xla_contract.errors import PermissionDeniedError
from xla_server.identity.identity import Identity, Role

_HEALTH = "grpc.health.v1.Health"
_REFLECTION = "grpc.reflection.v1alpha.ServerReflection"


def _paths(service: str, role: Role, names: str) -> dict[str, Role]:
    return {f"/{service}/{name}": role for name in names.split()}


ROLES: Mapping[str, Role] = (
    _paths(SERVICE_NAME, Role.VIEWER, "GetDeviceHandles GetShape TransferToClient")
    | _paths(
        SERVICE_NAME,
        Role.USER,
        "Compile ComputeConstantGraph CreateChannelHandle DeconstructTuple Execute "
        "ExecuteGraphParallel GetComputationGraphStats LoadData ResetDevice TransferFromOutfeed "
        "TransferToInfeed TransferToServer Unpack Unregister WaitForExecution",
    )
    # The unary calls on a Converse stream are looked up by their own paths.
    | _paths(
        EXTENSION_NAME,
        Role.VIEWER,
        "CloseSession Converse DescribeFeeds DescribeHandles DescribeSession Download GetUpload "
        "OpenSession",
    )
    | _paths(
        EXTENSION_NAME,
        Role.USER,
        "AbandonUpload AllocateShared AnalyzeExecutable CancelExecution CloseFeed CompileModule "
        "ConvertModule DownloadShared DrainFeed ExecuteSharded ExplainExecutable FreeShared "
        "Infeed Launch Outfeed Run RunBatch Upload UploadShared UploadSharedPieces",
    )
    | _paths(EXTENSION_NAME, Role.ADMIN, "DescribeServer")
    | _paths(_HEALTH, Role.VIEWER, "Watch")
    | _paths(_REFLECTION, Role.VIEWER, "ServerReflectionInfo")
)
"""Path of an rpc -> the least role that may call it.

Health's Check needs no credentials: orchestrators have none, and the answer is one bit.
"""


def authorise(identity: Identity, path: str) -> None:
    """Raise PermissionDeniedError unless an identity may call the rpc of a path.

    A path that the table does not have needs the highest role.
    """
    needed = ROLES.get(path, Role.ADMIN)
    if identity.role < needed:
        raise PermissionDeniedError(
            f"{path.rpartition('/')[2]} must be called in the role {needed.name.lower()}, got "
            f"{identity.name} in the role {identity.role.name.lower()}",
            hint="Ask the server's operator for the role.",
        )
