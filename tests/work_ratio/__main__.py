"""`make work-ratio`: the work of random graphs against the bounds; exits with 1 beyond them.

Each graph is compiled for a processor and for a GPU; the summary is of the processor.

SEED=n COUNT=n choose; the seed is drawn and printed if none is given.
"""

import os
import secrets
import statistics
import sys

from tests.command_line import command_line
from tests.cuda_twin.programs import TARGET as GPU
from tests.work_ratio.bounds import complaints
from tests.work_ratio.graphs import graph
from tests.work_ratio.ratios import operations_ratio, transcendentals_ratio
from xla_server.backends.compiled.compilation import compile_module
from xla_server.codegen.gpu.lower.table import CUDA_LOWERINGS
from xla_server.ir.importer import import_module

COUNT = 5000


def main() -> int:
    """Check COUNT graphs from SEED on, and print how much they repeat."""
    command_line("tests.work_ratio", __doc__).parse_args()
    seed = int(os.environ.get("SEED") or secrets.randbelow(10**9))
    count = int(os.environ.get("COUNT") or COUNT)
    print(f"seed {seed}, {count} graphs", flush=True)
    wrong, operations, functions = 0, [], []
    for number in range(seed, seed + count):
        module = import_module(graph(number))
        on_gpu = compile_module(module, target=GPU, lowerings=CUDA_LOWERINGS)
        compilation = compile_module(module)
        for complaint in (*complaints(compilation), *complaints(on_gpu, GPU)):
            wrong += 1
            print(f"graph {number}: {complaint}", flush=True)
        operations.append(operations_ratio(compilation.work))
        functions.append(transcendentals_ratio(compilation.work))
    for name, ratios in (("operations", operations), ("transcendental", functions)):
        ratios = sorted(ratio for ratio in ratios if ratio != float("inf"))
        most = ratios[len(ratios) * 99 // 100]
        print(
            f"{name}, done for each asked for: {statistics.mean(ratios):.3f} in the mean, "
            f"{most:.2f} at most of 99 %, {ratios[-1]:.2f} at most of all"
        )
    print(f"{wrong} complaints")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
