"""Blocking of direct convolution (without im2col): phases, row blocks, panels, register tiles.

Arrays have channels last, and the filter's output features are minor. A row of results, all
positions along the last spatial dimension, is cut into tiles. Where windows leave the input, the
part of it that a block of rows needs is copied with its padding.

No zeros are inserted into a dilated input: results at distances of the dilation use the same part
of the filter, so each such phase is a convolution without dilation.
"""

import dataclasses
import itertools
import math
from collections.abc import Sequence

from xla_contract.types.dimension_numbers import WindowDimension
from xla_server.codegen.routines.contraction.product_tiles import VECTORS, TileForm, lanes, tallest
from xla_server.target.machine import Machine
from xla_server.target.target import Target
from xla_server.target.tuning import Convolutions


@dataclasses.dataclass(frozen=True, slots=True)
class PhaseDimension:
    """One spatial dimension of one phase.

    Result y = 0 .. results - 1 is at `first` + y * `apart` of the output. It is the sum, over t = 0
    .. taps - 1, of the filter at `tap` + t * `tap_step` times the input at `start` + y * `step` + t
    * `reach`.
    """

    size: int
    whole: int
    results: int
    first: int
    apart: int
    taps: int
    window: int
    tap: int
    tap_step: int
    start: int
    step: int
    reach: int

    def extent(self, results: int) -> int:
        """Return the number of adjacent input positions that `results` adjacent results need."""
        return (results - 1) * self.step + (self.taps - 1) * self.reach + 1 if self.taps else 0

    @property
    def is_inside(self) -> bool:
        """Return whether no window reaches into the padding."""
        return self.start >= 0 and self.start + self.extent(self.results) <= self.size


