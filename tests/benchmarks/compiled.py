"""`make bench-cpu`: compiled programs against jaxlib's CPU backend, in one process, interleaved.

Arguments are on the device on both sides, so the rows compare start and run of the program. The
column "by rpc" has a client of a server in another process, calls included; `python -m
tests.benchmarks` has the cost of calls alone. Compilation is compared three times: without kernels
in memory or on disk, with all of them on disk, and of a module that the server has compiled before.
Routines that all programs share, which XLA has in its library, are compiled before that, as a
server does when it is ready. The line "preparation" has that time, with XLA's compilation of its
first product as 1. `ONLY=softmax,matmul` chooses by parts of names or groups. Its first line is the
machine with its vector instructions; `--isa avx2` (`make bench ISA=avx2`) does without AVX-512 on
both sides.
"""

import dataclasses
import gc
import json
import math
import os
import pathlib
import tempfile

import jax
import numpy as np

import xla_client
from tests.benchmarks.compilation import CompileTimes, Program, compile_times, prepared
from tests.benchmarks.first_program import first_program
from tests.benchmarks.harness import Comparison, compare, mean, show
from tests.benchmarks.isa import description, options_of
from tests.benchmarks.programs import Ours, Remote, Theirs
from tests.benchmarks.sweep.comparing import difference
from tests.benchmarks.workloads import chosen
from tests.benchmarks.workloads.workload import Workload
from tests.command_line import command_line
from xla_server.backends.compiled.cpu import Cpu
from xla_server.target.machine import Machine

OUTPUT = pathlib.Path("build/bench-cpu.json")
ROUNDS = 9
ROUND_SECONDS = 0.02
MAX_CALLS = 200


@dataclasses.dataclass(frozen=True)
class Line:
    """A workload: both sides' seconds, how long compiling took, and what is wrong with ours."""

    run: Comparison
    by_rpc: Comparison
    compilation: CompileTimes
    wrong: str

    @property
    def ratios(self) -> tuple[float, ...]:
        """Run time in process and by rpc, compilation cold, from disk, and again; XLA = 1."""
        times = self.compilation
        run = (1 / self.run.speed, 1 / self.by_rpc.speed)
        return (*run, times.cold, times.warm, times.repeated)


def measure(name: str, workload: Workload, client: xla_client.Client, shared: str) -> Line:
    """Compile and run a workload on both sides, and compare the results of the two."""
    with jax.enable_x64(workload.is_wide), tempfile.TemporaryDirectory() as directory:
        program = Program.of(workload)
        theirs = Theirs(workload)
        times, cpu, executable = compile_times(program, theirs.compile_seconds, directory, shared)
        ours = Ours(cpu, executable, workload.arguments)
        wrong = difference(ours.results(), theirs.results())
        seconds = max(theirs.seconds(), 1e-9)
        calls = max(1, min(MAX_CALLS, int(ROUND_SECONDS / seconds)))
        run = compare(name, "jaxlib CPU", ours.run, theirs.run, rounds=ROUNDS, calls=calls)
        remote = Remote(client, program.serialized, workload.arguments)
        by_rpc = compare(name, "jaxlib CPU", remote.run, theirs.run, rounds=ROUNDS, calls=calls)
        cpu.close()
    return Line(run, by_rpc, times, wrong)


def main(words: list[str]) -> None:
    """Measure the workloads that are asked for; print a table and write build/bench-cpu.json.

    Exits with 1 where a result was not XLA's.
    """
    heads = ("run", "by rpc", "compile", "from disk", "again")
    print(f"{'time, XLA = 1':32}" + "".join(f"{head:>10}" for head in heads))
    # Costs of the first program in a process belong to no workload.
    begun = first_program()
    for _, workload in chosen(["one number"]):
        Program.of(workload).compiled(Cpu())
    show("first program of a process", (math.nan, math.nan, begun))
    lines = []
    with tempfile.TemporaryDirectory() as shared, xla_client.Local() as client:
        seconds, _ = prepared(shared)
        # No workload has this size: XLA compiles a program once for a process.
        product = Workload(jax.numpy.matmul, (np.ones((48, 48), np.float32),) * 2)
        ahead = seconds / Theirs(product).compile_seconds
        show("preparation", (math.nan, math.nan, ahead))
        # The server does so too: otherwise a full collection now and then is as long as a
        # compilation.
        gc.collect()
        gc.freeze()
        for name, workload in chosen(words):
            line = measure(name, workload, client, shared)
            lines.append(line)
            show(name, line.ratios, line.wrong)
    if not lines:
        raise SystemExit(f"no workload has any of {', '.join(words)} in its group or name")
    show("geometric mean", map(mean, zip(*(line.ratios for line in lines), strict=True)))
    OUTPUT.parent.mkdir(exist_ok=True)
    records = [dataclasses.asdict(line) | {"ratio": line.ratios[0]} for line in lines]
    machine = description(Machine.host(), os.environ)
    once = {"machine": machine, "first_program": begun, "preparation": ahead}
    OUTPUT.write_text(json.dumps({**once, "workloads": records}, indent=1))
    if any(line.wrong for line in lines):
        raise SystemExit(1)


if __name__ == "__main__":
    options_of(command_line("tests.benchmarks.compiled", __doc__))
    main([word for word in os.environ.get("ONLY", "").split(",") if word])
