"""A thin client of the XLA service.

    import numpy as np
    import xla_client as xc

    b = xc.Builder("axpy")
    alpha = b.parameter(0, xc.Shape.parse("f32[]"), "alpha")
    x = b.parameter(1, xc.Shape.parse("f32[3]"), "x")
    y = b.parameter(2, xc.Shape.parse("f32[3]"), "y")
    axpy = b.build(alpha * x + y)

    with xc.connect("localhost:1685") as client:
        run = client.compile(axpy)
        print(run.run(2.0, np.float32([1, 2, 3]), np.float32([4, 5, 6])))

Programs are written with a Builder and `xla_client.ops`, or loaded from HLO made elsewhere with
`Computation.from_serialized`. Errors are the classes of `xla_contract.errors`, re-exported here.
"""

from xla_client import ops
from xla_client.buffer import Buffer
from xla_client.builder import Builder, Op
from xla_client.client import (
    ChannelHandle,
    Client,
    ComputationStats,
    Launch,
    connect,
)
from xla_client.computation import Computation
from xla_client.description import (
    ExecutableDescription,
    ExecutionDescription,
    Quotas,
    SessionDescription,
    ValueDescription,
)
from xla_client.device import Device
from xla_client.executable import Executable
from xla_client.execution import Execution, ExecutionProfile
from xla_client.feeds import FeedState, FeedStates, FeedWaiter
from xla_client.infeed import Infeed
from xla_client.local import Local
from xla_client.outfeed import Outfeed
from xla_client.pipeline import Pipeline
from xla_client.step_result import StepResult
from xla_contract.dimension_numbers import (
    ConvolutionDimensionNumbers,
    DotDimensionNumbers,
    GatherDimensionNumbers,
    PaddingConfig,
    PaddingDimension,
    ScatterDimensionNumbers,
    Window,
    WindowDimension,
)
from xla_contract.element_type import ElementType
from xla_contract.errors import (
    AbortedError,
    AlreadyExistsError,
    CancelledError,
    DataLossError,
    DeadlineExceededError,
    FailedPreconditionError,
    InternalError,
    InvalidArgumentError,
    NotFoundError,
    OutOfRangeError,
    PermissionDeniedError,
    ResourceExhaustedError,
    ShapeError,
    StatusCode,
    UnauthenticatedError,
    UnavailableError,
    UnimplementedError,
    UnknownError,
    XlaError,
)
from xla_contract.layout import Layout
from xla_contract.literal import Literal
from xla_contract.shape import ProgramShape, Shape

__all__ = [
    "AbortedError",
    "AlreadyExistsError",
    "Buffer",
    "Builder",
    "CancelledError",
    "ChannelHandle",
    "Client",
    "Computation",
    "ComputationStats",
    "ConvolutionDimensionNumbers",
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
    "FailedPreconditionError",
    "FeedState",
    "FeedStates",
    "FeedWaiter",
    "GatherDimensionNumbers",
    "Infeed",
    "InternalError",
    "InvalidArgumentError",
    "Launch",
    "Layout",
    "Literal",
    "Local",
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
    "Shape",
    "ShapeError",
    "StatusCode",
    "StepResult",
    "UnauthenticatedError",
    "UnavailableError",
    "UnimplementedError",
    "UnknownError",
    "ValueDescription",
    "Window",
    "WindowDimension",
    "XlaError",
    "connect",
    "ops",
]
