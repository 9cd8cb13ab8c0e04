"""A thin client of the XLA service.

    import numpy as np
    import xla_client as xc

    b = xc.Builder("axpy")
    alpha = b.parameter(0, "f32[]", "alpha")
    x = b.parameter(1, "f32[3]", "x")
    y = b.parameter(2, "f32[3]", "y")
    axpy = b.build(alpha * x + y)

    with xc.connect("localhost:1685") as client:
        run = client.compile(axpy)
        print(run.run(2.0, np.float32([1, 2, 3]), np.float32([4, 5, 6])))

Programs are written with a Builder and `xla_client.ops`, or loaded from HLO made elsewhere with
`Computation.from_serialized`. Errors are the classes of `xla_contract.errors`, re-exported here.
"""

import importlib
from typing import TYPE_CHECKING, Any

from xla_client.client import Client, ComputationStats
from xla_client.connecting import aconnect, connect
from xla_client.device import ChannelHandle, Device
from xla_client.feeds.infeed import Infeed
from xla_client.feeds.outfeed import Outfeed
from xla_client.feeds.state import FeedState, FeedStates, FeedWaiter
from xla_client.local import Local
from xla_client.pipelines.pipeline import Pipeline
from xla_client.programs.computation import Computation
from xla_client.runs.executable import Executable
from xla_client.runs.execution import Execution, ExecutionProfile
from xla_client.runs.introspection import CostAnalysis, Explanation, MemoryAnalysis, Work
from xla_client.runs.launch import Launch
from xla_client.runs.sharded import Mesh, Sharded, Shards
from xla_client.runs.step_result import StepResult
from xla_client.session.buffer import Buffer
from xla_client.session.description import (
    ExecutableDescription,
    ExecutionDescription,
    Quotas,
    SessionDescription,
    ValueDescription,
)
from xla_client.transport.tls import Tls
from xla_contract.errors import (
    AbortedError,
    AlreadyExistsError,
    ArgumentTypeError,
    CancelledError,
    DataLossError,
    DeadlineExceededError,
    FailedPreconditionError,
    InternalError,
    InvalidArgumentError,
    LostError,
    NotFoundError,
    OutOfRangeError,
    PermissionDeniedError,
    ResourceExhaustedError,
    SessionEndedError,
    ShapeError,
    StatusCode,
    UnauthenticatedError,
    UnavailableError,
    UnimplementedError,
    UnknownError,
    XlaError,
)
from xla_contract.types.devices.sharding import Sharding
from xla_contract.types.element_type import ElementType
from xla_contract.types.layout import Layout
from xla_contract.types.literal import Literal
from xla_contract.types.shape import ProgramShape, Shape

if TYPE_CHECKING:
    from xla_client import lib, ops
    from xla_client.programs.builder import Builder, Op
    from xla_client.runs.jax_function import JaxFunction
    from xla_contract.types.dimension_numbers import (
        ConvolutionDimensionNumbers,
        DotDimensionNumbers,
        GatherDimensionNumbers,
        PaddingConfig,
        PaddingDimension,
        ScatterDimensionNumbers,
        Window,
        WindowDimension,
    )

    __version__: str
    """The version of the package."""

__all__ = [
    "AbortedError",
    "AlreadyExistsError",
    "ArgumentTypeError",
    "Buffer",
    "Builder",
    "CancelledError",
    "ChannelHandle",
    "Client",
    "Computation",
    "ComputationStats",
    "ConvolutionDimensionNumbers",
    "CostAnalysis",
    "DataLossError",
    "DeadlineExceededError",
    "Device",
    "DotDimensionNumbers",
    "ElementType",
    "Executable",
    "ExecutableDescription",
    "Execution",
    "ExecutionDescription",
    "ExecutionProfile",
    "Explanation",
    "FailedPreconditionError",
    "FeedState",
    "FeedStates",
    "FeedWaiter",
    "GatherDimensionNumbers",
    "Infeed",
    "InternalError",
    "InvalidArgumentError",
    "JaxFunction",
    "Launch",
    "Layout",
    "Literal",
    "Local",
    "LostError",
    "MemoryAnalysis",
    "Mesh",
    "NotFoundError",
    "Op",
    "OutOfRangeError",
    "Outfeed",
    "PaddingConfig",
    "PaddingDimension",
    "PermissionDeniedError",
    "Pipeline",
    "ProgramShape",
    "Quotas",
    "ResourceExhaustedError",
    "ScatterDimensionNumbers",
    "SessionDescription",
    "SessionEndedError",
    "Shape",
    "ShapeError",
    "Sharded",
    "Sharding",
    "Shards",
    "StatusCode",
    "StepResult",
    "Tls",
    "UnauthenticatedError",
    "UnavailableError",
    "UnimplementedError",
    "UnknownError",
    "ValueDescription",
    "Window",
    "WindowDimension",
    "Work",
    "XlaError",
    "__version__",
    "aconnect",
    "connect",
    "lib",
    "ops",
]

_PARTS = {
    "Builder": "xla_client.programs.builder",
    "Op": "xla_client.programs.builder",
    "JaxFunction": "xla_client.runs.jax_function",
    **dict.fromkeys(
        (
            "ConvolutionDimensionNumbers",
            "DotDimensionNumbers",
            "GatherDimensionNumbers",
            "PaddingConfig",
            "PaddingDimension",
            "ScatterDimensionNumbers",
            "Window",
            "WindowDimension",
        ),
        "xla_contract.types.dimension_numbers",
    ),
}
"""Names that not every client needs, with their modules: most of them write programs."""

_PACKAGES = ("lib", "ops")


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return importlib.import_module(f"xla_client.{name}")
    if name == "__version__":
        from importlib.metadata import version

        return version("xla-service")
    if name not in _PARTS:
        raise AttributeError(f"module 'xla_client' has no attribute {name!r}", name=name)
    if name in ("Builder", "Op"):
        importlib.import_module("xla_client.ops")  # has the functions of an Op's operators
    value = globals()[name] = getattr(importlib.import_module(_PARTS[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