def phases(d: WindowDimension, size: int, results: int) -> list[PhaseDimension] | None:
    """The phases of a spatial dimension of these sizes; None if they are not regular."""
    dilation = d.base_dilation
    if dilation > 1 and (d.stride > 1 or d.window_dilation > 1):
        return None
    lines = []
    for phase in range(min(dilation, results)):
        first_tap = (d.padding_low - phase) % dilation
        taps = max(0, -(-(d.size - first_tap) // dilation))
        tap, tap_step = first_tap, dilation
        if d.window_reversal:
            tap, tap_step = d.size - 1 - tap, -tap_step
        lines.append(
            PhaseDimension(
                size,
                results,
                -(-(results - phase) // dilation),
                phase,
                dilation,
                taps,
                d.size,
                tap,
                tap_step,
                (phase + first_tap - d.padding_low) // dilation,
                d.stride,
                d.window_dilation if dilation == 1 else 1,
            )
        )
    return lines


@dataclasses.dataclass(frozen=True, slots=True)
class Phase:
    """A convolution of `batch` images. `inputs` and `outputs` are the features of a group.

    If `is_depthwise`, each feature depends on itself alone: one group, with one input. `shared` is
    the number of positions of a block if phases share their blocks.
    """

    target: Target
    kind: str
    width: int
    batch: int
    groups: int
    inputs: int
    outputs: int
    lines: tuple[PhaseDimension, ...]
    is_depthwise: bool = False
    shared: int | None = None

    @property
    def tuning(self) -> Convolutions:
        """The blocking for the machine."""
        return self.target.tuning.convolutions

    @property
    def depth(self) -> int:
        """Rows of the whole kernel as a matrix."""
        return self.inputs * math.prod(line.window for line in self.lines)

    @property
    def is_packed(self) -> bool:
        """Return whether the filter's rows are too long to be read unpacked."""
        row = self.outputs * self.groups * self.width
        return not self.is_depthwise and row > self.tuning.max_row_bytes

    @property
    def form(self) -> TileForm:
        """The form of its tiles; those of one feature have adjacent positions as vectors."""
        if self.is_depthwise:
            return TileForm.DEPTHWISE
        inner = self.lines[-1]
        counts = self.inputs, self.outputs, self.groups, inner.step, inner.apart
        return TileForm.FILTER if set(counts) == {1} else TileForm.PRODUCT

    @property
    def row(self) -> int:
        """Results of a block along the last spatial dimension."""
        return self.lines[-1].results if len(self.lines) > 1 else self.block

    @property
    def positions(self) -> int:
        """Positions of a tile's row: as many as fit a vector if there is one feature; else one."""
        if self.form is not TileForm.FILTER:
            return 1
        return min(lanes(self.target.machine, self.kind), self.row)

    @property
    def pitch(self) -> int:
        """Distance between positions of the input, in elements: its features."""
        return self.outputs if self.is_depthwise else self.inputs * self.groups

    @property
    def is_inside(self) -> bool:
        """Return whether the input is read without a padded copy."""
        return all(line.is_inside for line in self.lines) or not all(
            line.taps for line in self.lines
        )

    @property
    def block(self) -> int:
        """Positions of the first spatial dimension in a block."""
        if self.shared is not None:
            return self.shared
        first = self.lines[0]
        row = self.width * self.pitch
        row *= math.prod(line.extent(line.results) for line in self.lines[1:])
        positions = self.tuning.input_block_bytes // max(row, 1)
        positions = max(1, positions - (first.taps - 1) * first.reach)
        fewest = -(-self.tuning.min_blocks // self.batch)
        blocks = max(-(-first.results // -(-positions // first.step)), min(fewest, first.results))
        return -(-first.results // blocks)

    @property
    def box(self) -> list[int]:
        """Sizes of the part of the input that a block reads, one per spatial dimension."""
        first, *others = self.lines
        return [first.extent(self.block), *(line.extent(line.results) for line in others)]

    @property
    def tasks(self) -> int:
        """Blocks of all images."""
        return self.batch * -(-self.lines[0].results // self.block)

    @property
    def work_items(self) -> int:
        """Work items of the kernel."""
        return min(self.tasks, self.tuning.work_items)

    @property
    def box_elements(self) -> int:
        """Elements of scratch memory for the padded input block of a work item."""
        return 0 if self.is_inside else math.prod(self.box) * self.pitch


def all_phases(
    window: Sequence[WindowDimension], sizes: Sequence[int], results: Sequence[int]
) -> list[tuple[PhaseDimension, ...]] | None:
    """The phases of all dimensions together; None if those of one are not regular."""
    each = [phases(*dimension) for dimension in zip(window, sizes, results, strict=True)]
    if any(lines is None for lines in each):
        return None
    return list(itertools.product(*(lines or [] for lines in each)))


def tiles(machine: Machine, size: int) -> tuple[int, int, int]:
    """(rows, count, count of tiles with one row less) of as few and as even tiles as possible."""
    count = -(-size // tallest(machine))
    tall = -(-size // count)
    low = count * tall - size
    return tall, count - low, low


def joined(phases: Sequence[Phase]) -> list[Phase]:
    """Phases that share blocks, which together are whole rows of the result."""
    block = min(phase.block for phase in phases)
    return [dataclasses.replace(phase, shared=block) for phase in phases]


def scratch(phases: Sequence[Phase]) -> int:
    """Return the elements of scratch memory for all input blocks; 0 if they fit the stack."""
    elements, first = max(phase.box_elements for phase in phases), phases[0]
    fits = elements * first.width <= first.tuning.input_block_bytes
    return 0 if fits else first.work_items * elements


def do_overlap(phases: Sequence[Phase]) -> bool:
    """Return whether blocks overlap, and so compute some results twice."""
    return len(phases[0].lines) == 1 and any(
        phase.lines[0].results % phases[0].block for phase in phases
    )


def panel_columns(phase: Phase) -> int:
    """Return the output features of a whole panel."""
    return VECTORS * lanes(phase.target.machine, phase.kind)


def panels(phase: Phase) -> list[tuple[int, int, int]]:
    """(first column, columns, count) of runs of equal panels of a group's output features."""
    width = panel_columns(phase)
    full, rest = divmod(phase.outputs, width)
    runs = [(0, width, full)] if full else []
    return runs + ([(full * width, rest, 1)] if rest else [])
