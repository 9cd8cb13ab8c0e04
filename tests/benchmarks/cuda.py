"""`make bench-cuda`: programs on a GPU against JAX on the same GPU, in one process, by turns.

Arguments are on the device on both sides. The columns are ratios, with JAX as 1.

- "run" is a program in its worker with its launches and the wait for its end. JAX waits for its
  results, too.
- "call" is an execution as a session makes it, to the same call of JAX.
- "stream" is a run to calls of JAX of which the next begins before the last has ended.
- "compile" has no kernel in memory or on disk.

Costs of the driver itself stand first. `ONLY=softmax,matmul` chooses by parts of names or groups,
`SECONDS=200` bounds the whole, `OUT=FILE` takes all figures as JSON.
"""

import dataclasses
import json
import os
import pathlib
import statistics
import threading
import time
from collections.abc import Iterable, Mapping, Sequence

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import jax

from tests.benchmarks.compilation import Program
from tests.benchmarks.cuda_driver_figures import figures
from tests.benchmarks.harness import mean, show, timed
from tests.benchmarks.programs import Ours, Theirs
from tests.benchmarks.sweep.comparing import difference
from tests.benchmarks.workloads import GROUPS, chosen
from tests.benchmarks.workloads.workload import Workload
from tests.command_line import command_line
from tests.platforms import compiled_platform, driver_of
from xla_contract.errors import CancelledError
from xla_server.backends.compiled.backend import CompiledBackend
from xla_server.execution.cancellation import Cancellation

OUTPUT = "build/bench-cuda.json"
ROUNDS = 5
ROUND_SECONDS = 0.02
MAX_CALLS = 50
MAX_SECONDS = 3.0
"""Seconds of one execution, after which the program is left out."""

FIRST = (
    *("fma f32", "exp f32", "gelu f32", "sum of all", "sum of rows", "sum of columns", "softmax"),
    *("layer norm", "transpose", "matmul 512", "matmul 1024", "matmul with epilogue"),
    *("transformer block forward", "MLP train step", "convolution 3x3", "gather rows"),
    *("sort of rows", "cumsum of rows", "one number"),
)
"""Programs that are measured before all others, as time may end; loops come last."""


@dataclasses.dataclass(frozen=True)
class Line:
    """A workload: seconds of both sides, and what is other about our results."""

    name: str
    ours_run: float
    ours_call: float
    theirs_call: float
    theirs_stream: float
    ours_compile: float
    theirs_compile: float
    wrong: str

    @property
    def ratios(self) -> tuple[float, ...]:
        """Run, call, stream and compilation, with JAX as 1."""
        return (
            self.ours_run / self.theirs_call,
            self.ours_call / self.theirs_call,
            self.ours_run / self.theirs_stream,
            self.ours_compile / self.theirs_compile,
        )


def measure(name: str, workload: Workload, platform: CompiledBackend) -> Line:
    """Compile and run a workload on both sides, and compare the results of the two."""
    with jax.enable_x64(workload.is_wide):
        theirs = Theirs(workload, compilations=1)
        compiling, executable = Program.of(workload).compiled(platform)
        ours = Ours(platform, executable, workload.arguments)
        longer = max(_first_seconds(ours), theirs.seconds(), 1e-9)
        wrong = difference(ours.results(), theirs.results())
        calls = max(1, min(MAX_CALLS, int(ROUND_SECONDS / longer)))
        runs: list[float] = []

        def run() -> None:
            runs.append(ours.run().profile.compute_cycle_count / 1e9)

        run_seconds, call, their_call, stream = [], [], [], []
        for _ in range(ROUNDS):
            call.append(timed(run, calls))
            run_seconds.append(statistics.median(runs))
            runs.clear()
            their_call.append(timed(theirs.run, calls))
            stream.append(timed(lambda: theirs.run_together(calls)) / calls)
    seconds = map(statistics.median, (run_seconds, call, their_call, stream))
    return Line(name, *seconds, compiling, theirs.compile_seconds, wrong)


def _first_seconds(ours: Ours) -> float:
    """Return the seconds of an execution. Raises TimeoutError for one that takes too many."""
    cancellation = Cancellation()
    timer = threading.Timer(MAX_SECONDS, cancellation.cancel)
    timer.start()
    try:
        return timed(lambda: ours.run(cancellation))
    except CancelledError:
        raise TimeoutError(f"an execution takes over {MAX_SECONDS} seconds") from None
    finally:
        timer.cancel()


def main() -> None:
    """Measure what is asked for; print a table and write the figures."""
    words = [word for word in os.environ.get("ONLY", "").split(",") if word]
    end = time.monotonic() + float(os.environ.get("SECONDS") or "inf")
    output = pathlib.Path(os.environ.get("OUT") or OUTPUT)
    platform_name = os.environ.get("PLATFORM") or "cuda"
    platform = compiled_platform(platform_name)
    print(f"JAX {jax.__version__} on {jax.devices()[0].device_kind}", flush=True)
    driver = driver_figures(platform_name)
    for name, figure in driver.items():
        print(f"  {name:35}{figure:9.2f}", flush=True)
    heads = ("run", "call", "stream", "compile")
    print(f"{'time, JAX = 1':32}" + "".join(f"{head:>10}" for head in heads))
    lines, failures = [], {}
    for name, workload in _in_order(chosen(words)):
        if time.monotonic() > end:
            print(f"stopped before {name}: no time is left")
            break
        try:
            line = measure(name, workload, platform)
        except Exception as error:
            failures[name] = f"{type(error).__name__}: {error}"
            print(f"{name:32}{failures[name][:160]}", flush=True)
            continue
        lines.append(line)
        show(name, line.ratios, line.wrong)
    if lines:
        show("geometric mean", map(mean, zip(*(line.ratios for line in lines), strict=True)))
    output.parent.mkdir(parents=True, exist_ok=True)
    records = [dataclasses.asdict(line) | {"ratios": line.ratios} for line in lines]
    output.write_text(
        json.dumps({"driver": driver, "workloads": records, "failures": failures}, indent=1)
    )


def _in_order(workloads: Iterable[tuple[str, Workload]]) -> Sequence[tuple[str, Workload]]:
    loops = GROUPS["control"]()

    def rank(each: tuple[str, Workload]) -> int:
        name = each[0]
        return FIRST.index(name) if name in FIRST else len(FIRST) + (name in loops)

    return sorted(workloads, key=rank)


def driver_figures(platform: str) -> Mapping[str, float]:
    """Return the figures of a platform's driver."""
    driver, toolchain = driver_of(platform)
    try:
        return figures(driver, toolchain, 1 << 20 if platform == "cuda-twin" else 1 << 30)
    finally:
        toolchain.close()


if __name__ == "__main__":
    command_line("tests.benchmarks.cuda", __doc__).parse_args()
    main()
