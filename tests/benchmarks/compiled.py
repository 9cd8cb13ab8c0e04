"""`make bench-cpu`: compiled programs against jaxlib's CPU backend, in one process, interleaved.

Arguments are on the device on both sides, so what is compared is the run of the program with the
start of it. Compilation is compared three times: with no kernel in memory or on disk, with all of
them on disk, and of a module the server has compiled before. `ONLY=softmax,matmul` chooses by
parts of names or groups.
"""

import dataclasses
import json
import math
import os
import pathlib
import tempfile
from collections.abc import Iterable

import jax

from tests.benchmarks.compilation import CompileTimes, Program, compile_times
from tests.benchmarks.first_program import first_program
from tests.benchmarks.harness import Comparison, compare
from tests.benchmarks.programs import Ours, Theirs, difference
from tests.benchmarks.workloads import chosen
from tests.benchmarks.workloads.workload import Workload
from xla_server.backends.cpu import Cpu

OUTPUT = pathlib.Path("build/bench-cpu.json")
ROUNDS = 9
ROUND_SECONDS = 0.02
MOST_CALLS = 200


@dataclasses.dataclass(frozen=True)
class Line:
    """A workload: both sides' seconds, how long compiling took, and what is wrong with ours."""

    run: Comparison
    compilation: CompileTimes
    wrong: str

    @property
    def ratios(self) -> tuple[float, ...]:
        """Of run time, and of compiling cold, from disk, and again; XLA = 1."""
        times = self.compilation
        return (1 / self.run.speed, times.cold, times.warm, times.repeated)


def measure(name: str, workload: Workload) -> Line:
    """Compile and run a workload on both sides, and compare the results of the two."""
    with jax.enable_x64(workload.is_wide), tempfile.TemporaryDirectory() as directory:
        program = Program.of(workload)
        theirs = Theirs(workload)
        times, cpu, executable = compile_times(program, theirs.compile_seconds, directory)
        ours = Ours(cpu, executable, workload.arguments)
        wrong = difference(ours.results(), theirs.results())
        seconds = max(theirs.seconds(), 1e-9)
        calls = max(1, min(MOST_CALLS, int(ROUND_SECONDS / seconds)))
        run = compare(name, "jaxlib CPU", ours.run, theirs.run, rounds=ROUNDS, calls=calls)
    return Line(run, times, wrong)


def mean(ratios: Iterable[float]) -> float:
    """The geometric mean."""
    logarithms = [math.log(ratio) for ratio in ratios]
    return math.exp(sum(logarithms) / len(logarithms))


def show(name: str, ratios: Iterable[float], wrong: str = "") -> None:
    """Print a line of the table as soon as it is known."""
    figures = "".join(f"{ratio:10.2f}" if ratio > 0.1 else f"{ratio:10.3f}" for ratio in ratios)
    print(f"{name:32}{figures}  {wrong}".rstrip(), flush=True)


def main(words: list[str]) -> None:
    """Measure the workloads that are asked for; print a table and write build/bench-cpu.json.

    Exits with 1 where a result was not XLA's.
    """
    print(f"{'time, XLA = 1':32}{'run':>10}{'compile':>10}{'from disk':>10}{'again':>10}")
    # What a process does once only belongs to no workload.
    begun = first_program()
    for _, workload in chosen(["one number"]):
        Program.of(workload).compiled(Cpu())
    show("first program of a process", (math.nan, begun))
    lines = []
    for name, workload in chosen(words):
        line = measure(name, workload)
        lines.append(line)
        show(name, line.ratios, line.wrong)
    if not lines:
        raise SystemExit(f"no workload has any of {', '.join(words)} in its group or name")
    show("geometric mean", map(mean, zip(*(line.ratios for line in lines), strict=True)))
    OUTPUT.parent.mkdir(exist_ok=True)
    records = [dataclasses.asdict(line) | {"ratio": line.ratios[0]} for line in lines]
    OUTPUT.write_text(json.dumps({"first_program": begun, "workloads": records}, indent=1))
    if any(line.wrong for line in lines):
        raise SystemExit(1)


if __name__ == "__main__":
    main([word for word in os.environ.get("ONLY", "").split(",") if word])
