"""The process that measures: numbers on its standard input, records as JSON on its output.

A process of its own, so that a crash ends one program and not the run, and so that memory that
compilers keep is given back now and then.
"""

import dataclasses
import gc
import json
import os
import sys

import jax

from tests.benchmarks.compilation import prepared
from tests.benchmarks.isa import limit_products
from tests.benchmarks.sweep.catalogue import program
from tests.benchmarks.sweep.measuring import Record, measure
from tests.command_line import command_line

CLEAR_AFTER = 20
"""Programs after which what JAX keeps of them is dropped."""


def main(seed: int, seconds: float, directory: str) -> None:
    """Measure each number that is read; one record is written for each."""
    limit_products(os.environ)
    _, cpu = prepared(directory)
    gc.collect()
    gc.freeze()
    for done, line in enumerate(sys.stdin):
        number = int(line)
        try:
            record = measure(seed, number, cpu, seconds)
        except Exception as error:
            drawn = program(seed, number)
            note = f"{type(error).__name__}: {error}"[:500]
            record = Record(number, drawn.family, drawn.description, "FAILED", note)
        print(json.dumps(dataclasses.asdict(record)), flush=True)
        if done % CLEAR_AFTER == CLEAR_AFTER - 1:
            jax.clear_caches()
            gc.collect()
    cpu.close()


if __name__ == "__main__":
    parser = command_line("tests.benchmarks.sweep.worker", __doc__)
    parser.add_argument("seed", type=int)
    parser.add_argument("seconds", type=float)
    parser.add_argument("directory")
    main(**vars(parser.parse_args()))
