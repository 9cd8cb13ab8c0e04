"""Runs of small programs, as their messages."""

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from tests.unit.sessions.engines import shared_resources
from xla_client import Builder, Computation, Shape, ops
from xla_contract.stubs import xla_data_pb2, xla_pb2
from xla_contract.stubs import xla_extension_pb2 as extension_pb2
from xla_contract.types.literal import Literal
from xla_contract.wire.literals.value_proto import value_to_proto
from xla_server.execution.cancellation import Cancellation
from xla_server.rpc.decode.programs import read_compile_request
from xla_server.rpc.decode.runs import named_values, read_run
from xla_server.rpc.methods.runs import run_with_slot
from xla_server.sessions.limits.server_limits import Quotas
from xla_server.sessions.runs.background_executions import LaunchedExecution
from xla_server.sessions.runs.batch import Batch
from xla_server.sessions.runs.planner import plan_run
from xla_server.sessions.runs.run import StepOutcome
from xla_server.sessions.session import Session

ONES = np.ones(4, np.float32)

DOUBLE, ADD, PAIR, MATRIX = "double", "add", "pair", "matrix"


def program(name: str) -> Computation:
    builder = Builder(name)
    shape = Shape.parse("f32[2,2]" if name == MATRIX else "f32[4]")
    x = builder.parameter(0, shape)
    if name == ADD:
        return builder.build(x + builder.parameter(1, shape))
    if name == PAIR:
        return builder.build(ops.tuple([x, x + x]))
    if name == "big":
        return builder.build(ops.broadcast(x, [100]))
    return builder.build(x + x)


def endless() -> Computation:
    """while(true) over its argument."""
    shape = Shape.parse("f32[4]")
    always, body, builder = Builder("always"), Builder("body"), Builder("endless")
    always.parameter(0, shape)
    step = body.parameter(0, shape) + np.float32(1)
    x = builder.parameter(0, shape)
    condition = always.build(always.constant(True))
    return builder.build(ops.while_(condition, body.build(step), x))


@contextlib.contextmanager
def emptied(made: Session) -> Iterator[Session]:
    """Close a session and its engine in the end, where everything is free."""
    yield made
    made.close()
    assert made.engine.close(10)
    assert made.engine.memory.used_bytes == 0


@contextlib.contextmanager
def open_service(
    device_bytes: int = 1 << 20, quotas: Quotas | None = None, **limits: Any
) -> Iterator[Session]:
    """A session with an engine of its own, where everything is free in the end."""
    with emptied(Session(shared_resources(device_bytes, quotas, **limits))) as made:
        yield made


def compiled(
    service: Session,
    what: str | Computation,
    options: xla_pb2.ExecutionOptions | None = None,
) -> int:
    computation = program(what) if isinstance(what, str) else what
    request = xla_pb2.CompileRequest(execution_options=options)
    computation.write_to(request.computation)
    shapes = [shape.with_default_layout() for shape in computation.program_shape.parameters]
    wanted = read_compile_request(request.computation, request.execution_options)
    return service.runner.compile(wanted, shapes, Cancellation())


def kept(service: Session, array: object) -> int:
    literal = array if isinstance(array, Literal) else Literal.from_numpy(array)
    device = service.devices.resolve(None)
    with service.data.reserve(literal.shape.byte_size, "a test") as reservation:
        return reservation.keep(service.engine.backend.to_device(literal, device))


def value(array: object) -> extension_pb2.RunArgument:
    return extension_pb2.RunArgument(value=value_to_proto(Literal.from_numpy(array)))


def argument() -> extension_pb2.RunArgument:
    return extension_pb2.RunArgument()


def argument_of(handle: int, *, donate: bool = False) -> extension_pb2.RunArgument:
    data = xla_data_pb2.GlobalDataHandle(handle=handle)
    return extension_pb2.RunArgument(data=data, donate=donate)


def result_of(number: int, *index: int, donate: bool = False) -> extension_pb2.RunArgument:
    result = extension_pb2.StepResult(step=number, index=index)
    return extension_pb2.RunArgument(result=result, donate=donate)


def keep(flatten: bool = False) -> extension_pb2.RunOutput:
    return extension_pb2.RunOutput(keep=True, flatten=flatten)


def step(
    executable: int,
    *arguments: extension_pb2.RunArgument,
    fetch: int = 0,
    output: extension_pb2.RunOutput | None = None,
) -> extension_pb2.RunStep:
    return extension_pb2.RunStep(
        executable=xla_data_pb2.ExecutionHandle(handle=executable),
        arguments=arguments,
        output=output or extension_pb2.RunOutput(fetch_bytes=fetch),
    )


def run_request(*steps: extension_pb2.RunStep) -> extension_pb2.RunRequest:
    return extension_pb2.RunRequest(steps=steps)


def execute(
    service: Session,
    *steps: extension_pb2.RunStep,
    cancellation: Cancellation | None = None,
) -> list[StepOutcome]:
    """The outcomes of a run of these steps."""
    with (
        contextlib.closing(plan_run(service.grids, read_run(run_request(*steps)))) as run,
        run.executing(cancellation or Cancellation()) as outcomes,
    ):
        return outcomes


def launch_endless(service: Session) -> tuple[LaunchedExecution, extension_pb2.RunArgument]:
    """An execution that ends when it is cancelled, and its output to come as an argument."""
    loop = compiled(service, endless())
    launched = service.executions.launch(
        read_run(run_request(step(loop, value(ONES), output=keep())))
    )
    return launched, argument_of(launched.outputs[0][0])


def start_batch(
    service: Session,
    runs: Sequence[extension_pb2.RunRequest],
    cancellation: Cancellation,
    done: Callable[[list[Any]], None],
    run: Callable[..., Any] = run_with_slot,
) -> None:
    """Begin a batch as RunBatch does."""
    run_one = functools.partial(run, service)
    values, running, submit = service.data, service.running, service.submit
    Batch(values, running, submit, runs, named_values, cancellation, run_one, done).start()
