"""THE schedules of a GPU, in the order they are tried in: the first that fits makes the kernel."""

import dataclasses
from collections.abc import Callable

from xla_server.codegen.gpu.grid import GridKernel
from xla_server.codegen.gpu.schedules.columns import column_grid
from xla_server.codegen.gpu.schedules.elementwise import elementwise_grid
from xla_server.codegen.gpu.schedules.products import product_grid
from xla_server.codegen.gpu.schedules.rows import block_grid, row_grid
from xla_server.codegen.gpu.schedules.threads import thread_grid
from xla_server.codegen.gpu.schedules.transposes import transpose_grid
from xla_server.codegen.schedules.builders.loop_builder import Nest


@dataclasses.dataclass(frozen=True, slots=True)
class ThreadSchedule:
    """A way to turn a loop nest into the threads of one launch.

    `build` returns the kernel of a nest, and None if the schedule does not fit it. Its number is
    that of the elements of the largest array that the kernel has an index of. `fits` describes the
    nests it takes, `reason` why it precedes the schedules after it. If it `reads_first`, each
    element is read before it is written, so a result may be written over an operand that is read at
    the same index alone. It `repeats` a reduction that is the same for several results. If it
    `has_rows`, a result may have one element for each row of others.
    """

    name: str
    build: Callable[[Nest, int], GridKernel | None]
    fits: str
    reason: str
    reads_first: bool
    repeats: bool = False
    has_rows: bool = False


SCHEDULES: tuple[ThreadSchedule, ...] = (
    ThreadSchedule(
        "transposes",
        transpose_grid,
        "elements whose neighbours are not those of a result, along at least 16 elements of each",
        "A warp would load or store 32 lines of memory for 32 elements: tiles pass shared memory.",
        # The thread that stores a result reads the operands that have its index.
        reads_first=True,
    ),
    ThreadSchedule(
        "elements",
        elementwise_grid,
        "nests without reductions",
        "A thread moves 16 bytes at once, and its neighbours the next.",
        reads_first=True,
    ),
    ThreadSchedule(
        "products",
        product_grid,
        "a sum of what rows and columns have together, with at least 16 of each and of the sum",
        "Each row is used for all columns: a tile of both in shared memory is loaded once.",
        # The only thread that reads an operand's element may store over it afterwards.
        reads_first=True,
    ),
    ThreadSchedule(
        "rows",
        row_grid,
        "reductions over rows of at most 1024 elements, and these rows in results",
        "Lanes of a warp combine their parts without memory; a row is read once.",
        # Results are stored after the last exchange, before which all lanes have read.
        reads_first=True,
        has_rows=True,
    ),
    ThreadSchedule(
        "blocks",
        block_grid,
        "reductions over longer rows, and these rows in results",
        "A warp alone would leave a GPU idle: the threads of a block go through a row.",
        # Results are stored after the last barrier, before which all threads have read.
        reads_first=True,
        has_rows=True,
    ),
    ThreadSchedule(
        "columns",
        column_grid,
        "reductions over leading dimensions, where columns are long and few or in results",
        "A thread for each column would leave a GPU idle, and compute it for each row of a result.",
        # Results are stored after the last barrier, before which all threads have read.
        reads_first=True,
        has_rows=True,
    ),
    ThreadSchedule(
        "threads",
        thread_grid,
        "all others",
        "A thread computes what its result needs; many columns have neighbours to read.",
        reads_first=True,
        repeats=True,
    ),
)


def scheduled_by(nest: Nest, largest: int) -> tuple[ThreadSchedule, GridKernel]:
    """Return the first schedule that fits a nest, and the kernel it makes.

    `largest` is the number of elements of the largest array that the kernel has an index of.
    """
    for schedule in SCHEDULES:
        grid = schedule.build(nest, largest)
        if grid is not None:
            return schedule, grid
    raise AssertionError("the last schedule fits every nest")
